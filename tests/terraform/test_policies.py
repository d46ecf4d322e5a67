"""The project's own policies for checkov: each fails on a planted defect, and all pass on our modules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.terraform.applied_modules import plans_of, unprotected_runs
from tests.terraform.tool import REPOSITORY, ModuleTest, Values

pytestmark = pytest.mark.slow

CHECKOV = REPOSITORY / ".venv-checkov/bin/checkov"
POLICIES = REPOSITORY / "policies/checkov"
PLANTED = REPOSITORY / "tests/policies"

DLQ, FUNCTION_ALARM, DLQ_ALARM, PROTECTION, ACTIONS, PARTIAL_BATCH = (f"CKV_AWSMP_{n}" for n in range(1, 7))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one policy said of one resource."""

    policy: str
    folder: str
    resource: str
    passed: bool


def scan(directory: Path, framework: str) -> list[Verdict]:
    """Run the policies over a directory with checkov's command, as ``make lint`` does."""
    if not CHECKOV.exists():
        pytest.fail("checkov is not installed: run `make lint` once")
    done = subprocess.run(
        [
            str(CHECKOV),
            *("--skip-download", "--compact", "--directory", str(directory), "--framework", framework),
            *("--external-checks-dir", str(POLICIES), "--check", "CKV_AWSMP_*", "--output", "json"),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report["results"]["parsing_errors"] == [], report["results"]["parsing_errors"]
    return list(_verdicts(report))


def _verdicts(report: dict[str, dict[str, list[dict[str, str]]]]) -> Iterator[Verdict]:
    for kind, passed in (("passed_checks", True), ("failed_checks", False)):
        for found in report["results"][kind]:
            folder = found["file_path"].strip("/").split("/")[0]
            yield Verdict(found["check_id"], folder, found["resource"], passed)


@pytest.fixture(scope="module")
def planted() -> list[Verdict]:
    return scan(PLANTED, "terraform")


@pytest.mark.parametrize(
    ("folder", "policy", "resources"),
    [
        ("queue_without_dlq", DLQ, {"aws_sqs_queue.lonely"}),
        ("function_reads_dlq_less_queue", DLQ, {"aws_lambda_event_source_mapping.reads_leftovers"}),
        ("stream_without_failure_queue", DLQ, {"aws_lambda_event_source_mapping.forgets"}),
        ("failure_queue_without_alarm", DLQ_ALARM, {"aws_sqs_queue.unwatched"}),
        ("function_without_alarm", FUNCTION_ALARM, {"aws_lambda_function.silent"}),
        ("dlq_without_alarm", DLQ_ALARM, {"aws_sqs_queue.unwatched_dlq"}),
        (
            "table_without_protection",
            PROTECTION,
            {"aws_dynamodb_table.off", "aws_dynamodb_table.not_said"},
        ),
        (
            "role_with_wildcard_action",
            ACTIONS,
            {
                "aws_iam_role_policy.every_table_action",
                "aws_iam_policy.every_get",
                "aws_iam_role.inline",
            },
        ),
        ("role_with_not_action", ACTIONS, {"aws_iam_role_policy.all_but_one"}),
        (
            "mapping_without_partial_batch",
            PARTIAL_BATCH,
            {"aws_lambda_event_source_mapping.all_or_nothing"},
        ),
    ],
)
def test_a_planted_defect_fails_its_policy(
    planted: list[Verdict], folder: str, policy: str, resources: set[str]
) -> None:
    failed = {v.resource for v in planted if v.folder == folder and v.policy == policy and not v.passed}

    assert failed == resources


def test_what_keeps_every_promise_passes_every_policy(planted: list[Verdict]) -> None:
    kept = [verdict for verdict in planted if verdict.folder == "kept"]

    assert [verdict for verdict in kept if not verdict.passed] == []
    assert {verdict.policy for verdict in kept} == {
        DLQ,
        FUNCTION_ALARM,
        DLQ_ALARM,
        PROTECTION,
        ACTIONS,
        PARTIAL_BATCH,
    }


def test_every_folder_of_defects_is_in_the_table_above(planted: list[Verdict]) -> None:
    folders = {path.name for path in PLANTED.iterdir() if path.is_dir()}

    assert {verdict.folder for verdict in planted if not verdict.passed} == folders - {"kept"}


@pytest.fixture(scope="module")
def ours(
    tmp_path_factory: pytest.TempPathFactory,
    events: ModuleTest,
    metering: ModuleTest,
    notifications: ModuleTest,
    registration: ModuleTest,
) -> tuple[list[Verdict], set[str]]:
    """Verdicts on every deployment that the modules' tests make, and the names of those deployments."""
    directory = tmp_path_factory.mktemp("applied")
    for module, tested in (
        ("events", events),
        ("metering", metering),
        ("notifications", notifications),
        ("registration", registration),
    ):
        unprotected = unprotected_runs(REPOSITORY / "modules" / module)
        for name, plan in plans_of(module, tested, unprotected):
            (directory / name).write_text(json.dumps(plan))
    names = {path.name for path in directory.iterdir()}
    return scan(directory, "terraform_plan"), names


@pytest.mark.xdist_group("deployments")
def test_our_modules_keep_their_promises_in_every_deployment(ours: tuple[list[Verdict], set[str]]) -> None:
    verdicts, deployments = ours

    assert [verdict for verdict in verdicts if not verdict.passed] == []
    assert {verdict.folder for verdict in verdicts} == deployments


@pytest.mark.xdist_group("deployments")
@pytest.mark.parametrize(
    ("deployment", "policy", "resources"),
    [
        ("metering-full.json", FUNCTION_ALARM, 5),
        ("metering-full.json", DLQ, 9),
        ("metering-full.json", DLQ_ALARM, 3),
        ("metering-full.json", PROTECTION, 2),
        ("metering-full.json", PARTIAL_BATCH, 3),
        ("metering-direct_submit.json", FUNCTION_ALARM, 2),
        ("events-plain.json", FUNCTION_ALARM, 2),
        ("events-plain.json", DLQ_ALARM, 1),
        ("events-plain.json", PROTECTION, 2),
        ("events-forwarding.json", FUNCTION_ALARM, 3),
        ("events-forwarding.json", DLQ_ALARM, 2),
        ("notifications-ses.json", FUNCTION_ALARM, 6),
        ("notifications-ses.json", DLQ_ALARM, 3),
        ("notifications-ses.json", PROTECTION, 1),
        ("notifications-smtp.json", FUNCTION_ALARM, 5),
        ("registration-regional.json", FUNCTION_ALARM, 2),
        ("registration-regional.json", PROTECTION, 1),
    ],
)
def test_the_policies_see_what_they_judge(
    ours: tuple[list[Verdict], set[str]], deployment: str, policy: str, resources: int
) -> None:
    """A policy that sees nothing passes everything."""
    verdicts, _ = ours

    assert len([v for v in verdicts if v.folder == deployment and v.policy == policy]) == resources


def _without_alarm(resources: list[Values], suffix: str) -> list[Values]:
    return [each for each in resources if not each["address"].endswith(suffix)]


def _changed(resources: list[Values], suffix: str, **values: Any) -> list[Values]:
    return [
        {**each, "values": {**each["values"], **values}} if each["address"].endswith(suffix) else each
        for each in resources
    ]


_WILDCARD = json.dumps(
    {"Statement": [{"Sid": "Usage", "Effect": "Allow", "Action": ["dynamodb:*"], "Resource": ["*"]}]}
)

#: A defect in the plan of a whole deployment: what is changed, the policy that has to see it, and where.
DEFECTS: Final[Mapping[str, tuple[Callable[[list[Values]], list[Values]], str, str]]] = {
    "no-alarm-on-a-function": (
        lambda resources: _without_alarm(resources, '["submitter-errors"]'),
        FUNCTION_ALARM,
        'module.function["submitter"].aws_lambda_function.this',
    ),
    "no-alarm-on-a-dlq": (
        lambda resources: _without_alarm(resources, '["work-dlq"]'),
        DLQ_ALARM,
        'module.queue["work"].aws_sqs_queue.dlq',
    ),
    "no-dlq": (
        lambda resources: _changed(resources, 'module.queue["work"].aws_sqs_queue.this', redrive_policy=None),
        DLQ,
        'module.queue["work"].aws_sqs_queue.this',
    ),
    "no-protection": (
        lambda resources: _changed(resources, "aws_dynamodb_table.usage", deletion_protection_enabled=False),
        PROTECTION,
        "aws_dynamodb_table.usage",
    ),
    "wildcard": (
        lambda resources: _changed(
            resources, 'module.function["cleanup"].aws_iam_role_policy.this[0]', policy=_WILDCARD
        ),
        ACTIONS,
        'module.function["cleanup"].aws_iam_role_policy.this[0]',
    ),
    "whole-batches": (
        lambda resources: _changed(
            resources, 'aws_lambda_event_source_mapping.this["work"]', function_response_types=[]
        ),
        PARTIAL_BATCH,
        'module.function["aggregator"].aws_lambda_event_source_mapping.this["work"]',
    ),
}


@pytest.mark.xdist_group("deployments")
def test_a_defect_in_one_deployment_is_found_there_though_others_are_whole(
    tmp_path: Path, metering: ModuleTest
) -> None:
    whole = dict(plans_of("metering", metering, ()))["metering-full.json"]
    (tmp_path / "whole.json").write_text(json.dumps(whole))
    for name, (change, _, _) in DEFECTS.items():
        resources = change(whole["planned_values"]["root_module"]["resources"])
        assert resources != whole["planned_values"]["root_module"]["resources"], name
        broken = {**whole, "planned_values": {"root_module": {"resources": resources}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(broken))

    failed = [verdict for verdict in scan(tmp_path, "terraform_plan") if not verdict.passed]

    # A queue without a DLQ leaves its former DLQ without an owner, and a mapping that reads such a queue.
    found = {(v.folder, v.policy, v.resource) for v in failed}
    assert {(f"{name}.json", policy, where) for name, (_, policy, where) in DEFECTS.items()} <= found
    assert {folder for folder, _, _ in found} == {f"{name}.json" for name in DEFECTS}
    assert {policy for folder, policy, _ in found if folder == "no-dlq.json"} == {DLQ}
    assert len([each for each in found if each[0] != "no-dlq.json"]) == len(DEFECTS) - 1


@pytest.mark.xdist_group("deployments")
def test_every_role_policy_of_ours_is_read(ours: tuple[list[Verdict], set[str]]) -> None:
    verdicts, _ = ours
    judged = [v.resource for v in verdicts if v.policy == ACTIONS and v.folder == "metering-full.json"]

    assert len([name for name in judged if "aws_iam_role_policy" in name]) == 5
