"""What the metering tier reads of the subscribers table, which may be in another Region."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.domain.stores import ClosingLicense


@dataclass(frozen=True, slots=True)
class DynamoDBSubscriberDirectory:
    """Implements :class:`awsmp.domain.stores.SubscriberDirectory`."""

    store: SubscribersStore

    def closing_licenses(self, now: datetime) -> list[ClosingLicense]:
        """See SubscriberDirectory."""
        return [
            ClosingLicense(tuple(sorted(found.license_arns)), found.customer_account, found.expiry)
            for found in self.store.deprovisioning(now)
        ]

    def activation_time(self, license_arn: str, customer_account: str) -> datetime | None:
        """See SubscriberDirectory."""
        return self.store.activation_time(license_arn, customer_account)
