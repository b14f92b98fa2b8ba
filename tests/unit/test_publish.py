"""An exporter's publisher retries failed records, and reports lost records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from clienthealth_exporters.publish import Publisher


class FakeProducer:
    """A fake producer. `outcomes`: the outcomes of the calls of `send`, in order. The outcome None is success."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[bytes] = []
        self.twice = threading.Event()

    def send(self, topic: str, value: bytes, key: bytes) -> Any:
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, MessageSizeTooLargeError):
            raise outcome
        self.sent.append(value)
        if len(self.sent) == 2:
            self.twice.set()
        future = KafkaFuture()
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)
        return future

    def close(self, timeout: float) -> None:
        return


class KafkaFuture(Future[None]):
    def add_callback(self, function: Callable[[Any], None]) -> None:
        self.add_done_callback(lambda done: None if done.exception() else function(done.result()))

    def add_errback(self, function: Callable[[BaseException], None]) -> None:
        self.add_done_callback(lambda done: function(error) if (error := done.exception()) else None)


def test_what_was_not_delivered_is_sent_again() -> None:
    kafka = FakeProducer(KafkaTimeoutError("late"))
    publisher = Publisher(kafka, pause_seconds=0.01)
    publisher.send("t", "k", {"n": 1})
    assert kafka.twice.wait(60)
    assert kafka.sent == [b'{"n":1}', b'{"n":1}']
    assert publisher.close() == 0


def test_what_is_too_large_is_left_out_and_the_rest_goes_on() -> None:
    kafka = FakeProducer(MessageSizeTooLargeError("large"))
    publisher = Publisher(kafka)
    publisher.send("t", "k", {"n": 1})
    publisher.send("t", "k", {"n": 2})
    assert kafka.sent == [b'{"n":2}']
    assert publisher.close() == 0


def test_what_failed_is_tried_once_more_at_the_end_and_counted() -> None:
    kafka = FakeProducer(KafkaTimeoutError("late"), KafkaTimeoutError("still"))
    publisher = Publisher(kafka, pause_seconds=60)
    publisher.send("t", "k", {"n": 1})
    assert publisher.close() == 1
    assert kafka.sent == [b'{"n":1}', b'{"n":1}']


def test_a_full_publisher_makes_its_source_wait() -> None:
    late = KafkaTimeoutError("late")
    kafka = FakeProducer(late, late)
    publisher = Publisher(kafka, capacity=1, pause_seconds=0.01)
    publisher.send("t", "k", {"n": 1})
    publisher.send("t", "k", {"n": 2})
    assert kafka.sent == [b'{"n":1}', b'{"n":1}', b'{"n":1}', b'{"n":2}']
    assert publisher.close() == 0


def test_a_missing_topic_is_reported_with_advice(caplog: pytest.LogCaptureFixture) -> None:
    kafka = FakeProducer(KafkaTimeoutError("Failed to update metadata after 5.0 secs."))
    publisher = Publisher(kafka, pause_seconds=0.01)
    publisher.send("t", "k", {"n": 1})
    assert kafka.twice.wait(60)
    publisher.close()
    assert "the topic does not exist" in caplog.text
    assert "create the topic with 'kafka-health init'" in caplog.text
    assert "secs" not in caplog.text


def test_records_that_are_not_delivered_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    publisher = Publisher(FakeProducer(*[KafkaTimeoutError("late")] * 31), pause_seconds=60)
    for number in range(30):
        publisher.send("t", "k", {"n": number})
    now += 60.0
    publisher.send("t", "k", {"n": 30})
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "1 undelivered record(s) are sent again; last error (topic t): KafkaTimeoutError: late",
        "30 undelivered record(s) are sent again; last error (topic t): KafkaTimeoutError: late",
    ]
    publisher.close()
