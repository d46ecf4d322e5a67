"""Records what each function asks of AWS, whoever runs it: a unit test, the simulation, a browser test.

Every handler's ``run`` gets clients that note each call before they pass it on. A client stands for one
Region, so each one knows only the resources that are reached through it: the home Region's client that asks
for the subscribers table asks for a table that no policy names.
"""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.privileges.permissions import Context, calls_of

if TYPE_CHECKING:
    from awsmp import composition_notifications, composition_registration, composition_verify
    from awsmp.composition_events import Runtime as EventsRuntime
    from awsmp.composition_metering import MeteringRuntime

#: Modules of ``awsmp.handlers`` that are no function's.
NO_HANDLERS: Final = frozenset({"__init__", "rest_proxy", "sqs_batch", "stream_batch"})

#: Stands for all deployments that have a function: its settings do not change what it may do.
EVERY: Final = "every"

#: What the settings call each resource, and what it is called here and in the policies (see ``judging``).
_TABLES: Final = {"usage_table": "usage", "aggregated_usage_table": "aggregated-usage"}
_QUEUES: Final = {
    "work_queue_url": "work",
    "deprovision_work_queue_url": "deprovision-work",
    "cleanup_queue_url": "cleanup",
}
_SUBSCRIBERS: Final = {"subscribers_table": "subscribers"}
_EVENTS_TABLES: Final = {**_SUBSCRIBERS, "parked_events_table": "parked-agreement-events"}
_PROFILES: Final = {"customer_profile_table": "customer-profile"}
BUS: Final = "event-bus"
#: What the sender's address is called in conditions, whatever it is.
FROM_ADDRESS: Final = "the sender"

#: Runtimes whose clients are kept, so that the next run of the same deployment finds them.
_KEPT: Final = 64


class RecordedCall(NamedTuple):
    """One kind of call of a function in one kind of deployment."""

    function: str
    deployment: str
    action: str
    resource: str
    context: Context = ()


class _Resources(dict[str, str]):
    """Resources by the name that a request gives them; what no setting names is called so."""

    def __missing__(self, name: str) -> str:
        """Return a name that no policy has."""
        return f"{name or 'a resource without a name'} (in no setting)"


class RecordedClient:
    """An AWS client that notes every call before it makes it."""

    def __init__(self, client: Any, service: str, resources: Mapping[str, str], note: _Note) -> None:
        """``resources`` are those that are reached through this client, by what requests call them."""
        self._client = client
        self._service = service
        self._resources = resources
        self._note = note
        self._seen: set[object] = set()

    def __getattr__(self, name: str) -> Any:
        """Return the client's method, noting its calls; anything else is the client's own."""
        attribute = getattr(self._client, name)
        if name in {"exceptions", "meta"} or not callable(attribute):
            return attribute
        client, seen = self._client, self._seen
        operation = "".join(word.capitalize() for word in name.split("_"))
        kind_of = _KINDS.get(operation, _single)

        def call(**request: Any) -> Any:
            kind = kind_of(request)
            if kind is None or (operation, kind) not in seen:
                seen.add((operation, kind))
                self._note(self._service, operation, request, self._resources)
            return getattr(client, name)(**request)

        # The next call finds it without coming here: there are millions of them in a simulation.
        self.__dict__[name] = call
        return call


def _single(request: Mapping[str, Any]) -> object:
    """Return what tells requests about one table apart, as far as a policy can; None of any other request."""
    return (request["TableName"], request.get("IndexName")) if "TableName" in request else None


#: The same for the operations that are about something else.
_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], object]]] = {
    "BatchExecuteStatement": lambda request: frozenset(each["Statement"] for each in request["Statements"]),
    "BatchMeterUsage": lambda _request: "*",
    "BatchGetItem": lambda request: frozenset(request["RequestItems"]),
    "ExecuteStatement": lambda request: request["Statement"],
    "GetSecretValue": lambda request: request["SecretId"],
    "PutEvents": lambda request: frozenset(
        (entry["EventBusName"], entry["Source"]) for entry in request["Entries"]
    ),
    "SendEmail": lambda request: (request["FromEmailAddress"], request["ConfigurationSetName"]),
    "SendMessage": lambda request: request["QueueUrl"],
    "SendMessageBatch": lambda request: request["QueueUrl"],
    "TransactWriteItems": lambda request: frozenset(
        (kind, entry["TableName"]) for item in request["TransactItems"] for kind, entry in item.items()
    ),
}


_Note = Callable[[str, str, Mapping[str, Any], Mapping[str, str]], None]


@dataclass(slots=True)
class Recorder:
    """Everything that the functions of this process asked of AWS."""

    calls: set[RecordedCall] = field(default_factory=set)
    _kept: dict[tuple[str, int, int], tuple[Any, Any, Any]] = field(default_factory=dict)

    def recording(self, function: str, runtime: Any) -> Any:
        """Return ``runtime`` with clients that note the calls of ``function``.

        Raises
        ------
        TypeError
            It is no runtime that this module knows: its calls would go unseen.
        """
        recorded = _RECORDERS.get(f"{type(runtime).__module__}.{type(runtime).__name__}")
        if recorded is None:
            raise TypeError(f"{function} runs on a {type(runtime).__name__}, whose AWS clients are unknown")
        return recorded(self, function, runtime)

    def noting(self, function: str, deployment: str, sender: str | None = None) -> _Note:
        """Return what notes the calls of a function in a deployment that sends its mail from ``sender``."""

        def note(
            service: str, operation: str, request: Mapping[str, Any], resources: Mapping[str, str]
        ) -> None:
            for call in calls_of(function, service, operation, request, resources):
                context = tuple(
                    (key, FROM_ADDRESS if value == sender else value) for key, value in call.context
                )
                self.calls.add(RecordedCall(function, deployment, call.action, call.resource, context))

        return note

    def metering(self, function: str, runtime: MeteringRuntime) -> MeteringRuntime:
        """Return a runtime of the metering tier that records; its clients are made once, for speed."""
        settings, clients = runtime.settings, runtime.clients
        key = function, id(settings), id(clients)
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            deployment = "full" if settings.work_queue_url else "direct_submit"
            note = self.noting(function, "estate" if settings.dry_run else deployment)
            subscribers: Any = RecordedClient(
                clients.subscribers, "dynamodb", _named(settings, _SUBSCRIBERS), note
            )
            recorded = replace(
                clients,
                dynamodb=RecordedClient(clients.dynamodb, "dynamodb", _named(settings, _TABLES), note),
                subscribers=subscribers,
                sqs=RecordedClient(clients.sqs, "sqs", _named(settings, _QUEUES), note),
                marketplace=RecordedClient(clients.marketplace, "marketplace", {}, note),
            )
            # With the originals, so that their ids stay theirs.
            self._kept[key] = settings, clients, recorded
        return replace(runtime, clients=self._kept[key][2])

    def events(self, function: str, runtime: EventsRuntime) -> EventsRuntime:
        """Return a runtime of the events tier that records."""
        settings = runtime.settings
        deployment = "estate" if settings.forward_event_buses else "plain"
        note = self.noting(function, EVERY if function == "subscriber-forwarder" else deployment)
        buses = _Resources(dict.fromkeys(settings.forward_event_buses.values(), BUS))
        dynamodb: Any = RecordedClient(runtime.dynamodb, "dynamodb", _named(settings, _EVENTS_TABLES), note)

        def events_client_for(region: str) -> Any:
            return RecordedClient(runtime.events_client_for(region), "events", buses, note)

        return replace(runtime, dynamodb=dynamodb, events_client_for=events_client_for)

    def registration(
        self, function: str, runtime: composition_registration.Runtime
    ) -> composition_registration.Runtime:
        """Return a runtime of the register function that records."""
        settings, note = runtime.settings, self.noting(function, EVERY)
        profiles: Any = RecordedClient(runtime.dynamodb, "dynamodb", _named(settings, _PROFILES), note)
        subscribers: Any = RecordedClient(
            runtime.subscribers_dynamodb, "dynamodb", _named(settings, _SUBSCRIBERS), note
        )
        marketplace: Any = RecordedClient(runtime.marketplace, "marketplace", {}, note)
        return replace(runtime, dynamodb=profiles, subscribers_dynamodb=subscribers, marketplace=marketplace)

    def verify(self, function: str, runtime: composition_verify.Runtime) -> composition_verify.Runtime:
        """Return a runtime of the verify function that records."""
        env, note = runtime.environment, self.noting(function, EVERY)
        profiles = _Resources({env.optional("CUSTOMER_PROFILE_TABLE") or "": "customer-profile"})
        secrets = _Resources({env.optional("VERIFICATION_SECRET_ARN") or "": "secret/verification"})

        def dynamodb() -> Any:
            return RecordedClient(runtime.dynamodb(), "dynamodb", profiles, note)

        def secrets_manager() -> Any:
            return RecordedClient(runtime.secrets(), "secretsmanager", secrets, note)

        return replace(runtime, dynamodb=dynamodb, secrets=secrets_manager)

    def notifications(
        self, function: str, runtime: composition_notifications.Runtime
    ) -> composition_notifications.Runtime:
        """Return a runtime of the notifications tier that records."""
        env, clients = runtime.environment, runtime.clients
        transport = _parsed(env.optional("TRANSPORT"), dict)
        sending = "smtp" if transport.get("type") == "smtp" else "ses"
        deployment = sending if function == "notification-sender" else EVERY
        note = self.noting(function, deployment, env.optional("SENDER"))
        own = {env.optional("NOTIFICATIONS_TABLE") or "": "notifications"}
        profiles = _parsed(env.optional("CUSTOMER_PROFILE_TABLES"), list)
        named = [table["name"] for table in profiles if isinstance(table, dict) and "name" in table]
        tables = _Resources(own | dict.fromkeys(named, "customer-profile"))
        subscribers = _Resources({env.optional("SUBSCRIBERS_TABLE") or "": "subscribers"})
        buses = _Resources({env.optional("EVENT_BUS_ARN") or "": BUS})
        secrets = _Resources(
            {
                env.optional("PEPPER_SECRET_ARN") or "": "secret/pepper",
                env.optional("VERIFICATION_SECRET_ARN") or "": "secret/verification",
                transport.get("credentialsSecretArn") or "": "secret/smtp",
            }
        )
        mail = _Resources(
            {
                env.optional("SENDER") or "": "identity",
                transport.get("configurationSet") or "": "configuration-set",
            }
        )
        made: dict[str, Any] = {
            "dynamodb": lambda: RecordedClient(clients.dynamodb(), "dynamodb", tables, note),
            "dynamodb_of": lambda region: RecordedClient(
                clients.dynamodb_of(region), "dynamodb", subscribers, note
            ),
            "events_of": lambda region: RecordedClient(clients.events_of(region), "events", buses, note),
            "secrets": lambda: RecordedClient(clients.secrets(), "secretsmanager", secrets, note),
            "ses": lambda: RecordedClient(clients.ses(), "ses", mail, note),
        }
        return replace(runtime, clients=replace(clients, **made))

    def install(self, functions: Container[str]) -> None:
        """Have the handlers of ``functions`` record; what imports a ``run`` from now on gets that one."""
        for name in handler_modules():
            function = name.replace("_", "-")
            if function in functions:
                module = importlib.import_module(f"awsmp.handlers.{name}")
                setattr(module, "run", self._recorded(function, module.run))  # noqa: B010

    def _recorded(self, function: str, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def recorded(event: Mapping[str, Any], context: Any, runtime: Any) -> Any:
            return run(event, context, self.recording(function, runtime))

        return recorded


def handler_modules() -> list[str]:
    """Return the modules of ``awsmp.handlers`` that hold a function; a role is named alike, with hyphens."""
    folder = importlib.resources.files("awsmp.handlers")
    names = {entry.name.removesuffix(".py") for entry in folder.iterdir() if entry.name.endswith(".py")}
    return sorted(names - NO_HANDLERS)


#: How each kind of runtime is recorded; by name, because what is imported before the coverage begins is not
#: covered.
_RECORDERS: Final[Mapping[str, Callable[[Recorder, str, Any], Any]]] = {
    "awsmp.composition_events.Runtime": Recorder.events,
    "awsmp.composition_metering.MeteringRuntime": Recorder.metering,
    "awsmp.composition_notifications.Runtime": Recorder.notifications,
    # It has no client.
    "awsmp.composition_page.PageRuntime": lambda _recorder, _function, runtime: runtime,
    "awsmp.composition_registration.Runtime": Recorder.registration,
    "awsmp.composition_verify.Runtime": Recorder.verify,
}


def _named(settings: Any, names: Mapping[str, str]) -> _Resources:
    return _Resources({getattr(settings, setting) or "": name for setting, name in names.items()})


def _parsed(text: str | None, kind: type[dict[str, Any]] | type[list[Any]]) -> Any:
    """Return a setting's JSON, empty where it is none: the function refuses it then."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        value = None
    return value if isinstance(value, kind) else kind()
