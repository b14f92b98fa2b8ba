"""Reads the compacted topic `client-health` from its beginning, and says whether it has caught up and why not."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, UnsupportedCodecError

from clienthealth.errors import ServiceError
from clienthealth.platform.kafka import consumer
from clienthealth.settings import Settings

log = logging.getLogger(__name__)

Put = Callable[[bytes | None, bytes | None, int], None]
POLL_MS = 500
CHECK_SECONDS = 5.0
ANSWER_MS = 4_000
RETRY_SECONDS = 2.0
CODECS = "pip install 'kafka-client-health[exporters]' brings all codecs"


class HealthTopic:
    """Feeds every record of the topic to `put(key, value, timestamp_ms)`.

    No consumer group: each exporter reads everything, so that several can stand side by side. Every few seconds the
    brokers are asked for the end of the topic: that is how a lost broker is noticed, which a poll alone hides.
    """

    def __init__(self, settings: Settings, put: Put, connect: Callable[..., KafkaConsumer] = consumer) -> None:
        self._settings = settings
        self._topic = settings.topics.health
        self._put = put
        self._connect = connect
        self._trouble: str | None = "starting"
        self._looked = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Since when the topic has not been looked at, or tried to be."""
        return time.monotonic() - self._looked

    @property
    def trouble(self) -> str | None:
        """Why the state cannot be trusted; None while all of the topic is read and Kafka answers."""
        return self._trouble

    def run(self, stop: threading.Event) -> None:
        """Read until `stop` is set. A lost broker is waited for; only defects of ours raise."""
        while not stop.is_set():
            self._looked = time.monotonic()
            try:
                self._read(stop)
            except UnsupportedCodecError as error:
                self._lost(f"{self._topic} cannot be unpacked: {error}; {CODECS}")
                stop.wait(RETRY_SECONDS)
            except (KafkaError, ServiceError, OSError) as error:
                servers = self._settings.kafka.bootstrap_servers
                self._lost(f"Kafka at {servers} is lost: {str(error) or type(error).__name__}")
                stop.wait(RETRY_SECONDS)

    def _read(self, stop: threading.Event) -> None:
        reader = self._connect(
            self._settings,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            client_id="kafka-client-health-exporter",
        )
        try:
            assigned: set[TopicPartition] = set()
            checked = 0.0
            while not stop.is_set():
                self._looked = time.monotonic()
                if time.monotonic() - checked >= CHECK_SECONDS or self._trouble is not None:
                    assigned = self._assigned(reader, assigned)
                    self._compare(reader, assigned)
                    checked = time.monotonic()
                if not assigned:
                    stop.wait(RETRY_SECONDS)
                    continue
                for records in reader.poll(timeout_ms=POLL_MS, max_records=5_000).values():
                    for record in records:
                        self._put(record.key, record.value, record.timestamp)
        finally:
            reader.close()

    def _assigned(self, reader: KafkaConsumer, before: set[TopicPartition]) -> set[TopicPartition]:
        now = {TopicPartition(self._topic, number) for number in reader.partitions_for_topic(self._topic)}
        if new := now - before:
            reader.assign(sorted(now))
            reader.seek_to_beginning(*sorted(new))
        return now or before

    def _compare(self, reader: KafkaConsumer, assigned: set[TopicPartition]) -> None:
        if not assigned:
            self._lost(f"the topic {self._topic} does not exist yet: has the monitor been started?")
            return
        ends = reader.end_offsets(sorted(assigned), timeout_ms=ANSWER_MS)
        left = sum(max(0, end - reader.position(partition, timeout_ms=ANSWER_MS)) for partition, end in ends.items())
        if left == 0 or self._trouble is None:
            if self._trouble is not None:
                log.info("all of %s has been read", self._topic)
            self._trouble = None
        else:
            self._lost(f"reading {self._topic}: {left} records left")

    def _lost(self, trouble: str) -> None:
        if self._trouble is None or self._trouble.split(":")[0] != trouble.split(":")[0]:
            log.warning("%s", trouble)
        self._trouble = trouble
