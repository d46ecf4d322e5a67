"""``make simulate``: the usage trace, with planted trouble, through every function on a simulated clock."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sandbox.simulation.play import START, Played, play
from sandbox.simulation.reconciliation import number, summary

#: Columns of what is printed into a file or a pipe.
WIDTH: Final = 110


def main(arguments: list[str] | None = None) -> int:
    """Run the simulation; 0 when every group balances and every trouble ended as it has to, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("build/simulate/report.json"))
    parser.add_argument("--json", action="store_true", help="print the report instead of tables")
    options = parser.parse_args(arguments)
    console = Console(stderr=options.json, width=None if sys.stdout.isatty() else WIDTH)
    began = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[at]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("simulating", total=1.0, at="")

        def progress(now: datetime, end: datetime) -> None:
            bar.update(task, completed=(now - START) / (end - START), at=f"{now:%Y-%m-%d %H:%M}")

        played = play(progress)
    report = played.report()
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps(report, indent=1) + "\n")
    if options.json:
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        _show(console, played, time.monotonic() - began, options.report)
    return 1 if report["problems"] else 0


def _show(console: Console, played: Played, seconds: float, path: Path) -> None:
    table = Table(title="Reconciliation: written = billed + pending + surfaced")
    table.add_column("dimension", no_wrap=True)
    for heading in ("written", "billed", "pending", "surfaced", "difference"):
        table.add_column(heading, justify="right")
    for dimension, line in sorted(summary(played.accounts).items()):
        cells = [line["written"], line["billed"], line["pending"], sum(line["surfaced"].values())]
        table.add_row(dimension, *(f"{number(cell):,}" for cell in cells), f"{number(line['difference']):,}")
        for reason, quantity in sorted(line["surfaced"].items()):
            table.add_row(f"  {reason}", "", "", "", f"{number(quantity):,}", "", style="dim")
    console.print(table)
    troubles = Table(title="Planted trouble and how it ended")
    troubles.add_column("")
    troubles.add_column("trouble")
    troubles.add_column("outcome")
    for name, ok, how in played.outcomes():
        troubles.add_row("ok" if ok else "BAD", name, how)
    console.print(troubles)
    requests = played.report()["requests"]
    console.print(
        f"{len(played.accounts):,} groups, {played.world.invocations:,} invocations, "
        f"{requests['count']} BatchMeterUsage requests ({requests['throttled']} throttled, "
        f"at most {requests['max_per_second']} a second), {seconds:.0f} s; report in {path}"
    )
    for problem in played.problems():
        console.print(f"problem: {problem}", style="bold red")


if __name__ == "__main__":
    sys.exit(main())
