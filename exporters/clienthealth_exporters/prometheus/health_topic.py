"""Read the topic `client-health` from its beginning, and report why records may be missing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaError, UnsupportedCodecError

from clienthealth.model.errors import ServiceError
from clienthealth.platform.kafka import Extents, admin, consumer, extents
from clienthealth.settings import Settings

log = logging.getLogger(__name__)

Put = Callable[[bytes | None, bytes | None, int], None]
POLL_MS = 500
CHECK_SECONDS = 5.0
ANSWER_MS = 4_000
RETRY_SECONDS = 2.0
CLIENT_ID = "kafka-client-health-exporter"
#: The admin client looks for new brokers only when its metadata has expired.
ASKING = {"request_timeout_ms": ANSWER_MS, "metadata_max_age_ms": round(CHECK_SECONDS * 1000)}
#: The first broker that the client asks is random, and may be down. `bootstrap_timeout_ms` leaves time to ask another
#: broker.
CONNECTING = {"client_id": CLIENT_ID, "bootstrap_timeout_ms": 10_000}
CODECS = "install all codecs: pip install 'kafka-client-health[exporters]'"


@dataclass
class HealthTopic:
    """The reader of `client-health`. It has no consumer group, so each exporter reads the whole topic.

    `put`      called with (key, value, timestamp in ms) for every record
    `connect`  makes the consumer
    `ask`      makes the admin client
    `prepare`  called once the whole topic has been read
    `trouble`  why records may be missing; None after `prepare` has returned
    """

    settings: Settings
    put: Put
    connect: Callable[..., KafkaConsumer] = consumer
    ask: Callable[..., KafkaAdminClient] = admin
    prepare: Callable[[], None] = lambda: None
    trouble: str | None = "starting"
    _looked: float = field(default_factory=time.monotonic)

    @property
    def idle_seconds(self) -> float:
        """Return the seconds since the reader last polled the topic or tried to connect."""
        return time.monotonic() - self._looked

    def run(self, stop: threading.Event) -> None:
        """Read the topic until `stop` is set."""
        while not stop.is_set():
            self._looked = time.monotonic()
            try:
                self._read(stop)
            except UnsupportedCodecError as error:
                self._report(f"{self.settings.topics.health} cannot be decompressed: {error}; {CODECS}")
                stop.wait(RETRY_SECONDS)
            except (KafkaError, ServiceError, OSError) as error:
                servers = self.settings.kafka.bootstrap_servers
                self._report(f"the connection to Kafka at {servers} is lost: {str(error) or type(error).__name__}")
                stop.wait(RETRY_SECONDS)

    def _read(self, stop: threading.Event) -> None:
        options = {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "allow_auto_create_topics": False,
            **CONNECTING,
        }
        with (
            closing(self.connect(self.settings, **options)) as reader,
            closing(self.ask(self.settings, **ASKING, **CONNECTING)) as asking,
        ):
            checked = 0.0
            while not stop.is_set():
                self._looked = time.monotonic()
                if time.monotonic() - checked >= CHECK_SECONDS or self.trouble is not None:
                    self._compare(reader, extents(asking, [self.settings.topics.health]))
                    checked = time.monotonic()
                if not reader.assignment():
                    stop.wait(RETRY_SECONDS)
                    continue
                for records in reader.poll(timeout_ms=POLL_MS, max_records=5_000).values():
                    for record in records:
                        self.put(record.key, record.value, record.timestamp)

    def _compare(self, reader: KafkaConsumer, there: Extents) -> None:
        """Assign new partitions to the consumer. If a partition cannot be read, set `trouble`.

        `there`: the partitions that exist.
        """
        topic, assigned = self.settings.topics.health, reader.assignment()
        if new := there.known.keys() - assigned:
            reader.assign(sorted(assigned | new))
            for partition in new:
                reader.seek(partition, there.known[partition].begin)
        if there.trouble:
            self._report(f"a part of {topic} cannot be read: {there.trouble}")
        elif not there.known:
            self._report(f"the topic {topic} does not exist yet; start the monitor, or run kafka-health init")
        elif self.trouble is not None:
            left = sum(
                max(0, extent.end - (reader.position(partition, ANSWER_MS) or extent.begin))
                for partition, extent in there.known.items()
            )
            if left:
                self._report(f"reading {topic}: {left} records are left")
            else:
                self.prepare()
                log.info("all of %s has been read", topic)
                self.trouble = None

    def _report(self, trouble: str) -> None:
        if self.trouble is None or self.trouble.split(":")[0] != trouble.split(":")[0]:
            log.warning("%s", trouble)
        self.trouble = trouble
