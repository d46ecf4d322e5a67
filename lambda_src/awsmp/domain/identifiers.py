"""Identifiers that BatchMeterUsage takes, their limits, and the keys that we build from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from awsmp.domain.hours import bucket_of
from awsmp.domain.reasons import ValidationReason

#: Longest dimension name (botocore model of UsageRecord).
MAX_DIMENSION: Final = 255

# The LicenseArn pattern of botocore's service model.
_LICENSE_ARN = re.compile(
    r"arn:aws[a-zA-Z-]*:[A-Za-z0-9][A-Za-z0-9_/.-]{0,62}:[A-Za-z0-9_/.-]{0,63}"
    r":[A-Za-z0-9_/.-]{0,63}:[A-Za-z0-9][A-Za-z0-9:_/+=,@.-]{0,1023}",
    re.ASCII,
)
_ACCOUNT = re.compile(r"[0-9]{1,255}", re.ASCII)


def is_license_arn(text: str) -> bool:
    """Tell whether the API would take ``text`` as a ``LicenseArn``."""
    return _LICENSE_ARN.fullmatch(text) is not None


def is_customer_account(text: str) -> bool:
    """Tell whether the API would take ``text`` as a ``CustomerAWSAccountId``."""
    return _ACCOUNT.fullmatch(text) is not None


def mask(text: str) -> str:
    """Return the last four characters of an account id or licence ARN, for logs."""
    return f"...{text[-4:]}"


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """One licence, account, dimension and hour: the unit of aggregation, billing and isolation."""

    license_arn: str
    customer_account: str
    dimension: str
    hour: datetime

    @property
    def bucket(self) -> str:
        """The hour bucket, ``YYYY-MM-DDTHH``."""
        return bucket_of(self.hour)

    @property
    def row_prefix(self) -> str:
        """What every raw row's sort key begins with; the rest is ``:MM:SS``."""
        return f"{self.customer_account}#{self.dimension}#{self.bucket}"

    @property
    def ledger_sort_key(self) -> str:
        """The sort key of the group's ledger record."""
        return f"{self.customer_account}#{self.dimension}#{self.bucket}"

    def reason(self, *, legacy: bool = False) -> ValidationReason | None:
        """Return why nothing of this group can ever be sent, or None.

        ``legacy`` admits an id that is no ARN, for products that predate Concurrent Agreements.
        """
        if not legacy and not is_license_arn(self.license_arn):
            return ValidationReason.INVALID_LICENSE_ARN
        if not is_customer_account(self.customer_account):
            return ValidationReason.INVALID_CUSTOMER_ACCOUNT
        if not 1 <= len(self.dimension) <= MAX_DIMENSION:
            return ValidationReason.INVALID_DIMENSION
        return None


def row_sort_key(customer_account: str, dimension: str, timestamp: str) -> str:
    """Return the sort key of a raw row; ``timestamp`` is ``YYYY-MM-DDTHH:MM:SS``, UTC."""
    return f"{customer_account}#{dimension}#{timestamp}"
