"""Queue messages: both directions, what is none of ours, and what fits into one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.folding import FoldedRow
from awsmp.domain.identifiers import Group, row_sort_key
from awsmp.domain.messages import (
    BYTES_PER_CLEANUP,
    KEYS_PER_CLEANUP,
    Cleanup,
    GroupWork,
    UnclaimedRow,
    UnreadableMessage,
    cleanups,
    decode_cleanup,
    decode_work,
    encode_cleanup,
    encode_work,
)
from awsmp.domain.reasons import RowStamp, ValidationReason
from tests.unit.metering_support import BUYER, GROUP, HOUR_START, LICENSE, fold_of

#: SQS quota that holds everywhere: 256 KiB a message.
SQS_MESSAGE_BYTES = 256 * 1024
#: DynamoDB's limit for a sort key.
SORT_KEY_BYTES = 1024

groups = st.builds(Group, st.text(min_size=1), st.text(), st.text(), st.just(HOUR_START))
folded_rows = st.lists(
    st.builds(FoldedRow, st.text(), st.text(), st.none() | st.sampled_from(ValidationReason)), max_size=5
).map(tuple)


@settings(max_examples=50)
@given(st.builds(GroupWork, groups, st.booleans()) | st.builds(UnclaimedRow, st.text(), st.text()))
def test_work_reads_back_as_it_was_sent(work: GroupWork | UnclaimedRow) -> None:
    assert decode_work(encode_work(work)) == work


@settings(max_examples=50)
@given(
    st.builds(
        Cleanup,
        groups,
        st.text(),
        folded_rows,
        st.sampled_from(RowStamp),
        st.text(),
    )
)
def test_a_cleanup_reads_back_as_it_was_sent(cleanup: Cleanup) -> None:
    assert decode_cleanup(encode_cleanup(cleanup)) == cleanup


def test_a_cleanup_names_its_group_its_fold_and_its_rows() -> None:
    rows = (FoldedRow("k-1", "r-1"), FoldedRow("k-2", "r-2", ValidationReason.NEGATIVE_QUANTITY))
    body = json.loads(encode_cleanup(Cleanup(GROUP, "d-1", rows, RowStamp.AGGREGATED, "why")))
    assert body == {
        "licenseArn": LICENSE,
        "customerAWSAccountId": BUYER,
        "dimension": "requests",
        "hour": "2026-11-10T08",
        "digest": "d-1",
        "status": "Aggregated",
        "reason": "why",
        "rows": [["k-1", "r-1", None], ["k-2", "r-2", "NegativeQuantity"]],
    }


def group_body(**changes: object) -> str:
    body: dict[str, object] = {
        "licenseArn": LICENSE,
        "customerAWSAccountId": BUYER,
        "dimension": "requests",
        "hour": GROUP.bucket,
    }
    return json.dumps({"group": body | changes})


@pytest.mark.parametrize(
    ("flag", "final"), [(True, True), (False, False), (None, False), ("true", False), (1, False)]
)
def test_only_true_is_a_final_flush(flag: object, final: bool) -> None:
    assert decode_work(group_body(finalFlush=flag)) == GroupWork(GROUP, final)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "null",
        "5",
        "[]",
        '"row"',
        "{}",
        '{"group": null}',
        '{"group": []}',
        '{"group": {}}',
        '{"group": "x"}',
        '{"row": {}}',
        '{"row": null}',
        '{"row": {"licenseArn": "x"}}',
        group_body(hour="2026-11-10"),
        group_body(hour="2026-11-10T08:00"),
        group_body(hour=None),
        group_body(hour=8),
        '{"group": {"licenseArn": "x", "hour": "2026-11-10T08"}}',
        '{"row": {"licenseArn": "x", "sortKey": 5}}',
        '{"row": {"licenseArn": null, "sortKey": "x"}}',
        *[group_body(**{name: 5}) for name in ("licenseArn", "customerAWSAccountId", "dimension")],
    ],
)
def test_a_body_of_another_form_is_no_work_message(text: str) -> None:
    with pytest.raises(UnreadableMessage):
        decode_work(text)


CLEANUP: dict[str, object] = {
    "licenseArn": LICENSE,
    "customerAWSAccountId": BUYER,
    "dimension": "requests",
    "hour": GROUP.bucket,
    "digest": "d-1",
    "status": "Aggregated",
    "reason": "why",
    "rows": [["key", "digest", None]],
}


def cleanup_body(*, drop: str = "", change: str = "", to: object = None) -> str:
    body = CLEANUP | ({change: to} if change else {})
    return json.dumps({name: value for name, value in body.items() if name != drop})


def test_a_cleanup_body_without_fault_is_read() -> None:
    """What the malformed ones below are changed from."""
    expected = Cleanup(GROUP, "d-1", (FoldedRow("key", "digest"),), RowStamp.AGGREGATED, "why")
    assert decode_cleanup(cleanup_body()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        *[cleanup_body(drop=name) for name in CLEANUP],
        *[cleanup_body(change=name) for name in CLEANUP],
        *[cleanup_body(change=name, to=5) for name in CLEANUP],
        cleanup_body(change="hour", to="2026-11-10"),
        cleanup_body(change="status", to="Odd"),
        cleanup_body(change="rows", to=[5]),
        cleanup_body(change="rows", to=[["key"]]),
        cleanup_body(change="rows", to=[["key", "digest"]]),
        cleanup_body(change="rows", to=[["key", "digest", "Odd"]]),
    ],
)
def test_a_body_of_another_form_is_no_cleanup_message(text: str) -> None:
    with pytest.raises(UnreadableMessage):
        decode_cleanup(text)


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])]
)
def test_cleanups_hold_at_most_a_hundred_keys_and_lose_none(count: int, sizes: list[int]) -> None:
    rows = tuple(FoldedRow(f"k{number}", "d") for number in range(count))
    fold = replace(fold_of(1, digest="d-1"), pending=rows)
    messages = list(cleanups(GROUP, fold, RowStamp.AGGREGATED, "why"))
    assert [len(message.rows) for message in messages] == sizes
    assert tuple(row for message in messages for row in message.rows) == rows
    for message in messages:
        assert message == Cleanup(GROUP, "d-1", message.rows, RowStamp.AGGREGATED, "why")


@pytest.mark.parametrize(
    ("row", "stamped"),
    [
        (FoldedRow("k", "d"), (RowStamp.LATE_AFTER_SUBMISSION, "why")),
        (
            FoldedRow("k", "d", ValidationReason.NEGATIVE_QUANTITY),
            (RowStamp.REJECTED_CLIENT_SIDE, ValidationReason.NEGATIVE_QUANTITY),
        ),
    ],
)
def test_a_bad_row_is_stamped_with_its_own_reason(row: FoldedRow, stamped: tuple[str, str]) -> None:
    cleanup = Cleanup(GROUP, "d-1", (row,), RowStamp.LATE_AFTER_SUBMISSION, "why")
    assert cleanup.stamp_of(row) == stamped


@pytest.mark.parametrize("character", ["d", '"', "é", "\U0001f4be", "\x01"])
def test_every_cleanup_fits_into_an_sqs_message_whatever_the_dimension(character: str) -> None:
    room = SORT_KEY_BYTES - len(row_sort_key(BUYER, "", "2026-11-10T08:00:00"))
    dimension = character * (room // len(character.encode()))
    group = replace(GROUP, license_arn="l" * 2048, dimension=dimension)
    keys = [row_sort_key(BUYER, dimension, f"{GROUP.bucket}:{n // 60:02}:{n % 60:02}") for n in range(250)]
    assert SORT_KEY_BYTES - 4 < max(len(key.encode()) for key in keys) <= SORT_KEY_BYTES
    rows = tuple(FoldedRow(key, "f" * 32, max(ValidationReason, key=len)) for key in keys)
    fold = replace(fold_of(1, digest="f" * 32), pending=rows)
    messages = list(cleanups(group, fold, RowStamp.AGGREGATED, "r" * 100))
    assert tuple(row for message in messages for row in message.rows) == rows
    for message in messages:
        body = encode_cleanup(message)
        assert len(body) == len(body.encode()) <= SQS_MESSAGE_BYTES
        assert 0 < len(message.rows) <= KEYS_PER_CLEANUP
    full = len(encode_cleanup(messages[0]))
    assert len(messages[0].rows) == KEYS_PER_CLEANUP or full > BYTES_PER_CLEANUP * 0.9, "no needless message"
