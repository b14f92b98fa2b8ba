"""The monitor decides to which client of a process a log line belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from clienthealth.diagnose.diagnosis import diagnose
from clienthealth.model.clients import Client
from clienthealth.modes import modes
from clienthealth.monitor import departures
from clienthealth.monitor.bucket import Bucket
from clienthealth.read.logs.fields import named_client
from clienthealth.read.recordings import read
from clienthealth.settings import Settings
from tests.support.recorded import RECORDINGS
from tests.support.stepped import Stepped, logged, snapshot

NOT_CLOSED, BLOCKED, DEADLOCK = "producer-not-closed", "send-blocked-on-metadata", "producer-callback-deadlock"
FULL = {"buffer-total-bytes": 4e6, "buffer-available-bytes": 1e6, "select-total": 7.0, "record-send-total": 9.0}


def bucket(monitor: Stepped) -> Bucket:
    return Bucket(monitor.state, monitor.settings)


def configured(monitor: Stepped, client_id: str) -> dict[str, str]:
    number = next(n for n, client in enumerate(monitor.state.all_clients) if client.client_id == client_id)
    return dict(bucket(monitor).config(number))


def test_what_a_client_logged_of_its_options_is_known_as_long_as_it_reports_and_after_a_restart() -> None:
    monitor = Stepped()
    monitor.batch(
        [logged(0, "producer-config", "p", requestTimeoutMs="4000", deliveryTimeoutMs="9000", address="[k:9092]")], 5
    )
    monitor.batches((snapshot(second, FULL) for second in range(10, 2400, 10)), 60)
    options = {"request.timeout.ms": "4000", "delivery.timeout.ms": "9000"}
    assert configured(monitor, "p") == options
    assert monitor.records["shop|h:1|p"]["config"] == options, "for whoever looks at the client"


def test_options_that_are_logged_without_a_name_are_of_the_only_producer() -> None:
    alone, both = Stepped(), Stepped()
    line = logged(0, "producer-config", None, requestTimeoutMs="4000")
    alone.batch([line, snapshot(1, FULL), snapshot(1, {}, "c", "consumer")], 5)
    both.batch([line, snapshot(1, FULL), snapshot(1, FULL, "q")], 5)
    assert configured(alone, "p") == {"request.timeout.ms": "4000"}
    assert configured(alone, "c") == {}
    assert (configured(both, "p"), configured(both, "q")) == ({}, {})


def departed(monitor: Stepped, client_id: str) -> str:
    whole = bucket(monitor)
    number = next(n for n, client in enumerate(monitor.state.all_clients) if client.client_id == client_id)
    mode = modes()[NOT_CLOSED]
    return mode.judge(departures.departure(whole, number), mode.thresholds).status


@pytest.mark.parametrize(
    ("signature", "others", "expected"),
    [
        ("producer-closing", [], "ok"),
        ("producer-closing", ["q"], "suspected"),
        ("process-killed-for-memory", ["q"], "confirmed"),
    ],
)
def test_which_client_a_line_of_the_end_belongs_to(signature: str, others: list[str], expected: str) -> None:
    monitor = Stepped()
    lines = [logged(20, signature, None, timeout="9223372036854775807"), logged(19, "buffer-exhausted", None)]
    readings = [snapshot(s, FULL, name) for s in (0, 10, 20) for name in ("p", *others)]
    monitor.batch([*readings, *lines], 25)
    assert departed(monitor, "p") == expected


def test_the_reading_before_a_forced_close_counts_not_the_one_after_it() -> None:
    monitor, empty = Stepped(), {**FULL, "buffer-available-bytes": 4e6}
    lines = [logged(12, "producer-closing", "p", timeout="0"), logged(12, "producer-force-close", "p", timeout="0")]
    monitor.batch([snapshot(0, FULL), snapshot(10, FULL), snapshot(20, empty), *lines], 25)
    assert departed(monitor, "p") == "confirmed"


def test_a_suspicion_that_a_deadlock_explains_is_withdrawn() -> None:
    monitor = Stepped()
    for second in range(0, 200, 10):
        waits = {"buffer-total-bytes": 1e8, "buffer-available-bytes": 1e8 - 1e5 * max(0, second - 20)}
        counts = {"record-send-total": float(min(second, 20)), "requests-in-flight": 1.0}
        goes = {"select-total": 100.0 * min(second, 80)}
        monitor.batch([snapshot(second, {**waits, **counts, **goes})], second)
    changes = [(c.verdict.mode, c.change) for p in monitor.published for c in p.changes if c.verdict.mode != NOT_CLOSED]
    assert ("delivery-stalled", "opened") in changes
    assert changes.index((DEADLOCK, "opened")) < changes.index(("delivery-stalled", "withdrawn"))
    assert {mode for mode in monitor.state.incidents.of_client("shop|h:1|p")} == {DEADLOCK}


def judged(folder: Path) -> dict[str, dict[str, str]]:
    clients: list[tuple[Client, dict[str, str]]] = [
        (client, {v.mode: v.status for v in verdicts})
        for client, verdicts in diagnose(read([folder]), Settings()).clients
    ]
    return {client.client_id: statuses for client, statuses in clients}


def test_librdkafkas_and_aiokafkas_own_words_at_the_end_are_evidence_without_any_metric(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "app.log").write_text(
        "%4|1795328547.309|TERMINATE|py uploader#producer-1| [thrd:app]: Producer terminating with 491 messages "
        "(147300 bytes) still in queue or transit: use flush() to wait for outstanding message delivery\n"
    )
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "app.log").write_text(
        "2026-11-22 06:22:24,695 ERROR [MainThread] asyncio - Unclosed AIOKafkaProducer\n"
        "producer: <aiokafka.producer.producer.AIOKafkaProducer object at 0x7f2b6c674a90>\n"
    )
    assert judged(tmp_path / "one")["py uploader"][NOT_CLOSED] == "suspected"
    assert judged(tmp_path / "two")[""][NOT_CLOSED] == "suspected"


def test_of_several_producers_only_the_failing_one_is_accused() -> None:
    three = judged(RECORDINGS / "deadlock-2.1-three-producers")
    assert {name: of[DEADLOCK] for name, of in three.items()} == {
        "first one": "confirmed",
        "second one": "ok",
        "third|one": "ok",
    }
    two = judged(RECORDINGS / "send-blocked-two-producers-2.8")
    assert {name: of[BLOCKED] for name, of in two.items()} == {"ad": "confirmed", "orders": "ok"}


def test_of_two_producers_without_metrics_the_topic_decides(tmp_path: Path) -> None:
    source = RECORDINGS / "send-blocked-two-producers-2.8" / "app.log.gz"
    (tmp_path / "app.log.gz").write_bytes(source.read_bytes())
    verdicts = judged(tmp_path)
    assert {name: of[BLOCKED] for name, of in verdicts.items()} == {"ad": "confirmed", "orders": "unknown"}


def test_a_finished_blockade_is_reported_with_its_length() -> None:
    ((_, verdicts),) = diagnose(read([RECORDINGS / "callback-held-22s-3.1"]), Settings()).clients
    (deadlock,) = (verdict for verdict in verdicts if verdict.mode == DEADLOCK)
    assert deadlock.status == "suspected"
    assert deadlock.detail["bounded"] is True
    assert 20 <= deadlock.detail["blocked_seconds"] <= 23
    assert any("then select-total rose, so" in fact.text for fact in deadlock.evidence)


@pytest.mark.parametrize(
    ("message", "thread", "name"),
    [
        ("x", "ad | producer-1", "producer-1"),
        ("x", "k-thread | ad", "ad"),
        ("x", "| feed-uploader", "feed-uploader"),
        ("x", "kafka-producer-network-thread | third|one", "third|one"),
        ("x", "worker | 1", None),
        ("[Producer clientId=Ümläut Client] Closing", "main", "Ümläut Client"),
        ("<KafkaProducer client_id=py uploader transactional_id=None>: closed", "main", "py uploader"),
        ("<KafkaProducer client_id=a>: closed", "main", "a"),
    ],
)
def test_the_client_is_named_by_its_prefix_or_by_what_a_layout_left_of_its_thread(
    message: str, thread: str, name: str | None
) -> None:
    assert named_client(message, thread) == name


def test_a_producer_that_sends_nothing_is_not_known_to_be_well_where_nothing_of_its_process_was_read() -> None:
    def statuses(sends: bool, logs: bool) -> set[str]:
        monitor = Stepped()
        for second in range(0, 400, 10):
            metrics = {"record-send-total": 100.0 * second * sends, "metadata-age": 5.0, "select-total": 9.0 * second}
            lines = [logged(second, "client-version", "p")] if logs and second == 0 else []
            monitor.batch([snapshot(second, metrics, "p"), *lines], second)
        verdicts = monitor.records["shop|h:1|p"]["verdicts"]
        return {v["status"] for v in verdicts if v["mode"] == "send-blocked-on-metadata"}

    assert statuses(sends=False, logs=False) == {"unknown"}
    assert statuses(sends=False, logs=True) == {"ok"}, "its log, which was read once, would show it"
    assert statuses(sends=True, logs=False) == {"ok"}


def test_failures_of_a_producer_and_a_consumer_of_one_name_are_both_reported() -> None:
    """A producer and a consumer with equal client ids share one record key."""
    stuck = {"buffer-total-bytes": 4e6, "select-total": 7.0, "record-send-total": 9.0}
    unhealthy: dict[str, set[str]] = {}
    for ill in ("producer", "consumer"):
        monitor = Stepped()
        for second in range(0, 400, 10):
            free = 4e6 - (20_000 * second if ill == "producer" else 0)
            producer = {**stuck, "buffer-available-bytes": free, "select-total": 7.0 if ill == "producer" else second}
            polled = float(second) if ill == "consumer" else 0.0
            consumer = {"last-poll-seconds-ago": polled, "poll-idle-ratio-avg": 0.0, "records-lag-max": 9.0}
            both = [snapshot(second, producer, "x"), snapshot(second, consumer, "x", "consumer")]
            monitor.batch(
                [*both, logged(second, "poll-timeout-expired", "x")] if ill == "consumer" else both, second + 10
            )
        record = monitor.records["shop|h:1|x"]
        unhealthy[ill] = {v["mode"] for v in record["verdicts"] if v["status"] in ("suspected", "confirmed")}
    assert unhealthy == {"producer": {DEADLOCK}, "consumer": {"consumer-stalled"}}
