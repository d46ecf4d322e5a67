"""Records of a customer-profile table's stream, as Lambda hands them over.

They hold form data: no error of this module quotes a value or has a cause that does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from awsmp.adapters.dynamodb import from_wire
from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.contacts import Contacts, contacts_of
from awsmp.domain.notifications.identities import subscription_of
from awsmp.usecases.notifications.follow_contacts import ProfileChange

_TABLE: Final = re.compile(r"arn:[^:]+:dynamodb:[^:]+:[0-9]{12}:table/([A-Za-z0-9_.-]{3,255})/stream/.+")


class MalformedProfileRecord(MeteringError):
    """A stream record has a form that ours never have."""


def parse_profile_record(record: Mapping[str, Any]) -> ProfileChange:
    """Return the change in one record of a stream with old and new images.

    Raises
    ------
    MalformedProfileRecord
        The record has another form, or its key is no licence and account.
    """
    try:
        return _parse(record)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, MeteringError) as error:
        name = type(error).__name__
    raise MalformedProfileRecord(f"a customer profile's stream record cannot be read: {name}")


def _parse(record: Mapping[str, Any]) -> ProfileChange:
    change = record["dynamodb"]
    table = _TABLE.fullmatch(record["eventSourceARN"])
    if table is None:
        raise ValueError("no table's stream")
    key = from_wire(change["Keys"])
    return ProfileChange(
        event_id=str(record["eventID"]),
        time=datetime.fromtimestamp(float(change["ApproximateCreationDateTime"]), UTC).replace(microsecond=0),
        table=table[1],
        subscription=subscription_of(key["licenseArn"], key["customerAWSAccountId"]),
        old=_contacts(change.get("OldImage")),
        new=_contacts(change.get("NewImage")),
    )


def _contacts(image: Mapping[str, Any] | None) -> Contacts:
    return Contacts() if image is None else contacts_of(from_wire(image))
