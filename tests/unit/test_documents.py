"""What the documents claim of the tests is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("modules/*/README.md"),
        *ROOT.glob("examples/*/README.md"),
    ]
)
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(test_[a-z0-9_]{20,})\b(?!\.py|\*)", text))
    assert {test for test in named if f"def {test}(" not in TESTS} == set()


_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
_INLINE_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.M)
_ATTRIBUTE = re.compile(r"(?:href|src)=\"([^\"]+)\"")
_OUTSIDE = re.compile(r"[a-z][a-z+.-]*:")


def links(text: str) -> list[str]:
    """Return the targets of a document's links and pictures, those outside of the repository left out."""
    prose = _CODE.sub("", text)
    found = [target for kind in (_INLINE_LINK, _REFERENCE, _ATTRIBUTE) for target in kind.findall(prose)]
    return [target for target in found if not _OUTSIDE.match(target)]


def anchors(text: str) -> set[str]:
    """Return what a link into a document may name: its headings, as code hosts spell them, and ids."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    found = set(re.findall(r"(?:id|name)=\"([^\"]+)\"", prose))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose, re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = next(n for n in range(1000) if (f"{slug}-{n}" if n else slug) not in found)
        found.add(f"{slug}-{number}" if number else slug)
    return found


def broken(document: Path) -> list[str]:
    """Return the links of a document to no file, to no heading or out of the repository."""
    return [link for link in links(document.read_text(encoding="utf-8")) if not _leads(document, link)]


def _leads(document: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    inside = target.is_relative_to(ROOT) or target.is_relative_to(document.parent)
    if not inside or not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target.read_text(encoding="utf-8")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_path_and_link_in_a_document_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:docs|examples|modules|sandbox|tests|lambda_src)/[\w./-]+)`", text)
    assert broken(document) == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        ("[a](other.md)", True),
        ("[a](other.md#two-words--more)", True),
        ("[a](other.md#again-1)", True),
        ("[a](other.md#own)", True),
        ("[a](#here)", True),
        ("[a\nb](other.md)", True),
        ("`[a](gone.md)`", True),
        ("[a](https://example.com/gone)", True),
        ("[a](gone.md)", False),
        ("[a](other.md#gone)", False),
        ("[a](other.md#in-code)", False),
        ("[a](#gone)", False),
        ('<a href="gone.md">a</a>', False),
        ("[a]\n\n[a]: gone.md", False),
        ("[a](../../outside.md)", False),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, link: str, leads: bool) -> None:
    (tmp_path / "other.md").write_text(
        '# Two `words` & more\n\n## Again\n\n## Again\n\n<a id="own"></a>\n\n```sh\n# In code\n```\n'
    )
    document = tmp_path / "document.md"
    document.write_text(f"# Here\n\n{link}\n")

    assert (broken(document) == []) is leads


def test_the_readme_leads_to_every_page_of_the_docs() -> None:
    """By itself, or through the list of pages in the ``README.md`` of a page's folder."""
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        reached.add(document)
        if document.name != "README.md":
            continue
        targets = {
            (document.parent / link.partition("#")[0]).resolve()
            for link in links(document.read_text("utf-8"))
        }
        pages = {target / "README.md" if target.is_dir() else target for target in targets}
        waiting += [page for page in pages - reached if page.suffix == ".md" and page.exists()]
    pages = {path for path in DOCUMENTS if path.parent != ROOT}
    assert sorted(map(name, pages - reached)) == []


def test_the_upgrade_guide_lists_every_table_and_no_address_that_is_not_there() -> None:
    guide = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in guide.splitlines() if re.match(r"\| \w+ \| `", line)]
    listed = {
        (row[0].strip("| "), address)
        for row in rows
        for address in re.findall(r"`(?:module\.)?([\w.]+)", row[1])
        if not address.startswith((".", "aws_sqs_queue"))
    }
    sources = {
        path.parent.name: "\n".join(each.read_text(encoding="utf-8") for each in path.parent.glob("*.tf"))
        for path in ROOT.glob("modules/*/README.md")
    }
    tables = {
        (module, f"aws_dynamodb_table.{table}")
        for module, text in sources.items()
        for table in re.findall(r'^resource "aws_dynamodb_table" "(\w+)"', text, re.M)
    }
    assert tables <= listed
    for module, address in listed - {row for row in listed if row[0] == "all"}:
        kind, _, label = address.partition(".")
        declared = f'resource "{kind}" "{label}"' if kind.startswith("aws_") else f'module "{kind}"'
        assert declared in sources[module], (module, address)
