"""Who the contacts of a profile are, which of them are told, and whose address is verified."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from awsmp.domain.notifications.contacts import (
    Contact,
    ContactReference,
    InvalidContact,
    contacts_of,
    parse_reference,
    recipient_id,
    recipients_of,
)
from awsmp.domain.notifications.identities import is_plain_id
from awsmp.domain.notifications.outbox import Reason, objection
from tests.unit.notifications.world import BUYER, SUBSCRIPTION

NOW = datetime(2026, 11, 10, 8, 0, tzinfo=UTC)
FORM = {"email": "owner@buyer.example", "name": "Owner"}
PROVEN = {"email": "owner@buyer.example", "addressDigest": "d" * 64, "confirmedBy": "n" * 64}


def only(profile: dict[str, Any]) -> Contact:
    (contact,) = contacts_of(profile).readable.values()
    return contact


def test_the_buyer_who_registered_is_the_contact_owner() -> None:
    contact = only({"registrationData": FORM})
    assert contact.contact_id == "owner"
    assert contact.address.value == "owner@buyer.example"
    assert not contact.verified
    assert contact.awaits_link()


@pytest.mark.parametrize(
    ("entry", "proof", "verified", "awaits_link"),
    [
        ({}, None, False, True),
        ({}, {**PROVEN, "confirmedBy": None, "pending": "n" * 64}, False, True),
        ({}, PROVEN, True, False),
        ({}, {**PROVEN, "email": "other@buyer.example"}, False, True),
        ({}, {**PROVEN, "email": "Owner@buyer.example"}, False, True),
        ({}, {**PROVEN, "addressDigest": 7}, False, True),
        ({}, "no map", False, True),
        ({"verified": True}, None, True, False),
        ({"verified": False}, None, False, False),
        ({"verified": False}, PROVEN, False, False),
        ({"email": "new@buyer.example"}, PROVEN, False, True),
        ({"active": False}, None, False, False),
        ({"role": "member"}, None, False, False),
    ],
    ids=[
        "nothing known",
        "link sent",
        "link used",
        "link used for another address",
        "link used for another spelling",
        "proof malformed",
        "proof no map",
        "seller vouches",
        "seller rules out",
        "seller rules out after the link",
        "address changed since",
        "inactive",
        "role is not told",
    ],
)
def test_an_address_is_verified_by_the_sellers_word_or_else_by_a_link_to_this_very_address(
    entry: dict[str, Any], proof: object, verified: bool, awaits_link: bool
) -> None:
    profile = {"registrationData": FORM, "contacts": {"owner": entry}, "verification#owner": proof}
    contact = only(profile)
    assert contact.verified is verified
    assert contact.awaits_link() is awaits_link


def test_the_sellers_entry_for_the_owner_adds_to_the_form() -> None:
    profile: dict[str, Any] = {
        "registrationData": {**FORM, "locale": "fr"},
        "contacts": {"owner": {"locale": "de"}},
    }
    assert only(profile).locale == "de"
    assert only(profile).email == "owner@buyer.example"
    profile["contacts"]["owner"]["email"] = "new@buyer.example"
    assert only(profile).email == "new@buyer.example"


@pytest.mark.parametrize(
    "profile",
    [{}, {"registrationData": {"name": "x"}}, {"registrationData": "x"}, {"registrationData": {"email": ""}}],
)
def test_a_profile_without_an_address_has_no_contact(profile: dict[str, Any]) -> None:
    assert contacts_of(profile).readable == {}
    assert contacts_of(profile).unreadable == frozenset()


@pytest.mark.parametrize(
    ("contact_id", "entry", "named"),
    [
        ("ops", {}, "ops"),
        ("ops", {"email": 7}, "ops"),
        ("ops", {"email": "no address"}, "ops"),
        ("ops", {"email": "a@b.example", "active": "yes"}, "ops"),
        ("ops", {"email": "a@b.example", "verified": "true"}, "ops"),
        ("ops", {"email": "a@b.example", "role": 1}, "ops"),
        ("ops", {"email": "a@b.example", "entitledUntil": "tomorrow"}, "ops"),
        ("ops", {"email": "a@b.example", "locale": 1}, "ops"),
        ("ops", "a@b.example", "ops"),
        ("a@b.example", {"email": "a@b.example"}, "malformed-id"),
        ("x" * 65, {"email": "a@b.example"}, "malformed-id"),
    ],
)
def test_a_malformed_entry_is_told_nothing_and_costs_no_other_contact(
    contact_id: str, entry: object, named: str
) -> None:
    contacts = contacts_of({"registrationData": FORM, "contacts": {contact_id: entry}})
    assert list(contacts.readable) == ["owner"]
    assert contacts.unreadable == {named}


@pytest.mark.parametrize(("role", "told"), [("owner", True), ("admin", True), ("member", False), ("", False)])
def test_owners_and_admins_are_told_and_nobody_else(role: str, told: bool) -> None:
    profile = {"contacts": {"ops": {"email": "ops@buyer.example", "role": role}}}
    assert [each.recipient_id for each in recipients_of(BUYER, contacts_of(profile))] == (
        [f"{BUYER}:ops"] if told else []
    )


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"verified": True}, None),
        ({"verified": True, "entitledUntil": "2026-11-10T08:00:01Z"}, None),
        ({"verified": True, "entitledUntil": "2026-11-10T08:00:00Z"}, Reason.RECIPIENT_NOT_ENTITLED),
        ({"verified": True, "active": False}, Reason.RECIPIENT_INACTIVE),
        ({}, Reason.RECIPIENT_UNVERIFIED),
    ],
)
def test_the_sender_gets_the_state_of_every_contact(entry: dict[str, Any], reason: Reason | None) -> None:
    profile = {"contacts": {"ops": {"email": "ops@buyer.example", **entry}}}
    (recipient,) = recipients_of(BUYER, contacts_of(profile))
    assert objection(recipient, NOW) is reason
    assert only(profile).may_be_told(NOW) is (reason is None)


def test_a_recipients_id_is_plain_and_the_same_in_all_licences_of_an_account() -> None:
    assert is_plain_id(recipient_id(BUYER, "x" * 64))
    assert recipient_id(BUYER, "owner") == f"{BUYER}:owner"


def test_a_reference_names_a_contact_of_one_licence_and_comes_back() -> None:
    reference = ContactReference(SUBSCRIPTION, "ops-2")
    assert parse_reference(reference.id) == reference


@pytest.mark.parametrize("text", ["", "owner", f"{SUBSCRIPTION.id}#", f"{SUBSCRIPTION.id}#a@b", "1#2#owner"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(InvalidContact):
        parse_reference(text)


def test_no_address_shows_in_a_contacts_repr() -> None:
    contacts = contacts_of({"registrationData": FORM, "verification#owner": PROVEN})
    assert "owner@buyer" not in repr(contacts)
