"""Interpret OTLP data of Kafka clients, in JSON or protobuf.

Each client of a resource gets one snapshot, at the time of the newest data point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth.model import metric_names
from clienthealth.model.samples import Samples, Subject, node
from clienthealth.model.telemetry import Identity, LogLine, Snapshot
from clienthealth.model.values import epoch, integer, interval, text
from clienthealth.read.formats._pushed import software
from clienthealth.read.logs.fields import service_of_pod
from clienthealth.settings import IdentitySettings

KIP714 = "org.apache.kafka."
KIP714_INTERVAL_MS, AGENT_INTERVAL_MS = 300_000, 60_000
NODES = ("node_id", "node-id", "node.id")
#: Each level has four of OTLP's severity numbers; TRACE has 1 to 4.
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")

_CLIENT_METRIC = re.compile(r"(?:org\.apache\.)?kafka\.(producer|consumer)\.")
_NAMES = metric_names.spellings(metric_names.kip714, metric_names.otel_agent)
_WORKLOADS = ("k8s.deployment.name", "k8s.statefulset.name")
_SCALARS = ("stringValue", "intValue", "doubleValue", "boolValue")
_LAST_RESORT = ("k8s.container.name", "container.name")


class Metric(NamedTuple):
    """What the name of an OTLP metric means.

    `kind`    kind of the client
    `name`    our name of the metric; None for a metric that is not read
    `kip714`  True if clients use this name when they push metrics (KIP-714)
    `whole`   the subject of data points without attributes: the client that the resource names
    """

    kind: str
    name: str | None
    kip714: bool
    whole: Subject


@lru_cache(maxsize=4096)
def metric(spelled: str) -> Metric | None:
    """Return the meaning of an OTLP metric's name; None if no Kafka client has this metric."""
    if (match := _CLIENT_METRIC.match(spelled)) is None:
        return None
    return Metric(match[1], _NAMES.get(spelled), spelled.startswith(KIP714), Subject(None, match[1]))


def subject_of(kind: str, attributes: Mapping[str, str], ids: Sequence[str]) -> Subject:
    """Return the client, topic and broker that a data point describes. `ids`: attributes that may name the client."""
    topic, partition = attributes.get("topic"), integer(attributes.get("partition"))
    return Subject(first(attributes, ids), kind, topic, partition, node=node(first(attributes, NODES)))


def attributes_of(listed: Any) -> Mapping[str, str]:
    """Return a mapping from an attribute's name to its value as text. `listed`: OTLP's JSON list of attributes.

    Attributes without a value, or with a list or object as value, are left out. If a name occurs twice, the first value
    is used.
    """
    by_name: dict[str, str] = {}
    for one in listed if type(listed) is list else ():
        if type(one) is dict and type(value := one.get("value")) is dict and type(name := one.get("key")) is str:
            string = value.get("stringValue")
            if type(string) is not str:
                string = next((text(value[kind]) for kind in _SCALARS if kind in value), None)
            if string and name not in by_name:
                by_name[name] = string
    return by_name


def first(attributes: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the first non-empty value of the attributes in `names` as text; None if there is none."""
    for name in names:
        if value := attributes.get(name):
            return str(value)
    return None


def resource_of(attributes: Mapping[str, str], identity: IdentitySettings) -> Identity:
    """Return the client's identity from a resource's attributes; `client_id` is None if no attribute contains it."""
    name = first(attributes, ("client_software_name", "client.software.name")) or ""
    library, version = software(name, first(attributes, ("client_software_version", "client.software.version")) or "")
    return Identity(
        service=first(attributes, identity.otlp_service),
        host=first(attributes, identity.otlp_host),
        instance=first(attributes, identity.otlp_instance),
        client_id=first(attributes, identity.otlp_client_id),
        library="librdkafka" if library == "librdkafka" else "java",
        version=version or None,
        group=first(attributes, ("group_id", "group.id")),
    )


class Points(Samples):
    """The data points of an OTLP resource.

    `pushed`: True if any data point came in a KIP-714 push. `delta`: True if any data point is a delta.
    """

    def __init__(self, resource: Identity) -> None:
        super().__init__(None, resource)
        self.pushed = False
        self._since: int | None = None

    def ended(self, moment_ms: int | None) -> None:
        """Note the end time (epoch ms) of a data point. The newest end time becomes the time of the snapshots."""
        if moment_ms is not None and (self.ts_ms is None or moment_ms > self.ts_ms):
            self.ts_ms = moment_ms

    def counts_since(self, moment_ms: int | None) -> None:
        """Note the start time (epoch ms, None if unknown) of a delta.

        The reporting interval of the snapshots begins at the earliest start time noted.
        """
        if moment_ms is not None and (self._since is None or moment_ms < self._since):
            self._since = moment_ms

    def snapshots(self, rolled_up: bool = True, whole: bool = True) -> list[Snapshot]:
        """Return one snapshot per client, as `Samples.snapshots` does.

        The reporting interval is the time span that the deltas cover. Without deltas, the reporting interval is
        five minutes for a KIP-714 push and one minute for other data.
        """
        span = self.ts_ms - self._since if self.ts_ms is not None and self._since is not None else None
        self.interval_ms = interval(span, KIP714_INTERVAL_MS if self.pushed else AGENT_INTERVAL_MS)
        return super().snapshots(rolled_up, whole)


def process_of(attributes: Mapping[str, str | None], identity: IdentitySettings) -> Identity:
    """Return the process that wrote the log records of a resource with these attributes."""
    host, pod = first(attributes, identity.otlp_host), first(attributes, ("k8s.pod.name",))
    instance, pid = first(attributes, identity.otlp_instance), first(attributes, ("process.pid",))
    return Identity(
        service=first(attributes, (*identity.otlp_service, *_WORKLOADS))
        or (service_of_pod(pod) if pod else None)
        or first(attributes, _LAST_RESORT),
        host=host,
        instance=instance or (f"{host}:{pid}" if host and pid else None),
        client_id=first(attributes, identity.otlp_client_id),
    )


def log_line(
    nanos: float | None,
    severity: tuple[str | None, float | None],
    body: str | None,
    attributes: Mapping[str, str | None],
    process: Identity,
    logger: str | None,
    identity: IdentitySettings,
) -> LogLine:
    """Return an OTLP log record as a log line. `nanos`: time since 1970 (ns); `severity`: (text, number from 1 to 24).

    `logger`: name of the instrumentation scope that contains the record.
    """
    name, number = severity
    exception = (first(attributes, ("exception.type",)), first(attributes, ("exception.message",)))
    client_id = first(attributes, identity.otlp_client_id) or process.client_id
    return LogLine(
        ts_ms=epoch(nanos),
        client=Identity(process.service, process.host, process.instance, client_id),
        level=name or (LEVELS[int(number - 1) // 4] if number is not None and 1 <= number < 25 else None),
        logger=logger or None,
        thread=first(attributes, ("thread.name",)),
        message=body,
        stack=first(attributes, ("exception.stacktrace",)) or ": ".join(filter(None, exception)) or None,
        file=first(attributes, ("log.file.path",)),
        file_offset=integer(first(attributes, ("log.file.position",)), 64),
    )
