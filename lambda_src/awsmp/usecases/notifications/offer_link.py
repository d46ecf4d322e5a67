"""Makes the verification link of a delivery, so that the address it goes to can be confirmed by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from awsmp.domain.errors import Misconfigured
from awsmp.domain.notifications.contacts import ContactReference
from awsmp.domain.notifications.verification import LinkSigner, verification_link
from awsmp.usecases.notifications.verify_address import AddressVerification


class VerificationPages(Protocol):
    """Which page confirms a contact of a licence."""

    def page_of(self, license_arn: str, account: str) -> str | None:
        """Return the address of the page, None where no link is sent for the licence's profile.

        Raises StoreUnavailable or Misconfigured.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinkOffers:
    """Offers links; any number for one delivery, which all carry the same nonce."""

    verification: AddressVerification
    signer: LinkSigner
    pages: VerificationPages

    def link(self, contact: ContactReference, address_digest: str, delivery_id: str) -> str:
        """Return a link to verify the address, after it was made the contact's pending one.

        Raises
        ------
        ConditionFailed
            The contact is gone, has another address or is verified by now.
        Misconfigured
            No page is set for the licence's profile, or it is no https address.
        StoreUnavailable
            The profile could not be read or written.
        """
        subscription = contact.subscription
        page = self.pages.page_of(subscription.license_arn, subscription.customer_account)
        if page is None:
            raise Misconfigured("there is no verification page for this licence's customer profile")
        token = self.verification.offer(contact.id, address_digest, self.signer.nonce(delivery_id))
        return verification_link(page, token)
