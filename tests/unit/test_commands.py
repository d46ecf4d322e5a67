"""Every command that a document shows is run by a test, or the document says why a person has to run it.

``<!-- manual: COMMAND: why -->`` in a document is for its commands that begin so; in the ``README.md`` of a
folder of ``docs`` it is for every page of the folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
#: The changelog tells what was, and is no instruction.
DOCUMENTS = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("modules/*/README.md"),
        *ROOT.glob("examples/*/README.md"),
    }
    - {ROOT / "CHANGELOG.md"}
)

TOOLS = r"make|terraform|git|jq|aws|python3?|pip|(?:\.venv|build)/\S+"
_COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{TOOLS})(?: .+)?")
#: One word in a sentence's code may be a partition or a provider; a command has more.
_INLINE = re.compile(rf"`((?:[A-Z_]+=\S+ )*(?:{TOOLS}) [a-z./-][^`\n]*)`")
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.M | re.S)
_MANUAL = re.compile(r"<!-- manual: (.+?): (.+?) -->", re.S)
_SETTING = re.compile(r"(?:export )?[A-Z_]+=\S*\s*(?:#.*)?")


class Command(NamedTuple):
    """A command and the document that shows it."""

    document: str
    text: str


def begins(command: str, beginning: str) -> bool:
    """Tell whether whole words of a command are its beginning; one that ends in ``=`` takes any value."""
    return f"{command} ".startswith(f"{beginning} ") or (
        beginning.endswith("=") and command.startswith(beginning)
    )


@dataclass(frozen=True)
class RunBy:
    """Where the command of a document is run: a test, or the script of CI."""

    documents: str
    command: str
    where: str

    def covers(self, command: Command) -> bool:
        return Path(command.document).match(self.documents) and begins(command.text, self.command)


_ANY = "*.md"
TESTED = (
    RunBy(
        _ANY,
        "make help",
        "tests/unit/test_commands.py::test_make_help_lists_every_target_that_a_document_names",
    ),
    RunBy(_ANY, "make lint", ".ci/run"),
    RunBy(_ANY, "make test", ".ci/run"),
    RunBy(_ANY, "make test-wide", ".ci/run"),
    # A selection of what `make test` runs.
    RunBy(_ANY, ".venv/bin/pytest tests/browser", ".ci/run"),
    RunBy(
        _ANY,
        "make simulate",
        "tests/simulation/test_simulate.py::test_the_report_names_every_group_and_the_command_succeeds",
    ),
    RunBy(
        _ANY, "make sandbox", "tests/e2e/test_local_cloud.py::test_ctrl_c_ends_the_command_and_leaves_nothing"
    ),
    RunBy(
        _ANY,
        "make verify-build",
        "tests/unit/test_build_packages.py::test_verify_passes_in_other_surroundings_and_fails_on_any_change",
    ),
    RunBy(
        _ANY,
        "make build",
        "tests/unit/test_build_packages.py::test_the_committed_code_is_what_the_sources_make",
    ),
    RunBy(
        _ANY,
        "make docs",
        "tests/unit/test_module_docs.py::test_the_readme_shows_the_inputs_and_outputs_of_the_module",
    ),
    RunBy(
        _ANY, "make mutants", "tests/unit/test_mutants.py::test_a_survivor_fails_the_run_and_is_in_the_report"
    ),
    RunBy(_ANY, "make release", "tests/unit/test_release.py::test_without_yes_nothing_is_written"),
    RunBy(
        _ANY,
        "YES=1 make release",
        "tests/unit/test_release.py::test_with_yes_the_changelog_is_written_first_and_the_tag_only_on_the_commit_that_has_it",
    ),
    RunBy(
        _ANY,
        "PYTHONPATH=lambda_src:. .venv/bin/python -m sandbox.costs write",
        "tests/unit/test_costs.py::test_the_command_renews_a_document_that_is_out_of_date",
    ),
    RunBy(_ANY, ".venv/bin/python -m sandbox.find_chromium", ".ci/run"),
    RunBy(
        "examples/*/README.md",
        "terraform init",
        "tests/terraform/test_examples.py::test_an_example_plans_and_nothing_in_it_shares_a_name",
    ),
    RunBy(
        "modules/*/README.md",
        "terraform init",
        "tests/terraform/test_examples.py::test_an_example_plans_and_nothing_in_it_shares_a_name",
    ),
    RunBy(
        "README.md",
        "terraform init",
        "tests/terraform/test_examples.py::test_an_example_plans_and_nothing_in_it_shares_a_name",
    ),
    RunBy(
        "examples/registration/README.md",
        "terraform apply -var product_code=",
        "tests/e2e/test_deployed_pipeline.py::test_every_group_balances_and_nothing_is_pending",
    ),
)


def commands_in(text: str) -> Iterator[str]:
    """Yield the commands of a document's code blocks, then those in its sentences."""
    for language, block in _FENCE.findall(text):
        for line in re.sub(r"\s*\\\n\s*", " ", dedent(block)).splitlines():
            shown = line.removeprefix("$ ") if language == "console" and line.startswith("$ ") else None
            if language in {"sh", "bash"} and line.strip() and not line.lstrip().startswith("#"):
                shown = line
            if language == "" and _COMMAND.fullmatch(line):
                shown = line
            if shown and not _SETTING.fullmatch(shown):
                yield re.sub(r"\s+#.*", "", shown).strip()
    yield from _INLINE.findall(_FENCE.sub("", text))


@cache
def shown() -> tuple[Command, ...]:
    """Every command of every document."""
    return tuple(
        Command(str(path.relative_to(ROOT)), text)
        for path in DOCUMENTS
        for text in commands_in(path.read_text(encoding="utf-8"))
    )


@cache
def manual() -> tuple[tuple[str, str, str], ...]:
    """(document, beginning of the command, why) of every marker."""
    return tuple(
        (str(path.relative_to(ROOT)), command, why)
        for path in DOCUMENTS
        for command, why in _MANUAL.findall(path.read_text(encoding="utf-8"))
    )


def is_manual(command: Command) -> bool:
    index = str(Path(command.document).with_name("README.md"))
    pages = {command.document, index} if index.startswith("docs/") else {command.document}
    return any(document in pages and begins(command.text, text) for document, text, _ in manual())


@pytest.mark.parametrize("document", sorted({command.document for command in shown()}))
def test_every_command_of_a_document_is_tested_or_marked_as_manual(document: str) -> None:
    here = [command for command in shown() if command.document == document]
    open_ends = [
        command.text
        for command in here
        if not is_manual(command) and not any(each.covers(command) for each in TESTED)
    ]
    assert open_ends == []


def test_no_entry_and_no_marker_is_left_over() -> None:
    assert [each for each in TESTED if not any(each.covers(command) for command in shown())] == []
    texts = {(command.document, command.text) for command in shown()}
    stale = [
        (document, text)
        for document, text, _ in manual()
        if not any(
            begins(other, text) and (page == document or Path(page).parent == Path(document).parent)
            for page, other in texts
        )
    ]
    assert stale == []
    assert [why for *_, why in manual() if len(why.split()) < 3] == []


@pytest.mark.parametrize("tested", TESTED, ids=lambda each: f"{each.documents} {each.command}")
def test_what_runs_a_command_exists_and_runs_it(tested: RunBy) -> None:
    file, _, test = tested.where.partition("::")
    source = (ROOT / file).read_text(encoding="utf-8")
    if not test:
        called = tested.command.removeprefix("make ") if tested.command.startswith("make ") else "test"
        assert re.search(rf"^make {called}$", source, re.M)
        # The look for a browser comes before the tests.
        assert prerequisites("test") == ["setup", "chromium"]
        assert prerequisites("lint") == ["setup"]
        return
    assert f"def {test}(" in source
    target = re.fullmatch(r"(?:\w+=\S+ )*make ([a-z-]+)", tested.command)
    module = re.search(r"python -m ([\w.]+)", recipe(target[1]) if target else tested.command)
    if module is not None:
        package, _, name = module[1].rpartition(".")
        assert module[1] in source or re.search(rf"from {package} import .*\b{name}\b", source)


@pytest.mark.slow
def test_a_module_that_a_document_runs_is_found_as_it_is_shown() -> None:
    """Without a path of Python's own beside the repository, unless the command sets one."""
    run = re.compile(r"(?:PYTHONPATH=(\S+) )?(?:\.venv/bin/)?python3? -m ([\w.]+)")
    found = {match.groups() for command in shown() if (match := run.match(command.text))}
    assert len(found) >= 3
    for path, module in sorted(found, key=str):
        environment = {"PATH": os.environ["PATH"], **({"PYTHONPATH": path} if path else {})}
        subprocess.run([sys.executable, "-c", f"import {module}"], cwd=ROOT, env=environment, check=True)


def test_make_help_lists_every_target_that_a_document_names() -> None:
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run([make, "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  ([a-z-]+) ", done.stdout, re.M))
    named = {
        target for command in shown() for target in re.findall(r"^(?:\w+=\S+ )*make ([a-z-]+)", command.text)
    }
    assert len(named) >= 10
    assert named <= listed


def recipe(target: str) -> str:
    """Return the lines of a Makefile's target."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert found is not None, target
    return found[1]


def prerequisites(target: str) -> list[str]:
    found = re.search(rf"^{target}:([^#\n]*)", (ROOT / "Makefile").read_text(), re.M)
    assert found is not None, target
    return found[1].split()


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("```console\n$ make a   # why\nits output\n$ terraform b\n```\n", ["make a", "terraform b"]),
        ("```sh\n# about\nexport A=b   # set\naws sqs c \\\n  --d\n```\n", ["aws sqs c --d"]),
        ("```\nterraform init\na diagram --> of it\n```\n", ["terraform init"]),
        ("1. First:\n\n   ```\n   aws sqs c \\\n     --d\n   ```\n", ["aws sqs c --d"]),
        ("```hcl\nmake = 1\n```\n", []),
        ("Run `make a` or `KEEP=1 make b`; `aws` and `aws.use1` are providers.", ["make a", "KEEP=1 make b"]),
    ],
)
def test_commands_are_found_in_blocks_and_in_sentences(text: str, commands: list[str]) -> None:
    assert list(commands_in(text)) == commands
