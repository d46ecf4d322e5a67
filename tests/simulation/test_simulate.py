"""The usage trace with planted trouble, through the whole system: what ``make simulate`` promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import simulate
from sandbox.simulation.play import Played, play, prepare
from sandbox.simulation.reconciliation import Account, summary
from sandbox.simulation.trace import read_trace, totals

# On one worker: the whole trace is played once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("simulate")]


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    yield play()


def test_every_group_balances_nothing_is_pending_and_the_marketplace_agrees(played: Played) -> None:
    assert played.problems() == []
    assert len(played.accounts) > 1_378
    assert all(account.difference == 0 for account in played.accounts)
    assert all(account.billed == account.honoured for account in played.accounts)


def test_what_was_written_is_the_trace_and_what_was_planted(played: Played) -> None:
    counted = totals(read_trace())
    assert counted == {"requests": 3_942, "egress_kib": 457_118}
    lines = summary(played.accounts)
    for dimension, quantity in counted.items():
        assert lines[dimension]["written"] == quantity + played.plan.seller.planted.get(dimension, 0)


@pytest.mark.parametrize("name", [trouble.name for trouble in prepare().plan.troubles])
def test_planted_trouble_ends_as_it_has_to(played: Played, name: str) -> None:
    ended = {trouble: (ok, how) for trouble, ok, how in played.outcomes()}
    ok, how = ended[name]
    assert ok, how


def test_the_run_crosses_the_month_wall_and_bills_both_sides_of_it(played: Played) -> None:
    hours = {account.group[3] for account in played.accounts if account.billed > 0}
    assert {"2026-09-30T23", "2026-10-01T00"} <= hours


def test_the_quota_is_kept(played: Played) -> None:
    assert played.world.marketplace.max_requests_in_any_second() <= 10


def test_nothing_reaches_a_dead_letter_queue(played: Played) -> None:
    assert list(played.world.dead_letters()) == []


def test_a_lost_quantity_is_reported_and_fails_the_command(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *rest = played.accounts
    lost = Account(
        first.group, first.written + 1, first.billed, first.pending, dict(first.surfaced), first.honoured
    )
    damaged = Played(played.world, played.plan, [lost, *rest], played.trace_totals)
    monkeypatch.setattr(simulate, "play", lambda _progress: damaged)
    path = tmp_path / "report.json"
    assert simulate.main(["--report", str(path)]) == 1
    assert any("off by 1" in problem for problem in json.loads(path.read_text())["problems"])


def test_the_report_names_every_group_and_the_command_succeeds(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "play", lambda _progress: played)
    path = tmp_path / "report.json"
    assert simulate.main(["--report", str(path)]) == 0
    report = json.loads(path.read_text())
    assert len(report["groups"]) == len(played.accounts)
    assert {trouble["asExpected"] for trouble in report["troubles"]} == {True}
