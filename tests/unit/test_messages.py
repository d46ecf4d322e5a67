"""Queue messages: both directions, what is none of ours, and what fits into one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp.domain.folding import FoldedRow
from awsmp.domain.identifiers import MAX_SORT_KEY_BYTES, Group, row_sort_key
from awsmp.domain.messages import (
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
from tests.unit.metering_support import BUYER, GROUP, HOUR_START, LICENSE

#: SQS quota that holds everywhere: 256 KiB a message.
SQS_MESSAGE_BYTES = 256 * 1024

groups = st.builds(Group, st.text(min_size=1), st.text(), st.text(), st.just(HOUR_START))
folded_rows = st.lists(
    st.builds(FoldedRow, st.text(), st.text(), st.none() | st.sampled_from(ValidationReason)), max_size=5
).map(tuple)


@given(st.builds(GroupWork, groups, st.booleans()) | st.builds(UnclaimedRow, st.text(), st.text()))
def test_work_reads_back_as_it_was_sent(work: GroupWork | UnclaimedRow) -> None:
    assert decode_work(encode_work(work)) == work


@given(
    st.builds(
        Cleanup,
        st.text(),
        st.text(),
        folded_rows,
        st.none() | st.sampled_from(RowStamp),
        st.none() | st.text(),
    )
)
def test_a_cleanup_reads_back_as_it_was_sent(cleanup: Cleanup) -> None:
    assert decode_cleanup(encode_cleanup(cleanup)) == cleanup


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
        *[
            pytest.param(
                group_body(**{name: 5}),
                marks=pytest.mark.xfail(
                    reason="messages.py decode_work: a group's identifiers are not checked to be texts; the"
                    " number fails later with a TypeError outside the error family"
                ),
            )
            for name in ("licenseArn", "customerAWSAccountId", "dimension")
        ],
    ],
)
def test_a_body_of_another_form_is_no_work_message(text: str) -> None:
    with pytest.raises(UnreadableMessage):
        decode_work(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"licenseArn": "l", "bucket": "b", "status": null, "reason": null}',
        '{"licenseArn": "l", "bucket": "b", "status": null, "reason": null, "rows": [["key"]]}',
        '{"licenseArn": "l", "bucket": "b", "status": null, "reason": null, "rows": [5]}',
        '{"licenseArn": "l", "bucket": "b", "status": null, "reason": null, "rows": [["k", "d", "Odd"]]}',
        '{"licenseArn": "l", "bucket": "b", "status": "Odd", "reason": null, "rows": []}',
        '{"bucket": "b", "status": null, "reason": null, "rows": []}',
    ],
)
def test_a_body_of_another_form_is_no_cleanup_message(text: str) -> None:
    with pytest.raises(UnreadableMessage):
        decode_cleanup(text)


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])]
)
def test_cleanups_hold_at_most_a_hundred_keys_and_lose_none(count: int, sizes: list[int]) -> None:
    rows = [FoldedRow(f"k{number}", "d") for number in range(count)]
    messages = list(cleanups(LICENSE, GROUP.bucket, rows, RowStamp.AGGREGATED, "why"))
    assert [len(message.rows) for message in messages] == sizes
    assert [row for message in messages for row in message.rows] == rows
    assert all(
        (message.license_arn, message.bucket, message.stamp, message.reason)
        == (LICENSE, GROUP.bucket, RowStamp.AGGREGATED, "why")
        for message in messages
    )


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
    cleanup = Cleanup(LICENSE, GROUP.bucket, (row,), RowStamp.LATE_AFTER_SUBMISSION, "why")
    assert cleanup.stamp_of(row) == stamped


def test_rows_of_unknown_lateness_are_cleared_without_a_stamp() -> None:
    row = FoldedRow("k", "d")
    assert Cleanup(LICENSE, GROUP.bucket, (row,), None, None).stamp_of(row) == (None, None)


@pytest.mark.parametrize(
    "character",
    [
        "d",
        '"',
        "é",
        pytest.param(
            "\U0001f4be",
            marks=pytest.mark.xfail(
                reason="messages.py KEYS_PER_CLEANUP: JSON escapes a four-byte character to twelve bytes,"
                " so 100 keys of 1,024 bytes exceed the 256 KiB that the comment promises"
            ),
        ),
    ],
)
def test_a_full_cleanup_fits_into_an_sqs_message_whatever_the_dimension(character: str) -> None:
    room = MAX_SORT_KEY_BYTES - len(row_sort_key(BUYER, "", "2026-11-10T08:00:00"))
    dimension = character * min(255, room // len(character.encode()))
    group = replace(GROUP, dimension=dimension)
    keys = [
        row_sort_key(BUYER, group.dimension, f"{GROUP.bucket}:00:{n:02}") for n in range(KEYS_PER_CLEANUP)
    ]
    assert max(len(key.encode()) for key in keys) <= MAX_SORT_KEY_BYTES
    longest = max(ValidationReason, key=len)
    rows = tuple(FoldedRow(key, "f" * 32, longest) for key in keys)
    body = encode_cleanup(Cleanup("l" * 1100, GROUP.bucket, rows, RowStamp.AGGREGATED, "r" * 100))
    assert len(body.encode()) <= SQS_MESSAGE_BYTES
