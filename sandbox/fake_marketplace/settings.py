"""Switches: one per question on which sources about AWS Marketplace disagree, and the quota."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum

from sandbox.fake_marketplace import limits


class ProductCodeWithLicense(StrEnum):
    """The answer to a request that has ``ProductCode`` beside a record's ``LicenseArn``."""

    REFUSE = "refuse"
    TOLERATE = "tolerate"


class IdenticalResend(StrEnum):
    """The answer to a record that was honoured before with the same quantity."""

    SUCCESS = "Success"
    DUPLICATE_RECORD = "DuplicateRecord"


class DedupScope(StrEnum):
    """Where first-write-wins looks for an earlier record."""

    REGION = "region"
    GLOBAL = "global"


class BeforeActivation(StrEnum):
    """The answer to a timestamp before the license was activated."""

    INVALID_LICENSE = "InvalidLicenseException"
    CUSTOMER_NOT_SUBSCRIBED = "CustomerNotSubscribed"
    ACCEPT = "accept"


class UnknownCustomer(StrEnum):
    """The answer to a legacy customer identifier that the product has never seen."""

    INVALID_CUSTOMER_IDENTIFIER = "InvalidCustomerIdentifierException"
    CUSTOMER_NOT_SUBSCRIBED = "CustomerNotSubscribed"


class ResendAfterClose(StrEnum):
    """The answer to an identical resend of an honoured record once its subscription takes no more usage."""

    CUSTOMER_NOT_SUBSCRIBED = "CustomerNotSubscribed"
    AS_BEFORE = "as-before"


class LicenseArnText(StrEnum):
    """Spellings of a license ARN in license events (facts D)."""

    CANONICAL = "canonical"
    WITHOUT_PREFIX = "without-prefix"
    SLASH = "slash"
    REGION_SLASH = "region-slash"


class OpenEndText(StrEnum):
    """How an agreement without an end date is written into events."""

    FAR_FUTURE = "far-future"
    NULL = "null"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every switch, with the behaviour that the newest documentation states as default."""

    product_code_with_license: ProductCodeWithLicense = ProductCodeWithLicense.REFUSE
    identical_resend: IdenticalResend = IdenticalResend.SUCCESS
    resend_after_close: ResendAfterClose = ResendAfterClose.CUSTOMER_NOT_SUBSCRIBED
    dedup_scope: DedupScope = DedupScope.REGION
    before_activation: BeforeActivation = BeforeActivation.INVALID_LICENSE
    unknown_customer: UnknownCustomer = UnknownCustomer.INVALID_CUSTOMER_IDENTIFIER
    #: Buckets of one record must differ in their tags (older SDK documentation).
    distinct_tag_sets: bool = True
    max_usage_allocations: int = limits.MAX_ALLOCATIONS
    max_request_bytes: int = limits.MAX_REQUEST_BYTES
    #: A record of this age, in hours, or older is refused.
    window_hours: float = 24.0
    #: Hours into a month during which the previous month's records are still taken.
    month_end_grace_hours: float = 6.0
    #: Usage is taken for so long after License Deprovisioned; 0 closes it at once.
    deprovision_grace_seconds: float = 3600.0
    #: BatchMeterUsage requests per second and burst, per Region and account ("Service quotas").
    quota_rate: float = 10.0
    quota_burst: int = 10
    #: ResolveCustomer's quota is unpublished; 0 leaves it unlimited.
    resolve_quota_rate: float = 0.0
    resolve_quota_burst: int = 10
    token_life_seconds: float = 4 * 3600.0
    #: Whether a token that was resolved may be resolved again.
    token_repeatable: bool = True
    #: ResolveCustomer's ``Metadata.AgreementId`` is newer than most SDKs in use.
    agreement_id_in_metadata: bool = True
    license_arn_text: LicenseArnText = LicenseArnText.CANONICAL
    open_end_text: OpenEndText = OpenEndText.FAR_FUTURE
    #: Regions in which the API answers DisabledApiException.
    disabled_regions: tuple[str, ...] = ()
    #: The account that publishes the products; events carry it.
    seller_account: str = "123456789012"
    #: All ids, tokens and seeded choices derive from it.
    seed: int = 0

    def changed(self, values: Mapping[str, object]) -> Settings:
        """Return a copy with ``values`` (JSON types) replaced.

        Raises:
            ValueError: a name is unknown or a value does not fit its type.
        """
        hints = typing.get_type_hints(Settings)
        return replace(self, **{name: _coerce(name, value, hints) for name, value in values.items()})

    def to_json(self) -> dict[str, object]:
        """Return JSON types only."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def _coerce(name: str, value: object, hints: Mapping[str, typing.Any]) -> typing.Any:
    if name not in {item.name for item in fields(Settings)}:
        raise ValueError(f"unknown setting {name!r}")
    hint = hints[name]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(str(value))
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint in (int, bool, str) and type(value) is hint:
        return value
    if typing.get_origin(hint) is tuple and isinstance(value, list | tuple):
        return tuple(str(item) for item in value)
    raise ValueError(f"setting {name!r} cannot be {value!r}")
