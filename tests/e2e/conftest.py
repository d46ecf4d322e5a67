"""One deployment of ``examples/registration`` under enforced roles, and an afternoon played through it.

Its registration is in another Region than the rest, so that what must stay in its Region has one to leave.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from awsmp.adapters.dynamodb import to_wire
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import LEDGER_SORT_KEY
from awsmp.domain.notifications.kinds import Kind, ServiceKind
from sandbox.cloud_stage import CloudStage, deployment_of
from sandbox.emulator_launcher import ACCESS_PATH
from sandbox.emulator_launcher import PATH as CLOCK_PATH
from sandbox.local_cloud import LocalCloud, Request
from sandbox.mailbox import REGISTRATION_OVERRIDE, TIER, Mail, Mailbox, billing_event, events_override
from sandbox.simulation.reconciliation import Account, key_of, reconcile
from sandbox.simulation.seller import Buyer, Seller
from sandbox.simulation.stage import Bought
from sandbox.terraform import Values, copy_repository
from tests.terraform.provider_server import ProviderServers, provider_executable
from tests.terraform.tool import Terraform

PRODUCT: Final = "1example2product3code4567"
#: The Region of the registration; everything else is in us-east-1.
REGISTRATION_REGION: Final = "eu-west-1"
#: The cloud begins here, and Terraform has until the afternoon begins.
DEPLOYED: Final = datetime(2026, 3, 10, 12, 5, tzinfo=UTC)
NOON: Final = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
#: How much longer a mail may take on a machine that is busy: two pauses before another try.
SLOW_MINUTES: Final = 10

#: Beside the example, in its copy: what the tests have to know, and the switch that the example leaves alone.
_BESIDE: Final = """
variable "deployment_mode" {
  type    = string
  default = "full"
}

provider "aws" {
  alias  = "registration"
  region = "eu-west-1"
}

output "product_code" { value = var.product_code }
output "subscribers_table" { value = module.events.subscribers_table }
output "event_queue" { value = module.events.event_queue }
output "event_dlq" { value = module.events.event_dlq }
output "aggregated_usage_table" { value = module.metering.aggregated_usage_table }
output "whole_usage_table" { value = module.metering.usage_table }
output "queues" { value = module.metering.queues }
output "whole_customer_profile_table" { value = module.registration.customer_profile_table }
output "verify_url" { value = module.registration.verify_url }
output "rest_api_id" { value = module.registration.rest_api_id }
output "function_names" {
  value = merge(
    module.events.function_names,
    module.metering.function_names,
    module.registration.function_names,
    module.notifications.function_names,
  )
}
output "role_arns" {
  value = merge(
    module.events.role_arns,
    module.metering.role_arns,
    module.registration.role_arns,
    module.notifications.role_arns,
  )
}
output "role_policies_json" {
  value = merge(
    module.events.role_policies_json,
    module.metering.role_policies_json,
    module.registration.role_policies_json,
    module.notifications.role_policies_json,
  )
}
output "log_group_names" {
  value = concat(values(module.events.log_group_names), values(module.metering.log_group_names))
}
"""
#: The stage admits as many requests as it can, so that thousands of generated ones reach the functions.
_OVERRIDE: Final = f"""
module "events" {{
  {events_override(REGISTRATION_REGION)}
}}

module "metering" {{
  deployment_mode = var.deployment_mode
}}

module "registration" {{
  providers  = {{ aws = aws.registration }}
  throttling = {{ rate_limit = 5000, burst_limit = 5000 }}
  {REGISTRATION_OVERRIDE}
}}

module "notifications" {{
  providers = {{ aws = aws.registration }}
}}

resource "aws_sesv2_email_identity" "sender" {{
  provider = aws.registration
}}

resource "aws_secretsmanager_secret" "pepper" {{
  provider = aws.registration
}}

resource "aws_secretsmanager_secret_version" "pepper" {{
  provider = aws.registration
}}

resource "aws_secretsmanager_secret" "verification" {{
  provider = aws.registration
}}

resource "aws_secretsmanager_secret_version" "verification" {{
  provider = aws.registration
}}
"""


@dataclass(frozen=True, slots=True)
class Deployed:
    """An applied example: its root module, its outputs and the cloud that it lives in."""

    cloud: LocalCloud
    terraform: Terraform
    root: Path
    outputs: Mapping[str, Any]
    #: Opened and used once at the beginning; idle since.
    idle: HTTPConnection

    @property
    def _variables(self) -> dict[str, str]:
        return {"product_code": PRODUCT, "metering_mode": "live"}

    def apply(self, *, refresh: bool = True, **variables: str) -> None:
        """Apply the root module again."""
        self.terraform.apply(self.root, self._variables | variables, self.cloud.environment, refresh=refresh)

    def plan(self, *, refresh: bool = True, **variables: str) -> Values:
        """Return a plan's JSON."""
        return self.terraform.plan(
            self.root, self._variables | variables, self.cloud.environment, refresh=refresh
        )

    def apply_plan(self) -> None:
        """Apply what was planned last."""
        self.terraform.apply_plan(self.root, self.cloud.environment)

    def access(self) -> list[dict[str, Any]]:
        """Return every check of a policy that the emulator has made so far."""
        entries: list[dict[str, Any]] = Request("access", self.cloud.endpoint + ACCESS_PATH).send()
        return entries

    def function_of(self, principal: str) -> str:
        """Return the key of the function that ``principal`` is a role session of, else the principal."""
        role = principal.split("/")[1] if ":assumed-role/" in principal else None
        for key, arn in self.outputs["role_arns"].items():
            if arn.rsplit("/", 1)[-1] == role:
                return str(key)
        return principal

    def runs(self, count: str = "runs") -> dict[str, int]:
        """Return how often each function has run so far, or with ``failures`` how often it failed."""
        counted = Request("runs", self.cloud.endpoint + CLOCK_PATH).send()[count]
        names: Mapping[str, str] = self.outputs["function_names"]
        return {key: counted.get(name, 0) for key, name in names.items()}


@dataclass(slots=True)
class Afternoon:
    """What was played, and what was there at its end."""

    deployed: Deployed
    stage: CloudStage
    seller: Seller
    buyers: dict[str, Buyer] = field(default_factory=dict)
    accounts: dict[tuple[str, str, str], Account] = field(default_factory=dict)
    #: By buyer, what they entered when they registered.
    entered: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Every registration token that a buyer's browser got.
    tokens: list[str] = field(default_factory=list)
    #: Every verification link that was used.
    links: dict[str, str] = field(default_factory=dict)
    #: What the notifications tier answered or published on the way, by name.
    seen: dict[str, Any] = field(default_factory=dict)
    access: list[dict[str, Any]] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def mailbox(self) -> Mailbox:
        """The notifications tier's side of it."""
        return Mailbox(self.deployed.cloud, self.deployed.outputs["notifications"])

    def address(self, name: str) -> str:
        """Return the address that a buyer entered."""
        return self.entered[name]["email"]

    def mail(self, name: str, kind: Kind | ServiceKind) -> Mail:
        """Return a buyer's newest mail of a kind.

        On a machine that is busy, a run of the sender does not get through, and the next ones send the rest.
        """
        for _ in range(SLOW_MINUTES):
            if (self.address(name), kind.value) in self.mailbox.told():
                break
            self.stage.cloud.advance(MINUTE)
        return self.mailbox.last(self.address(name), kind)

    def confirm(self, name: str) -> None:
        """Have a buyer use the link in the newest verification mail."""
        self.links[name] = self.mail(name, ServiceKind.ADDRESS_VERIFICATION).link
        assert self.mailbox.press_button(self.links[name]).status == HTTPStatus.OK

    def until(self, at: timedelta) -> None:
        """Let time pass until ``at`` after noon, if it is not later already."""
        if self.stage.cloud.now() < NOON + at:
            self.stage.cloud.advance_to(NOON + at)

    def buy(self, name: str, account: str, *, deliver: bool = True) -> Bought:
        """Buy the product in the morning of the day before; the events arrive now."""
        bought = self.stage.subscribe(account, NOON - 30 * HOUR)
        self.buyers[name] = Buyer(name, bought.license_arn, account, bought.agreement_id)
        for envelope in bought.events if deliver else ():
            self.stage.deliver(envelope)
        return bought

    def register(self, name: str, *, offer_type: str | None = None, multipart: bool = False) -> str:
        """Have a buyer set up the account with a fresh token; return the outcome."""
        token = self.stage.mint_token(self.buyers[name].license_arn)
        self.tokens.append(token)
        self.entered[name] = personal_data(name)
        browser = self.stage.browser(multipart=multipart)
        return browser.set_up_account(token, self.entered[name], offer_type)

    def write(self, name: str, dimension: str, at: timedelta, quantity: Any, **changes: Any) -> None:
        """Have the application write a row whose usage was at ``at`` after noon."""
        self.seller.write(self.buyers[name], dimension, NOON + at, quantity, **changes)

    def submit(self, name: str, dimension: str, hour: timedelta, quantity: int) -> None:
        """Have the application write a finished record of the hour at ``hour`` after noon itself."""
        buyer, at = self.buyers[name], NOON + hour
        group = Group(buyer.license_arn, buyer.account, dimension, at)
        item = {
            "licenseArn": buyer.license_arn,
            LEDGER_SORT_KEY: group.ledger_sort_key,
            "customerAWSAccountId": buyer.account,
            "dimension": dimension,
            "hour": group.bucket,
            "quantity": quantity,
            "meteringPending": group.bucket,
        }
        table = self.stage.deployment.aggregated_usage_table
        self.stage.dynamodb.put_item(TableName=table, Item=to_wire(item))
        self.seller.books[buyer.license_arn, group.ledger_sort_key] = (key_of(group), Decimal(quantity))


def personal_data(name: str) -> dict[str, str]:
    """Return what a buyer of this name enters; no text of it occurs anywhere else."""
    slug = name.replace(" ", "-")
    return {
        "email": f"mira.{slug}@planted.example",
        "name": f"Mira Planted {slug}",
        "company": f"Planted & Söhne {slug}",
    }


def play(run: Afternoon) -> None:
    """Play the afternoon, until nothing is open any more."""
    stage, marketplace = run.stage, run.stage.cloud.marketplace
    run.until(20 * MINUTE)
    # Until 13:22 nothing is submitted but for ending licences: the record whose 24 hours end at one expires,
    # and the hour in which a revoked licence may still be billed passes.
    resume = _pause_submission(run.deployed)
    run.buy("steady", "111122223333")
    run.buy("second licence", "111122223333")
    run.buy("leaving", "444455556666")
    former = run.buy("former", "777788889999", deliver=False)
    stage.deprovision(former.license_arn)
    # An agreement's change overtakes the licence that it belongs to.
    overtaken = run.buy("overtaken", "222233334444", deliver=False)
    amended = marketplace.command(
        "amend-agreement",
        agreement_id=overtaken.agreement_id,
        end_time=(NOON + 300 * 24 * HOUR).isoformat(),
        auto_renewal=True,
    )
    stage.deliver(amended["events"][-1])
    stage.cloud.settle()
    for envelope in overtaken.events:
        stage.deliver(envelope)
    offered = stage.offer("333344445555")
    run.buyers["new"] = Buyer("new", offered.license_arn, "333344445555", offered.agreement_id)
    # Two licences of one account, a trial among them; and a licence that is still to be activated.
    assert run.register("steady") == "registered"
    assert run.register("second licence", offer_type="free-trial", multipart=True) == "registered"
    assert run.register("new") == "registered"

    # In another hour's bucket: no group's row. With allocations it is stamped by another call than without.
    misfiled = {"meteringPending": "2026-03-10T10"}
    run.write("steady", "requests", -2 * HOUR, 7)
    run.write("steady", "requests", -2 * HOUR + 9 * MINUTE, 5)
    run.write("steady", "gpu_hours", -2 * HOUR, 5)
    run.write("second licence", "requests", -3 * HOUR, 7, **misfiled)
    run.write("second licence", "requests", -3 * HOUR + MINUTE, 6, usageAllocations=_allocated(6), **misfiled)
    run.write("second licence", "egress_kib", -2 * HOUR, 10, usageAllocations=_allocated(6, 4))
    run.write("second licence", "egress_kib", -2 * HOUR + MINUTE, 3, usageAllocations=_allocated(3))
    run.write("overtaken", "requests", -22 * HOUR, 3)
    run.write("overtaken", "requests", -22 * HOUR + MINUTE, "twelve")
    run.write("overtaken", "requests", -22 * HOUR + 2 * MINUTE, -2)
    run.write("overtaken", "egress_kib", -23 * HOUR, 4)
    run.write("steady", "requests", -26 * HOUR, 1)
    run.write("overtaken", "egress_kib", -26 * HOUR, 9, usageAllocations=_allocated(9))
    # Finished records, as after a switch from direct-submit; one is too old.
    run.submit("second licence", "requests", -2 * HOUR, 5)
    run.submit("steady", "egress_kib", -25 * HOUR, 2)
    run.write("former", "requests", -4 * HOUR, 3)

    run.until(25 * MINUTE)
    # One confirms before the licence is activated, one after; the second licence's buyer never does.
    confirm_addresses(run)
    events = [stage.activate(offered.license_arn)]
    stage.deliver(events[0])
    assert run.register("leaving") == "registered"
    run.until(35 * MINUTE)
    run.confirm("leaving")
    run.write("new", "requests", 35 * MINUTE, 6)
    run.write("leaving", "requests", 35 * MINUTE, 2)
    run.until(40 * MINUTE)
    leaving = run.buyers["leaving"]
    events += [
        stage.end_agreement(leaving.agreement_id),
        stage.deprovision(leaving.license_arn),
        *set_to_end(run),
    ]
    for envelope in events[1:]:
        stage.deliver(envelope)
    billing = bill(run)
    run.until(70 * MINUTE)
    bounce_and_go_on(run, billing)
    run.write("leaving", "requests", 70 * MINUTE, 3)
    run.until(82 * MINUTE)
    resume()
    lift_suppression(run, billing)
    run.until(99 * MINUTE)
    run.write("leaving", "requests", 98 * MINUTE, 1)
    run.until(105 * MINUTE)
    # All of it once more.
    for envelope in events:
        stage.deliver(envelope)
    for event in billing:
        run.mailbox.queue_billing_event(event)
        run.mailbox.put_billing_event(event)
    run.write("steady", "requests", -2 * HOUR + 20 * MINUTE, 4)
    run.write("overtaken", "egress_kib", -26 * HOUR + MINUTE, 1, usageAllocations=_allocated(1))
    run.until(2 * HOUR + 25 * MINUTE)

    run.seen["told"] = run.mailbox.told()
    run.seen["audit"] = run.mailbox.ask("audit", day=f"{NOON:%Y-%m-%d}", limit=1000)["audit"]
    names = {buyer.license_arn: name for name, buyer in run.buyers.items()}
    for account in reconcile(stage, run.seller.written()):
        license_arn, _, dimension, bucket = account.group
        run.accounts[names[license_arn], dimension, bucket] = account
    run.access = run.deployed.access()
    run.runs, run.failures = run.deployed.runs(), run.deployed.runs("failures")


def confirm_addresses(run: Afternoon) -> None:
    """Have two buyers confirm their addresses, after a scanner of mail has looked at the links."""
    mailbox = run.mailbox
    steady = run.mail("steady", ServiceKind.ADDRESS_VERIFICATION).link
    run.seen["opened"] = mailbox.open_link(steady)
    run.seen["profile after a look"] = _profile(run, "steady")
    run.seen["forged"] = mailbox.press_button(steady[:-6] + "A" * 6)
    run.confirm("steady")
    run.seen["profile after the button"] = _profile(run, "steady")
    run.confirm("new")
    run.seen["pressed again"] = mailbox.press_button(steady)
    run.seen["profile after the second press"] = _profile(run, "steady")


def set_to_end(run: Afternoon) -> list[Mapping[str, Any]]:
    """Switch one agreement's renewal off and approve another's cancellation request; return the events."""
    command = run.stage.cloud.marketplace.command
    amended = command(
        "amend-agreement",
        agreement_id=run.buyers["steady"].agreement_id,
        end_time=(NOON + 300 * 24 * HOUR).isoformat(),
        auto_renewal=False,
    )
    requested = command(
        "request-cancellation", agreement_id=run.buyers["new"].agreement_id, status="APPROVED"
    )
    return [amended["events"][-1], requested["events"][-1]]


def bill(run: Afternoon) -> list[dict[str, Any]]:
    """Have the seller's billing tell of failed payments, on both ways; return its events."""
    at = NOON + 40 * MINUTE
    events = [
        billing_event(run.buyers["steady"], at, "billing-1", status=("active", "past_due")),
        billing_event(run.buyers["second licence"], at, "billing-2", status=("active", "past_due")),
        billing_event(run.buyers["new"], at, "billing-3", status=("active", "unpaid")),
    ]
    for event in events[:2]:
        run.mailbox.queue_billing_event(event)
    run.mailbox.put_billing_event(events[2])
    return events


def bounce_and_go_on(run: Afternoon, billing: list[dict[str, Any]]) -> None:
    """Let the mail of the failed payment bounce, twice reported, and the payment come in after all."""
    mailbox = run.mailbox
    failed = run.mail("steady", Kind.PAYMENT_FAILED)
    published = mailbox.bounce(failed, NOON + 70 * MINUTE)
    run.stage.cloud.settle()
    mailbox.publish(published)
    run.stage.cloud.settle()
    run.seen["bounced"] = failed
    run.seen["suppressed"] = mailbox.ask("suppressions")["suppressions"]
    at = NOON + 70 * MINUTE
    billing.append(billing_event(run.buyers["steady"], at, "billing-4", status=("past_due", "active")))
    mailbox.queue_billing_event(billing[-1])


def lift_suppression(run: Afternoon, billing: list[dict[str, Any]]) -> None:
    """Have an administrator lift the suppression, and the billing tell of a dispute."""
    mailbox = run.mailbox
    run.seen["told while suppressed"] = mailbox.told()
    (suppression,) = run.seen["suppressed"]
    wanted = {name: suppression[name] for name in ("recipientId", "addressDigest")}
    run.seen["refused"] = mailbox.ask("clear-suppression", **wanted, reason="because")
    run.seen["cleared"] = mailbox.ask("clear-suppression", **wanted, reason="address_corrected")
    run.seen["still suppressed"] = mailbox.ask("suppressions")["suppressions"]
    at = NOON + 82 * MINUTE
    billing.append(billing_event(run.buyers["steady"], at, "billing-5", hold=("none", "dispute_open")))
    mailbox.queue_billing_event(billing[-1])


def _profile(run: Afternoon, name: str) -> Mapping[str, Any]:
    (row,) = (row for row in run.stage.profiles() if row["licenseArn"] == run.buyers[name].license_arn)
    return row


def _pause_submission(deployed: Deployed) -> Callable[[], None]:
    """Take the submitter off its five-minute schedule; the result puts it back as it was."""
    events = deployed.cloud.client("events")
    name = deployed.outputs["function_names"]["submitter"]
    function = deployed.cloud.client("lambda").get_function(FunctionName=name)["Configuration"]["FunctionArn"]
    for rule in events.list_rule_names_by_target(TargetArn=function)["RuleNames"]:
        for target in events.list_targets_by_rule(Rule=rule)["Targets"]:
            if target["Arn"] == function and json.loads(target["Input"]) == {"mode": "submit"}:
                events.remove_targets(Rule=rule, Ids=[target["Id"]])
                return lambda: events.put_targets(Rule=rule, Targets=[target])
    raise AssertionError("no rule submits")


def _allocated(first: int, rest: int | None = None) -> list[dict[str, Any]]:
    tagged = {
        "AllocatedUsageQuantity": Decimal(first),
        "Tags": [{"Key": "team", "Value": "blue"}],
    }
    return [tagged, *([{"AllocatedUsageQuantity": Decimal(rest)}] if rest else [])]


@pytest.fixture(scope="package")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """``examples/registration``, live, applied to a cloud that enforces the functions' roles."""
    directory = tmp_path_factory.mktemp("terraform")
    provider = provider_executable(directory / "provider")
    root = copy_repository(tmp_path_factory.mktemp("checkout")) / "examples" / "registration"
    (root / "beside.tf").write_text(_BESIDE + TIER)
    (root / "mode_override.tf").write_text(_OVERRIDE)
    with ExitStack() as ending:
        cloud = ending.enter_context(LocalCloud(start_at=DEPLOYED, enforce_roles=True))
        idle = ending.enter_context(closing(HTTPConnection(urlsplit(cloud.endpoint).netloc)))
        server = ProviderServers(provider, directory, cloud.environment, root=root)
        ending.callback(server.stop)
        terraform = Terraform(directory, server)
        terraform.init(root)
        cloud.marketplace.command("create-product", code=PRODUCT, dimensions=["requests", "egress_kib"])
        idle.request("GET", CLOCK_PATH)
        idle.getresponse().read()
        applied = Deployed(cloud, terraform, root, {}, idle)
        applied.apply()
        shown = json.loads(terraform.run("output", "-json", cwd=root, environment=cloud.environment).stdout)
        outputs = {name: output["value"] for name, output in shown.items()}
        for name in ("usage_table", "customer_profile_table"):
            outputs[name] = outputs.pop(f"whole_{name}")
        Mailbox(cloud, outputs["notifications"]).open()
        yield Deployed(cloud, terraform, root, outputs, idle)


@pytest.fixture(scope="package")
def afternoon(deployed: Deployed) -> Afternoon:
    """The afternoon, played once."""
    stage = CloudStage(deployed.cloud, deployment_of(deployed.outputs), DEPLOYED)
    run = Afternoon(deployed, stage, Seller(stage.dynamodb, stage.deployment.usage_table))
    play(run)
    return run
