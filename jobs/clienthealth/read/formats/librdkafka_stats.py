"""librdkafka's statistics (described in its STATISTICS.md), as the application's stats callback forwards them.

`ts` is a monotonic clock; `time` is the wall clock in seconds. Latencies are in µs, and ages in ms. The
statistics name no process, so the record's headers or key must distinguish replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from clienthealth.model.metric_names import LIBRDKAFKA
from clienthealth.model.samples import node, slowest_node
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.model.values import integer, mapping, measurement, millis, present, text
from clienthealth.read.formats import Format, Record, having

Object = Mapping[str, Any]

_FACTORS = {name: factor for name, (_, factor) in LIBRDKAFKA.items()}
_node = lru_cache(maxsize=4096)(node)


def _decode(record: Record) -> list[Snapshot] | None:
    stats = mapping(record.document)
    kind = text(stats.get("type"))
    if kind is None or type(stats.get("topics")) is not dict or type(stats.get("brokers")) is not dict:
        return None
    producer = kind == "producer"
    seconds = measurement(stats.get("time"))
    client = Identity(
        # A handle's name (rdkafka#producer-1) is unique only within a process.
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
    of_kind["reply-queue"] = measurement(stats.get("replyq"))
    of_kind["connection-count"] = float(sum([broker.get("state") == "UP" for broker in brokers]))
    return {name: value * _FACTORS[name] for name, value in of_kind.items() if value is not None}


def _of_producer(stats: Object, brokers: list[Object]) -> dict[str, float | None]:
    queued, longest_queued = _over(brokers, "int_latency")
    round_trip, longest_round_trip = _over(brokers, "rtt")
    size, limit = measurement(stats.get("msg_size")), measurement(stats.get("msg_size_max"))
    topics = [mapping(topic) for topic in stats["topics"].values()]
    ids = [_node(present(broker.get("nodeid"))) for broker in brokers]
    by_node = {of: _over([one], "rtt")[0] for of, one in zip(ids, brokers, strict=True) if of is not None}
    in_flight = _measurements([broker.get("waitresp_cnt") for broker in brokers])
    return {
        "buffer-total-bytes": limit,
        "buffer-available-bytes": max(limit - size, 0.0) if size is not None and limit is not None else None,
        "queue-records": measurement(stats.get("msg_cnt")),
        "queue-records-limit": measurement(stats.get("msg_max")),
        "record-send-total": measurement(stats.get("txmsgs")),
        "record-queue-time-avg": queued,
        "record-queue-time-max": longest_queued,
        "request-latency-avg": round_trip,
        "request-latency-max": longest_round_trip,
        **slowest_node(by_node),
        "produce-throttle-time-avg": _over(brokers, "throttle")[0],
        "batch-size-avg": _over(topics, "batchsize")[0],
        "requests-in-flight": measurement(sum(in_flight)) if in_flight else None,
        "metadata-age": min(_measurements([topic.get("metadata_age") for topic in topics]), default=None),
    }


def _of_consumer(stats: Object, brokers: list[Object]) -> dict[str, float | None]:
    group = mapping(stats.get("cgrp"))
    lags = [
        _lag(mapping(partition))
        for topic in stats["topics"].values()
        for partition in mapping(mapping(topic).get("partitions")).values()
    ]
    return {
        "records-consumed-total": measurement(stats.get("rxmsgs")),
        "records-lag-max": max(_measurements(lags), default=None),
        "assigned-partitions": measurement(group.get("assignment_size")),
        "rebalance-total": measurement(group.get("rebalance_cnt")),
        "fetch-throttle-time-avg": _over(brokers, "throttle")[0],
    }


def _over(parents: list[Object], name: str) -> tuple[float | None, float | None]:
    """Return (average weighted by `cnt`, maximum) of a statistic.

    `parents`: the brokers or topics that have the statistic. `name`: the statistic's field.
    """
    weights = weighted = 0.0
    maxima = []
    for parent in parents:
        window = mapping(parent.get(name))
        if count := measurement(window.get("cnt")):
            average, maximum = measurement(window.get("avg")), measurement(window.get("max"))
            if average is not None:
                weights, weighted = weights + count, weighted + count * average
            if maximum is not None:
                maxima.append(maximum)
    return measurement(weighted / weights) if weights else None, max(maxima, default=None)


def _measurements(values: Iterable[Any]) -> list[float]:
    return [value for one in values if (value := measurement(one)) is not None]


def _topics(topics: Object, producer: bool) -> Iterator[TopicMetrics]:
    for name, document in topics.items():
        topic = text(mapping(document).get("topic")) or name
        for one in mapping(mapping(document).get("partitions")).values():
            partition = mapping(one)
            number = measurement(partition.get("partition"))
            waiting = _sum(partition, "msgq_cnt", "xmit_msgq_cnt")
            # Partition -1 (`number` is None) holds the messages that a producer has not assigned to a partition yet.
            if number is not None or (producer and waiting):
                yield TopicMetrics(topic, integer(number), metrics=_of_partition(partition, producer, waiting))


def _of_partition(partition: Object, producer: bool, waiting: float | None) -> dict[str, float]:
    committed = measurement(partition.get("committed_offset"))
    fields = {
        "records-lag": measurement(_lag(partition)),
        "position": measurement(partition.get("app_offset")),
        # Older versions of librdkafka write `commited_offset`.
        "committed-offset": committed if committed is not None else measurement(partition.get("commited_offset")),
    }
    if producer:
        fields["queue-records"] = waiting
        fields["queue-bytes"] = _sum(partition, "msgq_bytes", "xmit_msgq_bytes")
        fields["record-send-total"] = measurement(partition.get("txmsgs"))
    else:
        fields["queue-records"] = measurement(partition.get("fetchq_cnt"))
        fields["queue-bytes"] = measurement(partition.get("fetchq_size"))
        fields["records-consumed-total"] = measurement(partition.get("rxmsgs"))
        fields["start-offset"] = measurement(partition.get("lo_offset"))
        fields["end-offset"] = measurement(partition.get("hi_offset"))
    return {name: value for name, value in fields.items() if value is not None}


def _lag(partition: Object) -> Any:
    """Return a partition's lag; None if the consumer lost the partition. librdkafka goes on to report its last lag."""
    return None if partition.get("desired") is False else partition.get("consumer_lag")


def _sum(partition: Object, one: str, other: str) -> float | None:
    first, second = measurement(partition.get(one)), measurement(partition.get(other))
    return measurement(first + second) if first is not None and second is not None else None


FORMAT = Format(
    "librdkafka_stats", "metrics", 15, having("brokers", "topics", "type", "ts"), _decode, interval_ms=30_000
)
