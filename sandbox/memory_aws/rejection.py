"""How the engine below the clients says no; a client turns it into botocore's ClientError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Rejection(Exception):
    """A refused request: AWS error ``code``, ``message``, and modeled members of the answer in ``extra``."""

    def __init__(self, code: str, message: str, extra: Mapping[str, Any] | None = None) -> None:
        """Keep the parts that make up the error answer."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.extra = dict(extra or {})


def invalid(message: str) -> Rejection:
    """Return DynamoDB's ValidationException with ``message``."""
    return Rejection("ValidationException", message)
