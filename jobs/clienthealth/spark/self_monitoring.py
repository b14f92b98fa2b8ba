"""The monitor's metrics about itself, and the port that serves them.

/metrics    Prometheus text format
/healthz    200, or 503 if no batch has ended for HUNG_SECONDS; a platform then restarts the monitor
/readyz     like /healthz, but also 503 until the first batch has ended
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from clienthealth.model.tables import table
from clienthealth.platform.web import Request, Response, Server, probe
from clienthealth.settings import PrometheusSettings

if TYPE_CHECKING:
    from clienthealth.spark.decoding import Count
    from clienthealth.spark.stepping import Summary

PREFIX = "kafka_client_health"
QUERY = "monitor"
#: The names of the limits on the monitor's work: the values of the label `limit` of the metric `left_out`.
LIMITS = ("clients", "clients-per-service", "new-clients", "events-per-process", "events", "readings-per-second")
#: If the judgement of a process raises an error, the label `reason` of the metric `records_rejected` has this value.
FAILED = "step-failed"
LATENCY_BUCKETS = (5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600)
PROBES = frozenset({"/healthz", "/readyz"})
#: The probes fail if no batch has ended for this number of seconds.
HUNG_SECONDS = 600.0


_TABLE = table(Path(__file__).with_suffix(".toml"))
M = TypeVar("M", Counter, Gauge)


def _made(kind: type[M], rows: Mapping[str, Mapping[str, Any]], registry: CollectorRegistry) -> dict[str, M]:
    named = ((name, f"{PREFIX}_{name}", row) for name, row in rows.items())
    return {name: kind(full, row["help"], row.get("labels", ()), registry=registry) for name, full, row in named}


class _Labelled(Collector):
    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        self._registry, self._labels = registry, labels

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s._replace(labels={**self._labels, **s.labels}) for s in metric.samples]
            yield metric


class SelfMetrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.gauges = _made(Gauge, _TABLE["gauges"], registry)
        self.counters = _made(Counter, _TABLE["counters"], registry)
        self.latency = Histogram(
            f"{PREFIX}_verdict_latency_seconds",
            "Time from the onset of a fault to its verdict.",
            registry=registry,
            buckets=LATENCY_BUCKETS,
        )
        for limit in LIMITS:
            self.counters["left_out"].labels(limit)
        self.counters["late_records"].labels(QUERY)
        self.gauges["query_up"].labels(QUERY)
        self.gauges["start_timestamp_seconds"].set(time.time())
        #: `pause`: time (s) that the last batch waited at its end.
        self.pause = 0.0
        self.batches = 0
        self._clients: dict[int, tuple[int, int]] = {}
        build = Info(f"{PREFIX}_build", "Version of the monitor.", registry=registry)
        build.info({"version": version("kafka-client-health")})

    def serve(self, host: str, port: int, labels: Mapping[str, str]) -> None:
        """Serve /metrics and the probes, with `labels` on every series. Raises ServiceError if the port is taken."""
        last_batch = f"{PREFIX}_last_batch_timestamp_seconds"
        answer = Port(self.labelled(labels), lambda: self.registry.get_sample_value(last_batch, {"query": QUERY}))
        serve(host, port, answer)

    def labelled(self, labels: Mapping[str, str]) -> CollectorRegistry:
        """Return a registry of the metrics in `self.registry`, with `labels` on every series."""
        labelled = CollectorRegistry()
        labelled.register(_Labelled(self.registry, labels))
        return labelled

    def counted(self, counts: Iterable[Count]) -> None:
        """Add a batch's counts of records to the metrics, and update the newest event times."""
        for row in counts:
            self.counters["records_read"].labels(row.topic).inc(row.records)
            if row.reason is not None:
                self.counters["records_rejected"].labels(row.reason, row.topic).inc(row.records)
            for of, newest_ms in (("clients", row.newest_ms), ("groups", row.groups_newest_ms)):
                if newest_ms:
                    self.gauges["newest_event_timestamp_seconds"].labels(row.topic, of).set(newest_ms / 1000)

    def stepped(self, summaries: Iterable[Summary], now: float) -> None:
        """Update the metrics from a batch's summaries, one per bucket. `now`: when the batch was judged (epoch s)."""
        for summary in summaries:
            if summary.bucket is not None:
                self._clients[summary.bucket] = summary.clients, summary.skewed
            self.counters["late_records"].labels(QUERY).inc(summary.late)
            for mode, change, number in summary.changes:
                self.counters["incident_changes"].labels(mode, change).inc(number)
            for onset_ms in summary.onsets:
                self.latency.observe(max(0.0, now - onset_ms / 1000))
            for limit, number in summary.left_out.items():
                self.counters["left_out"].labels(limit).inc(number)
            for topic, number in summary.failed.items():
                self.counters["records_rejected"].labels(FAILED, topic).inc(number)
        self.gauges["state_rows"].labels(QUERY).set(sum(clients for clients, _ in self._clients.values()))
        self.gauges["skewed_clients"].labels(QUERY).set(sum(skewed for _, skewed in self._clients.values()))

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """Update the metrics after a batch. `progress`: Spark's report on the query's progress, decoded from JSON."""
        query = progress["name"]
        self.batches += 1
        took = progress["durationMs"].get("triggerExecution", 0) / 1000 - self.pause
        self.gauges["batch_duration_seconds"].labels(query).set(max(0.0, took))
        self.gauges["last_batch_timestamp_seconds"].labels(query).set(time.time())
        for source in progress.get("sources", []):
            latest, end = source.get("latestOffset") or {}, source.get("endOffset") or {}
            if isinstance(latest, dict) and isinstance(end, dict):
                for topic, partitions in latest.items():
                    behind = sum(offset - end.get(topic, {}).get(p, 0) for p, offset in partitions.items())
                    self.gauges["input_lag_records"].labels(topic, query).set(max(0, behind))
                # If the end offset is below the start offset, the partition was created again.
                start = source.get("startOffset") or {}
                for topic, partitions in end.items():
                    for partition, offset in partitions.items():
                        if offset < start.get(topic, {}).get(partition, 0):
                            self.counters["recreated_partitions"].labels(topic).inc()
                            self.counters["lost_records"].labels(topic).inc(offset)


@dataclass
class Port:
    """Answers HTTP requests for /metrics, /healthz and /readyz; any other path gets a 404.

    `last_batch` returns the time (epoch s) at which the last batch ended, or None before the end of the first batch.
    """

    registry: CollectorRegistry
    last_batch: Callable[[], float | None]
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._started = self.clock()

    def __call__(self, request: Request) -> Response:
        match request.path:
            case "/metrics":
                return Response(generate_latest(self.registry).decode(), CONTENT_TYPE_LATEST)
            case "/healthz":
                return probe(self._hangs(self.last_batch() or self._started))
            case "/readyz":
                last = self.last_batch()
                return probe("no batch has ended yet" if last is None else self._hangs(last))
        return Response("not found\n", "text/plain", HTTPStatus.NOT_FOUND)

    def _hangs(self, since: float) -> str | None:
        silent = self.clock() - since
        return f"no batch has ended for {silent:.0f} s" if silent > HUNG_SECONDS else None


def serve(host: str, port: int, answer: Port) -> Server:
    """Serve `answer` in a separate thread, and return the server. Raises ServiceError if the port is taken."""
    options = "[monitor] metrics_port, or 0 for none"
    server = Server(PrometheusSettings(host=host, port=port), answer, PROBES, options)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
