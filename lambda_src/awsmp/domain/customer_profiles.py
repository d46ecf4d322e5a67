"""A registered buyer: what a registration request may hold, why it is refused, and the profile it makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from awsmp.domain.errors import MeteringError, Misconfigured
from awsmp.domain.fulfillment import accepted_offer_type, is_token
from awsmp.domain.identifiers import is_customer_account
from awsmp.domain.license_arns import InvalidLicenseArn, row_key
from awsmp.domain.registration_fields import FieldCode, FieldType, RegistrationField, accept_all

#: Longest registration request, in bytes.
MAX_REQUEST_BYTES: Final = 32 * 1024

#: What a profile's attributes are called; a promoted field cannot take one of these names.
PROFILE_ATTRIBUTES: Final = frozenset(
    {
        "licenseArn",
        "customerAWSAccountId",
        "registrationData",
        "contacts",
        "productCode",
        "agreementId",
        "offerType",
        "createdAt",
        "updatedAt",
    }
)


class RefusalCode(StrEnum):
    """Why a registration is refused; the page has a sentence for each."""

    MALFORMED_REQUEST = "MalformedRequest"
    TOO_LARGE = "TooLarge"
    INVALID_FIELDS = "InvalidFields"
    INVALID_TOKEN = "InvalidToken"  # noqa: S105 - a code of the API
    EXPIRED_TOKEN = "ExpiredToken"  # noqa: S105 - a code of the API
    WRONG_PRODUCT = "WrongProduct"
    MISSING_LICENSE = "MissingLicense"
    THROTTLED = "Throttled"


class RegistrationRefused(MeteringError):
    """The registration is refused and nothing was stored; ``fields`` only with INVALID_FIELDS."""

    def __init__(self, code: RefusalCode, fields: Mapping[str, FieldCode] | None = None) -> None:
        super().__init__(f"the registration is refused: {code.value}")
        self.code = code
        self.fields = dict(fields or {})


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """What the page sends; the texts are never logged."""

    token: str = field(repr=False)
    offer_type: str | None = field(repr=False)
    values: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResolvedCustomer:
    """What AWS Marketplace says of a token. Only these identify a buyer, never what the browser sent."""

    product_code: str | None
    license_arn: str | None
    customer_account: str | None
    agreement_id: str | None


@dataclass(frozen=True, slots=True)
class CustomerProfile:
    """One licence of one buyer account, with the form data; it stays in its Region.

    ``license_arn`` is the licence's row key, the same as in the subscribers table.
    """

    license_arn: str
    customer_account: str
    product_code: str
    agreement_id: str | None = None
    offer_type: str | None = None
    registration_data: Mapping[str, str | bool] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class RegistrationForm:
    """The seller's fields, and the names of those that become attributes of their own (for an index)."""

    fields: tuple[RegistrationField, ...] = ()
    promoted: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Check the promoted names.

        Raises
        ------
        Misconfigured
            One is no field, is an attribute of every profile, or is a checkbox, which no index takes.
        """
        types = {each.name: each.type for each in self.fields}
        for name in sorted(self.promoted):
            if types.get(name) in (None, FieldType.CHECKBOX) or name in PROFILE_ATTRIBUTES:
                raise Misconfigured(f"the field {name!r} cannot be promoted to an attribute")

    def accept(self, values: Mapping[str, object]) -> dict[str, str | bool]:
        """Return the values to store.

        Raises
        ------
        RegistrationRefused
            INVALID_FIELDS, with the code of every field that is not accepted.
        """
        accepted, faults = accept_all(self.fields, values)
        if faults:
            raise RegistrationRefused(RefusalCode.INVALID_FIELDS, faults)
        return accepted


def parse_request(body: bytes) -> RegistrationRequest:
    """Return the request in a JSON body; members that are not ours are left out.

    An offer type of no acceptable form is dropped, as on the way here.

    Raises
    ------
    RegistrationRefused
        TOO_LARGE, MALFORMED_REQUEST, or INVALID_TOKEN for a text that is no token.
    """
    if len(body) > MAX_REQUEST_BYTES:
        raise RegistrationRefused(RefusalCode.TOO_LARGE)
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RegistrationRefused(RefusalCode.MALFORMED_REQUEST) from error
    if not isinstance(request, dict):
        raise RegistrationRefused(RefusalCode.MALFORMED_REQUEST)
    token, offer_type, values = request.get("token"), request.get("offerType"), request.get("fields", {})
    if not isinstance(token, str) or not isinstance(offer_type, str | None) or not isinstance(values, dict):
        raise RegistrationRefused(RefusalCode.MALFORMED_REQUEST)
    if not is_token(token):
        raise RegistrationRefused(RefusalCode.INVALID_TOKEN)
    return RegistrationRequest(token, accepted_offer_type(offer_type), values)


def profile_of(
    customer: ResolvedCustomer,
    product_code: str,
    offer_type: str | None,
    registration_data: Mapping[str, str | bool],
) -> CustomerProfile:
    """Return the profile of a resolved customer of the product ``product_code``.

    Raises
    ------
    RegistrationRefused
        WRONG_PRODUCT, or MISSING_LICENSE where AWS names no licence or no account: without them usage could
        not be attributed, so the registration is not accepted half.
    """
    if customer.product_code != product_code:
        raise RegistrationRefused(RefusalCode.WRONG_PRODUCT)
    license_arn, account = customer.license_arn, customer.customer_account
    if license_arn is None or account is None or not is_customer_account(account):
        raise RegistrationRefused(RefusalCode.MISSING_LICENSE)
    try:
        key = row_key(license_arn)
    except InvalidLicenseArn as error:
        raise RegistrationRefused(RefusalCode.MISSING_LICENSE) from error
    return CustomerProfile(key, account, product_code, customer.agreement_id, offer_type, registration_data)
