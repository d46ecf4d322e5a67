"""A link proves that its address is read: signed, until it expires, once, and for that address only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp.domain.errors import ConditionFailed, Misconfigured, StoreUnavailable
from awsmp.domain.notifications.verification import (
    MAX_TOKEN,
    AddressState,
    LinkSigner,
    VerificationClaim,
    VerificationCode,
    VerificationRefused,
    verification_link,
)
from awsmp.usecases.notifications.verify_address import AddressVerification, Confirmation
from sandbox.memory_aws.clock import ManualClock

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
DIGEST, NEW_DIGEST = "a" * 64, "b" * 64
NONCE = bytes(range(16))


class Addresses:
    """The port in memory: each write is one condition and one change, and an answer can be lost."""

    def __init__(self) -> None:
        self.states: dict[str, AddressState] = {"r1": AddressState(DIGEST)}
        self.verified_at: dict[str, datetime | None] = {"r1": None}
        self.writes = 0
        self.lose_answer = False

    def state(self, recipient_id: str) -> AddressState | None:
        return self.states.get(recipient_id)

    def offer(self, recipient_id: str, address_digest: str, nonce_digest: str) -> None:
        known = self.states.get(recipient_id)
        if known is None or known.address_digest != address_digest:
            raise ConditionFailed("offer")
        self._write(recipient_id, replace(known, pending=nonce_digest))

    def confirm(self, recipient_id: str, address_digest: str, nonce_digest: str, at: datetime) -> None:
        known = self.states.get(recipient_id)
        if known is None or (known.address_digest, known.pending) != (address_digest, nonce_digest):
            raise ConditionFailed("confirm")
        self.verified_at[recipient_id] = at
        self._write(recipient_id, AddressState(address_digest, None, nonce_digest))

    def _write(self, recipient_id: str, state: AddressState) -> None:
        self.states[recipient_id] = state
        self.writes += 1
        if self.lose_answer:
            self.lose_answer = False
            raise StoreUnavailable("the answer was lost")


class World:
    """One recipient, a clock and a store."""

    def __init__(self, *, lifetime: timedelta = timedelta(hours=1)) -> None:
        self.clock = ManualClock(datetime(2026, 11, 29, 12, 0, 0, 500_000, tzinfo=UTC))
        self.addresses = Addresses()
        self.verification = AddressVerification(LinkSigner([KEY]), self.addresses, self.clock, lifetime)

    def offer(self, nonce: bytes = NONCE) -> str:
        return self.verification.offer("r1", DIGEST, nonce)

    def refusal_of(self, token: str) -> VerificationCode:
        before = (dict(self.addresses.states), dict(self.addresses.verified_at))
        with pytest.raises(VerificationRefused) as refusal:
            self.verification.confirm(token)
        assert (self.addresses.states, self.addresses.verified_at) == before
        return refusal.value.code


@pytest.fixture
def world() -> World:
    return World()


def test_a_link_verifies_the_address_that_it_was_sent_to(world: World) -> None:
    assert world.verification.confirm(world.offer()) is Confirmation.CONFIRMED
    assert world.addresses.verified_at["r1"] == world.clock.now()


def test_a_second_use_changes_nothing(world: World) -> None:
    token = world.offer()
    world.verification.confirm(token)
    writes = world.addresses.writes
    world.addresses.verified_at["r1"] = None  # the seller set it back
    assert world.verification.confirm(token) is Confirmation.ALREADY_CONFIRMED
    assert world.addresses.verified_at["r1"] is None
    assert world.addresses.writes == writes


def test_after_a_lost_answer_the_same_link_says_that_it_was_done(world: World) -> None:
    token = world.offer()
    world.addresses.lose_answer = True
    with pytest.raises(StoreUnavailable):
        world.verification.confirm(token)
    assert world.verification.confirm(token) is Confirmation.ALREADY_CONFIRMED
    assert world.addresses.verified_at["r1"] is not None


def test_a_link_is_good_until_it_expires_and_not_at_that_instant() -> None:
    for seconds, good in ((3599.4, True), (3599.5, False), (3600, False), (10**6, False)):
        world = World()
        token = world.offer()
        world.clock.sleep(seconds)
        if good:
            assert world.verification.confirm(token) is Confirmation.CONFIRMED
        else:
            assert world.refusal_of(token) is VerificationCode.EXPIRED


def test_a_later_link_replaces_the_earlier_one(world: World) -> None:
    first, second = world.offer(), world.offer(b"another nonce....")
    assert world.refusal_of(first) is VerificationCode.SUPERSEDED
    assert world.verification.confirm(second) is Confirmation.CONFIRMED
    assert world.refusal_of(first) is VerificationCode.SUPERSEDED


def test_a_link_to_an_address_that_has_changed_verifies_nothing(world: World) -> None:
    token = world.offer()
    world.addresses.states["r1"] = AddressState(NEW_DIGEST)
    assert world.refusal_of(token) is VerificationCode.SUPERSEDED


def test_a_used_link_says_nothing_of_the_address_that_came_after(world: World) -> None:
    token = world.offer()
    world.verification.confirm(token)
    used = world.addresses.states["r1"]
    world.addresses.states["r1"] = replace(used, address_digest=NEW_DIGEST)
    assert world.refusal_of(token) is VerificationCode.SUPERSEDED


def test_a_link_to_a_recipient_who_is_gone_verifies_nothing(world: World) -> None:
    token = world.offer()
    world.addresses.states.clear()
    assert world.refusal_of(token) is VerificationCode.SUPERSEDED


def test_no_link_is_offered_for_another_address_or_a_recipient_who_is_gone(world: World) -> None:
    with pytest.raises(ConditionFailed):
        world.verification.offer("r1", NEW_DIGEST, NONCE)
    with pytest.raises(ConditionFailed):
        world.verification.offer("nobody", DIGEST, NONCE)
    assert world.addresses.writes == 0


def test_the_store_gets_a_digest_of_the_nonce_and_never_the_nonce(world: World) -> None:
    token = world.offer()
    nonce = base64.urlsafe_b64encode(NONCE).rstrip(b"=").decode()
    assert nonce not in repr(world.addresses.states)
    pending = world.addresses.states["r1"].pending
    assert pending == LinkSigner([KEY]).read(token, world.clock.now()).nonce_digest
    assert nonce not in repr(LinkSigner([KEY]).read(token, world.clock.now()))


def test_two_links_of_one_second_differ_by_their_nonce(world: World) -> None:
    assert world.offer() != world.offer(b"another nonce....")


CLAIM = VerificationClaim("r1", DIGEST, datetime(2026, 11, 29, 13, tzinfo=UTC), "bm9uY2Vub25jZW5vbmNl")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
TOKEN = LinkSigner([KEY]).token(CLAIM)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def code_of(token: str, keys: list[bytes] | None = None, now: datetime = NOW) -> VerificationCode:
    with pytest.raises(VerificationRefused) as refusal:
        LinkSigner(keys or [KEY]).read(token, now)
    assert len(token) < 5 or token not in str(refusal.value)
    return refusal.value.code


def test_a_token_says_what_was_signed_and_is_url_safe() -> None:
    assert LinkSigner([KEY]).read(TOKEN, NOW) == CLAIM
    assert set(TOKEN) <= set(ALPHABET + ".")


@pytest.mark.parametrize("position", range(len(TOKEN)))
def test_no_character_of_a_token_can_be_changed(position: int) -> None:
    for letter in ("A", "_", "8", "."):
        if TOKEN[position] != letter:
            forged = TOKEN[:position] + letter + TOKEN[position + 1 :]
            assert code_of(forged) is VerificationCode.MALFORMED


def test_every_other_last_letter_is_refused_though_base64_has_spare_bits() -> None:
    for letter in set(ALPHABET) - {TOKEN[-1]}:
        assert code_of(TOKEN[:-1] + letter) is VerificationCode.MALFORMED


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "a.b",
        TOKEN + "A",
        TOKEN + "=",
        TOKEN + "\n",
        " " + TOKEN,
        TOKEN.replace(".", ""),
        "AAAAA." + TOKEN.partition(".")[2],
        TOKEN.partition(".")[0],
        TOKEN.partition(".")[0] + ".",
        "." + TOKEN.partition(".")[2],
        "x" * (MAX_TOKEN + 1),
        TOKEN + "." + TOKEN,
        "é" + TOKEN,
    ],
)
def test_what_is_no_token_of_ours_is_malformed(token: str) -> None:
    assert code_of(token) is VerificationCode.MALFORMED


def signed(payload: bytes, key: bytes = KEY, domain: bytes | None = None) -> str:
    """A token made by hand, as one who has a key could make it."""
    prefix = b"awsmp.notifications.address-verification.v1\x00" if domain is None else domain
    mac = hmac.new(key, prefix + payload, hashlib.sha256).digest()
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (payload, mac))


PAYLOAD = json.dumps(
    [1, "r1", DIGEST, int(CLAIM.expires_at.timestamp()), CLAIM.nonce], separators=(",", ":")
).encode()


def test_the_signature_is_hmac_sha_256_over_domain_and_payload() -> None:
    assert signed(PAYLOAD) == TOKEN


def test_a_signature_of_another_key_another_purpose_or_another_version_is_refused() -> None:
    assert code_of(signed(PAYLOAD, OTHER_KEY)) is VerificationCode.MALFORMED
    assert code_of(signed(PAYLOAD, domain=b"")) is VerificationCode.MALFORMED
    assert code_of(signed(PAYLOAD, domain=b"awsmp/other\x00")) is VerificationCode.MALFORMED
    assert code_of(signed(PAYLOAD.replace(b"[1,", b"[2,"))) is VerificationCode.MALFORMED


def test_keys_are_replaced_by_signing_with_the_first_and_accepting_all() -> None:
    both = LinkSigner([OTHER_KEY, KEY])
    assert both.read(TOKEN, NOW) == CLAIM
    assert LinkSigner([OTHER_KEY]).read(both.token(CLAIM), NOW) == CLAIM
    assert code_of(both.token(CLAIM), [KEY]) is VerificationCode.MALFORMED


@given(st.text(max_size=200) | st.text(alphabet=ALPHABET + ".=", max_size=200))
def test_whatever_text_comes_it_is_malformed(token: str) -> None:
    assert code_of(token) is VerificationCode.MALFORMED


@pytest.mark.parametrize("keys", [[], [b"k" * 31], [KEY, b""]])
def test_a_signing_key_has_at_least_32_bytes(keys: list[bytes]) -> None:
    with pytest.raises(Misconfigured):
        LinkSigner(keys)


def test_no_representation_shows_a_key() -> None:
    assert "kkkk" not in repr(LinkSigner([KEY]))


@pytest.mark.parametrize(
    "arguments",
    [
        ("r1", DIGEST, b"short"),
        ("", DIGEST, NONCE),
        ("r 1", DIGEST, NONCE),
        ("r\n1", DIGEST, NONCE),
        ("r1", "", NONCE),
        ("r1", "x" * 257, NONCE),
    ],
)
def test_a_link_with_a_short_nonce_or_an_id_that_is_none_is_not_offered(arguments: Any, world: World) -> None:
    with pytest.raises(Misconfigured):
        world.verification.offer(*arguments)
    assert world.addresses.writes == 0


@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(seconds=59), timedelta(days=7, seconds=1)])
def test_a_link_lasts_between_a_minute_and_seven_days(lifetime: timedelta) -> None:
    with pytest.raises(Misconfigured):
        World(lifetime=lifetime)


def test_the_token_stands_in_the_fragment_where_no_server_sees_it() -> None:
    assert verification_link("https://acme.example/register", TOKEN) == (
        f"https://acme.example/register#verify={TOKEN}"
    )


@pytest.mark.parametrize(
    "page",
    ["http://acme.example/", "https://acme.example/#a", "https://user:pw@acme.example/", "acme.example"],
)
def test_a_link_leads_to_an_https_page_without_credentials_and_fragment(page: str) -> None:
    with pytest.raises(Misconfigured):
        verification_link(page, TOKEN)
