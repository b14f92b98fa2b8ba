"""List variants of the metrics formats with hand-written expected results."""

from __future__ import annotations

import json
from typing import Any

from tests.support.golden_metrics import AT, Row, snapshot
from tests.support.raw_records import Raw


def attribute(key: str, value: str) -> Row:
    return {"key": key, "value": {"stringValue": value}}


def gauge(name: str, value: Any, at: Any = f"{AT}000000", **attributes: str) -> Row:
    listed = [attribute(key.replace("_", "-"), text) for key, text in attributes.items()]
    return {"name": name, "gauge": {"dataPoints": [{"attributes": listed, "timeUnixNano": at, "asDouble": value}]}}


def resource(*metrics: Any, **attributes: str) -> Row:
    listed = [attribute(key.replace("__", "."), text) for key, text in attributes.items()]
    return {"resource": {"attributes": listed}, "scopeMetrics": [{"metrics": [*metrics]}]}


def otlp(*resources: Any) -> Row:
    return {"resourceMetrics": [*resources]}


def mbean(name: str, value: Any, status: int = 200, **request: Any) -> Row:
    return {
        "request": {"type": "read", "mbean": name, **request},
        "value": value,
        "status": status,
        "timestamp": 1795200030,
    }


def stats(**fields: Any) -> Row:
    return {
        "name": "rdkafka#producer-1",
        "client_id": "rdkafka",
        "type": "producer",
        "ts": 5016483227792,
        "time": 1795200030,
        "brokers": {},
        "topics": {},
        **fields,
    }


def impossible(fmt: str, names: str) -> Row:
    return {"format": fmt, "error": f"impossible-value: {names}"}


P = {"service": "s", "instance": "i", "client_id": "p", "kind": "producer", "library": "java"}
C = {**P, "client_id": "c", "kind": "consumer"}
OLD = {**P, "client_id": "g", "kind": "legacy-consumer", "library": "scala"}
RDKAFKA = {**P, "client_id": "rdkafka", "library": "librdkafka"}
WAIT = "kafka.producer.bufferpool_wait_ratio"
PUSHED = "org.apache.kafka.consumer.fetch.manager.records."
FETCHED = "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=c,topic={},partition=0"
READS = {"interval_ms": 60_000}
DOTTED = {"topic": "a.b", "partition": 0, "metrics": {"records-lag": 5}}

#: Maps a case's name to (record, expected samples). The record key has service `s` and instance `i`.
CASES: dict[str, tuple[Any, list[Row]]] = {
    "OTLP: numbers are numbers": (
        otlp(
            {
                "resource": {"attributes": [attribute("client_id", "p")]},
                "scopeMetrics": [
                    {
                        "metrics": [
                            {
                                "name": "org.apache.kafka.producer.select.total",
                                "sum": {
                                    "aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA",
                                    "dataPoints": [
                                        {
                                            "startTimeUnixNano": 1795199730000000000,
                                            "timeUnixNano": 1795200030000000000,
                                            "asInt": 7,
                                        }
                                    ],
                                },
                            }
                        ]
                    }
                ],
            }
        ),
        [snapshot("otlp_metrics", P, {"select-total": 7}, delta=True, interval_ms=300_000)],
    ),
    "OTLP: histograms and summaries are passed over": (
        otlp(
            resource(
                {"name": "kafka.producer.request_latency_avg", "histogram": {"dataPoints": [{"count": "1"}]}},
                {"name": "kafka.producer.io_ratio", "summary": {"dataPoints": [{"sum": 1}]}},
                {"name": "kafka.producer.io_ratio", "exponentialHistogram": {"dataPoints": [{"sum": 1}]}},
                {"name": "jvm.memory.used", "sum": {"dataPoints": [{"asInt": "5"}]}},
                gauge(WAIT, 0.5, client_id="p"),
            )
        ),
        [snapshot("otlp_metrics", P, {"bufferpool-wait-ratio": 0.5}, **READS)],
    ),
    "OTLP: nothing of Kafka": (
        otlp(resource({"name": "jvm.memory.used", "gauge": {"dataPoints": [{"asInt": "5"}]}})),
        [{"format": "otlp_metrics", "error": "no-metrics"}],
    ),
    "OTLP: only the bad clients of a record are lost": (
        otlp(
            resource(gauge(WAIT, 0.5), client_id="p", service__name="own"),
            resource(gauge(WAIT, 0.5), service__name="unnamed"),
            "no resource",
            resource(gauge("jvm.memory.used", 5), client_id="x"),
            resource("no metric", 7, None, gauge(WAIT, "0.25"), client_id="q"),
            {"scopeMetrics": [None, {"metrics": None}, {"metrics": [gauge(WAIT, 1, client_id="r")]}]},
            resource(gauge(WAIT, 0.5, at=str(2**63)), client_id="t"),
        ),
        [
            snapshot("otlp_metrics", {**P, "service": "own"}, {"bufferpool-wait-ratio": 0.5}, **READS),
            snapshot("otlp_metrics", {**P, "client_id": "r"}, {"bufferpool-wait-ratio": 1}, **READS),
            {"format": "otlp_metrics", "error": "missing-identity: client_id"},
            {"format": "otlp_metrics", "error": "future-timestamp"},
            *[{"format": "otlp_metrics", "error": "wrong-types"}] * 3,
        ],
    ),
    "OTLP: values per topic and partition are added up": (
        otlp(
            resource(
                gauge(PUSHED + "consumed.rate", 2, topic="a"),
                gauge(PUSHED + "consumed.rate", 3, topic="b"),
                gauge(PUSHED + "lag", 5, topic="a", partition="0"),
                gauge(PUSHED + "lag", 9, topic="a", partition="1"),
                gauge(PUSHED + "lag", "NaN", topic="a", partition="2"),
                client_id="c",
            )
        ),
        [
            snapshot(
                "otlp_metrics",
                C,
                {"records-consumed-rate": 5, "records-lag-max": 9},
                topics=[
                    {"topic": "a", "metrics": {"records-consumed-rate": 2}},
                    {"topic": "a", "partition": 0, "metrics": {"records-lag": 5}},
                    {"topic": "a", "partition": 1, "metrics": {"records-lag": 9}},
                    {"topic": "b", "metrics": {"records-consumed-rate": 3}},
                ],
                interval_ms=300_000,
            )
        ],
    ),
    "OTLP: the client's own word counts more than its parts": (
        otlp(
            resource(
                gauge("kafka.producer.record_send_rate", 9, client_id="p"),
                gauge("kafka.producer.record_send_rate", 2, client_id="p", topic="a"),
                gauge("kafka.producer.request_latency_max", 4, client_id="p"),
                gauge("kafka.producer.request_latency_max", 8, client_id="p", node_id="node-1"),
                gauge("kafka.producer.request_latency_avg", 3, client_id="p", node_id="node-1"),
                gauge("kafka.producer.request_latency_avg", 6, client_id="p", node_id="node-2"),
            )
        ),
        [
            snapshot(
                "otlp_metrics",
                P,
                {
                    "record-send-rate": 9,
                    "request-latency-max": 4,
                    "request-latency-avg": 6,
                    "slowest-node": 2,
                    "slowest-node-latency-avg": 6,
                },
                **READS,
            )
        ],
    ),
    "Jolokia: keys in any order, quoted, one MBean and one attribute": (
        [
            mbean('kafka.producer:type=producer-metrics,client-id="a,b=c"', {"io-ratio": 0.5, "none": None}),
            mbean("kafka.producer:client-id=p,type=producer-metrics", 3, attribute="waiting-threads"),
            mbean("kafka.producer:client-id=p,type=app-info", {"version": "2.8.1", "commit-id": "839b886f9b732b15"}),
            mbean("java.lang:type=Memory", {"HeapMemoryUsage": {"used": 5}}),
            mbean("kafka.producer:client-id=p,type=producer-metrics", None, status=404),
        ],
        [
            snapshot("jolokia", {**P, "client_id": "a,b=c", "version": "2.8.1"}, {"io-ratio": 0.5}),
            snapshot("jolokia", {**P, "version": "2.8.1"}, {"waiting-threads": 3}),
        ],
    ),
    "Jolokia: only what is broken is lost": (
        [7, mbean("kafka.producer:client-id=p,type=producer-metrics", {"io-ratio": 1}), {"request": 7, "status": 200}],
        [snapshot("jolokia", P, {"io-ratio": 1}), *[{"format": "jolokia", "error": "wrong-types"}] * 2],
    ),
    "Jolokia: a single read": (
        mbean("kafka.producer:type=producer-metrics,client-id=p", {"iotime-total": 7, "metadata-age": "Infinity"}),
        [snapshot("jolokia", P, {"io-time-ns-total": 7})],
    ),
    "Jolokia: nothing was read": (
        [mbean("kafka.producer:client-id=*,type=producer-metrics", None, status=404)],
        [{"format": "jolokia", "error": "no-metrics"}],
    ),
    "Jolokia: a dotted topic twice": (
        [
            mbean(
                FETCHED.format("*"),
                {
                    FETCHED.format("a.b"): {"records-lag": 5},
                    FETCHED.format("a_b"): {"records-lag": 5},
                    FETCHED.format("a_c"): {"records-lag": -1},
                },
            )
        ],
        [snapshot("jolokia", C, {}, topics=[DOTTED])],
    ),
    "Jolokia: the Scala consumer": (
        [
            mbean(
                "kafka.consumer:clientId=g,*",
                {
                    "kafka.consumer:clientId=g,name=FetchQueueSize,threadId=0,topic=a.b,"
                    "type=ZookeeperConsumerConnector": {"Value": 2},
                    "kafka.consumer:clientId=g,name=MaxLag,type=ConsumerFetcherManager": {"Value": 77},
                    "kafka.consumer:clientId=g,name=MessagesPerSec,type=ConsumerTopicMetrics": {
                        "Count": 123,
                        "OneMinuteRate": 1.5,
                    },
                    "kafka.consumer:clientId=g,name=FetchRequestRateAndTimeMs,type=FetchRequestAndResponseMetrics": {
                        "Count": 9
                    },
                    "kafka.consumer:brokerHost=h,brokerPort=1,clientId=g,name=FetchRequestRateAndTimeMs,"
                    "type=FetchRequestAndResponseMetrics": {"Count": 5},
                    "kafka.server:clientId=g,name=ConsumerLag,partition=0,topic=a.b,type=FetcherLagMetrics": {
                        "Value": 6
                    },
                    "kafka.server:clientId=g,name=ConsumerLag,partition=1,topic=a.b,type=FetcherLagMetrics": {
                        "Value": -1
                    },
                },
            )
        ],
        [
            snapshot(
                "jolokia",
                OLD,
                {"max-lag": 77, "messages-total": 123, "fetch-requests-total": 9},
                topics=[
                    {"topic": "a.b", "thread": "0", "metrics": {"queue-chunks": 2}},
                    {"topic": "a.b", "partition": 0, "metrics": {"records-lag": 6}},
                ],
            )
        ],
    ),
    "Telegraf: two processes, two rounds, one without a client": (
        {
            "metrics": [
                {
                    "name": "kafka_producer",
                    "fields": {"waiting-threads": 1},
                    "tags": {"client-id": "p", "host": "h", "jolokia_agent_url": "http://web-1:8778/jolokia"},
                    "timestamp": at,
                }
                for at in (1795200030, 1795200040)
            ]
            + [
                {
                    "name": "app.kafka",
                    "fields": {"records_lag_max": 3, "other": "text"},
                    "tags": {"client_id": "c", "host": "h", "jolokia_agent_url": "http://localhost:8779/jolokia"},
                    "timestamp": 1795200030123,
                },
                {
                    "name": "kafka_producer",
                    "fields": {"waiting-threads": 1},
                    "tags": {"host": "h"},
                    "timestamp": 1795200050,
                },
                7,
                None,
                {"name": "kafka_producer", "fields": "none"},
            ]
        },
        [
            snapshot("telegraf", {**P, "host": "web-1", "instance": "web-1:8778"}, {"waiting-threads": 1}),
            snapshot(
                "telegraf", {**P, "host": "web-1", "instance": "web-1:8778"}, {"waiting-threads": 1}, ts_ms=AT + 10_000
            ),
            snapshot("telegraf", {**C, "host": "h", "instance": "h:8779"}, {"records-lag-max": 3}, ts_ms=AT + 123),
            {"format": "telegraf", "error": "missing-identity: client_id"},
            *[{"format": "telegraf", "error": "wrong-types"}] * 3,
        ],
    ),
    "librdkafka: what is not known": (
        stats(
            msg_size=5,
            msg_size_max=3,
            replyq=-1,
            brokers={"a": {"state": "UP", "rtt": {"avg": 0, "max": 0, "cnt": 0}}, "b": {"state": "INIT"}},
            topics={"t": {"topic": "t", "metadata_age": -1, "partitions": {}}},
        ),
        [
            snapshot(
                "librdkafka_stats",
                RDKAFKA,
                {"buffer-total-bytes": 3, "buffer-available-bytes": 0, "connection-count": 1},
                interval_ms=30_000,
            )
        ],
    ),
    "librdkafka: messages that wait for their topic's metadata": (
        stats(
            topics={
                "t": {
                    "topic": "t",
                    "metadata_age": 0,
                    "partitions": {
                        "-1": {
                            "partition": -1,
                            "msgq_cnt": 40,
                            "msgq_bytes": 400,
                            "xmit_msgq_cnt": 0,
                            "xmit_msgq_bytes": 0,
                            "txmsgs": 0,
                        }
                    },
                }
            }
        ),
        [
            snapshot(
                "librdkafka_stats",
                RDKAFKA,
                {"connection-count": 0, "metadata-age": 0},
                interval_ms=30_000,
                topics=[{"topic": "t", "metrics": {"queue-records": 40, "queue-bytes": 400, "record-send-total": 0}}],
            )
        ],
    ),
    "kafka-python: seconds, an average of nothing, a dotted topic": (
        '{"producer-metrics": {"record-queue-time-avg": 0.0125, "record-queue-time-max": 61.5, "request-latency-avg": '
        '0.0, "request-latency-max": -Infinity, "metadata-age": NaN}, '
        '"producer-topic-metrics.a.b": {"record-send-total": 3}}',
        [
            snapshot(
                "kafka_python",
                {**P, "client_id": "k", "library": "kafka-python"},
                {"record-queue-time-avg": 12.5, "record-queue-time-max": 61500},
                ts_ms=1795212000000,
                topics=[{"topic": "a.b", "metrics": {"record-send-total": 3}}],
            )
        ],
    ),
    "adapter: no number": (
        {
            "timestamp": "2026-11-20T18:40:30Z",
            "value": "+Inf",
            "name": "kafka_producer_waiting_threads",
            "labels": {"client_id": "p", "instance": "h:1"},
        },
        [snapshot("prometheus_adapter", {**P, "host": "h", "instance": "h:1"}, {}, interval_ms=60_000)],
    ),
    "adapter: one broker alone need not be the slowest": (
        {
            "timestamp": "2026-11-20T18:40:30Z",
            "value": "7",
            "name": "kafka_producer_node_request_latency_avg",
            "labels": {"client_id": "p", "instance": "h:1", "node_id": "node-1"},
        },
        [
            snapshot(
                "prometheus_adapter",
                {**P, "host": "h", "instance": "h:1"},
                {"request-latency-avg": 7},
                interval_ms=60_000,
            )
        ],
    ),
    "adapter: not of Kafka": (
        {
            "timestamp": "2026-11-20T18:40:30Z",
            "value": "1",
            "name": "up",
            "labels": {"__name__": "up", "job": "j", "instance": "h:1"},
        },
        [{"format": "prometheus_adapter", "error": "no-metrics"}],
    ),
    "jmxtrans: names with dots, no tags": (
        {
            "keyspace": "h_1.kafka_producer.p.a.b.producer-topic-metrics.record-send-total",
            "value": "3",
            "timestamp": 1795200030,
        },
        [
            snapshot(
                "jmxtrans",
                {**P, "host": "h", "instance": "h:1"},
                {},
                interval_ms=60_000,
                topics=[{"topic": "a.b", "metrics": {"record-send-total": 3}}],
            )
        ],
    ),
    "jmxtrans: not of Kafka": (
        {"keyspace": "h_1.java_lang.Memory.HeapMemoryUsage_used", "value": "3", "timestamp": 1795200030},
        [{"format": "jmxtrans", "error": "no-metrics"}],
    ),
    "canonical: what is not known is no number": (
        '{"ts": 1795200030000, "client": {"client_id": "p", "kind": "producer"}, "metrics": {"io-ratio": 0.5, '
        '"metadata-age": NaN, "select-total": "7x", "waiting-threads": -1, "requests-in-flight": null, '
        '"record-send-total": Infinity}, "topics": [{"topic": null}, {"topic": "t", "metrics": {"position": -1001, '
        '"record-send-total": 4}}]}',
        [
            snapshot(
                "canonical",
                {"service": "s", "instance": "i", "client_id": "p", "kind": "producer"},
                {"io-ratio": 0.5},
                topics=[{"topic": "t", "metrics": {"record-send-total": 4}}],
            )
        ],
    ),
    "canonical: impossible values are dropped and reported": (
        '{"ts": 1795200030000, "client": {"client_id": "p", "kind": "producer"}, "metrics": {"io-ratio": 0.5, '
        '"buffer-total-bytes": 1e30, "waiting-threads": 2147483648, "select-total": 18446744073709551616, '
        '"record-send-total": 9007199254740992, "metadata-age": 1.7976931348623157e308}, "config": '
        '{"request.timeout.ms": "1e30", "delivery.timeout.ms": 2147483647, "acks": "all"}, "topics": [{"topic": "t", '
        '"metrics": {"record-send-total": 4, "commit-timestamp-ms": 253402300800000}}]}',
        [
            snapshot(
                "canonical",
                {"service": "s", "instance": "i", "client_id": "p", "kind": "producer"},
                {"io-ratio": 0.5, "record-send-total": 2**53},
                config={"delivery.timeout.ms": "2147483647"},
                topics=[{"topic": "t", "metrics": {"record-send-total": 4}}],
            ),
            impossible("canonical", "select-total, buffer-total-bytes, waiting-threads and 2 more"),
        ],
    ),
    "KIP-714: impossible values are dropped and reported": (
        otlp(
            resource(gauge("org.apache.kafka.producer.buffer.total.bytes", 1e30), client_id="p"),
            resource(gauge(WAIT, 0.5), client_id="q"),
        ),
        [
            snapshot("otlp_metrics", P, {}, interval_ms=300_000),
            snapshot("otlp_metrics", {**P, "client_id": "q"}, {"bufferpool-wait-ratio": 0.5}, **READS),
            impossible("otlp_metrics", "buffer-total-bytes"),
        ],
    ),
    "librdkafka: impossible values are dropped and reported": (
        stats(msg_size_max=2**70, msg_size=0, txmsgs=7),
        [
            snapshot("librdkafka_stats", RDKAFKA, {"record-send-total": 7, "connection-count": 0}, interval_ms=30_000),
            impossible("librdkafka_stats", "buffer-total-bytes and buffer-available-bytes"),
        ],
    ),
    "line protocol: impossible values are dropped and reported": (
        "kafka_producer,client-id=p,host=h select-total=1e308,io-ratio=0.5 1795200030000000000",
        [
            snapshot("influx", {**P, "host": "h", "instance": "h"}, {"io-ratio": 0.5}),
            impossible("influx", "select-total"),
        ],
    ),
    "Jolokia: impossible values are dropped and reported": (
        [mbean("kafka.consumer:type=consumer-metrics,client-id=c", {"last-poll-seconds-ago": 1e12, "select-total": 5})],
        [
            snapshot("jolokia", C, {"select-total": 5}),
            impossible("jolokia", "last-poll-seconds-ago"),
        ],
    ),
}

WHOLE = (
    b'{"ts": 1795200030000, "client": {"service": "s", "instance": "i", "client_id": "p", "kind": "producer"}, '
    b'"metrics": {"io-ratio": 0.5}'
)
REJECTED: dict[str, tuple[Any, str]] = {
    "no value": (None, "empty"),
    "blanks": (b" \n\t", "empty"),
    "OTLP as protobuf": (b"\n\x7f\n\x1d\n\x1b\n\x0chost.name\x12\x0b\n\tweb", "binary"),
    "Avro": (b"\x00\x00\x00\x00\x07\x02\x0ahello", "binary"),
    "UTF-16": ("{}".encode("utf-16"), "binary"),
    "line protocol without the client": (
        b"kafka_producer,host=h waiting-threads=1i 1795200030000000000",
        "missing-identity",
    ),
    "line protocol without tags": (b"kafka_producer waiting-threads=1i 1795200030000000000", "unknown-format"),
    "line protocol, cut": (b"kafka_producer,client-id=p,host=h waiting-threads=1i,buf", "unknown-format"),
    "line protocol of the future": (
        b"kafka_producer,client-id=p,host=h waiting-threads=1i 1895200030000000000",
        "future-timestamp",
    ),
    "logfmt": (b'level=info msg="sent 3" host=h count=3', "unknown-format"),
    "Prometheus's text of others": (b'# TYPE up gauge\nup{job="j"} 1\n', "no-metrics"),
    "Prometheus's text, cut": (b'kafka_producer_waiting_threads{client_id="p",host="h', "unknown-format"),
    "Vector's histogram": (
        b'{"name":"kafka_producer_x","tags":{},"kind":"absolute","aggregated_histogram":{"buckets":[]}}',
        "missing-identity",
    ),
    "another's JSON": (b'{"a": 1}', "unknown-format"),
    "a number": (b"7", "unknown-format"),
    "cut": (b'{"resourceMetrics": [{"resource": {"attrib', "truncated-json"),
    "cut list": (b'[{"request": {"mbean": "x"}, "status": 200}', "truncated-json"),
    "broken": (b'{"ts": 1795200030000,, "client": {}, "metrics": {}}', "malformed-json"),
    "canonical: broken at its end": (WHOLE + b', "topics": [{"topic" "t"}]}', "malformed-json"),
    "canonical: cut at its end": (WHOLE + b', "topics": [{"topic": "t", "metrics": {', "truncated-json"),
    "OTLP: wrong type": (b'{"resourceMetrics": 7}', "wrong-types"),
    "OTLP: nothing": (b'{"resourceMetrics": []}', "no-metrics"),
    "canonical: wrong types": (b'{"ts": 1795200030000, "client": "p", "metrics": {}}', "wrong-types"),
    "librdkafka: wrong types": (json.dumps(stats(topics=[], brokers=7)).encode(), "wrong-types"),
    "librdkafka: neither producer nor consumer": (json.dumps(stats(type="admin")).encode(), "missing-identity"),
    "librdkafka: no time": (json.dumps(stats(time=None)).encode(), "missing-timestamp"),
    "librdkafka: before Kafka": (json.dumps(stats(time=1000000000)).encode(), "missing-timestamp"),
    "librdkafka: tomorrow": (json.dumps(stats(time=1795300030)).encode(), "future-timestamp"),
    "kafka-python: wrong types": (
        b'{"metrics": {"producer-metrics": 7}, "client_id": "p", "ts_ms": 1795200030000}',
        "no-metrics",
    ),
    "too large": (b'{"a": "' + b"x" * 4_194_304 + b'"}', "oversized"),
}
OWN_ATTRIBUTE = otlp(resource(gauge(WAIT, 0.5), x__kafka="p", client_id="not this"))


def record(name: str, value: Any) -> Raw:
    data = value if value is None or isinstance(value, bytes) else value.encode() if isinstance(value, str) else None
    client_id = b"k" if name.startswith("kafka-python") else b""
    return Raw(name, json.dumps(value).encode() if data is None and value is not None else data, 0, b"s|i|" + client_id)
