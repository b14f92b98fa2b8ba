"""Publish records to Kafka without silent loss: send undelivered records again, within bounded memory.

By itself, kafka-python's producer buffers any number of records, and drops records that it cannot deliver in time.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from clienthealth.platform import kafka
from clienthealth.settings import Settings

log = logging.getLogger(__name__)

CAPACITY = 20_000
WARNING_SECONDS = 60.0
_json = msgspec.json.Encoder().encode
MAX_BLOCK_MS = 5_000
NO_METADATA = (
    "the topic does not exist, this user may not write to it, or the brokers do not answer; find the cause with "
    "'kafka-health doctor', or create the topic with 'kafka-health init'"
)


class Publisher:
    """Send JSON records. Thread-safe; `close` delivers the records in flight.

    `capacity`: maximum number of records in flight; at the maximum, `send` waits. `pause_seconds`: pause between two
    attempts to send failed records again. A record that is too large is logged and dropped.
    """

    def __init__(self, producer: KafkaProducer, capacity: int = CAPACITY, pause_seconds: float = 1.0) -> None:
        self._producer = producer
        self._capacity = capacity
        self._pause_seconds = pause_seconds
        self._changed = threading.Condition()
        self._failed: deque[tuple[str, bytes, bytes]] = deque()
        self._under_way = 0
        self._not_delivered_unlogged = 0
        self._warned: dict[str, float] = {}
        self._closing = threading.Event()
        self._resend_thread = threading.Thread(target=self._resend, name="send again", daemon=True)
        self._resend_thread.start()

    @classmethod
    def to(cls, settings: Settings, client_id: str, **options: Any) -> Self:
        """Return a publisher that sends to the configured brokers. `options`: options of kafka-python's producer.

        Raises ServiceError if no broker can be reached. Raises SettingsError if the authentication settings are wrong.
        """
        options = {"linger_ms": 100, "max_block_ms": MAX_BLOCK_MS, **options}
        return cls(kafka.producer(settings, client_id=client_id, **options))

    @property
    def waiting(self) -> int:
        """Return the number of records that are not acknowledged yet."""
        return self._under_way

    def send(self, topic: str, key: str, value: Mapping[str, Any]) -> None:
        """Send a record, once fewer than `capacity` records are in flight. NaN becomes null."""
        try:
            encoded = _json(value)
        except UnicodeEncodeError:
            # A log line may contain half a surrogate pair, which UTF-8 cannot encode.
            encoded = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        with self._changed:
            if self._under_way >= self._capacity:
                if self._due("waits"):
                    log.warning("sending waits, because %d records (the maximum) are unacknowledged", self._under_way)
                self._changed.wait_for(lambda: self._under_way < self._capacity or self._closing.is_set())
            self._under_way += 1
        self._hand_over(topic, key.encode(errors="replace"), encoded)

    def close(self, timeout: float = 10.0) -> int:
        """Deliver the records in flight within about `timeout` seconds. Return the number of undelivered records."""
        deadline = time.monotonic() + timeout
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._resend_thread.join(timeout)
        for _ in range(len(self._failed)):
            if time.monotonic() < deadline:
                self._hand_over(*self._failed.popleft())
        try:
            self._producer.close(timeout=max(1.0, deadline - time.monotonic()))
        except KafkaError as error:
            log.warning("the producer could not be closed: %s", error)
        if self._under_way:
            log.error("%d records were not delivered", self._under_way)
        return self._under_way

    def _due(self, warning: str) -> bool:
        now = time.monotonic()
        if due := now - self._warned.get(warning, float("-inf")) >= WARNING_SECONDS:
            self._warned[warning] = now
        return due

    def _resend(self) -> None:
        while not self._closing.wait(self._pause_seconds):
            for _ in range(len(self._failed)):
                if not self._closing.is_set():
                    self._hand_over(*self._failed.popleft())

    def _hand_over(self, topic: str, key: bytes, value: bytes) -> None:
        try:
            future = self._producer.send(topic, value=value, key=key)
        except MessageSizeTooLargeError:
            log.error("a record of %d bytes for %s is too large and was left out", len(value), topic)
            self._done()
        except KafkaError as error:
            self._not_delivered((topic, key, value), error)
        else:
            future.add_callback(lambda _: self._done())
            future.add_errback(lambda error: self._not_delivered((topic, key, value), error))

    def _not_delivered(self, record: tuple[str, bytes, bytes], error: BaseException) -> None:
        self._not_delivered_unlogged += 1
        if self._due(topic := record[0]):
            why = NO_METADATA if "Failed to update metadata" in str(error) else error
            count, self._not_delivered_unlogged = self._not_delivered_unlogged, 0
            log.warning("%d undelivered record(s) are sent again; last error (topic %s): %s", count, topic, why)
        self._failed.append(record)

    def _done(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()
