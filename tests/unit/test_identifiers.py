"""Identifiers: what the API takes, the keys built from them, and what a log may show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from awsmp.domain.hours import HOUR
from awsmp.domain.identifiers import Group, is_customer_account, is_license_arn, mask, row_sort_key
from awsmp.domain.ledger import DIRECT_PREFIX, ledger_sort_key
from awsmp.domain.reasons import ValidationReason as Reason
from tests.unit.metering_support import BUYER, GROUP, LEGACY_LICENSE, LICENSE


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("arn:aws:license-manager::111122223333:license:l-0a1b2c3d", True),
        ("arn:aws:license-manager::111122223333:license/lic-0a1b", True),
        ("arn:aws:license-manager:us-east-1:111122223333:license/l-0a1b", True),
        ("arn:aws-cn:license-manager::111122223333:license:l-1", True),
        ("arn:aws-us-gov:license-manager::111122223333:license:l-1", True),
        ("arn:aws:license-manager::111122223333:" + "l" * 1024, True),
        ("arn:aws:license-manager::111122223333:" + "l" * 1025, False),
        ("arn:aws:license-manager::111122223333:", False),
        ("arn:aws:license-manager::111122223333:-l", False),
        ("aws:license-manager:us-east-1:111122223333:l-0a1b", False),
        ("ARN:aws:license-manager::111122223333:license:l-1", False),
        ("arn:aws:license-manager::111122223333:license:l-1 ", False),
        ("arn:aws:license-manager::111122223333:license:l-1\n", False),
        ("arn:aws:license-manager::111122223333:license:l-é", False),
        ("arn:gcp:license-manager::111122223333:license:l-1", False),
        (LEGACY_LICENSE, False),
        ("", False),
    ],
)
def test_a_licence_arn_is_what_the_apis_pattern_takes(text: str, taken: bool) -> None:
    assert is_license_arn(text) is taken


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("123456789012", True),
        ("1", True),
        ("1" * 255, True),
        ("1" * 256, False),
        ("", False),
        ("12345678901a", False),
        ("123456789012\n", False),
        (" 123456789012", False),
        ("١٢٣", False),
    ],
)
def test_an_account_has_digits_only(text: str, taken: bool) -> None:
    assert is_customer_account(text) is taken


@pytest.mark.parametrize(
    ("group", "legacy", "reason"),
    [
        (GROUP, False, None),
        (GROUP, True, None),
        (replace(GROUP, license_arn=LEGACY_LICENSE), False, Reason.INVALID_LICENSE_ARN),
        (replace(GROUP, license_arn=LEGACY_LICENSE), True, None),
        (replace(GROUP, customer_account="none"), False, Reason.INVALID_CUSTOMER_ACCOUNT),
        (replace(GROUP, customer_account=""), True, Reason.INVALID_CUSTOMER_ACCOUNT),
        (replace(GROUP, dimension=""), False, Reason.INVALID_DIMENSION),
        (replace(GROUP, dimension="d" * 255), False, None),
        (replace(GROUP, dimension="é" * 255), False, None),
        (replace(GROUP, dimension="d" * 256), False, Reason.INVALID_DIMENSION),
        (replace(GROUP, dimension="a#b"), False, None),
    ],
)
def test_a_group_that_can_never_be_sent_says_why(group: Group, legacy: bool, reason: Reason | None) -> None:
    assert group.reason(legacy=legacy) is reason


def test_the_keys_of_a_group_are_built_from_its_parts() -> None:
    assert GROUP.bucket == "2026-11-10T08"
    assert GROUP.row_prefix == "123456789012#requests#2026-11-10T08"
    assert GROUP.ledger_sort_key == "123456789012#requests#2026-11-10T08"
    assert row_sort_key(BUYER, "requests", "2026-11-10T08:00:59") == f"{GROUP.row_prefix}:00:59"


def test_our_key_beside_a_direct_input_can_be_no_inputs_own() -> None:
    key = ledger_sort_key(GROUP, direct=True)
    assert key == DIRECT_PREFIX + ledger_sort_key(GROUP, direct=False)
    assert not is_customer_account(key.partition("#")[0])


def test_groups_differ_in_every_part_and_sort_by_licence_first() -> None:
    others = [
        replace(GROUP, license_arn=LEGACY_LICENSE),
        replace(GROUP, customer_account="1"),
        replace(GROUP, dimension="other"),
        replace(GROUP, hour=GROUP.hour + HOUR),
    ]
    assert len({GROUP, *others}) == 5
    assert sorted([replace(GROUP, license_arn="z", customer_account="0"), GROUP])[0] == GROUP


def test_a_log_shows_the_last_four_characters() -> None:
    assert mask(BUYER) == "...9012"
    assert mask(LICENSE) == "...2c3d"
