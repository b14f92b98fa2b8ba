"""Telegraf's JSON (`data_format = "json"`) of inputs.jolokia2_agent: one metric per record, or a batch under `metrics`.

Fields are MBean attributes; the client's id, topic and partition are tags, where the user listed them as tag keys.
Telegraf leaves NaN fields out. Which JVM it was, tell the tag `host` and the agent's URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from clienthealth import naming
from clienthealth.formats import Format, Record, Snapshot
from clienthealth.formats._samples import Process, unusable
from clienthealth.formats._values import epoch, integer, known, mapping, number, place, present

_NAMES = naming.spellings(naming.attribute)
_TELLING = naming.telling()


def _recognise(record: Record) -> bool:
    said = record.document
    if type(said) is not dict:
        return False
    if "fields" in said and "name" in said and "timestamp" in said:
        return True
    batch = said.get("metrics")
    return type(batch) is list and any(type(mapping(point).get("fields")) is dict for point in batch)


def _decode(record: Record) -> list[Snapshot] | None:
    said = mapping(record.document)
    points = said.get("metrics", [said])
    if type(points) is not list:
        return None
    # One Telegraf asks many processes, and a batch may hold more than one round.
    processes: dict[tuple[int | None, str | None, str | None], Process] = {}
    broken = 0
    for point in points:
        if type(point) is not dict or type(point.get("fields")) is not dict:
            broken += 1
            continue
        tags = mapping(point.get("tags"))
        moment = (epoch(known(point.get("timestamp"))), *place(_tag(tags, "jolokia_agent_url"), _tag(tags, "host")))
        process = processes.get(moment)
        if process is None:
            ts_ms, host, instance = moment
            process = processes[moment] = Process(ts_ms, host=host, instance=instance, library="java")
        _read(process, point, tags)
    found = [snapshot for process in processes.values() for snapshot in process.snapshots()]
    return [*found, *(unusable() for _ in range(broken))]


def _read(process: Process, point: Mapping[str, Any], tags: Mapping[str, Any]) -> None:
    """Give the process the samples of one point."""
    fields = point["fields"]
    kind = _kind(point.get("name"), fields)
    client_id = _tag(tags, "client-id", "client_id", "clientId")
    topic, partition = _tag(tags, "topic"), integer(_tag(tags, "partition"))
    of_node = _tag(tags, "node-id", "node_id") is not None
    for field, value in fields.items():
        name = _NAMES.get(_attribute(field))
        if of_node and name is not None and not name.startswith("request-latency"):
            name = None
        process.add(client_id, kind, name, number(value), topic, partition, of_node=of_node)


def _kind(name: Any, fields: Mapping[str, Any]) -> str | None:
    """The client's kind, from the name that the user gave the measurement, else from what only one kind has."""
    said = name if type(name) is str else ""
    for kind in ("producer", "consumer"):
        if kind in said:
            return kind
    return next((_TELLING[a] for field in fields if (a := _attribute(field)) in _TELLING), None)


@lru_cache(maxsize=4096)
def _attribute(field: str) -> str:
    return field.replace("_", "-")


def _tag(tags: Mapping[str, Any], *names: str) -> str | None:
    """The value of the first of the tags that is there."""
    for name in names:
        if name in tags and (said := present(tags[name])) is not None:
            return said
    return None


FORMAT = Format("telegraf", "metrics", 30, _recognise, _decode)
