"""The metrics that are kept of a client, with their units, and the options that a judgement looks at.

Names are those of the Java client's MBean attributes, in their units (ms, ns, bytes). The formats map other libraries'
names onto them, so that a name has one meaning everywhere. A metric that is not known is absent from a mapping: never
0, never NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

from clienthealth.model.values import LATEST_MS, MAX_INT

#: Of clients that push (KIP-714): 1 where it was closing when it did, else 0.
TERMINATING = "terminating"

#: What the windows keep of a client's metrics, by kind: name → unit. All other metrics are dropped on reading.
CLIENT_METRICS: Mapping[str, Mapping[str, str]] = {
    "producer": {
        "select-total": "1",
        "select-rate": "1/s",
        "io-time-ns-total": "ns",
        "io-wait-time-ns-total": "ns",
        "io-wait-ratio": "ratio",
        "io-ratio": "ratio",
        "buffer-total-bytes": "bytes",
        "buffer-available-bytes": "bytes",
        "waiting-threads": "threads",
        "bufferpool-wait-ratio": "ratio",
        "buffer-exhausted-total": "records",
        "queue-records": "records",
        "queue-records-limit": "records",
        "record-send-total": "records",
        "record-send-rate": "records/s",
        "record-ack-total": "records",
        "record-retry-total": "records",
        "record-error-total": "records",
        "requests-in-flight": "1",
        "connection-count": "1",
        "connection-close-total": "1",
        "failed-authentication-total": "1",
        "metadata-age": "s",
        "record-queue-time-avg": "ms",
        "record-queue-time-max": "ms",
        "request-latency-avg": "ms",
        "request-latency-max": "ms",
        "slowest-node": "id of a broker",
        "slowest-node-latency-avg": "ms",
        "produce-throttle-time-avg": "ms",
        "batch-size-avg": "bytes",
        "compression-rate-avg": "ratio",
        "callback-time-avg": "ms",
        "callback-time-max": "ms",
        "callback-time-p99": "ms",
        "ack-latency-avg": "ms",
        "ack-latency-max": "ms",
        "reply-queue": "1",
        TERMINATING: "1",
    },
    "consumer": {
        "select-total": "1",
        "last-poll-seconds-ago": "s",
        "poll-idle-ratio-avg": "ratio",
        "time-between-poll-max": "ms",
        "records-lag-max": "records",
        "records-consumed-total": "records",
        "records-consumed-rate": "records/s",
        "fetch-total": "1",
        "fetch-throttle-time-avg": "ms",
        "assigned-partitions": "1",
        "last-heartbeat-seconds-ago": "s",
        "rebalance-total": "1",
        "rebalance-latency-max": "ms",
        "commit-latency-avg": "ms",
        "commit-latency-max": "ms",
        "request-total": "1",
        "response-total": "1",
        "connection-count": "1",
        "failed-authentication-total": "1",
        "io-wait-time-ns-total": "ns",
        "reply-queue": "1",
        TERMINATING: "1",
    },
    "legacy-consumer": {
        "max-lag": "records",
        "messages-total": "records",
        "fetch-requests-total": "1",
    },
    "group": {"members": "1"},
}

#: The same for one topic, partition or consuming thread of a client.
TOPIC_METRICS: Mapping[str, str] = {
    "record-send-total": "records",
    "record-error-total": "records",
    "records-lag": "records",
    "records-lead": "records",
    "records-consumed-total": "records",
    "records-consumed-rate": "records/s",
    "paused": "1",
    "queue-records": "records",
    "queue-bytes": "bytes",
    "queue-chunks": "chunks",
    "messages-total": "records",
    "position": "offset",
    "committed-offset": "offset",
    "commit-timestamp-ms": "ms",
    "start-offset": "offset",
    "end-offset": "offset",
}

#: Floats hold whole numbers exactly up to here. No client counts so far: it takes 285 years at a million a second.
_EXACT = 2.0**53
#: The largest value that a metric of each unit can have; a larger one is a mistake, or meant to do harm.
LARGEST: Mapping[str, float] = {
    "1": _EXACT,
    "1/s": _EXACT,
    "records": _EXACT,
    "records/s": _EXACT,
    "bytes": _EXACT,
    "offset": _EXACT,
    "chunks": MAX_INT,
    "threads": MAX_INT,
    "id of a broker": MAX_INT,
    # Of threads that wait together their sum.
    "ratio": 1e6,
    "s": LATEST_MS / 1000,
    "ms": LATEST_MS,
    # A signed integer of 64 bits: 292 years.
    "ns": 2.0**63,
}
#: A smaller value counts as 0, in any unit. Meters decay to 5e-324, by which nothing can be divided.
LEAST = 1e-9
#: The largest value by name of the metric.
MOST: Mapping[str, float] = {
    name: LARGEST[unit] for metrics in (*CLIENT_METRICS.values(), TOPIC_METRICS) for name, unit in metrics.items()
}

#: The options of a client that a judgement looks at. All have 32 bits (`values.option`).
CONFIG_OPTIONS: tuple[str, ...] = (
    "delivery.timeout.ms",
    "max.poll.interval.ms",
    "queued.max.message.chunks",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "request.timeout.ms",
)

#: What the clients take for the limits of the queue between them and a topic, where nobody sets them: chunks (Scala
#: consumer), records and kilobytes (librdkafka).
QUEUE_DEFAULTS: Mapping[str, float] = {
    "queued.max.message.chunks": 2.0,
    "queued.min.messages": 100_000.0,
    "queued.max.messages.kbytes": 65_536.0,
}
