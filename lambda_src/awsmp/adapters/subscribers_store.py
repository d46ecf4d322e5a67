"""The subscribers table in DynamoDB: compare-and-set writes, consistent reads, no Scan.

Only attributes that changed are written, so that attributes of the seller's own (a tenant id) survive, and
sets are added to, so that nothing that another writer adds is taken away. ``version`` counts our writes and
carries the compare-and-set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from awsmp.adapters.client_errors import translated
from awsmp.adapters.dynamodb import DynamoDBClient, from_wire, pages, to_wire
from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import format_instant, parse_instant
from awsmp.domain.license_arns import InvalidLicenseArn, row_key, same_license
from awsmp.domain.lifecycle_events import EventKind, Stamp
from awsmp.domain.ports import Clock
from awsmp.domain.subscribers import AgreementStatus, SubscriberRow, SubscriptionStatus, join
from awsmp.usecases.deprovision_cleanup import PendingDeprovisioning

ACCOUNT_INDEX: Final = "customerAWSAccountId-index"
AGREEMENT_INDEX: Final = "agreementId-index"
DEPROVISIONING_INDEX: Final = "deprovisioning-pending-index"

#: The flag's only value; it puts all deprovisioning licences into one partition of the sparse index.
PENDING_FLAG: Final = "1"

_T = TypeVar("_T")

_REGISTERS: Final = {
    "identity": "identity_stamp",
    "subscription": "subscription_stamp",
    "agreement": "agreement_stamp",
    "endTime": "end_time_stamp",
    "autoRenewal": "auto_renewal_stamp",
}


class MalformedRow(MeteringError):
    """A subscriber row holds what we never write; somebody has to look at it."""


@dataclass(frozen=True, slots=True)
class DeprovisioningLicense:
    """A licence in its last hour: every text under which its usage may stand, and when usage ends."""

    license_arns: frozenset[str]
    customer_account: str
    expiry: datetime


@dataclass(frozen=True, slots=True)
class SubscribersStore:
    """The table of one seller. Every method may raise StoreUnavailable, Misconfigured or MalformedRow."""

    client: DynamoDBClient
    table: str
    clock: Clock

    def find(self, license_arn: str, customer_account: str) -> list[SubscriberRow]:
        """Return all rows of one licence and account.

        The row under the licence's own key is read consistently. One that stands under another text is
        found through the account index, which may lag by moments, and then read consistently.
        """
        keys = [_key(license_arn)]
        for item in self._query(
            ACCOUNT_INDEX, "customerAWSAccountId", customer_account, "subscribers by account"
        ):
            key = item["licenseArn"]
            if key not in keys and same_license(key, license_arn):
                keys.append(key)
        rows = (self._read(key, customer_account) for key in keys)
        return [row for row in rows if row is not None]

    def get(self, license_arn: str, customer_account: str) -> SubscriberRow | None:
        """Return the licence's state under whatever spelling, None when it is unknown here.

        One consistent read where the row stands under its own key; else as :meth:`find`.
        """
        row = self._read(_key(license_arn), customer_account)
        return row if row is not None else join(self.find(license_arn, customer_account))

    def activation_time(self, license_arn: str, customer_account: str) -> datetime | None:
        """Return when the licence was first in force, None when no License Updated has been applied."""
        row = self.get(license_arn, customer_account)
        return None if row is None else row.activation_time

    def of_agreement(self, agreement_id: str) -> list[tuple[str, str]]:
        """Return the (licence, account) keys that the agreement index shows."""
        items = self._query(AGREEMENT_INDEX, "agreementId", agreement_id, "subscribers by agreement")
        return [(item["licenseArn"], item["customerAWSAccountId"]) for item in items]

    def deprovisioning(self, now: datetime) -> list[DeprovisioningLicense]:
        """Return the licences whose hour for final usage is running at ``now`` (expiry after ``now``).

        The index is asked, then each row consistently: what has been revived or finalised since is left out.
        A row that cannot be read keeps no other licence from its flush, nor itself: the index alone knows
        enough of it.
        """
        found = (self._deprovisioning_of(pending) for pending in self._pending("#expiry > :now", now))
        return [license_ for license_ in found if license_ is not None and license_.expiry > now]

    def _deprovisioning_of(self, pending: PendingDeprovisioning) -> DeprovisioningLicense | None:
        try:
            row = self._read(pending.license_arn, pending.customer_account)
        except MalformedRow:
            return DeprovisioningLicense(
                frozenset({pending.license_arn}), pending.customer_account, pending.expiry
            )
        if row is None or row.deprovisioning_expiry is None:
            return None
        return DeprovisioningLicense(
            license_arns=row.license_arn_spellings | {row.license_arn},
            customer_account=row.customer_account,
            expiry=row.deprovisioning_expiry,
        )

    def expired(self, now: datetime) -> list[PendingDeprovisioning]:
        """Return the index entries whose expiry is at or before ``now``, oldest first."""
        return self._pending("#expiry <= :now", now)

    def finalize(self, pending: PendingDeprovisioning) -> None:
        """Make the row inactive and remove both markers, if they still are as ``pending`` says.

        Raises
        ------
        ConditionFailed
            The row was finalised, revived or deprovisioned anew.
        """
        with translated("finalize subscriber"):
            self.client.update_item(
                TableName=self.table,
                Key=to_wire(
                    {"licenseArn": pending.license_arn, "customerAWSAccountId": pending.customer_account}
                ),
                UpdateExpression=(
                    "SET #status = :inactive, #updated = :now REMOVE #flag, #expiry ADD #version :one"
                ),
                ConditionExpression="#flag = :flag AND #expiry = :expiry",
                ExpressionAttributeNames={
                    "#status": "subscriptionStatus",
                    "#updated": "updatedAt",
                    "#flag": "deprovisioningPendingFlag",
                    "#expiry": "deprovisioningExpiry",
                    "#version": "version",
                },
                ExpressionAttributeValues=to_wire(
                    {
                        ":inactive": SubscriptionStatus.INACTIVE.value,
                        ":now": format_instant(self.clock.now()),
                        ":flag": PENDING_FLAG,
                        ":expiry": format_instant(pending.expiry),
                        ":one": 1,
                    }
                ),
            )

    def write(self, old: SubscriberRow | None, new: SubscriberRow) -> None:
        """Change the row from ``old`` to ``new``; ``old`` None makes it.

        A row that only the seller has touched has no version: the first write takes it over.

        Raises
        ------
        ConditionFailed
            Somebody else has written the row since ``old`` was read.
        """
        update = _Update()
        before = {} if old is None else _attributes(old)
        for name, value in _attributes(new).items():
            update.change(name, before.get(name), value)
        now = format_instant(self.clock.now())
        update.set("updatedAt", now)
        update.set_once("createdAt", now)
        update.add("version", 1)
        version = 0 if old is None else old.version
        condition = "attribute_not_exists(#version)"
        if version:
            update.values[":read"] = version
            condition = "#version = :read"
        with translated("write subscriber"):
            self.client.update_item(
                TableName=self.table,
                Key=to_wire({"licenseArn": new.license_arn, "customerAWSAccountId": new.customer_account}),
                UpdateExpression=update.expression(),
                ConditionExpression=condition,
                ExpressionAttributeNames=update.names,
                ExpressionAttributeValues=to_wire(update.values),
            )

    def _read(self, license_arn: str, customer_account: str) -> SubscriberRow | None:
        with translated("read subscriber"):
            answer = self.client.get_item(
                TableName=self.table,
                Key=to_wire({"licenseArn": license_arn, "customerAWSAccountId": customer_account}),
                ConsistentRead=True,
            )
        item = answer.get("Item")
        return None if item is None else row_from_item(item)

    def _query(self, index: str, key: str, value: str, operation: str) -> Iterator[dict[str, Any]]:
        for page in pages(
            self.client,
            operation,
            TableName=self.table,
            IndexName=index,
            KeyConditionExpression="#key = :value",
            ProjectionExpression="licenseArn, customerAWSAccountId",
            ExpressionAttributeNames={"#key": key},
            ExpressionAttributeValues=to_wire({":value": value}),
        ):
            yield from map(from_wire, page["Items"])

    def _pending(self, expiry_condition: str, now: datetime) -> list[PendingDeprovisioning]:
        found = pages(
            self.client,
            "subscribers by deprovisioning expiry",
            TableName=self.table,
            IndexName=DEPROVISIONING_INDEX,
            KeyConditionExpression=f"#flag = :flag AND {expiry_condition}",
            ExpressionAttributeNames={
                "#flag": "deprovisioningPendingFlag",
                "#expiry": "deprovisioningExpiry",
            },
            ExpressionAttributeValues=to_wire({":flag": PENDING_FLAG, ":now": format_instant(now)}),
        )
        return [
            PendingDeprovisioning(
                license_arn=item["licenseArn"],
                customer_account=item["customerAWSAccountId"],
                expiry=_instant(item, "deprovisioningExpiry"),
            )
            for page in found
            for item in map(from_wire, page["Items"])
        ]


def row_from_item(item: Mapping[str, Any]) -> SubscriberRow:
    """Return the row that an item (attribute values, as a read or a stream image gives them) stands for.

    Attributes that are not ours are left out.

    Raises
    ------
    MalformedRow
        A status, time or stamp has a form that we never write.
    """
    plain = from_wire(item)
    try:
        stamps = {
            _REGISTERS[register]: Stamp(parse_instant(stamp["time"]), EventKind(stamp["type"]), stamp["id"])
            for register, stamp in plain.get("appliedEvents", {}).items()
        }
        return SubscriberRow(
            license_arn=plain["licenseArn"],
            customer_account=plain["customerAWSAccountId"],
            license_arn_spellings=frozenset(plain.get("licenseArnSpellings", ())),
            product_code=plain.get("productCode"),
            agreement_id=plain.get("agreementId"),
            subscription_status=_optional(SubscriptionStatus, plain.get("subscriptionStatus")),
            deprovisioning_expiry=_optional(parse_instant, plain.get("deprovisioningExpiry")),
            agreement_status=_optional(AgreementStatus, plain.get("agreementStatus")),
            agreement_status_reason=plain.get("agreementStatusReason"),
            end_time=_optional(parse_instant, plain.get("endTime")),
            auto_renewal=plain.get("autoRenewal"),
            activation_time=_optional(parse_instant, plain.get("activationTime")),
            home_region=plain.get("homeRegion"),
            registered_regions=frozenset(plain.get("registeredRegions", ())),
            version=int(plain.get("version", 0)),
            **stamps,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedRow(f"a subscriber row cannot be read: {type(error).__name__}") from error


def _key(license_arn: str) -> str:
    """An id that is no ARN (a product older than Concurrent Agreements) stands for itself."""
    try:
        return row_key(license_arn)
    except InvalidLicenseArn:
        return license_arn


def _instant(item: Mapping[str, Any], name: str) -> datetime:
    try:
        return parse_instant(item[name])
    except ValueError as error:
        raise MalformedRow(f"a subscriber row's {name} is no time") from error


def _optional(convert: Callable[[str], _T], value: str | None) -> _T | None:
    return None if value is None else convert(value)


def _attributes(row: SubscriberRow) -> dict[str, Any]:
    """The row's attributes without its keys; None and the empty set mean that there is none."""
    pending = row.deprovisioning_expiry is not None
    return {
        "licenseArnSpellings": row.license_arn_spellings,
        "productCode": row.product_code,
        "agreementId": row.agreement_id,
        "agreementStatus": row.agreement_status and row.agreement_status.value,
        "agreementStatusReason": row.agreement_status_reason,
        "subscriptionStatus": row.subscription_status and row.subscription_status.value,
        "deprovisioningPendingFlag": PENDING_FLAG if pending else None,
        "deprovisioningExpiry": _text(row.deprovisioning_expiry),
        "endTime": _text(row.end_time),
        "autoRenewal": row.auto_renewal,
        "activationTime": _text(row.activation_time),
        "homeRegion": row.home_region,
        "registeredRegions": row.registered_regions,
        "appliedEvents": _stamps(row),
    }


def _stamps(row: SubscriberRow) -> dict[str, dict[str, str]] | None:
    stamps = {register: getattr(row, attribute) for register, attribute in _REGISTERS.items()}
    return {
        register: {"time": format_instant(stamp.time), "type": stamp.kind.value, "id": stamp.event_id}
        for register, stamp in stamps.items()
        if stamp is not None
    } or None


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)


class _Update:
    """Builds one update expression, clause by clause."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self._set: list[str] = []
        self._remove: list[str] = []
        self._add: list[str] = []

    def change(self, name: str, before: Any, after: Any) -> None:
        """Write what differs; a set only ever gains members."""
        if before == after:
            return
        if isinstance(after, frozenset):
            added = after - (before or frozenset())
            if added:
                self.add(name, added)
        elif after is None:
            self._remove.append(self._name(name))
        else:
            self.set(name, after)

    def set(self, name: str, value: Any) -> None:
        self._set.append(f"{self._name(name)} = {self._value(name, value)}")

    def set_once(self, name: str, value: Any) -> None:
        self._set.append(f"{self._name(name)} = if_not_exists(#{name}, {self._value(name, value)})")

    def add(self, name: str, value: Any) -> None:
        self._add.append(f"{self._name(name)} {self._value(name, value)}")

    def expression(self) -> str:
        clauses = (("SET", self._set), ("REMOVE", self._remove), ("ADD", self._add))
        return " ".join(f"{word} {', '.join(terms)}" for word, terms in clauses if terms)

    def _name(self, name: str) -> str:
        self.names[f"#{name}"] = name
        return f"#{name}"

    def _value(self, name: str, value: Any) -> str:
        self.values[f":{name}"] = value
        return f":{name}"
