"""Count records that Kafka deleted before the query read them. Spark's source skips such records without counting them.

This module reads the topics' offsets with Kafka's Java client. Spark uses the Java client, too, so all security options
that work in Spark also work in this module.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, ClassVar, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from clienthealth.settings import Settings
from clienthealth.spark.self_monitoring import QUERY, SelfMetrics
from clienthealth.spark.topics import connection

log = logging.getLogger(__name__)

#: The next offset to read, by topic and partition.
Positions = Mapping[tuple[str, int], int]
TIMEOUT_MS = 5_000
ABSENT = (
    "the topic %s does not exist, or this user may not see it; create the topic with 'kafka-health init': the monitor "
    "then reads it"
)


class Losses:
    """Compares the query's offsets with the first and last offsets on the brokers.

    Each lost record is counted once.
    """

    def __init__(self, spark: SparkSession, settings: Settings, metrics: SelfMetrics) -> None:
        jvm = cast(Any, spark._jvm)
        # Resolve Java names only once: Py4J searches every jar for each part of a name.
        self._map, kafka = jvm.java.util.HashMap, jvm.org.apache.kafka
        self._partition, self._spec = kafka.common.TopicPartition, kafka.clients.admin.OffsetSpec
        self._metrics = metrics
        self._topics = tuple(dict.fromkeys((*settings.topics.metrics, *settings.topics.logs)))
        properties = jvm.java.util.Properties()
        for name, value in {
            **connection(settings),
            "kafka.default.api.timeout.ms": str(TIMEOUT_MS),
            "kafka.request.timeout.ms": str(TIMEOUT_MS - 1000),
        }.items():
            properties.setProperty(name.removeprefix("kafka."), value)
        self._admin: Any = kafka.clients.admin.AdminClient.create(properties)
        self._seen: dict[tuple[str, int], int] = {}
        self._made: dict[tuple[str, int], Any] = {}
        self._absent: set[str] = set()
        self._lock, self._looked = threading.Lock(), 0.0
        for topic in self._topics:
            metrics.counters["lost_records"].labels(topic)
            metrics.counters["recreated_partitions"].labels(topic)
            metrics.counters["records_read"].labels(topic)

    def look(self, positions: Positions, after: float = 0.0) -> None:
        """Count lost records if the last count was at least `after` seconds ago.

        The call also updates the metrics `input_topic_present` and, until the first batch ends, `input_lag_records`.
        """
        with self._lock:
            if time.monotonic() - self._looked < after:
                return
            try:
                names = self._admin.listTopics().names().get()
                there = {topic for topic in self._topics if topic in names}
                for topic in self._topics:
                    self._metrics.gauges["input_topic_present"].labels(topic).set(topic in there)
                    if topic not in there and topic not in self._absent:
                        log.warning(ABSENT, topic)
                    elif topic in there and topic in self._absent:
                        log.info("the topic %s exists now and is read", topic)
                self._absent = {topic for topic in self._topics if topic not in there}
                here = {where: at for where, at in positions.items() if where[0] in there}
                for where, earliest in self._offsets(here, self._spec.earliest()).items():
                    begun_at = self._seen.get(where, 0)
                    # If the partition's first offset has decreased, the topic was created again.
                    begin = max(here[where], begun_at if begun_at <= earliest else 0)
                    if earliest > begin:
                        log.error("%s records of %s/%s were deleted before they were read", earliest - begin, *where)
                        self._metrics.counters["lost_records"].labels(where[0]).inc(earliest - begin)
                        self._seen[where] = earliest
                if not self._metrics.batches:
                    # Until a first batch ends, Spark does not report unread records, so they are counted here.
                    waiting = Counter[str]()
                    for where, end in self._offsets(here, self._spec.latest()).items():
                        waiting[where[0]] += max(0, end - here[where])
                    for topic, records in waiting.items():
                        self._metrics.gauges["input_lag_records"].labels(topic, QUERY).set(records)
            except Py4JJavaError as error:
                log.warning("the check for deleted records failed: %s", str(error.java_exception))
            self._looked = time.monotonic()

    def deleted(self, positions: Positions) -> dict[str, int]:
        """Return the number of deleted records for each topic that lost records; {} if the brokers do not answer.

        Only records at or after `positions` are counted.
        """
        gone = Counter[str]()
        with suppress(Py4JJavaError):
            for where, earliest in self._offsets(positions, self._spec.earliest()).items():
                gone[where[0]] += max(0, earliest - positions[where])
        return +gone

    def waiting(self, positions: Positions) -> bool:
        """True if the brokers have records at or after these positions; False if the brokers do not answer."""
        try:
            with self._lock:
                ends = self._offsets(positions, self._spec.latest())
        except Py4JJavaError:
            return False
        return any(end > positions[where] for where, end in ends.items())

    def close(self) -> None:
        self._admin.close()

    def _offsets(self, partitions: Collection[tuple[str, int]], which: Any) -> dict[tuple[str, int], int]:
        """Return an offset of each partition. `which`: the OffsetSpec of the first or of the last offset.

        A partition that does not exist or does not answer is left out.
        """
        requests = self._map()
        # Make the Java object of each partition only once, because each call into the JVM takes time.
        for where in partitions:
            if where not in self._made:
                self._made[where] = self._partition(*where)
            requests.put(self._made[where], which)
        result = self._admin.listOffsets(requests)
        offsets = {}
        for where in partitions:
            with suppress(Py4JJavaError):
                offsets[where] = int(result.partitionResult(self._made[where]).get().offset())
        return offsets


class Listener(StreamingQueryListener):
    """Passes Spark's reports on the streaming queries to the metrics.

    PySpark's own wrapper would fetch every field of each report from the JVM.
    """

    class Java:
        """Tells Py4J which Java interface this object implements."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

    def __init__(self, spark: SparkSession, metrics: SelfMetrics) -> None:
        self._metrics = metrics
        self._names: dict[str, str] = {}
        self.positions: dict[tuple[str, int], int] = {}
        streaming = cast(Any, spark._jvm).org.apache.spark.sql.streaming
        self._jlistenerobj = streaming.PythonStreamingQueryListenerWrapper(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self._names[event.runId().toString()] = event.name() or ""
        self._metrics.gauges["query_up"].labels(event.name() or "").set(1)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = json.loads(event.progress().json())
        log.debug("batch %s took %s ms", progress["batchId"], progress["durationMs"])
        self._metrics.progressed(progress)
        for source in progress.get("sources", []):
            end = source.get("endOffset")
            for topic, partitions in end.items() if isinstance(end, dict) else ():
                self.positions |= {(topic, int(partition)): offset for partition, offset in partitions.items()}

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        if name := self._names.get(event.runId().toString()):
            self._metrics.gauges["last_batch_timestamp_seconds"].labels(name).set(time.time())

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if (name := self._names.pop(event.runId().toString(), None)) is not None:
            self._metrics.gauges["query_up"].labels(name).set(0)
