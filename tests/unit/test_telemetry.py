"""Metrics as EMF lines, and logs without a buyer's identifier in clear."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import count
from types import MappingProxyType
from typing import Any

import pytest

from awsmp.adapters.telemetry import LambdaTelemetry, masked
from awsmp.domain.ports import Metric
from tests.unit.metering_support import BUYER, GROUP, LICENSE, pending, row, utc

_services = count(1)
CLEAR = (BUYER, "111122223333", "l-0a1b2c3d")


def new_telemetry() -> LambdaTelemetry:
    """One with a service name of its own: a logger keeps the stream that it was created with."""
    return LambdaTelemetry(f"service-{next(_services)}", product_code="prod-1", environment="dev")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_metric_is_one_emf_line_written_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    new_telemetry().count(Metric.RECORDS_BILLED, 7)
    (line,) = lines(capsys)
    assert line["_aws"]["CloudWatchMetrics"] == [
        {
            "Namespace": "AWSMarketplaceMetering",
            "Dimensions": [["ProductCode", "Environment"]],
            "Metrics": [{"Name": "RecordsBilled", "Unit": "Count"}],
        }
    ]
    assert line["ProductCode"] == "prod-1"
    assert line["Environment"] == "dev"
    assert line["RecordsBilled"] == [7.0]
    assert isinstance(line["_aws"]["Timestamp"], int)


def test_a_reason_publishes_the_same_value_once_more_under_its_own_dimension(
    capsys: pytest.CaptureFixture[str],
) -> None:
    new_telemetry().count(Metric.SURFACED_UNITS, Decimal("-2.5"), reason="NegativeQuantity")
    plain, reasoned = lines(capsys)
    assert plain["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["ProductCode", "Environment"]]
    assert "Reason" not in plain
    assert reasoned["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [
        ["ProductCode", "Environment", "Reason"]
    ]
    assert reasoned["Reason"] == "NegativeQuantity"
    assert plain["SurfacedUnits"] == reasoned["SurfacedUnits"] == [-2.5]


@pytest.mark.parametrize("metric", Metric)
def test_every_metric_has_the_two_dimensions_and_a_unit(
    capsys: pytest.CaptureFixture[str], metric: Metric
) -> None:
    new_telemetry().count(metric)
    (line,) = lines(capsys)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    seconds = {
        "OldestUnaggregatedAgeSeconds",
        "OldestUnbilledAgeSeconds",
        "SecondsToMonthEndWallWithUsagePending",
    }
    assert directive["Dimensions"] == [["ProductCode", "Environment"]]
    assert directive["Metrics"] == [
        {"Name": metric.value, "Unit": "Seconds" if metric in seconds else "Count"}
    ]
    assert line[metric.value] == [1.0]


def test_the_service_name_that_every_function_is_given_is_no_dimension(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alarm finds its metric by exactly the dimensions that it names, and these are the two."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "submitter")
    new_telemetry().count(Metric.SURFACED_UNITS, 1, reason="InvalidTag")
    plain, reasoned = lines(capsys)
    assert plain["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["ProductCode", "Environment"]]
    assert reasoned["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [
        ["ProductCode", "Environment", "Reason"]
    ]
    assert "service" not in plain.keys() | reasoned.keys()


def test_a_second_metric_does_not_inherit_the_firsts_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    new_telemetry().count(Metric.SURFACED_UNITS, 1, reason="InvalidTag")
    new_telemetry().count(Metric.RECORDS_BILLED, 1)
    assert lines(capsys)[-1]["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["ProductCode", "Environment"]]


def test_without_a_product_the_dimensions_still_exist(capsys: pytest.CaptureFixture[str]) -> None:
    LambdaTelemetry(f"service-{next(_services)}").count(Metric.EVENT_APPLIED)
    (line,) = lines(capsys)
    assert (line["ProductCode"], line["Environment"]) == ("all", "default")


# --- masking ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (BUYER, "...9012"),
        (LICENSE, "...2c3d"),
        ("arn:aws:license-manager:us-east-1:111122223333:license/l-0a1b2c3d", "...2c3d"),
        ("arn:aws-us-gov:license-manager::111122223333:license:l-0a1b2c3d", "...2c3d"),
        (
            "aws:license-manager:us-east-1:111122223333:l-0a1b2c3d",
            "aws:license-manager:us-east-1:...3333:...2c3d",
        ),
        ("l-0a1b2c3d", "...2c3d"),
        (f"{BUYER}#requests#2026-11-10T08:00:00", "...9012#requests#2026-11-10T08:00:00"),
        (f"(account {BUYER}, licence {LICENSE})", "(account ...9012, licence ...c3d)"),
        (f"KeyError('{LICENSE}')", "KeyError('...2c3d')"),
        (f'{{"a":"{BUYER}","b":"{LICENSE}"}}', '{"a":"...9012","b":"...2c3d"}'),
        ("2026-11-10T08:00:00Z", "2026-11-10T08:00:00Z"),
        ("Aggregated total quantity 9999999999 from 3600 raw usage records",) * 2,
        ("1794297600000", "1794297600000"),
        ("requests", "requests"),
        ("", ""),
        (None, None),
        (5, 5),
        (1.5, 1.5),
        (True, True),
        (Decimal("1.5"), "1.5"),
        (Decimal(BUYER), "...9012"),
        (utc(2026, 11, 10, 8), "2026-11-10 08:00:00+00:00"),
        (float(BUYER), "...9012.0"),
        (-float(BUYER), "-...9012.0"),
        (int(BUYER), "...9012"),
        (ValueError(f"no {BUYER}"), "ValueError('no ...9012')"),
        (f"x{BUYER}".encode(), "b'x...9012'"),
        ("L-0A1B2C3D", "...2C3D"),
        ("tool-0a1b2c3d", "tool-0a1b2c3d"),
    ],
)
def test_account_ids_and_licences_are_cut_to_their_last_four_characters(value: object, shown: object) -> None:
    assert masked(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([BUYER, "x"], ["...9012", "x"]),
        ((BUYER,), ["...9012"]),
        ({BUYER}, ["...9012"]),
        (frozenset({LICENSE}), ["...2c3d"]),
        ({"a": {"b": [BUYER, {"c": LICENSE}]}}, {"a": {"b": ["...9012", {"c": "...2c3d"}]}}),
        ({BUYER: 1, int(BUYER) + 1: 2}, {"...9012": 1, "...9013": 2}),
        (MappingProxyType({"a": BUYER}), {"a": "...9012"}),
    ],
)
def test_collections_are_masked_all_the_way_down(value: object, shown: object) -> None:
    assert masked(value) == shown


@pytest.mark.parametrize("level", ["info", "error"])
def test_a_log_line_masks_whatever_the_field_is_called(
    capsys: pytest.CaptureFixture[str], level: str
) -> None:
    log = getattr(new_telemetry(), level)
    log(
        "usage surfaced", licenseArn=LICENSE, odd=[BUYER], error=f"no {BUYER}#requests", quantity="10", rows=3
    )
    (line,) = lines(capsys)
    assert (line["level"], line["message"]) == (level.upper(), "usage surfaced")
    assert (line["licenseArn"], line["odd"], line["quantity"], line["rows"]) == (
        "...2c3d",
        ["...9012"],
        "10",
        3,
    )
    assert not any(text in json.dumps(line) for text in CLEAR)


@pytest.mark.parametrize(
    "fields",
    [
        {"error": ValueError(f"no {BUYER}")},
        {"group": GROUP},
        {"row": row()},
        {"record": pending()},
        {"account": int(BUYER)},
        {"quantity": Decimal(BUYER)},
        {"counts": {BUYER: 1}},
        {"keys": {(BUYER, LICENSE): 1}},
        {"body": f"x{BUYER}".encode()},
        {"licenseId": "L-0A1B2C3D"},
        {"ratio": float(BUYER)},
        {"ratios": [0.5, {"of": float(BUYER)}]},
    ],
)
def test_no_form_of_a_field_shows_an_identifier(
    capsys: pytest.CaptureFixture[str], fields: dict[str, object]
) -> None:
    new_telemetry().info("message", **fields)
    text = capsys.readouterr().out
    assert text
    assert not any(clear.casefold() in text.casefold() for clear in CLEAR)


@pytest.mark.parametrize("level", ["info", "error"])
def test_a_message_shows_no_identifier(capsys: pytest.CaptureFixture[str], level: str) -> None:
    getattr(new_telemetry(), level)(f"nothing known of {BUYER} and {LICENSE}")
    (line,) = lines(capsys)
    assert line["message"] == "nothing known of ...9012 and ...2c3d"
