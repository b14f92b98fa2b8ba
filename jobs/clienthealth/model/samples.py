"""Build snapshots of clients from single metric values (of one client, topic or partition)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from clienthealth.model.metrics import CLIENT_METRICS, SUMMED, TOPIC_METRICS
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.model.values import MAX_INT, all_known, integer, number

#: The node number of a bootstrap address. The broker's id is unknown, because any broker may have this address.
UNNAMED = -1
#: A node number above this limit belongs to a coordinator: the number is 2³¹ − 1 minus the broker's id.
_COORDINATORS = 2**30


def node(name: str | None) -> int | None:
    """Return the id of the broker that a node's name (`node-3`, `coordinator-3`, `3`) denotes.

    Returns `UNNAMED` (-1) if the name has no id, and None if `name` is None.
    """
    if name is None:
        return None
    number = integer(name.removeprefix("node-").removeprefix("coordinator-"))
    if number is None or number < 0:
        return UNNAMED
    return MAX_INT - number if number > _COORDINATORS else number


def slowest_node(latencies: Mapping[int, float | None]) -> dict[str, float]:
    """Return two metrics of a client: the id of its slowest broker, and that broker's average latency (ms).

    `latencies`: average latency (ms) by broker id. Returns {} if no broker has a known id and latency.
    """
    of_broker = {number: latency for number, latency in latencies.items() if number != UNNAMED and latency is not None}
    if not of_broker:
        return {}
    slowest = max(of_broker, key=lambda number: of_broker[number])
    return {"slowest-node": float(slowest), "slowest-node-latency-avg": of_broker[slowest]}


#: Maps a client's metric to metrics of its topics. The client's value is the largest value of the topics' metrics.
LARGEST = {"records-lag-max": ("records-lag-max", "records-lag")}
OF_NODES = ("request-latency-avg", "request-latency-max")

_CLIENT_METRICS = frozenset(name for names in CLIENT_METRICS.values() for name in names)

#: What a topic's metric is about: (topic, partition or None, consuming thread or None).
Part = tuple[str, int | None, str | None]


class Subject(NamedTuple):
    """What a value measures: a client, a topic (or its partition or thread), or a broker.

    `client_id`  None if the value comes without a client id; then the client id in `Samples.process` is used
    `kind`       kind of the client; None if the value does not belong to a Kafka client
    `node`       the broker's id as the function `node` returns it; None if the value is not about a broker
    """

    client_id: str | None
    kind: str | None
    topic: str | None = None
    partition: int | None = None
    thread: str | None = None
    node: int | None = None


class Samples:
    """The metric values of one process at one moment.

    `process`: the fields that the process's clients share. The method `saw` can set a client's own version and group.
    `ts_ms`, `interval_ms`, `delta`: copied to the fields of these names in every snapshot.
    """

    def __init__(self, ts_ms: int | None, process: Identity, interval_ms: int | None = None) -> None:
        self.ts_ms, self.process = ts_ms, process
        self.interval_ms, self.delta = interval_ms, False
        self.version = process.version
        self._clients: dict[tuple[str | None, str | None], _Client] = {}
        self._versions: dict[tuple[str | None, str | None], str] = {}
        self._groups: dict[tuple[str | None, str | None], str] = {}

    def add(self, subject: Subject, name: str | None, value: float | None) -> None:
        """Add one value. A value that does not belong to a Kafka client (`Subject.kind` is None) is ignored.

        `name`   our name of the metric; None to drop the value and only note that the client exists
        `value`  None if unknown; of several values of one metric, the largest is kept
        """
        if subject.kind is not None:
            metrics = self.metrics(subject)
            if name is not None and value is not None and value >= metrics.get(name, -1.0):
                metrics[name] = value

    def add_all(self, subject: Subject, names: Sequence[str], values: Sequence[Any]) -> None:
        """Add several values of one subject, as `add` does. Without values, only note that the client exists.

        `names`   our names of the metrics
        `values`  one per name, as the record contains them; `number()` converts them
        """
        if subject.kind is None:
            return
        metrics = self.metrics(subject)
        if not metrics and all_known(values):
            metrics.update(zip(names, map(float, values), strict=True))
            if len(metrics) == len(names):
                return
        for name, value in zip(names, map(number, values), strict=True):
            if value is not None and value >= metrics.get(name, -1.0):
                metrics[name] = value

    def metrics(self, subject: Subject) -> dict[str, float]:
        """Return a dict from names of metrics to the values collected so far for `subject`.

        Callers may add values to the dict.
        """
        client_id, kind, topic, partition, thread, node = subject
        ref = (client_id or self.process.client_id, kind)
        if (client := self._clients.get(ref)) is None:
            client = self._clients[ref] = _Client()
        if topic is not None:
            return client.parts.setdefault((topic, partition, thread), {})
        return client.own if node is None else client.nodes.setdefault(node, {})

    def saw(self, client_id: str, kind: str | None, version: str | None = None, group: str | None = None) -> None:
        """Note a client's version or consumer group. Of several versions, the last in alphabetical order is kept."""
        if version:
            self._versions[client_id, kind] = max(self._versions.get((client_id, kind), ""), version)
        if group:
            self._groups[client_id, kind] = group

    def snapshots(self, rolled_up: bool = False, whole: bool = True) -> list[Snapshot]:
        """Return one snapshot per client.

        `rolled_up`  True to compute a client's missing values from its topics
        `whole`      True if the record has the values of all of a client's brokers, so that the slowest broker is known
        """
        version = self.version or max(self._versions.values(), default=None)
        result = []
        for ref, client in self._clients.items():
            parts = client.parts
            # Since 4.1, Java consumers report a topic `a.b` twice: as `a.b` and as `a_b` (KIP-1109).
            if older := {part[0].replace(".", "_") for part, values in parts.items() if values and "." in part[0]}:
                parts = {part: values for part, values in parts.items() if part[0] not in older}
            metrics = _of_clients(client.own)
            if client.nodes:
                metrics = _of_nodes(client.nodes, whole) | metrics
            if parts and rolled_up:
                metrics = _derived(parts.values()) | metrics
            client_id, kind = ref
            identity = msgspec.structs.replace(
                self.process,
                client_id=client_id,
                kind=kind,
                library="scala" if kind == "legacy-consumer" else self.process.library,
                version=self._versions.get(ref) or version,
                group=self._groups.get(ref) or self.process.group,
            )
            topics = _topics(parts) if parts else []
            result.append(
                Snapshot(self.ts_ms, identity, metrics, topics, interval_ms=self.interval_ms, delta=self.delta)
            )
        return result


class Processes:
    """The metric values in one record, by process and time. `broken`: number of unusable parts of the record."""

    def __init__(self) -> None:
        self._samples: dict[tuple[int | None, Identity], Samples] = {}
        self.broken = 0

    def at(self, ts_ms: int | None, process: Identity) -> Samples:
        """Return the samples of a process at a moment (epoch ms, None if unknown); create them if necessary."""
        if (samples := self._samples.get((ts_ms, process))) is None:
            samples = self._samples[ts_ms, process] = Samples(ts_ms, process)
        return samples

    def snapshots(self) -> list[Snapshot]:
        """Return one snapshot per client and moment. Each unusable part of the record adds a snapshot with an error."""
        snapshots = [snapshot for samples in self._samples.values() for snapshot in samples.snapshots()]
        return snapshots + unusable(self.broken)


@dataclass(slots=True)
class _Client:
    own: dict[str, float] = field(default_factory=dict)
    nodes: dict[int, dict[str, float]] = field(default_factory=dict)
    parts: dict[Part, dict[str, float]] = field(default_factory=dict)


def unusable(parts: int) -> list[Snapshot]:
    """Return a snapshot with the error `wrong-types` for each unusable part. `parts`: number of unusable parts."""
    return [Snapshot(error="wrong-types") for _ in range(parts)]


def _of_clients(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics, except metrics that only topics or partitions can have."""
    if metrics.keys() <= _CLIENT_METRICS:
        return dict(metrics)
    return {name: value for name, value in metrics.items() if name in _CLIENT_METRICS}


def _of_nodes(nodes: Mapping[int, Mapping[str, float]], whole: bool) -> dict[str, float]:
    values = {name: [metrics[name] for metrics in nodes.values() if name in metrics] for name in OF_NODES}
    largest = {name: max(of_all) for name, of_all in values.items() if of_all}
    return largest | (slowest_node({node: of.get(OF_NODES[0]) for node, of in nodes.items()}) if whole else {})


def _topics(parts: Mapping[Part, Mapping[str, float]]) -> list[TopicMetrics]:
    topics = []
    for topic, partition, thread in sorted(parts, key=_order) if len(parts) > 1 else parts:
        metrics = parts[topic, partition, thread]
        if not metrics.keys() <= TOPIC_METRICS.keys():
            metrics = {name: value for name, value in metrics.items() if name in TOPIC_METRICS}
        if metrics:
            topics.append(TopicMetrics(topic, partition, thread, metrics=dict(metrics)))
    return topics


def _order(part: Part) -> tuple[str, bool, int, str]:
    """Return a key that sorts by topic: first the whole topic, then the topic's threads, then its partitions."""
    topic, partition, thread = part
    return topic, partition is not None, partition or 0, thread or ""


def _derived(by_part: Iterable[Mapping[str, float]]) -> dict[str, float]:
    derived: dict[str, float] = {}
    for metrics in by_part:
        for name in SUMMED:
            if name in metrics:
                derived[name] = derived.get(name, 0.0) + metrics[name]
        for name, parts in LARGEST.items():
            for part in parts:
                if part in metrics:
                    derived[name] = max(derived.get(name, 0.0), metrics[part])
    return derived
