"""List hand-written expected results for the metrics samples in tests/formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]
AT = 1795200030000  # 2026-11-20 18:40:30 UTC
POD = "checkout-6c9f7d5b8-x2k4q"
CHECKOUT = {"client_id": "checkout-producer-2", "kind": "producer", "library": "java"}
BILLING = {"client_id": "billing-1", "kind": "consumer", "library": "java"}
LAG = [{"topic": "orders_v2", "partition": 7, "metrics": {"records-lag": 612004}}]
BUFFER = {"buffer-available-bytes": 24576, "buffer-total-bytes": 33554432}
SATURATED = {**BUFFER, "bufferpool-wait-ratio": 0.8731, "waiting-threads": 6}
STUCK = {"poll-idle-ratio-avg": 0.004, "last-poll-seconds-ago": 287, "time-between-poll-max": 288101}

KEYS = {
    "jolokia_bulk_response.json": b"checkout|checkout-0:1|",
    "kafka_python_consumer_metrics.json": b"ledger|ledger-0:17|ledger-py",
    "kafka_python_producer_metrics.json": b"pricing|pricing-0:17|pricing-py",
}


def snapshot(fmt: str, client: Mapping[str, Any], metrics: Mapping[str, float], **more: Any) -> Row:
    return {"format": fmt, "ts_ms": AT, "interval_ms": 10_000, "client": client, "metrics": metrics, **more}


def adapted(metrics: Mapping[str, float], client: Mapping[str, Any] = CHECKOUT, **more: Any) -> Row:
    pod = {"service": "checkout", "host": POD, "instance": "10.42.7.19:8080", "version": "4.1.0"}
    return snapshot("prometheus_adapter", {**client, **pod}, metrics, interval_ms=60_000, **more)


def jmx_adapted(host: str, metrics: Mapping[str, float], client: Mapping[str, Any], **more: Any) -> Row:
    process = {"service": "jmx", "host": host, "instance": f"{host}:9404"}
    return snapshot("prometheus_adapter", {**client, **process}, metrics, interval_ms=60_000, **more)


KAFKA_PYTHON = {
    "connection-count": 3,
    "request-latency-avg": 1840.2,
    "request-latency-max": 9120,
    "record-queue-time-avg": 18211.4,
    "record-queue-time-max": 60412,
    "record-send-rate": 2411.7,
    "record-error-rate": 0.13,
    "requests-in-flight": 5,
    "metadata-age": 131.2,
    "batch-size-avg": 15900.2,
    "compression-rate-avg": 1,
    "slowest-node": 3,
    "slowest-node-latency-avg": 1902.8,
}

GOLDEN: dict[str, list[Row]] = {
    "jmxtrans_kafkawriter.ndjson": [
        *(
            snapshot(
                "jmxtrans",
                {**CHECKOUT, "service": "checkout", "host": "checkout-1", "instance": "checkout-1:9010"},
                metrics,
                interval_ms=60_000,
            )
            for metrics in ({"bufferpool-wait-ratio": 0.8731}, {"buffer-available-bytes": 24576})
        ),
        snapshot(
            "jmxtrans",
            {**BILLING, "host": "billing-0", "instance": "billing-0:9010"},
            {},
            interval_ms=60_000,
            topics=LAG,
        ),
    ],
    "jolokia_bulk_response.json": [
        snapshot(
            "jolokia",
            {**CHECKOUT, "service": "checkout", "instance": "checkout-0:1"},
            {**SATURATED, "record-queue-time-max": 60412},
        ),
        snapshot(
            "jolokia",
            {**CHECKOUT, "client_id": "audit-producer", "service": "checkout", "instance": "checkout-0:1"},
            {
                "buffer-available-bytes": 33554432,
                "buffer-total-bytes": 33554432,
                "bufferpool-wait-ratio": 0,
                "waiting-threads": 0,
            },
        ),
        snapshot("jolokia", {**BILLING, "service": "checkout", "instance": "checkout-0:1"}, {}, topics=LAG),
    ],
    "kafka_python_consumer_metrics.json": [
        snapshot(
            "kafka_python",
            {
                "service": "ledger",
                "instance": "ledger-0:17",
                "client_id": "ledger-py",
                "kind": "consumer",
                "library": "kafka-python",
            },
            {
                "connection-count": 3,
                "records-consumed-rate": 1102,
                "records-lag-max": 612004,
                "last-heartbeat-seconds-ago": 1.2,
                "assigned-partitions": 4,
                "commit-latency-avg": 6,
                "commit-latency-max": 44,
            },
            ts_ms=1795212000000,
        )
    ],
    "kafka_python_enveloped.json": [
        snapshot(
            "kafka_python",
            {
                "service": "pricing",
                "host": "pricing-batch-5f7d-9k2lp",
                "instance": "pricing-batch-5f7d-9k2lp",
                "client_id": "pricing-batch",
                "kind": "producer",
                "library": "kafka-python",
                "version": "3.0.12",
            },
            KAFKA_PYTHON,
        )
    ],
    "kafka_python_producer_metrics.json": [
        snapshot(
            "kafka_python",
            {
                "service": "pricing",
                "instance": "pricing-0:17",
                "client_id": "pricing-py",
                "kind": "producer",
                "library": "kafka-python",
            },
            KAFKA_PYTHON,
            ts_ms=1795212000000,
        )
    ],
    "librdkafka_stats_consumer.json": [
        snapshot(
            "librdkafka_stats",
            {"instance": "ledger#consumer-1", "client_id": "ledger", "kind": "consumer", "library": "librdkafka"},
            {
                "reply-queue": 0,
                "connection-count": 2,
                "records-consumed-total": 918443,
                "records-lag-max": 612004,
                "assigned-partitions": 1,
                "rebalance-total": 7,
                "fetch-throttle-time-avg": 0,
            },
            ts_ms=AT + 1000,
            interval_ms=30_000,
            topics=[
                {
                    "topic": "orders.v2",
                    "partition": 0,
                    "metrics": {
                        "queue-records": 100210,
                        "queue-bytes": 65611003,
                        "records-consumed-total": 918443,
                        "records-lag": 612004,
                        "position": 818233,
                        "committed-offset": 818100,
                        "start-offset": 0,
                        "end-offset": 1430104,
                    },
                }
            ],
        )
    ],
    "librdkafka_stats_producer.json": [
        snapshot(
            "librdkafka_stats",
            {
                "instance": "pricing-py#producer-1",
                "client_id": "pricing-py",
                "kind": "producer",
                "library": "librdkafka",
            },
            {
                "buffer-total-bytes": 1073741824,
                "buffer-available-bytes": 969519921,
                "queue-records": 99874,
                "queue-records-limit": 100000,
                "record-send-total": 7122154,
                "reply-queue": 1210,
                "metadata-age": 131.2,
                "connection-count": 1,
                "requests-in-flight": 5,
                # The average of both brokers, weighted by `cnt`: (30,000 × 4,900 ms + 900 × 9.12 ms) / 30,900.
                "record-queue-time-avg": 4757.547184,
                "record-queue-time-max": 61000,
                # The average of both brokers, weighted by `cnt`: (33 × 2,811 ms + 118 × 4.2 ms) / 151.
                "request-latency-avg": 617.606623,
                "request-latency-max": 29900,
                "slowest-node": 1,
                "slowest-node-latency-avg": 2811,
                "produce-throttle-time-avg": 0,
                "batch-size-avg": 81200,
            },
            interval_ms=30_000,
            topics=[
                {
                    "topic": "orders.v2",
                    "partition": 0,
                    "metrics": {"queue-records": 81200, "queue-bytes": 84740220, "record-send-total": 4002110},
                },
                {
                    "topic": "orders.v2",
                    "partition": 1,
                    "metrics": {"queue-records": 13674, "queue-bytes": 14281683, "record-send-total": 3120044},
                },
            ],
        )
    ],
    "metricbeat_jolokia_jmx.json": [
        snapshot("metricbeat", {**CHECKOUT, "host": "checkout", "instance": "checkout:8778"}, SATURATED)
    ],
    "metricbeat_kafka_consumer.json": [
        snapshot(
            "metricbeat",
            {**BILLING, "host": "billing", "instance": "billing:8778"},
            {"records-consumed-total": 1422011},
        )
    ],
    "metricbeat_kafka_consumergroup.json": [
        snapshot(
            "metricbeat_consumergroup",
            {
                "instance": "kafka-1:9092",
                "client_id": "billing",
                "kind": "group",
                "group": "billing",
                "library": "broker",
            },
            {},
            topics=[
                {
                    "topic": "orders.v2",
                    "partition": 7,
                    "member": {
                        "client_id": "billing-1",
                        "consumer_id": "billing-1-5e2b6c9a-7a36-4b2b-9e0f-6f3f3c1de002",
                        "host": "10.42.7.19",
                    },
                    "metrics": {"committed-offset": 818100, "end-offset": 1430104, "records-lag": 612004},
                }
            ],
        )
    ],
    "metricbeat_kafka_producer.json": [
        snapshot(
            "metricbeat",
            {**CHECKOUT, "host": "checkout", "instance": "checkout:8778"},
            {
                "buffer-available-bytes": 24576,
                "record-send-rate": 2411.7,
                "record-error-rate": 0.13,
                "batch-size-avg": 15900.2,
            },
        )
    ],
    "otlp_json_metrics_kip714_java.json": [
        snapshot(
            "otlp_metrics",
            {**CHECKOUT, "host": "10.42.7.19", "instance": "Hq0mC0pPS1e9oXn2mW7yUA", "version": "4.1.0"},
            {
                **SATURATED,
                "buffer-exhausted-total": 4,
                "record-queue-time-avg": 18211.4,
                "record-queue-time-max": 60412,
                "requests-in-flight": 5,
                "request-latency-avg": 1840.2,
                "request-latency-max": 9120,
                "metadata-age": 131.2,
                "io-wait-ratio": 0.02,
                "io-ratio": 0.41,
                "record-send-total": 148220,
                "record-send-rate": 2411.7,
                "record-error-total": 4,
                "record-retry-total": 812,
                "produce-throttle-time-avg": 0,
                "slowest-node": 3,
                "slowest-node-latency-avg": 1902.8,
            },
            delta=True,
            interval_ms=30_000,
        ),
        snapshot(
            "otlp_metrics",
            {
                **BILLING,
                "host": "10.42.7.19",
                "instance": "2dWZl4vKQ0mW8y5hR1sXnA",
                "version": "4.1.0",
                "group": "billing",
            },
            {
                **STUCK,
                "records-lag-max": 918223,
                "records-consumed-rate": 11.2,
                "records-consumed-total": 336,
                "assigned-partitions": 12,
                "rebalance-total": 2,
                "rebalance-latency-max": 31221,
                "commit-latency-max": 44,
                "last-heartbeat-seconds-ago": 1,
            },
            delta=True,
            interval_ms=30_000,
            topics=[
                {"topic": "orders_v2", "metrics": {"records-consumed-rate": 11.2, "records-consumed-total": 336}},
                *LAG,
            ],
        ),
    ],
    "otlp_json_metrics_kip714_librdkafka.json": [
        snapshot(
            "otlp_metrics",
            {
                "host": "10.42.9.3",
                "instance": "b1P3s0m9T5qk2VY8xE7wRg",
                "client_id": "pricing-py",
                "kind": "producer",
                "library": "librdkafka",
                "version": "2.12.1",
            },
            {
                "request-latency-avg": 12.41,
                "request-latency-max": 96,
                "record-queue-time-avg": 7.9,
                "record-queue-time-max": 1210,
                "produce-throttle-time-avg": 0,
                "slowest-node": 1,
                "slowest-node-latency-avg": 12.41,
            },
            delta=True,
            interval_ms=30_000,
        )
    ],
    "otlp_json_metrics_otel_javaagent.json": [
        snapshot(
            "otlp_metrics",
            {**CHECKOUT, "service": "checkout", "host": POD, "instance": "6a0c5d8e-9b4f-4f3a-8f25-0f7c1a2b3c4d"},
            {
                **SATURATED,
                "buffer-exhausted-total": 19,
                "record-queue-time-avg": 18211.4,
                "record-queue-time-max": 60412,
                "requests-in-flight": 5,
                "metadata-age": 131.2,
                "io-wait-ratio": 0.02,
                "record-error-total": 19,
                "record-send-total": 5822140,
                "record-send-rate": 2411.7,
                "request-latency-avg": 1902.8,
                "request-latency-max": 9120,
                "slowest-node": 3,
                "slowest-node-latency-avg": 1902.8,
            },
            interval_ms=60_000,
            topics=[{"topic": "orders.v2", "metrics": {"record-error-total": 19, "record-send-total": 5822140}}],
        ),
        snapshot(
            "otlp_metrics",
            {**BILLING, "service": "checkout", "host": POD, "instance": "6a0c5d8e-9b4f-4f3a-8f25-0f7c1a2b3c4d"},
            {**STUCK, "records-lag-max": 612004, "assigned-partitions": 12, "rebalance-latency-max": 31221},
            interval_ms=60_000,
            topics=LAG,
        ),
    ],
    "prometheus_kafka_adapter.ndjson": [
        adapted({"buffer-available-bytes": 24576}),
        adapted({"buffer-total-bytes": 33554432}),
        adapted({"bufferpool-wait-ratio": 0.8731}),
        adapted({"waiting-threads": 6}),
        adapted({"buffer-exhausted-total": 19}),
        adapted({"record-queue-time-max": 60412}),
        adapted({}, topics=[{"topic": "orders.v2", "metrics": {"record-error-total": 19}}]),
        adapted({}),
        adapted({}, BILLING, topics=LAG),
        adapted({"last-poll-seconds-ago": 287}, BILLING),
        jmx_adapted("10.42.7.19", {"bufferpool-wait-ratio": 0.8731}, CHECKOUT),
        jmx_adapted("10.42.7.20", {}, BILLING, topics=LAG),
        jmx_adapted("10.42.7.19", {}, CHECKOUT),
    ],
    "telegraf_batch.json": [
        snapshot("telegraf", {**BILLING, "host": "billing-0", "instance": "billing-0:8778"}, STUCK, topics=LAG)
    ],
    "telegraf_jolokia2_kafka_producer.json": [
        snapshot(
            "telegraf",
            {**CHECKOUT, "host": POD, "instance": f"{POD}:8778"},
            {
                **SATURATED,
                "buffer-exhausted-total": 19,
                "record-queue-time-avg": 18211.4,
                "record-queue-time-max": 60412,
                "requests-in-flight": 5,
                "metadata-age": 131.2,
                "record-error-total": 19,
            },
        )
    ],
}


def scraped(
    fmt: str, host: str, port: int, metrics: Mapping[str, float], client: Mapping[str, Any], **more: Any
) -> Row:
    return snapshot(fmt, {**client, "host": host, "instance": f"{host}:{port}"}, metrics, **more)


JMX = {"service": "jmx"}
GOLDEN |= {
    "telegraf_influx_jolokia2.influx": [
        scraped("influx", POD, 8778, SATURATED, CHECKOUT),
        scraped("influx", "billing-0", 8778, STUCK, BILLING, topics=LAG),
    ],
    "telegraf_influx_prometheus.influx": [
        scraped("influx", "checkout-1", 9404, BUFFER, CHECKOUT),
        scraped("influx", "billing-1", 9404, {}, BILLING, topics=LAG),
    ],
    "telegraf_prometheus.prom": [
        scraped(
            "prometheus_text",
            "checkout-1",
            8080,
            {**BUFFER, "request-latency-max": 61.5},
            {**CHECKOUT, "service": "checkout", "version": "4.1.0"},
        ),
    ],
    "vector_metrics.ndjson": [
        scraped(
            "vector_metrics", "checkout-1", 9404, {"buffer-available-bytes": 24576}, CHECKOUT | JMX, interval_ms=15_000
        ),
        scraped("vector_metrics", "billing-1", 9404, {}, BILLING | JMX, topics=LAG, interval_ms=15_000),
        scraped(
            "vector_metrics",
            "checkout-1",
            9404,
            {},
            CHECKOUT | JMX,
            topics=[{"topic": "orders_v2", "metrics": {"record-send-total": 20}}],
            interval_ms=15_000,
            delta=True,
        ),
        {"format": "vector_metrics", "error": "no-metrics"},
    ],
}


def protobuf_rows(name: str) -> list[Row]:
    return [{**row, "format": f"{row['format']}_protobuf"} for row in GOLDEN[name]]


GOLDEN |= {
    name.replace("otlp_json", "otlp_proto").replace(".json", ".bin"): protobuf_rows(name)
    for name in [*GOLDEN]
    if name.startswith("otlp_json")
}
