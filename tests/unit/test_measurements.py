"""The status page shows a client's buffer, callback, topic queue and lag as texts."""

from __future__ import annotations

import json
from typing import Any

from clienthealth.model.health_record import decode
from clienthealth_exporters.prometheus.client_card import Measurement, measurements
from tests.support.health_records import record


def shown(kind: str, **indicators: Any) -> dict[str, Measurement]:
    decoded = decode(json.dumps(record(kind=kind, indicators=indicators)).encode())
    return {measurement.name: measurement for measurement in measurements(decoded)}


def test_what_is_not_known_is_not_zero() -> None:
    assert {name: m.text for name, m in shown("producer").items()} == {
        "Buffer": "unknown",
        "Callback": "unknown",
        "Topic queue": "–",
        "Lag": "–",
    }
    assert shown("consumer")["Topic queue"].text == "unknown"


def test_a_buffer_without_a_limit_has_no_ratio() -> None:
    buffer = shown("producer", buffer={"queued_records": 12.0})["Buffer"]
    assert (buffer.value, buffer.ratio) == ("12 records queued", None)


def test_the_fullest_queue_names_its_topic() -> None:
    queues = [{"topic": "orders", "used_ratio": 0.1}, {"topic": "audit", "used_ratio": 1.0}]
    queue = shown("legacy-consumer", queues=queues)["Topic queue"]
    assert (queue.value, queue.note) == ("100 % full", "audit, fullest of 2")


def test_a_java_consumer_names_the_topic_furthest_behind() -> None:
    lag = [
        {"topic": "orders", "partition": 0, "records": 70, "paused": True},
        {"topic": "audit", "partition": 0, "records": 40},
        {"topic": "audit", "partition": 1, "records": 40},
    ]
    queue = shown("consumer", lag=lag, poll_idle_ratio=0.0, last_poll_age_seconds=3.0, queues=[])["Topic queue"]
    assert queue.value is None
    assert queue.note == "audit furthest behind, 1 partition paused, poll idle 0 %, last poll 3 s ago"
    caught_up = shown("consumer", lag=[{"topic": "orders", "partition": 0, "records": 0}])["Topic queue"]
    assert caught_up.note == ""
