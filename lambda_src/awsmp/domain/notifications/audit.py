"""Audit entries: who or what changed the state of notifications, in ids, codes and counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from awsmp.domain.notifications.identities import require_plain_id


class AuditAction(StrEnum):
    """What is audited."""

    ENTRY_ENDED = "entry_ended"
    ENTRY_REQUEUED = "entry_requeued"
    SUPPRESSION_CLEARED = "suppression_cleared"
    FEEDBACK_PURGED = "feedback_purged"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act. ``subject`` is an id, ``detail`` a code, ``counts`` numbers by name.

    ``sequence`` tells acts on one subject within one second apart. There is no field that could hold an
    address, a name or a text.

    Raises
    ------
    InvalidIdentity
        The subject or the detail has a form that no id or code of ours has.
    """

    at: datetime
    action: AuditAction
    subject: str
    detail: str
    sequence: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        """Check subject and detail; see the class."""
        require_plain_id(self.subject, "the audit entry's subject")
        require_plain_id(self.detail, "the audit entry's detail")
