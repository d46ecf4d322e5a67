"""The contacts in the customer-profile tables of this Region, and the proofs of their addresses.

A profile may be in any of several tables, one a product. Contacts and proofs are two maps of one item, so
that "this address is verified" is decided by one consistent read and changed by one conditional write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from awsmp.adapters.client_errors import translated
from awsmp.adapters.dynamodb import DynamoDBClient, from_wire, to_wire
from awsmp.domain.errors import ConditionFailed, Misconfigured
from awsmp.domain.hours import format_instant
from awsmp.domain.notifications.contacts import (
    CONTACTS,
    EMAIL_FIELD,
    OWNER,
    VERIFICATION_PREFIX,
    Contact,
    ContactReference,
    LinkUnwanted,
    contacts_of,
    parse_reference,
    recipients_of,
)
from awsmp.domain.notifications.identities import Subscription
from awsmp.domain.notifications.ports import AddressDigest, Recipient
from awsmp.domain.notifications.verification import AddressState
from awsmp.domain.ports import Clock

# The address that a contact has now: an entry of the seller's goes before the form's.
_LISTED_EMAIL: Final = "#contacts.#contact.#email"
_FORM_EMAIL: Final = "#form.#formEmail"
_VERIFIED: Final = "#contacts.#contact.#verified"
_ACTIVE: Final = "#contacts.#contact.#active"


@dataclass(frozen=True, slots=True)
class ProfileContacts:
    """Implements Recipients and VerificationPages; ``tables`` holds the verification page by table."""

    client: DynamoDBClient
    tables: Mapping[str, str | None]

    def owners(self, license_arn: str, account: str) -> Sequence[Recipient]:
        """See Recipients."""
        subscription = Subscription(license_arn, account)
        found = (_read(self.client, table, subscription) for table in self.tables)
        return [
            recipient
            for profile in found
            if profile is not None
            for recipient in recipients_of(account, contacts_of(profile))
        ]

    def page_of(self, license_arn: str, account: str) -> str | None:
        """See VerificationPages."""
        subscription = Subscription(license_arn, account)
        for table, page in self.tables.items():
            if page is not None and _read(self.client, table, subscription) is not None:
                return page
        return None


@dataclass(frozen=True, slots=True)
class ProfileVerifications:
    """Implements AddressVerifications. Recipients are named by their ContactReference.

    ``digests`` None is for the function that takes links and sends none: it holds no pepper.
    """

    client: DynamoDBClient
    tables: Sequence[str]
    clock: Clock
    digests: AddressDigest | None = None

    def state(self, recipient_id: str) -> AddressState | None:
        """See AddressVerifications."""
        found = self._find(parse_reference(recipient_id))
        if found is None:
            return None
        _, contact = found
        proof = contact.proof
        if proof is None or proof.email != contact.email:
            return None
        return AddressState(proof.address_digest, proof.pending, proof.confirmed_by)

    def offer(self, recipient_id: str, address_digest: str, nonce_digest: str) -> None:
        """See AddressVerifications.

        Raises
        ------
        LinkUnwanted
            The seller vouches for the address, or has ruled it out.
        Misconfigured
            This function has no pepper, or the table refused.
        """
        if self.digests is None:
            raise Misconfigured("without the pepper no link can be offered")
        reference = parse_reference(recipient_id)
        found = self._find(reference)
        if found is None or self.digests.digest(found[1].address) != address_digest:
            raise ConditionFailed("offer link: the contact is gone or has another address")
        table, contact = found
        if contact.vouched is not None:
            raise LinkUnwanted("the seller has ruled on this address: a link cannot change it")
        now_there = f"{_LISTED_EMAIL} = :email"
        if reference.contact_id == OWNER:
            now_there = f"({now_there} OR (attribute_not_exists({_LISTED_EMAIL}) AND {_FORM_EMAIL} = :email))"
        proof = {"email": contact.email, "addressDigest": address_digest, "pending": nonce_digest}
        self._update(
            table,
            reference,
            "SET #proof = :proof, #updatedAt = :now",
            f"{now_there} AND (attribute_not_exists(#proof.#confirmedBy) OR #proof.#email <> :email) "
            f"AND {_absent(_VERIFIED)} AND ({_absent(_ACTIVE)} OR {_ACTIVE} = :true)",
            {":email": contact.email, ":proof": proof, ":null": "NULL", ":true": True},
        )

    def confirm(self, recipient_id: str, address_digest: str, nonce_digest: str, at: datetime) -> None:
        """See AddressVerifications; the address of now is compared with the link's in the write itself."""
        reference = parse_reference(recipient_id)
        same = f"{_LISTED_EMAIL} = #proof.#email"
        if reference.contact_id == OWNER:
            same = f"({same} OR (attribute_not_exists({_LISTED_EMAIL}) AND {_FORM_EMAIL} = #proof.#email))"
        for table in self.tables:
            try:
                self._update(
                    table,
                    reference,
                    "SET #proof.#confirmedBy = :nonce, #proof.#verifiedAt = :at, #updatedAt = :now "
                    "REMOVE #proof.#pending",
                    f"#proof.#digest = :digest AND #proof.#pending = :nonce AND {same}",
                    {":nonce": nonce_digest, ":at": format_instant(at), ":digest": address_digest},
                )
            except ConditionFailed:
                continue
            return
        raise ConditionFailed("confirm address: no profile has this link pending for its present address")

    def _update(
        self,
        table: str,
        reference: ContactReference,
        update: str,
        condition: str,
        values: Mapping[str, Any],
    ) -> None:
        names = {
            "#proof": f"{VERIFICATION_PREFIX}{reference.contact_id}",
            "#updatedAt": "updatedAt",
            "#contacts": CONTACTS,
            "#contact": reference.contact_id,
            "#email": "email",
            "#form": "registrationData",
            "#formEmail": EMAIL_FIELD,
            "#verified": "verified",
            "#active": "active",
            "#digest": "addressDigest",
            "#pending": "pending",
            "#confirmedBy": "confirmedBy",
            "#verifiedAt": "verifiedAt",
        }
        used = f"{update} {condition}".replace("(", " ").replace(")", " ").replace(".", " ").replace(",", " ")
        with translated("write address verification"):
            self.client.update_item(
                TableName=table,
                Key=_key(reference.subscription),
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeNames={name: names[name] for name in names if name in used.split()},
                ExpressionAttributeValues=to_wire({**values, ":now": format_instant(self.clock.now())}),
            )

    def _find(self, reference: ContactReference) -> tuple[str, Contact] | None:
        for table in self.tables:
            profile = _read(self.client, table, reference.subscription)
            contact = None if profile is None else contacts_of(profile).readable.get(reference.contact_id)
            if contact is not None:
                return table, contact
        return None


def _absent(path: str) -> str:
    """Return the condition that an entry's member is not there, as ``contacts_of`` understands it."""
    return f"(attribute_not_exists({path}) OR attribute_type({path}, :null))"


def _read(client: DynamoDBClient, table: str, subscription: Subscription) -> dict[str, Any] | None:
    with translated("read customer profile"):
        answer = client.get_item(TableName=table, Key=_key(subscription), ConsistentRead=True)
    return None if "Item" not in answer else from_wire(answer["Item"])


def _key(subscription: Subscription) -> dict[str, Any]:
    return to_wire(
        {"licenseArn": subscription.license_arn, "customerAWSAccountId": subscription.customer_account}
    )
