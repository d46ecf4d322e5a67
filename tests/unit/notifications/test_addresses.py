"""Which texts are addresses, and the one form they are kept in."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp.domain.notifications.addresses import (
    MAX_ADDRESS,
    MAX_LOCAL_PART,
    EmailAddress,
    InvalidAddress,
)

CANONICAL = [
    ("ops@example.com", "ops@example.com"),
    ("Ops@Example.COM", "Ops@example.com"),
    ("a@b.co", "a@b.co"),
    ("first.last+tag@mail.example.co.uk", "first.last+tag@mail.example.co.uk"),
    ("!#$%&'*+-/?=^_`{|}~@example.com", "!#$%&'*+-/?=^_`{|}~@example.com"),
    ("0@0.example", "0@0.example"),
    ("x@XN--BCHER-KVA.example", "x@xn--bcher-kva.example"),
    ("x@bücher.example", "x@xn--bcher-kva.example"),
    ("x@BÜCHER.example", "x@xn--bcher-kva.example"),
    ("x@bu\u0308cher.example", "x@xn--bcher-kva.example"),
    ("x@例え.テスト", "x@xn--r8jz45g.xn--zckzah"),
    (f"{'l' * MAX_LOCAL_PART}@example.com", f"{'l' * MAX_LOCAL_PART}@example.com"),
]

REFUSED = {
    "nothing": "",
    "no at sign": "example.com",
    "no local part": "@example.com",
    "no domain": "ops@",
    "one label": "ops@localhost",
    "an IP address": "ops@192.0.2.1",
    "an address literal": "ops@[192.0.2.1]",
    "an empty label": "ops@example..com",
    "a leading dot in the domain": "ops@.example.com",
    "a trailing dot in the domain": "ops@example.com.",
    "a hyphen at a label's beginning": "ops@-example.com",
    "a hyphen at a label's end": "ops@example-.com",
    "an underscore in the domain": "ops@my_host.example",
    "a label of 64": f"ops@{'d' * 64}.com",
    "a dot at the beginning": ".ops@example.com",
    "a dot at the end": "ops.@example.com",
    "two dots": "o..ps@example.com",
    "two at signs": "ops@host@example.com",
    "a quoted local part": '"o ps"@example.com',
    "a comment": "ops(team)@example.com",
    "a display name": "Ops <ops@example.com>",
    "brackets": "<ops@example.com>",
    "two addresses": "ops@example.com,dev@example.com",
    "a semicolon": "ops@example.com;dev@example.com",
    "a blank before": " ops@example.com",
    "a blank behind": "ops@example.com ",
    "a line feed behind": "ops@example.com\n",
    "a header behind": "ops@example.com\r\nBcc: all@example.com",
    "a null": "ops\x00@example.com",
    "letters beyond ASCII before the at sign": "öps@example.com",
    "a fullwidth at sign": "ops\uff20example.com",
    "an encoded word": "=?utf-8?q?ops?=@example.com",
    "a sharp s, which two standards read differently": "ops@straße.example",
    "a final sigma, which two standards read differently": "ops@βόλος.example",
    "a zero-width joiner": "ops@exa\u200dmple.com",
    "an ideographic full stop for a dot": "ops@example\u3002com",
    "fullwidth letters in the domain": "ops@\uff45xample.com",
    "a lone surrogate": "ops@exam\ud800ple.com",
    "a domain that becomes too long": f"{'l' * 64}@{'.'.join(['ü' * 30] * 6)}",
    "an address that becomes too long": f"{'l' * 64}@{'.'.join(['ü' * 34] * 5)}.com",
    "a label that becomes too long": f"ops@{'ü' * 60}.com",
    "a local part of 65": f"{'l' * (MAX_LOCAL_PART + 1)}@example.com",
    "255 characters": f"{'l' * 64}@{'.'.join(['d' * 62] * 3)}.x",
}


@pytest.mark.parametrize(("text", "value"), CANONICAL)
def test_an_address_is_kept_with_its_local_part_as_given_and_its_domain_in_a_labels(
    text: str, value: str
) -> None:
    assert EmailAddress.parse(text).value == value
    assert EmailAddress.parse(value) == EmailAddress.parse(text)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_single_plain_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidAddress):
        EmailAddress.parse(text)


@pytest.mark.parametrize("value", ["ops@EXAMPLE.com", "ops@bücher.example", "no address"])
def test_an_address_cannot_be_built_around_the_canonical_form(value: str) -> None:
    with pytest.raises(InvalidAddress):
        EmailAddress(value)


def test_an_address_of_the_longest_length_is_accepted_and_one_more_is_not() -> None:
    domain = f"{'d' * 63}.{'d' * 63}.{'d' * 57}.com"
    longest = f"{'l' * 64}@{domain}"
    assert len(longest) == MAX_ADDRESS
    assert EmailAddress.parse(longest).value == longest
    with pytest.raises(InvalidAddress):
        EmailAddress.parse(f"{'l' * 64}@d{domain}")


def test_two_spellings_of_one_mailbox_compare_alike_but_are_sent_to_as_given() -> None:
    typed, shouted = EmailAddress.parse("Ops@example.com"), EmailAddress.parse("OPS@EXAMPLE.COM")
    assert typed.comparison == shouted.comparison == "ops@example.com"
    assert (typed.value, shouted.value) == ("Ops@example.com", "OPS@example.com")


def test_the_domain_is_what_stands_behind_the_at_sign() -> None:
    assert EmailAddress.parse("ops@Mail.Example.com").domain == "mail.example.com"


def test_no_representation_shows_the_address() -> None:
    address = EmailAddress.parse("ops@example.com")
    assert "ops" not in f"{address} {address!r} {address!s} {[address]}"


@pytest.mark.parametrize("text", [text for text in REFUSED.values() if len(text) > 3])
def test_a_refusal_never_quotes_the_text(text: str) -> None:
    with pytest.raises(InvalidAddress) as refusal:
        EmailAddress.parse(text)
    local_part = text.partition("@")[0].strip(" <\"'")
    assert text not in str(refusal.value)
    if len(local_part) > 10:
        assert local_part not in "".join(traceback.format_exception(refusal.value))


@given(st.text(max_size=300))
def test_whatever_text_comes_it_is_refused_or_an_ascii_address_without_blanks(text: str) -> None:
    check(text)


# Near misses: pieces of addresses, headers, encoded words and lookalikes in any order.
PIECES = [
    *"aZ0.@-_+=?<>()[]\"',;: \t\r\n\x00",
    "example.com",
    "xn--",
    "=?utf-8?q?",
    "?=",
    "ü",
    "ß",
    "\u3002",
    "\uff20",
    "\u202e",
    "\ud800",
    "\r\nBcc: ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_near_misses_are_refused_or_ascii_addresses_without_blanks(text: str) -> None:
    check(text)
    check(f"{text}@example.com")
    check(f"ops@{text}.com")


def check(text: str) -> None:
    try:
        address = EmailAddress.parse(text)
    except InvalidAddress:
        return
    value = address.value
    assert value.isascii()
    assert value.isprintable()
    assert len(value) <= MAX_ADDRESS
    assert value.count("@") == 1
    assert set(value).isdisjoint(' <>()[]",;:\\')
    assert "=?" not in value
    assert EmailAddress.parse(value) == address
