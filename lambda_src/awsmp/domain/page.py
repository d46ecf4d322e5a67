"""The registration page as it is delivered: files with placeholders, filled with values made elsewhere.

The values are ready for the place where they go (escaped where that is HTML), because the same files are
filled by Terraform where a content network serves them. Here they are only put in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Final

from awsmp.domain.errors import Misconfigured

INDEX: Final = "index.html"

#: The page's other files; a request for any other name finds nothing.
ASSETS: Final[Mapping[str, str]] = {
    "app.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
}

#: Files that are served as they are: script code may contain what looks like a placeholder.
_RAW: Final = frozenset({"app.js"})


@dataclass(frozen=True, slots=True)
class Page:
    """The page of one deployment: its texts as packaged, by name, and its values, a JSON map of texts."""

    files: Mapping[str, str]
    values: str

    def file(self, name: str) -> str:
        """Return a file with its values put in.

        Raises
        ------
        Misconfigured
            A placeholder has no value, the values are malformed, or the file is not packaged.
        """
        text = self.files.get(name)
        if text is None:
            raise Misconfigured(f"the page's file {name} is not in the package")
        if name in _RAW:
            return text
        try:
            return Template(text).substitute(self._values())
        except (KeyError, ValueError) as error:
            raise Misconfigured(f"the page's file {name} has a placeholder without a value") from error

    def _values(self) -> dict[str, str]:
        try:
            values = json.loads(self.values)
        except ValueError as error:
            raise Misconfigured("PAGE_VALUES is no JSON map of texts") from error
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise Misconfigured("PAGE_VALUES is no JSON map of texts")
        return values
