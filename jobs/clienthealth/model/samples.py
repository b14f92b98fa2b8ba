"""Build snapshots of clients from single metric values (of one client, topic or partition).

Most formats use `Samples`: it collects the values of one process at one moment, and makes a snapshot of each client
among them. Only the final sort of topics is worse than linear, so that clients with thousands of partitions are no
problem.

Brokers are numbered as clients do it: each connection is a node, and the connection to a coordinator is a node of its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.model.values import MAX_INT, all_known, integer, number

#: A node without broker id: a bootstrap address for which the client does not know the broker yet.
UNNAMED = -1
#: A coordinator's node id is the largest integer minus the broker's id.
_COORDINATORS = 2**30


def node(name: str | None) -> int | None:
    """Return the broker id of a node name (`node-3`, `3`), UNNAMED if the name has none, None without a name."""
    if name is None:
        return None
    number = integer(name.removeprefix("node-").removeprefix("coordinator-"))
    if number is None or number < 0:
        return UNNAMED
    return MAX_INT - number if number > _COORDINATORS else number


def slowest_node(latencies: Mapping[int, float | None]) -> dict[str, float]:
    """Return the largest of the brokers' average latencies (ms, by broker id) and its broker, as metrics of the client.

    Only the slowest broker is kept: it is the one that matters, and a value for each would cost as much as there are
    brokers.
    """
    of_broker = {number: latency for number, latency in latencies.items() if number != UNNAMED and latency is not None}
    if not of_broker:
        return {}
    slowest = max(of_broker, key=lambda number: of_broker[number])
    return {"slowest-node": float(slowest), "slowest-node-latency-avg": of_broker[slowest]}


#: Metrics that some libraries report per topic or partition only; their sum is the client's value.
SUMMED = (
    "record-send-total",
    "record-send-rate",
    "record-error-total",
    "records-consumed-total",
    "records-consumed-rate",
)
#: A client's metric → the metrics of its topics of which the largest value is the client's.
LARGEST = {"records-lag-max": ("records-lag-max", "records-lag")}

_CLIENT_METRICS = frozenset(name for names in CLIENT_METRICS.values() for name in names)

#: A part of a client: a topic, or one partition or thread of a topic.
Part = tuple[str, int | None, str | None]


class Samples:
    """The metric values of one process at one moment.

    ts_ms, interval_ms, delta  apply to all its snapshots, see Snapshot
    library                    library of its clients (the Scala consumer's is always `scala`)
    version                    version of the library, if the record tells one for the whole process
    """

    def __init__(
        self,
        ts_ms: int | None,
        *,
        service: str | None = None,
        host: str | None = None,
        instance: str | None = None,
        library: str | None = None,
        version: str | None = None,
        group: str | None = None,
        interval_ms: int | None = None,
        delta: bool = False,
    ) -> None:
        self.ts_ms = ts_ms
        self.service, self.host, self.instance, self.group = service, host, instance, group
        self.library, self.version = library, version
        self.interval_ms, self.delta = interval_ms, delta
        self._clients: dict[tuple[str | None, str], _Client] = {}
        self._versions: dict[tuple[str | None, str], str] = {}
        self._groups: dict[tuple[str | None, str], str] = {}

    def add(
        self,
        client_id: str | None,
        kind: str | None,
        name: str | None,
        value: float | None,
        topic: str | None = None,
        partition: int | None = None,
        thread: str | None = None,
        node: int | None = None,
    ) -> None:
        """Add one value. Without `kind` it belongs to no Kafka client and is ignored.

            name     our name; None for a metric that is not read, which only shows that the client exists
            value    None if unknown
            node     the broker for which it was measured: it counts if the client has no value of its own

        Of several values with one name the largest counts: the slowest broker's latency stands for the client's.
        """
        if kind is None:
            return
        if name is None or value is None:
            self._client(client_id, kind)
            return
        metrics = self.metrics(client_id, kind, topic, partition, thread, node)
        if value >= metrics.get(name, -1.0):
            metrics[name] = value

    def add_all(
        self,
        client_id: str | None,
        kind: str | None,
        names: Sequence[str],
        values: Sequence[Any],
        topic: str | None = None,
        partition: int | None = None,
        thread: str | None = None,
        node: int | None = None,
    ) -> None:
        """Add values of one client, topic or broker, see `add`. Without values, only note that the client exists.

        names   our names
        values  one per name, as in the record, see `number`
        """
        if kind is None:
            return
        self._client(client_id, kind)
        metrics: dict[str, float] | None = None
        if names and all_known(values):
            metrics = self.metrics(client_id, kind, topic, partition, thread, node)
            if not metrics:
                metrics.update(zip(names, map(float, values), strict=True))
                if len(metrics) == len(names):
                    return
        for name, value in zip(names, map(number, values), strict=True):
            if value is not None:
                if metrics is None:
                    metrics = self.metrics(client_id, kind, topic, partition, thread, node)
                if value >= metrics.get(name, -1.0):
                    metrics[name] = value

    def metrics(
        self,
        client_id: str | None,
        kind: str,
        topic: str | None = None,
        partition: int | None = None,
        thread: str | None = None,
        node: int | None = None,
    ) -> dict[str, float]:
        """Return the mapping that collects the values of a client, of one of its topics, or of one of its brokers."""
        client = self._client(client_id, kind)
        if topic is None:
            return client.own if node is None else client.nodes.setdefault(node, {})
        key = (topic, partition, thread)
        metrics = client.parts.get(key)
        if metrics is None:
            metrics = client.parts[key] = {}
        return metrics

    def _client(self, client_id: str | None, kind: str) -> _Client:
        client = self._clients.get((client_id, kind))
        if client is None:
            client = self._clients[client_id, kind] = _Client()
        return client

    def saw(self, client_id: str, kind: str, version: str | None = None, group: str | None = None) -> None:
        """Note a client's version or consumer group; this alone makes no snapshot."""
        if version:
            self._versions[client_id, kind] = max(self._versions.get((client_id, kind), ""), version)
        if group:
            self._groups[client_id, kind] = group

    def snapshots(self, rolled_up: bool = False, whole: bool = True) -> list[Snapshot]:
        """Return one snapshot per client.

        rolled_up  derive values that a client lacks from those of its topics
        whole      True if the record has the values of all brokers, so that they can be compared
        """
        return [self._snapshot(*ref, client, rolled_up, whole) for ref, client in self._clients.items()]

    @property
    def _of_others(self) -> str | None:
        """Return the newest version that clients of the process report; clients without a version get it."""
        return max(self._versions.values(), default=None)

    def _snapshot(self, client_id: str | None, kind: str, client: _Client, rolled_up: bool, whole: bool) -> Snapshot:
        places = _without_doubles(client.parts) if client.parts else client.parts
        metrics = _of_clients(client.own)
        if client.nodes:
            metrics = _of_nodes(client.nodes, whole) | metrics
        if places and rolled_up:
            metrics = _derived(places.values()) | metrics
        return Snapshot(
            ts_ms=self.ts_ms,
            client=Identity(
                service=self.service,
                host=self.host,
                instance=self.instance,
                client_id=client_id,
                kind=kind,
                library="scala" if kind == "legacy-consumer" else self.library,
                version=self._versions.get((client_id, kind)) or self.version or self._of_others,
                group=self._groups.get((client_id, kind)) or self.group,
            ),
            metrics=metrics,
            topics=_topics(places) if places else [],
            interval_ms=self.interval_ms,
            delta=self.delta,
        )


class _Client:
    """The values of one client, of its single brokers, and of its topics, by our names."""

    __slots__ = ("nodes", "own", "parts")

    def __init__(self) -> None:
        self.own: dict[str, float] = {}
        self.nodes: dict[int, dict[str, float]] = {}
        self.parts: dict[Part, dict[str, float]] = {}


def unusable(error: str = "wrong-types") -> Snapshot:
    """Return a snapshot that stands for an unusable part of the record."""
    return Snapshot(error=error)


def _of_clients(metrics: Mapping[str, float]) -> dict[str, float]:
    """Drop metrics that only a topic or a partition can have."""
    if metrics.keys() <= _CLIENT_METRICS:
        return dict(metrics)
    return {name: value for name, value in metrics.items() if name in _CLIENT_METRICS}


def _of_nodes(nodes: Mapping[int, Mapping[str, float]], whole: bool) -> dict[str, float]:
    """Return the largest value of each broker metric, and the slowest broker if all are known."""
    largest: dict[str, float] = {}
    for metrics in nodes.values():
        for name, value in metrics.items():
            largest[name] = max(value, largest.get(name, 0.0))
    latencies = {node: metrics.get("request-latency-avg") for node, metrics in nodes.items()} if whole else {}
    return _of_clients(largest) | slowest_node(latencies)


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
    """Return a sort key that puts a topic as a whole before its partitions and threads."""
    topic, partition, thread = part
    return topic, partition is not None, partition or 0, thread or ""


def _derived(by_part: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Derive the client's metrics from those of its topics."""
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


def _without_doubles(parts: dict[Part, dict[str, float]]) -> dict[Part, dict[str, float]]:
    """Drop the second copy of a topic: Java consumers since 4.1 report `a.b` as `a_b` too, as before (KIP-1109)."""
    older = {topic.replace(".", "_") for (topic, _, _), metrics in parts.items() if metrics and "." in topic}
    return {part: metrics for part, metrics in parts.items() if part[0] not in older} if older else parts
