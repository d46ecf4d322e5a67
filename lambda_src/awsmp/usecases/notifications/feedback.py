"""Takes one report of a provider in: keep it, mark the delivery, suppress the recipient, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from awsmp.domain.errors import ConditionFailed
from awsmp.domain.notifications.feedback import (
    Feedback,
    FeedbackConflict,
    FeedbackRefused,
    RefusalCode,
    StoredFeedback,
    UnknownDelivery,
    check_time,
    gravest,
    suppress,
)
from awsmp.domain.notifications.outbox import Delivery
from awsmp.domain.notifications.store import NotificationStore, Save, Write
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.usecases.notifications.saving import MAX_ATTEMPTS, busy, now_of

_BACKOFF_SECONDS = 0.05


class FeedbackOutcome(StrEnum):
    """What a report came to."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class FeedbackIntake:
    """Handles one authenticated report; when it returns, its effect is durable."""

    store: NotificationStore
    clock: Clock
    telemetry: Telemetry

    def handle(self, feedback: Feedback) -> FeedbackOutcome:
        """Take in ``feedback``.

        Raises
        ------
        FeedbackRefused
            Its time cannot be, or its ids disagree or are ambiguous; nothing was stored.
        FeedbackConflict
            The provider's event id is known with other content; nothing was changed.
        UnknownDelivery
            Its ids lead to no delivery (yet).
        StoreUnavailable, Misconfigured
            The table failed or refused.
        """
        try:
            outcome = self._take(feedback)
        except FeedbackRefused as error:
            self._count(Metric.FEEDBACK_REFUSED, feedback, error.code.value)
            raise
        except FeedbackConflict:
            self._count(Metric.FEEDBACK_CONFLICT, feedback, "feedback_conflict")
            raise
        self.telemetry.info(
            "feedback", outcome=outcome.value, kind=feedback.kind.value, feedback=feedback.key
        )
        if outcome is FeedbackOutcome.RECORDED:
            self.telemetry.count(Metric.FEEDBACK_RECEIVED, reason=feedback.kind.value)
        return outcome

    def _take(self, feedback: Feedback) -> FeedbackOutcome:
        for attempt in range(MAX_ATTEMPTS):
            known = self.store.feedback(feedback.key)
            if known is not None:
                if known.content != feedback.content:
                    raise FeedbackConflict("a feedback event id comes again with other content")
                return FeedbackOutcome.DUPLICATE
            try:
                self.store.commit(*self._writes(feedback))
            except ConditionFailed:
                self.clock.sleep(_BACKOFF_SECONDS * attempt)
                continue
            return FeedbackOutcome.RECORDED
        raise busy("a delivery or a suppression")

    def _writes(self, feedback: Feedback) -> Sequence[Write]:
        now = now_of(self.clock)
        delivery = self._delivery(feedback)
        check_time(feedback, delivery, now)
        stored = StoredFeedback(
            key=feedback.key,
            content=feedback.content,
            provider=feedback.provider,
            kind=feedback.kind,
            delivery_id=delivery.delivery_id,
            occurred_at=feedback.occurred_at,
            received_at=now,
        )
        writes: list[Write] = [Save(stored)]
        marked = gravest(delivery, feedback)
        if marked != delivery:
            writes.append(Save(marked))
        if delivery.address_digest is None:
            raise FeedbackRefused(RefusalCode.BEFORE_DELIVERY)
        known = self.store.suppression(delivery.recipient_id, delivery.address_digest)
        suppression = suppress(known, delivery, feedback)
        if suppression is not None and suppression != known:
            writes.append(Save(suppression))
        return writes

    def _delivery(self, feedback: Feedback) -> Delivery:
        by_message = None
        if feedback.message_id is not None:
            linked = self.store.linked(feedback.message_id)
            if len(linked) > 1:
                raise FeedbackRefused(RefusalCode.MESSAGE_ID_AMBIGUOUS)
            by_message = linked[0] if linked else None
        delivery_id = feedback.delivery_id or by_message
        if delivery_id is None:
            raise UnknownDelivery("the provider's message id leads to no delivery")
        if by_message is not None and by_message != delivery_id:
            raise FeedbackRefused(RefusalCode.IDS_DISAGREE)
        delivery = self.store.delivery(delivery_id)
        if delivery is None:
            raise UnknownDelivery("there is no such delivery")
        if feedback.message_id is not None and by_message is None and not _may_have_more_ids(delivery):
            raise FeedbackRefused(RefusalCode.IDS_DISAGREE)
        return delivery

    def _count(self, metric: Metric, feedback: Feedback, code: str) -> None:
        self.telemetry.error("feedback not taken", code=code, kind=feedback.kind.value, feedback=feedback.key)
        self.telemetry.count(metric, reason=code)


def _may_have_more_ids(delivery: Delivery) -> bool:
    """Tell whether the provider may know the delivery by a message id that we were never told.

    That is so when an answer was lost, or is still awaited.
    """
    return delivery.message_id is None or delivery.attempts > 1
