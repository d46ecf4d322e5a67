"""The recorded usage trace: who used what, at which second."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

TRACE: Final = Path(__file__).resolve().parents[2] / "data" / "web-usage-trace.csv.gz"


@dataclass(frozen=True, slots=True)
class Usage:
    """``quantity`` of ``dimension`` that ``customer`` used in the second ``offset`` of the trace."""

    offset: int
    customer: str
    dimension: str
    quantity: int

    @property
    def hour(self) -> int:
        """The hour of the trace, from 0."""
        return self.offset // 3600


def read_trace(path: Path = TRACE) -> list[Usage]:
    """Return the trace in time order."""
    with gzip.open(path, "rt", newline="") as stream:
        rows = [
            Usage(int(row["offset_seconds"]), row["customer"], row["dimension"], int(row["quantity"]))
            for row in csv.DictReader(stream)
        ]
    return sorted(rows, key=lambda usage: (usage.offset, usage.customer, usage.dimension))


def totals(trace: Iterable[Usage]) -> dict[str, int]:
    """Return the sum of each dimension, counted from the trace alone."""
    sums: dict[str, int] = {}
    for usage in trace:
        sums[usage.dimension] = sums.get(usage.dimension, 0) + usage.quantity
    return sums


def hours_of(trace: Iterable[Usage], customer: str) -> set[int]:
    """Return the hours in which ``customer`` used anything."""
    return {usage.hour for usage in trace if usage.customer == customer}


def instant(start: datetime, offset: float) -> datetime:
    """Return the simulated instant of a trace offset."""
    return start + timedelta(seconds=offset)
