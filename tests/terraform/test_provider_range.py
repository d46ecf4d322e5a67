"""No source uses what provider 6 dropped or deprecates: tests plan with 5.100, users may have the newest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import hcl2
import pytest

from tests.terraform.tool import REPOSITORY

SCHEMA: Final = json.loads((Path(__file__).parent / "provider6_schema.json").read_text())
DIRECTORIES = sorted(
    {path.parent for folder in ("modules", "examples") for path in (REPOSITORY / folder).glob("*/*.tf")}
)

#: Terraform's own, in every resource.
META = {"count", "depends_on", "for_each", "lifecycle", "provider"}

#: What a file without a resource or data source of the provider does not have.
HAS_AWS: Final = r'\b(data|resource)\s+"?aws_'

#: 5.100 has nothing else, and 6 still takes it (design, section 2).
EXEMPT = {
    ("aws_dynamodb_table", "global_secondary_index.hash_key"),
    ("aws_dynamodb_table", "global_secondary_index.range_key"),
}


def blocks(value: Any) -> list[dict[str, Any]]:
    """Return the blocks of an argument's value: none when it is an expression."""
    if isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        return value
    return []


def arguments(body: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the dotted arguments of a resource's body, those of ``dynamic`` blocks as if they were static."""
    for name, value in body.items():
        if name.startswith("__") or (not path and name in META):
            continue
        if name == "dynamic":
            for dynamic in blocks(value):
                for label, inner in dynamic.items():
                    if label.startswith("__"):
                        continue
                    argument = path + label.strip('"')
                    yield argument
                    for content in blocks(inner["content"]):
                        yield from arguments(content, f"{argument}.")
            continue
        yield path + name
        for inner in blocks(value):
            yield from arguments(inner, f"{path}{name}.")


@cache
def used(directory: Path) -> frozenset[tuple[str, str]]:
    """Return every resource type with every argument that a module gives it."""
    texts = (file.read_text() for file in sorted(directory.glob("*.tf")))
    # To parse all of them takes seconds.
    return frozenset(pair for text in texts if re.search(HAS_AWS, text) for pair in used_in(text))


@cache
def used_in(text: str) -> frozenset[tuple[str, str]]:
    """Return the same of one file; some are in several modules."""
    return frozenset(_arguments_in(hcl2.loads(text)))


def _arguments_in(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for kind in ("data", "resource"):
        for block in content.get(kind, []):
            for quoted, named in block.items():
                resource = quoted.strip('"')
                if not resource.startswith("aws_"):
                    continue
                for body in named.values():
                    if isinstance(body, dict):
                        yield from ((resource, argument) for argument in arguments(body))


def exists(resource: str, argument: str) -> bool:
    """Tell whether provider 6 has an argument; what lies below an expression's value is the caller's."""
    node = SCHEMA["resources"][resource]
    for part in argument.split("."):
        if part not in node:
            return False
        node = node[part]
        if not node:
            return True
    return True


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_argument_exists_in_provider_6_and_is_not_deprecated(directory: Path) -> None:
    found = used(directory)

    unknown = {(r, a) for r, a in found if r not in SCHEMA["resources"] or not exists(r, a)}
    deprecated = {(r, a) for r, a in found if a in SCHEMA["deprecated"].get(r, [])}
    assert unknown == set()
    assert deprecated - EXEMPT == set()


def test_the_check_sees_nested_and_dynamic_arguments() -> None:
    every = {pair for directory in DIRECTORIES for pair in used(directory)}

    assert len(every) > 250
    assert ("aws_dynamodb_table", "server_side_encryption.kms_key_arn") in every
    assert ("aws_lambda_event_source_mapping", "scaling_config.maximum_concurrency") in every
    assert every >= EXEMPT


@pytest.mark.parametrize(
    ("resource", "argument"),
    [
        ("aws_api_gateway_deployment", "stage_name"),
        ("aws_api_gateway_deployment", "canary_settings"),
        ("aws_lambda_function", "no_such_block.enabled"),
        ("aws_dynamodb_table", "ttl.no_such_argument"),
    ],
)
def test_what_provider_6_dropped_is_not_in_the_schema(resource: str, argument: str) -> None:
    assert not exists(resource, argument)
