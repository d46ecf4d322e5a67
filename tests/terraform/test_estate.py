"""What an estate may ask for, in every partition: all public modules together, applied against mocks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from tests.terraform.tool import (
    REPOSITORY,
    ModuleTest,
    Resources,
    Terraform,
    Values,
    copy_repository,
    with_one_acl_rule,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("estate")]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, one of its Regions, and how its host names end."""

    name: str
    region: str
    suffix: str
    has_events: bool = True
    has_ses: bool = True
    warned_about: bool = False
    #: Of those that differ from another in what they lack only: left to the wide tier.
    wide: bool = False

    @property
    def file(self) -> str:
        """The name of its test file."""
        return f"{self.name}.tftest.hcl"


PARTITIONS = [
    Partition("aws", "us-east-1", "amazonaws.com"),
    # Mail goes through a mail server of one's own here.
    Partition("aws-cn", "cn-northwest-1", "amazonaws.com.cn", has_ses=False),
    # Provider 5.100 takes no Region that begins with four letters, so another one's name stands in for
    # eusc-de-east-1, in which the events module would run: what follows from the partition is the same.
    Partition("aws-eusc", "eu-central-1", "amazonaws.eu", has_events=False, wide=True),
    # AWS Marketplace sends GovCloud's events to us-east-1, where the events module runs.
    Partition("aws-us-gov", "us-gov-west-1", "amazonaws.com", has_events=False, warned_about=True, wide=True),
]

ROOT = """
terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "events" {
  type = bool
}

variable "inputs" {
  type = object({
    alarm_topic                  = object({ arn = string })
    billing_event_principal_arns = optional(list(string))
    code_signing                 = optional(object({ arn = string }))
    forwarding                   = optional(bool, false)
    kms_key                      = optional(object({ arn = string }))
    lambda_package               = optional(object({ s3 = object({ bucket = string, prefix = string }) }))
    marketplace_region           = optional(string)
    pepper_secret                = object({ arn = string })
    smtp_credentials_secret      = optional(object({ arn = string, kms_key_arn = string }))
    subscribers_table            = object({ arn = string, name = string, region = string })
    tracing                      = optional(bool)
    verification_secret          = optional(object({ arn = string, kms_key_arn = string }))
    web_acl                      = optional(object({ arn = string }))
    writer_principal_arns        = optional(list(string), [])

    transport = object({
      type = string
      ses  = optional(object({ identity_arn = string }))
      smtp = optional(object({ host = string, port = number, security = string }))
    })
  })
}

module "events" {
  source         = "../modules/events"
  count          = var.events ? 1 : 0
  alarm_topic    = var.inputs.alarm_topic
  code_signing   = var.inputs.code_signing
  kms_key        = var.inputs.kms_key
  lambda_package = var.inputs.lambda_package
  tracing        = var.inputs.tracing

  forward_event_buses = {
    for region in var.inputs.forwarding ? [var.inputs.subscribers_table.region] : [] :
    region => module.notifications.event_bus
  }
}

module "metering" {
  source                = "../modules/metering"
  metering_mode         = "live"
  product_code          = "1example2product3code4567"
  alarm_topic           = var.inputs.alarm_topic
  code_signing          = var.inputs.code_signing
  kms_key               = var.inputs.kms_key
  lambda_package        = var.inputs.lambda_package
  marketplace_region    = var.inputs.marketplace_region
  subscribers_table     = var.inputs.subscribers_table
  tracing               = var.inputs.tracing
  writer_principal_arns = var.inputs.writer_principal_arns
}

module "registration" {
  source                     = "../modules/registration"
  manage_api_gateway_account = true
  product_code               = "1example2product3code4567"
  stage_name                 = "prod"
  alarm_topic                = var.inputs.alarm_topic
  code_signing               = var.inputs.code_signing
  kms_key                    = var.inputs.kms_key
  lambda_package             = var.inputs.lambda_package
  marketplace_region         = var.inputs.marketplace_region
  subscribers_table          = var.inputs.subscribers_table
  tracing                    = var.inputs.tracing
  web_acl                    = var.inputs.web_acl

  address_verification = one([
    for secret in var.inputs.verification_secret[*] : { secret = secret }
  ])

  page = {
    product_name  = "Example Analytics"
    seller_name   = "Example Corp."
    support_email = "support@example.com"
  }
}

module "notifications" {
  source                       = "../modules/notifications"
  customer_profile_tables      = { "1example2product3code4567" = module.registration.customer_profile_table }
  portal_url                   = "https://app.example.com/billing"
  sender                       = "billing@example.com"
  alarm_topic                  = var.inputs.alarm_topic
  billing_event_principal_arns = var.inputs.billing_event_principal_arns
  code_signing                 = var.inputs.code_signing
  kms_key                      = var.inputs.kms_key
  lambda_package               = var.inputs.lambda_package
  pepper_secret                = var.inputs.pepper_secret
  smtp_credentials_secret      = var.inputs.smtp_credentials_secret
  subscribers_table            = var.inputs.subscribers_table
  tracing                      = var.inputs.tracing
  transport                    = var.inputs.transport
  verification_secret          = var.inputs.verification_secret

  labels = {
    product = "Example Analytics"
    plan    = "Standard"
    seller  = "Example Corp."
    support = "support@example.com"
  }
}

output "key_policies" {
  value = merge(
    { for events in module.events : "events" => events.kms_key_policy_json },
    {
      metering      = module.metering.kms_key_policy_json
      notifications = module.notifications.kms_key_policy_json
      registration  = module.registration.kms_key_policy_json
    },
  )
}

output "role_policies" {
  value = merge(concat(
    [for events in module.events : events.role_policies_json],
    [
      module.metering.role_policies_json,
      module.notifications.role_policies_json,
      module.registration.role_policies_json,
    ],
  )...)
}

output "billing_event_writer_policy" {
  value = module.notifications.billing_event_writer_policy_json
}

output "fulfillment_url" {
  value = module.registration.fulfillment_url
}
"""

ARNS = {
    "aws_api_gateway_rest_api": ("execution_arn", "execute-api:{region}:{account}:a1b2c3d4e5"),
    "aws_cloudwatch_event_bus": ("arn", "events:{region}:{account}:event-bus/awsmp-notifications"),
    "aws_cloudwatch_event_rule": ("arn", "events:{region}:{account}:rule/mock"),
    "aws_cloudwatch_log_group": ("arn", "logs:{region}:{account}:log-group:mock"),
    "aws_dynamodb_table": ("arn", "dynamodb:{region}:{account}:table/mock"),
    "aws_iam_role": ("arn", "iam::{account}:role/mock"),
    "aws_kms_key": ("arn", "kms:{region}:{account}:key/feedback"),
    "aws_lambda_function": ("arn", "lambda:{region}:{account}:function:mock"),
    "aws_lambda_layer_version": ("arn", "lambda:{region}:{account}:layer:mock:1"),
    "aws_sesv2_configuration_set": ("arn", "ses:{region}:{account}:configuration-set/awsmp-notifications"),
    "aws_sns_topic": ("arn", "sns:{region}:{account}:awsmp-notification-feedback"),
    "aws_sqs_queue": ("arn", "sqs:{region}:{account}:mock"),
    "aws_api_gateway_stage": ("arn", "apigateway:{region}::/restapis/a1b2c3d4e5/stages/prod"),
}
#: A table is held to the name in its ARN, and its stream to the table.
PROFILES = "dynamodb:{region}:{account}:table/awsmp-1example2product3code4567-customer-profile"
#: These ARNs have no account where the service has none.
ACCOUNT = "111122223333"


def mocked(partition: Partition) -> str:
    """Return a test of the root against mocks that answer as the partition would."""

    def arn(rest: str) -> str:
        return f"arn:{partition.name}:{rest.format(region=partition.region, account=ACCOUNT)}"

    mocks = [f'  mock_data "aws_region" {{\n    defaults = {{ id = "{partition.region}" }}\n  }}\n']
    for kind, (attribute, rest) in ARNS.items():
        extra = ', id = "a1b2c3d4e5"' if kind == "aws_api_gateway_rest_api" else ""
        mocks.append(
            f'  mock_resource "{kind}" {{\n    defaults = {{ {attribute} = "{arn(rest)}"{extra} }}\n  }}\n'
        )
    plain: Values = {
        "alarm_topic": {"arn": arn("sns:{region}:{account}:alarms")},
        "subscribers_table": {
            "arn": arn("dynamodb:{region}:{account}:table/awsmp-subscribers"),
            "name": "awsmp-subscribers",
            "region": partition.region,
        },
        "pepper_secret": {"arn": arn("secretsmanager:{region}:{account}:secret:pepper-AbCdEf")},
        "transport": {
            "type": "ses",
            "ses": {"identity_arn": arn("ses:{region}:{account}:identity/example.com")},
        }
        if partition.has_ses
        else {"type": "smtp", "smtp": {"host": "smtp.example.com", "port": 465, "security": "implicit"}},
    }
    # The baseline's schema takes Terraform ten seconds to create and destroy, and no value in it follows from
    # the partition: its place is taken by one's own.
    plain["web_acl"] = {"arn": arn("wafv2:{region}:{account}:regional/webacl/own/1")}
    if partition.warned_about:
        # The warning has a test of its own, and a run with one would fail.
        plain["marketplace_region"] = "us-east-1"
    key = arn("kms:{region}:{account}:key/1234abcd-12ab-34cd-56ef-1234567890ab")

    def secret(name: str) -> Values:
        return {"arn": arn(f"secretsmanager:{{region}}:{{account}}:secret:{name}-AbCdEf"), "kms_key_arn": key}

    full = plain | {
        "billing_event_principal_arns": [arn("iam::444455556666:role/billing")],
        "code_signing": {"arn": arn("lambda:{region}:{account}:code-signing-config:csc-0123456789abcdef0")},
        "forwarding": True,
        "kms_key": {"arn": key},
        "lambda_package": {"s3": {"bucket": "artefacts", "prefix": "signed/0.1.0/"}},
        "tracing": True,
        "verification_secret": secret("verification"),
        "writer_principal_arns": [arn("iam::444455556666:role/writer")],
    }
    if not partition.has_ses:
        full["smtp_credentials_secret"] = secret("smtp")
    profiles = json.dumps(
        {"arn": arn(PROFILES), "stream_arn": arn(PROFILES) + "/stream/2026-11-01T00:00:00.000"}
    )
    overridden = (
        "\noverride_resource {\n  target = module.registration.aws_dynamodb_table.customer_profile\n"
        f"  values = {profiles}\n}}\n"
    )
    runs = "".join(
        f'\nrun "{name}" {{\n  variables {{\n    events = {json.dumps(partition.has_events)}\n'
        f"    inputs = {json.dumps(inputs)}\n  }}\n}}\n"
        for name, inputs in {"plain": plain, "full": full}.items()
    )
    return 'mock_provider "aws" {\n' + "\n".join(mocks) + "}\n" + overridden + runs


@pytest.fixture(scope="module")
def estates(
    terraform: Terraform, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Partition], ModuleTest]:
    """Returns the root in a partition, applied against mocks: those of a tier by one command."""
    root = with_one_acl_rule(copy_repository(tmp_path_factory.mktemp("estate"))) / "root"
    (root / "tests").mkdir(parents=True)
    (root / "main.tf").write_text(ROOT)
    for partition in PARTITIONS:
        (root / "tests" / partition.file).write_text(mocked(partition))
    terraform.init(root)

    @cache
    def tier(wide: bool) -> dict[str, ModuleTest]:
        return terraform.test(root, *(each.file for each in PARTITIONS if each.wide is wide))

    return lambda partition: tier(partition.wide)[partition.file]


@dataclass(frozen=True, slots=True)
class Estate:
    """What the root is in a partition."""

    partition: Partition
    test: ModuleTest

    def functions(self, run: str) -> list[Values]:
        return [r.values for r in self.test.states[run].of_type("aws_lambda_function")]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(partition, id=partition.name, marks=[pytest.mark.wide] if partition.wide else [])
        for partition in PARTITIONS
    ],
)
def estate(request: pytest.FixtureRequest, estates: Callable[[Partition], ModuleTest]) -> Estate:
    partition: Partition = request.param
    test = estates(partition)
    assert test.outcomes == {"plain": "pass", "full": "pass"}, test.problems
    return Estate(partition, test)


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a value, texts in JSON in texts as well."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(name)
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


def arns(state: Resources, outputs: Values) -> list[str]:
    return [
        found
        for values in [*(resource.values for resource in state), outputs]
        for text in texts(values)
        for found in re.findall(r"arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*", text)
    ]


@pytest.mark.parametrize("run", ["plain", "full"])
def test_every_arn_is_of_its_partition_and_region(estate: Estate, run: str) -> None:
    partition = estate.partition
    found = arns(estate.test.states[run], estate.test.outputs[run])

    assert len(found) > 100
    foreign = {
        arn
        for arn in found
        if not re.fullmatch(rf"arn:{partition.name}:[a-z0-9-]+:(|{partition.region})", arn)
    }
    assert foreign == set()


def test_names_fit_and_end_in_the_regions_code_where_they_are_global(estate: Estate) -> None:
    code = {
        "cn-northwest-1": "cnnw1",
        "eu-central-1": "euc1",
        "us-east-1": "use1",
        "us-gov-west-1": "usgw1",
    }[estate.partition.region]
    names = [r.values["name"] for r in estate.test.states["full"].of_type("aws_iam_role")]

    assert len(names) >= 8
    assert [name for name in names if not name.endswith(f"-{code}") or len(name) > 64] == []


def test_principals_are_those_of_the_partition(estate: Estate) -> None:
    """AWS's own table: only China's CloudWatch Logs differs among the services used here."""
    partition = estate.partition
    logs = f"logs.{partition.region}.amazonaws.com" + (".cn" if partition.name == "aws-cn" else "")
    services = {
        module: {
            statement["Principal"]["Service"]
            for statement in json.loads(policy)["Statement"]
            if "Service" in statement["Principal"]
        }
        for module, policy in estate.test.outputs["full"]["key_policies"].items()
    }
    mail = {"ses.amazonaws.com", "sns.amazonaws.com"} if partition.has_ses else set()

    assert services.pop("notifications") == {logs, "events.amazonaws.com"} | mail
    assert services == {"metering": {logs}, "registration": {logs}} | (
        {"events": {logs, "events.amazonaws.com"}} if partition.has_events else {}
    )


def test_writers_of_other_accounts_may_write_and_use_the_key_through_the_table_only(estate: Estate) -> None:
    partition = estate.partition
    writer = f"arn:{partition.name}:iam::444455556666:role/writer"
    (policy,) = estate.test.states["full"].of_type("aws_dynamodb_resource_policy")
    (statement,) = json.loads(policy.values["policy"])["Statement"]
    key = next(
        statement
        for statement in json.loads(estate.test.outputs["full"]["key_policies"]["metering"])["Statement"]
        if statement["Sid"] == "MeteringWriters"
    )

    assert statement["Principal"] == key["Principal"] == {"AWS": [writer]}
    assert statement["Action"] == ["dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
    assert key["Condition"] == {
        "StringEquals": {"kms:ViaService": f"dynamodb.{partition.region}.{partition.suffix}"}
    }
    assert estate.test.states["plain"].of_type("aws_dynamodb_resource_policy") == []


def test_billing_of_another_account_may_tell_and_use_the_key_through_the_queue_only(estate: Estate) -> None:
    partition = estate.partition
    billing = {"AWS": [f"arn:{partition.name}:iam::444455556666:role/billing"]}
    (bus,) = estate.test.states["full"].of_type("aws_cloudwatch_event_bus_policy")
    (put,) = json.loads(bus.values["policy"])["Statement"]
    (send,) = (
        statement
        for policy in estate.test.states["full"].of_type("aws_sqs_queue_policy", "module.notifications.")
        for statement in json.loads(policy.values["policy"])["Statement"]
        if statement["Sid"] == "Writers"
    )
    (key,) = (
        statement
        for statement in json.loads(estate.test.outputs["full"]["key_policies"]["notifications"])["Statement"]
        if statement["Sid"] == "NotificationsBilling"
    )

    assert put["Principal"] == send["Principal"] == key["Principal"] == billing
    assert (put["Action"], send["Action"]) == ("events:PutEvents", "sqs:SendMessage")
    assert key["Condition"] == {
        "StringEquals": {"kms:ViaService": f"sqs.{partition.region}.{partition.suffix}"}
    }
    assert estate.test.states["plain"].of_type("aws_cloudwatch_event_bus_policy") == []


@pytest.mark.parametrize("run", ["plain", "full"])
def test_mail_goes_by_ses_where_it_is_offered_else_by_a_mail_server(estate: Estate, run: str) -> None:
    partition = estate.partition
    state = estate.test.states[run]
    (sender,) = (f for f in estate.functions(run) if f["function_name"] == "awsmp-notification-sender")
    transport = json.loads(sender["environment"][0]["variables"]["TRANSPORT"])
    statements = json.loads(estate.test.outputs[run]["role_policies"]["notification-sender"])["Statement"]
    kinds = {
        kind: len(state.of_type(kind, "module.notifications."))
        for kind in ("aws_kms_key", "aws_sesv2_configuration_set", "aws_sns_topic", "aws_sns_topic_policy")
    }

    assert transport["type"] == ("ses" if partition.has_ses else "smtp")
    assert ("Send" in {statement["Sid"] for statement in statements}) == partition.has_ses
    # The topic has a key of its own only where there is a topic, and no key is given.
    assert kinds.pop("aws_kms_key") == (1 if partition.has_ses and run == "plain" else 0)
    assert set(kinds.values()) == {1 if partition.has_ses else 0}


def test_the_partitions_with_ses_are_those_that_the_sdk_knows() -> None:
    import boto3  # noqa: PLC0415

    session = boto3.session.Session()
    known = {
        partition.name: bool(session.get_available_regions("sesv2", partition_name=partition.name))
        for partition in PARTITIONS
    }

    assert known == {partition.name: partition.has_ses for partition in PARTITIONS}


def test_a_mailed_link_leads_to_a_host_of_the_partition(estate: Estate) -> None:
    partition = estate.partition

    def tables(run: str) -> list[Values]:
        (sender,) = (f for f in estate.functions(run) if f["function_name"] == "awsmp-notification-sender")
        found: list[Values] = json.loads(sender["environment"][0]["variables"]["CUSTOMER_PROFILE_TABLES"])
        return found

    name = "awsmp-1example2product3code4567-customer-profile"
    host = f"a1b2c3d4e5.execute-api.{partition.region}.{partition.suffix}"
    assert tables("full") == [{"name": name, "verifyUrl": f"https://{host}/prod/verify"}]
    assert tables("plain") == [{"name": name, "verifyUrl": None}]


def test_the_fulfilment_url_is_a_host_of_the_partition(estate: Estate) -> None:
    partition = estate.partition

    assert estate.test.outputs["full"]["fulfillment_url"] == (
        f"https://a1b2c3d4e5.execute-api.{partition.region}.{partition.suffix}/prod/fulfillment"
    )


def test_tracing_is_a_switch_with_its_permissions(estate: Estate) -> None:
    def sids(run: str) -> set[bool]:
        return {
            "Tracing" in {statement["Sid"] for statement in json.loads(policy)["Statement"]}
            for policy in estate.test.outputs[run]["role_policies"].values()
        }

    modes = {
        run: {function["tracing_config"][0]["mode"] for function in estate.functions(run)}
        for run in ("plain", "full")
    }
    assert modes == {"plain": {"PassThrough"}, "full": {"Active"}}
    assert (sids("plain"), sids("full")) == ({False}, {True})
    (tracing,) = (
        statement
        for statement in json.loads(estate.test.outputs["full"]["role_policies"]["submitter"])["Statement"]
        if statement["Sid"] == "Tracing"
    )
    assert tracing["Action"] == ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]


def test_buyers_addresses_do_not_reach_a_trace(estate: Estate) -> None:
    """X-Ray would keep the caller's address of each request to the API."""
    (stage,) = estate.test.states["full"].of_type("aws_api_gateway_stage")

    assert not stage.values["xray_tracing_enabled"]


def test_signed_code_comes_from_s3_and_every_function_asks_for_the_signature(estate: Estate) -> None:
    functions = estate.functions("full")
    layers = [r.values for r in estate.test.states["full"].of_type("aws_lambda_layer_version")]
    arn = (
        f"arn:{estate.partition.name}:lambda:{estate.partition.region}:{ACCOUNT}"
        ":code-signing-config:csc-0123456789abcdef0"
    )

    # Of metering, of registration, of notifications, of events.
    ours = 6 if estate.partition.has_ses else 5
    assert len(functions) == 5 + 3 + ours + (3 if estate.partition.has_events else 0)
    assert {function["code_signing_config_arn"] for function in functions} == {arn}
    assert {function["s3_key"] for function in functions} == {"signed/0.1.0/awsmp.zip"}
    assert {(layer["s3_bucket"], layer["s3_key"]) for layer in layers} == {
        ("artefacts", "signed/0.1.0/dependencies.zip")
    }
    assert {function["code_signing_config_arn"] for function in estate.functions("plain")} <= {None, ""}


def test_the_regions_with_a_metering_endpoint_are_those_that_the_sdk_knows() -> None:
    """But for GovCloud, whose endpoints take MeterUsage only, and for the isolated partitions."""
    import boto3  # noqa: PLC0415

    session = boto3.session.Session()
    known = {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("meteringmarketplace", partition_name=partition)
        if not region.startswith(("us-gov-", "us-iso"))
    }
    text = (REPOSITORY / "modules" / "naming" / "main.tf").read_text()
    block = text[text.index("metering_api_regions = [") :]
    listed = set(re.findall(r'"([a-z0-9-]+)"', block[: block.index("]")]))

    assert listed == known
