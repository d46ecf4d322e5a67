"""Contacts and proofs in the profile tables, on the memory table and on moto."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws

from awsmp.adapters.dynamodb import from_wire, to_wire
from awsmp.adapters.notifications.pepper import PepperDigest
from awsmp.adapters.notifications.profile_contacts import ProfileContacts, ProfileVerifications
from awsmp.adapters.notifications.profile_stream import MalformedProfileRecord, parse_profile_record
from awsmp.domain.errors import ConditionFailed, Misconfigured
from awsmp.domain.notifications.addresses import EmailAddress
from awsmp.domain.notifications.contacts import ContactReference, LinkUnwanted
from awsmp.domain.notifications.verification import AddressState
from sandbox.memory_aws import ManualClock, MemoryDynamoDB
from tests.unit.notifications.deployment import PROFILES, profile_record, profiles_table
from tests.unit.notifications.world import BUYER, LICENSE, PEPPER, START, SUBSCRIPTION

OTHER = "awsmp-other-customer-profile"
DIGESTS = PepperDigest(PEPPER)
OWNER = ContactReference(SUBSCRIPTION, "owner").id
OPS = ContactReference(SUBSCRIPTION, "ops").id
EMAIL = "owner@buyer.example"
DIGEST = DIGESTS.digest(EmailAddress.parse(EMAIL))
OPS_DIGEST = DIGESTS.digest(EmailAddress.parse("ops@buyer.example"))
NONCE, LATER = "1" * 64, "2" * 64
AT = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)


@pytest.fixture(params=["memory", "moto"])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield with_tables(MemoryDynamoDB(ManualClock(START)).client())
        return
    with mock_aws():
        yield with_tables(boto3.client("dynamodb", region_name="eu-west-1"))


def with_tables(client: Any) -> Any:
    for table in (PROFILES, OTHER):
        client.create_table(**{**profiles_table(), "TableName": table})
    return client


def put(client: Any, table: str = PROFILES, **attributes: Any) -> None:
    item = {
        "licenseArn": LICENSE,
        "customerAWSAccountId": BUYER,
        "registrationData": {"email": EMAIL, "name": "Owner"},
        **attributes,
    }
    client.put_item(TableName=table, Item=to_wire(item))


def read(client: Any, table: str = PROFILES) -> dict[str, Any]:
    key = to_wire({"licenseArn": LICENSE, "customerAWSAccountId": BUYER})
    return from_wire(client.get_item(TableName=table, Key=key)["Item"])


def verifications(client: Any, *, pepper: bool = True) -> ProfileVerifications:
    digests = DIGESTS if pepper else None
    return ProfileVerifications(client, (OTHER, PROFILES), ManualClock(START), digests)


def test_contacts_are_found_in_whichever_table_has_the_profile(client: Any) -> None:
    contacts = ProfileContacts(client, {OTHER: None, PROFILES: "https://a.example/verify"})
    assert contacts.owners(LICENSE, BUYER) == []
    assert contacts.page_of(LICENSE, BUYER) is None
    put(client)
    (recipient,) = contacts.owners(LICENSE, BUYER)
    assert (recipient.recipient_id, recipient.address.value) == (f"{BUYER}:owner", EMAIL)
    assert contacts.page_of(LICENSE, BUYER) == "https://a.example/verify"


def test_a_profile_in_a_table_without_a_page_has_none(client: Any) -> None:
    put(client, OTHER)
    assert (
        ProfileContacts(client, {OTHER: None, PROFILES: "https://a.example/verify"}).page_of(LICENSE, BUYER)
        is None
    )


def test_a_contact_that_was_removed_is_not_returned(client: Any) -> None:
    contacts = ProfileContacts(client, {PROFILES: None})
    put(client, contacts={"ops": {"email": "ops@buyer.example"}})
    assert len(contacts.owners(LICENSE, BUYER)) == 2
    put(client)
    assert [each.recipient_id for each in contacts.owners(LICENSE, BUYER)] == [f"{BUYER}:owner"]


@pytest.mark.parametrize(
    ("reference", "digest", "contacts"),
    [
        (OWNER, DIGEST, None),
        (OWNER, DIGEST, {"owner": {"locale": "de", "active": None, "verified": None}}),
        (OWNER, OPS_DIGEST, {"owner": {"email": "ops@buyer.example"}}),
        (OPS, OPS_DIGEST, {"ops": {"email": "ops@buyer.example"}}),
    ],
    ids=["form", "form beside a seller's entry", "seller's own address", "further contact"],
)
def test_a_link_is_offered_and_confirms_the_address_once(
    client: Any, reference: str, digest: str, contacts: dict[str, Any] | None
) -> None:
    if contacts is None:
        put(client)
    else:
        put(client, contacts=contacts)
    addresses = verifications(client)
    assert addresses.state(reference) is None
    addresses.offer(reference, digest, NONCE)
    assert addresses.state(reference) == AddressState(digest, NONCE, None)
    taking = verifications(client, pepper=False)
    taking.confirm(reference, digest, NONCE, AT)
    assert taking.state(reference) == AddressState(digest, None, NONCE)
    with pytest.raises(ConditionFailed):
        taking.confirm(reference, digest, NONCE, AT)
    item = read(client)
    assert item["registrationData"] == {"email": EMAIL, "name": "Owner"}, "no form data is touched"
    (proof,) = [value for name, value in item.items() if name.startswith("verification#")]
    assert proof["verifiedAt"] == "2026-11-10T09:00:00Z"


def test_a_later_link_takes_the_place_of_an_earlier_one(client: Any) -> None:
    put(client)
    addresses = verifications(client)
    addresses.offer(OWNER, DIGEST, NONCE)
    addresses.offer(OWNER, DIGEST, LATER)
    with pytest.raises(ConditionFailed):
        addresses.confirm(OWNER, DIGEST, NONCE, AT)
    addresses.confirm(OWNER, DIGEST, LATER, AT)


def test_an_offer_after_the_confirmation_does_not_undo_it(client: Any) -> None:
    put(client)
    addresses = verifications(client)
    addresses.offer(OWNER, DIGEST, NONCE)
    addresses.confirm(OWNER, DIGEST, NONCE, AT)
    for nonce in (NONCE, LATER):
        with pytest.raises(ConditionFailed):
            addresses.offer(OWNER, DIGEST, nonce)
    assert addresses.state(OWNER) == AddressState(DIGEST, None, NONCE)


def test_a_link_does_not_verify_an_address_that_took_the_place_of_its_own(client: Any) -> None:
    put(client)
    addresses = verifications(client)
    addresses.offer(OWNER, DIGEST, NONCE)
    sent = read(client)["verification#owner"]
    put(client, contacts={"owner": {"email": "new@buyer.example"}}, **{"verification#owner": sent})
    with pytest.raises(ConditionFailed):
        addresses.confirm(OWNER, DIGEST, NONCE, AT)
    assert addresses.state(OWNER) is None


def test_a_changed_address_can_be_offered_a_link_although_the_former_was_verified(client: Any) -> None:
    put(client)
    addresses = verifications(client)
    addresses.offer(OWNER, DIGEST, NONCE)
    addresses.confirm(OWNER, DIGEST, NONCE, AT)
    proof = read(client)["verification#owner"]
    put(client, contacts={"owner": {"email": "ops@buyer.example"}}, **{"verification#owner": proof})
    addresses.offer(OWNER, OPS_DIGEST, LATER)
    assert addresses.state(OWNER) == AddressState(OPS_DIGEST, LATER, None)


def test_no_link_is_offered_to_another_address_than_the_one_it_will_be_sent_to(client: Any) -> None:
    put(client)
    with pytest.raises(ConditionFailed):
        verifications(client).offer(OWNER, OPS_DIGEST, NONCE)
    with pytest.raises(ConditionFailed):
        verifications(client).offer(OPS, OPS_DIGEST, NONCE)


@pytest.mark.parametrize("verified", [True, False])
def test_no_link_is_offered_where_the_seller_has_ruled(client: Any, verified: bool) -> None:
    put(client, contacts={"owner": {"verified": verified}})
    with pytest.raises(LinkUnwanted):
        verifications(client).offer(OWNER, DIGEST, NONCE)


def test_a_link_to_a_removed_contact_or_profile_confirms_nothing(client: Any) -> None:
    with pytest.raises(ConditionFailed):
        verifications(client).confirm(OWNER, DIGEST, NONCE, AT)
    put(client, contacts={"ops": {"email": "ops@buyer.example"}})
    verifications(client).offer(OPS, OPS_DIGEST, NONCE)
    proof = read(client)["verification#ops"]
    put(client, **{"verification#ops": proof})
    with pytest.raises(ConditionFailed):
        verifications(client).confirm(OPS, OPS_DIGEST, NONCE, AT)


def test_the_function_without_the_pepper_offers_nothing(client: Any) -> None:
    put(client)
    with pytest.raises(Misconfigured, match="pepper"):
        verifications(client, pepper=False).offer(OWNER, DIGEST, NONCE)


def images() -> tuple[dict[str, Any], dict[str, Any]]:
    old = {"licenseArn": LICENSE, "customerAWSAccountId": BUYER, "registrationData": {"email": EMAIL}}
    return to_wire(old), to_wire({**old, "verification#owner": {"email": EMAIL, "addressDigest": DIGEST}})


def test_a_stream_record_tells_table_licence_time_and_contacts_before_and_after() -> None:
    old, new = images()
    change = parse_profile_record(profile_record(7, old, new, AT))
    assert (change.table, change.subscription, change.time) == (PROFILES, SUBSCRIPTION, AT)
    assert change.event_id == f"{7:032x}"
    assert change.old.readable["owner"].proof is None
    assert change.new.readable["owner"].proof is not None


@pytest.mark.parametrize(
    "spoil",
    [
        {"eventSourceARN": "arn:aws:sqs:eu-west-1:111122223333:queue"},
        {"eventSourceARN": None},
        {"dynamodb": {}},
        {"dynamodb": None},
        {"dynamodb": {"Keys": {"licenseArn": {"S": "x"}, "customerAWSAccountId": {"S": EMAIL}}}},
    ],
)
def test_a_malformed_record_is_refused_without_its_content(spoil: dict[str, Any]) -> None:
    old, new = images()
    record = {**profile_record(7, old, new, AT), **spoil}
    with pytest.raises(MalformedProfileRecord) as refused:
        parse_profile_record(record)
    assert EMAIL not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
