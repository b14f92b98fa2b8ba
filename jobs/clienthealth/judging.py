"""Judgement in plain Python: rows of windows → verdicts, for the clients that a native filter let through.

`judge_windows` is what a Spark worker runs on the windows of one client; everything in it is pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clienthealth.modes import FailureMode, modes
from clienthealth.records import (
    CLIENT_METRICS,
    CONFIG_OPTIONS,
    STATUS_ORDER,
    TOPIC_METRICS,
    Client,
    ClientWindow,
    Evidence,
    LogEvent,
    Reading,
    Source,
    Thread,
    ThreadDump,
    TopicReading,
    Verdict,
)

Row = Mapping[str, Any]


def thresholds(mode: FailureMode, overrides: Mapping[str, Mapping[str, float]]) -> Any:
    """The thresholds in force: the mode's own, with what the settings say otherwise."""
    return dataclasses.replace(mode.thresholds, **overrides.get(mode.id, {}))


def judge_windows(
    windows: Sequence[ClientWindow], overrides: Mapping[str, Mapping[str, float]], now_ms: int, absence: bool = False
) -> list[Verdict]:
    """The verdicts of all modes that can befall the client, each the worst over its windows."""
    client = windows[-1].client
    verdicts = []
    for mode in modes().values():
        if client.kind in mode.kinds and mode.absence == absence:
            limits = thresholds(mode, overrides)
            verdicts.append(merged([mode.judge(window, now_ms, limits) for window in windows]))
    return verdicts


def merged(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdicts of one mode on overlapping windows as one: the worst holds, since the earliest onset of that fault.

    A window that cannot be judged does not outweigh one that can. Evidence is what the windows of the worst status
    rest on, each fact once.
    """
    worst = max(verdicts, key=lambda v: STATUS_ORDER.index(v.status))
    if worst.status in ("ok", "unknown"):
        return next(v for v in reversed(verdicts) if v.status == worst.status)
    found = [v for v in verdicts if v.unhealthy]
    latest = [v for v in found if v.status == worst.status][-1]
    onsets = [v.since_ms for v in found if v.since_ms is not None]
    return dataclasses.replace(
        latest, since_ms=min(onsets) if onsets else None, evidence=evidence_of(e for v in found for e in v.evidence)
    )


def evidence_of(facts: Iterable[Evidence], per_kind: int = 3) -> tuple[Evidence, ...]:
    """Facts in order of time, each once: of every kind the first and the newest ones, `per_kind` at most."""
    unique = sorted({(e.kind, e.text): e for e in facts}.values(), key=lambda e: e.ts_ms)
    kept: list[Evidence] = []
    for kind in dict.fromkeys(e.kind for e in unique):
        of_kind = [e for e in unique if e.kind == kind]
        kept += of_kind if len(of_kind) <= per_kind else [of_kind[0], *of_kind[-(per_kind - 1) :]]
    return tuple(sorted(kept, key=lambda e: e.ts_ms))


def client(row: Row) -> Client:
    """A struct of the client's identity as a value."""
    return Client(
        service=row["service"] or "",
        host=row["host"] or "",
        instance=row["instance"] or "",
        client_id=row["client_id"] or "",
        kind=row["kind"],
        library=row["library"],
        version=row["version"],
        group=row["group"],
    )


def window(who: Row, row: Row) -> ClientWindow:
    """A row of client windows (nested structs as mappings, arrays as lists) as a value."""
    kind = who["kind"]
    options = zip(CONFIG_OPTIONS, row["config"] or (), strict=False)
    return ClientWindow(
        client=client(who),
        start_ms=row["start_ms"],
        end_ms=row["end_ms"],
        readings=tuple(_reading(r, kind) for r in row["readings"] or ()),
        logs=tuple(_event(e) for e in row["events"] or ()),
        dumps=tuple(_dump(d) for d in row["dumps"] or ()),
        config={option: value for option, value in options if value is not None},
        departed_ms=row.get("departed_ms"),
    )


def _reading(row: Row, kind: str | None) -> Reading:
    return Reading(
        ts_ms=row["ts_ms"],
        metrics=_known(CLIENT_METRICS.get(kind or "", ()), row["values"]),
        topics=tuple(
            TopicReading(t["topic"], t["partition"], t["thread"], _known(TOPIC_METRICS, t["values"]))
            for t in row["topics"] or ()
        ),
        source=_source(row["source"]),
    )


def _known(names: Iterable[str], values: Sequence[float | None] | None) -> dict[str, float]:
    return {name: value for name, value in zip(names, values or (), strict=False) if value is not None}


def _event(row: Row) -> LogEvent:
    return LogEvent(
        ts_ms=row["ts_ms"],
        signature=row["signature"],
        text=row["text"],
        client_id=row["client_id"],
        logger=row["logger"],
        level=row["level"],
        thread=row["thread"],
        captures={key: value for key, value in dict(row["captures"] or ()).items() if value},
        source=_source(row["source"]),
    )


def _dump(row: Row) -> ThreadDump:
    threads = tuple(Thread(t["name"], t["state"], tuple(t["frames"] or ()), t["cpu_ms"]) for t in row["threads"])
    return ThreadDump(row["ts_ms"], threads, _source(row["source"]))


def _source(row: Row | None) -> Source | None:
    return None if row is None else Source(row["topic"], row["partition"], row["offset"])
