"""Contacts of a licence as its customer profile holds them: who may be told, and whose address is verified.

The buyer's own e-mail address (form field ``email``) is the contact ``owner``. Further ones are in the
profile's map ``contacts``, written by the seller, by contact id; an entry ``owner`` there adds to the
buyer's own:

=================  ==========================================================================================
member             meaning
=================  ==========================================================================================
``email``          the address; ``owner`` may leave it out and keeps the form's
``role``           ``owner`` (default) and ``admin`` are told, any other is not
``active``         false: not told (default true)
``entitledUntil``  when the membership ends (exclusive), ``YYYY-MM-DDTHH:MM:SSZ``; default never
``locale``         a language tag for the message's words
``verified``       true: the seller vouches for this address; false: not told, whatever a link says; absent:
                   the link decides
=================  ==========================================================================================

The map ``verification#<contact id>`` is this project's own: the address that the last link was sent to, its
digest, the pending link's nonce digest, and who confirmed it. A proof counts for that very address only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import parse_instant
from awsmp.domain.notifications.addresses import EmailAddress, InvalidAddress
from awsmp.domain.notifications.identities import InvalidIdentity, Subscription, parse_subscription
from awsmp.domain.notifications.ports import Recipient

#: The contact that registered, and the form field that holds its address (AWS asks for one on every page).
OWNER: Final = "owner"
EMAIL_FIELD: Final = "email"

CONTACTS: Final = "contacts"
VERIFICATION_PREFIX: Final = "verification#"

_CONTACT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_TOLD_ROLES: Final = frozenset({"owner", "admin"})


class LinkUnwanted(MeteringError):
    """The seller has ruled on this address, so that no link can change anything."""


class InvalidContact(MeteringError):
    """A contact's id or reference is none, or a member has a wrong type. The text quotes no value."""


@dataclass(frozen=True, slots=True)
class AddressProof:
    """What is known of the links that were sent: ``email`` is the text that the last one was sent to."""

    email: str = field(repr=False)
    address_digest: str
    pending: str | None = None
    confirmed_by: str | None = None


@dataclass(frozen=True, slots=True)
class Contact:
    """One contact whose entry can be read. ``email`` is the text on the profile, ``address`` what it means.

    ``vouched`` is the seller's own word, None where there is none.
    """

    contact_id: str
    email: str = field(repr=False)
    address: EmailAddress = field(repr=False)
    told: bool = True
    active: bool = True
    entitled_until: datetime | None = None
    locale: str | None = None
    vouched: bool | None = None
    proof: AddressProof | None = None

    @property
    def verified(self) -> bool:
        """Whether this very address is verified, by the seller's word or else by a link."""
        if self.vouched is not None:
            return self.vouched
        proof = self.proof
        return proof is not None and proof.confirmed_by is not None and proof.email == self.email

    def awaits_link(self) -> bool:
        """Tell whether a link is to be sent: to nobody whom the seller has ruled on."""
        return self.told and self.active and self.vouched is None and not self.verified

    def may_be_told(self, now: datetime) -> bool:
        """Tell whether notices may be sent to this contact at ``now``."""
        entitled = self.entitled_until is None or now < self.entitled_until
        return self.told and self.active and entitled and self.verified


@dataclass(frozen=True, slots=True)
class ContactReference:
    """One contact of one licence, as verification links name it."""

    subscription: Subscription
    contact_id: str

    @property
    def id(self) -> str:
        """The text: ``<account>#<licence ARN>#<contact id>``."""
        return f"{self.subscription.id}#{self.contact_id}"


@dataclass(frozen=True, slots=True)
class Contacts:
    """The contacts of a profile, and how many entries of it cannot be read (those are told nothing)."""

    readable: Mapping[str, Contact] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()


def is_contact_id(text: str) -> bool:
    """Tell whether ``text`` is 1 to 64 ASCII letters, digits, ``_`` and ``-``, a letter or digit first."""
    return _CONTACT_ID.fullmatch(text) is not None


def parse_reference(text: str) -> ContactReference:
    """Return what a reference names.

    Raises
    ------
    InvalidContact
        It is none.
    """
    subscription, separator, contact_id = text.rpartition("#")
    try:
        if separator and is_contact_id(contact_id):
            return ContactReference(parse_subscription(subscription), contact_id)
    except InvalidIdentity:
        raise InvalidContact("the contact's reference names no subscription") from None
    raise InvalidContact("the contact's reference is none")


def recipient_id(account: str, contact_id: str) -> str:
    """Return the id under which deliveries and suppressions keep a contact.

    It is the same in all licences of the buyer's account: whoever complains about one licence's mail is not
    written to about another.
    """
    return f"{account}:{contact_id}"


def contacts_of(profile: Mapping[str, Any]) -> Contacts:
    """Return the contacts of a profile's attributes (plain values); what is malformed is told nothing."""
    readable: dict[str, Contact] = {}
    unreadable: set[str] = set()
    for contact_id, entry in _entries(profile).items():
        try:
            contact = _contact(contact_id, entry, profile.get(f"{VERIFICATION_PREFIX}{contact_id}"))
        except (InvalidAddress, InvalidContact):
            unreadable.add(contact_id if is_contact_id(contact_id) else "malformed-id")
        else:
            readable[contact_id] = contact
    return Contacts(readable, frozenset(unreadable))


def recipients_of(account: str, contacts: Contacts) -> list[Recipient]:
    """Return the contacts whose role is told, whatever their state, in the order of their ids."""
    return [
        Recipient(
            recipient_id=recipient_id(account, contact.contact_id),
            address=contact.address,
            verified=contact.verified,
            active=contact.active,
            entitled_until=contact.entitled_until,
            locale=contact.locale,
        )
        for _, contact in sorted(contacts.readable.items())
        if contact.told
    ]


def _entries(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries by contact id, the buyer's own address among them."""
    form, listed = profile.get("registrationData"), profile.get(CONTACTS)
    entries: dict[str, Any] = dict(listed) if isinstance(listed, Mapping) else {}
    data = form if isinstance(form, Mapping) else {}
    own = {"email": data.get(EMAIL_FIELD), "locale": data.get("locale")}
    own = {name: value for name, value in own.items() if isinstance(value, str) and value}
    added = entries.get(OWNER, {})
    if isinstance(added, Mapping) and ("email" in own or added):
        entries[OWNER] = {**own, **added}
    return entries


def _contact(contact_id: str, entry: object, proof: object) -> Contact:
    if not is_contact_id(contact_id) or not isinstance(entry, Mapping):
        raise InvalidContact("a contact's id is none, or its entry is no map")
    email = _member(entry, "email", str, None)
    if email is None:
        raise InvalidContact("a contact has no address")
    until = _member(entry, "entitledUntil", str, None)
    return Contact(
        contact_id=contact_id,
        email=email,
        address=EmailAddress.parse(email),
        told=_member(entry, "role", str, OWNER) in _TOLD_ROLES,
        active=_member(entry, "active", bool, True),
        entitled_until=None if until is None else _instant(until),
        locale=_member(entry, "locale", str, None),
        vouched=_member(entry, "verified", bool, None),
        proof=_proof(proof),
    )


def _member(entry: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = entry.get(name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise InvalidContact(f"a contact's {name} has a wrong type")
    return value


def _instant(text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError:
        # Without its cause, which quotes the text.
        raise InvalidContact("a contact's entitledUntil is no instant") from None


def _proof(value: object) -> AddressProof | None:
    """Return the proof; what is no proof of ours proves nothing."""
    if not isinstance(value, Mapping):
        return None
    email, digest = value.get("email"), value.get("addressDigest")
    if not isinstance(email, str) or not isinstance(digest, str):
        return None
    pending, confirmed_by = value.get("pending"), value.get("confirmedBy")
    return AddressProof(
        email=email,
        address_digest=digest,
        pending=pending if isinstance(pending, str) else None,
        confirmed_by=confirmed_by if isinstance(confirmed_by, str) else None,
    )
