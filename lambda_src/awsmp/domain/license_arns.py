"""Licence ARN texts: several spellings of one licence, and how they join.

The lifecycle events, ResolveCustomer and the documentation write the same licence in different ways
(``arn:aws:license-manager::<account>:license:l-<hex>``, the same with ``license/``, with a Region, or
without the leading ``arn:``). Two texts mean the same licence when their last part, the ``l-...`` id, is
equal ignoring case; the account segment is no proof of anything and is not compared.
"""

from __future__ import annotations

import re
from typing import Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.identifiers import is_license_arn

_SERVICE: Final = "license-manager"
_LACKS_ARN_PREFIX = re.compile(r"aws[a-zA-Z-]*:license-manager:", re.ASCII)
_LICENSE_ID = re.compile(r"l(?:ic)?-[a-z0-9-]+", re.ASCII)
_OWNER = re.compile(r"[0-9]{12}", re.ASCII)


class InvalidLicenseArn(MeteringError):
    """A licence ARN that the API would refuse and that cannot be repaired without guessing."""


def repair(text: str) -> str:
    """Return ``text`` as the API takes it: unchanged, or with the leading ``arn:`` that an event left out.

    Surrounding white space is dropped. Nothing else is ever changed.

    Raises
    ------
    InvalidLicenseArn
        The text has neither form (the ``LicenseArn`` pattern of botocore's service model).
    """
    stripped = text.strip()
    if is_license_arn(stripped):
        return stripped
    if _LACKS_ARN_PREFIX.match(stripped) is not None and is_license_arn(f"arn:{stripped}"):
        return f"arn:{stripped}"
    raise InvalidLicenseArn("the licence ARN has a form that the API refuses and no unambiguous repair")


def license_id(text: str) -> str:
    """Return what identifies the licence: the last part of its ARN, case-folded.

    Raises
    ------
    InvalidLicenseArn
        As :func:`repair`, or the ARN ends in a separator.
    """
    last = re.split(r"[:/]", repair(text))[-1]
    if not last:
        raise InvalidLicenseArn("the licence ARN ends without an id")
    return last.casefold()


def same_license(left: str, right: str) -> bool:
    """Tell whether two texts name one licence. A text that is no licence ARN equals only itself."""
    if left == right:
        return True
    try:
        return license_id(left) == license_id(right)
    except InvalidLicenseArn:
        return False


def row_key(text: str) -> str:
    """Return the one text under which the licence's subscriber row is stored, whatever spelling is at hand.

    It is the form that License Manager and ResolveCustomer use, without a Region:
    ``arn:<partition>:license-manager::<account>:license:<id>``. Every spelling leads there by
    computation, so that finding a row needs one consistent read and no index. An ARN of another make
    (another service, no 12-digit account, no ``l-`` or ``lic-`` id) is its own key.

    Raises
    ------
    InvalidLicenseArn
        As :func:`license_id`.
    """
    repaired = repair(text)
    identity = license_id(repaired)
    _, partition, service, _region, owner, _resource = repaired.split(":", 5)
    if service != _SERVICE or not _OWNER.fullmatch(owner) or not _LICENSE_ID.fullmatch(identity):
        return repaired
    return f"arn:{partition}:{_SERVICE}::{owner}:license:{identity}"


def spellings(text: str) -> frozenset[str]:
    """Return the texts under which usage of the licence may have been written, as far as ``text`` tells.

    These are the text itself, its repaired form and the row key.

    Raises
    ------
    InvalidLicenseArn
        As :func:`license_id`.
    """
    return frozenset({text.strip(), repair(text), row_key(text)})
