"""librdkafka's statistics (STATISTICS.md there), as the application's stats callback produces them.

Traps: `ts` is a monotonic clock, `time` the wall clock in seconds; latencies are µs, ages ms; -1001 is no offset and a
lag of -1 is unknown; in partition -1 a producer's messages wait that have no partition yet (their topic's metadata is
missing): a reading of the topic as a whole, and only while there are any.
`client_id` is "rdkafka" unless the application set it, and the host is not said: identity needs headers or key.
`committed_offset` has an older, misspelt twin. What the names mean in our terms: naming.LIBRDKAFKA.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import Format, Record
from clienthealth.formats._expr import known, let, millis, no_keys
from clienthealth.formats._samples import exactly
from clienthealth.naming import LIBRDKAFKA

_WINDOW = "struct<avg:double,max:double,cnt:double>"
_PARTITION = (
    "partition:double,msgq_cnt:double,msgq_bytes:double,xmit_msgq_cnt:double,xmit_msgq_bytes:double,fetchq_cnt:double,"
    "fetchq_size:double,app_offset:double,stored_offset:double,committed_offset:double,commited_offset:double,"
    "lo_offset:double,hi_offset:double,consumer_lag:double,txmsgs:double,rxmsgs:double"
)
SCHEMA = (
    "name string, client_id string, type string, time double, replyq double, msg_cnt double, msg_size double, "
    "msg_max double, msg_size_max double, txmsgs double, rxmsgs double, rx double, "
    f"brokers map<string,struct<state:string,waitresp_cnt:double,int_latency:{_WINDOW},rtt:{_WINDOW}>>, "
    f"topics map<string,struct<topic:string,metadata_age:double,partitions:map<string,struct<{_PARTITION}>>>>, "
    "cgrp struct<assignment_size:double,rebalance_cnt:double>"
)


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    has = [F.array_contains(keys, name) for name in ("brokers", "topics", "type", "ts")]
    return has[0] & has[1] & has[2] & has[3]


def _total(values: Column) -> Column:
    """The sum of what is known; null where nothing is."""
    seen = F.filter(values, lambda v: known(v).isNotNull())
    return F.when(F.size(seen) > 0, F.aggregate(seen, F.lit(0.0), lambda total, v: total + v))


def _largest(values: Column) -> Column:
    return F.array_max(F.transform(values, known))


def _mean(windows: Column) -> Column:
    """The average over brokers, weighted by how much each measured; windows that measured nothing do not count."""
    used = F.filter(windows, lambda w: (w["cnt"] > 0) & known(w["avg"]).isNotNull())
    total = F.aggregate(used, F.lit(0.0), lambda sum_, w: sum_ + w["avg"] * w["cnt"])
    return F.when(F.size(used) > 0, total / F.aggregate(used, F.lit(0.0), lambda sum_, w: sum_ + w["cnt"]))


def _maximum(windows: Column) -> Column:
    return F.array_max(F.transform(F.filter(windows, lambda w: w["cnt"] > 0), lambda w: known(w["max"])))


def _at_least_0(value: Column) -> Column:
    return F.when(value.isNotNull(), F.greatest(value, F.lit(0.0)))


def _struct(fields: dict[str, Column]) -> Column:
    return F.struct(*(value.alias(name) for name, value in fields.items()))


def _metrics(stats: Column) -> Column:
    producer = stats["type"] == "producer"
    brokers = F.map_values(stats["brokers"])
    topics = F.map_values(stats["topics"])
    partitions = F.flatten(F.transform(topics, lambda t: F.map_values(t["partitions"])))
    internal, round_trip = (
        F.transform(brokers, lambda b: b["int_latency"]),
        F.transform(brokers, lambda b: b["rtt"]),
    )
    of_producers = {
        "buffer-total-bytes": stats["msg_size_max"],
        "buffer-available-bytes": _at_least_0(stats["msg_size_max"] - stats["msg_size"]),
        "queue-records": stats["msg_cnt"],
        "queue-records-limit": stats["msg_max"],
        "record-send-total": stats["txmsgs"],
        "record-queue-time-avg": _mean(internal),
        "record-queue-time-max": _maximum(internal),
        "request-latency-avg": _mean(round_trip),
        "request-latency-max": _maximum(round_trip),
        "requests-in-flight": _total(F.transform(brokers, lambda b: b["waitresp_cnt"])),
        "response-total": stats["rx"],
        "metadata-age": F.array_min(F.transform(topics, lambda t: known(t["metadata_age"]))),
    }
    of_consumers = {
        "records-consumed-total": stats["rxmsgs"],
        "records-lag-max": _largest(F.transform(partitions, lambda p: p["consumer_lag"])),
        "assigned-partitions": stats["cgrp"]["assignment_size"],
        "rebalance-total": stats["cgrp"]["rebalance_cnt"],
    }
    of_both = {
        "reply-queue": stats["replyq"],
        "connection-count": F.size(F.filter(brokers, lambda b: b["state"] == "UP")).cast("double"),
    }
    fields = {
        **{name: F.when(producer, value) for name, value in of_producers.items()},
        **{name: F.when(~producer, value) for name, value in of_consumers.items()},
        **of_both,
    }
    return _struct({name: value * LIBRDKAFKA[name][1] for name, value in fields.items()})


def _topics(stats: Column) -> Column:
    producer = stats["type"] == "producer"

    def reading(topic: Column, partition: Column) -> Column:
        committed = F.coalesce(known(partition["committed_offset"]), partition["commited_offset"])
        waiting = partition["msgq_cnt"] + partition["xmit_msgq_cnt"]
        waiting_bytes = partition["msgq_bytes"] + partition["xmit_msgq_bytes"]
        metrics = {
            "queue-records": F.when(producer, waiting).otherwise(partition["fetchq_cnt"]),
            "queue-bytes": F.when(producer, waiting_bytes).otherwise(partition["fetchq_size"]),
            "record-send-total": F.when(producer, partition["txmsgs"]),
            "records-consumed-total": F.when(~producer, partition["rxmsgs"]),
            "records-lag": partition["consumer_lag"],
            "position": partition["app_offset"],
            "stored-offset": partition["stored_offset"],
            "committed-offset": committed,
            "start-offset": F.when(~producer, partition["lo_offset"]),
            "end-offset": F.when(~producer, partition["hi_offset"]),
        }
        return F.struct(
            topic.alias("topic"),
            F.when(partition["partition"] >= 0, partition["partition"].try_cast("int")).alias("partition"),
            _struct(metrics).alias("metrics"),
        )

    def of_topic(entry: Column) -> Column:
        topic = entry["value"]
        partitions = F.filter(
            F.map_values(topic["partitions"]),
            lambda p: (p["partition"] >= 0) | (producer & (p["msgq_cnt"] + p["xmit_msgq_cnt"] > 0)),
        )
        name = F.coalesce(topic["topic"], entry["key"])
        return F.transform(
            F.coalesce(partitions, F.array().cast(f"array<struct<{_PARTITION}>>")), lambda p: reading(name, p)
        )

    return F.flatten(F.transform(F.map_entries(stats["topics"]), of_topic))


def _decode(record: Record) -> Column:
    def of(stats: Column) -> Column:
        client = F.struct(
            stats["client_id"].alias("client_id"),
            F.when(stats["type"].isin("producer", "consumer"), stats["type"]).alias("kind"),
            # Unique within its process, if nowhere else.
            stats["name"].alias("instance"),
            F.lit("librdkafka").alias("library"),
        )
        snapshot = F.struct(
            millis(stats["time"] * 1000).alias("ts_ms"),
            client.alias("client"),
            _metrics(stats).alias("metrics"),
            _topics(stats).alias("topics"),
        )
        usable = stats["type"].isNotNull() & stats["topics"].isNotNull() & stats["brokers"].isNotNull()
        return F.when(usable, exactly(F.array(snapshot)))

    return let(F.from_json(record.text, SCHEMA), of)


FORMAT = Format(
    name="librdkafka_stats", stream="metrics", order=15, recognise=_recognise, decode=_decode, interval_ms=30_000
)
