"""E-mail addresses in the one form that this tier sends to, compares and digests."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from awsmp.domain.errors import MeteringError

#: Longest address (RFC 5321 4.5.3.1.3: a path of 256 octets with its angle brackets).
MAX_ADDRESS: Final = 254
#: Longest local part and domain (RFC 5321 4.5.3.1.1 and 4.5.3.1.2).
MAX_LOCAL_PART: Final = 64
MAX_DOMAIN: Final = 253

# RFC 5322 dot-atom. Quoted local parts are left out: SES takes ASCII without quoting, and no page of ours
# lets a buyer enter one.
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# The four letters that IDNA 2003 and 2008 turn into different names: a guess could reach somebody else.
_AMBIGUOUS: Final = frozenset("ß\u03c2\u200c\u200d")


class InvalidAddress(MeteringError):
    """A text is no address that mail can be sent to. The message never quotes the text."""


@dataclass(frozen=True, slots=True, order=True)
class EmailAddress:
    """One mailbox in canonical form; build it with :meth:`parse`.

    ``value`` is what mail is sent to: the local part as given, for its letter case is the receiving host's
    affair (RFC 5321 2.4), and the domain in lower-case A-labels. Neither ``repr`` nor ``str`` shows it, so
    that no log line holds an address by accident.
    """

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check that ``value`` is in the form of :meth:`parse`.

        Raises
        ------
        InvalidAddress
            It is not.
        """
        if _canonical(self.value) != self.value:
            raise InvalidAddress("the e-mail address is not in canonical form")

    @classmethod
    def parse(cls, text: str) -> EmailAddress:
        """Return the address in ``text``, which holds nothing else: no display name, no brackets, no blanks.

        A domain in Unicode is turned into A-labels where IDNA leaves no doubt which name is meant.

        Raises
        ------
        InvalidAddress
            It is none: too long, no dot-atom before the ``@``, not a host name of two or more labels behind
            it, or a Unicode name that is not unambiguous.
        """
        return cls(_canonical(text))

    @property
    def domain(self) -> str:
        """The domain in lower-case A-labels."""
        return self.value.rpartition("@")[2]

    @property
    def comparison(self) -> str:
        """What tells one mailbox from another, for digests: ``value`` in lower case.

        Hosts that tell letter cases apart are all but extinct, and a recipient who complained must not be
        written to because the same address was typed in capitals.
        """
        return self.value.lower()

    def __str__(self) -> str:
        """Return a placeholder; whoever needs the address reads ``value``."""
        return "(e-mail address)"


def _canonical(text: str) -> str:
    if len(text) > MAX_ADDRESS:
        raise InvalidAddress("the e-mail address is too long")
    local_part, at, domain = text.rpartition("@")
    # What looks like an encoded word is a legal dot-atom, but some mail clients would decode it (RFC 2047 5).
    malformed = "=?" in local_part or not _LOCAL_PART.fullmatch(local_part)
    if not at or len(local_part) > MAX_LOCAL_PART or malformed:
        raise InvalidAddress("the part of the e-mail address before the @ is malformed")
    address = f"{local_part}@{_canonical_domain(domain)}"
    if len(address) > MAX_ADDRESS:
        raise InvalidAddress("the e-mail address is too long")
    return address


def _canonical_domain(text: str) -> str:
    labels = [_canonical_label(label) for label in unicodedata.normalize("NFC", text).split(".")]
    # A top-level domain of digits only would make it an IP address, which is no mail domain without brackets.
    if len(labels) < 2 or labels[-1].isdigit() or len(".".join(labels)) > MAX_DOMAIN:
        raise InvalidAddress("the domain of the e-mail address is malformed")
    return ".".join(labels)


def _canonical_label(label: str) -> str:
    if not label.isascii():
        label = _a_label(label)
    label = label.lower()
    if not _LABEL.fullmatch(label):
        raise InvalidAddress("the domain of the e-mail address is malformed")
    return label


def _a_label(label: str) -> str:
    """Return the A-label of a Unicode label that decodes back to the very same label."""
    lowered = unicodedata.normalize("NFC", label.lower())
    try:
        encoded = lowered.encode("idna")
        same = encoded.decode("idna") == lowered
    except UnicodeError:
        # Without its cause, which holds the label.
        raise InvalidAddress("the domain of the e-mail address has no ASCII form") from None
    if not same or not _AMBIGUOUS.isdisjoint(lowered):
        raise InvalidAddress("the domain of the e-mail address is ambiguous: give it in its xn-- form")
    return encoded.decode("ascii")
