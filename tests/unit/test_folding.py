"""Folding a group: totals, group-level refusals, and what a fold may not depend on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import islice, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain import folding
from awsmp.domain.allocations import MAX_ALLOCATIONS
from awsmp.domain.folding import Fold, FoldedRow, Rejection, fold_group
from awsmp.domain.identifiers import Group
from awsmp.domain.quantities import COUNTED_DECIMALS, COUNTED_LIMIT, QuantityType
from awsmp.domain.reasons import ValidationReason as Reason
from awsmp.domain.rows import UsageRow, check_row
from tests.unit.metering_support import (
    GROUP,
    LEGACY_GROUP,
    LEGACY_LICENSE,
    OPEN,
    allocation,
    fold_rows,
    keyed,
    row,
    tagged,
    values,
)

INTEGER, DECIMAL = QuantityType.INTEGER, QuantityType.DECIMAL
ENV = ("env", "prod")


def refusals(fold: Fold) -> list[tuple[str, int, Decimal]]:
    """Reason, rows and sum of what a fold refuses."""
    return [(each.reason, each.rows, each.quantity) for each in fold.rejections]


def test_nothing_folds_to_nothing() -> None:
    fold = fold_rows()
    assert values(fold.total, fold.billable, fold.row_count, fold.reason, fold.pending) == (0, 0, 0, None, ())


def test_all_rows_are_folded_pending_or_not_and_the_pending_ones_are_named() -> None:
    done, marked = row(0, 3, pending=False), row(1, 4)
    fold = fold_rows(done, marked)
    assert values(fold.total, fold.billable, fold.rejected, fold.row_count) == (7, 7, 0, 2)
    assert fold.pending == (FoldedRow(marked.sort_key, marked.digest()),)
    assert (fold.reason, fold.rejections) == (None, ())


def test_rows_of_others_under_the_same_prefix_are_passed_over() -> None:
    fold = fold_rows(row(0, 3), row(1, 100, dimension="other"), row(2, 100, meteringPending="2026-11-10T09"))
    assert values(fold.total, fold.row_count) == (3, 1)


def test_bad_rows_block_the_group_by_name_and_leave_a_valid_part() -> None:
    fold = fold_rows(row(0, 10), row(1, -3), row(2, "x"), row(3, Decimal("0.5")), row(4, -4))
    assert fold.total == Decimal("3.5")
    assert fold.billable == 10
    assert fold.rejected == Decimal("-6.5")
    assert (fold.row_count, fold.rejected_rows) == (5, 4)
    assert fold.reason is Reason.NEGATIVE_QUANTITY, "the first bad row's"
    assert refusals(fold) == [
        (Reason.NEGATIVE_QUANTITY, 2, Decimal(-7)),
        (Reason.NON_NUMERIC_QUANTITY, 1, Decimal(0)),
        (Reason.NON_INTEGER_QUANTITY, 1, Decimal("0.5")),
    ]
    assert [pending.reason for pending in fold.pending] == [
        None,
        Reason.NEGATIVE_QUANTITY,
        Reason.NON_NUMERIC_QUANTITY,
        Reason.NON_INTEGER_QUANTITY,
        Reason.NEGATIVE_QUANTITY,
    ]


def test_a_group_of_bad_rows_only_has_no_valid_part() -> None:
    fold = fold_rows(row(0, -3))
    assert values(fold.total, fold.billable, fold.row_count, fold.rejected_rows) == (-3, 0, 1, 1)


# --- the digest of what is refused ------------------------------------------------------------------


def digests(*rows: UsageRow) -> dict[str, str]:
    return {each.reason: each.digest for each in fold_rows(*rows).rejections}


@pytest.mark.parametrize(
    "others",
    [[row(0, 8)], [row(0, 7), row(9, 5)], [], [row(0, 7), row(9, "x")]],
    ids=["another valid row", "one more valid row", "no valid row", "a row refused for another reason"],
)
def test_the_digest_of_refused_rows_depends_on_no_other_row(others: list[UsageRow]) -> None:
    refused = [row(1, -3), row(2, -4)]
    expected = digests(row(0, 7), *refused)[Reason.NEGATIVE_QUANTITY]
    assert expected
    assert digests(*others, *refused)[Reason.NEGATIVE_QUANTITY] == expected


@pytest.mark.parametrize(
    "refused",
    [
        [row(1, -4), row(2, -3)],
        [row(1, -3), row(3, -4)],
        [row(1, -3), row(2, -4, customerIdentifier="c-1")],
        [row(2, -7), row(3, Decimal("-0"))],
        [row(1, -3)],
        [row(1, -3), row(2, -4), row(3, -1)],
    ],
    ids=["quantities swapped", "another second", "another customer", "another split", "one less", "one more"],
)
def test_the_digest_changes_with_the_rows_that_are_refused(refused: list[UsageRow]) -> None:
    before = digests(row(1, -3), row(2, -4))[Reason.NEGATIVE_QUANTITY]
    assert digests(*refused)[Reason.NEGATIVE_QUANTITY] != before


def test_the_same_number_of_refused_rows_of_the_same_sum_has_a_digest_of_its_own() -> None:
    """A row that is no number adds nothing, so count and sum can not tell one from another."""
    first, second = fold_rows(row(0, "x"), row(1, 3)), fold_rows(row(0, 3), row(1, "x"))
    assert refusals(first) == refusals(second)
    assert first.rejections != second.rejections


# --- group-level reasons: every one named ----------------------------------------------------------


def users(first: int, count: int) -> list[dict[str, object]]:
    return [tagged(1, ("user", str(number))) for number in range(first, first + count)]


def wide(number: int) -> dict[str, object]:
    return tagged(1, *[(f"k{tag}".ljust(100, "k"), f"{number}".ljust(256, "v")) for tag in range(5)])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (
            [row(0, 2500, allocations=users(0, 2500)), row(1, 1, allocations=[tagged(1)])],
            "TooManyAllocations",
        ),
        ([row(0, 2501, allocations=users(0, 2501))], "TooManyAllocations"),
        ([row(0, 2, allocations=[tagged(2, ENV)]), row(1, 3)], "MixedAllocatedAndUnallocated"),
        ([row(0, 0, allocations=[tagged(0, ENV)]), row(1, 3)], "MixedAllocatedAndUnallocated"),
        (
            [row(n, 100, allocations=[wide(n * 100 + m) for m in range(100)]) for n in range(3)],
            "RecordTooLarge",
        ),
        ([row(0, 2**31 - 1), row(1, 1)], "QuantityOutOfRange"),
    ],
)
def test_a_group_level_refusal_has_no_valid_part(rows: list[UsageRow], reason: str) -> None:
    fold = fold_rows(*rows)
    total = sum((each.quantity for each in rows), Decimal(0))
    assert fold.rejections == (Rejection(Reason(reason), len(rows), total, fold.digest),)
    assert values(fold.billable, fold.allocations) == (0, ())
    assert fold.total == fold.rejected == total
    assert fold.rejected_rows == fold.row_count == len(rows)


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (replace(GROUP, license_arn=LEGACY_LICENSE), Reason.INVALID_LICENSE_ARN),
        (replace(GROUP, customer_account="buyer"), Reason.INVALID_CUSTOMER_ACCOUNT),
        (replace(GROUP, dimension="d" * 256), Reason.INVALID_DIMENSION),
    ],
)
def test_a_group_whose_identifiers_the_api_refuses_is_refused_whole(group: Group, reason: Reason) -> None:
    fold = fold_rows(row(0, 4, group=group), group=group)
    assert fold.rejections == (Rejection(reason, 1, Decimal(4), fold.digest),)
    assert values(fold.total, fold.billable) == (4, 0)


def test_a_group_level_reason_takes_the_place_of_every_rows() -> None:
    fold = fold_rows(row(0, -1), row(1, 2, allocations=[tagged(2, ENV)]), row(2, 3))
    assert refusals(fold) == [(Reason.MIXED_ALLOCATED_AND_UNALLOCATED, 3, Decimal(4))]
    assert [each.reason for each in fold.pending] == [Reason.NEGATIVE_QUANTITY, None, None]


def test_a_bad_row_does_not_count_for_mixing() -> None:
    fold = fold_rows(row(0, 2, allocations=[tagged(2, ENV)]), row(1, -3))
    assert refusals(fold) == [(Reason.NEGATIVE_QUANTITY, 1, Decimal(-3))]
    assert fold.billable == 2


def test_a_zero_row_without_allocations_mixes_with_allocated_ones() -> None:
    fold = fold_rows(row(0, 2, allocations=[tagged(2, ENV)]), row(1, 0))
    assert (fold.reason, fold.allocations) == (None, (allocation(2, ENV),))


def test_the_sum_of_valid_decimal_rows_may_exceed_an_integers_range() -> None:
    assert fold_rows(row(0, 2**31 - 1), row(1, 1), kind=DECIMAL).reason is None


# --- allocations -----------------------------------------------------------------------------------


def test_allocations_of_rows_are_merged_by_tag_set() -> None:
    fold = fold_rows(
        row(0, 3, allocations=[tagged(1, ENV, ("a", "1")), tagged(2)]),
        row(1, 5, allocations=[tagged(4, ("a", "1"), ENV), tagged(1)]),
    )
    assert fold.allocations == (allocation(3), allocation(5, ENV, ("a", "1")))


def test_allocations_of_a_zero_total_are_dropped() -> None:
    assert fold_rows(row(0, 0, allocations=[tagged(0, ENV)])).allocations == ()


def test_allocations_of_a_bad_row_are_left_out() -> None:
    fold = fold_rows(row(0, 2, allocations=[tagged(2, ENV)]), row(1, 2, allocations=[tagged(3, ("z", "z"))]))
    assert fold.allocations == (allocation(2, ENV),)
    assert fold.reason is Reason.ALLOCATION_SUM_MISMATCH


# --- legacy products -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifiers", "reason", "identifier"),
    [
        (["c-1"], None, "c-1"),
        (["c-1", "c-1"], None, "c-1"),
        ([None], Reason.INVALID_LICENSE_ARN, None),
        ([7], Reason.INVALID_LICENSE_ARN, None),
        (["c-1", None], None, "c-1"),
    ],
)
def test_a_legacy_group_names_one_customer_identifier(
    identifiers: list[object], reason: Reason | None, identifier: str | None
) -> None:
    rows = [row(n, 1, group=LEGACY_GROUP, customerIdentifier=each) for n, each in enumerate(identifiers)]
    fold = fold_rows(*rows, group=LEGACY_GROUP, legacy=True)
    assert (fold.reason, fold.customer_identifier) == (reason, identifier)


def test_a_legacy_group_with_two_customers_is_refused_whole() -> None:
    rows = [row(n, 1, group=LEGACY_GROUP, customerIdentifier=f"c-{n}") for n in range(2)]
    fold = fold_rows(*rows, group=LEGACY_GROUP, legacy=True)
    assert fold.rejections == (Rejection(Reason.INVALID_LICENSE_ARN, 2, Decimal(2), fold.digest),)


@pytest.mark.parametrize("identifiers", list(permutations(["c-1", "c-2", "c-10"])), ids=" ".join)
def test_of_several_customer_identifiers_the_first_by_text_is_kept_whatever_row_has_it(
    identifiers: tuple[str, ...],
) -> None:
    rows = [row(n, 1, customerIdentifier=each) for n, each in enumerate(identifiers)]
    assert fold_rows(*rows).customer_identifier == "c-1"


def test_a_legacy_group_of_bad_rows_keeps_their_reason() -> None:
    fold = fold_rows(row(0, -1, group=LEGACY_GROUP), group=LEGACY_GROUP, legacy=True)
    assert refusals(fold) == [(Reason.NEGATIVE_QUANTITY, 1, Decimal(-1))]


def test_an_arn_needs_no_customer_identifier_on_a_legacy_product() -> None:
    assert fold_rows(row(), legacy=True).reason is None


# --- bounds ----------------------------------------------------------------------------------------


def test_the_rows_named_for_cleanup_are_bounded_and_the_totals_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert folding.MAX_PENDING_ROWS > 3600, "one row a second has to fit"
    monkeypatch.setattr(folding, "MAX_PENDING_ROWS", 5)
    rows = [keyed(f":{number:06}", 2) for number in range(9)]
    fold = fold_rows(*rows)
    assert [each.sort_key for each in fold.pending] == [each.sort_key for each in rows[:5]]
    assert values(fold.row_count, fold.total) == (9, 18)


@pytest.mark.parametrize(
    ("kind", "quantity", "reason"),
    [
        (INTEGER, "12345678901234567890123456789012345678", Reason.QUANTITY_OUT_OF_RANGE),
        (INTEGER, "1E+30", Reason.QUANTITY_OUT_OF_RANGE),
        (INTEGER, "1E+15", Reason.QUANTITY_OUT_OF_RANGE),
        (INTEGER, "-1E+15", Reason.NEGATIVE_QUANTITY),
        (INTEGER, "1.000000001", Reason.NON_INTEGER_QUANTITY),
        (DECIMAL, "1E+15", Reason.QUANTITY_OUT_OF_RANGE),
        (DECIMAL, "1.000000001", Reason.QUANTITY_OUT_OF_RANGE),
    ],
)
def test_a_number_that_sums_could_not_keep_is_refused_and_counts_nothing(
    kind: QuantityType, quantity: str, reason: Reason
) -> None:
    fold = fold_rows(row(0, Decimal(quantity)), row(1, Decimal(1)), kind=kind)
    assert refusals(fold) == [(reason, 1, Decimal(0))]
    assert values(fold.total, fold.billable) == (1, 1)


@pytest.mark.parametrize("kind", QuantityType)
def test_the_totals_of_a_full_hour_of_the_longest_counted_numbers_are_exact(kind: QuantityType) -> None:
    grain = Decimal(1).scaleb(-COUNTED_DECIMALS)
    longest, others = COUNTED_LIMIT - grain, [Decimal("9999999.999999"), -grain, Decimal("-0.00000003")]
    rows = [row(offset, longest if offset % 2 else others[offset % 3]) for offset in range(3600)]
    fold = fold_rows(*rows, kind=kind)
    exact = sum(Fraction(each.quantity) for each in rows)
    assert fold.total.adjusted() == 18, "the sum needs more digits than any row"
    assert Fraction(fold.total) == exact
    assert Fraction(fold.billable) + Fraction(fold.rejected) == exact
    assert sum(Fraction(each.quantity) for each in fold.rejections) == Fraction(fold.rejected)
    assert (fold.billable > 0) is (kind is DECIMAL)


# --- what a fold does not depend on ----------------------------------------------------------------

quantities = (
    st.integers(-5, 20).map(Decimal)
    | st.decimals(min_value=-3, max_value=9, places=2)
    | st.sampled_from(
        [None, "x", Decimal(2**31), Decimal("1E+15"), COUNTED_LIMIT - 1, Decimal("0.123456789")]
    )
)
stored_rows = st.dictionaries(
    st.integers(0, 3599),
    st.tuples(quantities, st.booleans(), st.sampled_from([None, ENV, ("team", "red")])),
    max_size=12,
).map(
    lambda content: [
        row(offset, quantity, pending=pending)
        if tag is None
        else row(offset, quantity, pending=pending, allocations=[tagged(quantity, tag)])
        for offset, (quantity, pending, tag) in content.items()
    ]
)
kinds = st.sampled_from(QuantityType)


@settings(max_examples=30)
@given(stored_rows, kinds, st.randoms(use_true_random=False))
def test_a_fold_does_not_depend_on_the_order_in_which_rows_arrived(
    rows: list[UsageRow], kind: QuantityType, shuffler: random.Random
) -> None:
    arrived = rows[:]
    shuffler.shuffle(arrived)
    assert fold_rows(*arrived, kind=kind) == fold_rows(*rows, kind=kind)


@settings(max_examples=30)
@given(stored_rows, st.integers(1, 5))
def test_a_fold_does_not_depend_on_paging(rows: list[UsageRow], size: int) -> None:
    def paged() -> Iterator[UsageRow]:
        stream = iter(sorted(rows, key=lambda each: each.sort_key))
        while page := list(islice(stream, size)):
            yield from page

    assert fold_group(GROUP, paged(), kind=INTEGER, now=OPEN) == fold_rows(*rows)


@settings(max_examples=30)
@given(stored_rows, kinds)
def test_a_fold_conserves_what_was_written(rows: list[UsageRow], kind: QuantityType) -> None:
    fold = fold_rows(*rows, kind=kind)
    assert fold.total == sum((each.quantity for each in rows), Decimal(0)) == fold.billable + fold.rejected
    assert fold.row_count == len(rows)
    assert (fold.reason is None) is (fold.rejected_rows == 0)
    assert sum((each.quantity for each in fold.rejections), Decimal(0)) == fold.rejected
    assert len({each.reason for each in fold.rejections}) == len(fold.rejections)
    assert all(each.rows > 0 for each in fold.rejections)
    assert (fold.rejected_rows == fold.row_count) or fold.billable == sum(
        (each.quantity for each in rows if check_row(each, GROUP, kind, OPEN).reason is None), Decimal(0)
    )
    if fold.allocations:
        assert sum(each.quantity for each in fold.allocations) == fold.billable
        assert len({each.tags for each in fold.allocations}) == len(fold.allocations) <= MAX_ALLOCATIONS
    if fold.reason is None:
        assert fold.rejected == 0


@settings(max_examples=30)
@given(stored_rows, kinds)
def test_cleanup_and_stamps_do_not_change_a_fold(rows: list[UsageRow], kind: QuantityType) -> None:
    cleaned = [
        UsageRow(
            {name: value for name, value in each.attributes.items() if name != "meteringPending"}
            | {"meteringStatus": "Aggregated", "meteringStatusReason": "Aggregated total quantity"}
        )
        for each in rows
    ]
    before, after = fold_rows(*rows, kind=kind), fold_rows(*cleaned, kind=kind)
    assert after == replace(before, pending=())


@settings(max_examples=30)
@given(stored_rows.filter(bool), st.data())
def test_the_digest_changes_when_a_row_is_added_removed_or_rewritten(
    rows: list[UsageRow], data: st.DataObject
) -> None:
    before = fold_rows(*rows).digest
    chosen = data.draw(st.integers(0, len(rows) - 1))
    others = rows[:chosen] + rows[chosen + 1 :]
    rewritten = UsageRow({**rows[chosen].attributes, "quantity": Decimal("77.125")})
    assert fold_rows(*others).digest != before
    assert fold_rows(*others, rewritten).digest != before
    assert fold_rows(*rows, keyed(":extra", 1)).digest != before
    assert fold_rows(*rows, row(1, dimension="other")).digest == before
