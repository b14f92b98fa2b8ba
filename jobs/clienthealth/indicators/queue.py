"""Per-topic queue saturation: how full the queue between a client and one topic is, so that the culprit stands out.

Old Scala consumer: chunks in `FetchQueueSize` per consuming thread, of `queued.max.message.chunks` (default 2).
librdkafka: prefetched records of `queued.min.messages` (100,000) and bytes of `queued.max.messages.kbytes` (65,536);
for producers the topic's share of all that may be queued. The Java consumer has no such queue.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import TOPIC_METRIC_NAMES
from clienthealth.windows import WindowColumns

DEFAULT_CHUNKS = 2
DEFAULT_MIN_MESSAGES = 100_000
DEFAULT_MAX_KBYTES = 65_536


def queues(w: WindowColumns) -> Column:
    """array<struct<topic, used_ratio, records>> of the last reading, one per topic whose queue is known."""
    topics = F.coalesce(F.try_element_at("readings", F.lit(-1))["topics"], F.array().cast(_TOPICS))
    chunks = F.coalesce(w.config("queued.max.message.chunks").try_cast("double"), F.lit(float(DEFAULT_CHUNKS)))
    records = F.coalesce(w.config("queued.min.messages").try_cast("double"), F.lit(float(DEFAULT_MIN_MESSAGES)))
    kbytes = F.coalesce(w.config("queued.max.messages.kbytes").try_cast("double"), F.lit(float(DEFAULT_MAX_KBYTES)))
    producer_limit = w.last("queue-records-limit")

    def one(topic: Column) -> Column:
        of_topic = F.filter(topics, lambda t: t["topic"] == topic)
        queued_records = _sum(of_topic, "queue-records")
        ratio = F.greatest(
            _max(of_topic, "queue-chunks") / chunks,
            F.when(w.kind == "producer", queued_records / producer_limit).otherwise(
                F.greatest(_max(of_topic, "queue-records") / records, _sum(of_topic, "queue-bytes") / (kbytes * 1024))
            ),
        )
        return F.struct(
            topic.alias("topic"),
            F.when(ratio.isNotNull(), F.least(F.lit(1.0), F.greatest(F.lit(0.0), ratio))).alias("used_ratio"),
            queued_records.alias("records"),
        )

    names = F.array_distinct(F.transform(topics, lambda t: t["topic"]))
    return F.filter(F.transform(names, one), lambda q: q["used_ratio"].isNotNull())


_TOPICS = "array<struct<topic:string,partition:int,thread:string,values:array<double>>>"


def _known(topics: Column, name: str) -> Column:
    position = F.lit(TOPIC_METRIC_NAMES.index(name))
    return F.filter(F.transform(topics, lambda t: F.get(t["values"], position)), lambda v: v.isNotNull())


def _max(topics: Column, name: str) -> Column:
    return F.array_max(_known(topics, name))


def _sum(topics: Column, name: str) -> Column:
    known = _known(topics, name)
    return F.when(F.size(known) > 0, F.aggregate(known, F.lit(0.0), lambda acc, v: acc + v))
