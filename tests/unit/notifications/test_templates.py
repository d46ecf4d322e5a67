"""What the notices say, what a seller may change of them, and which bounds nothing can break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp.domain.notifications.addresses import EmailAddress
from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.messages import MAX_BODY_BYTES, MAX_SUBJECT, Message
from awsmp.domain.notifications.templates import (
    ENGLISH,
    ENGLISH_DETAILS,
    MAX_LABEL,
    MAX_URL,
    Details,
    InvalidContext,
    InvalidLocale,
    InvalidTemplate,
    RenderContext,
    Template,
    TemplateOverrides,
    is_portal_url,
    locale_chain,
    parse_locale,
    render,
)

URL = "https://portal.example.com/subscriptions"
GERMAN = Template("Ihr Abonnement von {product} ist aktiv", "Willkommen bei {product}.")
GERMAN_DETAILS = Details("Produkt: {product}, Tarif: {plan}\nVerwalten: {portal_url}\nKeine Werbung.")


def context(**changes: str) -> RenderContext:
    values = {
        "product": "Acme Search",
        "plan": "Team",
        "portal_url": URL,
        "seller": "Acme Inc.",
        "support": "https://acme.example/support",
        **changes,
    }
    return RenderContext(**values)


def message(subject: str, body: str) -> Message:
    return Message(
        subject=subject,
        body=body,
        recipient=EmailAddress.parse("buyer@example.com"),
        sender=EmailAddress.parse("billing@acme.example"),
        kind=Kind.REFUNDED,
        delivery_id="d1",
    )


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_template_and_a_notice_of_its_own(kind: Kind) -> None:
    subject, body = render(kind, None, context())
    others = [render(other, None, context()) for other in Kind if other is not kind]
    assert subject not in [other for other, _ in others]
    assert body.split("\n")[0] not in [other.split("\n")[0] for _, other in others]


@pytest.mark.parametrize("kind", Kind)
def test_every_notice_says_what_is_affected_where_to_manage_it_and_that_it_is_not_marketing(
    kind: Kind,
) -> None:
    _, body = render(kind, None, context())
    for part in ("Acme Search", "Team", URL, "Acme Inc.", "service message", "not marketing"):
        assert part in body
    message(*render(kind, None, context()))


def test_an_override_is_for_one_kind_and_locale() -> None:
    overrides = TemplateOverrides({(Kind.SUBSCRIPTION_STARTED, "de"): GERMAN}, {"de": GERMAN_DETAILS})
    subject, body = render(Kind.SUBSCRIPTION_STARTED, "de", context(), overrides)
    assert subject == "Ihr Abonnement von Acme Search ist aktiv"
    assert body == (
        "Willkommen bei Acme Search.\n\n"
        f"Produkt: Acme Search, Tarif: Team\nVerwalten: {URL}\nKeine Werbung.\n"
    )
    assert render(Kind.SUBSCRIPTION_STARTED, "fr", context(), overrides) == render(
        Kind.SUBSCRIPTION_STARTED, None, context()
    )
    assert render(Kind.REFUNDED, "de", context(), overrides)[0] == "A payment for Acme Search was refunded"


def test_an_override_of_english_replaces_the_shipped_text_everywhere_where_none_fits_better() -> None:
    overrides = TemplateOverrides({(Kind.REFUNDED, "en"): Template("Refund", "We paid you back.")})
    for locale in ("en", "en-GB", "ja", None, "no locale!"):
        assert render(Kind.REFUNDED, locale, context(), overrides)[0] == "Refund"


@pytest.mark.parametrize(
    ("locale", "chain"),
    [
        (None, ("en",)),
        ("", ("en",)),
        ("en", ("en",)),
        ("de", ("de", "en")),
        ("de-CH", ("de-ch", "de", "en")),
        ("de_CH", ("de-ch", "de", "en")),
        ("DE-ch", ("de-ch", "de", "en")),
        (" zh-Hant-TW ", ("zh-hant-tw", "zh-hant", "zh", "en")),
        ("en-US", ("en-us", "en")),
        ("x", ("en",)),
        ("de-", ("en",)),
        ("de--CH", ("en",)),
        ("d\u0435", ("en",)),
        ("../../etc/passwd", ("en",)),
        ("de\r\nBcc: all@example.com", ("en",)),
        ("a" * 9, ("en",)),
        ("de" + "-x" * 8, ("en",)),
        ("de;q=0.9,en", ("en",)),
    ],
)
def test_a_locale_is_looked_up_from_the_most_specific_to_english_and_an_odd_one_is_none(
    locale: str | None, chain: tuple[str, ...]
) -> None:
    assert locale_chain(locale) == chain


@given(st.text(max_size=40))
def test_whatever_a_profile_holds_as_locale_a_message_can_be_made(locale: str) -> None:
    overrides = TemplateOverrides({(Kind.REFUNDED, "de"): GERMAN}, {"de": GERMAN_DETAILS})
    message(*render(Kind.REFUNDED, locale, context(), overrides))


@pytest.mark.parametrize("locale", ["DE", "de_CH", "de ", "d", "", "en-"])
def test_the_locale_of_an_override_is_in_canonical_form(locale: str) -> None:
    with pytest.raises(InvalidLocale):
        TemplateOverrides({(Kind.REFUNDED, locale): GERMAN})
    with pytest.raises(InvalidLocale):
        TemplateOverrides({}, {locale: GERMAN_DETAILS})


def test_a_locale_is_parsed_to_lower_case_with_hyphens() -> None:
    assert parse_locale("pt_BR") == "pt-br"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Template("", "text"),
        lambda: Template("  ", "text"),
        lambda: Template("subject", " \n\t"),
        lambda: Template("two\nlines", "text"),
        lambda: Template("sub\rject", "text"),
        lambda: Template("sub\u2028ject", "text"),
        lambda: Template("sub\x85ject", "text"),
        lambda: Template("=?utf-8?q?x?=", "text"),
        lambda: Template("sub\u202eject", "text"),
        lambda: Template("s" * (MAX_SUBJECT + 1), "text"),
        lambda: Template("s" * (MAX_SUBJECT - MAX_LABEL + 1) + "{product}", "text"),
        lambda: Template("{portal_url}", "text"),
        lambda: Template("subject", "text\r\nmore"),
        lambda: Template("subject", "text\x00"),
        lambda: Template("{address}", "text"),
        lambda: Template("subject", "{name}"),
        lambda: Template("subject", "{product.__class__}"),
        lambda: Template("subject", "{product!r}"),
        lambda: Template("subject", "{product:>99999}"),
        lambda: Template("subject", "{}"),
        lambda: Template("subject", "{0}"),
        lambda: Template("subject", "a { b"),
        lambda: Template("subject", "a } b"),
        lambda: Details("{product} {plan}"),
        lambda: Details("{product} {portal_url}"),
        lambda: Details("{plan} {portal_url}"),
        lambda: Details("{{product}} {plan} {portal_url}"),
        lambda: Details("{product} {plan} {portal_url} {password}"),
        lambda: TemplateOverrides({(Kind.REFUNDED, "de"): Template("s", "x" * MAX_BODY_BYTES)}),
        lambda: TemplateOverrides({(Kind.REFUNDED, "de"): Template("s", "ü" * (MAX_BODY_BYTES // 2))}),
        lambda: TemplateOverrides({(Kind.REFUNDED, "de"): Template("s", "{support}" * 8)}),
        lambda: TemplateOverrides({}, {"de": Details("{product} {plan} {portal_url}" * 20)}),
    ],
)
def test_a_template_out_of_bounds_is_refused_where_it_is_configured(make: Callable[[], Any]) -> None:
    with pytest.raises((InvalidTemplate, InvalidLocale)):
        make()


def test_braces_are_written_twice_and_a_value_with_braces_is_not_filled_again() -> None:
    overrides = TemplateOverrides({(Kind.REFUNDED, "en"): Template("{{{product}}}", "{{x}} {product}")})
    subject, body = render(Kind.REFUNDED, None, context(product="{plan}{"), overrides)
    assert subject == "{{plan}{}"
    assert body.startswith("{x} {plan}{\n")


def test_a_template_at_its_bound_makes_a_message_with_the_longest_values_of_all_scripts() -> None:
    label, contact = "\U0001d49c" * MAX_LABEL, "\U0001d49c" * MAX_URL
    longest = context(
        product=label, plan=label, seller=label, support=contact, portal_url=URL.ljust(MAX_URL, "x")
    )
    subject = "s" * (MAX_SUBJECT - 2 * MAX_LABEL) + "{product}{plan}"
    filled_details = render(Kind.REFUNDED, None, longest)[1].partition("\n\n")[2]
    room = MAX_BODY_BYTES - len(filled_details.encode()) - 2
    overrides = TemplateOverrides({(Kind.REFUNDED, "en"): Template(subject, "t" * room)})
    made = message(*render(Kind.REFUNDED, None, longest, overrides))
    assert len(made.subject) == MAX_SUBJECT
    assert len(made.body.encode()) == MAX_BODY_BYTES
    with pytest.raises(InvalidTemplate):
        TemplateOverrides({(Kind.REFUNDED, "en"): Template(subject, "t" * (room + 1))})


@pytest.mark.parametrize("name", ["product", "plan", "seller", "support", "portal_url"])
@pytest.mark.parametrize(
    "value",
    [
        "",
        "  ",
        "a\nb",
        "a\r\nBcc: all@example.com",
        "a\x00",
        "a\u2029b",
        "a\x7f",
        "a\ud800",
        "a\u202eb",
        "=?utf-8?b?QQ==?=",
        "x" * (MAX_URL + 1),
    ],
)
def test_a_value_that_is_empty_too_long_or_not_one_printable_line_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidContext) as refusal:
        context(**{name: value})
    assert name in str(refusal.value)
    assert not value.strip() or value not in str(refusal.value)


@pytest.mark.parametrize("name", ["product", "plan", "seller"])
def test_a_label_has_at_most_80_characters(name: str) -> None:
    context(**{name: "x" * MAX_LABEL})
    with pytest.raises(InvalidContext):
        context(**{name: "x" * (MAX_LABEL + 1)})


@pytest.mark.parametrize(
    "url",
    [
        "https://portal.example.com",
        "https://portal.example.com/",
        "https://portal.example.com:8443/a/b?c=d&e=f",
        "https://xn--bcher-kva.example/%C3%BC",
        "https://portal.example.com/a@b",
        "HTTPS://Portal.Example.com/",
    ],
)
def test_a_portal_address_is_an_absolute_https_url(url: str) -> None:
    assert is_portal_url(url)
    assert context(portal_url=url).portal_url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://portal.example.com/",
        "//portal.example.com/",
        "portal.example.com",
        "/subscriptions",
        "javascript:alert(1)",
        "mailto:a@b.example",
        "https:portal.example.com",
        "https:///subscriptions",
        "https://",
        "https://:443/",
        "https://user@portal.example.com/",
        "https://user:secret@portal.example.com/",
        "https://portal.example.com%40evil.example/",
        "https://@portal.example.com/",
        "https://portal.example.com/#manage",
        "https://portal.example.com/#",
        "https://portal.example.com/a b",
        "https://portal.example.com/\n",
        "https://portal.example.com\\@evil.example/",
        "https://portal.example.com:port/",
        "https://portal.example.com:0/",
        "https://portal.example.com:99999/",
        "https://[::1/",
        "https://pörtal.example.com/",
        "https://portal.example.com/ü",
        'https://portal.example.com/"',
        "https://portal.example.com/<a>",
        "https://portal..example.com/",
    ],
)
def test_a_portal_address_without_https_or_host_or_with_credentials_or_fragment_is_refused(url: str) -> None:
    assert not is_portal_url(url)
    with pytest.raises(InvalidContext):
        context(portal_url=url)


TEXT = st.text(max_size=60) | st.sampled_from(
    ["{product}", "{{", "{", "}", "\n", "\r\nBcc: x", "=?utf-8?q?a?=", "\u202e", "{product.a}", "{plan}"]
)


@given(st.lists(TEXT, max_size=5).map("".join), st.lists(TEXT, max_size=5).map("".join), TEXT, TEXT)
def test_whatever_texts_are_configured_what_is_accepted_makes_a_message_and_the_rest_is_refused(
    subject: str, text: str, product: str, plan: str
) -> None:
    try:
        overrides = TemplateOverrides({(Kind.REFUNDED, "en"): Template(subject, text)})
        values = context(product=product, plan=plan)
    except (InvalidTemplate, InvalidContext):
        return
    made = message(*render(Kind.REFUNDED, None, values, overrides))
    assert URL in made.body
    assert product in made.body
    assert plan in made.body


def test_the_shipped_texts_are_all_there_is_without_overrides() -> None:
    none = TemplateOverrides()
    assert {kind: none.template(kind, "de") for kind in Kind} == ENGLISH
    assert none.details_for("de") is ENGLISH_DETAILS
