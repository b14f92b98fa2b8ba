"""InfluxDB's line protocol, the default of Telegraf's Kafka output (`data_format = "influx"`).

A line without tags names no process, so the format does not accept such a line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from clienthealth.model.samples import Processes
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import epoch
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._prometheus import Labels
from clienthealth.read.formats.telegraf import add

_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[iu]?"
_FIELD = re.compile(
    rf'((?:[^\\,= \n]|\\.)++)=({_NUMBER}|[tTfF]|true|false|True|False|TRUE|FALSE|"(?:[^"\\]|\\.)*+")(?=[, ]|$)'
)
_LINE = re.compile(
    r"((?:[^\\,= \n#]|\\.)(?:[^\\, \n]|\\.)*+(?:,(?:[^\\,= \n]|\\.)++=(?:[^\\,= \n]|\\.)++)++) "
    r'((?:[^\\ "\n]|\\.|"(?:[^"\\]|\\.)*+")++)(?: (-?\d{1,19}))?[ \r]*+'
)
_TAG = re.compile(r"((?:[^\\,=]|\\.)++)=((?:[^\\,=]|\\.)++)")
_COMMA = re.compile(r"(?<!\\),")
_ESCAPED = re.compile(r"\\([, =\\])")


def _recognise(record: Record) -> bool:
    match = _LINE.fullmatch(record.text.partition("\n")[0])
    return match is not None and _fields(match[2]) is not None


def _decode(record: Record) -> list[Snapshot]:
    processes = Processes()
    for line in record.text.split("\n"):
        if line.isspace() or line[:1] in ("", "#"):
            continue
        match = _LINE.fullmatch(line)
        fields = _fields(match[2]) if match is not None else None
        if match is None or fields is None:
            processes.broken += 1
            continue
        name, tags = _key(match[1])
        moment = epoch(float(match[3])) if match[3] else record.ts_ms
        add(processes, name, tags, fields, moment)
    return processes.snapshots()


@lru_cache(maxsize=16_384)
def _key(head: str) -> tuple[str, Labels]:
    name, *_ = _COMMA.split(head, maxsplit=1)
    tags = tuple((_plain(match[1]), _plain(match[2])) for match in _TAG.finditer(head, len(name) + 1))
    return _plain(name), tags


def _fields(written: str) -> dict[str, Any] | None:
    """Return a line's fields, except fields with a quoted text; None if the fields are invalid."""
    fields: dict[str, Any] = {}
    at = 0
    while (field := _FIELD.match(written, at)) is not None:
        value = field[2]
        if not value.startswith('"'):
            fields[_plain(field[1])] = value.rstrip("iu")
        at = field.end()
        if at == len(written):
            return fields
        at += 1
    return None


def _plain(written: str) -> str:
    return _ESCAPED.sub(r"\1", written) if "\\" in written else written


FORMAT = Format("influx", "metrics", 80, _recognise, _decode, text=True)
