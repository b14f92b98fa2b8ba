"""Make templates of snapshots in our own format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.model import canonical
from clienthealth.model.clients import Client, ClientProcess, Kind
from tests.bench.templates import BUFFER_BYTES, Template

PROCESS = ClientProcess("service-<<service>>", "host-<<client>>", "host-<<client>>:4711")
KEY = PROCESS.key
MOVING: Mapping[str, str] = {
    "select-total": "<<<selects>>>",
    "io-time-ns-total": "<<<io_ns>>>",
    "io-wait-time-ns-total": "<<<wait_ns>>>",
    "record-send-total": "<<<sent>>>",
    "record-ack-total": "<<<sent>>>",
    "buffer-available-bytes": "<<<available>>>",
    "waiting-threads": "<<<waiting>>>",
}
STANDING: Mapping[str, float] = {
    "buffer-total-bytes": float(BUFFER_BYTES),
    "metadata-age": 12.0,
    "select-rate": 13.694,
    "io-wait-ratio": 0.971,
    "io-ratio": 0.018,
    "bufferpool-wait-ratio": 0.0,
    "buffer-exhausted-total": 0.0,
    "queue-records": 0.0,
    "queue-records-limit": 100000.0,
    "record-send-rate": 300.126,
    "record-error-total": 0.0,
    "requests-in-flight": 1.0,
    "connection-count": 3.0,
    "record-queue-time-avg": 0.634,
    "record-queue-time-max": 6.0,
    "request-latency-avg": 2.481,
    "request-latency-max": 17.0,
    "callback-time-avg": 0.152,
    "callback-time-max": 1.309,
    "callback-time-p99": 0.871,
    "ack-latency-avg": 3.204,
    "ack-latency-max": 19.0,
    "reply-queue": 0.0,
    **{f"other-metric-{n}-avg": 1.25 for n in range(8)},
}
PRODUCER: Mapping[str, Any] = {**MOVING, **STANDING}


def producer() -> Template:
    return Template.of(_snapshot("order-producer", "producer", PRODUCER), f"{KEY}order-producer")


def consumer() -> Template:
    metrics: dict[str, Any] = {
        "select-total": "<<<selects>>>",
        "records-consumed-total": "<<<sent>>>",
        "fetch-total": "<<<selects>>>",
        "last-poll-seconds-ago": 0.0,
        "poll-idle-ratio-avg": 0.82,
        "time-between-poll-max": 520.0,
        "records-lag-max": 3.0,
        "assigned-partitions": 3.0,
        "last-heartbeat-seconds-ago": 1.0,
        "connection-count": 3.0,
    }
    topics = [
        {"topic": "orders", "partition": n, "thread": None, "metrics": {"records-lag": 3.0, "position": "<<<sent>>>"}}
        for n in range(3)
    ]
    document = {**_snapshot("order-reader", "consumer", metrics), "topics": topics}
    return Template.of(document, f"{KEY}order-reader")


def group() -> Template:
    metrics = {
        "committed-offset": "<<<sent>>>",
        "commit-timestamp-ms": "<<<ts_ms>>>",
        "end-offset": "<<<sent>>>",
        "start-offset": 0,
    }
    name = "readers-<<client>>"
    client = Client("consumer-groups", "", "default", name, "group", "broker", group=name)
    topics = [{"topic": "orders", "partition": n, "metrics": metrics} for n in range(3)]
    document = canonical.snapshot(client, 0, {"members": 1}, topics, {"group.state": "Stable"})
    return Template.of({**document, "ts": "<<<ts_ms>>>"}, client.key)


def _snapshot(client_id: str, kind: Kind, metrics: Mapping[str, Any]) -> dict[str, Any]:
    client = PROCESS.client(client_id, kind, "java", "3.9.1")
    config = {"buffer.memory": str(BUFFER_BYTES), "request.timeout.ms": "30000"}
    return {**canonical.snapshot(client, 0, metrics, config=config), "ts": "<<<ts_ms>>>"}
