"""The usage table in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from awsmp.domain.errors import ConditionFailed, StoreUnavailable
from awsmp.domain.hours import format_instant
from awsmp.domain.identifiers import Group
from awsmp.domain.ports import Clock
from awsmp.domain.rows import FOLDED_ATTRIBUTES, LICENSE_ARN, METERING_PENDING, ROW_SORT_KEY, UsageRow
from awsmp.domain.stores import IndexEntry, IndexPage, RowStampWrite

PENDING_INDEX: Final = "metering_pending"

# What a walk over the table needs of a row; names that hold "#" go through placeholders.
_WALK_NAMES: Final = {
    "#sk": ROW_SORT_KEY,
    "#la": LICENSE_ARN,
    "#ac": "customerAWSAccountId",
    "#di": "dimension",
}


@dataclass(frozen=True, slots=True)
class DynamoDBUsageStore:
    """Implements :class:`awsmp.domain.stores.UsageStore`."""

    client: DynamoDBClient
    table: str
    clock: Clock

    def index_page(self, bucket: str, *, after_license: str | None, limit: int) -> IndexPage:
        """See UsageStore."""
        condition, values = "#mp = :mp", {":mp": bucket}
        names = {"#mp": METERING_PENDING}
        if after_license is not None:
            condition += " AND #la > :la"
            values[":la"] = after_license
            names["#la"] = LICENSE_ARN
        return self._index(condition, names, values, limit)

    def license_index_page(self, bucket: str, license_arn: str, *, limit: int) -> IndexPage:
        """See UsageStore."""
        names = {"#mp": METERING_PENDING, "#la": LICENSE_ARN}
        return self._index("#mp = :mp AND #la = :la", names, {":mp": bucket, ":la": license_arn}, limit)

    def license_index(self, bucket: str, license_arn: str) -> Iterator[IndexEntry]:
        """See UsageStore."""
        for page in pages(
            self.client,
            "Query metering_pending",
            TableName=self.table,
            IndexName=PENDING_INDEX,
            KeyConditionExpression="#mp = :mp AND #la = :la",
            ExpressionAttributeNames={"#mp": METERING_PENDING, "#la": LICENSE_ARN},
            ExpressionAttributeValues=to_wire({":mp": bucket, ":la": license_arn}),
        ):
            yield from map(_entry, page["Items"])

    def _index(self, condition: str, names: dict[str, str], values: dict[str, str], limit: int) -> IndexPage:
        with translated("Query metering_pending"):
            page = self.client.query(
                TableName=self.table,
                IndexName=PENDING_INDEX,
                KeyConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=to_wire(values),
                Limit=limit,
            )
        return IndexPage(tuple(map(_entry, page["Items"])), "LastEvaluatedKey" in page)

    def first_row_after(self, license_arn: str, sort_key: str) -> UsageRow | None:
        """See UsageStore."""
        values, condition = {":la": license_arn}, "#la = :la"
        if sort_key:
            values[":sk"], condition = sort_key, "#la = :la AND #sk > :sk"
        with translated("Query usage"):
            page = self.client.query(
                TableName=self.table,
                KeyConditionExpression=condition,
                ProjectionExpression="#la, #sk, #ac, #di",
                ExpressionAttributeNames=_WALK_NAMES,
                ExpressionAttributeValues=to_wire(values),
                Limit=1,
            )
        items = page["Items"]
        return UsageRow(from_wire(items[0])) if items else None

    def may_have_pending(self, group: Group, *, limit: int) -> bool:
        """See UsageStore."""
        with translated("Query usage"):
            page = self.client.query(
                TableName=self.table,
                KeyConditionExpression="#la = :la AND begins_with(#sk, :prefix)",
                FilterExpression="#mp = :mp",
                ExpressionAttributeNames={
                    "#la": LICENSE_ARN,
                    "#sk": ROW_SORT_KEY,
                    "#mp": METERING_PENDING,
                },
                ExpressionAttributeValues=to_wire(
                    {":la": group.license_arn, ":prefix": f"{group.row_prefix}:", ":mp": group.bucket}
                ),
                Limit=limit,
            )
        return bool(page["Items"]) or "LastEvaluatedKey" in page

    def group_rows(self, group: Group) -> Iterator[UsageRow]:
        """See UsageStore."""
        for page in pages(
            self.client,
            "Query usage",
            TableName=self.table,
            KeyConditionExpression="#la = :la AND begins_with(#sk, :prefix)",
            ExpressionAttributeNames={"#la": LICENSE_ARN, "#sk": ROW_SORT_KEY},
            ExpressionAttributeValues=to_wire({":la": group.license_arn, ":prefix": f"{group.row_prefix}:"}),
            ConsistentRead=True,
        ):
            for item in page["Items"]:
                yield UsageRow(from_wire(item))

    def rows(self, license_arn: str, sort_keys: Sequence[str]) -> list[UsageRow]:
        """See UsageStore."""
        keys = [to_wire({LICENSE_ARN: license_arn, ROW_SORT_KEY: sort_key}) for sort_key in sort_keys]
        return [UsageRow(item) for item in batch_get(self.client, self.clock, self.table, keys)]

    def stamp(self, writes: Sequence[RowStampWrite], *, now: datetime) -> int:
        """See UsageStore.

        Rows of scalar attributes go out 25 a request as PartiQL updates; a row with allocations is compared
        as a whole list, which is a condition expression's business, and goes out alone.
        """
        scalar = [write for write in writes if not _has_documents(write.row)]
        changed = 0
        results = execute(
            self.client, self.clock, [_stamp_statement(self.table, write, now) for write in scalar]
        )
        if StatementResult.UNAVAILABLE in results:
            raise StoreUnavailable("some rows could not be stamped after several tries")
        changed += results.count(StatementResult.CONDITION_FAILED)
        for write in writes:
            if _has_documents(write.row):
                changed += not self._stamp_alone(write, now)
        return changed

    def _stamp_alone(self, write: RowStampWrite, now: datetime) -> bool:
        names, values = {"#mp": METERING_PENDING, "#up": "updatedAt"}, dict[str, Any]()
        conditions = ["#mp = :mp"]
        values[":mp"], values[":up"] = write.row.pending_bucket, format_instant(now)
        for number, name in enumerate(FOLDED_ATTRIBUTES):
            names[f"#f{number}"] = name
            if name in write.row.attributes:
                values[f":f{number}"] = write.row.attributes[name]
                conditions.append(f"#f{number} = :f{number}")
            else:
                conditions.append(f"attribute_not_exists(#f{number})")
        sets = "#up = :up, #st = :st, #re = :re"
        names |= {"#st": "meteringStatus", "#re": "meteringStatusReason"}
        values |= {":st": write.status, ":re": write.reason}
        try:
            with translated("UpdateItem usage"):
                self.client.update_item(
                    TableName=self.table,
                    Key=_key(write.row),
                    UpdateExpression=f"SET {sets} REMOVE #mp",
                    ConditionExpression=" AND ".join(conditions),
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=to_wire(values),
                )
        except ConditionFailed:
            return False
        return True


def _key(row: UsageRow) -> dict[str, Any]:
    return to_wire({LICENSE_ARN: row.license_arn, ROW_SORT_KEY: row.sort_key})


def _entry(item: dict[str, Any]) -> IndexEntry:
    plain = from_wire(item)
    return IndexEntry(
        license_arn=str(plain[LICENSE_ARN]),
        sort_key=str(plain[ROW_SORT_KEY]),
        customer_account=plain.get("customerAWSAccountId"),
        dimension=plain.get("dimension"),
    )


def _has_documents(row: UsageRow) -> bool:
    return any(
        isinstance(row.attributes.get(name), list | dict | set | bytes | bytearray)
        for name in FOLDED_ATTRIBUTES
    )


def _stamp_statement(table: str, write: RowStampWrite, now: datetime) -> Statement:
    row = write.row
    sets = ['"updatedAt"=?', '"meteringStatus"=?', '"meteringStatusReason"=?']
    parameters = [format_instant(now), write.status, write.reason]
    conditions = [f'"{LICENSE_ARN}"=?', f'"{ROW_SORT_KEY}"=?', f'"{METERING_PENDING}"=?']
    values: list[object] = [*parameters, row.license_arn, row.sort_key, row.pending_bucket]
    for name in FOLDED_ATTRIBUTES:
        if name in row.attributes:
            conditions.append(f'"{name}"=?')
            values.append(row.attributes[name])
        else:
            conditions.append(f'"{name}" IS MISSING')
    changes = f'SET {" SET ".join(sets)} REMOVE "{METERING_PENDING}"'
    text = f'UPDATE "{table}" {changes} WHERE {" AND ".join(conditions)}'
    return Statement(text, tuple(value_to_wire(value) for value in values))
