"""A seller's own words: items of the table, within the bounds of every message."""

from __future__ import annotations

from typing import Any

import pytest

from awsmp.adapters.dynamodb import to_wire
from awsmp.domain.errors import Misconfigured
from awsmp.domain.notifications.templates import (
    InvalidContext,
    InvalidTemplate,
    RenderContext,
    Template,
    VerificationTemplate,
    render_verification,
)
from tests.unit.notifications.deployment import Deployment, body_of
from tests.unit.notifications.world import TABLE

CONTEXT = RenderContext("Product", "Plan", "https://portal.example/", "Seller", "https://help.example/")
LINK = "https://a.example/verify#verify=x.y"


def put(deployment: Deployment, sk: str, **texts: Any) -> None:
    deployment.plain.put_item(TableName=TABLE, Item=to_wire({"pk": "template", "sk": sk, **texts}))


def registered() -> Deployment:
    deployment = Deployment()
    deployment.register()
    deployment.set_contacts(owner={"locale": "de-AT"})
    deployment.deliver()
    return deployment


def test_words_are_looked_up_by_kind_and_the_contacts_locale() -> None:
    deployment = registered()
    put(deployment, "address_verification#de", subject="Adresse für {product}", text="Hier:\n\n{link}\n")
    put(deployment, "details#de", text="{product}, {plan}: {portal_url}. Dienstnachricht, keine Werbung.")
    put(deployment, "subscription_started#de", subject="Los geht es", text="{product} läuft.")
    deployment.send()
    deployment.press(deployment.token())
    deployment.deliver()
    deployment.send()
    first, second = deployment.ses.sent
    assert first["Content"]["Simple"]["Subject"]["Data"] == "Adresse für Example Product"
    assert second["Content"]["Simple"]["Subject"]["Data"] == "Los geht es"
    assert body_of(second) == (
        "Example Product läuft.\n\nExample Product, Standard: https://portal.example/x. "
        "Dienstnachricht, keine Werbung.\n"
    )


def test_words_for_another_locale_are_not_used() -> None:
    deployment = registered()
    put(deployment, "address_verification#fr", subject="Adresse", text="{link}")
    deployment.send()
    (mail,) = deployment.ses.sent
    assert mail["Content"]["Simple"]["Subject"]["Data"] == "Confirm your email address for Example Product"


@pytest.mark.parametrize(
    ("sk", "texts"),
    [
        ("unknown_kind#en", {"subject": "x", "text": "y"}),
        ("refunded#EN", {"subject": "x", "text": "y"}),
        ("refunded", {"subject": "x", "text": "y"}),
        ("refunded#en", {"text": "y"}),
        ("refunded#en", {"subject": "x", "text": 7}),
        ("refunded#en", {"subject": "x\ny", "text": "y"}),
        ("refunded#en", {"subject": "x" * 257, "text": "y"}),
        ("refunded#en", {"subject": "x", "text": " "}),
        ("refunded#en", {"subject": "x", "text": "y" * 33000}),
        ("refunded#en", {"subject": "x", "text": "{link}"}),
        ("refunded#en", {"subject": "x", "text": "{buyer}"}),
        ("details#en", {"text": "{product}"}),
        ("details#en", {"text": "{product} {plan} {portal_url} {link}"}),
        ("address_verification#en", {"subject": "x", "text": "no way to verify"}),
        ("address_verification#en", {"subject": "x", "text": "{link} {link}"}),
        ("address_verification#en", {"subject": "{link}", "text": "{link}"}),
    ],
)
def test_an_item_out_of_bounds_stops_the_run_by_its_name_and_nothing_is_lost(
    sk: str, texts: dict[str, Any]
) -> None:
    deployment = registered()
    put(deployment, sk, **texts)
    with pytest.raises(Misconfigured, match=sk):
        deployment.send()
    assert deployment.ses.sent == []
    deployment.plain.delete_item(TableName=TABLE, Key=to_wire({"pk": "template", "sk": sk}))
    deployment.send()
    assert len(deployment.ses.sent) == 1


@pytest.mark.parametrize("text", ["", " ", "{link}{link}", "{link} {nothing}", "{link} {", "a\x00{link}"])
def test_a_verification_text_has_one_link_and_the_bounds_of_every_text(text: str) -> None:
    with pytest.raises(InvalidTemplate):
        VerificationTemplate("subject", text)


def test_a_notice_holds_no_verification_link() -> None:
    with pytest.raises(InvalidTemplate, match="link"):
        Template("subject", "{link}")


def test_braces_around_the_word_link_can_be_written() -> None:
    template = VerificationTemplate("subject", "{{link}} is {link}")
    assert template.text == "{{link}} is {link}"


def test_a_link_longer_than_any_of_ours_is_refused() -> None:
    assert LINK in render_verification(None, CONTEXT, LINK)[1]
    with pytest.raises(InvalidContext):
        render_verification(None, CONTEXT, "x" * 2057)
