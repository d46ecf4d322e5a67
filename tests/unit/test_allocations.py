"""Usage allocations: parsing by name of the fault, limits, merging, canonical text."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.allocations import (
    MAX_ALLOCATION_BYTES,
    MAX_ALLOCATIONS,
    Allocation,
    AllocationSum,
    canonical_value,
    from_api_shape,
    parse_row_allocations,
    to_api_shape,
)
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import ValidationReason as Reason
from tests.unit.metering_support import allocation, tagged

ENV = ("env", "prod")
TEAM = ("team", "red")
INTEGER, DECIMAL = QuantityType.INTEGER, QuantityType.DECIMAL
#: Tag.Key and Tag.Value of botocore's service model.
API_TAG_TEXT = re.compile(r"^[a-zA-Z0-9+ -=._:\\/@]+$")


def six_tags() -> list[tuple[str, str]]:
    return [(f"k{number}", "v") for number in range(6)]


@pytest.mark.parametrize(
    ("value", "quantity", "reason"),
    [
        # The list itself.
        (None, 5, Reason.INVALID_TAG),
        ([], 0, Reason.INVALID_TAG),
        ("text", 5, Reason.INVALID_TAG),
        (b"bytes", 5, Reason.INVALID_TAG),
        ({"AllocatedUsageQuantity": 5}, 5, Reason.INVALID_TAG),
        ([5], 5, Reason.INVALID_TAG),
        # Numbers.
        ([{"Tags": [{"Key": "k", "Value": "v"}]}], 5, Reason.ALLOCATION_SUM_MISMATCH),
        ([tagged("5", ENV)], 5, Reason.ALLOCATION_SUM_MISMATCH),
        ([tagged(True, ENV)], 1, Reason.ALLOCATION_SUM_MISMATCH),
        ([tagged(6, ENV), tagged(-1, TEAM)], 5, Reason.ALLOCATION_SUM_MISMATCH),
        ([tagged(Decimal("2.5"), ENV), tagged(Decimal("2.5"), TEAM)], 5, Reason.ALLOCATION_SUM_MISMATCH),
        ([tagged(3, ENV), tagged(1, TEAM)], 5, Reason.ALLOCATION_SUM_MISMATCH),
        ([tagged(3, ENV), tagged(3, TEAM)], 5, Reason.ALLOCATION_SUM_MISMATCH),
        # Tags.
        ([{"AllocatedUsageQuantity": 5, "Tags": []}], 5, Reason.INVALID_TAG),
        ([{"AllocatedUsageQuantity": 5, "Tags": None}], 5, Reason.INVALID_TAG),
        ([{"AllocatedUsageQuantity": 5, "Tags": "env"}], 5, Reason.INVALID_TAG),
        ([{"AllocatedUsageQuantity": 5, "Tags": ["env"]}], 5, Reason.INVALID_TAG),
        ([{"AllocatedUsageQuantity": 5, "Tags": [{"Key": "env"}]}], 5, Reason.INVALID_TAG),
        ([{"AllocatedUsageQuantity": 5, "Tags": [{"Value": "prod"}]}], 5, Reason.INVALID_TAG),
        ([{"AllocatedUsageQuantity": 5, "Tags": [{"Key": "env", "Value": 1}]}], 5, Reason.INVALID_TAG),
        ([tagged(5, ("", "v"))], 5, Reason.INVALID_TAG),
        ([tagged(5, ("k", ""))], 5, Reason.INVALID_TAG),
        ([tagged(5, ("k" * 101, "v"))], 5, Reason.INVALID_TAG),
        ([tagged(5, ("k", "v" * 257))], 5, Reason.INVALID_TAG),
        ([tagged(5, ("k", "v\n"))], 5, Reason.INVALID_TAG),
        ([tagged(5, *six_tags())], 5, Reason.TOO_MANY_TAGS),
        # What is taken.
        ([tagged(5)], 5, None),
        ([tagged(5, ENV)], 5, None),
        ([tagged(0, ENV)], 0, None),
        ([tagged(2, ENV), tagged(3)], 5, None),
        ([tagged(5, *six_tags()[:5])], 5, None),
        ([tagged(5, ("k" * 100, "v" * 256))], 5, None),
        ((tagged(5, ENV),), 5, None),
    ],
)
def test_allocations_of_a_row_are_refused_by_name(
    value: object, quantity: int, reason: Reason | None
) -> None:
    parsed, found = parse_row_allocations(value, Decimal(quantity), INTEGER)
    assert found is reason
    assert bool(parsed) is (reason is None)


def test_decimal_deployments_allocate_fractions() -> None:
    value = [tagged(Decimal("0.5"), ENV), tagged(Decimal("0.25"), TEAM)]
    parsed, reason = parse_row_allocations(value, Decimal("0.75"), DECIMAL)
    assert reason is None
    assert parsed == (allocation("0.5", ENV), allocation("0.25", TEAM))


@given(st.characters(max_codepoint=0x2FF) | st.sampled_from("\u2028\U0001f600"))
def test_the_characters_of_a_tag_are_those_of_the_api(character: str) -> None:
    _, in_key = parse_row_allocations([tagged(1, (f"k{character}", "v"))], Decimal(1), INTEGER)
    _, in_value = parse_row_allocations([tagged(1, ("k", f"{character}v"))], Decimal(1), INTEGER)
    taken = API_TAG_TEXT.fullmatch(character) is not None
    assert (in_key is None, in_value is None) == (taken, taken)


def test_equal_tag_sets_are_one_allocation_whatever_their_order() -> None:
    total = AllocationSum()
    rows = [[tagged(2, ENV, TEAM)], [tagged(3, TEAM, ENV)], [tagged(4, ENV)], [tagged(1)], [tagged(5)]]
    for value in rows:
        quantity = Decimal(str(value[0]["AllocatedUsageQuantity"]))
        parsed, reason = parse_row_allocations(value, quantity, INTEGER)
        assert reason is None
        assert total.add(parsed) is None
    assert total.merged() == (allocation(6), allocation(4, ENV), allocation(5, ENV, TEAM))


def test_merging_does_not_depend_on_the_order_of_arrival() -> None:
    parts = [allocation(2, ENV), allocation(3, TEAM), allocation(4), allocation(5, ENV)]
    results = set()
    for order in permutations(parts):
        total = AllocationSum()
        assert total.add(order) is None
        results.add(total.merged())
    assert len(results) == 1


def test_2500_distinct_tag_sets_are_taken_and_one_more_is_not() -> None:
    total = AllocationSum()
    full = [allocation(1, ("user", str(number))) for number in range(MAX_ALLOCATIONS)]
    assert MAX_ALLOCATIONS == 2500
    assert total.add(full) is None
    assert total.add(full[:10]) is None, "known tag sets need no further room"
    assert total.add([allocation(1)]) is Reason.TOO_MANY_ALLOCATIONS
    assert len(total.merged()) == MAX_ALLOCATIONS


def test_allocations_that_a_ledger_item_cannot_hold_are_refused() -> None:
    total = AllocationSum()
    reason = None
    taken: list[Allocation] = []
    for number in range(MAX_ALLOCATIONS):
        pair = (f"{number:04}".ljust(100, "k"), "v" * 256)
        parsed = [allocation(1, pair, *[(f"k{tag}", "v" * 256) for tag in range(4)])]
        reason = total.add(parsed)
        if reason is not None:
            break
        taken += parsed
    assert reason is Reason.RECORD_TOO_LARGE
    characters = sum(len(key) + len(value) for each in taken for key, value in each.tags)
    assert characters < MAX_ALLOCATION_BYTES < 400 * 1024


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=3).map(
                lambda tags: tuple(sorted(tags))
            ),
            st.decimals(min_value=0, max_value=1000, places=3),
        ),
        max_size=6,
    )
)
def test_the_stored_form_reads_back(parts: list[tuple[tuple[tuple[str, str], ...], Decimal]]) -> None:
    allocations = tuple(Allocation(tags, quantity) for tags, quantity in parts)
    assert from_api_shape(to_api_shape(allocations)) == allocations


def test_nothing_stored_is_no_allocation() -> None:
    assert from_api_shape(None) == ()
    assert to_api_shape(()) == []
    assert from_api_shape([]) == ()


@pytest.mark.parametrize(
    "stored",
    ["", "text", b"bytes", 0, False, Decimal(10), {}, {"AllocatedUsageQuantity": Decimal(10)}, {1}],
    ids=repr,
)
def test_what_is_stored_as_no_list_is_an_error_and_not_the_absence_of_allocations(stored: object) -> None:
    with pytest.raises(TypeError, match="list"):
        from_api_shape(stored)


def test_the_untagged_bucket_is_stored_without_tags() -> None:
    assert to_api_shape([allocation(3)]) == [{"AllocatedUsageQuantity": Decimal(3)}]


# --- canonical text --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Decimal("17.00"), 17),
        (Decimal("1E+2"), Decimal(100)),
        ({"a": 1, "b": 2}, {"b": Decimal(2), "a": Decimal(1)}),
        ({"x", "y"}, {"y", "x"}),
        ({Decimal(1), Decimal(2)}, frozenset({2, 1})),
        ((1, 2), [1, 2]),
    ],
)
def test_equal_stored_values_have_one_text(left: object, right: object) -> None:
    assert canonical_value(left) == canonical_value(right)


def test_values_of_different_types_or_content_never_share_a_text() -> None:
    values: list[object] = [
        None,
        True,
        False,
        0,
        1,
        Decimal("1.5"),
        "",
        "1",
        "true",
        "null",
        b"1",
        bytearray(b"12"),
        [],
        [1],
        ["1"],
        [[1]],
        [1, 2],
        [2, 1],
        {},
        {"N": "1"},
        {"M": {}},
        {"B": "1"},
        {"SET": []},
        {1},
        {"1"},
        '{"N":"1"}',
    ]
    texts = [canonical_value(value) for value in values]
    assert len(set(texts)) == len(texts)
