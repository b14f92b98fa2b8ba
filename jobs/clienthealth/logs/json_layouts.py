"""Log records as JSON objects: each format says where a fact stands, and this reads it.

A path like `error.stack_trace` means a nested field or one field with a dotted name: both occur, even in one record.
Every value is read as text; an object or array comes as its JSON text.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import formats
from clienthealth.formats import Format, Record
from clienthealth.formats._expr import epoch, let
from clienthealth.logs.fields import log, service_of_pod, time_ms

Paths = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Where the facts of a log record stand: paths in the order in which they are asked, first found wins.

    `pod` is where the process runs, more exactly than `host`, which may be the machine below it. `pid` makes an
    instance of a host where no `instance` is named. `nanos` is added to a `time` in whole seconds. A name in
    backticks may contain dots.
    """

    time: Paths = ()
    nanos: Paths = ()
    level: Paths = ()
    logger: Paths = ()
    thread: Paths = ()
    message: Paths = ()
    stack: Paths = ()
    service: Paths = ()
    host: Paths = ()
    pod: Paths = ()
    instance: Paths = ()
    pid: Paths = ()
    client_id: Paths = ()
    file: Paths = ()
    file_offset: Paths = ()

    def __or__(self, other: Layout) -> Layout:
        """Both layouts, this one's paths first."""
        return Layout(*(tuple(dict.fromkeys(getattr(self, f.name) + getattr(other, f.name))) for f in fields(self)))


def has(record: Record, *keys: str) -> Column:
    """Is the record a JSON object with all these fields?"""
    found = F.lit(True)
    for key in keys:
        found = found & F.array_contains(record.json_keys, key)
    return F.coalesce(found, F.lit(False))


def has_any(record: Record, *keys: str) -> Column:
    """Is the record a JSON object with one of these fields?"""
    return F.coalesce(F.arrays_overlap(record.json_keys, F.array(*map(F.lit, keys))), F.lit(False))


def json_format(name: str, order: int, layout: Layout, recognise: Callable[[Record], Column]) -> Format:
    """The format of records with one log line each."""

    def decode(record: Record) -> Column:
        return F.transform(F.array(F.from_json(record.text, schema(layout))), lambda found: log_of(found, layout))

    return Format(name, "logs", order, recognise, decode)


@cache
def any_layout() -> Layout:
    """What an undecoded JSON line may look like: like the lines of any format of ours (its `LINE`)."""
    found = Layout()
    for module in pkgutil.iter_modules(formats.__path__):
        found = found | getattr(importlib.import_module(f"{formats.__name__}.{module.name}"), "LINE", Layout())
    return found


def log_of(document: Column, layout: Layout) -> Column:
    """What a parsed document (of `schema(layout)`) says of itself, as a LOG."""
    shape = _Shape.of(layout)

    def first(paths: Paths) -> Column:
        nothing = F.lit(None).cast("string")
        found = [value for path in paths for value in shape.values(document, path)]
        return F.coalesce(*found) if found else nothing

    pod = first(layout.pod)
    host = F.coalesce(pod, first(layout.host))
    instance, service, ts_ms = first(layout.instance), first(layout.service), let(first(layout.time), time_ms)
    if layout.pid:
        instance = F.coalesce(instance, F.concat(host, F.lit(":"), first(layout.pid)))
    if layout.pod:
        service = F.coalesce(service, service_of_pod(pod))
    if layout.nanos:
        whole, fraction = (first(paths).try_cast("double") for paths in (layout.time, layout.nanos))
        ts_ms = F.coalesce(epoch(whole + fraction / 1e9), ts_ms)
    return log(
        ts_ms=ts_ms,
        service=service,
        host=host,
        instance=instance,
        client_id=first(layout.client_id),
        level=first(layout.level),
        logger=first(layout.logger),
        thread=first(layout.thread),
        message=first(layout.message),
        stack=first(layout.stack),
        file=first(layout.file),
        file_offset=first(layout.file_offset).try_cast("bigint"),
    )


@cache
def schema(layout: Layout) -> str:
    """The schema to parse a record with: the fields of the layout's paths and nothing else."""
    return _Shape.of(layout).ddl()


@dataclass(frozen=True)
class _Shape:
    """The fields that a layout needs of a document: nested names, and the paths at which a value is wanted.

    Names that differ only in case cannot stand side by side in a schema: the first one counts.
    """

    names: dict[str, Any]
    wanted: frozenset[tuple[str, ...]]

    @staticmethod
    def of(layout: Layout) -> _Shape:
        names: dict[str, Any] = {}
        wanted = set()
        for path in (path for field in fields(layout) for path in getattr(layout, field.name)):
            for parts in _readings(path):
                level = names
                for part in parts:
                    if part not in level and part.lower() in (name.lower() for name in level):
                        break
                    level = level.setdefault(part, {})
                else:
                    wanted.add(parts)
        return _Shape(names, frozenset(wanted))

    def ddl(self) -> str:
        return ", ".join(f"`{name}` {self._kind((name,), below)}" for name, below in self.names.items())

    def _kind(self, parts: tuple[str, ...], below: dict[str, Any]) -> str:
        if parts in self.wanted or not below:
            return "string"
        inner = (f"`{name}`: {self._kind((*parts, name), deeper)}" for name, deeper in below.items())
        return f"struct<{', '.join(inner)}>"

    def values(self, document: Column, path: str) -> Iterator[Column]:
        """The columns at which the path's value can stand."""
        for parts in _readings(path):
            if parts not in self.wanted:
                continue
            value = document
            for depth, part in enumerate(parts):
                if parts[:depth] in self.wanted:  # a text that may be an object: it was kept as JSON
                    rest = "".join(f"['{name}']" for name in parts[depth:])
                    value = F.when(value.startswith("{"), F.get_json_object(value, f"${rest}"))
                    break
                value = value[part]
            yield value


def _readings(path: str) -> Sequence[tuple[str, ...]]:
    parts = tuple(part.strip("`") for part in re.findall(r"`[^`]+`|[^.]+", path))
    return (parts,) if len(parts) == 1 else ((".".join(parts),), parts)
