"""Partial batch responses of a table's stream: what fails comes again, and holds back its own item only.

Lambda goes back to the first record that is reported. What was done after it comes again then, and is known
as done to whoever receives it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from awsmp.domain.errors import MeteringError, PartialFailure
from awsmp.domain.ports import Telemetry


def each_record(
    event: Mapping[str, Any], work: Callable[[Mapping[str, Any]], object], telemetry: Telemetry
) -> dict[str, Any]:
    """Run ``work`` on every record, in order; return the sequence numbers of those that are to come again.

    After a failure the later records of the same item are not run, so that its changes keep their order.

    Raises
    ------
    PartialFailure
        No record was done: the invocation counts as an error, and the whole batch comes again.
    """
    records = event["Records"]
    held: set[str] = set()
    failed: list[str] = []
    for record in records:
        change = record["dynamodb"]
        key = json.dumps(change.get("Keys"), sort_keys=True)
        if key in held or not _done(record, work, telemetry):
            held.add(key)
            failed.append(change["SequenceNumber"])
    if failed and len(failed) == len(records):
        raise PartialFailure(f"all {len(failed)} stream records of the batch failed")
    return {"batchItemFailures": [{"itemIdentifier": number} for number in failed]}


def _done(
    record: Mapping[str, Any], work: Callable[[Mapping[str, Any]], object], telemetry: Telemetry
) -> bool:
    try:
        work(record)
    except Exception as error:  # noqa: BLE001 - the record is reported as failed and comes again
        # Our own errors' texts hold no buyer's data; a foreign one might.
        told = str(error) if isinstance(error, MeteringError) else ""
        telemetry.error(
            "a stream record failed and comes again",
            event=record.get("eventID"),
            error=type(error).__name__,
            told=told,
        )
        return False
    return True
