"""Lambda of the fulfilment URL and the registration page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_page import PageRuntime, production_runtime
from awsmp.handlers.rest_proxy import serve


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of ``/``, ``/fulfillment`` and ``/assets/{file}``."""
    return run(event, context, production_runtime("page"))


def run(event: Mapping[str, Any], _context: Any, runtime: PageRuntime) -> dict[str, Any]:
    """Answer one request; raises RequestFailed only for a defect of ours."""
    return serve(event, runtime.delivery().answer, runtime.telemetry)
