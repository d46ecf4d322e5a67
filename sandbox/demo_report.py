"""The demonstration's report: one HTML file without anything from outside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from html import escape
from typing import Any, Final

from sandbox.demo_notifications import rows_of
from sandbox.simulation.reconciliation import Account, number

_KINDS: Final = ("billed", "pending", "surfaced")
_COLOURS: Final = {"billed": "#2f7d4f", "pending": "#b58900", "surfaced": "#b3372f"}

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right }
th:first-child, td:first-child, .text { text-align: left }
.good { color: #2f7d4f; font-weight: 600 } .bad { color: #b3372f; font-weight: 600 }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .4em 0 1em }
svg { width: 100%; height: auto } details { margin: 1rem 0 } summary { cursor: pointer }
.scroll { overflow-x: auto }
"""


def render(
    title: str,
    accounts: list[Account],
    report: Mapping[str, Any],
    facts: Iterable[tuple[str, str]],
) -> str:
    """Return the report as HTML. ``facts`` are (name, value) lines for the head."""
    balanced = not report["problems"]
    verdict = "every group balances" if balanced else f"{len(report['problems'])} problems"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}: <span class={'good' if balanced else 'bad'}>{escape(verdict)}</span></h1>",
        "<p>For every licence, account, dimension and hour: written = billed + pending + surfaced.</p>",
        _list(facts),
        "".join(f"<p class=bad>{escape(problem)}</p>" for problem in report["problems"]),
        "<h2>Totals</h2>",
        _totals(report["totals"]),
    ]
    for dimension in sorted(report["totals"]):
        parts += [f"<h2>By hour: {escape(dimension)}</h2>", _chart(accounts, dimension)]
    parts += [
        "<h2>Planted trouble and how it ended</h2>",
        _table(
            ("", "trouble", "outcome"),
            (
                ("ok" if each["asExpected"] else "BAD", each["name"], each["outcome"])
                for each in report["troubles"]
            ),
            text=3,
        ),
        "<h2>Who was told what</h2>",
        _table(("mail", "sent", "not sent"), rows_of(report["notifications"])),
        "<details><summary>Every recipient</summary>",
        _table(
            ("recipient", "told"),
            ((each["recipient"], ", ".join(each["kinds"])) for each in report["notifications"]["told"]),
            text=2,
        ),
        "</details>",
        _list(
            (each["recipient"], f"suppressed, {each['kind']}")
            for each in report["notifications"]["suppressed"]
        ),
        "<h2>By licence</h2>",
        _by(accounts, "licence", lambda account: f"{account.group[0][-12:]} of {account.group[1]}"),
        "<h2>By hour</h2>",
        _by(accounts, "hour", lambda account: account.group[3]),
        "<details><summary>Every group</summary>",
        _groups(accounts),
        "</details></html>",
    ]
    return "".join(parts)


def _list(facts: Iterable[tuple[str, str]]) -> str:
    return "<ul>" + "".join(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in facts) + "</ul>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]], *, text: int = 1) -> str:
    def cells(tag: str, row: Iterable[object]) -> str:
        return "".join(
            f"<{tag}{' class=text' if at < text else ''}>{escape(_plain(cell))}</{tag}>"
            for at, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{cells('th', heads)}</tr>{body}</table></div>"


def _plain(cell: object) -> str:
    if isinstance(cell, Decimal):
        return f"{number(cell):,}"
    return f"{cell:,}" if isinstance(cell, int | float) and not isinstance(cell, bool) else str(cell)


def _totals(totals: Mapping[str, Any]) -> str:
    rows: list[tuple[object, ...]] = []
    for dimension, line in totals.items():
        rows.append((dimension, *(line[name] for name in ("written", *_KINDS, "difference"))))
        rows += [(f"· {reason}", "", "", "", value, "") for reason, value in line["surfacedByReason"].items()]
    return _table(("dimension", "written", *_KINDS, "difference"), rows)


def _sums(account: Account) -> tuple[Decimal, Decimal, Decimal, Decimal]:
    return account.written, account.billed, account.pending, sum(account.surfaced.values(), Decimal(0))


def _by(accounts: Iterable[Account], name: str, key: Any) -> str:
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
    for account in accounts:
        label = f"{key(account)} | {account.group[2]}"
        sums[label] = [old + new for old, new in zip(sums[label], _sums(account), strict=True)]
    rows = ((label, *values) for label, values in sorted(sums.items()))
    return _table((f"{name} | dimension", "written", *_KINDS), rows)


def _groups(accounts: Iterable[Account]) -> str:
    rows = (
        (
            account.group[3],
            account.group[2],
            account.group[0][-12:],
            account.group[1],
            account.status or "",
            account.reason or "",
            *_sums(account),
        )
        for account in sorted(accounts, key=lambda each: (each.group[3], each.group[2], each.group[0]))
    )
    heads = ("hour", "dimension", "licence", "account", "status", "reason", "written", *_KINDS)
    return _table(heads, rows, text=6)


def _chart(accounts: Iterable[Account], dimension: str) -> str:
    """Return stacked bars, an hour each, of what became of a dimension's usage."""
    hours: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 3)
    for account in accounts:
        if account.group[2] == dimension:
            for at, value in enumerate(_sums(account)[1:]):
                hours[account.group[3]][at] += abs(value)
    highest = max((sum(parts) for parts in hours.values()), default=Decimal(0)) or Decimal(1)
    wide, high = 900, 220
    step = wide / max(1, len(hours))
    bars = []
    for at, (hour, parts) in enumerate(sorted(hours.items())):
        base = float(high)
        for kind, value in zip(_KINDS, parts, strict=True):
            size = float(value / highest) * (high - 10)
            if size:
                base -= size
                bars.append(
                    f'<rect x="{at * step + 1:.1f}" y="{base:.1f}" width="{step - 2:.1f}" '
                    f'height="{size:.1f}" fill="{_COLOURS[kind]}">'
                    f"<title>{hour}: {kind} {_plain(value)}</title></rect>"
                )
        if at % max(1, len(hours) // 12) == 0:
            bars.append(
                f'<text x="{at * step:.1f}" y="{high + 16}" font-size="11" fill="currentColor">'
                f"{hour[5:]}</text>"
            )
    key = "".join(f'<span style="background:{_COLOURS[kind]}"></span>{kind}' for kind in _KINDS)
    label = f"{escape(dimension)} by hour: highest {_plain(highest)}"
    return (
        f'<p class=key>{key}</p><svg viewBox="0 0 {wide} {high + 24}" role="img" aria-label="{label}">'
        f"{''.join(bars)}</svg>"
    )
