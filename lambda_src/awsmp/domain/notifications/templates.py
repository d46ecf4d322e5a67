"""What each notice says: one template per kind in English, and a seller's own words per kind and locale.

A message is the notice and, below it, the details: what is affected, where to manage it, and that it is a
service message and no marketing. An override replaces the subject and the notice of one kind, or the details
of a locale; details that leave out the product, the plan or the portal are refused.

Bounds are checked where a template is built, against the longest values that it can be filled with: a
template that is accepted cannot fail for its size when a message has to be sent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.kinds import Kind

#: Longest subject, in characters, and longest body, in bytes of UTF-8.
MAX_SUBJECT: Final = 256
MAX_BODY_BYTES: Final = 32 * 1024
#: Longest label or contact in a message, in characters, and longest portal address.
MAX_LABEL: Final = 80
MAX_URL: Final = 1024
#: Longest verification link: the page's address, ``#verify=`` and a token of at most 1024 characters.
MAX_LINK: Final = 2 * MAX_URL + 8

#: The locale of the templates that ship with this module, and the last that is looked in.
DEFAULT_LOCALE: Final = "en"

_UTF8_BYTES_OF_A_CHARACTER: Final = 4
_MAX_CHARACTERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "product": MAX_LABEL,
        "plan": MAX_LABEL,
        "seller": MAX_LABEL,
        "support": MAX_URL,
        "portal_url": MAX_URL,
        "link": MAX_LINK,
    }
)
# What only a verification mail has, and no context.
_LINK: Final = "link"
_CONTEXT: Final = tuple(name for name in _MAX_CHARACTERS if name != _LINK)
# Portal and support addresses are ASCII when they are URLs; a support contact may be a text in any script.
_MAX_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "product": MAX_LABEL * _UTF8_BYTES_OF_A_CHARACTER,
        "plan": MAX_LABEL * _UTF8_BYTES_OF_A_CHARACTER,
        "seller": MAX_LABEL * _UTF8_BYTES_OF_A_CHARACTER,
        "support": MAX_URL * _UTF8_BYTES_OF_A_CHARACTER,
        "portal_url": MAX_URL,
        "link": MAX_LINK,
    }
)
_REQUIRED_DETAILS: Final = ("product", "plan", "portal_url")
_FIELD = re.compile(r"\{\{|\}\}|\{([a-z_]{1,20})\}|[{}]")
# RFC 5646 in outline: a language, then subtags.
_LOCALE = re.compile(r"[a-z]{2,8}(?:-[a-z0-9]{1,8}){0,7}", re.ASCII)
_URL = re.compile(r"[!-~]+", re.ASCII)
_URL_CHARACTERS_TO_REFUSE: Final = frozenset('"<>\\^`{|}#')
# Format characters that turn the order of the text around them: a label could pass for something else.
_REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NOT_IN_A_LINE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


class InvalidTemplate(MeteringError):
    """A template breaks a bound or names a value that there is none of. The text names the rule."""


class InvalidContext(MeteringError):
    """A value that messages are filled with is not acceptable. The text names the value and the rule."""


class InvalidLocale(MeteringError):
    """A text that has to be a locale (RFC 5646) is none."""


@dataclass(frozen=True, slots=True)
class RenderContext:
    """What a message is filled with. No value is about a person.

    ``product``, ``plan`` and ``seller`` are labels of at most 80 characters; ``support`` is how to reach the
    seller, an address or a URL; ``portal_url`` is where the subscription is managed.
    """

    product: str
    plan: str
    portal_url: str
    seller: str
    support: str

    def __post_init__(self) -> None:
        """Check every value.

        Raises
        ------
        InvalidContext
            One is empty, too long, not one line of printable text, or the portal's address is not an
            absolute https URL without credentials and fragment.
        """
        for name in _CONTEXT:
            value: str = getattr(self, name)
            if not value.strip() or len(value) > _MAX_CHARACTERS[name]:
                raise InvalidContext(f"{name} is empty or longer than {_MAX_CHARACTERS[name]} characters")
            if not is_one_line(value):
                raise InvalidContext(f"{name} is not one line of printable text")
        if not is_portal_url(self.portal_url):
            raise InvalidContext("portal_url is no https URL without credentials and fragment")

    def values(self) -> Mapping[str, str]:
        """Return the values by the name that a template uses."""
        return {name: getattr(self, name) for name in _CONTEXT}


def is_one_line(text: str) -> bool:
    """Tell whether ``text`` has no line break, control character, lone surrogate or reordering mark.

    Nor what begins an encoded word (RFC 2047), which a mail client would show as something else.
    """
    return "=?" not in text and all(
        unicodedata.category(character) not in _NOT_IN_A_LINE and character not in _REORDERING
        for character in text
    )


def is_portal_url(text: str) -> bool:
    """Tell whether ``text`` is an absolute https URL with a host and without credentials and fragment.

    Only printable ASCII, so that every mail client finds the same end of it and shows the host that it is.
    """
    if not _URL.fullmatch(text) or not _URL_CHARACTERS_TO_REFUSE.isdisjoint(text):
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    plain = re.fullmatch(r"[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*", host, re.ASCII) is not None
    return parts.scheme == "https" and plain and "@" not in parts.netloc and port != 0


def parse_locale(text: str) -> str:
    """Return the locale in the form that overrides are looked up by: lower case, hyphens.

    Raises
    ------
    InvalidLocale
        It is no language tag.
    """
    locale = text.strip().replace("_", "-").lower()
    if not _LOCALE.fullmatch(locale):
        raise InvalidLocale("the locale is no language tag")
    return locale


def locale_chain(locale: str | None) -> tuple[str, ...]:
    """Return the locales to look in, most specific first, English last.

    A profile may hold anything: what is no language tag counts as none.
    """
    chain: list[str] = []
    if locale is not None:
        try:
            subtags = parse_locale(locale).split("-")
        except InvalidLocale:
            subtags = []
        chain = ["-".join(subtags[:length]) for length in range(len(subtags), 0, -1)]
    return tuple(dict.fromkeys([*chain, DEFAULT_LOCALE]))


@dataclass(frozen=True, slots=True)
class Text:
    """A text with ``{product}``, ``{plan}``, ``{seller}``, ``{support}`` and ``{portal_url}`` in it.

    And ``{link}``, which verification templates have and no other. ``{{`` and ``}}`` stand for braces. There
    is nothing else to it: no attributes, indexes or formats.
    """

    source: str

    def __post_init__(self) -> None:
        """Check the braces.

        Raises
        ------
        InvalidTemplate
            A brace is single, or what it encloses is none of these names.
        """
        for match in _FIELD.finditer(self.source):
            if match[0] not in ("{{", "}}") and match[1] not in _MAX_CHARACTERS:
                raise InvalidTemplate("a template has a single brace or an unknown value in braces")

    @property
    def names(self) -> tuple[str, ...]:
        """The values that it uses, in order, each as often as it is used."""
        return tuple(match[1] for match in _FIELD.finditer(self.source) if match[1])

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with its values. Braces within a value stay as they are."""
        return _FIELD.sub(lambda match: values[match[1]] if match[1] else match[0][0], self.source)

    def most_characters(self) -> int:
        """Return the length of the longest text that it can become."""
        return len(self._literal()) + sum(_MAX_CHARACTERS[name] for name in self.names)

    def most_bytes(self) -> int:
        """Return the bytes in UTF-8 of the longest text that it can become."""
        return len(self._literal().encode()) + sum(_MAX_BYTES[name] for name in self.names)

    def _literal(self) -> str:
        return self.fill(dict.fromkeys(_MAX_CHARACTERS, ""))


@dataclass(frozen=True, slots=True)
class Template:
    """The subject and the notice of one kind in one locale; lines are separated by line feeds."""

    subject: str
    text: str

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises
        ------
        InvalidTemplate
            The subject is blank, not one line, or could become longer than 256 characters; the text is blank
            or has control characters; or a value in braces is unknown.
        """
        _check_subject(self.subject)
        _check_lines(self.text, links=0)


@dataclass(frozen=True, slots=True)
class VerificationTemplate:
    """The subject and the text of the mail that asks a contact to verify its address, in one locale."""

    subject: str
    text: str

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises
        ------
        InvalidTemplate
            As Template, or the text does not hold ``{link}`` exactly once.
        """
        _check_subject(self.subject)
        _check_lines(self.text, links=1)


@dataclass(frozen=True, slots=True)
class Details:
    """What stands below every notice of one locale."""

    text: str

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises
        ------
        InvalidTemplate
            The text is blank or has control characters, a value in braces is unknown, or one of
            ``{product}``, ``{plan}`` and ``{portal_url}`` is missing.
        """
        _check_lines(self.text, links=0)
        missing = set(_REQUIRED_DETAILS) - set(Text(self.text).names)
        if missing:
            raise InvalidTemplate(f"the details lack {', '.join(sorted(missing))}")


def _check_subject(subject: str) -> None:
    if not subject.strip() or not is_one_line(subject):
        raise InvalidTemplate("a subject is blank or not one line of printable text")
    if _LINK in Text(subject).names:
        raise InvalidTemplate("a subject has no link")
    if Text(subject).most_characters() > MAX_SUBJECT:
        raise InvalidTemplate("a subject could become longer than 256 characters")


def _check_lines(text: str, *, links: int) -> None:
    if not text.strip():
        raise InvalidTemplate("a text is blank")
    if not all(is_one_line(line.replace("\t", "")) for line in text.split("\n")):
        raise InvalidTemplate("a text has control characters")
    if Text(text).names.count(_LINK) != links:
        raise InvalidTemplate("the text of a verification holds {link} once, and nothing else does")


ENGLISH_DETAILS: Final = Details(
    "Product: {product}\n"
    "Plan: {plan}\n"
    "Manage your subscription: {portal_url}\n"
    "Questions: {support}\n"
    "\n"
    "{seller} sends you this service message because you are a contact for this subscription. "
    "It is not marketing."
)

ENGLISH: Final[Mapping[Kind, Template]] = MappingProxyType(
    {
        Kind.SUBSCRIPTION_STARTED: Template(
            "Your {product} subscription has started",
            "Your subscription to {product} is active. You can start using it now.",
        ),
        Kind.PAYMENT_FAILED: Template(
            "A payment for {product} failed",
            "A payment for your subscription to {product} did not go through. Please check your payment "
            "details so that your access is not interrupted.",
        ),
        Kind.ACCESS_SUSPENDED: Template(
            "Your access to {product} is suspended",
            "Access to {product} is suspended because of the state of your subscription. "
            "Settling what is open restores it.",
        ),
        Kind.PAYMENT_RECOVERED: Template(
            "Your {product} subscription is in good standing again",
            "Your payment for {product} has been received. There is nothing that you need to do.",
        ),
        Kind.CANCELLATION_SCHEDULED: Template(
            "Your {product} subscription is set to end",
            "Your subscription to {product} will not be renewed and ends with its current term. "
            "Until then you can use it as before.",
        ),
        Kind.CANCELLATION_REVERSED: Template(
            "Your {product} subscription continues",
            "Your subscription to {product} is no longer set to end and continues as before.",
        ),
        Kind.SUBSCRIPTION_CANCELED: Template(
            "Your {product} subscription has ended",
            "Your subscription to {product} has ended and with it your access.",
        ),
        Kind.DISPUTE_OPEN: Template(
            "A payment for {product} is disputed",
            "A payment for your subscription to {product} is disputed with your bank or card issuer. "
            "If this was not intended, please get in touch.",
        ),
        Kind.DISPUTE_LOST: Template(
            "The payment dispute for {product} was decided",
            "The dispute of a payment for {product} was decided in your favor and the amount is returned by "
            "your bank or card issuer. This can affect your access.",
        ),
        Kind.DISPUTE_RESOLVED: Template(
            "The payment dispute for {product} is resolved",
            "The dispute of a payment for {product} is resolved. There is nothing that you need to do.",
        ),
        Kind.REFUNDED: Template(
            "A payment for {product} was refunded",
            "A payment for your subscription to {product} was refunded. It can take some days until the "
            "amount reaches you.",
        ),
    }
)


ENGLISH_VERIFICATION: Final = VerificationTemplate(
    "Confirm your email address for {product}",
    "This address was given as a contact for a subscription to {product}. Please confirm that you want to "
    "receive its service messages here:\n"
    "\n"
    "{link}\n"
    "\n"
    "The link works once and for a limited time. If you do not know what this is about, ignore this message: "
    "nothing is sent to an address that was not confirmed.",
)


@dataclass(frozen=True, slots=True)
class TemplateOverrides:
    """A seller's own words: templates by kind and locale, and by locale the details and verifications.

    Locales are as parse_locale writes them.
    """

    templates: Mapping[tuple[Kind, str], Template] = field(default_factory=dict)
    details: Mapping[str, Details] = field(default_factory=dict)
    verifications: Mapping[str, VerificationTemplate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the locales, and every template with the details that it can meet.

        Raises
        ------
        InvalidLocale
            A key is no locale in canonical form.
        InvalidTemplate
            A body could become longer than 32 KiB.
        """
        for locale in [*(locale for _, locale in self.templates), *self.details, *self.verifications]:
            if parse_locale(locale) != locale:
                raise InvalidLocale("the locale of an override is not in lower case with hyphens")
        texts: list[Template | VerificationTemplate] = [*ENGLISH.values(), *self.templates.values()]
        texts += [ENGLISH_VERIFICATION, *self.verifications.values()]
        notices = max(Text(each.text).most_bytes() for each in texts)
        details = max(Text(each.text).most_bytes() for each in [ENGLISH_DETAILS, *self.details.values()])
        if notices + details + len("\n\n\n") > MAX_BODY_BYTES:
            raise InvalidTemplate("a body could become longer than 32 KiB")

    def template(self, kind: Kind, locale: str | None) -> Template:
        """Return the most specific template of ``kind`` for ``locale``; the English one is always there."""
        found = (self.templates.get((kind, each)) for each in locale_chain(locale))
        return next((template for template in found if template is not None), ENGLISH[kind])

    def verification(self, locale: str | None) -> VerificationTemplate:
        """Return the most specific verification template for ``locale``; the English one is always there."""
        found = (self.verifications.get(each) for each in locale_chain(locale))
        return next((template for template in found if template is not None), ENGLISH_VERIFICATION)

    def details_for(self, locale: str | None) -> Details:
        """Return the most specific details for ``locale``; the English ones are always there."""
        found = (self.details.get(each) for each in locale_chain(locale))
        return next((details for details in found if details is not None), ENGLISH_DETAILS)


NO_OVERRIDES: Final = TemplateOverrides()


def render(
    kind: Kind, locale: str | None, context: RenderContext, overrides: TemplateOverrides = NO_OVERRIDES
) -> tuple[str, str]:
    """Return the subject and the body of a notice, within the bounds of a message whatever the context."""
    return _filled(overrides.template(kind, locale), overrides.details_for(locale), context.values())


def render_verification(
    locale: str | None, context: RenderContext, link: str, overrides: TemplateOverrides = NO_OVERRIDES
) -> tuple[str, str]:
    """Return the subject and the body of a verification mail.

    Raises
    ------
    InvalidContext
        The link is longer than any of ours.
    """
    if len(link) > MAX_LINK:
        raise InvalidContext("the verification link is too long")
    values = {**context.values(), _LINK: link}
    return _filled(overrides.verification(locale), overrides.details_for(locale), values)


def _filled(
    template: Template | VerificationTemplate, details: Details, values: Mapping[str, str]
) -> tuple[str, str]:
    body = f"{Text(template.text).fill(values)}\n\n{Text(details.text).fill(values)}\n"
    return Text(template.subject).fill(values), body
