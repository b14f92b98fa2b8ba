"""The native filters never hide a fault from the judges, and never call fine what a judge cannot judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.formats import TOPIC_METRIC_NAMES
from clienthealth.modes import MIN_READINGS, FailureMode, modes
from clienthealth.records import CLIENT_METRICS, CONFIG_OPTIONS, ClientWindow, Reading
from clienthealth.windows import WindowColumns
from tests.arbitrary import arbitrary_window
from tests.recording_loader import folders, processes
from tests.scenarios import scenarios

ROWS = """row int, client struct<kind:string>, config array<string>, events array<struct<signature:string>>,
readings array<struct<ts_ms:bigint,values:array<double>,
    topics:array<struct<topic:string,partition:int,thread:string,values:array<double>>>>>,
dumps array<struct<ts_ms:bigint,threads:array<struct<name:string,frames:array<string>>>>>"""


def recorded() -> list[ClientWindow]:
    found = []
    for folder in folders():
        for process in processes(folder):
            for client in process.clients:
                gone = process.departure(client)
                found += [*process.windows(client), *process.windows(client, 10_000), *([gone] if gone else [])]
    return found


def made() -> list[ClientWindow]:
    return [scenario.window for of_mode in scenarios().values() for scenario in of_mode]


def arbitrary() -> list[ClientWindow]:
    return [arbitrary_window(seed, ["producer", "consumer", "legacy-consumer"]) for seed in range(600)]


def row(number: int, window: ClientWindow) -> dict[str, Any]:
    kind = window.client.kind or ""
    return {
        "row": number,
        "client": {"kind": kind},
        "config": [window.config.get(option) for option in CONFIG_OPTIONS] if window.config else None,
        "events": [{"signature": event.signature} for event in window.logs],
        "readings": [_reading(reading, list(CLIENT_METRICS[kind])) for reading in window.readings],
        "dumps": [
            {"ts_ms": d.ts_ms, "threads": [{"name": t.name, "frames": list(t.frames)} for t in d.threads]}
            for d in window.dumps
        ],
    }


def _reading(reading: Reading, names: Sequence[str]) -> dict[str, Any]:
    topics = [
        {
            "topic": topic.topic,
            "partition": topic.partition,
            "thread": topic.thread,
            "values": _values(topic.metrics, TOPIC_METRIC_NAMES),
        }
        for topic in reading.topics
    ]
    return {"ts_ms": reading.ts_ms, "values": _values(reading.metrics, names), "topics": topics or None}


def _values(metrics: Mapping[str, float], names: Sequence[str]) -> list[float | None]:
    return [None if (value := metrics.get(name)) is None else float(value) for name in names]


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> list[tuple[ClientWindow, dict[str, tuple[bool, str | None]]]]:
    """Windows with what the native filters say of each mode: suspected, and why it cannot be judged."""
    windows = [*recorded(), *made(), *arbitrary()]
    frame = spark.createDataFrame([row(number, window) for number, window in enumerate(windows)], ROWS)
    w = WindowColumns()
    said = {
        mode.id: F.struct(
            mode.suspects(w, mode.thresholds).alias("suspect"), mode.blind(w, mode.thresholds).alias("blind")
        )
        for mode in modes().values()
    }
    rows = w.with_series(frame).select("row", *(column.alias(name) for name, column in said.items())).collect()
    return [
        (windows[found["row"]], {mode: (found[mode]["suspect"], found[mode]["blind"]) for mode in said})
        for found in rows
    ]


@pytest.mark.parametrize("mode", list(modes().values()), ids=lambda mode: mode.id)
def test_what_a_judge_finds_a_filter_suspects(judged: Any, mode: FailureMode) -> None:
    hidden = []
    for window, said in judged:
        if window.client.kind in mode.kinds and mode.absence == (window.departed_ms is not None):
            verdict = mode.judge(window, window.end_ms, mode.thresholds)
            suspect, _ = said[mode.id]
            assert suspect is not None
            if verdict.status in ("suspected", "confirmed") and not suspect:
                hidden.append((window, verdict))
    assert hidden == []


@pytest.mark.parametrize("mode", [m for m in modes().values() if not m.absence], ids=lambda mode: mode.id)
def test_what_a_filter_calls_fine_or_unknown_a_judge_does_too(judged: Any, mode: FailureMode) -> None:
    for window, said in judged[: len(recorded()) + len(made())]:
        suspect, blind = said[mode.id]
        enough = len(window.readings) >= MIN_READINGS and window.departed_ms is None
        if window.client.kind in mode.kinds and enough and not suspect:
            verdict = mode.judge(window, window.end_ms, mode.thresholds)
            assert (verdict.status, verdict.reason) == ("ok" if blind is None else "unknown", blind)


def test_healthy_clients_do_not_reach_python(judged: Any) -> None:
    reached = [
        (window.client.service, window.start_ms, mode.id)
        for window, said in judged
        for mode in modes().values()
        if window.client.service in ("c1_healthy", "healthy-4.1") and window.departed_ms is None
        if window.client.kind in mode.kinds and not mode.absence and said[mode.id][0]
    ]
    assert len(reached) <= 2, reached
