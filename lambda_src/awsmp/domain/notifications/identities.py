"""The ids that this tier stores, and what keeps an address from being taken for one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from awsmp.domain.errors import MeteringError
from awsmp.domain.identifiers import is_customer_account
from awsmp.domain.license_arns import InvalidLicenseArn, row_key

# No "@": whatever has this form is no e-mail address.
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:#/+=-]{0,127}", re.ASCII)


class InvalidIdentity(MeteringError):
    """An id has a form that ours never have. The text says which id, never its value."""


def is_plain_id(text: str) -> bool:
    """Tell whether ``text`` is 1 to 128 ASCII letters, digits and ``._:#/+=-``, beginning with the former."""
    return _PLAIN_ID.fullmatch(text) is not None


def require_plain_id(text: str, what: str) -> str:
    """Return ``text``.

    Raises
    ------
    InvalidIdentity
        It is no plain id; ``what`` names it in the message.
    """
    if not is_plain_id(text):
        raise InvalidIdentity(f"{what} is not 1 to 128 letters, digits and ._:#/+=-")
    return text


@dataclass(frozen=True, slots=True, order=True)
class Subscription:
    """One licence of one buyer account; ``license_arn`` is the licence's row key in the subscribers table."""

    license_arn: str
    customer_account: str

    @property
    def id(self) -> str:
        """The subscription id: ``<account>#<licence ARN>``."""
        return f"{self.customer_account}#{self.license_arn}"


def subscription_of(license_arn: str, customer_account: str) -> Subscription:
    """Return the subscription that a licence ARN, in whatever spelling, and an account name.

    Raises
    ------
    InvalidIdentity
        The ARN is none, or the account is no account id.
    """
    if not is_customer_account(customer_account):
        raise InvalidIdentity("the account is no account id")
    try:
        return Subscription(row_key(license_arn), customer_account)
    except InvalidLicenseArn:
        raise InvalidIdentity("the licence ARN is none") from None


def parse_subscription(text: str) -> Subscription:
    """Return the subscription of an id.

    Raises
    ------
    InvalidIdentity
        The text is no subscription id.
    """
    account, separator, license_arn = text.partition("#")
    if not separator:
        raise InvalidIdentity("the subscription id has no account")
    subscription = subscription_of(license_arn, account)
    if subscription.id != text:
        raise InvalidIdentity("the subscription id is not in its canonical form")
    return subscription
