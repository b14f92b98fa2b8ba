"""librdkafka's statistics (STATISTICS.md there), as the application's stats callback produces them.

Traps: `ts` is a monotonic clock, `time` the wall clock in seconds; latencies are µs, ages ms; -1001 is no offset and a
lag of -1 is unknown; in partition -1 a producer's messages wait that have no partition yet (their topic's metadata is
missing): a reading of the topic as a whole, and only while there are any.
`client_id` is "rdkafka" unless the application set it, and the host is not said: identity needs headers or key.
`committed_offset` has an older, misspelt twin. What the names mean in our terms: naming.LIBRDKAFKA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clienthealth.formats import Format, Record
from clienthealth.model.metric_names import LIBRDKAFKA
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.model.values import integer, known, mapping, millis, text

Object = Mapping[str, Any]


def _recognise(record: Record) -> bool:
    said = record.document
    return type(said) is dict and "brokers" in said and "topics" in said and "type" in said and "ts" in said


def _decode(record: Record) -> list[Snapshot] | None:
    stats = mapping(record.document)
    kind = text(stats.get("type"))
    if kind is None or type(stats.get("topics")) is not dict or type(stats.get("brokers")) is not dict:
        return None
    producer = kind == "producer"
    seconds = known(stats.get("time"))
    client = Identity(
        # Unique within its process, if nowhere else.
        instance=text(stats.get("name")),
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
    of_kind = _of_producer(stats, brokers) if producer else _of_consumer(stats)
    fields = {
        **of_kind,
        "reply-queue": known(stats.get("replyq")),
        "connection-count": float(sum(broker.get("state") == "UP" for broker in brokers)),
    }
    return {name: value * LIBRDKAFKA[name][1] for name, value in fields.items() if value is not None}


def _of_producer(stats: Object, brokers: list[Object]) -> dict[str, float | None]:
    internal = _windows(brokers, "int_latency")
    round_trip = _windows(brokers, "rtt")
    size, limit = known(stats.get("msg_size")), known(stats.get("msg_size_max"))
    topics = [mapping(topic) for topic in stats["topics"].values()]
    return {
        "buffer-total-bytes": limit,
        "buffer-available-bytes": max(limit - size, 0.0) if size is not None and limit is not None else None,
        "queue-records": known(stats.get("msg_cnt")),
        "queue-records-limit": known(stats.get("msg_max")),
        "record-send-total": known(stats.get("txmsgs")),
        "record-queue-time-avg": _mean(internal),
        "record-queue-time-max": _maximum(internal),
        "request-latency-avg": _mean(round_trip),
        "request-latency-max": _maximum(round_trip),
        "requests-in-flight": _total(broker.get("waitresp_cnt") for broker in brokers),
        "metadata-age": min(_known(topic.get("metadata_age") for topic in topics), default=None),
    }


def _of_consumer(stats: Object) -> dict[str, float | None]:
    group = mapping(stats.get("cgrp"))
    lags = (
        mapping(partition).get("consumer_lag")
        for topic in stats["topics"].values()
        for partition in mapping(mapping(topic).get("partitions")).values()
    )
    return {
        "records-consumed-total": known(stats.get("rxmsgs")),
        "records-lag-max": max(_known(lags), default=None),
        "assigned-partitions": known(group.get("assignment_size")),
        "rebalance-total": known(group.get("rebalance_cnt")),
    }


def _windows(brokers: list[Object], name: str) -> list[tuple[float, Object]]:
    """How much each broker measured in its window, and the window, without those that measured nothing."""
    windows = [mapping(broker.get(name)) for broker in brokers]
    return [(count, window) for window in windows if (count := known(window.get("cnt")))]


def _mean(windows: list[tuple[float, Object]]) -> float | None:
    """The average over brokers, weighted by how much each measured."""
    used = [(count, average) for count, window in windows if (average := known(window.get("avg"))) is not None]
    return known(sum(count * average for count, average in used) / sum(count for count, _ in used)) if used else None


def _maximum(windows: list[tuple[float, Object]]) -> float | None:
    return max(_known(window.get("max") for _, window in windows), default=None)


def _total(values: Iterable[Any]) -> float | None:
    """The sum of what is known; None where nothing is."""
    seen = _known(values)
    return known(sum(seen)) if seen else None


def _known(values: Iterable[Any]) -> list[float]:
    return [value for one in values if (value := known(one)) is not None]


def _topics(topics: Object, producer: bool) -> Iterator[TopicMetrics]:
    for name, said in topics.items():
        topic = text(mapping(said).get("topic")) or name
        for one in mapping(mapping(said).get("partitions")).values():
            partition = mapping(one)
            number = known(partition.get("partition"))
            waiting = _sum(partition, "msgq_cnt", "xmit_msgq_cnt")
            # The partition of what has none yet is -1.
            if number is not None or (producer and waiting):
                yield TopicMetrics(topic, integer(number), metrics=_of_partition(partition, producer, waiting))


def _of_partition(partition: Object, producer: bool, waiting: float | None) -> dict[str, float]:
    committed = known(partition.get("committed_offset"))
    fields = {
        "records-lag": known(partition.get("consumer_lag")),
        "position": known(partition.get("app_offset")),
        "committed-offset": committed if committed is not None else known(partition.get("commited_offset")),
    }
    if producer:
        fields |= {
            "queue-records": waiting,
            "queue-bytes": _sum(partition, "msgq_bytes", "xmit_msgq_bytes"),
            "record-send-total": known(partition.get("txmsgs")),
        }
    else:
        fields |= {
            "queue-records": known(partition.get("fetchq_cnt")),
            "queue-bytes": known(partition.get("fetchq_size")),
            "records-consumed-total": known(partition.get("rxmsgs")),
            "start-offset": known(partition.get("lo_offset")),
            "end-offset": known(partition.get("hi_offset")),
        }
    return {name: value for name, value in fields.items() if value is not None}


def _sum(partition: Object, one: str, other: str) -> float | None:
    first, second = known(partition.get(one)), known(partition.get(other))
    return known(first + second) if first is not None and second is not None else None


FORMAT = Format("librdkafka_stats", "metrics", 15, _recognise, _decode, interval_ms=30_000)
