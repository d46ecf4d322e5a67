"""An operator's command over the notifications tier's admin function.

``python -m sandbox.notifications_admin --function NAME COMMAND`` invokes the function by its name (output
``function_names`` of the module); whoever may invoke it in IAM may do what it does. Answers are tables, or
JSON with ``--json``. What changes something is only done with ``--yes``; without it the command says what it
would do.

Exit codes: 0 done; 1 the function refused or failed; 2 wrong usage, or ``--yes`` is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.feedback import ClearingReason
from awsmp.usecases.notifications.admin_api import QUEUES

_CHANGING: Final = frozenset({"requeue", "clear-suppression", "purge", "verify-contact"})
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "entries": ("entryId", "kind", "status", "reason", "attempts", "occurredAt", "dueAt", "subscriptionId"),
    "deliveries": ("deliveryId", "recipientId", "status", "code", "attempts", "sentAt", "feedbackKind"),
    "suppressions": ("recipientId", "addressDigest", "kind", "since", "clearedAt", "clearedReason"),
    "audit": ("at", "action", "subject", "detail", "counts"),
}


class InvocationFailed(MeteringError):
    """The function raised or could not be invoked; what it had done until then is durable."""


class LambdaClient(Protocol):
    """The call of boto3's ``lambda`` client that is made here."""

    def invoke(self, **kwargs: Any) -> dict[str, Any]:
        """Invoke a function and wait for its answer."""
        ...


@dataclass(frozen=True, slots=True)
class AdminFunction:
    """The admin function behind a client."""

    client: LambdaClient
    name: str

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the function's answer to one request.

        Raises
        ------
        InvocationFailed
            The function raised, could not be invoked, or answered with no JSON object.
        """
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - only where it is called

        try:
            answer = self.client.invoke(
                FunctionName=self.name,
                InvocationType="RequestResponse",
                Payload=json.dumps(request).encode(),
            )
            document = json.loads(answer["Payload"].read())
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "unknown")
            raise InvocationFailed(f"{self.name} could not be invoked: {code}") from error
        except BotoCoreError as error:
            raise InvocationFailed(f"{self.name} could not be reached: {type(error).__name__}") from error
        except ValueError as error:
            raise InvocationFailed(f"{self.name} answered with no JSON") from error
        if not isinstance(document, dict):
            raise InvocationFailed(f"{self.name} answered with no JSON object")
        if "FunctionError" in answer:
            told = f"{document.get('errorType', 'error')}: {document.get('errorMessage', 'no message')}"
            raise InvocationFailed(f"{self.name} failed: {told}")
        return document


def request_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the function's request for a parsed command line."""
    members = {
        "entries": ("queue", "limit"),
        "deliveries": ("entryId",),
        "suppressions": ("recipientId", "limit"),
        "audit": ("day", "limit"),
        "requeue": ("entryId",),
        "clear-suppression": ("recipientId", "addressDigest", "reason"),
        "purge": ("limit",),
        "verify-contact": ("licenseArn", "customerAWSAccountId", "contactId"),
    }
    operation = "entries" if options.command == "list" else options.command
    values = {name: getattr(options, name) for name in members[operation]}
    return {"operation": operation, **{name: value for name, value in values.items() if value is not None}}


def table_of(answer: Mapping[str, Any]) -> str:
    """Return an answer as text: a table of what is listed, else one line per member."""
    lines: list[str] = []
    for name, value in answer.items():
        if isinstance(value, list):
            lines += _rows(_COLUMNS.get(name, ()), value)
        elif isinstance(value, Mapping):
            lines += [f"{member}: {_cell(each)}" for member, each in value.items() if each is not None]
        else:
            lines.append(f"{name}: {_cell(value)}")
    return "\n".join(lines) + "\n"


def _rows(columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> list[str]:
    if not records:
        return ["none"]
    cells = [list(columns), *([_cell(record.get(column)) for column in columns] for record in records)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={number}" for name, number in sorted(value.items()))
    return str(value)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    top = argparse.ArgumentParser(
        prog="python -m sandbox.notifications_admin", description="Operate the notifications tier."
    )
    top.add_argument("--function", required=True, help="name or ARN of the admin function")
    top.add_argument("--region", help="Region of the tier; default: the profile's")
    top.add_argument("--profile", help="profile of the AWS configuration")
    top.add_argument("--json", action="store_true", help="print the answer as JSON")
    top.add_argument("--yes", action="store_true", help="do what changes something")
    commands = top.add_subparsers(dest="command", required=True)

    listing = commands.add_parser("list", help="entries of a queue")
    listing.add_argument("--queue", choices=sorted(QUEUES), default="failed")
    _limited(listing)
    deliveries = commands.add_parser("deliveries", help="the deliveries of an entry")
    deliveries.add_argument("entryId")
    suppressions = commands.add_parser("suppressions", help="active suppressions, or all of one recipient")
    suppressions.add_argument("--recipient", dest="recipientId")
    _limited(suppressions)
    audit = commands.add_parser("audit", help="a day's audit entries")
    audit.add_argument("day", help="YYYY-MM-DD, UTC")
    _limited(audit)
    requeue = commands.add_parser("requeue", help="put a failed entry back")
    requeue.add_argument("entryId")
    clear = commands.add_parser("clear-suppression", help="lift a suppression")
    clear.add_argument("recipientId")
    clear.add_argument("addressDigest")
    clear.add_argument("--reason", required=True, choices=[each.value for each in ClearingReason])
    purge = commands.add_parser("purge", help="delete feedback past its retention")
    _limited(purge)
    verify = commands.add_parser("verify-contact", help="send a contact another verification link")
    verify.add_argument("licenseArn")
    verify.add_argument("customerAWSAccountId")
    verify.add_argument("contactId")
    return top


def _limited(command: argparse.ArgumentParser) -> None:
    command.add_argument("--limit", type=int, help="most items, 1 to 1000")


def run(arguments: Sequence[str], client: LambdaClient | None, out: IO[str], errors: IO[str]) -> int:
    """Run one command line and return its exit code; ``client`` None makes one of the options."""
    options = parser().parse_args(arguments)
    request = request_of(options)
    if options.command in _CHANGING and not options.yes:
        print(f"nothing was changed; with --yes it asks {options.function} for", file=errors)
        print(json.dumps(request, indent=2, sort_keys=True), file=errors)
        return 2
    try:
        answer = AdminFunction(client or _client(options), options.function).ask(request)
    except InvocationFailed as failure:
        print(failure, file=errors)
        return 1
    if "error" in answer:
        print(f"refused: {answer['error']}: {answer.get('message', '')}", file=errors)
        return 1
    out.write(json.dumps(answer, indent=2, sort_keys=True) + "\n" if options.json else table_of(answer))
    return 0


def _client(options: argparse.Namespace) -> LambdaClient:
    import boto3  # noqa: PLC0415 - parsing and printing do without it

    session = boto3.Session(profile_name=options.profile, region_name=options.region)
    client: LambdaClient = session.client("lambda")
    return client


def main() -> int:
    """Run the command line of this process."""
    return run(sys.argv[1:], None, sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
