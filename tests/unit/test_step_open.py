"""After a client's data stops, its incident stays open for at most `shown_seconds`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import pytest

from clienthealth.measure.packed import LogEntry, encode
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.monitor.state import BucketState, load
from clienthealth.settings import Settings
from clienthealth.spark import stepping
from clienthealth.spark.decoding import compressed, decompressed
from tests.support.stepped import START, Kept, Stepped, by_batch, logged, snapshot
from tests.unit.test_pushed_recordings import TRUTH, pushed

STALLED, DEADLOCK, LOOP = "consumer-stalled", "producer-callback-deadlock", "consumer-shutdown-loop"
HOUR, BUFFER = Settings().absence.shown_seconds, 33_554_432.0
HANGS = "handler-hangs-3.9-30s"
ONSET = (int(TRUTH[HANGS]["onset_ms"]) - START) / 1000
OF_HANGS = [*pushed(HANGS)]


class Monitor:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: Settings | None = None) -> None:
        self.settings, self.now = settings or Settings(), 0.0
        self.state: Any = Kept()
        self._made = Stepped()
        self.changes: list[tuple[float, str, str, str, float]] = []
        self.records: list[tuple[float, str, Mapping[str, Any] | None]] = []
        monkeypatch.setattr("clienthealth.spark.stepping.time.time", lambda: START / 1000 + self.now)

    def run(self, inputs: Iterable[Snapshot | LogEntry], until: float, since: float, step: float = 10) -> None:
        others = (
            snapshot(since + n * step, {"select-total": n}, "other", instance="o:1", host="o")
            for n in range(int((until - since) / step))
        )
        for self.now, batch in by_batch(chain(inputs, others), step, "other").items():
            task = compressed(encode(self._made.chunk(batch)))
            rows = stepping._judged(0, [task], self.state, self.settings, {})
            for kind, key, value, _ in rows:
                if kind == stepping.HEALTH:
                    self.records.append((self.now, (key or b"").decode(), json.loads(value) if value else None))
                elif kind == stepping.CHANGE:
                    row = json.loads(value or b"{}")
                    what = row["client_id"], row["mode"], row["change"]
                    self.changes.append((self.now, *what, (row["ts"] - START) / 1000))

    def of(self, client_id: str) -> list[tuple[str, str]]:
        return [(mode, change) for _, client, mode, change, _ in self.changes if client == client_id]

    def shown(self, client_id: str, at: float) -> Mapping[str, Any] | None:
        return next((v for t, key, v in self.records[::-1] if t <= at and key.endswith(f"|{client_id}")), None)

    @property
    def kept(self) -> BucketState:
        return load(decompressed(self.state.get[0]), self.settings.monitor.buckets)


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch) -> Monitor:
    return Monitor(monkeypatch)


def statuses(record: Mapping[str, Any] | None) -> dict[str, str]:
    return {verdict["mode"]: verdict["status"] for verdict in (record or {"verdicts": ()})["verdicts"]}


def push_of(after: float, **metrics: float) -> Snapshot:
    last = OF_HANGS[-1]
    polls = {"last-poll-seconds-ago": 0.0, "last-heartbeat-seconds-ago": 0.0, "records-consumed-total": after}
    ts_ms = START + int(1000 * (ONSET + after))
    return Snapshot(ts_ms, last.client, {**last.metrics, **polls, **metrics}, last.topics, last.config, 30_000)


@pytest.mark.long
def test_a_hung_consumer_that_pushes_no_more_stays_open_and_shown_for_an_hour(monitor: Monitor) -> None:
    monitor.run(OF_HANGS, ONSET + 2 * HOUR, ONSET)
    last = ((OF_HANGS[-1].ts_ms or 0) - START) / 1000
    opened, closed = monitor.changes
    assert [change[1:4] for change in (opened, closed)] == [
        ("order-billing", STALLED, "opened"),
        ("order-billing", STALLED, "closed"),
    ]
    assert opened[0] - ONSET < 300
    assert last + HOUR < closed[0] <= last + HOUR + 60
    assert closed[4] == pytest.approx(last, abs=1), "its last push is its last sign"
    times = [t for t, key, v in monitor.records if key.endswith("|order-billing") and v]
    ttl = monitor.settings.prometheus.ttl_seconds
    ends = [*times[1:], closed[0]]
    assert max(end - begin for begin, end in zip(times, ends, strict=True)) < ttl / 2 + 10
    for after in (600, 1800, 3000):
        record = monitor.shown("order-billing", ONSET + after)
        assert record is not None and record["departed"] and statuses(record)[STALLED] == "suspected"
    assert monitor.shown("order-billing", closed[0]) is None
    assert not monitor.kept.former and not [*monitor.kept.incidents.all]


def test_a_handler_that_returns_after_half_an_hour_is_one_incident_until_the_next_poll(monitor: Monitor) -> None:
    back = [push_of(after) for after in range(1800, 2400, 30)]
    monitor.run([*OF_HANGS, *back], ONSET + 2400, ONSET)
    assert monitor.of("order-billing") == [(STALLED, "opened"), (STALLED, "closed")]
    assert 1800 < monitor.changes[-1][4] - ONSET < 2100
    record = monitor.shown("order-billing", ONSET + 2400)
    assert record is not None and not record.get("departed")


def test_a_client_that_reports_its_close_has_ended(monitor: Monitor) -> None:
    monitor.run([*OF_HANGS, push_of(310, **{"last-poll-seconds-ago": 310, "terminating": 1})], ONSET + 900, ONSET)
    assert monitor.of("order-billing") == [(STALLED, "opened"), (STALLED, "closed")]
    assert monitor.changes[-1][4] - ONSET == pytest.approx(310, abs=1)
    assert monitor.changes[-1][0] - ONSET < 310 + 180


@pytest.mark.parametrize("after", [320, 900])
def test_a_line_about_its_close_ends_it(monitor: Monitor, after: int) -> None:
    line = logged(ONSET + after, "consumer-unregistered", None, service="order-billing", client="order-billing")
    line.host = "127.0.0.1"
    monitor.run([*OF_HANGS, line], ONSET + 1800, ONSET)
    assert monitor.of("order-billing") == [(STALLED, "opened"), (STALLED, "closed")]
    assert monitor.changes[-1][0] - ONSET < after + 180


def successor(instance: str, begin: int, until: int) -> Iterable[Snapshot]:
    for after in range(begin, until, 30):
        one = push_of(after)
        client = one.client
        one.client = Identity(
            client.service, client.host, instance, client.client_id, client.kind, client.library, client.version
        )
        yield one


def test_a_client_of_its_name_that_comes_after_it_on_its_host_took_its_place(monitor: Monitor) -> None:
    monitor.run([*OF_HANGS, *successor("127.0.0.1:next", 600, 1500)], ONSET + 1500, ONSET)
    assert monitor.of("order-billing") == [(STALLED, "opened"), (STALLED, "closed")]
    assert monitor.changes[-1][0] - ONSET < 660


def test_where_replicas_share_its_name_and_host_a_new_one_is_no_proof(monitor: Monitor) -> None:
    replicas = [*successor("127.0.0.1:beside", 0, 600), *successor("127.0.0.1:next", 620, 1800)]
    monitor.run([*OF_HANGS, *replicas], ONSET + 1800, ONSET)
    assert monitor.of("order-billing") == [(STALLED, "opened")]
    kept = [incident.client.instance for incident in monitor.kept.incidents.all]
    assert kept == [OF_HANGS[0].client.instance]


def stuck(until: int, begin: int = 0) -> list[Snapshot]:
    return [
        snapshot(
            second,
            {
                "select-total": 500.0,
                "record-send-total": 100.0,
                "buffer-total-bytes": BUFFER,
                "buffer-available-bytes": max(0.0, BUFFER * (1 - (second - begin) / 100)),
                "waiting-threads": 2.0 if second > begin + 100 else 0.0,
            },
            "p",
        )
        for second in range(begin, until, 10)
    ]


def test_a_deadlocked_producer_that_goes_stale_stays_with_its_possible_loss(monitor: Monitor) -> None:
    monitor.run(stuck(200), 1800, 0)
    assert monitor.of("p")[0] == (DEADLOCK, "opened")
    assert (DEADLOCK, "closed") not in monitor.of("p")
    record = monitor.shown("p", 1800)
    assert statuses(record)[DEADLOCK] == "confirmed"
    (verdict,) = (v for v in (record or {})["verdicts"] if v["mode"] == DEADLOCK)
    assert verdict["detail"]["lost_bytes"] == [0, 33_554_432]


@pytest.mark.parametrize("line", ["process-killed-for-memory", "producer-closed"])
def test_the_word_of_its_end_ends_the_incident_of_a_producer(monitor: Monitor, line: str) -> None:
    name = "p" if line == "producer-closed" else None
    monitor.run([*stuck(200), logged(600, line, name, pid="1")], 1200, 0)
    assert monitor.of("p")[-1] == (DEADLOCK, "closed")
    assert 600 <= max(now for now, _, mode, change, _ in monitor.changes if change == "closed") < 660


def test_a_close_that_has_begun_is_no_end(monitor: Monitor) -> None:
    monitor.run([*stuck(200), logged(205, "producer-closing", "p", timeout="1")], 1200, 0)
    assert (DEADLOCK, "closed") not in monitor.of("p")


@pytest.mark.long
def test_a_loop_that_logs_no_more_has_gone_after_three_minutes(monitor: Monitor) -> None:
    reads = [snapshot(s, {"fetch-requests-total": 10.0 * s}, "group", "legacy-consumer") for s in range(0, 120, 10)]
    loop = [logged(120 + n / 20, "offset-manager-lookup-failed", thread="w", address="k:9092") for n in range(400 * 20)]
    monitor.run([*reads, *loop], 1200, 0)
    assert monitor.of("group")[-1] == (LOOP, "closed")
    assert 520 + 180 <= monitor.changes[-1][0] < 520 + 240


def test_a_healthy_client_that_departs_is_forgotten_with_all_of_its_state(monitor: Monitor) -> None:
    well = [
        snapshot(s, {"select-total": 5.0 * s, "record-send-total": 10.0 * s, "buffer-total-bytes": BUFFER}, "p")
        for s in range(0, 200, 10)
    ]
    monitor.run(well, 1200, 0)
    assert not monitor.of("p")
    assert [client.client_id for client in monitor.kept.all_clients] == ["other"]
    assert not monitor.kept.former


def test_of_more_than_there_may_be_clients_those_go_that_are_silent_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings()
    few = Settings(monitor=type(settings.monitor)(max_clients=3 * settings.monitor.buckets))
    monitor = Monitor(monkeypatch, few)
    inputs: list[Snapshot] = []
    for number in range(6):
        for one in stuck(400 * number + 150, 400 * number):
            client = one.client
            one.client = Identity(
                client.service, f"h{number}", f"h{number}:1", "p", client.kind, client.library, client.version
            )
            inputs.append(one)
    monitor.run(inputs, 2400, 0)
    assert [incident.client.host for incident in monitor.kept.incidents.all if incident.departed_ms] == [
        "h3",
        "h4",
        "h5",
    ]
