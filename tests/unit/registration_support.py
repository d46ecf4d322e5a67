"""The registration tier in memory: handlers, memory AWS and the fake Marketplace, with hooks for faults."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from awsmp.adapters.dynamodb import from_wire
from awsmp.composition_page import PageRuntime, PageSettings
from awsmp.composition_registration import Runtime, Settings
from awsmp.domain.ports import Telemetry
from awsmp.handlers import page, register
from sandbox.fake_marketplace import FakeMarketplace, InProcessMarketplaceClient
from sandbox.memory_aws import ManualClock, MemoryDynamoDB
from sandbox.registration_server import (
    PROFILE_TABLE,
    SUBSCRIBERS_TABLE,
    RecordedTelemetry,
    SeenRequest,
    page_configuration,
    page_values,
    proxy_event,
)
from sandbox.tables import customer_profile_table, parked_events_table, subscribers_table

PRODUCT = "prod0example0code"
OTHER_PRODUCT = "prod0another0code"
BUYER = "123456789012"
PARKED_TABLE = "awsmp-parked-agreement-events"
REGION = "eu-west-1"
ORIGIN = "https://register.example.com"
POLICY = "default-src 'none'; script-src 'self'"
FIELDS = (
    {"name": "email", "label": "E-mail", "type": "email", "maxLength": 254, "required": True},
    {"name": "company", "label": "Company", "type": "text", "maxLength": 50, "required": False},
)
ANSWERS = {"email": "ada@example.com", "company": "Example Corp"}

Hook = Callable[[], None]


class Crash(BaseException):
    """The process ends here: no handler of errors runs."""


def nothing() -> None:
    """Do nothing."""


@dataclass
class HookedMarketplace:
    """Calls a Marketplace client with the hooks that memory AWS has; remembers the tokens."""

    client: Any
    before: Hook = nothing
    after: Hook = nothing
    tokens: list[str] = field(default_factory=list)

    def resolve_customer(self, **kwargs: Any) -> dict[str, Any]:
        self.before()
        self.tokens.append(kwargs["RegistrationToken"])
        answer: dict[str, Any] = self.client.resolve_customer(**kwargs)
        self.after()
        return answer


@dataclass
class FixedMarketplace:
    """Resolves every token to one answer, or raises one error; remembers the tokens."""

    answer: Mapping[str, Any] | Exception
    tokens: list[str] = field(default_factory=list)

    def resolve_customer(self, **kwargs: Any) -> dict[str, Any]:
        self.tokens.append(kwargs["RegistrationToken"])
        if isinstance(self.answer, Exception):
            raise self.answer
        return dict(self.answer)


@dataclass
class CallFault:
    """Interrupts the AWS call with the number ``at``, before or after its effect."""

    at: int = -1
    after: bool = False
    fault: BaseException = field(default_factory=Crash)
    calls: int = 0

    def before_call(self) -> None:
        if not self.after and self.calls == self.at:
            self.calls += 1
            raise self.fault
        self.calls += 1

    def after_call(self) -> None:
        if self.after and self.calls - 1 == self.at:
            raise self.fault


class World:
    """One deployment with its tables; ``runtime`` makes a handler's surroundings anew, as a process does."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.telemetry: Telemetry = RecordedTelemetry()
        self.marketplace = FakeMarketplace(self.clock)
        for code in (PRODUCT, OTHER_PRODUCT):
            self.marketplace.create_product(code, ["requests"])
        self.dynamodb = MemoryDynamoDB(self.clock)
        client = self.dynamodb.client()
        client.create_table(**customer_profile_table(PROFILE_TABLE, ["email"]))
        client.create_table(**subscribers_table(SUBSCRIBERS_TABLE))
        client.create_table(**parked_events_table(PARKED_TABLE))
        self.settings = Settings(
            **{
                "product_code": PRODUCT,
                "region": REGION,
                "customer_profile_table": PROFILE_TABLE,
                "subscribers_table": SUBSCRIBERS_TABLE,
                "registration_fields": json.dumps(FIELDS),
                "promoted_fields": '["email"]',
                "allowed_origins": json.dumps([ORIGIN]),
                **settings,
            }
        )

    def token(self, account: str = BUYER, product: str = PRODUCT, *, activate: bool = True) -> str:
        """A token of a new licence."""
        agreement, _ = self.marketplace.create_agreement(product, account)
        grant = self.marketplace.create_license(agreement.agreement_id)
        if activate:
            self.marketplace.activate_license(grant.arn)
        return self.marketplace.mint_token(grant.arn)

    def runtime(
        self,
        *,
        before: Hook = nothing,
        after: Hook = nothing,
        marketplace: Any | None = None,
        strict: bool = True,
    ) -> Runtime:
        client = self.dynamodb.client(
            before_call=lambda _service, _operation, _kwargs: before(),
            after_call=lambda _service, _operation, _kwargs, _response: after(),
            strict_parameters=strict,
        )
        inner = marketplace or InProcessMarketplaceClient(self.marketplace, region=REGION)
        return Runtime(
            settings=self.settings,
            clock=self.clock,
            telemetry=self.telemetry,
            dynamodb=client,
            subscribers_dynamodb=client,
            marketplace=HookedMarketplace(inner, before, after),
        )

    def interrupted_by(self, fault: CallFault) -> Runtime:
        return self.runtime(before=fault.before_call, after=fault.after_call)

    def page_runtime(self, **settings: Any) -> PageRuntime:
        values = json.dumps(page_values(page_configuration(fields=FIELDS)))
        chosen = {"product_code": PRODUCT, "values": values, "content_security_policy": POLICY, **settings}
        return PageRuntime(PageSettings(**chosen), self.telemetry)

    def register(
        self,
        token: str,
        values: Mapping[str, object] = ANSWERS,
        *,
        offer_type: str | None = None,
        runtime: Runtime | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Send what the page sends and return status and document."""
        body = json.dumps({"token": token, "offerType": offer_type, "fields": values})
        answer = register.run(http_event("POST", "/register", body.encode()), None, runtime or self.runtime())
        return answer["statusCode"], json.loads(answer["body"])

    def profiles(self) -> list[dict[str, Any]]:
        return [from_wire(item) for item in self.dynamodb.items(PROFILE_TABLE)]

    def subscribers(self) -> list[dict[str, Any]]:
        return [from_wire(item) for item in self.dynamodb.items(SUBSCRIBERS_TABLE)]

    def state(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Both tables without the attributes that never decide anything."""
        return undated(self.profiles()), undated(self.subscribers())


def undated(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    dates = {"createdAt", "updatedAt", "version"}
    return [{name: value for name, value in item.items() if name not in dates} for item in items]


def http_event(
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    base64_body: bool = False,
) -> dict[str, Any]:
    event = proxy_event(SeenRequest(method, f"/v1{path}", headers or {}, body), "v1", base64_body=base64_body)
    assert event is not None
    return event


def post_form(
    runtime: PageRuntime,
    body: bytes,
    content_type: str = "application/x-www-form-urlencoded",
    *,
    base64_body: bool = False,
) -> dict[str, Any]:
    event = http_event("POST", "/fulfillment", body, {"Content-Type": content_type}, base64_body=base64_body)
    return page.run(event, None, runtime)


def multipart(fields: Sequence[tuple[str, str]], boundary: str = "b") -> tuple[bytes, str]:
    """A form as a browser encodes it, and its content type; the boundary is made to occur in no value."""
    while any(boundary in value for _, value in fields):
        boundary += "b"
    parts = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    )
    return f"{parts}--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def token_of(location: str) -> str:
    """What the page's script reads out of the fragment."""
    address, _, fragment = location.partition("#")
    assert address == "./"
    name, _, encoded = fragment.partition("&")[0].partition("=")
    assert name == "t"
    assert re.fullmatch(r"[A-Za-z0-9_-]+", encoded)
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


def refused(code: str, operation: str = "ResolveCustomer") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "x"}}, operation)


def lost_answer() -> ReadTimeoutError:
    return ReadTimeoutError(endpoint_url="https://example.com")
