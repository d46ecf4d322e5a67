"""``make release``: check that this commit can be released, and make its tag only when told to (``YES=1``).

Nothing is ever committed or pushed. Without ``--yes`` nothing is written either.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from sandbox.terraform import REPOSITORY

CHANGELOG: Final = "CHANGELOG.md"
UPGRADING: Final = "docs/upgrading.md"
MANIFEST: Final = "lambda_dist/manifest.json"
VERIFY_BUILD: Final = (sys.executable, "-m", "sandbox.build_packages", "verify")

_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_UNRELEASED: Final = "## Unreleased"


class ReleaseError(RuntimeError):
    """The repository cannot be released as it is; the message lists every reason."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a release would do. ``changelog`` is the new text, None where the section is there already."""

    version: str
    changelog: str | None
    notes: str

    @property
    def tag(self) -> str:
        """The tag's name."""
        return f"v{self.version}"


def parse(version: str) -> tuple[int, int, int]:
    """Return a version's numbers; raises ReleaseError unless it is X.Y.Z without leading zeros."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ReleaseError(f"version {version!r} of pyproject.toml is not X.Y.Z")
    return int(found[1]), int(found[2]), int(found[3])


def section(text: str, heading: str) -> str | None:
    """Return the body of a ``##`` or ``###`` section, stripped; None without one.

    A date may follow the heading.
    """
    level = heading.split(" ", 1)[0]
    found = re.search(
        rf"^{re.escape(heading)}(?: - \d{{4}}-\d\d-\d\d)?$\n(.*?)(?=^#{{2,{len(level)}}} |\Z)",
        text,
        re.M | re.S,
    )
    return None if found is None else found[1].strip()


def released_changelog(text: str, version: str, day: date) -> str:
    """Return the changelog with what is unreleased under the version and its date, below an empty Unreleased.

    Raises ReleaseError when there is nothing unreleased.
    """
    if not section(text, _UNRELEASED):
        raise ReleaseError(f"{CHANGELOG} has nothing under {_UNRELEASED!r}")
    return text.replace(f"{_UNRELEASED}\n", f"{_UNRELEASED}\n\n## {version} - {day.isoformat()}\n", 1)


def plan_release(root: Path, day: date) -> Plan:
    """Judge a repository and return what its release would do.

    Raises ReleaseError with everything that stands in the way, not only the first.
    """
    problems: list[str] = []
    version = str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    numbers = parse(version)
    if dirty := git(root, "status", "--porcelain"):
        problems.append(f"the work tree is not clean:\n{dirty}")
    tags = git(root, "tag", "--list", "v*").split()
    if f"v{version}" in tags:
        problems.append(f"the tag v{version} is there already: a tag is never moved, raise the version")
    released = [parse(tag[1:]) for tag in tags if _VERSION.fullmatch(tag[1:])]
    if any(numbers < other for other in released):
        newest = ".".join(map(str, max(released)))
        problems.append(f"version {version} is less than {newest}, which is released")
    manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    if manifest.get("version") != version:
        problems.append(f"{MANIFEST} is of version {manifest.get('version')}: run `make build`")
    problems += _upgrade_problems(root, version)
    changelog, notes = None, ""
    try:
        changelog, notes = _changelog(root, version, day)
    except ReleaseError as error:
        problems.append(str(error))
    if problems:
        raise ReleaseError("\n".join(f"- {problem}" for problem in problems))
    return Plan(version, changelog, notes)


def carry_out(root: Path, plan: Plan) -> str:
    """Write the changelog or, where that is done and committed, make the tag; return what was done."""
    if plan.changelog is not None:
        (root / CHANGELOG).write_text(plan.changelog, encoding="utf-8")
        return f"{CHANGELOG} is written: review it, commit it as `Release {plan.tag}`, and run this again."
    git(
        root,
        "tag",
        "--annotate",
        plan.tag,
        "--message",
        f"Release {plan.tag}\n\n{plan.notes}",
        "--cleanup=verbatim",
    )
    return f"{plan.tag} is made. `git push origin {plan.tag}` publishes it."


def release(root: Path, day: date, *, yes: bool, verify: Callable[[Path], None]) -> str:
    """Judge, verify the packages and, with ``yes``, act; return what was done or would be.

    ``verify`` raises ReleaseError when the packages are not what the sources make; it runs after the cheap
    checks.
    """
    plan = plan_release(root, day)
    verify(root)
    if yes:
        return carry_out(root, plan)
    step = f"make the tag {plan.tag}" if plan.changelog is None else f"write {CHANGELOG}, to be committed"
    return f"{plan.tag} can be released. `YES=1 make release` would {step}.\n\n{plan.notes}"


def verify_packages(root: Path, command: Sequence[str] = VERIFY_BUILD) -> None:
    """Rebuild the packages and compare; raises ReleaseError with the output when they differ."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"- the packages are not what the sources make:\n{done.stdout}{done.stderr}")


def git(root: Path, *arguments: str) -> str:
    """Run git in ``root`` and return its output; raises ReleaseError with its message when it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {' '.join(arguments[:2])}: {done.stderr.strip()}")
    return done.stdout.rstrip()


def _changelog(root: Path, version: str, day: date) -> tuple[str | None, str]:
    """Return (the changelog to write, or None, and the release's notes)."""
    text = (root / CHANGELOG).read_text(encoding="utf-8")
    unreleased, own = section(text, _UNRELEASED), section(text, f"## {version}")
    if own is None:
        return released_changelog(text, version, day), unreleased or ""
    if unreleased:
        raise ReleaseError(f"{CHANGELOG} has a section {version} and something under {_UNRELEASED!r} as well")
    if not own:
        raise ReleaseError(f"the section {version} of {CHANGELOG} is empty")
    return None, own


def _upgrade_problems(root: Path, version: str) -> list[str]:
    own = section((root / UPGRADING).read_text(encoding="utf-8"), f"### {version}")
    if own is None:
        return [f"{UPGRADING} has no section {version}"]
    found = re.search(r"^#### State changes$\n(.*?)(?=^#|\Z)", own, re.M | re.S)
    if found is None or not found[1].strip():
        return [f"the section {version} of {UPGRADING} says nothing under 'State changes'"]
    return []


def main(arguments: list[str] | None = None) -> int:
    """Release this repository; 1 when something stands in the way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--yes", action="store_true", help="write the changelog or make the tag")
    options = parser.parse_args(arguments)
    try:
        said = release(REPOSITORY, datetime.now(UTC).date(), yes=options.yes, verify=verify_packages)
    except ReleaseError as error:
        sys.stderr.write(f"No release:\n{error}\n")
        return 1
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
