"""Build records of the topic `client-health` as the monitor writes them."""

from __future__ import annotations

import json
from typing import Any

NOW_MS = 1_795_208_640_000
"""NOW_MS is 2026-11-20 21:04:00 UTC."""


def key(service: str, instance: str, client_id: str) -> bytes:
    return f"{service}|{instance}|{client_id}".encode("utf-8", "replace")


def verdict(mode: str, status: str, **more: Any) -> dict[str, Any]:
    """Return a verdict. A suspected or confirmed failure began 90 s before NOW_MS."""
    fields: dict[str, Any] = {"mode": mode, "status": status}
    if status in ("suspected", "confirmed"):
        fields |= {"since": NOW_MS - 90_000, "detail": {}, "evidence": []}
    return fields | more


def record(
    *verdicts: dict[str, Any],
    service: str = "orders-api",
    host: str = "web-7",
    instance: str = "web-7:31337",
    client_id: str = "order-producer",
    kind: str = "producer",
    end_ms: int = NOW_MS,
    worst: str = "ok",
    **more: Any,
) -> dict[str, Any]:
    client = {"service": service, "host": host, "instance": instance, "client_id": client_id, "kind": kind}
    client |= {"library": "java", "version": "3.9.1", "group": more.pop("group", None)}
    return {
        "schema": 1,
        "window_start": end_ms - 60_000,
        "window_end": end_ms,
        "client": client,
        "samples": 6,
        "indicators": more.pop("indicators", {}),
        "verdicts": list(verdicts),
        "worst": worst,
        **more,
    }


def deadlock(**more: Any) -> dict[str, Any]:
    evidence = [
        {
            "kind": "metric",
            "ts": NOW_MS - 30_000,
            "text": "select-total stayed at 10213 for 40 s while the buffer filled from 12 % to 96 %",
            "source": {"topic": "client-metrics", "partition": 2, "offset": 88123},
        },
        {
            "kind": "thread-dump",
            "ts": NOW_MS - 20_000,
            "text": "kafka-producer-network-thread | order-producer is WAITING in FutureRecordMetadata.get, called"
            " from onCompletion",
            "source": {"topic": "client-logs", "partition": 0, "offset": 4711},
        },
    ]
    one = verdict("producer-callback-deadlock", "confirmed", detail={"cause": "get-in-callback"}, evidence=evidence)
    indicators = {
        "buffer_used_ratio": {"last": 1.0, "max": 1.0},
        "buffer": {
            "total_bytes": 4194304.0,
            "available_bytes": 0.0,
            "waiting_threads": 4.0,
            "wait_ratio": 1.0,
            "exhausted_records_total": 118.0,
            "seconds_to_full": None,
        },
        "callback_seconds": {"avg": None, "max": None, "p99": None, "source": "unknown"},
        "io_thread_busy_ratio": 1.0,
        "queue_time_seconds": {"avg": "NaN", "max": None},
        "request_latency_seconds": {"avg": 0.012, "max": 0.25},
    }
    others = [verdict("send-blocked-on-metadata", "ok")]
    return record(one, *others, worst="confirmed", indicators=indicators, **more)


def healthy(number: int = 0, **more: Any) -> dict[str, Any]:
    indicators = more.pop("indicators", None) or {
        "buffer_used_ratio": {"last": 0.03, "max": 0.05},
        "buffer": {"total_bytes": 33554432.0, "available_bytes": 32547799.0, "waiting_threads": 0.0},
        "callback_seconds": {"avg": 0.00013, "max": None, "p99": None, "source": "derived"},
        "io_thread_busy_ratio": 0.03,
    }
    fine = [verdict("producer-callback-deadlock", "ok"), verdict("send-blocked-on-metadata", "ok")]
    names = {"service": "billing", "host": f"bill-{number}", "instance": f"bill-{number}:77", "client_id": "invoices"}
    return record(*fine, indicators=indicators, **{**names, **more})


def group(
    name: str = "order-workers", cluster: str = "prod-eu", status: str = "OK", partitions: int = 2, **more: Any
) -> dict[str, Any]:
    """Return a group with a lag of 120 records on each partition of the topic `orders`."""
    lag = [
        {
            "topic": "orders",
            "partition": number,
            "records": 120,
            "seconds": 4.2,
            "quality": "interpolated",
            "state": status,
            "committed_offset": 880,
            "end_offset": 1000,
            "start_offset": 400,
            "commit_age_seconds": 3.0,
            "retention_used_ratio": 0.2,
            "member": {"client_id": "worker-1", "consumer_id": "worker-1-aa", "host": "/10.0.0.8"},
        }
        for number in range(partitions)
    ]
    totals = {"status": status, "max_lag": 120, "max_lag_seconds": 4.2, "sum_lag": 120 * partitions, "members": 1}
    document = record(
        service="consumer-groups",
        host="",
        instance=cluster,
        client_id=name,
        kind="group",
        group=name,
        worst="unknown",
        indicators={"lag": lag, "group": totals},
        **more,
    )
    document["client"] |= {"library": "broker", "version": "classic"}
    return document


def wire(document: dict[str, Any]) -> tuple[bytes, bytes, int]:
    """Return the key, the value and the timestamp (ms) of a record."""
    client = document["client"]
    return (
        key(client["service"], client["instance"], client["client_id"]),
        json.dumps(document).encode(),
        min(document["window_end"], NOW_MS),
    )
