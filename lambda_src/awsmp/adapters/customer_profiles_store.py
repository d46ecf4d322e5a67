"""The customer-profile table: buyers' form data, in the Region where they registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from awsmp.adapters.client_errors import translated
from awsmp.adapters.dynamodb import DynamoDBClient, to_wire
from awsmp.domain.customer_profiles import CustomerProfile
from awsmp.domain.errors import ConditionFailed
from awsmp.domain.hours import format_instant
from awsmp.domain.ports import Clock


@dataclass(frozen=True, slots=True)
class CustomerProfilesStore:
    """Implements :class:`awsmp.usecases.register.CustomerProfiles`.

    ``promoted`` names the form fields that are copied to attributes of their own, where an index finds them.
    """

    client: DynamoDBClient
    table: str
    promoted: frozenset[str]
    clock: Clock

    def put_if_absent(self, profile: CustomerProfile) -> bool:
        """See CustomerProfiles.

        If an answer was lost and the SDK repeated the call, its own first write counts as one already
        there: the outcome then says "already registered" of a buyer who has just become so.
        """
        now = format_instant(self.clock.now())
        item = {**self._item(profile), "createdAt": now, "updatedAt": now}
        try:
            with translated("write customer profile"):
                self.client.put_item(
                    TableName=self.table,
                    Item=to_wire(item),
                    ConditionExpression="attribute_not_exists(#license)",
                    ExpressionAttributeNames={"#license": "licenseArn"},
                )
        except ConditionFailed:
            return False
        return True

    def _item(self, profile: CustomerProfile) -> dict[str, Any]:
        data = dict(profile.registration_data)
        attributes = {name: data[name] for name in self.promoted if name in data}
        known = {"agreementId": profile.agreement_id, "offerType": profile.offer_type}
        return {
            **attributes,
            **{name: value for name, value in known.items() if value is not None},
            "licenseArn": profile.license_arn,
            "customerAWSAccountId": profile.customer_account,
            "productCode": profile.product_code,
            "registrationData": data,
        }
