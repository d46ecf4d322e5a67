"""``make demo``: from ``terraform apply`` to the billed hour, on this machine.

Starts the local cloud, applies ``examples/registration`` with Terraform, subscribes 60 buyers, registers
them through the deployed fulfilment URL and page, has most of them click the verification link in their mail,
plays 20 hours of the recorded usage with planted trouble, lets the deployed functions run, reconciles every
group and tells who got which mail. The simulated date is fixed and crosses a month
end. ``KEEP=1`` leaves the cloud running and prints an address that opens the page with a fresh token.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from awsmp.domain.fulfillment import Fulfillment, token_fragment
from sandbox.cloud_stage import CloudStage, deployment_of
from sandbox.demo_notifications import Notifications, rows_of
from sandbox.demo_notifications import line_of as line_of_mail
from sandbox.demo_registrations import Registrations, line_of
from sandbox.demo_report import render
from sandbox.emulator import EmulatorUnavailable
from sandbox.local_cloud import LocalCloud, LocalCloudError, describe
from sandbox.mailbox import REGISTRATION_OVERRIDE, TIER, Mailbox, events_override
from sandbox.simulation.play import account_problems, announce, judge, report_json, subscribe_all
from sandbox.simulation.reconciliation import reconcile
from sandbox.simulation.seller import Buyer, Seller
from sandbox.simulation.trace import Usage, read_trace, totals
from sandbox.simulation.troubles import Plan, plant_all
from sandbox.terraform import Terraform, TerraformError, copy_repository

PRODUCT_CODE: Final = "1example2product3code4567"

#: The cloud begins here, so that everything is deployed before the trace does.
DEPLOYED: Final = datetime(2026, 9, 30, 8, tzinfo=UTC)
START: Final = datetime(2026, 9, 30, 9, tzinfo=UTC)

#: The buyer whose licence is activated during the trace, and the one who is still to register after it.
NEW_CUSTOMER: Final = "555500000062"
VISITOR: Final = "555500000063"

#: The 20 hours of the trace in which most customers use something.
FIRST_HOUR: Final = 40
HOURS: Final = 20

#: Past the month wall (06:00 on the 1st), with time for what closes then.
END: Final = datetime(2026, 10, 1, 6, 40, tzinfo=UTC)

TIMETABLE: Final[Mapping[str, int]] = {
    "malformed": 2,
    "corrected": 3,
    "unclaimed": 4,
    "undefined dimension": 5,
    "throttled spell": 6,
    "former customer": 7,
    "activation": 8,
    "late row": 9,
    "rewritten row": 10,
    "lost answer": 12,
    "cancellation": 13,
    "resubscription": 14,
    "repeated events": 17,
}

#: Columns of what is printed into a file or a pipe.
WIDTH: Final = 110

_COLUMNS: Final = (
    TextColumn("{task.description}"),
    BarColumn(),
    TextColumn("{task.fields[at]}"),
    TimeElapsedColumn(),
)

_STEP: Final = timedelta(minutes=5)

_OUTPUTS: Final = """
output "product_code" { value = var.product_code }
output "subscribers_table" { value = module.events.subscribers_table }
output "event_queue" { value = module.events.event_queue }
output "event_dlq" { value = module.events.event_dlq }
output "aggregated_usage_table" { value = module.metering.aggregated_usage_table }
output "usage_table_of_demo" { value = module.metering.usage_table }
output "queues" { value = module.metering.queues }
output "profile_table_of_demo" { value = module.registration.customer_profile_table }
output "log_group_names" {
  value = concat(
    values(module.events.log_group_names),
    values(module.metering.log_group_names),
    values(module.registration.log_group_names),
  )
}
"""


_OVERRIDE: Final = f"""
module "events" {{
  {events_override("us-east-1")}
}}

module "registration" {{
  {REGISTRATION_OVERRIDE}
}}
"""


def stretch() -> list[Usage]:
    """Return the trace's busiest 20 hours, their first second being second 0."""
    first = FIRST_HOUR * 3600
    return [
        replace(usage, offset=usage.offset - first)
        for usage in read_trace()
        if FIRST_HOUR <= usage.hour < FIRST_HOUR + HOURS
    ]


def apply_example(cloud: LocalCloud, terraform: Terraform, directory: Path) -> Mapping[str, Any]:
    """Apply ``examples/registration`` with the notifications tier, from a copy; return the outputs."""
    root = copy_repository(directory / "checkout") / "examples" / "registration"
    (root / "demo.tf").write_text(_OUTPUTS + TIER)
    (root / "demo_override.tf").write_text(_OVERRIDE)
    terraform.init(root)
    variables = {"product_code": PRODUCT_CODE, "metering_mode": "live"}
    terraform.apply(root, variables, cloud.environment)
    shown = json.loads(terraform.run("output", "-json", cwd=root, environment=cloud.environment).stdout)
    outputs = {name: output["value"] for name, output in shown.items()}
    return outputs | {
        "customer_profile_table": outputs["profile_table_of_demo"],
        "usage_table": outputs["usage_table_of_demo"],
    }


def begin(stage: CloudStage) -> tuple[Plan, Registrations]:
    """Sell to every customer, register them and plant all trouble; return the plan of what follows."""
    seller = Seller(stage.dynamodb, stage.deployment.usage_table)
    buyers = subscribe_all(stage, {usage.customer for usage in read_trace()})
    plan = Plan(stage, seller, stretch(), buyers, hours=TIMETABLE)
    registrations = Registrations(stage)
    twice, expired, *everybody = (buyers[customer] for customer in sorted(buyers))
    half = len(everybody) // 2
    registrations.register(everybody[:half])
    announce(plan)
    plant_all(plan)
    # Registered before its licence is activated.
    new = stage.offers[NEW_CUSTOMER]
    registrations.register(
        [*everybody[half:], Buyer("new-customer", new.license_arn, NEW_CUSTOMER, new.agreement_id)]
    )
    registrations.post_twice(plan, twice)
    registrations.expire(plan, expired)
    return plan, registrations


def play(stage: CloudStage, plan: Plan, progress: Callable[[datetime], None]) -> None:
    """Play the stretch and its trouble through the deployment, until everything is drained."""
    usages, actions = list(plan.trace), sorted(plan.actions, key=lambda planned: planned[0])
    now = START
    stage.cloud.advance_to(now)
    while now < END:
        step = now + _STEP
        until = min([step, *(at for at, _ in actions[:1])])
        while usages and START + timedelta(seconds=usages[0].offset) < until:
            usage = usages.pop(0)
            at = START + timedelta(seconds=usage.offset)
            plan.seller.write(plan.buyers[usage.customer], usage.dimension, at, usage.quantity)
        if until > now:
            stage.cloud.advance_to(until)
        while actions and actions[0][0] <= until:
            actions.pop(0)[1]()
        now = until
        progress(now)
    stage.cloud.settle()


def page_with_fresh_token(stage: CloudStage) -> str:
    """Return an address that opens the page as it opens for a buyer who has just subscribed."""
    bought = stage.subscribe(VISITOR, stage.cloud.now())
    for envelope in bought.events:
        stage.deliver(envelope)
    page = stage.cloud.address_of(stage.deployment.fulfillment_url).removesuffix("fulfillment")
    return f"{page}#{token_fragment(Fulfillment(stage.mint_token(bought.license_arn)))}"


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; 0 when every group balances and every trouble ended as it has to, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("build/demo"))
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        with tempfile.TemporaryDirectory(prefix="awsmp-demo-") as directory:
            return _demo(console, options.output, Path(directory), keep=os.environ.get("KEEP") == "1")
    except (EmulatorUnavailable, LocalCloudError, TerraformError) as error:
        console.print(f"The demonstration could not run: {error}", style="bold red")
        return 1


def _demo(console: Console, output: Path, directory: Path, *, keep: bool) -> int:
    began = time.monotonic()
    terraform = Terraform(directory / "terraform")
    with LocalCloud(start_at=DEPLOYED) as cloud:
        console.print(f"local cloud on {cloud.endpoint}, its time is {cloud.now():%Y-%m-%d %H:%M} UTC")
        cloud.marketplace.command("create-product", code=PRODUCT_CODE, dimensions=["requests", "egress_kib"])
        console.print("terraform apply of examples/registration ...")
        outputs = apply_example(cloud, terraform, directory)
        applied = time.monotonic() - began
        console.print(f"applied after {applied:.0f} s: usage goes to {outputs['usage_table']['name']}")
        stage = CloudStage(cloud, deployment_of(outputs), START)
        mail = Notifications(stage, Mailbox(cloud, outputs["notifications"]))
        mail.mailbox.open()
        plan, registrations = begin(stage)
        console.print(f"{len(registrations.buyers)} buyers registered after {time.monotonic() - began:.0f} s")
        mail.welcome(registrations.buyers)
        mail.pause()
        console.print(
            f"{len(mail.mailbox.mails())} mails sent and {len(mail.verified)} addresses verified after "
            f"{time.monotonic() - began:.0f} s. Sending pauses while the usage is played: a run every "
            "simulated minute would be a minute of the machine's time."
        )
        with Progress(*_COLUMNS, console=console) as bar:
            task = bar.add_task("pipeline", total=1.0, at="")
            play(
                stage,
                plan,
                lambda now: bar.update(
                    task, completed=(now - START) / (END - START), at=f"{now:%Y-%m-%d %H:%M}"
                ),
            )
        mail.resume()
        accounts = reconcile(stage, plan.seller.written())
        problems = account_problems(plan, accounts, totals(plan.trace))
        problems += registrations.problems() + mail.problems()
        if dead := stage.dead_letters():
            problems.append(f"{dead} messages in dead-letter queues")
        report = report_json(
            accounts, requests=stage.requests(), outcomes=judge(plan, accounts), problems=problems
        ) | {"registrations": registrations.to_json(), "notifications": mail.to_json()}
        seconds = time.monotonic() - began
        _write(output, accounts, report, seconds)
        _show(console, report, seconds, output)
        if keep:
            console.print(describe(cloud))
            # Whole on one line, however narrow the terminal is: it is to be copied.
            console.print("\nThe registration page, with a fresh token (good for four hours):")
            console.print(page_with_fresh_token(stage), soft_wrap=True, highlight=False)
            _wait(console)
    return 1 if problems else 0


def _write(output: Path, accounts: list[Any], report: Mapping[str, Any], seconds: float) -> None:
    output.mkdir(parents=True, exist_ok=True)
    (output / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    requests = report["requests"]
    facts = (
        ("simulated time", f"{START:%Y-%m-%d %H:%M} to {END:%Y-%m-%d %H:%M} UTC, across a month end"),
        ("BatchMeterUsage requests", f"{requests['count']}, {requests['throttled']} refused for pace"),
        ("groups", f"{len(report['groups']):,}"),
        ("registrations through the deployed page", line_of(report["registrations"])),
        ("mail", line_of_mail(report["notifications"])),
        ("took", f"{seconds:.0f} s"),
    )
    (output / "report.html").write_text(render("AWS Marketplace metering demo", accounts, report, facts))


def _show(console: Console, report: Mapping[str, Any], seconds: float, output: Path) -> None:
    table = Table(title="Reconciliation: written = billed + pending + surfaced")
    table.add_column("dimension", no_wrap=True)
    for heading in ("written", "billed", "pending", "surfaced", "difference"):
        table.add_column(heading, justify="right")
    for dimension, line in report["totals"].items():
        names = ("written", "billed", "pending", "surfaced", "difference")
        table.add_row(dimension, *(f"{line[name]:,}" for name in names))
        for reason, quantity in line["surfacedByReason"].items():
            table.add_row(f"  {reason}", "", "", "", f"{quantity:,}", "", style="dim")
    console.print(table)
    console.print(f"registrations: {line_of(report['registrations'])}")
    told = Table(title="Who was told what")
    told.add_column("mail", no_wrap=True)
    told.add_column("sent", justify="right")
    told.add_column("not sent")
    for kind, sent, skipped in rows_of(report["notifications"]):
        told.add_row(kind, f"{sent:,}", skipped)
    console.print(told)
    console.print(f"mail: {line_of_mail(report['notifications'])}")
    for each in report["notifications"]["suppressed"]:
        console.print(f"suppressed after a {each['kind']}: {each['recipient']}", highlight=False)
    for trouble in report["troubles"]:
        console.print(f"{'ok ' if trouble['asExpected'] else 'BAD'} {trouble['name']}: {trouble['outcome']}")
    requests = report["requests"]
    console.print(
        f"{len(report['groups']):,} groups, {requests['count']} BatchMeterUsage requests "
        f"({requests['throttled']} refused for pace), {seconds:.0f} s; "
        f"report in {output / 'report.html'} and {output / 'report.json'}"
    )
    for problem in report["problems"]:
        console.print(f"problem: {problem}", style="bold red")


def _wait(console: Console) -> None:
    console.print("KEEP=1: everything stays up until Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("stopping")


if __name__ == "__main__":
    sys.exit(main())
