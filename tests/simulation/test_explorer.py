"""Every interleaving of the metering functions on a tiny group, up to the bounds, keeps the promises."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from awsmp.adapters.client_errors import translated
from awsmp.adapters.dynamodb import to_wire
from awsmp.adapters.ledger_store import DynamoDBLedgerStore
from awsmp.domain import folding, ledger
from awsmp.domain.errors import ConditionFailed
from awsmp.domain.folding import Fold
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import LedgerRecord, Released, to_item
from awsmp.domain.rows import UsageRow
from tests.simulation.explorer import (
    INTERLEAVINGS,
    Configuration,
    Explorer,
    Put,
    Violation,
    configurations,
)

pytestmark = [pytest.mark.slow, pytest.mark.proof]

FIGURES: Final = Path("build/explorer")

#: Which configuration has to meet which of the named interleavings.
MEETS: Final[dict[str, set[str]]] = {
    "writer doubled": {
        "a row rewritten between fold and cleanup",
        "a record replaced between the submitter's read and its intent",
        "a lost cleanup followed by a late row",
    },
    "aggregator doubled": {
        "a fold computed before a row landed, written after another fold with it",
        "a lost cleanup followed by a late row",
        "a record replaced between the submitter's read and its intent",
    },
    "cleanup doubled": {"a row rewritten between fold and cleanup"},
    "submitter doubled": {
        "a record replaced between the submitter's read and its intent",
        "a success for an identical second send",
    },
    "age-out doubled": {"a delayed fold after age-out", "age-out after a delayed fold"},
    "expiry doubled": {"an answer that arrives after expiry", "an answer that wins over expiry"},
    "all roles around the deadline": {"a delayed fold after age-out", "an answer that arrives after expiry"},
    "flush of the unfinished hour": {
        "a flush of the unfinished hour with writes going on",
        "a row that lands after the final flush",
    },
}


def by_name(name: str) -> Configuration:
    return next(each for each in configurations() if each.name == name)


def test_every_named_interleaving_has_a_configuration_that_must_meet_it() -> None:
    assert set().union(*MEETS.values()) == set(INTERLEAVINGS)
    assert list(MEETS) == [each.name for each in configurations()]


@pytest.mark.parametrize("name", list(MEETS))
def test_no_reachable_state_breaks_a_promise(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    exploration = Explorer(by_name(name)).run()
    with capsys.disabled():
        print(f"\n{exploration.line()}")
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures = {
        "configuration": name,
        "states": exploration.states,
        "transitions": exploration.transitions,
        "executions": exploration.executions,
        "durableStates": exploration.durable_states,
        "drains": exploration.drains,
        "seconds": round(exploration.seconds, 1),
        "endings": dict(exploration.endings),
        "interleavings": exploration.witnesses,
    }
    path = FIGURES / f"{name.replace(' ', '-')}.json"
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    missed = MEETS[name] - exploration.witnesses.keys()
    assert not missed, f"never met: {sorted(missed)}"
    assert exploration.states > exploration.durable_states > 50
    assert exploration.endings, "no state was drained to its end"


def _tiny(**changes: Any) -> Configuration:
    return replace(
        by_name("submitter doubled"), writers=(), instants=by_name("writer doubled").instants, **changes
    )


def test_an_exploration_is_the_same_every_time() -> None:
    first, second = (Explorer(_tiny()).run() for _ in range(2))
    assert (first.states, first.transitions, first.executions) == (
        second.states,
        second.transitions,
        second.executions,
    )


def test_quantities_that_a_sum_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="powers of two"):
        Explorer(_tiny(rows=(Put(1, 1), Put(2, 3))))


# --- planted defects: what the explorer could not find, it could not exclude -----------------------------


def _create_without_condition(patch: pytest.MonkeyPatch) -> None:
    def create(store: DynamoDBLedgerStore, record: LedgerRecord) -> bool:
        with translated("PutItem aggregated-usage"):
            store.client.put_item(TableName=store.table, Item=to_wire(to_item(record)))
        return True

    patch.setattr(DynamoDBLedgerStore, "create", create)


def _rows_are_cleared_without_comparing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("awsmp.adapters.usage_store.FOLDED_ATTRIBUTES", ())


def _late_fold_changes_what_was_sent(patch: pytest.MonkeyPatch) -> None:
    def apply_fold(record: LedgerRecord | None, *arguments: Any, **options: Any) -> LedgerRecord:
        after = ledger.apply_fold(record, *arguments, **options)
        frozen = after.pending and after.attempt is not None
        return replace(after, quantity=after.total) if frozen and after is not record else after

    patch.setattr("awsmp.usecases.aggregate.apply_fold", apply_fold)


def _refusal_reopens_what_may_have_been_honoured(patch: pytest.MonkeyPatch) -> None:
    def apply_outcome(record: LedgerRecord, attempt_id: str, outcome: object, **options: Any) -> LedgerRecord:
        attempt = record.attempt
        if isinstance(outcome, Released) and record.pending and attempt is not None:
            record = replace(record, attempt=replace(attempt, unknown=False))
        return ledger.apply_outcome(record, attempt_id, outcome, **options)  # type: ignore[arg-type]

    patch.setattr("awsmp.usecases.submit.apply_outcome", apply_outcome)


def _expiry_is_silent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("awsmp.usecases.expire.report_surfacing", lambda *_: None)


def _only_pending_rows_are_folded(patch: pytest.MonkeyPatch) -> None:
    def fold_group(group: Group, rows: Iterable[UsageRow], **options: Any) -> Fold:
        return folding.fold_group(group, [row for row in rows if row.pending_bucket is not None], **options)

    patch.setattr("awsmp.usecases.aggregate.fold_group", fold_group)


def _a_lost_cleanup_never_heals(patch: pytest.MonkeyPatch) -> None:
    def apply_fold(record: LedgerRecord | None, group: Group, fold: Fold, **options: Any) -> LedgerRecord:
        after = ledger.apply_fold(record, group, fold, **options)
        if after is record:
            raise ConditionFailed("the same fold again is taken for nothing to do")
        return after

    patch.setattr("awsmp.usecases.aggregate.apply_fold", apply_fold)


@pytest.mark.parametrize(
    ("plant", "name", "told"),
    [
        (_create_without_condition, "aggregator doubled", "the write took effect"),
        (_rows_are_cleared_without_comparing, "cleanup doubled", "is in no fold"),
        (_late_fold_changes_what_was_sent, "submitter doubled", "sent was"),
        (_refusal_reopens_what_may_have_been_honoured, "submitter doubled", "sent was|bytes of a record"),
        (_expiry_is_silent, "expiry doubled", "surfaced without a metric"),
        (_only_pending_rows_are_folded, "writer doubled", "is in no fold|stays? pending|written"),
        (_a_lost_cleanup_never_heals, "aggregator doubled", "a quiet aggregator failed"),
    ],
    ids=lambda value: value.__name__.strip("_").replace("_", " ") if callable(value) else "",
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=told):
        Explorer(by_name(name)).run()
