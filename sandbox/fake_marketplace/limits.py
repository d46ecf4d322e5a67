"""What botocore's service model 1.44.8 says of a request, as constants and compiled rules.

``tests/contract/test_fake_marketplace_model.py`` compares every value here with the model that is
installed, so a change made by AWS breaks a test instead of passing unseen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: Records of one BatchMeterUsage request; shape ``UsageRecordList``.
MAX_RECORDS = 25
#: Buckets of one record; shape ``UsageAllocations``.
MAX_ALLOCATIONS = 2500
#: Tags of one bucket; shape ``TagList``.
MIN_TAGS = 1
MAX_TAGS = 5
#: Largest whole quantity; shapes ``UsageQuantity`` and ``AllocatedUsageQuantity``.
MAX_QUANTITY = 2_147_483_647
#: "Less than 1 MB" is all that the API reference says. The decimal megabyte is the stricter reading.
MAX_REQUEST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class TextRule:
    """Length and pattern of a string shape; lengths are in characters, ``None`` means unlimited."""

    shape: str
    minimum: int | None
    maximum: int | None
    pattern: str | None
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", re.compile(self.pattern or r"[\s\S]*"))

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is a string that satisfies length and pattern."""
        return (
            isinstance(value, str)
            and (self.minimum is None or len(value) >= self.minimum)
            and (self.maximum is None or len(value) <= self.maximum)
            and self._compiled.fullmatch(value) is not None
        )


DECIMAL_PATTERN = r"^(0|[1-9][0-9]{0,9})(\.[0-9]{1,6})?$"
TAG_PATTERN = r"^[a-zA-Z0-9+ -=._:\/@]+$"

DIMENSION = TextRule("UsageDimension", 1, 255, r"[\s\S]+")
QUANTITY_AS_DECIMAL = TextRule("UsageQuantityAsDecimalString", 1, 17, DECIMAL_PATTERN)
ALLOCATED_AS_DECIMAL = TextRule("AllocatedUsageQuantityAsDecimalString", 1, 17, DECIMAL_PATTERN)
CUSTOMER_AWS_ACCOUNT_ID = TextRule("CustomerAWSAccountId", 1, 255, r"^[0-9]+$")
CUSTOMER_IDENTIFIER = TextRule("CustomerIdentifier", 0, 255, r"[\s\S]*")
PRODUCT_CODE = TextRule("ProductCode", 0, 255, r"^[-a-zA-Z0-9/=:_.@]*$")
LICENSE_ARN = TextRule(
    "LicenseArn",
    None,
    None,
    r"^arn:aws[a-zA-Z-]*:[A-Za-z0-9][A-Za-z0-9_/.-]{0,62}:[A-Za-z0-9_/.-]{0,63}:[A-Za-z0-9_/.-]{0,63}"
    r":[A-Za-z0-9][A-Za-z0-9:_/+=,@.-]{0,1023}$",
)
TAG_KEY = TextRule("TagKey", 1, 100, TAG_PATTERN)
TAG_VALUE = TextRule("TagValue", 1, 256, TAG_PATTERN)
AGREEMENT_ID = TextRule("AgreementId", 1, 64, r"[A-Za-z0-9_/-]+")
REGISTRATION_TOKEN = TextRule("NonEmptyString", None, None, r"[\s\S]+")

TEXT_RULES: tuple[TextRule, ...] = (
    DIMENSION,
    QUANTITY_AS_DECIMAL,
    ALLOCATED_AS_DECIMAL,
    CUSTOMER_AWS_ACCOUNT_ID,
    CUSTOMER_IDENTIFIER,
    PRODUCT_CODE,
    LICENSE_ARN,
    TAG_KEY,
    TAG_VALUE,
    AGREEMENT_ID,
    REGISTRATION_TOKEN,
)
