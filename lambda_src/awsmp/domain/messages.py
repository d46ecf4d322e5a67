"""What travels through the work and cleanup queues, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.folding import Fold, FoldedRow
from awsmp.domain.hours import parse_bucket
from awsmp.domain.identifiers import Group
from awsmp.domain.reasons import RowStamp, ValidationReason

#: Most keys of one cleanup message: one BatchGetItem reads them.
KEYS_PER_CLEANUP: Final = 100

#: Most bytes of its keys and digests, so that the message stays below the 256 KiB that SQS takes everywhere.
BYTES_PER_CLEANUP: Final = 200_000

# Digest, reason, quotes and commas of a row beside its key.
_ROW_OVERHEAD: Final = 96


class UnreadableMessage(MeteringError):
    """A queue message that is none of ours."""


@dataclass(frozen=True, slots=True)
class GroupWork:
    """Fold this group. ``final_flush``: the last look at an unfinished hour before its licence closes."""

    group: Group
    final_flush: bool = False


@dataclass(frozen=True, slots=True)
class UnclaimedRow:
    """A pending row whose key reproduces no group: to be rejected by name."""

    license_arn: str
    sort_key: str


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Rows of one group that the ledger contains, as long as its last fold has ``digest``."""

    group: Group
    digest: str
    rows: tuple[FoldedRow, ...]
    stamp: RowStamp
    reason: str

    def stamp_of(self, row: FoldedRow) -> tuple[str, str]:
        """Return status and reason to put on ``row``."""
        if row.reason is not None:
            return RowStamp.REJECTED_CLIENT_SIDE, row.reason
        return self.stamp, self.reason


def encode_work(work: GroupWork | UnclaimedRow) -> str:
    """Return the body of a work message."""
    if isinstance(work, UnclaimedRow):
        return _dumps({"row": {"licenseArn": work.license_arn, "sortKey": work.sort_key}})
    body: dict[str, object] = {**_named(work.group)}
    if work.final_flush:
        body["finalFlush"] = True
    return _dumps({"group": body})


def decode_work(text: str) -> GroupWork | UnclaimedRow:
    """Return the work of a message body.

    Raises
    ------
    UnreadableMessage
        The body has another form.
    """
    try:
        body = json.loads(text)
        if "row" in body:
            return UnclaimedRow(_text(body["row"], "licenseArn"), _text(body["row"], "sortKey"))
        return GroupWork(_group(body["group"]), body["group"].get("finalFlush") is True)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableMessage("the body is no work message") from error


def cleanups(group: Group, fold: Fold, stamp: RowStamp, reason: str) -> Iterator[Cleanup]:
    """Yield cleanup messages for the pending rows of ``fold``.

    Each has at most :data:`KEYS_PER_CLEANUP` rows and :data:`BYTES_PER_CLEANUP` bytes.
    """
    part: list[FoldedRow] = []
    size = 0
    for row in fold.pending:
        row_size = len(json.dumps(row.sort_key)) + _ROW_OVERHEAD
        if part and (len(part) == KEYS_PER_CLEANUP or size + row_size > BYTES_PER_CLEANUP):
            yield Cleanup(group, fold.digest, tuple(part), stamp, reason)
            part, size = [], 0
        part.append(row)
        size += row_size
    if part:
        yield Cleanup(group, fold.digest, tuple(part), stamp, reason)


def encode_cleanup(cleanup: Cleanup) -> str:
    """Return the body of a cleanup message."""
    return _dumps(
        {
            **_named(cleanup.group),
            "digest": cleanup.digest,
            "status": cleanup.stamp,
            "reason": cleanup.reason,
            "rows": [[row.sort_key, row.digest, row.reason] for row in cleanup.rows],
        }
    )


def decode_cleanup(text: str) -> Cleanup:
    """Return the cleanup of a message body.

    Raises
    ------
    UnreadableMessage
        The body has another form.
    """
    try:
        body = json.loads(text)
        rows = tuple(
            FoldedRow(str(key), str(digest), None if reason is None else ValidationReason(reason))
            for key, digest, reason in body["rows"]
        )
        return Cleanup(
            _group(body), _text(body, "digest"), rows, RowStamp(body["status"]), _text(body, "reason")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableMessage("the body is no cleanup message") from error


def _named(group: Group) -> dict[str, str]:
    return {
        "licenseArn": group.license_arn,
        "customerAWSAccountId": group.customer_account,
        "dimension": group.dimension,
        "hour": group.bucket,
    }


def _group(named: Mapping[str, object]) -> Group:
    hour = parse_bucket(_text(named, "hour"))
    if hour is None:
        raise ValueError("no hour bucket")
    account, dimension = _text(named, "customerAWSAccountId"), _text(named, "dimension")
    return Group(_text(named, "licenseArn"), account, dimension, hour)


def _text(body: Mapping[str, object], name: str) -> str:
    value = body[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _dumps(body: object) -> str:
    return json.dumps(body, separators=(",", ":"))
