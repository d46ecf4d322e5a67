"""Every runbook has its parts and says something of its own; its commands are ones that the AWS CLI knows."""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

REPOSITORY = Path(__file__).resolve().parents[2]
RUNBOOKS = REPOSITORY / "docs" / "runbooks"
PAGES = sorted(path for path in RUNBOOKS.glob("*.md") if path.name != "README.md")
SECTIONS = (
    "What it means in money",
    "Confirm",
    "First three commands",
    "Fix",
    "Past the deadline",
    "Escalate",
)
VARIABLES = {"AGREEMENT", "BASE", "ENVIRONMENT", "EVENTS", "HOUR", "LICENSE", "NOTICES", "PRODUCT"}

#: Options of the CLI itself, and of its paging.
COMMON = {"cli-binary-format", "max-items", "output", "query", "region"}
#: Commands that the CLI adds to the API's operations.
CUSTOM = {("logs", "tail"): {"filter-pattern", "since"}}
#: A command whose answer is an argument of another.
_NESTED = re.compile(r"\$\((aws [^()]*(?:\$\([^()]*\)[^()]*)*)\)")


def sections(page: Path) -> dict[str, str]:
    """Return the text of each section, in the page's order."""
    parts = re.split(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


def blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)


def commands(text: str) -> list[str]:
    """Return every AWS CLI command of a section's code blocks, those inside of others included."""
    found: list[str] = []
    waiting = [line for block in blocks(text) for line in block.splitlines() if line]
    while waiting:
        line = waiting.pop()
        waiting += _NESTED.findall(line)
        found.append(_NESTED.sub("NESTED", line).split(" | ")[0])
    return found


@cache
def options_of(service: str, operation: str) -> frozenset[str]:
    """Return the options that a command takes, by botocore's model of the service."""
    if (service, operation) in CUSTOM:
        return frozenset(CUSTOM[service, operation])
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    shape = model.operation_model(names[operation]).input_shape
    members = () if shape is None else shape.members
    switches = {xform_name(name, "-") for name in members}
    return frozenset(switches | {f"no-{name}" for name in switches})


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_runbook_has_its_parts_in_their_order(page: Path) -> None:
    assert page.read_text(encoding="utf-8").startswith(f"# {page.stem}\n")
    found = sections(page)
    assert tuple(found) == SECTIONS
    assert all(len(text) > 15 for text in found.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_its_first_commands_are_three_that_can_be_copied(page: Path) -> None:
    (block,) = blocks(sections(page)["First three commands"])
    lines = block.splitlines()

    assert len(lines) == 3
    assert all(line.startswith("aws ") for line in lines)
    for text in blocks(page.read_text(encoding="utf-8")):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        assert set(re.findall(r"\$\{?([A-Z]+)", text)) <= VARIABLES, text
        assert "<" not in text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_cli_knows_every_command_and_option(page: Path) -> None:
    found = commands(page.read_text(encoding="utf-8"))

    assert len(found) >= 3
    for command in found:
        words = shlex.split(command)
        assert words[0] == "aws", command
        options = {word.removeprefix("--") for word in words[3:] if word.startswith("--")}
        assert options - COMMON <= options_of(words[1], words[2]), command


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_what_a_page_names_in_code_is_a_page_or_no_alarm_at_all(page: Path) -> None:
    """A page that sends the reader to another alarm's page names one that exists."""
    named = re.findall(r"[Ss]ee `([a-z-]+)`", page.read_text(encoding="utf-8"))
    assert {f"{name}.md" for name in named} <= {each.name for each in PAGES}


def test_no_two_runbooks_say_the_same() -> None:
    for section in ("What it means in money", "Confirm", "First three commands", "Fix"):
        texts = sorted((sections(page)[section], page.stem) for page in PAGES)
        twins = [(one[1], other[1]) for one, other in pairwise(texts) if one[0] == other[0]]
        assert twins == [], section


def test_the_index_lists_every_page_and_sets_every_variable() -> None:
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")

    assert sorted(re.findall(r"^\| \[([a-z0-9-]+)\]\(\1\.md\)", index, re.M)) == [p.stem for p in PAGES]
    (block,) = blocks(index)
    assert set(re.findall(r"^([A-Z]+)=", block, re.M)) == VARIABLES
    subprocess.run(["bash", "-n"], input=block, text=True, check=True)
