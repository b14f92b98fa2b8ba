"""Compare results under faults with the calculated results, for each slice of input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Protocol

from tests.chaos.load import SECONDS, Published, Slice
from tests.chaos.published import Incident, Row, incidents, newest
from tests.chaos.world import NUDGED_MS, Run

FINAL_MS = 180_000
MINUTE_MS = 60_000
CLIENT = ("service", "instance", "client_id", "kind")
#: An incident may start up to three windows (90 s) earlier or later than calculated.
NEAR_MS = 90_000
SHOWN = 4


class Table(Protocol):
    def look(self) -> list[Row]: ...


class Tables(Protocol):
    @property
    def minutes(self) -> Table: ...

    @property
    def verdicts(self) -> Table: ...


def minutes(tried: Tables, calm: Tables, begin_ms: int, end_ms: int, strays: Set[str]) -> Iterator[str]:
    mine, theirs = (_minutes(one, begin_ms, end_ms) for one in (tried, calm))
    for doubled in (key for key, count in mine.items() if len(count) > 1):
        yield f"minute written twice: {_words(doubled)}"
    expected = {key for key in theirs if key[3] not in strays}
    keys = {key for key in mine if key[3] not in strays}
    yield from _few("minute lost", expected - keys)
    yield from _few("unexpected minute", keys - expected)
    for key in sorted(expected & keys, key=repr):
        a, b = mine[key][0], theirs[key][0]
        other = {name: (a[name], b[name]) for name in b if a[name] != b[name]}
        if other:
            yield f"minute differs: {_words(key)}: " + ", ".join(f"{n} {x!r}, not {y!r}" for n, (x, y) in other.items())


def _minutes(tables: Tables, begin_ms: int, end_ms: int) -> dict[tuple[Any, ...], list[Row]]:
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    for row in tables.minutes.look():
        if begin_ms <= row["minute"] < end_ms:
            by_key.setdefault((row["minute"], *(row[name] for name in CLIENT)), []).append(row)
    return by_key


def hidden(tables: Tables, begin_ms: int, end_ms: int) -> Iterator[str]:
    judged = (key for key, rows in _minutes(tables, begin_ms, end_ms).items() if rows[0]["status"] != "unknown")
    yield from _few("minute with a status other than unknown, although its input was lost", judged)


def verdicts(tried: Tables, calm: Tables, begin_ms: int, end_ms: int, strays: Set[str], ended: bool) -> Iterator[str]:
    try:
        mine, theirs = (_incidents(one, begin_ms, end_ms, strays) for one in (tried, calm))
    except ValueError as error:
        yield str(error)
        return
    for key in sorted(mine.keys() | theirs.keys()):
        a, b = mine.get(key, []), theirs.get(key, [])
        if len(a) != len(b):
            yield f"{key[0]} {key[1]}: {len(a)} incidents, not {len(b)}"
            continue
        for one, other in zip(a, b, strict=True):
            if one.status != other.status:
                yield f"{key[0]} {key[1]}: {one.status}, not {other.status}"
            if ended and one.end != other.end:
                yield f"{key[0]} {key[1]}: {one.end or 'open'}, not {other.end or 'open'}"
            if abs(one.changed_ms - other.changed_ms) > NEAR_MS:
                yield f"{key[0]} {key[1]}: {(one.changed_ms - other.changed_ms) // 1000} s off"


def _incidents(tables: Tables, begin_ms: int, end_ms: int, strays: Set[str]) -> dict[tuple[str, str], list[Incident]]:
    by_client: dict[tuple[str, str], list[Incident]] = {}
    for incident in incidents(tables.verdicts.look()):
        if begin_ms <= incident.changed_ms < end_ms and incident.client.rpartition("|")[2] not in strays:
            by_client.setdefault((incident.client, incident.mode), []).append(incident)
    return by_client


def accounts(run: Run, sent: Iterable[Published], begin_ms: int, end_ms: int) -> Iterator[str]:
    clients = list(sent)
    unreadable = {record.value for record in clients if record.unreadable}
    read, rejected = counted(run, begin_ms, end_ms)
    if read != len(clients):
        yield f"the history counts {read} records, not {len(clients)}"
    if rejected != len(unreadable):
        yield f"the history counts {rejected} rejected records, not {len(unreadable)}"
    lost = unreadable - {value for _, value in run.rejects.records}
    yield from _few("unreadable record that was not rejected", ((value,) for value in lost))


def counted(run: Run, begin_ms: int, end_ms: int) -> tuple[int, int]:
    rows = [row for row in run.history.quality.look() if begin_ms <= row["minute"] < end_ms]
    return sum(row["records"] for row in rows), sum(row["rejected"] for row in rows)


def strangers(run: Run, slices: Iterable[Slice]) -> Iterator[str]:
    sent = {record.value for one in slices for record in one.records if record.unreadable}
    yield from _few(
        "readable record that was rejected", {(value,) for _, value in run.rejects.look()} - {(v,) for v in sent}
    )


def shown(run: Run) -> list[str] | None:
    states = run.shown()
    if states is None:
        return ["the exporter is not healthy"]
    mine = Counter(_state(state) for state in states)
    theirs = Counter(_state(state) for state in newest(run.health.look()).values())
    return list(_few("state that differs between exporter and topic", (mine - theirs) | (theirs - mine)))


def _state(record: Mapping[str, Any]) -> tuple[Any, ...]:
    client = record["client"]
    return *(client[name] for name in CLIENT), record["window_end"], str([v["status"] for v in record["verdicts"]])


def _few(what: str, keys: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    listed = sorted(keys, key=repr)
    for key in listed[:SHOWN]:
        yield f"{what}: {_words(key)}"
    if len(listed) > SHOWN:
        yield f"{what}: {len(listed) - SHOWN} more"


def _words(key: tuple[Any, ...]) -> str:
    return " ".join(str(part) for part in key)


__all__ = ["FINAL_MS", "MINUTE_MS", "NUDGED_MS", "SECONDS"]
