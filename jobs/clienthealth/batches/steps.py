"""Judgement of batches on Arrow: windows of clients → their verdicts, step by step, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clienthealth.health import verdict_from_json, verdict_json
from clienthealth.judging import judge_windows, merged, window
from clienthealth.records import Verdict
from clienthealth.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

ArrowFunction = Callable[["Iterable[pa.RecordBatch]"], "Iterable[pa.RecordBatch]"]
JUDGED = "key string, last_ms bigint, newest string, steps string"

#: The end of a window (epoch ms) and the verdicts that hold there.
Step = tuple[int, list[Verdict]]


def judge_rows(settings: Settings, now_ms: int) -> ArrowFunction:
    """A function for `mapInArrow`: clients with suspected windows → their verdicts, step by step, as JSON."""
    overrides = settings.modes

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            rows = [
                {
                    "key": row["key"],
                    "last_ms": row["last_ms"],
                    "newest": row["newest"],
                    "steps": json.dumps(
                        [
                            (end_ms, [verdict_json(v) for v in found])
                            for end_ms, found in steps_of(row, overrides, now_ms)
                        ]
                    ),
                }
                for row in batch.to_pylist()
            ]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=_JUDGED_ARROW(pa))

    return judge


def _JUDGED_ARROW(pa: Any) -> Any:  # noqa: N802
    return pa.schema([("key", pa.string()), ("last_ms", pa.int64()), ("newest", pa.string()), ("steps", pa.string())])


def steps_of(row: Mapping[str, Any], overrides: Mapping[str, Mapping[str, float]], now_ms: int) -> list[Step]:
    """A client's verdicts in order of time: judged where a filter suspects a mode, the filter's own word elsewhere.

    Windows overlap, so a step is a window and the one before it. Usually a batch holds just these two; one that
    works off a backlog holds many, and what was over in the first of them must not weigh on the last.
    """
    windows = sorted(row["windows"], key=lambda w: w["end_ms"])
    judged = [_verdicts(row["client"], live, overrides, now_ms) for live in windows]
    return [
        (windows[last]["end_ms"], [merged(of_mode) for of_mode in _by_mode(judged[max(0, last - 1) : last + 1])])
        for last in range(min(1, len(windows) - 1), len(windows))
    ]


def _verdicts(
    who: Mapping[str, Any], live: Mapping[str, Any], overrides: Mapping[str, Mapping[str, float]], now_ms: int
) -> list[Verdict]:
    found = [Verdict(quiet["mode"], quiet["status"], reason=quiet["reason"]) for quiet in live["quiet"]]
    if live["suspected"]:
        verdicts = judge_windows([window(who, live)], overrides, now_ms)
        found += [verdict for verdict in verdicts if verdict.mode in live["suspected"]]
    return found


def _by_mode(windows: Iterable[Iterable[Verdict]]) -> list[list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in (verdict for verdicts in windows for verdict in verdicts):
        found.setdefault(verdict.mode, []).append(verdict)
    return [verdicts for _, verdicts in sorted(found.items())]


def steps_from_json(text: str) -> list[Step]:
    """What `judge_rows` wrote into `steps`."""
    return [(end_ms, [verdict_from_json(v) for v in verdicts]) for end_ms, verdicts in json.loads(text)]
