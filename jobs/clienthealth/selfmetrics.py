"""The monitor watches itself: what it reads, how far behind it is, how long its batches take.

Served on the monitor's own port, because it must be seen when all else fails. A registry of its own, no globals.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from clienthealth.incidents import Transition
from clienthealth.monitor_port import Port, serve

PREFIX = "kafka_client_health"
#: The name of the streaming query.
QUERY = "monitor"
LATENCY_BUCKETS = (5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600)


class Arrived(Protocol):
    """Records of one topic that were read together; `reason` says why they were rejected, None for good ones.

    `newest_ms`: the newest time that one of them has (epoch ms), 0 where none has any.
    """

    topic: str
    reason: str | None
    records: int
    newest_ms: int


class SelfMetrics:
    """The metrics of the monitor itself, `kafka_client_health_*`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

        self.input_lag = gauge("input_lag_records", "Records of an input topic not yet read.", "source_topic")
        self.newest = gauge(
            "newest_event_timestamp_seconds", "Time of the newest record that was read.", "source_topic"
        )
        self.read = counter("records_read", "Records read.", "source_topic")
        self.rejected = counter("records_rejected", "Records that could not be read.", "reason", "source_topic")
        self.late = counter(
            "late_records", "Readings and events that came after their windows were closed and were left out.", "query"
        )
        self.duration = gauge("batch_duration_seconds", "How long the last batch took.", "query")
        self.last_batch = gauge("last_batch_timestamp_seconds", "When the last batch ended.", "query")
        self.state_rows = gauge("state_rows", "Clients that the query keeps as state.", "query")
        self.up = gauge("query_up", "1 while the streaming query runs.", "query")
        self.changes = counter("incident_changes", "Changes of incidents.", "mode", "change")
        self.latency = Histogram(
            f"{PREFIX}_verdict_latency_seconds",
            "From the onset of a fault to its verdict.",
            registry=self.registry,
            buckets=LATENCY_BUCKETS,
        )
        Info(f"{PREFIX}_build", "Version of the monitor.", registry=self.registry).info(
            {"version": version("kafka-client-health")}
        )

    def serve(self, host: str, port: int) -> None:
        """Serve /metrics and the probes. Raises ServiceError where the port is taken."""
        last_batch = f"{PREFIX}_last_batch_timestamp_seconds"
        answer = Port(self.registry, lambda: self.registry.get_sample_value(last_batch, {"query": QUERY}))
        serve(host, port, answer)

    def changed(self, change: Transition, now: float) -> None:
        """Count the change of an incident, and how long its discovery took."""
        self.changes.labels(change.verdict.mode, change.change).inc()
        if change.change == "opened" and change.verdict.since_ms is not None:
            self.latency.observe(max(0.0, now - change.verdict.since_ms / 1000))

    def counted(self, counts: Iterable[Arrived]) -> None:
        """Count the records of a batch, good and bad."""
        for row in counts:
            self.read.labels(row.topic).inc(row.records)
            if row.reason is not None:
                self.rejected.labels(row.reason, row.topic).inc(row.records)
            elif row.newest_ms:
                self.newest.labels(row.topic).set(row.newest_ms / 1000)

    def stepped(self, clients: int, late: int) -> None:
        """Take in how many clients are kept as state, and how many readings and events of a batch came too late."""
        self.state_rows.labels(QUERY).set(clients)
        self.late.labels(QUERY).inc(late)

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """Take in the progress of a query, as Spark reports it in JSON."""
        query = progress["name"]
        self.duration.labels(query).set(progress["durationMs"].get("triggerExecution", 0) / 1000)
        self.last_batch.labels(query).set(time.time())
        for source in progress.get("sources", []):
            latest, end = source.get("latestOffset") or {}, source.get("endOffset") or {}
            if isinstance(latest, dict) and isinstance(end, dict):
                for topic, partitions in latest.items():
                    behind = sum(offset - end.get(topic, {}).get(p, 0) for p, offset in partitions.items())
                    self.input_lag.labels(topic).set(max(0, behind))
