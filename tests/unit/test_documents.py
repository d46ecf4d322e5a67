"""What the documents claim of the tests is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("modules/*/README.md")])
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(test_[a-z0-9_]{20,})\b(?!\.py|\*)", text))
    assert {test for test in named if f"def {test}(" not in TESTS} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_path_and_link_in_a_document_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", text)
    links += re.findall(r'(?:href|src)="(?!https?://|#)([^"#]+)"', text)
    paths = re.findall(r"`((?:docs|examples|modules|sandbox|tests|lambda_src)/[\w./-]+)`", text)
    gone = [link for link in links if not (document.parent / link).exists()]
    gone += [path for path in paths if not (ROOT / path).exists()]
    assert gone == []
