"""ResolveCustomer through boto3: whose token it is, or why it is nobody's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from botocore.exceptions import ClientError

from awsmp.adapters.client_errors import translated
from awsmp.domain.customer_profiles import RefusalCode, RegistrationRefused, ResolvedCustomer
from awsmp.domain.errors import Misconfigured

#: ResolveCustomer's answers that tell of the token, or that another moment may change (botocore model).
#: A token that the service's front end cannot take is as invalid as an unknown one.
_REFUSALS: Final[Mapping[str, RefusalCode]] = {
    "ExpiredTokenException": RefusalCode.EXPIRED_TOKEN,
    "InvalidTokenException": RefusalCode.INVALID_TOKEN,
    "SerializationException": RefusalCode.INVALID_TOKEN,
    "ValidationException": RefusalCode.INVALID_TOKEN,
    "RequestLimitExceeded": RefusalCode.THROTTLED,
    "ThrottlingException": RefusalCode.THROTTLED,
    "TooManyRequestsException": RefusalCode.THROTTLED,
}


class TokensClient(Protocol):
    """The call of boto3's ``meteringmarketplace`` client that we make."""

    def resolve_customer(self, **kwargs: Any) -> dict[str, Any]:
        """Resolve one registration token."""
        ...


@dataclass(frozen=True, slots=True)
class ResolveCustomer:
    """Implements :class:`awsmp.usecases.register.RegistrationTokens`."""

    client: TokensClient

    def resolve(self, token: str) -> ResolvedCustomer:
        """See RegistrationTokens; ``CustomerIdentifier`` is legacy and empty for new products, so unused."""
        with translated("ResolveCustomer"):
            try:
                answer = self.client.resolve_customer(RegistrationToken=token)
            except ClientError as error:
                code = str(error.response.get("Error", {}).get("Code", ""))
                if code in _REFUSALS:
                    raise RegistrationRefused(_REFUSALS[code]) from error
                if code == "DisabledApiException":
                    raise Misconfigured(
                        "ResolveCustomer is not available in this Region: see marketplace_region"
                    ) from error
                raise
        return ResolvedCustomer(
            product_code=answer.get("ProductCode") or None,
            license_arn=answer.get("LicenseArn") or None,
            customer_account=answer.get("CustomerAWSAccountId") or None,
            agreement_id=(answer.get("Metadata") or {}).get("AgreementId") or None,
        )
