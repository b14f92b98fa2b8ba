"""Prometheus's text format, from Telegraf (`data_format = "prometheus"`) or from a script.

A series without a time gets the record's time.
"""

from __future__ import annotations

import re
from functools import lru_cache

from clienthealth.model.samples import Processes
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import epoch, number
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._prometheus import Labels, series

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_SERIES = re.compile(
    rf"({_NAME})(?:\{{((?:[^\"}}]|\"(?:[^\"\\]|\\.)*+\")*+)\}})?[ \t]+"
    r"([-+]?(?:[0-9.]+(?:[eE][-+]?\d+)?|Inf|NaN|inf|nan))(?:[ \t]+(-?\d{1,19}))?[ \t\r]*+(?:#.*)?"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"[ \t]*+,?[ \t]*+')
_DESCRIBED = re.compile(rf"# (?:HELP {_NAME} |TYPE {_NAME} (?:counter|gauge|histogram|summary|untyped|unknown|info)\b)")
_ESCAPED = re.compile(r"\\(.)")


def _recognise(record: Record) -> bool:
    first, _, _ = record.text.partition("\n")
    if first.startswith("# "):
        return _DESCRIBED.match(first) is not None
    match = _SERIES.fullmatch(first)
    return match is not None and match[2] is not None and _labels(match[2]) is not None


def _decode(record: Record) -> list[Snapshot]:
    processes = Processes()
    for line in record.text.split("\n"):
        if not line or line.isspace() or line[0] == "#":
            continue
        match = _SERIES.fullmatch(line)
        labels = _labels(match[2] or "") if match is not None else None
        if match is None or labels is None:
            processes.broken += 1
            continue
        if of_client := series(match[1], labels):
            process, subject, name = of_client
            moment = epoch(float(match[4])) if match[4] else record.ts_ms
            processes.at(moment, process).add(subject, name, number(match[3]))
    return processes.snapshots()


@lru_cache(maxsize=16_384)
def _labels(written: str) -> Labels | None:
    labels = []
    at = 0
    while at < len(written):
        if (one := _LABEL.match(written, at)) is None:
            return None
        value = _ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], one[2])
        labels.append((one[1], value))
        at = one.end()
    return tuple(labels)


FORMAT = Format("prometheus_text", "metrics", 82, _recognise, _decode, text=True)
