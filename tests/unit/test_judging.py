"""Verdicts of overlapping windows are merged into one verdict."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence

import pytest

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client
from clienthealth.model.health_record import verdict_from_json, verdict_json
from clienthealth.model.readings import Reading, Source
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.verdicts import Evidence, Verdict
from clienthealth.modes import FEW, modes
from clienthealth.monitor.adjust import ALL_SILENT
from clienthealth.monitor.window_verdicts import evidence_of, judge_windows, merged, verdict
from tests.scenarios._making import line, mine, rising, still, window
from tests.scenarios.consumer_stalled import polling
from tests.scenarios.delivery_stalled import sending
from tests.support.stepped import START, Stepped, snapshot

MODE = "producer-callback-deadlock"


def test_the_worst_window_holds_with_the_earliest_onset() -> None:
    windows = [
        Verdict(MODE, "suspected", 10, evidence=(Evidence("log", 10, "a"),)),
        Verdict(MODE, "confirmed", 20, detail={"cause": "x"}, evidence=(Evidence("metric", 20, "b"),)),
        Verdict(MODE, "unknown", reason="fewer than 3 readings"),
    ]
    result = merged(windows)
    assert (result.status, result.since_ms, result.detail) == ("confirmed", 10, {"cause": "x"})
    assert [e.text for e in result.evidence] == ["a", "b"]


def test_a_window_that_can_be_judged_outweighs_one_that_cannot() -> None:
    result = merged([Verdict(MODE, "ok"), Verdict(MODE, "unknown", reason="fewer than 3 readings")])
    assert (result.status, result.reason) == ("ok", None)


def test_of_each_kind_of_evidence_the_first_and_the_newest_are_kept() -> None:
    facts = [Evidence("metric", t, f"m{t}") for t in range(10)] + [Evidence("log", 4, "l4"), Evidence("log", 4, "l4")]
    assert [e.text for e in evidence_of(facts)] == ["m0", "l4", "m8", "m9"]


def test_a_verdict_survives_its_wire_form() -> None:
    fact = Evidence("thread-dump", 5, "stuck", Source("client-logs", 1, 42))
    verdict = Verdict(MODE, "confirmed", 5, {"cause": "get-in-callback"}, (fact,))
    assert verdict_from_json(verdict_json(verdict)) == verdict


def test_a_cause_stays_known_if_the_newest_window_no_longer_shows_it() -> None:
    mode = "send-blocked-on-metadata"
    suspected = Verdict(mode, "suspected", 10_000, {"cause": "topic-missing", "topic": "orders"})
    failed = Verdict(mode, "confirmed", 0, {"cause": "unknown", "longest_block_seconds": 60.0})
    assert merged([suspected, failed]).detail == {
        "cause": "topic-missing",
        "topic": "orders",
        "longest_block_seconds": 60.0,
    }
    assert merged([failed, failed]).detail == {"cause": "unknown", "longest_block_seconds": 60.0}
    denied = dataclasses.replace(failed, detail={"cause": "topic-denied"})
    assert merged([suspected, denied]).detail == {"cause": "topic-denied"}
    refused = Verdict("delivery-stalled", "suspected", 0, {"cause": "not-enough-replicas"})
    expired = Verdict("delivery-stalled", "suspected", 0, {"cause": "timeouts", "expired_records": 14})
    assert merged([refused, expired]).detail == {"cause": "not-enough-replicas", "expired_records": 14}


def test_a_selector_that_stops_at_the_end_is_not_ok_even_if_it_moved_in_earlier_windows() -> None:
    """The client sends a sample every 15 s. From the third sample on, a callback waits for a latch."""
    client = Client("orders", "web-1", "web-1:7", "stock", "producer", library="java")
    readings = [
        Reading(
            at * 15_000, {"select-total": selects, "buffer-available-bytes": 183_616.0, "buffer-total-bytes": 200_000.0}
        )
        for at, selects in enumerate((229.0, 704.0, 739.0, 739.0))
    ]
    windows = [ClientWindow(client, 0, 60_000, tuple(readings[:count])) for count in (3, 4)]
    (verdict,) = [v for v in judge_windows(windows, {}) if v.mode == MODE]
    assert (verdict.status, len(verdict.evidence)) == ("unknown", 1)
    assert verdict.reason == "select-total stayed at 739 for the last 15 s, while records wait"
    (moved,) = [v for v in judge_windows(windows[:1], {}) if v.mode == MODE]
    assert moved.status == "ok"


def samples(
    gaps: Sequence[float], select: Callable[[float], float], used: Callable[[float], float], linger_ms: int = 0
) -> list[Snapshot]:
    taken = []
    for at in itertools.accumulate(gaps):
        counted = {"select-total": select(at), "record-send-total": select(at), "record-error-total": 0}
        buffer = {"buffer-total-bytes": 200_000, "buffer-available-bytes": 200_000 - used(at), "waiting-threads": 0}
        taken.append(snapshot(at, {**counted, **buffer}))
        taken[-1].config = {"linger.ms": str(linger_ms)}
    return taken


IRREGULAR = (3, 10, 10, 1, 19, 10, 0.5, 9.5, 25, 5, 10, 2, 2, 2, 30, 10, 10, 10, 14, 6, 10, 10, 10)


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(samples([10] * 40, lambda s: 50, lambda s: 0), id="idle"),
        pytest.param(samples([10] * 60, lambda s: 50 + s // 300, lambda s: 0), id="a select in five minutes"),
        pytest.param(samples([10] * 40, lambda s: 90 * s, lambda s: 4000), id="busy"),
        pytest.param(samples(IRREGULAR * 2, lambda s: 90 * s, lambda s: 4000), id="busy and seen irregularly"),
        pytest.param(samples(IRREGULAR * 2, lambda s: 50 + s // 8, lambda s: 4000 * (s % 8 < 1)), id="a few records"),
        pytest.param(
            samples([10] * 40, lambda s: 50 + (s + 5) // 30, lambda s: 9 * (s % 30 == 20)), id="caught sending"
        ),
        pytest.param(samples([10] * 40, lambda s: 50 + s // 20, lambda s: 99 * (s % 20), 20_000), id="lingers"),
    ],
)
def test_a_healthy_producer_is_never_suspected_because_its_selector_rests(healthy: list[Snapshot]) -> None:
    monitor, seen = Stepped(), set[tuple[str, str | None]]()
    for second in range(5, 700, 5):
        arrived = [one for one in healthy if second - 5 <= ((one.ts_ms or 0) - START) / 1000 < second]
        records = [json.loads(value) for _, value in monitor.batch(arrived, second).records if value]
        verdicts = (verdict for record in records for verdict in record["verdicts"] if verdict["mode"] == MODE)
        seen |= {(verdict["status"], verdict.get("reason")) for verdict in verdicts}
    assert {status for status, _ in seen} == {"ok", "unknown"}
    doubts = [str(reason) for _, reason in seen - {("ok", None), ("unknown", FEW), ("unknown", ALL_SILENT)}]
    assert all(doubt.endswith(" for the last 20 s, while records wait") for doubt in doubts)


def test_a_partition_that_a_python_client_names_is_named_as_kafkas_tools_name_it() -> None:
    expired = line(
        40, "records-expired", partition="TopicPartition(topic='a-b', partition=2)", records="3", waitMs="30000"
    )
    stalled = verdict(modes()["delivery-stalled"], window(logs=[mine(expired)]))
    assert (stalled.detail["topic"], stalled.detail["partition"]) == ("a-b", "a-b-2")


@pytest.mark.parametrize(("rate", "status"), [(20, "ok"), (0, "suspected")])
def test_what_an_earlier_process_of_its_name_delivered_does_not_count(rate: int, status: str) -> None:
    """The first process has delivered 5,000 records at 0 s; the second one has delivered 100 records at 10 s."""
    readings = sending(lambda s: 100 + rate * (s - 10) if s else 5000, still(65_536), requests_in_flight=still(3))
    assert verdict(modes()["delivery-stalled"], window(readings=readings)).status == status


@pytest.mark.parametrize(("limit_ms", "status"), [("300000", "ok"), ("30000", "suspected")])
def test_a_consumer_that_polls_in_time_joins_because_of_other_members(limit_ms: str, status: str) -> None:
    """Up to 27 s pass between polls. The consumer joins its group every 25 s, and its lag grows."""
    joins = {"time_between_poll_max": still(27_000), "rebalance_total": lambda s: 1 + s // 25}
    readings = polling(lambda s: s % 3, rising(1), rising(20), **joins)
    joining = window("consumer", readings, config={"max.poll.interval.ms": limit_ms})
    assert verdict(modes()["consumer-stalled"], joining).status == status


@pytest.mark.parametrize(
    ("member", "changes"),
    [
        pytest.param({}, [], id="assign()"),
        pytest.param({"rebalance-total": 1.0}, ["opened"], id="subscribe()"),
        pytest.param({"last-heartbeat-seconds-ago": 1.0}, ["opened"], id="first rebalance"),
    ],
)
def test_max_poll_interval_limits_only_members_of_a_group(member: dict[str, float], changes: list[str]) -> None:
    monitor = Stepped()
    for second in range(0, 350, 10):
        counted = {"records-consumed-total": 50.0, "assigned-partitions": 2.0, "rebalance-total": 0.0, **member}
        sample = snapshot(second, {"last-poll-seconds-ago": second, **counted}, "c", "consumer")
        sample.config = {"max.poll.interval.ms": "300000"}
        monitor.batch([sample], second)
    assert [change.change for published in monitor.published for change in published.changes] == changes
