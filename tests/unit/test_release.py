"""A release is a tag on a clean commit whose files all say the same version."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from sandbox.release import (
    ReleaseError,
    git,
    parse,
    plan_release,
    release,
    released_changelog,
    section,
    verify_packages,
)

DAY = date(2026, 11, 30)
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0 - 2026-10-01\n\n- The first.\n"
)
UPGRADING = (
    "# Upgrading\n\n## Releases\n\n### 0.2.0\n\n#### State changes\n\nNone.\n\n### 0.1.0\n\nThe first.\n"
)


def never_called(_root: Path) -> None:
    raise AssertionError("packages are verified only when the cheap checks pass")


def verified(_root: Path) -> None:
    """The packages are what the sources make."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that can be released as 0.2.0, with 0.1.0 before it."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Release Test")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "release@example.com")
    write(tmp_path, "pyproject.toml", '[project]\nversion = "0.2.0"\n')
    write(tmp_path, "CHANGELOG.md", CHANGELOG)
    write(tmp_path, "docs/upgrading.md", UPGRADING)
    write(tmp_path, "lambda_dist/manifest.json", json.dumps({"version": "0.2.0"}))
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "State")


def refusal(root: Path) -> str:
    with pytest.raises(ReleaseError) as refused:
        release(root, DAY, yes=True, verify=never_called)
    return str(refused.value)


def test_without_yes_nothing_is_written(repository: Path) -> None:
    said = release(repository, DAY, yes=False, verify=verified)

    assert "v0.2.0 can be released" in said
    assert "- A thing." in said
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "tag", "--list") == "v0.1.0"


def test_with_yes_the_changelog_is_written_first_and_the_tag_only_on_the_commit_that_has_it(
    repository: Path,
) -> None:
    first = release(repository, DAY, yes=True, verify=verified)

    assert "commit it" in first
    assert git(repository, "tag", "--list") == "v0.1.0"
    assert "not clean" in refusal(repository)

    commit(repository)
    second = release(repository, DAY, yes=True, verify=verified)

    assert "v0.2.0 is made" in second
    assert git(repository, "rev-parse", "v0.2.0^{commit}") == git(repository, "rev-parse", "HEAD")
    assert git(repository, "cat-file", "-t", "v0.2.0") == "tag"
    message = git(repository, "tag", "--list", "--format=%(contents)", "v0.2.0")
    assert message.splitlines() == ["Release v0.2.0", "", "### Added", "", "- A thing."]


def test_the_changelog_keeps_an_empty_unreleased_section_above_the_dated_version() -> None:
    assert released_changelog(CHANGELOG, "0.2.0", DAY) == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-11-30\n\n### Added\n\n- A thing.\n\n"
        "## 0.1.0 - 2026-10-01\n\n- The first.\n"
    )


def test_a_section_ends_where_the_next_of_its_level_begins() -> None:
    assert section(CHANGELOG, "## Unreleased") == "### Added\n\n- A thing."
    assert section(CHANGELOG, "## 0.1.0") == "- The first."
    assert section(UPGRADING, "### 0.2.0") == "#### State changes\n\nNone."
    assert section(CHANGELOG, "## 0.1") is None


def later_tag(root: Path) -> None:
    git(root, "tag", "v0.10.0")


def own_tag(root: Path) -> None:
    git(root, "tag", "v0.2.0")


def edit(name: str, text: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        write(root, name, text)
        commit(root)

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda root: write(root, "new.txt", "x"), "not clean", id="untracked-file"),
        pytest.param(lambda root: write(root, "CHANGELOG.md", CHANGELOG + "\n"), "not clean", id="edited"),
        pytest.param(own_tag, "never moved", id="tag-exists"),
        pytest.param(later_tag, "less than 0.10.0", id="older-than-a-release"),
        pytest.param(
            edit("pyproject.toml", '[project]\nversion = "0.2"\n'), "is not X.Y.Z", id="not-three-numbers"
        ),
        pytest.param(
            edit("lambda_dist/manifest.json", '{"version": "0.1.0"}'), "make build", id="packages-of-another"
        ),
        pytest.param(
            edit("CHANGELOG.md", CHANGELOG.replace("### Added\n\n- A thing.\n", "")),
            "nothing under",
            id="nothing-to-say",
        ),
        pytest.param(
            edit("CHANGELOG.md", CHANGELOG.replace("## 0.1.0", "## 0.2.0 - 2026-11-01\n\n- B.\n\n## 0.1.0")),
            "as well",
            id="unreleased-beside-the-version",
        ),
        pytest.param(
            edit("docs/upgrading.md", UPGRADING.replace("0.2.0", "Unreleased")),
            "no section 0.2.0",
            id="no-upgrade-section",
        ),
        pytest.param(
            edit("docs/upgrading.md", UPGRADING.replace("None.\n", "")), "State changes", id="state-unsaid"
        ),
    ],
)
def test_a_release_is_refused(repository: Path, change: Callable[[Path], None], reason: str) -> None:
    change(repository)

    assert reason in refusal(repository)


def test_every_reason_is_given_at_once(repository: Path) -> None:
    write(repository, "lambda_dist/manifest.json", '{"version": "0.1.0"}')
    write(repository, "docs/upgrading.md", "# Upgrading\n")

    said = refusal(repository)

    assert all(reason in said for reason in ("not clean", "make build", "no section 0.2.0"))


def test_packages_that_cannot_be_rebuilt_stop_a_release(repository: Path) -> None:
    def broken(root: Path) -> None:
        verify_packages(root, [sys.executable, "-c", "print('awsmp.zip differs'); raise SystemExit(1)"])

    with pytest.raises(ReleaseError, match=r"awsmp\.zip differs"):
        release(repository, DAY, yes=True, verify=broken)

    assert git(repository, "tag", "--list") == "v0.1.0"


def test_packages_that_are_rebuilt_alike_pass(repository: Path) -> None:
    verify_packages(repository, [sys.executable, "-c", ""])


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3-rc1", "01.2.3", "", "1.2.3\n"])
def test_a_version_is_three_numbers(version: str) -> None:
    with pytest.raises(ReleaseError, match=r"X\.Y\.Z"):
        parse(version)


def test_git_says_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(ReleaseError, match="not a git repository"):
        git(tmp_path, "status")


def test_this_repository_has_what_a_release_reads() -> None:
    """The real files parse: what stands in the way now may only be what a release changes."""
    root = Path(__file__).parents[2]
    try:
        plan_release(root, DAY)
    except ReleaseError as error:
        reasons = [line for line in str(error).splitlines() if line.startswith("- ")]
        known = ("not clean", "is there already", "no section", "nothing under")
        assert all(any(word in reason for word in known) for reason in reasons), reasons
