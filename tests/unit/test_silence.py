"""Python clients that stop reporting are judged by their last reports."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.measure.packed import LogEntry, process_of
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import catalogue
from clienthealth.read.logs.events import events_and_dumps
from clienthealth.read.recordings import read
from clienthealth.settings import Settings
from tests.support.recorded import DECODERS, RECORDINGS, sent
from tests.support.stepped import START, Stepped, logged, snapshot

STALLED, DEADLOCK, NOT_CLOSED = "consumer-stalled", "producer-callback-deadlock", "producer-not-closed"
IN, OUT = "stock-in", "stock-out"
#: Time of the last dump: 2026-11-23 04:13:39 UTC.
RECORDED = 1795407219


@cache
def diagnosed(folder: Path) -> dict[tuple[str, str], Verdict]:
    diagnosis = examine([folder], Settings())
    return {(client.client_id, v.mode): v for client, verdicts in diagnosis.clients for v in verdicts}


@pytest.mark.parametrize(
    ("name", "client", "mode", "status", "words"),
    [
        ("librdkafka-hangs", IN, STALLED, "suspected", "'MainThread' is in app.reprice, and was at the same place "),
        ("librdkafka-hangs-beside", IN, STALLED, "suspected", "before a sample of 'stock-audit' in the same process"),
        ("librdkafka-hangs-max-poll", IN, STALLED, "confirmed", "Application maximum poll interval (50000ms) exceeded"),
        ("librdkafka-not-polled", OUT, DEADLOCK, "confirmed", "the producer's queue is full"),
        ("librdkafka-collector-stops", IN, STALLED, "unknown", "are in the same frames as during earlier polls"),
        ("librdkafka-exits", IN, STALLED, "ok", ""),
        ("librdkafka-slow-70s", IN, STALLED, "ok", ""),
    ],
)
def test_what_real_clients_show(name: str, client: str, mode: str, status: str, words: str) -> None:
    verdict = diagnosed(RECORDINGS / name)[client, mode]
    assert verdict.status == status
    assert any(words in text for text in (verdict.reason or "", *(fact.text for fact in verdict.evidence)))


def test_the_time_away_is_at_least_what_the_newest_sign_shows() -> None:
    """The handler hung from second 22 on. The last thread dump, at second 120, still shows the hanging handler."""
    verdict = diagnosed(RECORDINGS / "librdkafka-hangs")[IN, STALLED]
    assert 90 <= verdict.detail["seconds_since_poll"] <= 120 - 22
    assert verdict.detail["cause"] == "handler-hangs"
    assert (verdict.detail["thread"], verdict.detail["frame"]) == ("MainThread", "app.reprice")


def test_a_producer_in_a_process_that_keeps_logging_has_not_ended() -> None:
    verdict = diagnosed(RECORDINGS / "librdkafka-not-polled")[OUT, NOT_CLOSED]
    assert verdict.status == "unknown"


def test_a_dump_without_a_time_takes_it_from_its_name(tmp_path: Path) -> None:
    folder = RECORDINGS / "librdkafka-hangs"
    for hour, status in (("04", "suspected"), ("09", "unknown")):
        copy = tmp_path / f"shop{hour}"
        copy.mkdir()
        (copy / "stats.jsonl").write_bytes(gzip.decompress((folder / "stats.jsonl.gz").read_bytes()))
        for dump in folder.glob("jstack-*"):
            text = dump.read_text().partition("\n")[2]
            (copy / dump.name.replace("-04", f"-{hour}")).write_text(text)
        for file in copy.iterdir():
            os.utime(file, (RECORDED, RECORDED))
        verdict = diagnosed(copy)[IN, STALLED]
        assert verdict.status == status, hour


def inputs_of(name: str) -> Iterator[Snapshot | LogEntry]:
    for record in read([RECORDINGS / name]):
        raw = sent(record)
        decoded = DECODERS[record.stream](raw, Settings(), 2**42)
        yield from decoded.snapshots
        for line in decoded.lines:
            process = process_of(line.client)
            events, dumps = events_and_dumps(line, raw.source, catalogue())
            yield from (LogEntry(*process, event) for event in events)
            yield from (LogEntry(*process, dump=dump) for dump in dumps)


def streamed(inputs: list[Snapshot | LogEntry], seconds: int) -> Stepped:
    monitor = Stepped()
    first, last = (int((how(one.ts_ms or 0 for one in inputs) - START) / 1000) for how in (min, max))
    others = [
        snapshot(second, {"select-total": 1000 + second}, "other", instance="o:1", host="o")
        for second in range(first, last + seconds, 10)
    ]
    monitor.batches([*inputs, *others], 10)
    return monitor


def changes(monitor: Stepped, client: str) -> list[tuple[str, str, str]]:
    return [
        (c.verdict.mode, c.change, c.verdict.status)
        for published in monitor.published
        for c in published.changes
        if c.client.client_id == client
    ]


@pytest.mark.parametrize(
    ("name", "client", "expected"),
    [
        ("librdkafka-hangs", IN, (STALLED, "opened", "suspected")),
        ("librdkafka-hangs-beside", IN, (STALLED, "opened", "suspected")),
        ("librdkafka-hangs-max-poll", IN, (STALLED, "opened", "confirmed")),
        ("librdkafka-not-polled", OUT, (DEADLOCK, "opened", "confirmed")),
        ("librdkafka-collector-stops", IN, None),
        ("librdkafka-exits", IN, None),
        ("librdkafka-slow-70s", IN, None),
    ],
)
def test_the_stream_gives_the_same(name: str, client: str, expected: tuple[str, str, str] | None) -> None:
    monitor = streamed([*inputs_of(name)], 150)
    found = [change for change in changes(monitor, client) if change[0] in (STALLED, DEADLOCK)]
    assert found[:1] == ([expected] if expected else [])
    if name == "librdkafka-exits":
        (record,) = (r for key, r in monitor.records.items() if key.endswith(f"|{IN}"))
        (verdict,) = (v for v in record["verdicts"] if v["mode"] == STALLED)
        assert verdict["status"] == "unknown"
        assert "either the client's process has ended" in verdict["reason"]


def consumer(second: float, client_id: str = "in", lag: float = 50.0, instance: str = "h:1") -> Snapshot:
    metrics = {"records-consumed-total": 10.0 * second, "assigned-partitions": 1.0}
    topics = [TopicMetrics("t", 0, metrics={"records-lag": lag, "position": 10 * second})]
    client = Identity("shop", "h", instance, client_id, "consumer", "librdkafka", None)
    return Snapshot(START + int(1000 * second), client, metrics, topics, {}, 10_000)


def test_it_stays_open_while_another_client_of_the_process_reports_and_ends_when_it_polls_again() -> None:
    beside: list[Any] = [consumer(s, "beside", 0.0) for s in range(0, 900, 10)]
    monitor = streamed([*beside, *(consumer(s) for s in (*range(0, 100, 10), *range(700, 900, 10)))], 10)
    mine = [(change, status) for mode, change, status in changes(monitor, "in") if mode == STALLED]
    assert mine == [("opened", "suspected"), ("closed", "ok")]
    (closed,) = (
        c.ts_ms for p in monitor.published for c in p.changes if c.change == "closed" and c.client.client_id == "in"
    )
    assert closed >= START + 700_000
    assert not changes(monitor, "beside")


def test_a_client_beside_it_in_another_process_of_the_host_is_no_sign_of_life() -> None:
    beside: list[Any] = [consumer(s, "beside", 0.0, "h:2") for s in range(0, 400, 10)]
    monitor = streamed([*beside, *(consumer(s) for s in range(0, 100, 10))], 10)
    assert not changes(monitor, "in")


def test_a_consumer_without_records_is_not_accused() -> None:
    """A consumer without unread records in its last report was probably closed."""
    lines: list[Any] = [logged(s, "connection-failed", "beside", instance="h:1") for s in range(0, 400, 20)]
    monitor = streamed([*lines, *(consumer(s, lag=0.0) for s in range(0, 100, 10))], 10)
    assert not changes(monitor, "in")
    (record,) = (r for key, r in monitor.records.items() if key.endswith("|in"))
    (verdict,) = (v for v in record["verdicts"] if v["mode"] == STALLED)
    assert verdict["status"] == "unknown"
    assert "the client was closed, or its application does not call poll()" in verdict["reason"]


def test_a_java_consumer_reports_from_elsewhere() -> None:
    java = [snapshot(s, {"records-lag-max": 9.0}, "in", "consumer") for s in range(0, 100, 10)]
    lines: list[Any] = [logged(s, "connection-failed", "beside", instance="h:1") for s in range(0, 400, 20)]
    assert not changes(streamed([*lines, *java], 10), "in")


BILLING = "billing-out"
EXITS = [
    ("librdkafka-flushed", BILLING, "unknown", "201 records or 20 KiB", [0, 201], None),
    ("librdkafka-raises", BILLING, "suspected", "150 records still in its queue or in flight", [0, 150], "confirmed"),
    ("librdkafka-flushed-too-short", BILLING, "suspected", "ended with 5,895 records", [0, 5895], "confirmed"),
    ("librdkafka-killed", BILLING, "unknown", "statistics end before a final flush()", [0, 150], None),
    ("kafka-python-returns", BILLING, "ok", "", None, None),
    ("kafka-python-closed-too-short", BILLING, "unknown", "close() was still delivering", [0, 5976], None),
    ("kafka-python-killed", BILLING, "unknown", "all data ends right after this sample", [0, 2], "suspected"),
    ("kafka-python-2-forced", BILLING, "suspected", "Proceeding to force close", None, "confirmed"),
    ("aiokafka-returns", "", "suspected", "Unclosed AIOKafkaProducer", None, "suspected"),
]


@pytest.mark.parametrize(("name", "client", "status", "words", "lost", "_"), EXITS, ids=[name for name, *_ in EXITS])
def test_how_a_python_process_ended(
    name: str, client: str, status: str, words: str, lost: list[int] | None, _: str | None
) -> None:
    verdict = diagnosed(RECORDINGS / name)[client, NOT_CLOSED]
    assert verdict.status == status
    assert any(words in text for text in (verdict.reason or "", *(fact.text for fact in verdict.evidence)))
    assert verdict.detail.get("lost_records") == lost


@pytest.mark.parametrize(("name", "client", "_status", "_words", "_lost", "opened"), EXITS, ids=[n for n, *_ in EXITS])
def test_the_stream_reports_how_it_ended(
    name: str, client: str, _status: str, _words: str, _lost: object, opened: str | None
) -> None:
    found = [change for change in changes(streamed([*inputs_of(name)], 150), client) if change[0] == NOT_CLOSED]
    assert found[:1] == ([(NOT_CLOSED, "opened", opened)] if opened else [])
