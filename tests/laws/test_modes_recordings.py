"""Check that the real fault, and no other fault, is found in recordings of real clients."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from clienthealth.diagnose.diagnosis import add_ends, client_key, settled
from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import modes
from clienthealth.modes.consumer_shutdown_loop.rules import ID as LOOP
from clienthealth.modes.consumer_stalled.rules import ID as CONSUMER_STALLED
from clienthealth.modes.cross_topic_blocking.rules import ID as BLOCKING
from clienthealth.modes.delivery_stalled.rules import ID as STALLED
from clienthealth.modes.producer_callback_deadlock.rules import ID as DEADLOCK
from clienthealth.modes.producer_not_closed.rules import ID as NOT_CLOSED
from clienthealth.modes.send_blocked_on_metadata.rules import ID as METADATA
from clienthealth.monitor.adjust import Context, adjust
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.window_verdicts import judge_windows
from tests.support.recorded import RECORDINGS, SETTINGS, Recorded, clients, folders
from tests.support.recorded import verdicts as judged_windows

EVIDENCE = RECORDINGS / "evidence"

UNSEEN = {
    "not-closed-burst-4.1": "the burst was sent and lost between the last reading and the exit",
    "librdkafka-killed": "a flush() leaves the same statistics behind, and neither is logged",
    "aiokafka-returns": "no client of it reports",
    "connect-sink-hangs-3.7": "the same",
}
INDIRECT = {
    "slow-handler-3.7": "the Java consumer logs nothing before max.poll.interval.ms (300 s)",
    "slow-handler-4.1": "the same",
    "streams-hangs-3.8": "the same",
    "kip848-slow-topic-4.4": "the same",
    "share-stalled-4.4": "the same",
    "share-outlasts-locks-4.4": "no line says that a lock on a record has expired",
    "librdkafka-hangs": "the records end before max.poll.interval.ms (300 s) has passed",
    "librdkafka-hangs-beside": "the same",
    "slow-handler-2.3": "the Java client logs nothing before max.poll.interval.ms (300 s)",
    "slow-topic-2.3": "the same",
    "slow-handler-librdkafka": "librdkafka logs nothing before max.poll.interval.ms (60 s)",
    "librdkafka-one-queue": "the poll loop comes back in time for each record",
    "callback-held-22s-3.1": "the callback comes back after 22 s",
    "flush-refused-4.1": "nothing is stuck: the client refuses what its callback wants",
}
SILENT = ("c1_healthy", "4_ctl_idle", "1_ctl_clean", "5_ctl_close", "5_ctl_idle_noclose", "c4_backpressure")


@cache
def truth(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return document


def was_stopped(folder: Path) -> bool:
    """Return whether the recorder killed the client. Killed clients lost the records in their buffers."""
    return not truth(folder).get("ended_by_itself", True)


@cache
def verdicts(folder: Path) -> dict[str, Verdict]:
    worst: dict[str, Verdict] = {}
    for client in clients(folder):
        judged = adjust("moment", judge_windows(client.windows, {}), Context())
        judged += judge_windows([client.departure], {}, absence=True) + client.silence
        for verdict in judged:
            if verdict.mode not in worst or verdict.status in ("suspected", "confirmed"):
                worst[verdict.mode] = verdict
    return worst


def found_at_the_end(folder: Path) -> dict[str, Verdict]:
    first, *_ = clients(folder)
    bucket = Bucket(first.bucket.state, SETTINGS)
    by_key = {client_key(of): (of, found) for of, found in judged_windows(folder).items()}
    add_ends(bucket, by_key)
    return {verdict.mode: verdict for verdict in settled(bucket, by_key, ())[client_key(first.client)][1]}


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_what_happened_is_found(folder: Path) -> None:
    mode = truth(folder)["expected_mode"]
    if mode is None or folder.name in UNSEEN:
        return
    status = verdicts(folder)[mode].status
    enough = ("confirmed", "suspected") if mode == NOT_CLOSED or folder.name in INDIRECT else ("confirmed",)
    assert status in enough, (
        f"{mode}: what can only be suspected, or not be seen, stands with its reason in INDIRECT or UNSEEN"
    )


def test_each_mode_is_recorded() -> None:
    recorded = {truth(folder)["expected_mode"] for folder in folders()}
    assert modes().keys() <= recorded, "record a client that fails so: step 9 of jobs/clienthealth/modes/README.md"


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_nothing_else_is_confirmed(folder: Path) -> None:
    expected = truth(folder)["expected_mode"]
    confirmed = {mode for mode, verdict in verdicts(folder).items() if verdict.status == "confirmed"}
    confirmed -= {*truth(folder).get("also", ())}
    if expected == DEADLOCK or was_stopped(folder):
        confirmed -= {NOT_CLOSED}  # NOT_CLOSED is right, too: the killed process lost its buffer
    assert confirmed <= {expected}, (
        "a false accusation: mend the rules, or name it in `also` of truth.json if it happened too"
    )


@pytest.mark.parametrize("name", SILENT)
def test_controls_are_silent(name: str) -> None:
    judged = verdicts(EVIDENCE / name)
    assert {mode for mode, v in judged.items() if v.status in ("suspected", "confirmed")} == set()


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_the_end_of_a_recording_is_no_failure_beside_another_one(folder: Path) -> None:
    also = truth(folder).get("also", ())
    if truth(folder)["expected_mode"] in (DEADLOCK, STALLED) and NOT_CLOSED not in also:
        assert not found_at_the_end(folder)[NOT_CLOSED].unhealthy


def test_the_end_of_a_recording_counts_for_the_failure_that_explains_it() -> None:
    found = found_at_the_end(EVIDENCE / "2_deadlock_client39")
    assert found[NOT_CLOSED].reason == f"{DEADLOCK} explains the evidence of this failure"
    texts = [fact.text for fact in found[DEADLOCK].evidence]
    assert "the producer still had 4.0 MiB (100 % of the buffer) to deliver at its last sample" in texts


def test_exceptions_are_still_needed() -> None:
    for name in UNSEEN:
        found = verdicts(RECORDINGS / name).get(NOT_CLOSED)
        assert found is None or not found.unhealthy, name


def test_the_deadlock_is_reported_with_cause_and_numbers() -> None:
    verdict = verdicts(EVIDENCE / "2_deadlock_client39")[DEADLOCK]
    assert verdict.detail["cause"] == "get-in-callback"
    assert verdict.detail["waiting_threads"] == 2
    texts = [evidence.text for evidence in verdict.evidence]
    assert "select-total stayed at 8328 for 42 s while the buffer filled from 31 % to 100 %" in texts
    onset = 1795208567059  # 21:02:47.059 UTC, the onset in truth.json
    assert verdict.since_ms is not None and abs(verdict.since_ms - onset) < 2000


def test_the_missing_topic_is_named() -> None:
    verdict = verdicts(EVIDENCE / "3_topic_missing")[METADATA]
    assert verdict.detail["cause"] == "topic-missing"
    assert verdict.detail["topic"] == "orders-missing"
    assert verdict.detail["longest_block_seconds"] == 3.0


def test_the_outage_is_suspected_with_its_address_and_clears() -> None:
    (client,) = (c for c in clients(EVIDENCE / "c2_outage31") if c.client.kind == "producer")
    back = 1795210138248  # 21:28:58.248 UTC, the outage's end in truth.json
    outage = client.windows[2]
    seen = dataclasses.replace(
        outage,
        readings=tuple(r for r in outage.readings if r.ts_ms < back),
        logs=tuple(e for e in outage.logs if e.ts_ms < back),
        dumps=tuple(d for d in outage.dumps if d.ts_ms < back),
    )
    verdict = modes()[METADATA].judge(seen, modes()[METADATA].thresholds)
    assert verdict.status == "suspected"
    assert verdict.detail == {"cause": "cluster-unreachable", "bootstrap": "127.0.0.1:19510", "blocked_threads": 2}
    judged = [modes()[METADATA].judge(w, modes()[METADATA].thresholds) for w in client.windows]
    assert {v.status for v in judged} == {"ok"}  # `ok`, because each window also contains the outage's end


def test_culprit_and_victims_are_named() -> None:
    verdict = verdicts(EVIDENCE / "4_hol_blocking")[BLOCKING]
    assert verdict.detail["culprit"] == "topicA"
    assert verdict.detail["victims"] == ["topicB", "topicC"]
    assert verdict.detail["queues"] == {"topicA": 1.0, "topicB": 0.0, "topicC": 0.0}


def test_the_blockade_begins_and_ends_when_it_did() -> None:
    (client,) = clients(EVIDENCE / "4_hol_blocking")
    judged = [modes()[BLOCKING].judge(w, modes()[BLOCKING].thresholds) for w in client.windows]
    assert [v.status for v in judged] == ["ok", "ok", "confirmed", "confirmed", "confirmed", "ok", "ok"]
    onset = 1795209714900  # 21:21:54.9 UTC, the onset in truth.json
    assert abs(min(v.since_ms for v in judged if v.since_ms) - onset) < 2000


def test_the_loop_names_its_thread_and_broker() -> None:
    texts = [e.text for e in verdicts(EVIDENCE / "1_shutdown_loop")[LOOP].evidence]
    assert any("Thread-12-kafkaSpout" in text and "127.0.0.1:29211" in text for text in texts)


def test_the_loss_is_bounded() -> None:
    verdict = verdicts(EVIDENCE / "5_unclosed_exit_burst")[NOT_CLOSED]
    assert verdict.detail == {"cause": "exit-without-close", "lost_bytes": [0, 8716288]}


def _as_it_came(client: Recorded, now_ms: int) -> Iterator[ClientWindow]:
    for window in client.windows:
        seen = dataclasses.replace(
            window,
            readings=tuple(r for r in window.readings if r.ts_ms < now_ms),
            logs=tuple(e for e in window.logs if e.ts_ms < now_ms),
            dumps=(),
        )
        if seen.readings or seen.logs:
            yield seen


@pytest.mark.parametrize(
    ("name", "mode", "onset_ms"),
    [
        ("evidence/2_deadlock_client39", DEADLOCK, 1795208567059),
        ("evidence/4_hol_blocking", BLOCKING, 1795209714900),
    ],
)
def test_a_reading_every_ten_seconds_and_no_dump_confirm_within_a_minute(name: str, mode: str, onset_ms: int) -> None:
    (client,) = clients(RECORDINGS / name, 10_000)
    for seconds in range(0, 120, 5):
        now_ms = onset_ms + 1000 * seconds
        windows = list(_as_it_came(client, now_ms))
        statuses = {v.mode: v.status for v in judge_windows(windows, {})} if windows else {}
        if statuses.get(mode) == "confirmed":
            assert 0 < seconds <= 50
            return
    pytest.fail("never confirmed")


@pytest.mark.parametrize(
    ("name", "culprit", "victims"),
    [
        ("slow-handler-3.7", "b2", {"b1", "b3"}),  # idle1 has no unread records, so idle1 is no victim
        ("slow-handler-4.1", "payments", {"orders", "refunds"}),
        ("slow-handler-librdkafka", "p3", {"p2", "p4"}),  # no more records are fetched from p2, so p2 is a victim
        ("librdkafka-one-queue", "orders", {"mail", "audit"}),
        ("cross-topic-0.9", "lw4", {"lw1", "lw2", "lw3", "lw5", "lw6"}),
    ],
)
def test_the_culprit_and_only_those_that_starve_are_named(name: str, culprit: str, victims: set[str]) -> None:
    (consumer,) = (client for client in clients(RECORDINGS / name) if client.client.kind != "producer")
    blocking = [v for w in consumer.windows for v in judge_windows([w], {}) if v.mode == BLOCKING]
    details = [v.detail for v in blocking if "culprit" in v.detail]
    assert details and {detail["culprit"] for detail in details} == {culprit}
    assert set().union(*(detail["victims"] for detail in details)) == victims


def test_a_member_that_its_group_fenced_is_accused_of_nothing_and_its_fence_is_counted() -> None:
    (consumer,) = (client for client in clients(RECORDINGS / "kip848-fenced-4.4") if client.client.kind == "consumer")
    judge, limits = modes()[CONSUMER_STALLED].judge, modes()[CONSUMER_STALLED].thresholds
    statuses = [judge(window, limits).status for window in consumer.windows]
    # While the client is suspended, two windows get fewer than three samples.
    assert statuses == ["ok", "ok", "unknown", "ok", "ok", "ok", "unknown"]
    (fence,) = (run for _, run in consumer.bucket.state.also_seen.items() if run.what == "kicked-out")
    assert (fence.client_id, fence.lines, fence.last_ms) == ("stock-consumer", 2, 1795732296290)


def test_a_close_that_hangs_is_one_failure() -> None:
    for name in ("close-hangs-3.9", "close-hangs-4.1"):
        judged = verdicts(RECORDINGS / name)
        assert judged[LOOP].detail == {"cause": "close-hangs", "thread": "worker-bills", "frame": "Con.forever"}
        assert judged[CONSUMER_STALLED].status == "unknown"
