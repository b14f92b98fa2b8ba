"""Write RESULTS.md, the page of `make bench`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.results import FOLDER, NEVER, ROOT, Figure, Kept, Result, Table, folder

PAGE, DATA = ROOT / "tests" / "bench" / "RESULTS.md", ROOT / "tests" / "bench" / "results.json"
OF_MACHINE = ("CPU", "Python", "Spark", "Java", "broker")


def update(titles: Mapping[str, str], quick: bool) -> Path:
    """Write the page from the newest results, and store these results in DATA."""
    results: dict[str, Kept] = {}
    for kept in sorted((*_stored(quick), *_cached(quick)), key=lambda kept: kept.conditions["date"]):
        results[kept.name] = kept
    newest = [results[name] for name in titles if name in results]
    if not quick:
        text = ",\n".join(json.dumps(kept.as_json(), ensure_ascii=False) for kept in newest)
        DATA.write_text(f"[\n{text}\n]\n", encoding="utf-8")
    page = folder(quick) / "RESULTS.md" if quick else PAGE
    page.write_text(_text(titles, newest, quick), encoding="utf-8")
    return page


def merged(name: str, newer: Result, quick: bool) -> Result:
    """Merge a result with earlier results. A newer row replaces an earlier row with the same first two cells."""
    found = [kept.result for kept in (*_stored(quick), *_cached(quick)) if kept.name == name]
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
        yield f"{figure.what:<72} {value:>14}  {target:<24} {met:<7} {figure.note}".rstrip()


def _stored(quick: bool) -> list[Kept]:
    if quick or not DATA.exists():
        return []
    return [Kept.read(data) for data in json.loads(DATA.read_text(encoding="utf-8"))]


def _cached(quick: bool) -> list[Kept]:
    paths = (FOLDER / "quick" if quick else FOLDER).glob("*.json")
    return [Kept.read(json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def _text(titles: Mapping[str, str], kept: Sequence[Kept], quick: bool) -> str:
    parts = [
        "# What the monitor costs\n\n`make bench` measures all figures and writes this page. [The file "
        "results.json](results.json) contains the same figures, the commit of each run, and the machine load before "
        "the run. In most measurements, the complete monitor runs on one machine, with all outputs, a real broker and "
        "generated input."
    ]
    if quick:
        parts.append("**These are short runs, to try the benchmark itself: no results.**")
    machines = list(dict.fromkeys(_machine(result) for result in kept))
    rows = [[_letter(number), *machine] for number, machine in enumerate(machines)]
    parts += ["## Machines", _table(Table(["machine", *OF_MACHINE], rows))]
    parts += [
        "## Figures with a target",
        _table(Table(_OVERVIEW, [row for one in kept for row in _rows(titles, one, machines)])),
    ]
    missing = [title for name, title in titles.items() if name not in {result.name for result in kept}]
    if missing:
        parts.append("Measurements without a result: " + "; ".join(missing) + ".")
    parts += [_section(titles[result.name], result) for result in kept]
    return "\n\n".join(parts) + "\n"


_OVERVIEW = ("figure", "measured", "target", "measurement", "date", "machine")


def _rows(titles: Mapping[str, str], kept: Kept, machines: Sequence[tuple[str, ...]]) -> Iterator[list[str]]:
    anchor = re.sub(r"[^\w -]", "", titles[kept.name]).lower().replace(" ", "-")
    where = f"[`{kept.name}`](#{anchor})", kept.conditions["date"][:10], _letter(machines.index(_machine(kept)))
    for figure in kept.result.figures:
        if figure.target is not None:
            yield [
                figure.what,
                _measured(figure),
                f"{_target(figure)}, {'met' if figure.met else '**missed**'}",
                *where,
            ]


def _measured(figure: Figure) -> str:
    beside = [figure.note] if figure.note else []
    if figure.peer is not None:
        beside.append(f"Kafka Streams: {_number(figure.peer, figure.unit)}")
    return _number(figure.value, figure.unit) + (f" ({'; '.join(beside)})" if beside else "")


def _machine(kept: Kept) -> tuple[str, ...]:
    return tuple(kept.conditions.get(name, "–") for name in OF_MACHINE)


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _section(title: str, kept: Kept) -> str:
    repeat = f"`python -m tests.bench {kept.name}` repeats the measurement in {kept.conditions['took']}."
    parts = [f"## {title}", kept.result.how, repeat]
    parts += [_table(table) for table in kept.result.tables]
    others = [f"{figure.what}: {_measured(figure)}" for figure in kept.result.figures if figure.target is None]
    if others or kept.result.notes:
        parts.append("\n".join(f"* {line}" for line in (*others, *kept.result.notes)))
    return "\n\n".join(parts)


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
    if not unit and value == round(value):
        return f"{value:,.0f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    return f"{value:,.{digits}f}{'' if unit == '/s' else ' '}{unit}".rstrip()
