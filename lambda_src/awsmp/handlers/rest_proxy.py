"""An API Gateway REST API's Lambda proxy integration (payload format 1.0): events in, answers out.

Routes are told by ``resource``, the path as the API defines it. It is the same behind a stage, a custom
domain with a base path and a content network; the request's path is not, and guessing the stage's prefix
from it goes wrong where a stage is called like the beginning of a path.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from awsmp.domain.errors import MeteringError
from awsmp.domain.http import SECURITY_HEADERS, Request, Response
from awsmp.domain.ports import Telemetry


class RequestFailed(MeteringError):
    """A defect of ours failed the request. The message holds nothing that the request did."""


def serve(
    event: Mapping[str, Any], answer: Callable[[Request], Response], telemetry: Telemetry
) -> dict[str, Any]:
    """Return the answer to a proxy event in the integration's form, without body for a HEAD request.

    Raises
    ------
    RequestFailed
        ``answer`` raised; API Gateway then answers 502 with a fixed text, and the function's error counts.
        The defect's own text could hold a buyer's data and would be logged by the runtime, so that only its
        type is told.
    """
    request = _request(event)
    try:
        response = answer(request)
    except Exception as error:  # noqa: BLE001 - raised again, without its text
        telemetry.error("a request failed by a defect", error=type(error).__name__)
        raise RequestFailed(f"a request failed by a defect: {type(error).__name__}") from None
    return {
        "statusCode": response.status,
        "headers": {**SECURITY_HEADERS, **response.headers},
        "body": "" if request.method == "HEAD" else response.body,
        "isBase64Encoded": False,
    }


def _request(event: Mapping[str, Any]) -> Request:
    headers = event.get("headers") or {}
    return Request(
        method=str(event.get("httpMethod") or ""),
        resource=str(event.get("resource") or ""),
        body=_body(event),
        headers={str(name).lower(): str(value) for name, value in headers.items() if value is not None},
        path_parameters=event.get("pathParameters") or {},
    )


def _body(event: Mapping[str, Any]) -> bytes:
    """Decode base64 only where it is flagged; a body that is flagged and is none counts as empty."""
    text = str(event.get("body") or "")
    if event.get("isBase64Encoded") is not True:
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
