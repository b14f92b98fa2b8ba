"""Read error-free snapshots in our own format (nearly all traffic), in a few µs each.

Parsed identities and options are cached, because they recur in all records of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS, MOST, TOPIC_METRICS
from clienthealth.model.telemetry import Identity, Member, Snapshot, TopicMetrics
from clienthealth.model.values import EARLIEST_MS, MAX_INT, MAX_NAME, MIN_INT, interval, measurement, option, present
from clienthealth.read.formats.canonical import INTERVAL_MS, METRIC_NAMES, options

#: A missing metric's value. Compare with `is`, because NaN does not equal itself.
UNKNOWN = float("nan")
REMEMBERED = 100_000

#: Maximum size (bytes) of each of the fields `client` and `config`: four times the largest known size.
LONGEST = 4_096

_Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
Values = tuple[float, ...]


def _struct(name: str, metrics: Iterable[str]) -> type[msgspec.Struct]:
    """Create a struct type with one field per metric. The fields are named by number: `f0`, `f1`, …."""
    field = msgspec.field
    fields = [
        (f"f{n}", Annotated[float, msgspec.Meta(le=MOST[metric])] | None, field(default=UNKNOWN, name=metric))
        for n, metric in enumerate(metrics)
    ]
    return msgspec.defstruct(name, fields, gc=False)


def _getter(every: Iterable[str], names: Iterable[str]) -> Callable[[Any], tuple[float | None, ...]]:
    """Return a function that reads metrics from a struct.

    `every`: names of all metrics of the struct, in order. `names`: names of the metrics to read.
    """
    numbers = {name: n for n, name in enumerate(every)}
    fields = [f"f{numbers[name]}" for name in names]
    read: Callable[[Any], Any] = attrgetter(*fields)
    return read if len(fields) > 1 else lambda struct: (read(struct),)


if TYPE_CHECKING:
    from msgspec import Struct as _ClientMetrics
    from msgspec import Struct as _TopicMetrics
else:
    _ClientMetrics = _struct("_ClientMetrics", METRIC_NAMES)
    _TopicMetrics = _struct("_TopicMetrics", TOPIC_METRICS)

_READ = {kind: _getter(METRIC_NAMES, names) for kind, names in CLIENT_METRICS.items()}
_READ_TOPIC = _getter(TOPIC_METRICS, TOPIC_METRICS)


class FastTopic(msgspec.Struct, gc=False):
    """The values of a topic, or of a partition or thread of the topic."""

    topic: _Name
    partition: Annotated[int, msgspec.Meta(ge=MIN_INT, le=MAX_INT)] | None = None
    thread: _Name | None = None
    member: Member | None = None
    metrics: _TopicMetrics | None = None

    @property
    def values(self) -> Values:
        """The values in the order of TOPIC_METRICS. An unknown value is `UNKNOWN` (NaN) or negative."""
        return _filled(_READ_TOPIC(self.metrics)) if self.metrics is not None else (UNKNOWN,) * len(TOPIC_METRICS)


class FastClient:
    """A client with its identity. All records of the client share this object while it is cached.

    `read` takes a record's metrics, and returns the values in the order of CLIENT_METRICS[kind].
    """

    __slots__ = ("identity", "read")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.read = _READ[identity.kind or ""]


class Fast(msgspec.Struct, gc=False):
    """A snapshot without errors.

    `ts_ms`        time of the snapshot, epoch milliseconds
    `client`       the reporting client; its `identity` is complete and has a valid kind
    `values`       the client's metrics, in the order of CLIENT_METRICS[kind]. No value is infinite; an unknown value is
                   `UNKNOWN` (NaN) or negative
    `topics`       the values of topics, partitions and threads
    `config`       options of the client by name; records with equal bytes in `config` share one object
    `interval_ms`  the client's reporting interval
    """

    ts_ms: int
    client: FastClient
    values: Values
    topics: list[FastTopic]
    config: dict[str, str]
    interval_ms: int

    def snapshot(self) -> Snapshot:
        """Return this record as a `Snapshot`, with only the metrics of the client's kind."""
        identity = self.client.identity
        topics = [
            TopicMetrics(t.topic, t.partition, t.thread, t.member, _named(TOPIC_METRICS, t.values)) for t in self.topics
        ]
        metrics = _named(CLIENT_METRICS[identity.kind or ""], self.values)
        return Snapshot(self.ts_ms, identity, metrics, topics, self.config, self.interval_ms)


class _Record(msgspec.Struct, gc=False):
    """A record in our own format. Times are floats, so that 1795208640123.0 is valid."""

    ts: float
    client: msgspec.Raw
    metrics: _ClientMetrics
    topics: list[FastTopic] | None = None
    config: msgspec.Raw = msgspec.Raw()
    interval_ms: float | None = None


_decode = msgspec.json.Decoder(_Record).decode
_decode_identity = msgspec.json.Decoder(Identity).decode


def fast(
    value: bytes | memoryview | None, headers_present: bool, latest_ms: int, largest: int = 4_194_304
) -> Fast | None:
    """Return the snapshot in an error-free record of our own format; None for any other record. Never raises.

    `headers_present`  True if a header names the format or a part of the client's identity
    `latest_ms`        the latest accepted time (epoch ms)
    `largest`          limit (bytes) for the size of the value (`monitor.max_record_bytes`)
    """
    if headers_present or value is None or len(value) > largest:
        return None
    try:
        record = _decode(value)
        if not EARLIEST_MS <= record.ts <= latest_ms:
            return None
        named, configured = bytes(record.client), bytes(record.config)
        if max(len(named), len(configured)) > LONGEST:
            return None
        client = _client(named)
        values = client.read(record.metrics)
        try:
            sum(values)  # type: ignore[arg-type]  # The quickest test for null, because a None raises TypeError.
        except TypeError:
            values = _filled(values)
        topics = record.topics or []
        if (
            values[0] is UNKNOWN
            and not topics
            and client.identity.kind != "group"
            and all(value is UNKNOWN for value in values)
        ):
            return None
        config = _config(configured)
        every_ms = INTERVAL_MS if record.interval_ms is None else interval(measurement(record.interval_ms), INTERVAL_MS)
    except (ValueError, RecursionError):
        return None
    return Fast(int(record.ts + 0.5), client, values, topics, config, every_ms)  # type: ignore[arg-type]


@lru_cache(maxsize=REMEMBERED)
def _client(named: bytes) -> FastClient:
    named_fields = _decode_identity(named)
    identity = Identity(**{name: present(getattr(named_fields, name)) for name in Identity.__struct_fields__})
    if identity.kind not in CLIENT_METRICS or not (identity.service and identity.instance and identity.client_id):
        raise ValueError("incomplete")
    if identity.is_too_long:
        raise ValueError("oversized")
    return FastClient(identity)


@lru_cache(maxsize=REMEMBERED)
def _config(configured: bytes) -> dict[str, str]:
    config = options(msgspec.json.decode(configured)) if configured else {}
    if any(option(config[name]) is None for name in CONFIG_OPTIONS if name in config):
        raise ValueError("impossible")
    return config


def _filled(values: Iterable[float | None]) -> Values:
    return tuple(UNKNOWN if value is None else value for value in values)


def _named(names: Iterable[str], values: Values) -> dict[str, float]:
    """Return a dictionary from each metric's name to its value, without unknown values."""
    return {name: value for name, value in zip(names, values, strict=True) if value >= 0}
