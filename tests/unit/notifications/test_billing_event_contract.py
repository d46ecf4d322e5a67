"""The published schema of billing events and the parser accept the same events."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.billing_events import parse_billing_event
from awsmp.domain.notifications.kinds import BillingHold, BillingStatus, Kind

CONTRACTS = Path(__file__).parents[3] / "docs" / "contracts"
SCHEMA: dict[str, Any] = json.loads((CONTRACTS / "billing-event.v1.schema.json").read_text())
EXAMPLES = {
    path.name.removeprefix("billing-event.v1.").removesuffix(".json"): path
    for path in sorted((CONTRACTS / "examples").glob("billing-event.v1.*.json"))
}
EXPECTED: dict[str, set[Kind]] = {
    "payment-failed": {Kind.PAYMENT_FAILED},
    "access-suspended": {Kind.ACCESS_SUSPENDED},
    "payment-recovered": {Kind.PAYMENT_RECOVERED},
    "dispute-open": {Kind.DISPUTE_OPEN},
    "dispute-lost": {Kind.DISPUTE_LOST},
    "dispute-resolved": {Kind.DISPUTE_RESOLVED},
    "refunded": {Kind.REFUNDED},
    "suspended-and-disputed": {Kind.ACCESS_SUSPENDED, Kind.DISPUTE_OPEN},
}
FORMATS = FormatChecker(formats=[])


@FORMATS.checks("date-time", raises=ValueError)
def is_date_time(value: object) -> bool:
    """RFC 3339's calendar: what the pattern leaves open are the days of a month."""
    return not isinstance(value, str) or bool(datetime.fromisoformat(value[:19]))


def ecma_pattern(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[ValidationError]:
    """``pattern`` as JSON Schema means it: in ECMA-262, ``$`` is not also before a last line feed."""
    assert pattern.endswith("$")
    if isinstance(instance, str) and not re.search(pattern[:-1] + r"\Z", instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_ECMA = validators.extend(Draft202012Validator, {"pattern": ecma_pattern})  # type: ignore[no-untyped-call]
VALIDATOR = _ECMA(SCHEMA, format_checker=FORMATS)


def schema_accepts(event: Any) -> bool:
    return bool(VALIDATOR.is_valid(event))


def parser_accepts(event: Any) -> bool:
    try:
        parse_billing_event(json.dumps(event))
    except MeteringError:
        return False
    return True


def event(**changes: Any) -> dict[str, Any]:
    return {**json.loads(EXAMPLES["payment-failed"].read_text()), **changes}


def changed(path: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(event())
    *parents, last = path.split(".")
    holder: dict[str, Any] = result
    for parent in parents:
        holder = holder[parent]
    holder[last] = value
    return result


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_every_example_is_known_here_and_named_in_the_contracts_readme() -> None:
    assert EXAMPLES.keys() == EXPECTED.keys()
    readme = (CONTRACTS / "README.md").read_text()
    assert [name for name in EXAMPLES if f"(examples/billing-event.v1.{name}.json)" not in readme] == []


@pytest.mark.parametrize("name", EXPECTED)
def test_every_example_is_valid_and_leads_to_the_notices_that_its_name_says(name: str) -> None:
    example = json.loads(EXAMPLES[name].read_text())
    VALIDATOR.validate(example)
    parsed = parse_billing_event(EXAMPLES[name].read_bytes())
    assert {*parsed.status_kinds, parsed.hold_kind} - {None} == EXPECTED[name]


def test_the_schema_lists_the_statuses_and_holds_that_the_parser_knows() -> None:
    state = SCHEMA["$defs"]["state"]["properties"]
    assert set(state["status"]["enum"]) == {None, *BillingStatus}
    assert set(state["hold"]["enum"]) == set(BillingHold)


def test_no_object_of_the_contract_takes_further_members_and_none_is_optional() -> None:
    objects = [SCHEMA, SCHEMA["properties"]["subscription"], SCHEMA["$defs"]["state"]]
    for each in objects:
        assert each["additionalProperties"] is False
        assert set(each["required"]) == set(each["properties"])


ARN = "arn:aws:license-manager::123456789012:license:l-0123456789abcdef0123456789abcdef"
VALUES: list[tuple[str, Any, bool]] = [
    ("eventId", "e", True),
    ("eventId", "evt_1:2#3/4+5=6.7-8", True),
    ("eventId", "x" * 128, True),
    ("eventId", "", False),
    ("eventId", "x" * 129, False),
    ("eventId", "_leading", False),
    ("eventId", "buyer@example.com", False),
    ("eventId", "a b", False),
    ("eventId", "a\n", False),
    ("eventId", "é", False),
    ("eventId", 7, False),
    ("eventId", None, False),
    ("eventTime", "2026-11-29T23:59:59Z", True),
    ("eventTime", "2026-11-29T23:59:59.123456789Z", True),
    ("eventTime", "2024-02-29T00:00:00Z", True),
    ("eventTime", "2026-02-29T00:00:00Z", False),
    ("eventTime", "2026-04-31T00:00:00Z", False),
    ("eventTime", "2026-13-01T00:00:00Z", False),
    ("eventTime", "2026-00-01T00:00:00Z", False),
    ("eventTime", "2026-01-00T00:00:00Z", False),
    ("eventTime", "0000-01-01T00:00:00Z", False),
    ("eventTime", "2026-11-29T24:00:00Z", False),
    ("eventTime", "2026-11-29T23:60:00Z", False),
    ("eventTime", "2026-11-29T23:59:60Z", False),
    ("eventTime", "2026-11-29T23:59:59.1234567890Z", False),
    ("eventTime", "2026-11-29T23:59:59.Z", False),
    ("eventTime", "2026-11-29T23:59:59+00:00", False),
    ("eventTime", "2026-11-29T23:59:59", False),
    ("eventTime", "2026-11-29 23:59:59Z", False),
    ("eventTime", "2026-11-29t23:59:59z", False),
    ("eventTime", "2026-11-29T23:59:59Z\n", False),
    ("eventTime", "\u0662026-11-29T23:59:59Z", False),
    ("eventTime", 1764410401, False),
    ("subscription.licenseArn", ARN, True),
    ("subscription.licenseArn", ARN.replace("license:l-", "license/l-"), True),
    ("subscription.licenseArn", ARN.replace("aws:", "aws-us-gov:", 1), True),
    ("subscription.licenseArn", "arn:aws:license-manager::123456789012:l", True),
    ("subscription.licenseArn", "arn:aws:license-manager::123456789012:" + "x" * 1024, True),
    ("subscription.licenseArn", "arn:aws:license-manager::123456789012:" + "x" * 1025, False),
    ("subscription.licenseArn", ARN + ":", False),
    ("subscription.licenseArn", ARN + "/", False),
    ("subscription.licenseArn", "l-0123456789abcdef", False),
    ("subscription.licenseArn", "", False),
    ("subscription.licenseArn", None, False),
    ("subscription.customerAWSAccountId", "1", True),
    ("subscription.customerAWSAccountId", "1" * 255, True),
    ("subscription.customerAWSAccountId", "1" * 256, False),
    ("subscription.customerAWSAccountId", "", False),
    ("subscription.customerAWSAccountId", "11112222333x", False),
    ("subscription.customerAWSAccountId", "111122223333\n", False),
    ("subscription.customerAWSAccountId", "\u0661", False),
    ("subscription.customerAWSAccountId", 111122223333, False),
    ("subscription.email", "buyer@example.com", False),
    ("subscription", None, False),
    ("subscription", [], False),
    ("previous.status", None, True),
    ("previous.status", "none", False),
    ("previous.status", "Active", False),
    ("current.status", 1, False),
    ("current.status", ["active"], False),
    ("current.setToEnd", True, True),
    ("current.setToEnd", 1, False),
    ("current.setToEnd", "true", False),
    ("current.setToEnd", None, False),
    ("current.hold", None, False),
    ("current.hold", "chargeback", False),
    ("current.reason", "x", False),
    ("current", None, False),
    ("schema", "awsmp.billing-events", False),
    ("schema", None, False),
    ("version", 1, True),
    ("version", 2, False),
    ("version", 0, False),
    ("version", "1", False),
    ("version", True, False),
    ("version", None, False),
    ("recipient", "buyer@example.com", False),
]


@pytest.mark.parametrize(
    ("path", "value", "accepted"), VALUES, ids=[f"{path}: {value!r:.44}" for path, value, _ in VALUES]
)
def test_schema_and_parser_say_the_same_of_every_value(path: str, value: Any, accepted: bool) -> None:
    candidate = changed(path, value)
    assert (schema_accepts(candidate), parser_accepts(candidate)) == (accepted, accepted)


@pytest.mark.parametrize("where", ["", "subscription", "previous", "current"])
def test_schema_and_parser_refuse_an_event_that_lacks_a_member(where: str) -> None:
    members = event()[where] if where else event()
    for member in members:
        candidate = copy.deepcopy(event())
        del (candidate[where] if where else candidate)[member]
        assert (schema_accepts(candidate), parser_accepts(candidate)) == (False, False), member


@pytest.mark.parametrize("candidate", [None, [], "event", 7, True])
def test_schema_and_parser_refuse_what_is_no_object(candidate: Any) -> None:
    assert (schema_accepts(candidate), parser_accepts(candidate)) == (False, False)


@pytest.mark.parametrize("text", [f" {ARN}", ARN.removeprefix("arn:")])
def test_the_parser_mends_spellings_of_a_licence_that_the_contract_does_not_promise(text: str) -> None:
    candidate = changed("subscription.licenseArn", text)
    assert (schema_accepts(candidate), parser_accepts(candidate)) == (False, True)
    mended = parse_billing_event(json.dumps(candidate))
    assert mended.subscription == parse_billing_event(json.dumps(event())).subscription


@given(st.from_regex(re.compile(SCHEMA["properties"]["eventId"]["pattern"].removesuffix("$") + r"\Z")))
def test_every_event_id_of_the_schema_is_one_of_the_parser(event_id: str) -> None:
    assert parser_accepts(changed("eventId", event_id))


@given(
    st.from_regex(
        re.compile(
            SCHEMA["properties"]["subscription"]["properties"]["licenseArn"]["pattern"].removesuffix("$")
            + r"\Z"
        )
    )
)
def test_every_licence_arn_of_the_schema_is_one_of_the_parser(arn: str) -> None:
    assert parser_accepts(changed("subscription.licenseArn", arn))


PATHS = sorted({path for path, _, _ in VALUES} - {"subscription.licenseArn"})


@given(
    st.sampled_from(PATHS),
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=30)
    | st.lists(st.integers(), max_size=1)
    | st.sampled_from([value for _, value, _ in VALUES]),
)
def test_schema_and_parser_say_the_same_of_whatever_value(path: str, value: Any) -> None:
    candidate = changed(path, value)
    assert schema_accepts(candidate) == parser_accepts(candidate)
