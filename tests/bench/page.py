"""Write RESULTS.md, the page of `make bench`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.results import FOLDER, NEVER, ROOT, Figure, Kept, Result, Table, folder

PAGE = ROOT / "tests" / "bench" / "RESULTS.md"
_DATA = re.compile(r"^<!-- measured (\{.*\}) -->$", re.MULTILINE)
_OWN = {"date": "date", "commit": "commit", "load before": "machine load before the run:", "took": "took"}


def update(titles: Mapping[str, str], quick: bool) -> Path:
    page = folder(quick) / "RESULTS.md" if quick else PAGE
    results: dict[str, Kept] = {}
    for kept in sorted((*_on_page(page), *_measured(quick)), key=lambda kept: kept.conditions["date"]):
        results[kept.name] = kept
    page.write_text(_text(titles, [results[name] for name in titles if name in results], quick), encoding="utf-8")
    return page


def merged(name: str, newer: Result, quick: bool) -> Result:
    """Merge a result with earlier ones. A newer row replaces an earlier row with the same first two cells."""
    found = [kept.result for kept in (*_on_page(PAGE), *_measured(quick)) if kept.name == name]
    figures: dict[str, Figure] = {}
    rows: dict[tuple[str, ...], Sequence[str]] = {}
    for result in (*found, newer):
        figures |= {figure.what: figure for figure in result.figures}
        same = [table for table in result.tables if table.head == newer.tables[0].head]
        rows |= {tuple(row[:2]): row for table in same for row in table.rows}
    tables = [Table(newer.tables[0].head, [*rows.values()])]
    return Result([*figures.values()], newer.how, tables, newer.notes)


def lines(kept: Kept) -> Iterator[str]:
    for figure in kept.result.figures:
        met = {True: "met", False: "MISSED", None: ""}[figure.met]
        target = "" if figure.target is None else f"target {_target(figure)}"
        value = _number(figure.value, figure.unit)
        yield f"{figure.what:<52} {value:>14}  {target:<24} {met:<7} {figure.note}".rstrip()


def _on_page(page: Path) -> list[Kept]:
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return [Kept.read(json.loads(data.replace("- ->", "-->"))) for data in _DATA.findall(text)]


def _measured(quick: bool) -> list[Kept]:
    paths = (FOLDER / "quick" if quick else FOLDER).glob("*.json")
    return [Kept.read(json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def _text(titles: Mapping[str, str], kept: Sequence[Kept], quick: bool) -> str:
    parts = [
        "# What the monitor costs\n\nWritten by `make bench`. The complete monitor runs on one machine, with all "
        "sinks, a real broker and generated data. Each section says how its figures were measured."
    ]
    if quick:
        parts.append("**These are short runs, to try the benchmark itself: no results.**")
    parts.append(_machines(kept))
    parts.append(_overview(kept))
    missing = [title for name, title in titles.items() if name not in {result.name for result in kept}]
    if missing:
        parts.append("Not measured yet: " + "; ".join(missing) + ".")
    parts += [_section(titles[result.name], result) for result in kept]
    return "\n\n".join(part for part in parts if part) + "\n"


def _machines(kept: Sequence[Kept]) -> str:
    descriptions = {
        ", ".join(f"{name} {value}" for name, value in result.conditions.items() if name not in _OWN) for result in kept
    }
    return "\n".join(f"Machine: {conditions}." for conditions in sorted(descriptions))


def _overview(kept: Sequence[Kept]) -> str:
    rows = [
        [
            figure.what,
            _number(figure.value, figure.unit),
            _target(figure),
            {True: "met", False: "**missed**", None: ""}[figure.met],
            "" if figure.peer is None else _number(figure.peer, figure.unit),
            figure.note,
        ]
        for result in kept
        for figure in result.result.figures
    ]
    return _table(Table(["", "ours", "target", "", "Kafka Streams", ""], rows)) if rows else ""


def _section(title: str, kept: Kept) -> str:
    own = ", ".join(f"{word} {kept.conditions[name]}" for name, word in _OWN.items() if name in kept.conditions)
    parts = [f"## {title}", kept.result.how, f"`python -m tests.bench {kept.name}`: {own}."]
    parts += [_table(table) for table in kept.result.tables]
    if kept.result.notes:
        parts.append("\n".join(f"* {note}" for note in kept.result.notes))
    data = json.dumps(kept.as_json(), ensure_ascii=False).replace("-->", "- ->")
    return "\n\n".join([*parts, f"<!-- measured {data} -->"])


def _table(table: Table) -> str:
    rows = [table.head, ["---"] * len(table.head), *table.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≤' if figure.within == 'most' else '≥'} {_number(figure.target, figure.unit)}"


def _number(value: float, unit: str) -> str:
    if (value, unit) == (NEVER, "s"):
        return "never"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{'' if unit == '/s' else ' '}{unit}".rstrip()
