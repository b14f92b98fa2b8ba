"""Whatever one client reports, the verdicts on all other clients do not change."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zlib
from functools import cache
from typing import Any

import pytest

from clienthealth.modes import catalogue
from clienthealth.modes._evidence import Fact, conclude
from clienthealth.spark.stepping import HEALTH, REJECT
from tests.support.hostile import BEGIN, lived, repeated
from tests.support.raw_records import Raw
from tests.support.rows import long_after
from tests.support.streamed import Streamed
from tests.unit.test_pushed import push

LINES = [example.line for wording in catalogue().wordings for example in wording.examples]


@cache
def undisturbed() -> list[list[bytes]]:
    return lived(None).published("good")


@pytest.mark.parametrize("seed", long_after(3, range(12)))
def test_nothing_that_a_client_reports_stops_or_moves_the_others(seed: int) -> None:
    monitor = lived(seed, LINES, push(principal="User:evil"))
    assert monitor.published("good") == undisturbed()
    assert "step-failed" not in monitor.reasons
    assert monitor.reasons & {"impossible-value", "missing-timestamp", "future-timestamp"}


EVIL = {"service": "evil", "host": "e", "instance": "e:1", "client_id": "e", "kind": "producer"}


def snapshot(**fields: Any) -> bytes:
    return json.dumps({"ts": 1000 * BEGIN, "client": EVIL, "metrics": {"select-total": 7}, **fields}).encode()


@pytest.mark.parametrize("number", [1e30, 1e308, 2.0**64, 2**63])
def test_one_absurd_number_in_a_buffer_stops_no_client(number: float) -> None:
    buffer = {"buffer-total-bytes": number, "buffer-available-bytes": 5.0, "record-send-total": 3.0}
    monitor = repeated(snapshot(metrics=buffer))
    assert monitor.reasons == {"impossible-value"}
    assert monitor.published("evil")


@pytest.mark.parametrize("number", [1e30, 2**63, 2**70])
def test_absurd_offsets_of_a_group_stop_no_client(number: float) -> None:
    part = {"topic": "t", "partition": 0, "metrics": {"committed-offset": number, "end-offset": 2 * number}}
    monitor = repeated(snapshot(client=EVIL | {"kind": "group"}, topics=[part]))
    assert monitor.reasons == {"impossible-value"}


def test_no_fault_begins_before_kafka_did() -> None:
    facts = [Fact("metric", 1000 * BEGIN - 10**15, 1000 * BEGIN, "it waits")]
    assert conclude("consumer-stalled", facts).since_ms == 1_262_304_000_000


def test_a_process_that_names_no_instance_is_shown() -> None:
    monitor = Streamed()
    for second in range(BEGIN, BEGIN + 60, 10):
        record = snapshot(ts=1000 * second, client={"service": "evil", "client_id": "e", "kind": "producer"})
        monitor.batch(second, [Raw("", record)])
    monitor.shown()


#: Random letters, of which compression saves only a quarter.
LETTERS = base64.b64encode(random.Random(1).randbytes(1_200_000), altchars=b"Ab").decode()
TAKEN, TO_TOPICS = 1_048_588, (HEALTH, REJECT)


def sizes(monitor: Streamed) -> list[int]:
    parts = [(key, value, headers) for rows in monitor.rows for kind, key, value, headers in rows if kind in TO_TOPICS]
    return [
        len(zlib.compress((key or b"") + (value or b"") + (headers or "").encode())) for key, value, headers in parts
    ]


@pytest.mark.parametrize("name", long_after(2, ["service", "instance", "host", "client_id", "group"]))
def test_a_name_as_long_as_a_record_is_rejected(name: str) -> None:
    """A published record would have the name in its value, and also in its key if the name is not a host or group."""
    monitor = repeated(snapshot(client=EVIL | {name: LETTERS[:900_000]}))
    assert monitor.reasons == {"oversized"} and monitor.published("good") == undisturbed_by_repeats()
    assert max(sizes(monitor)) < TAKEN


@cache
def undisturbed_by_repeats() -> list[list[bytes]]:
    return repeated(b"").published("good")


def test_topics_and_threads_with_such_names_are_left_out() -> None:
    topics = [{"topic": name, "thread": thread, "metrics": {"records-lag": 3}} for name, thread in NAMED]
    monitor = repeated(snapshot(client=EVIL | {"kind": "consumer"}, topics=topics))
    assert monitor.reasons == {"impossible-value"}
    assert max(sizes(monitor)) < 10_000


NAMED = ((LETTERS[:5_000], None), ("t", LETTERS[:5_000]), ("t", "short"))


def test_a_group_too_large_for_the_topic_is_reported_and_stays_known() -> None:
    parts = [
        {"topic": LETTERS[249 * n : 249 * (n + 1)], "partition": n, "metrics": {"end-offset": 2**52 + n * n}}
        for n in range(6_400)
    ]
    monitor = Streamed()
    for second in (BEGIN, BEGIN + 60):
        group = snapshot(ts=1000 * second, client=EVIL | {"kind": "group"}, topics=parts)
        monitor.batch(second, [Raw("", gzip.compress(group))])
    assert monitor.reasons == {"step-failed"} and monitor.published("evil") != []
    assert max(sizes(monitor)) < TAKEN
    small = snapshot(ts=1000 * (BEGIN + 120), client=EVIL | {"kind": "group"}, topics=parts[:10])
    (row,) = (row for row in monitor.batch(BEGIN + 120, [Raw("", small)]) if row[0] == HEALTH)
    assert row[1] == b"evil|e:1|e"


@pytest.mark.parametrize("size", long_after(2, [1_047_000, 1_048_500, 3_000_000]))
def test_a_record_that_cannot_be_read_fits_among_the_rejects(size: int) -> None:
    monitor = repeated(b"\xff" + random.Random(2).randbytes(size))
    assert monitor.reasons == {"binary"} and max(sizes(monitor)) < TAKEN
