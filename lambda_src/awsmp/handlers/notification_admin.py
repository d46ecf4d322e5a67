"""Lambda of the administrator: invoked directly, so that IAM says who may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_notifications import Runtime, production_runtime
from awsmp.usecases.notifications.admin_api import AdminApi


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the direct invocation."""
    return run(event, context, production_runtime("notification-admin"))


def run(event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, Any]:
    """Answer one request; see AdminApi for requests and answers.

    Raises
    ------
    StoreUnavailable, Misconfigured, PartialFailure
        The table or a setting failed; the request can be made again.
    """
    answer = AdminApi(runtime.administration()).answer(event)
    if "error" in answer:
        runtime.telemetry.info("administrator's request refused", code=answer["error"])
    return answer
