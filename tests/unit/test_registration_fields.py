"""What each field of the registration form accepts; the page's script runs the same table of cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from awsmp.domain.errors import Misconfigured
from awsmp.domain.registration_fields import (
    FieldCode,
    FieldType,
    InvalidField,
    RegistrationField,
    accept_all,
    parse_fields,
)

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "registration_field_cases.json").read_text(encoding="utf-8")
)


def field(**changes: Any) -> dict[str, Any]:
    return {
        "name": "company",
        "label": "Company",
        "type": "text",
        "maxLength": 10,
        "required": True,
        **changes,
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['field']['type']}: {case['value']!r:.40}")
def test_a_value_is_accepted_or_refused_as_the_shared_table_says(case: dict[str, Any]) -> None:
    (accepting,) = parse_fields(json.dumps([case["field"]]))
    if case["outcome"] is None:
        assert accepting.accept(case["value"]) == case.get("stored", case["value"])
    else:
        with pytest.raises(InvalidField) as refusal:
            accepting.accept(case["value"])
        assert refusal.value.code == case["outcome"]


def test_the_table_meets_every_type_and_every_code_that_the_page_can_find() -> None:
    assert {case["field"]["type"] for case in CASES} == set(FieldType)
    assert {case["outcome"] for case in CASES} == {*FieldCode, None} - {FieldCode.UNKNOWN_FIELD}


@pytest.mark.parametrize("kind", [FieldType.TEXT, FieldType.TEXTAREA])
@pytest.mark.parametrize("half", ["\ud800", "\udfff"])
def test_half_a_surrogate_pair_is_refused_because_no_store_takes_it(kind: FieldType, half: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        RegistrationField("company", kind, 10, required=False).accept(f"a{half}")
    assert refusal.value.code is FieldCode.CONTROL_CHARACTERS


def test_every_fault_is_told_at_once_and_an_undeclared_field_is_one() -> None:
    fields = parse_fields(json.dumps([field(), field(name="phone", type="tel", required=False)]))
    accepted, faults = accept_all(fields, {"phone": "?", "licenseArn": "x"})
    assert accepted == {}
    assert faults == {"company": "Required", "phone": "InvalidTel", "licenseArn": "UnknownField"}


def test_only_given_values_are_kept_and_an_unticked_box_is_given() -> None:
    fields = parse_fields(
        json.dumps(
            [
                field(),
                field(name="phone", type="tel", required=False),
                field(name="news", type="checkbox", required=False),
            ]
        )
    )
    assert accept_all(fields, {"company": " Example ", "phone": "", "news": False}) == (
        {"company": "Example", "news": False},
        {},
    )


@pytest.mark.parametrize(
    "definition",
    [
        "",
        "{}",
        "null",
        "[" * 100_000,
        '["company"]',
        json.dumps([{}]),
        json.dumps([field(type="password")]),
        json.dumps([field(name="")]),
        json.dumps([field(name=1)]),
        json.dumps([field(required="yes")]),
        json.dumps([field(maxLength=0)]),
        json.dumps([field(maxLength="10")]),
        json.dumps([field(maxLength=True)]),
        json.dumps([field(maxLength=None)]),
        json.dumps([field(type="select")]),
        json.dumps([field(type="select", options=[""])]),
        json.dumps([field(type="select", options=[{"label": "x"}])]),
        json.dumps([field(), field()]),
    ],
    ids=lambda text: text[:60],
)
def test_a_malformed_definition_is_a_wrong_setting(definition: str) -> None:
    with pytest.raises(Misconfigured):
        parse_fields(definition)


@pytest.mark.parametrize("kind", ["select", "checkbox"])
def test_a_choice_needs_no_length(kind: str) -> None:
    definition = field(type=kind, options=["a"])
    del definition["maxLength"]
    assert parse_fields(json.dumps([definition]))[0].type == kind
