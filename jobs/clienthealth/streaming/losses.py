"""What Kafka had deleted before it was read, and input topics that are not there: counted, never a reason to stop.

The source passes over gaps; here they are noticed, by comparing how far the query has read with what the brokers still
have. It is asked with the Java client, which knows every security option that Spark's own clients do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from clienthealth.selfmetrics import SelfMetrics
from clienthealth.settings import Settings
from clienthealth.streaming.kafka import connection

log = logging.getLogger(__name__)

#: Topic and partition → the offset that is read next.
Positions = Mapping[tuple[str, int], int]
TIMEOUT_MS = 5_000


class Losses:
    """Compares positions with what there is, and counts each loss once."""

    def __init__(self, spark: SparkSession, settings: Settings, metrics: SelfMetrics) -> None:
        self._jvm = cast(Any, spark._jvm)
        self._metrics = metrics
        self._topics = tuple(dict.fromkeys((*settings.topics.metrics, *settings.topics.logs)))
        jvm = self._jvm
        properties = jvm.java.util.Properties()
        for name, value in {
            **connection(settings),
            "kafka.default.api.timeout.ms": str(TIMEOUT_MS),
            "kafka.request.timeout.ms": str(TIMEOUT_MS - 1000),
        }.items():
            properties.setProperty(name.removeprefix("kafka."), value)
        self._admin: Any = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        self._seen: dict[tuple[str, int], int] = {}
        for topic in self._topics:
            metrics.lost.labels(topic)
            metrics.recreated.labels(topic)

    def look(self, positions: Positions) -> None:
        """Count what is lost. Brokers that do not answer are asked another time."""
        try:
            there = {str(name) for name in self._admin.listTopics().names().get()}
            for topic in self._topics:
                self._metrics.present.labels(topic).set(topic in there)
            self._compare({where: at for where, at in positions.items() if where[0] in there})
        except Py4JJavaError as error:
            log.warning("what Kafka has deleted cannot be seen: %s", str(error.java_exception))

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def _compare(self, positions: Positions) -> None:
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        earliest = self._offsets(positions, spec.earliest())
        latest = self._offsets(positions, spec.latest())
        for where, position in positions.items():
            known = max(position, self._seen.get(where, 0))
            topic, partition = where
            if where in earliest and earliest[where] > known:
                lost = earliest[where] - known
                log.error("%s records of %s/%s were deleted before they were read", lost, topic, partition)
                self._metrics.lost.labels(topic).inc(lost)
                self._seen[where] = earliest[where]
            elif where in latest and latest[where] < position and self._seen.get(where) != -position:
                log.error(
                    "%s/%s ends at %s, but was read to %s: it was made anew", topic, partition, latest[where], position
                )
                self._metrics.recreated.labels(topic).inc()
                self._seen[where] = -position

    def _offsets(self, positions: Positions, spec: Any) -> dict[tuple[str, int], int]:
        asked = self._jvm.java.util.HashMap()
        for topic, partition in positions:
            asked[self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)] = spec
        result = self._admin.listOffsets(asked)
        found = {}
        for where in list(asked):
            try:
                found[str(where.topic()), int(where.partition())] = int(result.partitionResult(where).get().offset())
            except Py4JJavaError:
                continue  # it has no such partition any more
        return found
