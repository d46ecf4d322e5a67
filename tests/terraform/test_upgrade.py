"""Plans from the recorded states of releases: what an upgrade, or a flipped input, does to what exists.

The states (``python -m tests.terraform.record_state``) are planned without refreshing: no account is asked.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.terraform.record_state import EXAMPLES, STATES
from tests.terraform.tool import (
    REPOSITORY,
    Terraform,
    Values,
    actions,
    copy_repository,
    go_offline,
    with_one_acl_rule,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("upgrade")]

VERSIONS = sorted(path.name for path in STATES.iterdir())
PUBLIC = ("events", "metering", "notifications", "registration")

#: The example in whose recorded state a module's tables are looked for.
RECORDED_IN = {
    "events": "registration",
    "metering": "registration",
    "notifications": "notifications",
    "registration": "registration",
}
#: What each example has of the public modules, and how many tables they have.
MODULES_OF = {
    "registration": ("events", "metering", "registration"),
    "notifications": ("events", "notifications", "registration"),
}
TABLES_OF = {"registration": 5, "notifications": 4}
#: The example of which the quicker tiers leave the plans out, but for the flips of its module's inputs.
WIDE = {"notifications": [pytest.mark.wide]}

#: What loses data, messages, evidence or an address that buyers are sent to when it is destroyed.
STATEFUL = {
    "aws_api_gateway_domain_name",
    "aws_api_gateway_rest_api",
    "aws_cloudfront_distribution",
    "aws_cloudwatch_event_bus",
    "aws_cloudwatch_log_group",
    "aws_dynamodb_table",
    "aws_iam_role",
    "aws_kms_key",
    "aws_s3_bucket",
    "aws_sns_topic",
    "aws_sqs_queue",
}

#: What is made anew with each release of the code, and carries nothing.
RENEWED = {"aws_api_gateway_deployment", "aws_lambda_layer_version", "terraform_data"}

UPSTREAM = """
variable "generation" {
  type    = string
  default = "1"
}

module "upstream" {
  source     = "./upstream"
  generation = var.generation
}
"""

UPSTREAM_MODULE = """
variable "generation" {
  type = string
}

resource "terraform_data" "this" {
  input = var.generation
}
"""


def type_of(address: str) -> str:
    """Return the resource type in an address."""
    return re.sub(r"\[.*?\]", "", address).split(".")[-2]


@pytest.fixture(scope="module")
def upgrade_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_one_acl_rule(copy_repository(tmp_path_factory.mktemp("upgrade")))


@dataclass(frozen=True, slots=True)
class Released:
    """An example of a release with the state that it left, and today's modules below it."""

    example: str
    root: Path


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((version, example), id=f"{version}-{example}", marks=WIDE.get(example, []))
        for version in VERSIONS
        for example in EXAMPLES
    ],
)
def released(request: pytest.FixtureRequest, terraform: Terraform, upgrade_checkout: Path) -> Released:
    version, example = request.param
    root = upgrade_checkout / "examples" / f"{example}-from-{version}"
    shutil.copytree(upgrade_checkout / "examples" / example, root)
    go_offline(root)
    shutil.copy(STATES / version / f"{example}.tfstate.json", root / "terraform.tfstate")
    (root / "upstream").mkdir()
    (root / "upstream" / "main.tf").write_text(UPSTREAM_MODULE)
    (root / "upstream.tf").write_text(UPSTREAM)
    main = (root / "main.tf").read_text()
    main, count = re.subn(r'^(module "\w+" \{\n)', r"\1  depends_on = [module.upstream]\n", main, flags=re.M)
    assert count == len(MODULES_OF[example])
    (root / "main.tf").write_text(main)
    state = json.loads((root / "terraform.tfstate").read_text())
    state["resources"].append(
        {
            "module": "module.upstream",
            "mode": "managed",
            "type": "terraform_data",
            "name": "this",
            "provider": 'provider["terraform.io/builtin/terraform"]',
            "instances": [
                {
                    "schema_version": 0,
                    "attributes": {
                        "id": "upstream",
                        "input": {"type": "string", "value": "1"},
                        "output": {"type": "string", "value": "1"},
                        "triggers_replace": None,
                    },
                }
            ],
        }
    )
    (root / "terraform.tfstate").write_text(json.dumps(state))
    terraform.init(root)
    return Released(example, root)


@pytest.fixture(scope="module")
def upgrade_plan(released: Released, terraform: Terraform) -> Values:
    return terraform.plan_from_state(released.root)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_state_of_a_release_has_every_stateful_resource_and_no_path_of_a_machine(example: str) -> None:
    wanted = {"aws_dynamodb_table", "aws_sqs_queue", "aws_api_gateway_rest_api"}
    if example == "notifications":
        wanted |= {"aws_cloudwatch_event_bus", "aws_kms_key", "aws_sns_topic"}
    assert "0.1.0" in VERSIONS
    for version in VERSIONS:
        text = (STATES / version / f"{example}.tfstate.json").read_text()
        resources = json.loads(text)["resources"]
        assert wanted <= {resource["type"] for resource in resources}
        assert {resource["module"].split(".")[1] for resource in resources if "module" in resource} == set(
            MODULES_OF[example]
        )
        assert not re.search(r'"/(tmp|home|root|work|Users|var)/', text)


def test_the_recorded_examples_have_every_public_module() -> None:
    assert {module for example in EXAMPLES for module in MODULES_OF[example]} == set(PUBLIC)
    assert {path.parent.name for path in (REPOSITORY / "modules").glob("*/variables.common.tf")} == set(
        PUBLIC
    )


def test_an_upgrade_destroys_and_replaces_nothing_stateful(upgrade_plan: Values) -> None:
    planned = {change["address"] for change in upgrade_plan["resource_changes"]}
    lost = {
        address: what
        for address, what in actions(upgrade_plan).items()
        if "delete" in what and type_of(address) not in RENEWED
    }

    assert len([address for address in planned if type_of(address) in STATEFUL]) > 30
    assert lost == {}


def test_a_table_that_exists_is_not_touched_by_an_upgrade(released: Released, upgrade_plan: Values) -> None:
    tables = {
        change["address"]: change["change"]["actions"]
        for change in upgrade_plan["resource_changes"]
        if change["type"] == "aws_dynamodb_table"
    }

    assert len(tables) == TABLES_OF[released.example]
    assert set(map(tuple, tables.values())) == {("no-op",)}


def test_a_change_of_an_upstream_module_adds_nothing_to_the_plan(
    released: Released, upgrade_plan: Values, terraform: Terraform
) -> None:
    """``depends_on`` defers every data source of the example's modules."""
    changed = actions(terraform.plan_from_state(released.root, "-var=generation=2"))

    assert changed.pop("module.upstream.terraform_data.this") == ["update"]
    assert changed == actions(upgrade_plan)


# --- Every input, flipped and flipped back ---

#: The inputs that are part of a table's name: a table cannot be renamed, so these may replace it.
NAMES = {"environment", "name_prefix", "product_code"}

TOPIC = {"arn": "arn:aws:sns:us-east-1:111122223333:topic"}
KEYS = [
    {"arn": f"arn:aws:kms:us-east-1:111122223333:key/{n}234abcd-12ab-34cd-56ef-1234567890ab"} for n in (1, 2)
]
IN_S3 = {"s3": {"bucket": "artefacts", "prefix": "0.1.0/"}}
SIGNING = {"arn": "arn:aws:lambda:us-east-1:111122223333:code-signing-config:csc-0123456789abcdef0"}
SUBSCRIBERS = {
    "arn": "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers",
    "name": "awsmp-subscribers",
    "region": "us-east-1",
}
SUBSCRIBERS_OF_ANOTHER = {
    "arn": "arn:aws:dynamodb:us-east-1:111122223333:table/other",
    "name": "other",
    "region": "us-east-1",
    "kms_key_arn": KEYS[0]["arn"],
}
PAGE = {"product_name": "Example", "seller_name": "Example Corp.", "support_email": "support@example.com"}
SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:verification-AbCdEf"
SECRET_WITH_KEY = {
    "arn": "arn:aws:secretsmanager:us-east-1:111122223333:secret:own-AbCdEf",
    "kms_key_arn": KEYS[0]["arn"],
}
BUS = {"arn": "arn:aws:events:us-east-1:111122223333:event-bus/mail"}
ACL = "arn:aws:wafv2:us-east-1:111122223333:{}/webacl/own/1234abcd"
CERTIFICATE = {"arn": "arn:aws:acm:us-east-1:111122223333:certificate/1234abcd"}

PROFILES, PROFILES_OF_ANOTHER = (
    {
        "arn": f"arn:aws:dynamodb:us-east-1:111122223333:table/{name}",
        "name": name,
        "region": "us-east-1",
        "stream_arn": f"arn:aws:dynamodb:us-east-1:111122223333:table/{name}/stream/2026-11-01T00:00:00.000",
        **more,
    }
    for name, more in {
        "awsmp-1example2product3code4567-customer-profile": {"verify_url": "https://buy.example.com/verify"},
        "other": {"kms_key_arn": KEYS[0]["arn"]},
    }.items()
)
LABELS = {
    "product": "Example Analytics",
    "plan": "Standard",
    "seller": "Example Corp.",
    "support": "support@example.com",
}
SES: Values = {
    "type": "ses",
    "ses": {"identity_arn": "arn:aws:ses:us-east-1:111122223333:identity/example.com"},
}
SMTP = {"type": "smtp", "smtp": {"host": "smtp.example.com", "port": 465, "security": "implicit"}}
STARTTLS = {"type": "smtp", "smtp": {"host": "mail.example.com", "port": 587, "security": "starttls"}}
TEMPLATE = {"subject": "About {product}", "text": "Your plan is {plan}."}

#: What each module is given in the recorded deployment.
BASES: dict[str, Values] = {
    "events": {},
    "metering": {
        "metering_mode": "dry-run",
        "product_code": "1example2product3code4567",
        "subscribers_table": SUBSCRIBERS,
    },
    "notifications": {
        "customer_profile_tables": {"1example2product3code4567": PROFILES},
        "labels": LABELS,
        "pepper_secret": {"arn": "arn:aws:secretsmanager:us-east-1:111122223333:secret:pepper-AbCdEf"},
        "portal_url": "https://app.example.com/billing",
        "sender": "billing@example.com",
        "subscribers_table": SUBSCRIBERS,
        "transport": SES,
        "verification_secret": {"arn": SECRET},
    },
    "registration": {
        "manage_api_gateway_account": True,
        "page": PAGE,
        "product_code": "1example2product3code4567",
        "promoted_profile_fields": {"email": {}},
        "stage_name": "prod",
        "subscribers_table": SUBSCRIBERS,
    },
}

#: Values of each input beside those that its rules list or that a bool has, as the inputs to give together.
FLIPS: dict[str, dict[str, list[Values]]] = {
    "": {
        "alarm_thresholds": [{"alarm_thresholds": {}}],
        "alarm_topic": [{"alarm_topic": TOPIC}],
        "code_signing": [{"code_signing": SIGNING, "lambda_package": IN_S3}],
        "kms_key": [{"kms_key": key} for key in KEYS],
        "lambda_package": [{"lambda_package": IN_S3}],
        "notice_topic": [{"notice_topic": TOPIC}],
        "role_path": [{"role_path": "/workload/"}],
        "role_permissions_boundary": [
            {"role_permissions_boundary": {"arn": "arn:aws:iam::111122223333:policy/boundary"}}
        ],
        "runbook_base_url": [{"runbook_base_url": "https://example.com/runbooks"}],
        "tags": [{"tags": {"team": "billing"}}],
        "vpc": [{"vpc": {"subnet_ids": ["subnet-0a"], "security_group_ids": ["sg-0a"]}}],
    },
    "events": {
        "forward_event_buses": [{"forward_event_buses": {"us-east-1": BUS}}],
        "product_codes": [{"product_codes": ["1example2product3code4567"]}],
        "reserved_concurrency": [{"reserved_concurrency": {"subscription": 2}}],
        "roles": [{"roles": {"subscription": {"arn": "arn:aws:iam::111122223333:role/own"}}}],
        # Not without an environment, which is part of every name: no deployment that exists can have it set.
        "sandbox_event_sources": [{"sandbox_event_sources": []}],
        "seller_account_id": [{"seller_account_id": "111122223333"}],
    },
    "metering": {
        "aggregated_usage_table_ttl_days": [
            {"aggregated_usage_table_ttl_days": days} for days in (0, 10, 4000)
        ],
        "aggregator": [
            {"aggregator": {"timeout_seconds": 30, "batch_size": 1, "maximum_concurrency": 2}},
            {"aggregator": {"timeout_seconds": 300, "batch_size": 10, "maximum_concurrency": 1000}},
        ],
        "billable_window_hours": [{"billable_window_hours": hours} for hours in range(2, 25)],
        "cleanup": [
            {"cleanup": {"timeout_seconds": 15, "batch_size": 1, "maximum_concurrency": 2}},
            {"cleanup": {"timeout_seconds": 900, "batch_size": 10, "maximum_concurrency": 20}},
        ],
        "legacy_product": [{"legacy_product": {"product_code": "old"}}],
        "marketplace_region": [{"marketplace_region": "eu-west-1"}],
        "metering_lock_hours": [{"metering_lock_hours": hours} for hours in range(1, 21)],
        "reserved_concurrency": [{"reserved_concurrency": {"submitter": 2}}],
        "roles": [{"roles": {"submitter": {"arn": "arn:aws:iam::111122223333:role/own"}}}],
        "submitter": [
            {"submitter": {"max_records": 25, "requests_per_second": 1}},
            {"submitter": {"max_records": 100000, "requests_per_second": 10}},
        ],
        "subscribers_table": [{"subscribers_table": SUBSCRIBERS_OF_ANOTHER}],
        "test_account_allowlist": [{"test_account_allowlist": ["444455556666"]}],
        "usage_table_ttl_days": [{"usage_table_ttl_days": days} for days in (0, 10, 4000)],
        "writer_principal_arns": [{"writer_principal_arns": ["arn:aws:iam::444455556666:role/writer"]}],
    },
    "notifications": {
        "billing_event_principal_arns": [
            {"billing_event_principal_arns": ["arn:aws:iam::444455556666:role/billing"]}
        ],
        "customer_profile_tables": [
            {"customer_profile_tables": {"other": PROFILES_OF_ANOTHER}},
            {"customer_profile_tables": {"a": PROFILES, "b": PROFILES_OF_ANOTHER}},
        ],
        "event_forwarder_principal_arns": [
            {"event_forwarder_principal_arns": ["arn:aws:iam::444455556666:root"]}
        ],
        "feedback_retention_days": [{"feedback_retention_days": days} for days in (1, 3650)],
        "labels": [
            {"labels": LABELS | {"product": "Example Reports", "support": "https://example.com/help"}}
        ],
        "notification_max_age_days": [{"notification_max_age_days": days} for days in (1, 30)],
        "notification_max_attempts": [{"notification_max_attempts": attempts} for attempts in (1, 100)],
        "pepper_secret": [{"pepper_secret": SECRET_WITH_KEY}],
        "portal_url": [{"portal_url": "https://portal.example.com/"}],
        "product_labels": [
            {"product_labels": {"old": {"product": "Old", "portal_url": "https://example.com/"}}}
        ],
        "reserved_concurrency": [{"reserved_concurrency": {"notification-sender": 2}}],
        "roles": [{"roles": {"notification-sender": {"arn": "arn:aws:iam::111122223333:role/own"}}}],
        "run_batch_size": [{"run_batch_size": size} for size in (1, 1000)],
        "send_timeout_seconds": [
            {"send_timeout_seconds": 26},
            {"send_timeout_seconds": 120},
            {"send_timeout_seconds": 6, "transport": SMTP},
        ],
        "sender": [{"sender": "notices@mail.example.com"}],
        "smtp_credentials_secret": [{"smtp_credentials_secret": SECRET_WITH_KEY, "transport": STARTTLS}],
        "stale_claim_minutes": [{"stale_claim_minutes": minutes} for minutes in (1, 1440)],
        "subscribers_table": [{"subscribers_table": SUBSCRIBERS_OF_ANOTHER}],
        "template_details": [{"template_details": {"en": "{product} ({plan}): {portal_url}"}}],
        "templates": [{"templates": {"payment_failed": {"en": TEMPLATE, "pt-br": TEMPLATE}}}],
        "transport": [
            {"transport": {"type": "ses", "ses": SES["ses"] | {"require_tls": False}}},
            {"transport": SMTP},
            {"transport": STARTTLS},
        ],
        "verification_lifetime_hours": [{"verification_lifetime_hours": hours} for hours in (1, 168)],
        "verification_secret": [
            {"verification_secret": SECRET_WITH_KEY},
            {"verification_secret": None, "customer_profile_tables": {"other": PROFILES_OF_ANOTHER}},
        ],
    },
    "registration": {
        "address_verification": [{"address_verification": {"secret": {"arn": SECRET}}}],
        "allowed_origins": [{"allowed_origins": ["https://buy.example.com"]}],
        "cloudfront_web_acl": [
            {"cloudfront_web_acl": {"arn": ACL.format("global")}, "delivery": "cloudfront"}
        ],
        "domain": [{"domain": {"name": "buy.example.com", "certificate": CERTIFICATE}}],
        "marketplace_region": [{"marketplace_region": "eu-west-1"}],
        "own_page_url": [{"own_page_url": "https://buy.example.com/", "page": None}],
        "page": [{"page": PAGE | {"locale": "ar", "region_label": "United States"}}],
        "page_regions": [
            {"page_regions": {"Europe": {"registration_url": "https://eu.example.com/prod/register"}}}
        ],
        "promoted_profile_fields": [
            {"promoted_profile_fields": fields}
            for fields in ({}, {"company": {"range_key": "createdAt"}}, {"email": {"range_key": "company"}})
        ],
        "rate_limit": [{"rate_limit": limit} for limit in (10, 2000000000)],
        "registration_fields": [
            {
                "registration_fields": [
                    {"name": "email", "label": "Mail", "type": "email", "required": True},
                    {"name": "size", "label": "Size", "type": "select", "options": ["small", "large"]},
                ]
            }
        ],
        "reserved_concurrency": [{"reserved_concurrency": {"register": 2}}],
        "roles": [{"roles": {"register": {"arn": "arn:aws:iam::111122223333:role/own"}}}],
        "stage_name": [{"stage_name": "live"}],
        "subscribers_table": [{"subscribers_table": SUBSCRIBERS_OF_ANOTHER}],
        "throttling": [{"throttling": {"rate_limit": 1, "burst_limit": 5000}}],
        "web_acl": [{"web_acl": {"arn": ACL.format("regional")}}],
    },
}


#: Inputs of which a listed value is no whole one: the whole ones are above, with every listed value in one.
IN_PARTS = {"transport"}


def variables_of(module: str) -> dict[str, str]:
    """Return the bodies of a module's variables by name."""
    return {
        name: body
        for path in sorted((REPOSITORY / "modules" / module).glob("variables*.tf"))
        for name, body in re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', path.read_text(), re.M | re.S)
    }


def listed(name: str, body: str) -> Iterator[Values]:
    """Yield the values that a variable's own rules list, and both of a bool."""
    if re.search(r"^  type\s*= bool$", body, re.M):
        yield from ({name: True}, {name: False})
    for values, field in re.findall(rf"contains\(\[([^\]]*)\], var\.{name}(?:\.(\w+))?\)", body):
        for value in json.loads(f"[{values}]"):
            yield {name: {field: value} if field else value}


def variants_of(module: str) -> dict[str, Values]:
    """Return every flip of every input of a module, by ``<input>=<number>``."""
    found: dict[str, Values] = {"base": {}}
    for name, body in variables_of(module).items():
        for number, values in enumerate(
            [
                *(listed(name, body) if name not in IN_PARTS else []),
                *FLIPS[""].get(name, []),
                *FLIPS[module].get(name, []),
            ]
        ):
            found[f"{name}={number}"] = values
    return {key: BASES[module] | values for key, values in found.items()}


def with_unknowns_from(before: Any, after: Any, unknown: Any) -> Any:
    """Return a planned value as the state that an apply leaves, unknown parts as they were before."""
    if unknown is True:
        return before
    if isinstance(after, dict):
        hidden = unknown if isinstance(unknown, dict) else {}
        known = before if isinstance(before, dict) else {}
        return {
            name: with_unknowns_from(known.get(name), after.get(name), hidden.get(name))
            for name in after.keys() | hidden.keys()
        }
    return after


@dataclass(frozen=True, slots=True)
class Flips:
    """A root with one deployment for each variant of each module, all with the recorded tables."""

    terraform: Terraform
    root: Path
    variants: dict[str, dict[str, Values]]
    tables: dict[str, list[Values]]

    def plan(self, inputs: dict[str, dict[str, Values]], attributes: dict[str, Values]) -> Values:
        """Plan the tables with ``inputs``, from the attributes that they have by address."""
        (self.root / "variants.json").write_text(json.dumps(inputs))
        resources = []
        targets = []
        for module, variants in self.variants.items():
            for variant in variants:
                path = f'module.{module}["{variant}"]'
                for recorded in self.tables[module]:
                    resource = copy.deepcopy(recorded) | {"module": path}
                    address = f"{path}.{resource['type']}.{resource['name']}"
                    resource["instances"][0]["attributes"] |= attributes.get(address, {})
                    resources.append(resource)
                    if resource["type"] == "aws_dynamodb_table":
                        targets.append(f"-target={address}")
        state = {
            "version": 4,
            "terraform_version": "1.9.0",
            "serial": 1,
            "lineage": "00000000-0000-0000-0000-000000000000",
            "outputs": {},
            "resources": resources,
        }
        (self.root / "terraform.tfstate").write_text(json.dumps(state))
        return self.terraform.plan_from_state(self.root, *targets)


@pytest.fixture(scope="module", params=VERSIONS)
def flips(request: pytest.FixtureRequest, terraform: Terraform, upgrade_checkout: Path) -> Flips:
    root = upgrade_checkout / f"flips-{request.param}"
    root.mkdir()
    text = 'provider "aws" {\n  region = "us-east-1"\n}\n\n'
    text += 'locals {\n  variants = jsondecode(file("${path.module}/variants.json"))\n}\n'
    for module in PUBLIC:
        text += f'\nmodule "{module}" {{\n  source   = "../modules/{module}"\n'
        text += f"  for_each = toset(keys(local.variants.{module}))\n\n"
        for name in variables_of(module):
            text += f"  {name} = try(local.variants.{module}[each.key].{name}, null)\n"
        text += "}\n"
    (root / "main.tf").write_text(text)
    go_offline(root)
    terraform.init(root)
    recorded = {
        example: json.loads((STATES / request.param / f"{example}.tfstate.json").read_text())["resources"]
        for example in EXAMPLES
    }
    tables = {
        module: [
            resource
            for resource in recorded[RECORDED_IN[module]]
            if resource.get("module") == f"module.{module}"
            and (
                resource["type"] == "aws_dynamodb_table"
                or (resource["type"], resource["name"]) == ("terraform_data", "region")
            )
        ]
        for module in PUBLIC
    }
    return Flips(terraform, root, {module: variants_of(module) for module in PUBLIC}, tables)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_input_but_names_is_flipped(module: str) -> None:
    flipped = {key.split("=")[0] for key in variants_of(module)} - {"base"}

    assert flipped == variables_of(module).keys() - NAMES


def test_an_input_given_in_parts_is_flipped_to_every_value_that_its_rules_list() -> None:
    bodies = {
        (module, name): body
        for module in PUBLIC
        for name, body in variables_of(module).items()
        if name in IN_PARTS
    }

    assert {name for _, name in bodies} == IN_PARTS
    for (module, name), body in bodies.items():
        given = [values[name] for values in FLIPS[module][name]]
        parts = [value[name] for value in listed(name, body)]
        assert parts
        assert [part for part in parts if not any(part.items() <= whole.items() for whole in given)] == []


def test_flipping_an_input_and_back_replaces_no_table(flips: Flips) -> None:
    there = flips.plan(flips.variants, {})
    changed = {change["address"]: change["change"] for change in there["resource_changes"]}
    tables = {address: change for address, change in changed.items() if "aws_dynamodb_table" in address}

    assert len(tables) == sum(
        len(flips.variants[module]) * sum(r["type"] == "aws_dynamodb_table" for r in flips.tables[module])
        for module in PUBLIC
    )
    assert {a: c["actions"] for a, c in tables.items() if c["actions"] not in (["no-op"], ["update"])} == {}
    # The flips are seen at all.
    assert tables['module.metering["usage_table_ttl_days=0"].aws_dynamodb_table.usage']["actions"] == [
        "update"
    ]
    tagged = {address: change["actions"] for address, change in tables.items() if '["tags=0"]' in address}
    assert tagged == {
        f'module.{module}["tags=0"].aws_dynamodb_table.{resource["name"]}': ["update"]
        for module in PUBLIC
        for resource in flips.tables[module]
        if resource["type"] == "aws_dynamodb_table"
    }
    assert 'module.notifications["tags=0"].aws_dynamodb_table.notifications' in tagged

    after = {
        address: with_unknowns_from(change["before"], change["after"], change["after_unknown"])
        for address, change in tables.items()
    }
    back = flips.plan(
        {module: dict.fromkeys(variants, BASES[module]) for module, variants in flips.variants.items()}, after
    )
    returned = {
        change["address"]: change["change"]["actions"]
        for change in back["resource_changes"]
        if change["type"] == "aws_dynamodb_table"
    }

    assert returned.keys() == tables.keys()
    assert {address: what for address, what in returned.items() if what not in (["no-op"], ["update"])} == {}
    assert returned['module.metering["usage_table_ttl_days=0"].aws_dynamodb_table.usage'] == ["update"]
