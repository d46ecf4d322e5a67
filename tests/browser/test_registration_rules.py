"""The page's own JavaScript decides about every row of the table that the service's tests use, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from awsmp.domain.registration_fields import FieldCode
from sandbox.registration_server import RegistrationServer
from tests.browser.support import BROWSER_TEST, Browse

pytestmark = list(BROWSER_TEST)

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "registration_field_cases.json").read_text(encoding="utf-8")
)
CODES = {code.value for code in FieldCode}


def test_page_and_service_judge_every_value_alike(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    visit.page.goto(server.url)
    judged = visit.page.evaluate(
        "(cases) => JSON.parse(cases).map(({ field, value }) => awsmpRegistration.validate(field, value))",
        json.dumps(CASES),
    )
    differing = [
        (case, verdict)
        for case, verdict in zip(CASES, judged, strict=True)
        if verdict != (case["outcome"] if case["outcome"] in CODES else None)
    ]
    assert differing == []
    assert len(CASES) >= 40
    assert {case["outcome"] for case in CASES if case["outcome"] in CODES} == CODES - {"UnknownField"}


def test_the_rules_are_open_to_a_look_but_not_to_a_change(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    visit.page.goto(server.url)
    assert visit.page.evaluate("Object.isFrozen(awsmpRegistration)") is True
