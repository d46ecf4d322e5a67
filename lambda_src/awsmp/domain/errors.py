"""The error family: each named for its condition, all below :class:`MeteringError`."""

from __future__ import annotations


class MeteringError(Exception):
    """Base of every error that this package raises on purpose."""


class ConditionFailed(MeteringError):
    """A conditional write met another state than the one it was computed from."""


class StoreUnavailable(MeteringError):
    """A store answered with an error that a later attempt may not meet."""


class Misconfigured(MeteringError):
    """A setting or a permission is missing; no retry of the same message can succeed."""


class ForeignLedgerItem(MeteringError):
    """The key of a group's record is taken by an item that is no record of ours."""


class HourNotBegun(MeteringError):
    """A message names an hour that has not begun by this function's clock."""


class PartialFailure(MeteringError):
    """Some items of a run failed after the others were done; the first cause is chained."""


class SubmissionStopped(MeteringError):
    """The Marketplace refuses every request of ours; the records stay pending."""
