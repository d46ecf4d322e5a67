"""The mutation check can fail: a survivor, a text that is gone and a red test without a mutant are told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import mutants
from sandbox.mutant_list import MUTANTS
from sandbox.mutants import Mutant, Outcome, Verdict

ONE_PLUS_ONE = "from awsmp.sums import add\n\n\ndef test_add() -> None:\n    assert add(1, 1) == 2\n"
KILLED = Mutant("minus", "sums.py", "a + b", "a - b", "sums are wrong", ("tests/test_sums.py",))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tiny product with one test."""
    source, tests = tmp_path / "lambda_src" / "awsmp", tmp_path / "tests"
    source.mkdir(parents=True)
    tests.mkdir()
    (tmp_path / "sandbox").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (source / "__init__.py").write_text("", encoding="utf-8")
    (source / "sums.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n", encoding="utf-8")
    (tests / "test_sums.py").write_text(ONE_PLUS_ONE, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "verdict"),
    [
        (KILLED, Verdict.KILLED),
        (replace(KILLED, new="b + a"), Verdict.SURVIVED),
        (replace(KILLED, new="a +"), Verdict.BROKEN),
        (replace(KILLED, old="a * b"), Verdict.BROKEN),
        (replace(KILLED, new="a + b"), Verdict.BROKEN),
        (replace(KILLED, tests=("tests/test_sums.py::test_gone",)), Verdict.BROKEN),
    ],
    ids=["wrong sum", "same sum", "no Python", "text is gone", "changes nothing", "test is gone"],
)
def test_a_mutant_is_killed_only_by_a_test_that_fails_for_it(
    tree: Path, mutant: Mutant, verdict: Verdict
) -> None:
    assert mutants.judge(mutant, tree).verdict is verdict
    assert "a + b" in (tree / "lambda_src/awsmp/sums.py").read_text(encoding="utf-8"), "it is taken back"


@pytest.mark.slow
def test_mutants_run_side_by_side_in_copies_and_keep_their_order(tree: Path) -> None:
    survivor = replace(KILLED, name="same", new="b + a")
    outcomes = mutants.run_all([KILLED, survivor], root=tree, jobs=2)
    assert [(each.mutant.name, each.verdict) for each in outcomes] == [
        ("minus", Verdict.KILLED),
        ("same", Verdict.SURVIVED),
    ]
    assert outcomes[0].detail == "tests/test_sums.py::test_add"


@pytest.mark.slow
def test_a_test_that_is_red_without_a_mutant_proves_nothing(tree: Path) -> None:
    (tree / "tests" / "test_sums.py").write_text(ONE_PLUS_ONE.replace("2", "3"), encoding="utf-8")
    with pytest.raises(RuntimeError, match="not green without a mutant"):
        mutants.run_all([KILLED], root=tree, jobs=1)


def test_a_survivor_fails_the_run_and_is_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = MUTANTS[:2]
    outcomes = [Outcome(first, Verdict.KILLED, "test_x", 0.1), Outcome(second, Verdict.SURVIVED, "", 0.1)]
    report = tmp_path / "report.json"
    monkeypatch.setattr(mutants, "run_all", lambda *_, **__: outcomes)
    assert mutants.main(["--report", str(report), first.name, second.name]) == 1
    assert "1 of 2 mutants killed" in capsys.readouterr().out
    assert [each["verdict"] for each in json.loads(report.read_text())["outcomes"]] == ["killed", "survived"]
    monkeypatch.setattr(mutants, "run_all", lambda *_, **__: outcomes[:1])
    assert mutants.main(["--report", str(report), first.name]) == 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_applies_once_and_names_tests_that_exist(mutant: Mutant) -> None:
    """Without running anything: the list follows the code that it flips."""
    text = (mutants.ROOT / "lambda_src" / "awsmp" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    for test in mutant.tests:
        path, _, name = test.partition("::")
        source = (mutants.ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name.rpartition('::')[2]}(" in source, test


def test_the_list_is_long_enough_and_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 30


def test_the_kill_list_of_the_docs_is_the_list_that_is_run() -> None:
    """``python -m sandbox.mutants --markdown`` prints it anew."""
    assert mutants.markdown(MUTANTS) in (mutants.ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
