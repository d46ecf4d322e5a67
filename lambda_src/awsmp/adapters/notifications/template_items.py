"""A seller's own words for messages: items of the notifications table, one a kind and locale.

``pk`` is ``template``. ``sk`` is ``<kind>#<locale>`` with ``subject`` and ``text``, or ``details#<locale>``
with ``text``. They are items because a function's environment holds 4 KB, and one text up to 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from awsmp.adapters.dynamodb import DynamoDBClient, from_wire, pages, to_wire
from awsmp.domain.errors import MeteringError, Misconfigured
from awsmp.domain.notifications.kinds import Kind, ServiceKind
from awsmp.domain.notifications.templates import (
    Details,
    Template,
    TemplateOverrides,
    VerificationTemplate,
)
from awsmp.domain.ports import Clock

PARTITION: Final = "template"
#: How long what was read is used.
TEMPLATES_KEPT: Final = timedelta(minutes=5)

_DETAILS: Final = "details"


@dataclass(slots=True)
class TemplateItems:
    """Reads the overrides, and again every five minutes."""

    client: DynamoDBClient
    table: str
    clock: Clock
    _known: TemplateOverrides | None = field(default=None, init=False)
    _read_at: datetime | None = field(default=None, init=False)

    def overrides(self) -> TemplateOverrides:
        """Return all overrides.

        Raises
        ------
        Misconfigured
            An item is no override within the bounds; it is named. Nothing is sent until it is mended, rather
            than in words that the seller has replaced.
        StoreUnavailable
            The table failed.
        """
        now = self.clock.now()
        if self._known is None or self._read_at is None or now - self._read_at >= TEMPLATES_KEPT:
            self._known = self._read()
            self._read_at = now
        return self._known

    def _read(self) -> TemplateOverrides:
        templates: dict[tuple[Kind, str], Template] = {}
        details: dict[str, Details] = {}
        verifications: dict[str, VerificationTemplate] = {}
        for item in self._items():
            name = str(item["sk"])
            kind, _, locale = name.partition("#")
            try:
                if kind == _DETAILS:
                    details[locale] = Details(_text(item, "text"))
                elif kind == ServiceKind.ADDRESS_VERIFICATION:
                    verifications[locale] = VerificationTemplate(_text(item, "subject"), _text(item, "text"))
                else:
                    templates[Kind(kind), locale] = Template(_text(item, "subject"), _text(item, "text"))
                TemplateOverrides(templates, details, verifications)
            except (KeyError, TypeError, ValueError) as error:
                raise Misconfigured(f"the template item {name} has no such kind or lacks a text") from error
            except MeteringError as error:
                raise Misconfigured(f"the template item {name} is not acceptable: {error}") from error
        return TemplateOverrides(templates, details, verifications)

    def _items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for page in pages(
            self.client,
            "query templates",
            TableName=self.table,
            ConsistentRead=True,
            KeyConditionExpression="#pk = :pk",
            ExpressionAttributeNames={"#pk": "pk"},
            ExpressionAttributeValues=to_wire({":pk": PARTITION}),
        ):
            found += map(from_wire, page["Items"])
        return found


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value
