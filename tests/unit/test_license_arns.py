"""Licence ARN spellings: what is repaired, what is refused, what joins."""

from __future__ import annotations

import pytest

from awsmp.domain.license_arns import (
    InvalidLicenseArn,
    license_id,
    repair,
    row_key,
    same_license,
    spellings,
)
from tests.unit.lifecycle_support import EVENT_SPELLING, LICENSE, OTHER_LICENSE, SLASH_SPELLING


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        (LICENSE, LICENSE),
        (f"  {LICENSE}\n", LICENSE),
        (EVENT_SPELLING, f"arn:{EVENT_SPELLING}"),
        (
            "aws-us-gov:license-manager::111122223333:license:l-1",
            "arn:aws-us-gov:license-manager::111122223333:license:l-1",
        ),
        (SLASH_SPELLING, SLASH_SPELLING),
        (
            "arn:aws:license-manager::111122223333:license/lic-abc",
            "arn:aws:license-manager::111122223333:license/lic-abc",
        ),
    ],
)
def test_only_the_missing_leading_arn_is_repaired(text: str, repaired: str) -> None:
    assert repair(text) == repaired


@pytest.mark.parametrize(
    "text",
    [
        "",
        "l-0a1b2c3d",
        ":aws:license-manager::111122223333:license:l-1",
        "license-manager::111122223333:license:l-1",
        "ARN:aws:license-manager::111122223333:license:l-1",
        "arn:arn:aws:license-manager::111122223333:license:l-1",
        "aws:s3:::bucket",
        "aws:license-manager:l-1",
        "arn:aws:license-manager::111122223333:license:l-1 x",
        "cust-example-id",
    ],
)
def test_a_form_that_the_api_refuses_and_that_is_ambiguous_is_refused(text: str) -> None:
    with pytest.raises(InvalidLicenseArn):
        repair(text)
    with pytest.raises(InvalidLicenseArn):
        row_key(text)


@pytest.mark.parametrize("text", [LICENSE, EVENT_SPELLING, SLASH_SPELLING])
def test_every_spelling_leads_to_one_id_and_one_row_key(text: str) -> None:
    assert license_id(text) == "l-0a1b2c3d"
    assert row_key(text) == LICENSE
    assert same_license(text, LICENSE)
    assert not same_license(text, OTHER_LICENSE)


def test_an_arn_that_ends_without_an_id_is_refused() -> None:
    with pytest.raises(InvalidLicenseArn, match="without an id"):
        license_id("arn:aws:license-manager::111122223333:license:")


def test_the_account_segment_does_not_tell_licences_apart() -> None:
    assert same_license(LICENSE, "arn:aws:license-manager::999988887777:license:l-0A1B2C3D")


def test_texts_that_are_no_arn_join_only_with_themselves() -> None:
    assert same_license("cust-1", "cust-1")
    assert not same_license("cust-1", "CUST-1")
    assert not same_license("cust-1", LICENSE)


@pytest.mark.parametrize(
    "text",
    [
        "arn:aws:license-manager::seller:license:l-1",
        "arn:aws:license-manager::111122223333:license:x-1",
        "arn:aws:other-service::111122223333:license:l-1",
    ],
)
def test_an_arn_of_another_make_is_its_own_row_key(text: str) -> None:
    assert row_key(text) == text


def test_the_partition_stays_in_the_row_key() -> None:
    assert (
        row_key("arn:aws-cn:license-manager:cn-northwest-1:111122223333:license/l-1")
        == "arn:aws-cn:license-manager::111122223333:license:l-1"
    )


def test_spellings_hold_the_text_its_repair_and_the_row_key() -> None:
    assert spellings(EVENT_SPELLING) == {EVENT_SPELLING, f"arn:{EVENT_SPELLING}", LICENSE}
    assert spellings(LICENSE) == {LICENSE}
