"""librdkafka's statistics (STATISTICS.md there), as the application's stats callback produces them.

Traps: `ts` is a monotonic clock, `time` the wall clock in seconds. Latencies are µs, ages ms. An offset of -1001 is
none, and a lag of -1 is unknown. Messages of a producer that have no partition yet (the topic's metadata is missing)
wait in partition -1: it is read as the topic as a whole, and only while there are any. `client_id` is "rdkafka" unless
the application set it, and host and process are missing: who has replicas names them by headers or key.
`committed_offset` has an older, misspelt twin. What the names mean in our terms: metric_names.LIBRDKAFKA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clienthealth.formats import Format, Record
from clienthealth.model.metric_names import LIBRDKAFKA
from clienthealth.model.nodes import node, slowest_node
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.model.values import integer, mapping, measurement, millis, present, text

Object = Mapping[str, Any]


def _recognise(record: Record) -> bool:
    document = record.document
    return (
        type(document) is dict
        and "brokers" in document
        and "topics" in document
        and "type" in document
        and "ts" in document
    )


def _decode(record: Record) -> list[Snapshot] | None:
    stats = mapping(record.document)
    kind = text(stats.get("type"))
    if kind is None or type(stats.get("topics")) is not dict or type(stats.get("brokers")) is not dict:
        return None
    producer = kind == "producer"
    seconds = measurement(stats.get("time"))
    client = Identity(
        # The same in every replica: unique within its process, if nowhere else.
        handle=text(stats.get("name")),
        client_id=text(stats.get("client_id")),
        kind=kind if kind in ("producer", "consumer") else None,
        library="librdkafka",
    )
    return [
        Snapshot(
            ts_ms=millis(seconds * 1000) if seconds is not None else None,
            client=client,
            metrics=_metrics(stats, producer),
            topics=[*_topics(stats["topics"], producer)],
        )
    ]


def _metrics(stats: Object, producer: bool) -> dict[str, float]:
    brokers = [mapping(broker) for broker in stats["brokers"].values()]
    of_kind = _of_producer(stats, brokers) if producer else _of_consumer(stats, brokers)
    fields = {
        **of_kind,
        "reply-queue": measurement(stats.get("replyq")),
        "connection-count": float(sum(broker.get("state") == "UP" for broker in brokers)),
    }
    return {name: value * LIBRDKAFKA[name][1] for name, value in fields.items() if value is not None}


def _of_producer(stats: Object, brokers: list[Object]) -> dict[str, float | None]:
    internal = _windows(brokers, "int_latency")
    round_trip = _windows(brokers, "rtt")
    size, limit = measurement(stats.get("msg_size")), measurement(stats.get("msg_size_max"))
    topics = [mapping(topic) for topic in stats["topics"].values()]
    return {
        "buffer-total-bytes": limit,
        "buffer-available-bytes": max(limit - size, 0.0) if size is not None and limit is not None else None,
        "queue-records": measurement(stats.get("msg_cnt")),
        "queue-records-limit": measurement(stats.get("msg_max")),
        "record-send-total": measurement(stats.get("txmsgs")),
        "record-queue-time-avg": _mean(internal),
        "record-queue-time-max": _maximum(internal),
        "request-latency-avg": _mean(round_trip),
        "request-latency-max": _maximum(round_trip),
        **slowest_node(_by_node(brokers)),
        "produce-throttle-time-avg": _mean(_windows(brokers, "throttle")),
        "batch-size-avg": _mean(_windows(topics, "batchsize")),
        "requests-in-flight": _total(broker.get("waitresp_cnt") for broker in brokers),
        "metadata-age": min(_measurements(topic.get("metadata_age") for topic in topics), default=None),
    }


def _of_consumer(stats: Object, brokers: list[Object]) -> dict[str, float | None]:
    group = mapping(stats.get("cgrp"))
    lags = (
        mapping(partition).get("consumer_lag")
        for topic in stats["topics"].values()
        for partition in mapping(mapping(topic).get("partitions")).values()
    )
    return {
        "records-consumed-total": measurement(stats.get("rxmsgs")),
        "records-lag-max": max(_measurements(lags), default=None),
        "assigned-partitions": measurement(group.get("assignment_size")),
        "rebalance-total": measurement(group.get("rebalance_cnt")),
        "fetch-throttle-time-avg": _mean(_windows(brokers, "throttle")),
    }


def _by_node(brokers: list[Object]) -> dict[int, float | None]:
    """The average round trip of each broker by its id."""
    ids = [node(present(broker.get("nodeid"))) for broker in brokers]
    return {
        number: _mean(_windows([broker], "rtt"))
        for number, broker in zip(ids, brokers, strict=True)
        if number is not None
    }


def _windows(parents: list[Object], name: str) -> list[tuple[float, Object]]:
    """How much each broker (or topic) measured in its window, and the window, without those that measured nothing."""
    windows = [mapping(one.get(name)) for one in parents]
    return [(count, window) for window in windows if (count := measurement(window.get("cnt")))]


def _mean(windows: list[tuple[float, Object]]) -> float | None:
    """The average over brokers or topics, weighted by how much each measured."""
    used = [(count, average) for count, window in windows if (average := measurement(window.get("avg"))) is not None]
    return (
        measurement(sum(count * average for count, average in used) / sum(count for count, _ in used)) if used else None
    )


def _maximum(windows: list[tuple[float, Object]]) -> float | None:
    return max(_measurements(window.get("max") for _, window in windows), default=None)


def _total(values: Iterable[Any]) -> float | None:
    """The sum of what is known; None where nothing is."""
    seen = _measurements(values)
    return measurement(sum(seen)) if seen else None


def _measurements(values: Iterable[Any]) -> list[float]:
    return [value for one in values if (value := measurement(one)) is not None]


def _topics(topics: Object, producer: bool) -> Iterator[TopicMetrics]:
    for name, document in topics.items():
        topic = text(mapping(document).get("topic")) or name
        for one in mapping(mapping(document).get("partitions")).values():
            partition = mapping(one)
            number = measurement(partition.get("partition"))
            waiting = _sum(partition, "msgq_cnt", "xmit_msgq_cnt")
            # The partition of what has none yet is -1.
            if number is not None or (producer and waiting):
                yield TopicMetrics(topic, integer(number), metrics=_of_partition(partition, producer, waiting))


def _of_partition(partition: Object, producer: bool, waiting: float | None) -> dict[str, float]:
    committed = measurement(partition.get("committed_offset"))
    fields = {
        "records-lag": measurement(partition.get("consumer_lag")),
        "position": measurement(partition.get("app_offset")),
        "committed-offset": committed if committed is not None else measurement(partition.get("commited_offset")),
    }
    if producer:
        fields |= {
            "queue-records": waiting,
            "queue-bytes": _sum(partition, "msgq_bytes", "xmit_msgq_bytes"),
            "record-send-total": measurement(partition.get("txmsgs")),
        }
    else:
        fields |= {
            "queue-records": measurement(partition.get("fetchq_cnt")),
            "queue-bytes": measurement(partition.get("fetchq_size")),
            "records-consumed-total": measurement(partition.get("rxmsgs")),
            "start-offset": measurement(partition.get("lo_offset")),
            "end-offset": measurement(partition.get("hi_offset")),
        }
    return {name: value for name, value in fields.items() if value is not None}


def _sum(partition: Object, one: str, other: str) -> float | None:
    first, second = measurement(partition.get(one)), measurement(partition.get(other))
    return measurement(first + second) if first is not None and second is not None else None


FORMAT = Format("librdkafka_stats", "metrics", 15, _recognise, _decode, interval_ms=30_000)
