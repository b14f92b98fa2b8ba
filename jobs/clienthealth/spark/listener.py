"""Spark's reports on the streaming queries → the monitor's own metrics, which need no Spark themselves."""

from __future__ import annotations

import json
import logging
import time

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from clienthealth.platform.self_monitoring import SelfMetrics

log = logging.getLogger(__name__)


class Listener(StreamingQueryListener):
    """Feeds Spark's reports on the streaming queries into the metrics."""

    def __init__(self, metrics: SelfMetrics) -> None:
        self._metrics = metrics
        self._names: dict[str, str] = {}
        #: Where the query goes on, by topic and partition.
        self.positions: dict[tuple[str, int], int] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self._names[str(event.runId)] = event.name or ""
        self._metrics.up.labels(event.name or "").set(1)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = json.loads(event.progress.json)
        log.debug("batch %s took %s ms", progress["batchId"], progress["durationMs"])
        self._metrics.progressed(progress)
        for source in progress.get("sources", []):
            end = source.get("endOffset")
            for topic, partitions in end.items() if isinstance(end, dict) else ():
                self.positions |= {(topic, int(partition)): offset for partition, offset in partitions.items()}

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        name = self._names.get(str(event.runId))
        if name:
            self._metrics.last_batch.labels(name).set(time.time())

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        name = self._names.pop(str(event.runId), None)
        if name is not None:
            self._metrics.up.labels(name).set(0)
