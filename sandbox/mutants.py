"""Flip dangerous lines of the product one by one; each flip has to turn a named test red.

``python -m sandbox.mutants`` copies the tree, runs the named tests unchanged (a test that is red anyway
would prove nothing), then applies one mutant at a time and runs its tests until the first failure. A
mutant that survives, or whose text is not found exactly once, fails the run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
REPORT: Final = Path("build/mutants/report.json")

#: What the named tests need of the tree.
COPIED: Final = ("lambda_src", "sandbox", "tests", "pyproject.toml")

#: Seconds after which one mutant's tests count as red: a mutant may loop for ever.
TIME_LIMIT: Final = 900

_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_ALL_PASSED: Final = 0
_SOME_FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class Mutant:
    """One dangerous flip.

    ``old`` occurs exactly once in ``file`` (below ``lambda_src/awsmp``) and becomes ``new``; ``breaks`` says
    what a seller or buyer would suffer; ``tests`` are the quick tests of which one has to fail.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]


class Verdict(StrEnum):
    """How a mutant fared."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one mutant; ``detail`` is the test that failed, or what is wrong with the mutant."""

    mutant: Mutant
    verdict: Verdict
    detail: str
    seconds: float


def apply(mutant: Mutant, tree: Path) -> str:
    """Write the mutant into ``tree``; return the file's former text.

    Raises
    ------
    ValueError
        Its old text is not there exactly once, or the new one is the same.
    """
    path = tree / "lambda_src" / "awsmp" / mutant.file
    before = path.read_text(encoding="utf-8")
    found = before.count(mutant.old)
    if found != 1:
        raise ValueError(f"the old text is found {found} times in {mutant.file}, not once")
    if mutant.old == mutant.new:
        raise ValueError("the mutant changes nothing")
    path.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
    return before


@contextmanager
def applied(mutant: Mutant, tree: Path) -> Iterator[None]:
    """Keep the mutant in ``tree`` for the time of the block."""
    before = apply(mutant, tree)
    try:
        yield
    finally:
        (tree / "lambda_src" / "awsmp" / mutant.file).write_text(before, encoding="utf-8")


def run_tests(
    tree: Path, tests: Sequence[str], *, first_failure: bool = True, time_limit: float | None = TIME_LIMIT
) -> tuple[int, str]:
    """Run pytest in ``tree``; return its exit code and its output (or why there is none)."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=line"]
    environment = os.environ | {
        "PYTHONPATH": f"lambda_src{os.pathsep}.",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
    try:
        done = subprocess.run(
            [*command, *(["-x"] if first_failure else []), *tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=time_limit,
        )
    except subprocess.TimeoutExpired:
        return _SOME_FAILED, f"FAILED (no end within {time_limit} s)"
    return done.returncode, done.stdout + done.stderr


def judge(mutant: Mutant, tree: Path) -> Outcome:
    """Apply one mutant to ``tree``, run its tests, and take it back."""
    began = perf_counter()

    def outcome(verdict: Verdict, detail: str) -> Outcome:
        return Outcome(mutant, verdict, detail, round(perf_counter() - began, 1))

    try:
        with applied(mutant, tree):
            code, output = run_tests(tree, mutant.tests)
    except ValueError as error:
        return outcome(Verdict.BROKEN, str(error))
    if code == _ALL_PASSED:
        return outcome(Verdict.SURVIVED, "no test failed")
    failed = _FAILED.search(output)
    if code != _SOME_FAILED or failed is None:
        # Nothing was collected, or the mutant cannot even be imported: that is no proof of anything.
        return outcome(Verdict.BROKEN, f"pytest ended with {code}: {output.strip()[-300:]}")
    return outcome(Verdict.KILLED, failed.group(1))


def baseline(tree: Path, mutants: Sequence[Mutant]) -> str | None:
    """Run every named test on the unchanged tree; return what is wrong, or None when all are green."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    code, output = run_tests(tree, tests, first_failure=False, time_limit=None)
    return None if code == _ALL_PASSED else output


def copy_tree(root: Path, target: Path) -> Path:
    """Copy what the tests need from ``root`` into ``target``; return ``target``."""
    ignored = shutil.ignore_patterns("__pycache__", ".terraform", "*.pyc")
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy2(source, target / name)
    return target


def run_all(mutants: Sequence[Mutant], *, root: Path = ROOT, jobs: int = 2) -> list[Outcome]:
    """Judge every mutant, ``jobs`` at a time, each job in a copy of its own; the order is the given one.

    Raises
    ------
    RuntimeError
        A named test is red, or missing, without any mutant.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            trees.put(copy_tree(root, Path(scratch) / str(number)))
        tree = trees.get()
        wrong = baseline(tree, mutants)
        trees.put(tree)
        if wrong is not None:
            raise RuntimeError(f"the named tests are not green without a mutant:\n{wrong[-3000:]}")

        def in_a_tree(mutant: Mutant) -> Outcome:
            tree = trees.get()
            try:
                outcome = judge(mutant, tree)
            finally:
                trees.put(tree)
            print(f"{outcome.verdict} {mutant.name} ({outcome.seconds} s)", file=sys.stderr, flush=True)
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(in_a_tree, mutants))


def table(outcomes: Sequence[Outcome]) -> str:
    """Return one line per mutant: its fate, and the test that killed it."""
    width = max((len(outcome.mutant.name) for outcome in outcomes), default=0)
    lines = [f"{each.verdict:<9} {each.mutant.name:<{width}}  {each.detail}" for each in outcomes]
    killed = sum(outcome.verdict is Verdict.KILLED for outcome in outcomes)
    return "\n".join([*lines, f"{killed} of {len(outcomes)} mutants killed"])


def write_report(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write every mutant with its fate as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [
        asdict(each.mutant) | {"verdict": each.verdict, "detail": each.detail, "seconds": each.seconds}
        for each in outcomes
    ]
    killed = sum(outcome.verdict is Verdict.KILLED for outcome in outcomes)
    text = json.dumps({"mutants": len(outcomes), "killed": killed, "outcomes": entries}, indent=2)
    path.write_text(f"{text}\n", encoding="utf-8")


def markdown(mutants: Sequence[Mutant]) -> str:
    """Return the kill list of ``docs/guarantees.md``: what each flip would cost, and which test turns red."""
    rows = [
        f"| `{mutant.name}` | {mutant.breaks.replace('|', '/')} | {', '.join(map(_short, mutant.tests))} |"
        for mutant in mutants
    ]
    return "\n".join(["| flip | what it would cost | turned red by |", "| --- | --- | --- |", *rows])


def _short(test: str) -> str:
    return f"`{test.rpartition('/')[2].replace('.py::', ' ').removeprefix('test_').removesuffix('.py')}`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 when every mutant was killed."""
    from sandbox.mutant_list import MUTANTS  # noqa: PLC0415 - the list imports this module's Mutant

    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="names of mutants; all when none is given")
    parser.add_argument("--jobs", type=int, default=2, help="mutants judged at the same time")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    parser.add_argument("--markdown", action="store_true", help="print them as the table of the docs and end")
    parser.add_argument("--report", type=Path, default=REPORT)
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.only) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no such mutants: {', '.join(sorted(unknown))}")
    mutants = [mutant for mutant in MUTANTS if not chosen.only or mutant.name in chosen.only]
    if chosen.list:
        print("\n".join(f"{mutant.name}: {mutant.breaks}" for mutant in mutants))
        return 0
    if chosen.markdown:
        print(markdown(mutants))
        return 0
    outcomes = run_all(mutants, jobs=chosen.jobs)
    print(table(outcomes))
    write_report(outcomes, chosen.report)
    return 0 if all(outcome.verdict is Verdict.KILLED for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
