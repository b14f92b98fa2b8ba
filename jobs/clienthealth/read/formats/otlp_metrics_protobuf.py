"""OTLP metrics as protobuf, from the OpenTelemetry Collector's Kafka exporter and KIP-714 plugins.

Two pushes of the same metrics differ only in numbers, so a cache keeps the positions of the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth.model.samples import Subject, unusable
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import measurement, millis
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._otlp import AGENT_INTERVAL_MS, KIP714, Metric, Points, metric, resource_of, subject_of
from clienthealth.read.formats._protobuf import (
    DELTA,
    NO_VALUE,
    REMEMBERED,
    attributes,
    attributes_of_resource,
    message_of,
    text,
)
from clienthealth.settings import IdentitySettings

#: Maximum total size (bytes) of the scopes in the cache; a full cache is emptied.
REMEMBERED_BYTES = 16_000_000
#: The name of every metric of a Kafka client contains this text.
_OURS = b"kafka."
_PUSHED = KIP714.encode()
_END, _START_AND_END, _DOUBLE, _WHOLE = map(struct.Struct, ("<Q", "<QcQ", "<d", "<q"))
_STARTS, _ENDS, _AS_DOUBLE, _AS_INT = b"\x11", b"\x19", b"\x21", b"\x31"
#: An unpacked scope has four items per data point: the bytes before the point, its times, its value's tag, its value.
_ITEMS = 4
_TIMES, _TAG, _VALUE = 1, 2, 3

Ids = tuple[str, ...]
Parts = tuple[Any, ...]


class _Point(NamedTuple):
    """A data point. `name`: our name of the metric; None if the point is not read. `start`, `end`: ns, 0 if unknown."""

    subject: Subject
    name: str | None
    start: int
    end: int
    value: float


class _Metric(NamedTuple):
    """A metric with its data points; `metric` is None for another program's metric."""

    message: bytes
    name: bytes
    metric: Metric | None
    points: Sequence[_Point] = ()
    delta: bool = False


class _Meaning(NamedTuple):
    """The meaning of the numbers in an unpacked scope.

    `values`  maps a subject (client, topic, …) to pairs (index of a value in the unpacked scope, our name of the
              metric)
    `deltas`  for each delta, the index of its start and end time in the unpacked scope
    `kip714`  True if at least one metric's name is from KIP-714
    """

    values: Mapping[Subject, Sequence[tuple[int, str]]]
    deltas: Sequence[int]
    kip714: bool


class _Shape:
    """The positions of the data points' times and values in the bytes of a scope.

    `meanings` maps the bytes around the times and values to the meaning of these times and values.
    """

    def __init__(self, form: str) -> None:
        self.unpack = struct.Struct(form).unpack
        self.meanings: dict[Parts, _Meaning] = {}


class Shapes:
    """A cache of the positions of numbers in the bytes of instrumentation scopes."""

    def __init__(self) -> None:
        self._of_size: dict[int, dict[str, _Shape]] = {}
        self._remembered = 0

    def read(self, scope: bytes, into: Points, ids: Ids) -> None:
        """Add the data points of a scope (encoded `ScopeMetrics`) to the collection `into`.

        `ids`: attributes that may name a client. Raises ValueError if the bytes are not a `ScopeMetrics` message.
        """
        if _OURS not in scope:
            return
        for shape in self._of_size.get(len(scope), {}).values():
            parts = shape.unpack(scope)
            meaning = shape.meanings.get(_other_bytes(parts, ids))
            if meaning is not None and _take_numbers(parts, meaning, into):
                return
        listed = [_metric(message, ids) for message in message_of("ScopeMetrics", scope).metrics]
        for one in listed:
            _take_points(one, into)
        self._remember(scope, listed, ids)

    def _remember(self, scope: bytes, listed: Sequence[_Metric], ids: Ids) -> None:
        try:
            form, meaning = _laid_out(scope, listed)
        except ValueError:
            # Do not cache a scope with fields in an unusual order.
            return
        self._remembered += len(scope)
        if self._remembered > REMEMBERED_BYTES:
            self._of_size.clear()
            self._remembered = len(scope)
        shapes = self._of_size.setdefault(len(scope), {})
        shape = shapes.get(form) or shapes.setdefault(form, _Shape(form))
        shape.meanings[_other_bytes(shape.unpack(scope), ids)] = meaning


def _other_bytes(parts: Parts, ids: Ids) -> Parts:
    return ids, parts[::_ITEMS], parts[_TAG::_ITEMS]


def _take_numbers(parts: Parts, meaning: _Meaning, into: Points) -> bool:
    """Add a scope's data points to the collection `into`; return False if a point's times are in an unusual layout."""
    ends, starts = set(), set()
    for times in set(parts[_TIMES::_ITEMS]):
        if len(times) == _START_AND_END.size:
            _, tag, end = _START_AND_END.unpack(times)
            if tag != _ENDS:
                return False
            ends.add(end)
        elif times:
            ends.add(_END.unpack(times)[0])
    for times in {parts[at] for at in meaning.deltas}:
        if len(times) == _START_AND_END.size:
            starts.add(_START_AND_END.unpack(times)[0])
    into.pushed, into.delta = into.pushed or meaning.kip714, into.delta or bool(meaning.deltas)
    for end in ends:
        into.ended(_moment(end))
    for start in starts:
        into.counts_since(_moment(start))
    for subject, named in meaning.values.items():
        metrics = into.metrics(subject)
        for at, name in named:
            value = measurement(parts[at])
            if value is not None and value >= metrics.get(name, -1.0):
                metrics[name] = value
    return True


def _take_points(one: _Metric, into: Points) -> None:
    if one.metric is None or not one.points:
        return
    into.pushed, into.delta = into.pushed or one.metric.kip714, into.delta or one.delta
    for subject, name, start, end, value in one.points:
        into.ended(_moment(end))
        if one.delta:
            into.counts_since(_moment(start))
        into.add(subject, name, measurement(value))


def _moment(nanos: int) -> int | None:
    return millis(nanos / 1e6) if nanos else None


def _metric(message: bytes, ids: Ids) -> _Metric:
    decoded = message_of("Metric", message)
    name = decoded.name
    if (described := metric(text(name))) is None:
        return _Metric(message, name, None)
    sums = decoded.sum.points
    points = [_point(point, described, ids) for point in sums or decoded.gauge.points]
    return _Metric(message, name, described, points, bool(sums) and decoded.sum.temporality == DELTA)


def _point(point: Any, metric: Metric, ids: Ids) -> _Point:
    subject = _subject(metric.kind, tuple(point.attributes), ids)
    name = None if point.flags & NO_VALUE else metric.name
    value = point.as_int if point.HasField("as_int") else point.as_double
    return _Point(subject, name, point.start, point.time, value)


@lru_cache(maxsize=REMEMBERED)
def _subject(kind: str, pairs: tuple[bytes, ...], ids: Ids) -> Subject:
    return subject_of(kind, attributes(pairs), ids)


def _laid_out(scope: bytes, listed: Sequence[_Metric]) -> tuple[str, _Meaning]:
    """Return (`struct` format, meaning) of a scope; raise ValueError if its fields are in an unusual order."""
    form, behind, items = ["<"], 0, 0
    values: dict[Subject, list[tuple[int, str]]] = {}
    deltas: list[int] = []
    for one in listed:
        begin = scope.index(one.message, behind)
        if one.metric is None and one.name:
            named, end = scope.index(one.name, begin) + len(one.name), begin + len(one.message)
            form.append(f"{named - behind}s0s0s{end - named}x0s")
            behind, items = end, items + _ITEMS
        for subject, name, start, end, value in one.points:
            times, number = _written(start, end, value)
            at = scope.index(times + number, max(begin, behind)) + 1
            form.append(f"{at - behind}s{len(times) - 1}sc{'q' if number[:1] == _AS_INT else 'd'}")
            if one.delta:
                deltas.append(items + _TIMES)
            named_values = values.setdefault(subject, [])
            if name is not None:
                named_values.append((items + _VALUE, name))
            behind, items = at - 1 + len(times + number), items + _ITEMS
    form.append(f"{len(scope) - behind}s")
    pushed = any(one.metric.kip714 for one in listed if one.metric is not None and one.points)
    return "".join(form), _Meaning(values, deltas, pushed)


def _written(start: int, end: int, value: float) -> tuple[bytes, bytes]:
    """Return (times, value) of a data point, each encoded as protobuf, with fields in the order of their numbers."""
    times = (_STARTS + _END.pack(start) if start else b"") + _ENDS + _END.pack(end)
    return times, _AS_INT + _WHOLE.pack(value) if type(value) is int else _AS_DOUBLE + _DOUBLE.pack(value)


_SHAPES = Shapes()


def _decode(record: Record) -> list[Snapshot] | None:
    if record.data is None:
        return None
    try:
        request = message_of("Metrics", record.data)
    except ValueError:
        return None
    taken: dict[bytes | int, Points] = {}
    broken = 0
    ids = tuple(record.identity.otlp_client_id)
    for resource in request.resources:
        described = resource.resource
        # A push (KIP-714) repeats its resource for each metric. Otherwise, a repeated resource is another report.
        report = described if any(_PUSHED in scope for scope in resource.scopes) else len(taken)
        points = taken.get(report) or taken.setdefault(report, Points(_resource(described, record.identity)))
        for scope in resource.scopes:
            try:
                _SHAPES.read(scope, points, ids)
            except ValueError:
                broken += 1
    return [*(snapshot for points in taken.values() for snapshot in points.snapshots()), *unusable(broken)]


@lru_cache(maxsize=REMEMBERED)
def _resource(data: bytes, identity: IdentitySettings) -> Identity:
    return resource_of(attributes_of_resource(data), identity)


FORMAT = Format(
    "otlp_metrics_protobuf",
    "metrics",
    4,
    lambda record: record.signal == "metrics",
    _decode,
    interval_ms=AGENT_INTERVAL_MS,
    binary=True,
)
