"""The page's files as they lie in the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from awsmp.domain.page import ASSETS, INDEX


@cache
def packaged_page() -> Mapping[str, str]:
    """Return the text of every file of the page that is packaged, by name; read once per process."""
    folder = files("awsmp") / "page"
    packaged = ((name, folder / name) for name in (INDEX, *ASSETS))
    return {name: path.read_text(encoding="utf-8") for name, path in packaged if path.is_file()}
