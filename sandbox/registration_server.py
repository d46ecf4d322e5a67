"""The registration tier on 127.0.0.1: the real handlers behind what API Gateway makes of HTTP requests.

A small threaded server turns each request into the event of a REST API's Lambda proxy integration, below a
stage's prefix, and runs the handlers on DynamoDB in memory and the fake Marketplace. It serves browser tests,
the demo's buyer and anybody who wants to see the page: ``python -m sandbox.registration_server`` prints an
address that opens it with a fresh token.

``/verify`` is served, too. No mail is sent here: ``verification_link`` returns what one would hold.
"""

from __future__ import annotations

import base64
import html
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from awsmp.adapters.dynamodb import from_wire
from awsmp.adapters.notifications.pepper import PepperDigest
from awsmp.adapters.notifications.profile_contacts import ProfileVerifications
from awsmp.adapters.system_clock import SystemClock
from awsmp.composition_page import PageRuntime, PageSettings
from awsmp.composition_registration import Runtime, Settings
from awsmp.composition_verify import Runtime as VerifyRuntime
from awsmp.domain.fulfillment import Fulfillment, token_fragment
from awsmp.domain.notifications.addresses import EmailAddress
from awsmp.domain.notifications.contacts import EMAIL_FIELD, OWNER, ContactReference
from awsmp.domain.notifications.identities import subscription_of
from awsmp.domain.notifications.verification import LinkSigner
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.handlers import page, register, verify
from awsmp.settings_notifications import Environment
from awsmp.usecases.notifications.verify_address import AddressVerification
from sandbox.fake_marketplace import Code, FakeMarketplace, Fault, InProcessMarketplaceClient
from sandbox.fake_marketplace.faults import RESOLVE_CUSTOMER
from sandbox.memory_aws import MemoryDynamoDB
from sandbox.tables import customer_profile_table, subscribers_table

PRODUCT: Final = "prod0example0code"
FOREIGN_PRODUCT: Final = "prod0another0code"
BUYER: Final = "123456789012"
REGION: Final = "eu-west-1"
PROFILE_TABLE: Final = f"awsmp-{PRODUCT}-customer-profile"
SUBSCRIBERS_TABLE: Final = "awsmp-subscribers"

#: Fields as a seller might ask for them; one of each type.
FIELDS: Final[Sequence[Mapping[str, Any]]] = (
    {"name": "email", "label": "E-mail address", "type": "email", "maxLength": 254, "required": True},
    {"name": "name", "label": "Your name", "type": "text", "maxLength": 100, "required": True},
    {"name": "company", "label": "Company", "type": "text", "maxLength": 100, "required": False},
    {"name": "phone", "label": "Phone", "type": "tel", "maxLength": 32, "required": False},
    {
        "name": "plan",
        "label": "Support plan",
        "type": "select",
        "maxLength": 20,
        "required": True,
        "options": ["standard", "priority"],
    },
    {"name": "notes", "label": "Notes", "type": "textarea", "maxLength": 500, "required": False},
    {"name": "terms", "label": "I accept the terms", "type": "checkbox", "maxLength": 1, "required": True},
)

_ROUTES: Final[Mapping[str, frozenset[str]]] = {
    "/": frozenset({"GET", "HEAD"}),
    "/fulfillment": frozenset({"GET", "HEAD", "POST"}),
    "/assets/{file}": frozenset({"GET", "HEAD"}),
    "/register": frozenset({"POST", "OPTIONS"}),
    "/verify": frozenset({"GET", "HEAD", "POST"}),
}

#: Known to everybody who reads this file.
_SIGNING_KEY: Final = b"a signing key that only the sandbox has"
_PEPPER: Final = b"a pepper that only the sandbox has, too"


def page_configuration(
    *,
    fields: Sequence[Mapping[str, Any]] = FIELDS,
    regions: Sequence[Mapping[str, str]] = (),
    success_url: str | None = None,
    messages: Mapping[str, str] | None = None,
    locale: str = "en",
    **others: Any,
) -> dict[str, Any]:
    """Return the page's configuration of an invented product; ``others`` are members of it."""
    return {
        "productName": "Example Analytics",
        "sellerName": "Example Corp",
        "supportEmail": "support@example.com",
        "supportUrl": "https://example.com/support",
        "locale": locale,
        "fields": list(fields),
        "regions": list(regions),
        "successUrl": success_url,
        "messages": dict(messages or {}),
        **others,
    }


def page_values(configuration: Mapping[str, Any], **values: str) -> dict[str, str]:
    """Return the values that Terraform computes for the page; ``values`` replace single ones."""
    document = json.dumps(configuration, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        document = document.replace(character, f"\\u{ord(character):04x}")
    product, seller = html.escape(configuration["productName"]), html.escape(configuration["sellerName"])
    language = configuration["locale"]
    return {
        "lang": language,
        "dir": "rtl" if language.split("-")[0] in ("ar", "fa", "he", "ur") else "ltr",
        "title": f"Set up your account for {product}",
        "product_name": product,
        "seller_name": seller,
        "support_email": html.escape(configuration["supportEmail"]),
        "support_url": html.escape(configuration["supportUrl"] or ""),
        "logo_html": "",
        "configuration": document,
        "accent": "#0b5cad",
        "accent_text": "#ffffff",
        "accent_dark": "#8cc2ff",
        **values,
    }


def content_security_policy(regions: Sequence[Mapping[str, str]] = ()) -> str:
    """Return the policy that Terraform computes, with the origins of other deployments."""
    addresses = (urlsplit(region["registrationUrl"]) for region in regions)
    allowed = ["'self'", *sorted({f"{each.scheme}://{each.netloc}" for each in addresses if each.netloc})]
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src {' '.join(allowed)}; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


@dataclass
class RecordedTelemetry:
    """Keeps metrics, their reasons and log lines, for tests to look at."""

    metrics: list[Metric] = field(default_factory=list)
    reasons: list[tuple[Metric, str]] = field(default_factory=list)
    lines: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        """See Telemetry."""
        assert value == 1
        self.metrics.append(metric)
        if reason is not None:
            self.reasons.append((metric, reason))

    def info(self, message: str, **fields: object) -> None:
        """See Telemetry."""
        self.lines.append((message, fields))

    def error(self, message: str, **fields: object) -> None:
        """See Telemetry."""
        self.lines.append((message, fields))


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request as it came in; ``target`` is path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class _SigningKey:
    """Secrets Manager, holding the one secret that is asked for here."""

    def get_secret_value(self, **_request: object) -> dict[str, Any]:
        """Return the secret, as the verify function reads it."""
        return {"SecretString": json.dumps({"keys": [base64.b64encode(_SIGNING_KEY).decode()]})}


class RegistrationServer:
    """A deployment of the registration tier; a context manager that starts and stops its own server.

    ``url`` is the page's address and ends in a slash; ``fulfillment_url`` is what a listing would name.
    """

    def __init__(
        self,
        *,
        configuration: Mapping[str, Any] | None = None,
        values: Mapping[str, str] | None = None,
        fields: Sequence[Mapping[str, Any]] | None = None,
        promoted_fields: Sequence[str] = (),
        allowed_origins: Sequence[str] = (),
        own_page_url: str | None = None,
        policy: str | None = None,
        stage: str = "v1",
        region: str = REGION,
        base64_bodies: bool = False,
        marketplace: FakeMarketplace | None = None,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """``configuration`` (default: an invented product's) decides about fields, values and policy.

        Each of the others replaces what would follow from it. ``values`` replace single page values.
        Origins are allowed on top of the server's own. ``base64_bodies`` flags and encodes every body, as a
        REST API does whose binary media types match. A ``marketplace`` is another server's.
        """
        self.configuration = dict(configuration or page_configuration())
        if fields is not None:
            self.configuration["fields"] = list(fields)
        self.values = page_values(self.configuration, **(values or {}))
        self.policy = policy or content_security_policy(self.configuration["regions"])
        self.base64_bodies = base64_bodies
        self.stage = stage
        self.clock = clock or SystemClock()
        self.telemetry = telemetry or RecordedTelemetry()
        self.marketplace = marketplace or _new_marketplace(self.clock)
        self.dynamodb = MemoryDynamoDB(self.clock)
        client = self.dynamodb.client()
        client.create_table(**customer_profile_table(PROFILE_TABLE, promoted_fields))
        client.create_table(**subscribers_table(SUBSCRIBERS_TABLE))
        self._promoted, self._origins = tuple(promoted_fields), tuple(allowed_origins)
        self._own_page_url, self._region = own_page_url, region
        self._lock = threading.Lock()
        self._delays: list[float] = []
        self._legacy_customers = 0
        #: Every request, oldest first.
        self.requests: list[SeenRequest] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._runtime = self._make_runtime()

    def __enter__(self) -> Self:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wait until nothing is served any more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The page's address, with a slash at its end."""
        return f"{self.origin}/{self.stage}/"

    @property
    def fulfillment_url(self) -> str:
        """The address that takes the browser's post."""
        return f"{self.url}fulfillment"

    @property
    def registration_url(self) -> str:
        """The address that the page posts to."""
        return f"{self.url}register"

    # ------------------------------------------------------------------ tokens

    def new_token(self, account: str = BUYER, *, product: str = PRODUCT, activate: bool = True) -> str:
        """Let ``account`` subscribe, and return its registration token.

        ``activate`` False: the licence's activation, and so License Updated, is still to come.
        """
        with self._lock:
            agreement, _ = self.marketplace.create_agreement(product, account)
            grant = self.marketplace.create_license(agreement.agreement_id)
            if activate:
                self.marketplace.activate_license(grant.arn)
            return self.marketplace.mint_token(grant.arn)

    def new_foreign_token(self) -> str:
        """Return a token of another product of the seller's: WrongProduct."""
        return self.new_token(product=FOREIGN_PRODUCT)

    def new_token_without_license(self) -> str:
        """Return a token that resolves to no licence: MissingLicense."""
        with self._lock:
            self._legacy_customers += 1
            name = f"customer-{self._legacy_customers}"
            self.marketplace.create_legacy_customer(PRODUCT, name, BUYER)
            return self.marketplace.mint_legacy_token(PRODUCT, name)

    def expire(self, token: str) -> None:
        """Let a token expire now: ExpiredToken."""
        with self._lock:
            self.marketplace.expire_token(token)

    def page_url(self, token: str, offer_type: str | None = None) -> str:
        """Return the page's address with a token in its fragment, as the redirect gives it."""
        return f"{self.url}#{token_fragment(Fulfillment(token, offer_type))}"

    def verification_link(self, license_arn: str, account: str = BUYER, *, mail: str = "1") -> str:
        """Return the link that a mail to a registered buyer would hold; it makes those of other mails void.

        Raises
        ------
        LookupError
            The licence has no profile with an address.
        """
        for profile in self.profiles():
            if profile["licenseArn"] == license_arn and EMAIL_FIELD in profile["registrationData"]:
                address = EmailAddress.parse(profile["registrationData"][EMAIL_FIELD])
                break
        else:
            raise LookupError("the licence has no profile with an address")
        digests, signer = PepperDigest(_PEPPER), LinkSigner((_SIGNING_KEY,))
        addresses = ProfileVerifications(self.dynamodb.client(), (PROFILE_TABLE,), self.clock, digests)
        contact = ContactReference(subscription_of(license_arn, account), OWNER)
        verification = AddressVerification(signer, addresses, self.clock)
        token = verification.offer(contact.id, digests.digest(address), signer.nonce(mail))
        return f"{self.url}verify#verify={token}"

    # ------------------------------------------------------------------ forced answers

    def throttle_next(self, times: int = 1) -> None:
        """Let ResolveCustomer throttle: 429 Throttled with Retry-After."""
        self._arm(Code.THROTTLING, times)

    def fail_next(self, times: int = 1) -> None:
        """Let ResolveCustomer fail inside: 503 Unavailable."""
        self._arm(Code.INTERNAL_SERVICE_ERROR, times)

    def disable_api(self, times: int = 1) -> None:
        """Let ResolveCustomer be disabled in the Region: 500 Misconfigured."""
        self._arm(Code.DISABLED_API, times)

    def delay_next(self, seconds: float) -> None:
        """Let the next call of ``/register`` take so long, so that a page shows that it waits."""
        self._delays.append(seconds)

    def configure(self, **settings: str) -> None:
        """Replace settings of the register function, such as ``customer_profile_table=""``."""
        self._runtime = replace(self._runtime, settings=replace(self._runtime.settings, **settings))

    # ------------------------------------------------------------------ what is stored

    def profiles(self) -> list[dict[str, Any]]:
        """Return the customer profiles, as plain values."""
        return [from_wire(item) for item in self.dynamodb.items(PROFILE_TABLE)]

    def subscribers(self) -> list[dict[str, Any]]:
        """Return the subscriber rows, as plain values."""
        return [from_wire(item) for item in self.dynamodb.items(SUBSCRIBERS_TABLE)]

    # ------------------------------------------------------------------ inside

    def _arm(self, code: Code, times: int) -> None:
        with self._lock:
            self.marketplace.arm(Fault(code, operation=RESOLVE_CUSTOMER, times=times))

    def _make_runtime(self) -> Runtime:
        dynamodb = self.dynamodb.client()
        return Runtime(
            settings=Settings(
                product_code=PRODUCT,
                environment="sandbox",
                region=self._region,
                customer_profile_table=PROFILE_TABLE,
                subscribers_table=SUBSCRIBERS_TABLE,
                registration_fields=json.dumps(self.configuration["fields"]),
                promoted_fields=json.dumps(self._promoted),
                allowed_origins=json.dumps([self.origin, *self._origins]),
            ),
            clock=self.clock,
            telemetry=self.telemetry,
            dynamodb=dynamodb,
            subscribers_dynamodb=dynamodb,
            marketplace=InProcessMarketplaceClient(self.marketplace, region=self._region),
        )

    def _page_runtime(self) -> PageRuntime:
        settings = PageSettings(PRODUCT, "sandbox", json.dumps(self.values), self.policy, self._own_page_url)
        return PageRuntime(settings, self.telemetry)

    def _verify_runtime(self) -> VerifyRuntime:
        environment = {
            "CUSTOMER_PROFILE_TABLE": PROFILE_TABLE,
            "VERIFICATION_SECRET_ARN": "the signing key",
            "PRODUCT_NAME": self.configuration["productName"],
            "SUPPORT": self.configuration["supportEmail"],
        }
        return VerifyRuntime(
            environment=Environment(environment),
            dynamodb=self.dynamodb.client,
            secrets=_SigningKey,
            clock=self.clock,
            telemetry=self.telemetry,
        )

    def answer(self, request: SeenRequest) -> dict[str, Any]:
        """Return a handler's answer to one request, or the gateway's own where no method takes it."""
        self.requests.append(request)
        event = proxy_event(request, self.stage, base64_body=self.base64_bodies)
        if event is None:
            return {"statusCode": 403, "headers": {}, "body": '{"message":"Missing Authentication Token"}'}
        if event["resource"] == "/register" and request.method == "POST" and self._delays:
            time.sleep(self._delays.pop(0))
        # The fake Marketplace is one object without locks of its own.
        with self._lock:
            if event["resource"] == "/register":
                return register.run(event, None, self._runtime)
            if event["resource"] == "/verify":
                return verify.run(event, None, self._verify_runtime())
            return page.run(event, None, self._page_runtime())


def proxy_event(request: SeenRequest, stage: str, *, base64_body: bool = False) -> dict[str, Any] | None:
    """Return the event that a REST API makes of a request below its stage, None where no method takes it."""
    address = urlsplit(request.target)
    prefix = f"/{stage}"
    if address.path != prefix and not address.path.startswith(f"{prefix}/"):
        return None
    path = address.path.removeprefix(prefix) or "/"
    resource, parameters = path, None
    if path.startswith("/assets/") and "/" not in path.removeprefix("/assets/"):
        resource, parameters = "/assets/{file}", {"file": path.removeprefix("/assets/")}
    if request.method not in _ROUTES.get(resource, ()):
        return None
    body = base64.b64encode(request.body).decode() if base64_body else request.body.decode("utf-8", "replace")
    query = dict(parse_qsl(address.query, keep_blank_values=True))
    return {
        "resource": resource,
        "path": path,
        "httpMethod": request.method,
        "headers": dict(request.headers),
        "multiValueHeaders": {name: [value] for name, value in request.headers.items()},
        "queryStringParameters": query or None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} or None,
        "pathParameters": parameters,
        "stageVariables": None,
        "requestContext": {
            "resourcePath": resource,
            "httpMethod": request.method,
            "path": address.path,
            "stage": stage,
            "requestId": "00000000-0000-4000-8000-000000000000",
            "identity": {"sourceIp": "127.0.0.1"},
        },
        "body": body or None,
        "isBase64Encoded": base64_body and bool(body),
    }


def _new_marketplace(clock: Clock) -> FakeMarketplace:
    marketplace = FakeMarketplace(clock)
    for code in (PRODUCT, FOREIGN_PRODUCT):
        marketplace.create_product(code, ["requests"])
    return marketplace


def _handler_of(server: RegistrationServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_arguments: object) -> None:
            """Log nothing: ``requests`` keeps what came."""

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = SeenRequest(self.command, self.path, dict(self.headers.items()), body)
            answer = server.answer(request)
            content = answer["body"].encode()
            self.send_response(answer["statusCode"])
            for name, value in answer["headers"].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_OPTIONS = do_PUT = do_DELETE = _serve  # noqa: N815

    return Handler


def main() -> None:
    """Serve until interrupted."""
    with RegistrationServer() as server:
        print(f"The registration page with a fresh token: {server.page_url(server.new_token())}")
        print("Stop it with Ctrl-C.")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
