"""Read log records that are JSON objects. `_json_layouts.toml` lists the field names of each format.

A path such as `error.stack_trace` means a nested field, or one field with a dotted name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from typing import Any

import msgspec

from clienthealth.model.tables import converted, table
from clienthealth.model.telemetry import Identity, LogLine
from clienthealth.model.values import epoch, integer
from clienthealth.read.formats import Format, Record
from clienthealth.read.logs.fields import service_of_pod
from clienthealth.read.logs.times import number, time_ms

Paths = tuple[str, ...]
#: A path in two forms: one dotted name, and the names of nested fields (empty if the path has only one name).
_Reading = tuple[str, tuple[str, ...]]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Where to find the fields of a log line in a JSON record. Each field of the layout is a list of paths.

    The first path that exists in the record is used. In a path, a name in backticks may contain dots.

    `error`  text of an error; the text is put before `stack`, unless `stack` contains it
    `pod`    name of the pod; it replaces `host`, which may be the pod's machine
    `unit`   name of the systemd unit, which becomes the service
    `pid`    process id; without `instance`, host and process id become the instance
    `nanos`  nanoseconds to add to a `time` in whole seconds
    """

    time: Paths = ()
    nanos: Paths = ()
    level: Paths = ()
    logger: Paths = ()
    thread: Paths = ()
    message: Paths = ()
    error: Paths = ()
    stack: Paths = ()
    service: Paths = ()
    host: Paths = ()
    pod: Paths = ()
    unit: Paths = ()
    instance: Paths = ()
    pid: Paths = ()
    client_id: Paths = ()
    file: Paths = ()
    file_offset: Paths = ()

    def __or__(self, other: Layout) -> Layout:
        """Return a layout with the paths of `self` and `other`. For each field, the paths of `self` come first."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Layout(*(tuple(dict.fromkeys(own + others)) for own, others in pairs))

    @cached_property
    def readings(self) -> Mapping[str, Sequence[_Reading]]:
        """Maps each field to its paths, in the form `_Reading`. Fields without paths are left out."""
        by_field: dict[str, Sequence[_Reading]] = {}
        for name, paths in msgspec.structs.asdict(self).items():
            if not paths:
                continue
            parts = [tuple(part.strip("`") for part in re.findall(r"`[^`]+`|[^.]+", path)) for path in paths]
            by_field[name] = tuple((".".join(path), path if len(path) > 1 else ()) for path in parts)
        return by_field


class JsonFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A format of records with one log line each.

    `about`    a description in one line, for the documentation
    `order`    formats are tried in ascending order
    `layout`   the paths of each field of a log line
    `all`      the required fields: a record must have each of them
    `any`      the alternative fields: a record must have at least one of them, unless `any` is empty
    `none`     the forbidden fields: a record must not have any of them
    `beside`   maps a field to other fields; a record with the field must have at least one of them
    `carries`  True if the message is a whole log line in another program's layout
    """

    about: str
    order: int
    layout: Layout
    all: frozenset[str] = frozenset()
    any: frozenset[str] = frozenset()
    none: frozenset[str] = frozenset()
    beside: Mapping[str, frozenset[str]] = {}
    carries: bool = False

    def recognise(self, record: Record) -> bool:
        """True if the record has this format."""
        if not isinstance(record.document, dict):
            return False
        there = record.document.keys()
        return (
            there >= self.all
            and not (self.any and there.isdisjoint(self.any))
            and there.isdisjoint(self.none)
            and not any(name in there and there.isdisjoint(others) for name, others in self.beside.items())
        )

    def lines(self, record: Record) -> list[LogLine] | None:
        """Return the record's only log line in a list; None if the record is no JSON object."""
        document = record.document
        return [line_of(document, self.layout)] if isinstance(document, dict) else None


_DECLARED = converted(table(Path(__file__).with_suffix(".toml")), dict[str, JsonFormat], "formats/_json_layouts.toml")
FORMATS = tuple(
    Format(name, "logs", declared.order, declared.recognise, declared.lines, about=declared.about)
    for name, declared in _DECLARED.items()
)
#: All layouts merged, except the layouts of formats that wrap another program's line.
ANY_LAYOUT = reduce(or_, (declared.layout for _, declared in sorted(_DECLARED.items()) if not declared.carries))


#: Matches each escape in JSON text; group 1 is a lone surrogate.
_SURROGATES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text; None if the text is not JSON, or is nested too deeply.

    NaN, Infinity, huge numbers and lone surrogates are accepted, because some programs write them.
    """
    try:
        whole = text if isinstance(text, str) else text.decode()
        return msgspec.json.decode(whole)
    except UnicodeError:
        return None
    except (ValueError, RecursionError):
        if "\\u" in whole:
            whole = _SURROGATES.sub(lambda one: "\\ufffd" if one[1] else one[0], whole)
    try:
        return json.loads(whole, parse_int=lambda digits: int(digits) if len(digits) < 1000 else float("inf"))
    except (ValueError, RecursionError):
        return None


def as_text(value: Any) -> str | None:
    """Return a JSON value as text; None if the value is null or cannot be encoded. A string stays unchanged."""
    if value is None or isinstance(value, str):
        return value
    try:
        return _encode(value)
    except (ValueError, RecursionError):  # a number has too many digits, or the value is nested too deeply
        return None


def line_of(document: Mapping[str, Any], layout: Layout) -> LogLine:
    """Return the log line that a JSON object contains. `layout`: the paths of the line's fields."""
    value_of = {name: _first(document, readings) for name, readings in layout.readings.items()}.get
    pod, time = value_of("pod"), value_of("time")
    host = value_of("host") if pod is None else pod
    instance, service, pid, error, stack = map(value_of, ("instance", "service", "pid", "error", "stack"))
    if instance is None and host is not None and pid is not None:
        instance = f"{host}:{pid}"
    if service is None and pod is not None:
        service = service_of_pod(pod)
    if service is None and (unit := value_of("unit")) is not None:
        service = unit.removesuffix(".service")
    # Ignore an error that is a JSON object, because the layout also has paths to the fields of this object.
    said = "" if error is None or error.startswith("{") else error
    nanos = number(value_of("nanos"))
    seconds = number(time) if nanos is not None else None
    exact = epoch(seconds + nanos / 1e9) if seconds is not None and nanos is not None else None
    return LogLine(
        ts_ms=time_ms(time) if exact is None else exact,
        client=Identity(service=service, host=host, instance=instance, client_id=value_of("client_id")),
        level=value_of("level"),
        logger=value_of("logger"),
        thread=value_of("thread"),
        message=value_of("message"),
        stack="\n".join(filter(None, (None if said in (stack or "") else said, stack))) or None,
        file=value_of("file"),
        file_offset=integer(value_of("file_offset"), 64),
    )


def _first(document: Mapping[str, Any], readings: Sequence[_Reading]) -> str | None:
    for name, parts in readings:
        value = document.get(name)
        if value is None and parts:
            value = document
            for part in parts:
                value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            text = value if type(value) is str else as_text(value)
            if text is not None:
                return text
    return None
