"""Lambda of the page that verification links open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_verify import Runtime, production_runtime
from awsmp.handlers.rest_proxy import serve


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of ``/verify``."""
    return run(event, context, production_runtime("verify"))


def run(event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, Any]:
    """Answer one request; raises RequestFailed only for a defect of ours."""
    return serve(event, runtime.api().answer, runtime.telemetry)
