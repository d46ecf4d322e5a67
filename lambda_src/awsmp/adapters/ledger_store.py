"""The aggregated-usage table in DynamoDB: compare-and-set on ``version``, no Scan.

Only what changed is written, so that attributes of the seller's own survive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from awsmp.adapters.client_errors import translated
from awsmp.adapters.dynamodb import (
    DynamoDBClient,
    Statement,
    StatementResult,
    batch_get,
    execute,
    from_wire,
    pages,
    to_wire,
    value_to_wire,
)
from awsmp.domain.direct_inputs import INPUT_ATTRIBUTES
from awsmp.domain.errors import ConditionFailed, ForeignLedgerItem
from awsmp.domain.hours import format_instant
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import LEDGER_SORT_KEY, LedgerRecord, from_item, ledger_sort_key, to_item
from awsmp.domain.ports import Clock
from awsmp.domain.stores import LedgerKey, SwapResult

PENDING_INDEX: Final = "metering_pending"

# The lease lives beside the records under a partition key that no licence can have.
_LEASE_KEY: Final = {"licenseArn": "internal#submitter", LEDGER_SORT_KEY: "lease"}

_SWAP_RESULTS: Final = {
    StatementResult.DONE: SwapResult.DONE,
    StatementResult.CONDITION_FAILED: SwapResult.CONDITION_FAILED,
    StatementResult.UNAVAILABLE: SwapResult.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class DynamoDBLedgerStore:
    """Implements :class:`awsmp.domain.stores.LedgerStore`."""

    client: DynamoDBClient
    table: str
    clock: Clock

    def get(self, group: Group, *, direct: bool = False) -> LedgerRecord | None:
        """See LedgerStore."""
        key = {"licenseArn": group.license_arn, LEDGER_SORT_KEY: ledger_sort_key(group, direct=direct)}
        with translated("GetItem aggregated-usage"):
            answer = self.client.get_item(TableName=self.table, Key=to_wire(key), ConsistentRead=True)
        if "Item" not in answer:
            return None
        try:
            return from_item(from_wire(answer["Item"]))
        except ValueError as error:
            raise ForeignLedgerItem(
                "the group's ledger key is taken by an item that is no record of ours (a direct-submit input "
                "or one edited by hand); its usage rows stay pending until the item is moved away"
            ) from error

    def create_many(self, records: Sequence[LedgerRecord]) -> list[SwapResult]:
        """See LedgerStore."""
        statements = [_insert_statement(self.table, record) for record in records]
        return [_SWAP_RESULTS[result] for result in execute(self.client, self.clock, statements)]

    def create(self, record: LedgerRecord) -> bool:
        """See LedgerStore."""
        try:
            with translated("PutItem aggregated-usage"):
                self.client.put_item(
                    TableName=self.table,
                    Item=to_wire(to_item(record)),
                    ConditionExpression="attribute_not_exists(licenseArn)",
                )
        except ConditionFailed:
            return False
        return True

    def swap(self, before: LedgerRecord, after: LedgerRecord) -> bool:
        """See LedgerStore."""
        old, new = to_item(before), to_item(after)
        names, values = {"#version": "version"}, dict[str, Any]()
        sets, removes = list[str](), list[str]()
        for number, (name, value) in enumerate(_changes(old, new)):
            names[f"#c{number}"] = name
            if value is None:
                removes.append(f"#c{number}")
            else:
                values[f":c{number}"] = value
                sets.append(f"#c{number} = :c{number}")
        values[":before"] = before.version
        expression = f"SET {', '.join(sets)}" + (f" REMOVE {', '.join(removes)}" if removes else "")
        try:
            with translated("UpdateItem aggregated-usage"):
                self.client.update_item(
                    TableName=self.table,
                    Key=to_wire({"licenseArn": before.group.license_arn, LEDGER_SORT_KEY: before.sort_key}),
                    UpdateExpression=expression,
                    ConditionExpression="#version = :before",
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=to_wire(values),
                )
        except ConditionFailed:
            return False
        return True

    def swap_many(self, pairs: Sequence[tuple[LedgerRecord, LedgerRecord]]) -> list[SwapResult]:
        """See LedgerStore."""
        statements = [_swap_statement(self.table, before, after) for before, after in pairs]
        return [_SWAP_RESULTS[result] for result in execute(self.client, self.clock, statements)]

    def pending_keys(self, bucket: str, license_arn: str | None = None) -> Iterator[LedgerKey]:
        """See LedgerStore."""
        condition, values, names = "#mp = :mp", {":mp": bucket}, {"#mp": "meteringPending"}
        if license_arn is not None:
            condition += " AND #la = :la"
            values[":la"] = license_arn
            names["#la"] = "licenseArn"
        for page in pages(
            self.client,
            "Query metering_pending",
            TableName=self.table,
            IndexName=PENDING_INDEX,
            KeyConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_wire(values),
        ):
            for item in page["Items"]:
                yield LedgerKey(item["licenseArn"]["S"], item[LEDGER_SORT_KEY]["S"])

    def items(self, keys: Sequence[LedgerKey]) -> list[Mapping[str, object]]:
        """See LedgerStore; in the order of ``keys``, so that the oldest stay first."""
        wire = [to_wire({"licenseArn": key.license_arn, LEDGER_SORT_KEY: key.sort_key}) for key in keys]
        found = {
            LedgerKey(item["licenseArn"], item[LEDGER_SORT_KEY]): item
            for item in batch_get(self.client, self.clock, self.table, wire)
        }
        return [found[key] for key in keys if key in found]

    def settle_inputs(
        self, inputs: Sequence[tuple[Mapping[str, object], str | None, str | None]], *, now: datetime
    ) -> list[SwapResult]:
        """See LedgerStore.

        Scalar inputs go out 25 a request; one with allocations is compared as a whole list, alone.
        """
        scalar = [each for each in inputs if "usageAllocations" not in each[0]]
        statements = [_settle_statement(self.table, *each, now=now) for each in scalar]
        done = dict(zip(map(id, scalar), execute(self.client, self.clock, statements), strict=True))
        results = []
        for each in inputs:
            if id(each) in done:
                results.append(_SWAP_RESULTS[done[id(each)]])
            else:
                settled = self.settle_input(each[0], status=each[1], reason=each[2], now=now)
                results.append(SwapResult.DONE if settled else SwapResult.CONDITION_FAILED)
        return results

    def settle_input(
        self, item: Mapping[str, object], *, status: str | None, reason: str | None, now: datetime
    ) -> bool:
        """See LedgerStore."""
        names, values = {"#mp": "meteringPending", "#up": "updatedAt", "#fd": "foldDigest"}, dict[str, Any]()
        values[":mp"], values[":up"] = item["meteringPending"], format_instant(now)
        conditions = ["#mp = :mp", "attribute_not_exists(#fd)"]
        for number, name in enumerate(INPUT_ATTRIBUTES):
            names[f"#i{number}"] = name
            if name in item:
                values[f":i{number}"] = item[name]
                conditions.append(f"#i{number} = :i{number}")
            else:
                conditions.append(f"attribute_not_exists(#i{number})")
        sets = ["#up = :up"]
        for placeholder, name, value in (
            ("st", "meteringStatus", status),
            ("re", "meteringStatusReason", reason),
        ):
            if value is not None:
                names[f"#{placeholder}"], values[f":{placeholder}"] = name, str(value)
                sets.append(f"#{placeholder} = :{placeholder}")
        try:
            with translated("UpdateItem aggregated-usage"):
                self.client.update_item(
                    TableName=self.table,
                    Key=to_wire({name: item[name] for name in ("licenseArn", LEDGER_SORT_KEY)}),
                    UpdateExpression=f"SET {', '.join(sets)} REMOVE #mp",
                    ConditionExpression=" AND ".join(conditions),
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=to_wire(values),
                )
        except ConditionFailed:
            return False
        return True

    def acquire_lease(self, owner: str, *, now: datetime, until: datetime) -> bool:
        """See LedgerStore."""
        try:
            with translated("UpdateItem lease"):
                self.client.update_item(
                    TableName=self.table,
                    Key=to_wire(_LEASE_KEY),
                    UpdateExpression="SET #owner = :owner, #until = :until",
                    ConditionExpression="attribute_not_exists(#owner) OR #owner = :owner OR #until <= :now",
                    ExpressionAttributeNames={"#owner": "leaseOwner", "#until": "leasedUntil"},
                    ExpressionAttributeValues=to_wire(
                        {":owner": owner, ":until": format_instant(until), ":now": format_instant(now)}
                    ),
                )
        except ConditionFailed:
            return False
        return True

    def release_lease(self, owner: str) -> None:
        """See LedgerStore."""
        try:
            with translated("UpdateItem lease"):
                self.client.update_item(
                    TableName=self.table,
                    Key=to_wire(_LEASE_KEY),
                    UpdateExpression="REMOVE #owner, #until",
                    ConditionExpression="#owner = :owner",
                    ExpressionAttributeNames={"#owner": "leaseOwner", "#until": "leasedUntil"},
                    ExpressionAttributeValues=to_wire({":owner": owner}),
                )
        except ConditionFailed:
            # The lease ran out and is another sender's by now; giving it back would take it from them.
            return


def _settle_statement(
    table: str, item: Mapping[str, object], status: str | None, reason: str | None, *, now: datetime
) -> Statement:
    changes, values = ['SET "updatedAt"=?'], list[object]([format_instant(now)])
    for name, value in (("meteringStatus", status), ("meteringStatusReason", reason)):
        if value is not None:
            changes.append(f'SET "{name}"=?')
            values.append(str(value))
    conditions = [
        '"licenseArn"=?',
        f'"{LEDGER_SORT_KEY}"=?',
        '"meteringPending"=?',
        '"foldDigest" IS MISSING',
    ]
    values += [item["licenseArn"], item[LEDGER_SORT_KEY], item["meteringPending"]]
    for name in INPUT_ATTRIBUTES:
        if name in item:
            conditions.append(f'"{name}"=?')
            values.append(item[name])
        else:
            conditions.append(f'"{name}" IS MISSING')
    text = f'UPDATE "{table}" {" ".join(changes)} REMOVE "meteringPending" WHERE {" AND ".join(conditions)}'
    return Statement(text, tuple(value_to_wire(value) for value in values))


def _insert_statement(table: str, record: LedgerRecord) -> Statement:
    item = to_item(record)
    members = ", ".join(f"'{name}': ?" for name in item)
    text = f'INSERT INTO "{table}" VALUE {{{members}}}'
    return Statement(text, tuple(value_to_wire(value) for value in item.values()))


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> list[tuple[str, object]]:
    changed = [(name, value) for name, value in new.items() if old.get(name) != value]
    return changed + [(name, None) for name in old if name not in new]


def _swap_statement(table: str, before: LedgerRecord, after: LedgerRecord) -> Statement:
    clauses, parameters = list[str](), list[Any]()
    for name, value in _changes(to_item(before), to_item(after)):
        if value is None:
            clauses.append(f'REMOVE "{name}"')
        else:
            clauses.append(f'SET "{name}"=?')
            parameters.append(value)
    text = (
        f'UPDATE "{table}" {" ".join(clauses)} WHERE "licenseArn"=? AND "{LEDGER_SORT_KEY}"=? AND "version"=?'
    )
    parameters += [before.group.license_arn, before.sort_key, before.version]
    return Statement(text, tuple(value_to_wire(value) for value in parameters))
