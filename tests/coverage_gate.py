"""Branch coverage of the code that decides money: domain, use cases and handlers, each at least 95 %.

``python -m tests.coverage_gate build/coverage.json`` reads coverage.py's JSON report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

REQUIRED: Final = 95.0
LAYERS: Final = ("domain", "usecases", "handlers")


def layer_coverage(report: dict[str, dict[str, dict[str, dict[str, int]]]], layer: str) -> float:
    """Return the percentage of lines and branches of ``layer`` that the tests took."""
    covered = total = 0
    for path, file in report["files"].items():
        if f"awsmp/{layer}/" in path:
            numbers = file["summary"]
            covered += numbers["covered_lines"] + numbers["covered_branches"]
            total += numbers["num_statements"] + numbers["num_branches"]
    return 100 * covered / total if total else 0.0


def main(path: str) -> int:
    """Print one line a layer; 1 when a layer is below the requirement."""
    report = json.loads(Path(path).read_text())
    failed = False
    for layer in LAYERS:
        percent = layer_coverage(report, layer)
        failed |= percent < REQUIRED
        print(f"coverage of {layer}: {percent:.1f} % (at least {REQUIRED:.0f} %)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
