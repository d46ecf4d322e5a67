"""The stored form of a ledger record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from awsmp.domain.folding import Rejection
from awsmp.domain.ledger import (
    LEDGER_SORT_KEY,
    Billed,
    DryRun,
    Duplicate,
    LedgerRecord,
    NotSubscribed,
    Refused,
    Released,
    Unknown,
    advance,
    apply_outcome,
    begin_attempt,
    expire,
    from_item,
    refuse,
    restamp_attempt,
    to_item,
)
from awsmp.domain.reasons import ValidationReason
from tests.unit.metering_support import (
    BUYER,
    CLOSED,
    GROUP,
    HOUR_START,
    LEGACY_GROUP,
    LICENSE,
    OPEN,
    SENDER_TIMEOUT,
    WINDOW,
    allocation,
    blocked_fold,
    fold_of,
    fold_rows,
    folded,
    pending,
    row,
    sent,
    whole_fold,
)

NEGATIVE = ValidationReason.NEGATIVE_QUANTITY
ALLOCATED = fold_of(10, allocations=[allocation(4), allocation(6, ("k", "v"), ("a", "b"))])
STALE = folded(sent(ALLOCATED), fold_of(12, allocations=[allocation(12)]))

RECORDS: dict[str, LedgerRecord] = {
    "never written": folded(None, fold_of(10)),
    "pending": pending(),
    "zero": pending(fold_of(0)),
    "fraction": pending(fold_of("0.000001")),
    "allocated": pending(ALLOCATED),
    "blocked": pending(blocked_fold()),
    "bad row without a number": pending(fold_of(7, rejected=0, reason=ValidationReason.MISSING_QUANTITY)),
    "bad rows of several kinds": pending(fold_rows(row(0, 7), row(1, -3), row(2, "x"), row(3, -4))),
    "refused whole": pending(whole_fold()),
    "legacy": pending(fold_of(1, customer_identifier="c-1"), group=LEGACY_GROUP),
    "final flush": folded(None, fold_of(10), final_flush=True),
    "direct": folded(None, fold_of(10), direct=True),
    "open": sent(),
    "unknown": apply_outcome(sent(), "a-1", Unknown()),
    "sent again": begin_attempt(sent(), "a-2", now=OPEN + SENDER_TIMEOUT),
    "stale": STALE,
    "refold": apply_outcome(STALE, "a-1", Released()),
    "restamped": restamp_attempt(sent(), "a-2", HOUR_START + timedelta(minutes=5), now=OPEN),
    "billed": apply_outcome(sent(), "a-1", Billed("r-1"), ttl=1_900_000_000),
    "billed and late": folded(apply_outcome(sent(), "a-1", Billed("r-1")), fold_of("-2.5")),
    "duplicate": apply_outcome(sent(), "a-1", Duplicate()),
    "not subscribed": apply_outcome(sent(), "a-1", NotSubscribed()),
    "not subscribed, sent before": apply_outcome(
        apply_outcome(sent(), "a-1", Unknown()), "a-1", NotSubscribed()
    ),
    "refused": apply_outcome(sent(), "a-1", Refused("InvalidTagException")),
    "refused unsent": refuse(pending(), ValidationReason.RECORD_TOO_LARGE),
    "dry run": apply_outcome(sent(), "a-1", DryRun(counted=True)),
    "dry run, not listed": apply_outcome(sent(), "a-1", DryRun(counted=False)),
    "expired": expire(pending(), now=CLOSED, window=WINDOW),
    "expired unknown": expire(sent(), now=CLOSED, window=WINDOW),
    "aged out": folded(None, fold_of(10), now=CLOSED),
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_reads_back_as_it_was_written(name: str) -> None:
    assert from_item(to_item(RECORDS[name])) == RECORDS[name]


@pytest.mark.parametrize("name", RECORDS)
def test_the_stored_sums_add_up_for_a_reader_who_knows_no_code(name: str) -> None:
    item = to_item(RECORDS[name])
    sums = {key: item[key] for key in ("totalQuantity", "billedQuantity", "surfacedQuantity", "quantity")}
    numbers = {key: value for key, value in sums.items() if isinstance(value, Decimal)}
    assert len(numbers) == 4
    waiting = numbers["quantity"] if "meteringPending" in item else 0
    assert numbers["totalQuantity"] == numbers["billedQuantity"] + waiting + numbers["surfacedQuantity"]


@pytest.mark.parametrize("name", RECORDS)
def test_an_item_holds_plain_values_and_no_empty_ones(name: str) -> None:
    for value in to_item(RECORDS[name]).values():
        assert type(value) in {str, int, bool, Decimal, list}
        assert value not in ("", [])
        for entry in value if isinstance(value, list) else []:
            assert {type(each) for each in entry.values()} <= {str, int, Decimal, list}


@pytest.mark.parametrize("name", RECORDS)
def test_the_pending_mark_is_the_hour_bucket_and_only_on_pending_records(name: str) -> None:
    record = RECORDS[name]
    assert to_item(record).get("meteringPending") == (GROUP.bucket if record.pending else None)
    assert "ttl" not in to_item(record) or not record.pending


def test_the_attributes_of_a_plain_record() -> None:
    assert to_item(replace(pending(), digest="d-1")) == {
        "licenseArn": LICENSE,
        LEDGER_SORT_KEY: f"{BUYER}#requests#2026-11-10T08",
        "customerAWSAccountId": BUYER,
        "dimension": "requests",
        "hour": "2026-11-10T08",
        "totalQuantity": Decimal(10),
        "foldDigest": "d-1",
        "recordCount": 1,
        "quantity": Decimal(10),
        "meteringPending": "2026-11-10T08",
        "billedQuantity": Decimal(0),
        "surfacedQuantity": Decimal(0),
        "version": 1,
        "createdAt": "2026-11-10T10:00:00Z",
        "updatedAt": "2026-11-10T10:00:00Z",
    }


def test_refusals_are_stored_by_reason() -> None:
    record = RECORDS["bad rows of several kinds"]
    negative, text = (each.digest for each in record.rejections)
    assert len({negative, text, ""}) == 3
    assert to_item(record)["rejections"] == [
        {"reason": "NegativeQuantity", "rows": 2, "quantity": Decimal(-7), "digest": negative},
        {"reason": "NonNumericQuantity", "rows": 1, "quantity": Decimal(0), "digest": text},
    ]
    assert "rejections" not in to_item(pending())


@pytest.mark.parametrize(("name", "flag"), [("stale", "contentStale"), ("refold", "refoldRequired")])
def test_a_flag_is_stored_only_where_it_is_set(name: str, flag: str) -> None:
    assert {key for key in RECORDS if flag in to_item(RECORDS[key])} == {name}
    assert to_item(RECORDS[name])[flag] is True


@pytest.mark.parametrize(
    ("name", "state", "unknown"),
    [
        ("pending", None, None),
        ("open", "open", None),
        ("unknown", "unknown", True),
        ("sent again", "open", True),
        ("billed", "answered", None),
    ],
)
def test_the_attempts_state_is_written_for_people(name: str, state: str | None, unknown: bool | None) -> None:
    item = to_item(RECORDS[name])
    assert (item.get("attemptState"), item.get("attemptUnknown")) == (state, unknown)


def test_a_record_that_breaks_the_ledgers_rule_is_not_written() -> None:
    with pytest.raises(ValueError, match="cannot be billed"):
        to_item(replace(pending(), billed=Decimal(1)))


STORED_REJECTION = {"reason": "NegativeQuantity", "rows": 1, "quantity": Decimal(-3), "digest": "d-1"}


def test_a_stored_refusal_without_fault_is_read() -> None:
    """What the malformed ones below are changed from."""
    item = to_item(pending(blocked_fold(7, -3))) | {"rejections": [STORED_REJECTION]}
    assert from_item(item).rejections == (Rejection(NEGATIVE, 1, Decimal(-3), "d-1"),)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": None},
        {"hour": None},
        {"hour": "2026-11-10"},
        {"hour": 8},
        {"totalQuantity": "10"},
        {"quantity": 1.5},
        {"meteringStatus": "Paid"},
        {"foldDigest": None},
        {"recordCount": None},
        {"attemptId": "a-1"},
        {"attemptId": "a-1", "attemptStartedAt": "yesterday"},
        {"usageAllocations": [{"Tags": []}]},
        {"usageAllocations": [5]},
        {"usageAllocations": "text"},
        {"usageAllocations": {"AllocatedUsageQuantity": Decimal(10)}},
        {"usageAllocations": ""},
        {"usageAllocations": 0},
        {"usageAllocations": [{"AllocatedUsageQuantity": "ten"}]},
        {"createdAt": "yesterday"},
        {"billedQuantity": None},
        {"billedQuantity": Decimal(1)},
        {"rejections": "NegativeQuantity"},
        {"rejections": {"reason": "NegativeQuantity"}},
        {"rejections": [5]},
        {"rejections": ["NegativeQuantity"]},
        *[
            {"rejections": [{key: STORED_REJECTION[key] for key in STORED_REJECTION if key != name}]}
            for name in STORED_REJECTION
        ],
        {"rejections": [STORED_REJECTION | {"quantity": "-3"}]},
        {"rejections": [STORED_REJECTION | {"rows": "one"}]},
    ],
)
def test_an_item_that_is_no_record_of_ours_is_an_error(changes: dict[str, object]) -> None:
    item = to_item(pending()) | changes
    item = {name: value for name, value in item.items() if value is not None}
    with pytest.raises(ValueError, match=r"."):
        from_item(item)


def test_numbers_may_come_back_as_integers() -> None:
    item = to_item(pending()) | {"totalQuantity": 10, "version": Decimal(1), "recordCount": Decimal(1)}
    assert from_item(item) == pending()


def test_the_version_is_the_writers_count() -> None:
    first = pending()
    assert to_item(advance(first, first, now=CLOSED))["version"] == 2
