"""A JVM with suspicious clients is asked for a thread dump."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth_exporters.jvm.dumps import DumpBudget, DumpPlan, Reason, Suspicion


def snapshot(
    metrics: Mapping[str, float], kind: str = "producer", queues: Mapping[str, float] | None = None
) -> Snapshot:
    topics = [TopicMetrics(topic, metrics={"queue-chunks": chunks}) for topic, chunks in (queues or {}).items()]
    return Snapshot(0, Identity(client_id="p", kind=kind), dict(metrics), topics)


def producer(used: float = 0, **metrics: float) -> Snapshot:
    buffer = {"buffer-total-bytes": 100.0, "buffer-available-bytes": 100.0 - used, "waiting-threads": 0.0}
    return snapshot(buffer | {name.replace("_", "-"): value for name, value in metrics.items()})


def legacy(**queues: float) -> Snapshot:
    return snapshot({}, "legacy-consumer", queues)


SUSPICIOUS = {
    "the I/O thread stands": (
        producer(select_total=5),
        producer(select_total=5, used=40),
        "select-total stayed at 5 with 40 bytes in the buffer",
    ),
    "full": (
        producer(select_total=5),
        producer(select_total=6, used=80),
        "the buffer is 80% full",
    ),
    "half full, no select-total": (producer(), producer(used=50), "the buffer is 50% full"),
    "waiting": (producer(), producer(waiting_threads=2), "2 threads wait"),
    "no metadata": (producer(metadata_age=1.795e9), producer(metadata_age=1.795e9), "never received metadata"),
    "errors": (producer(record_error_total=1), producer(record_error_total=4), "3 records failed"),
    "away": (
        snapshot({"last-poll-seconds-ago": 1.0}, "consumer"),
        snapshot({"last-poll-seconds-ago": 31.0}, "consumer"),
        "the last poll() was 31 s ago",
    ),
    "starving": (legacy(a=2, b=0), legacy(a=2, b=0), "the queue of a is full, and the queue of b is empty"),
}
HARMLESS = {
    "idle": (producer(select_total=5), producer(select_total=5)),
    "working": (producer(select_total=5, used=60), producer(select_total=9, used=60)),
    "just started": (producer(), producer(metadata_age=1.795e9)),
    "polling": (
        snapshot({"last-poll-seconds-ago": 0.0}, "consumer"),
        snapshot({"last-poll-seconds-ago": 1.0}, "consumer"),
    ),
    "all queues full": (legacy(a=2, b=2), legacy(a=2, b=2)),
    "just filled": (legacy(a=0, b=0), legacy(a=2, b=0)),
}


@pytest.mark.parametrize("case", SUSPICIOUS)
def test_suspicious(case: str) -> None:
    before, now, expected = SUSPICIOUS[case]
    suspicion = Suspicion()
    suspicion.reasons([before])
    (reason,) = suspicion.reasons([now])
    assert expected in reason.text
    assert reason.strong


@pytest.mark.parametrize("case", HARMLESS)
def test_harmless(case: str) -> None:
    before, now = HARMLESS[case]
    suspicion = Suspicion()
    suspicion.reasons([before])
    assert suspicion.reasons([now]) == []


def test_a_client_that_vanishes_is_suspicious_until_it_returns() -> None:
    suspicion = Suspicion()
    connector = legacy(a=0)
    assert suspicion.reasons([connector]) == []
    for _ in range(2):
        (reason,) = suspicion.reasons([])
        assert "p (legacy-consumer) is gone" in reason.text
    assert suspicion.reasons([connector]) == []


def test_a_producer_that_stops_sending_is_weakly_suspicious() -> None:
    suspicion = Suspicion()
    for sent in (1.0, 2.0):
        assert suspicion.reasons([producer(record_send_total=sent)]) == []
    (reason,) = suspicion.reasons([producer(record_send_total=2.0)])
    assert not reason.strong


def test_dumps_become_rarer_while_the_suspicion_lasts() -> None:
    plan = DumpPlan(30.0, DumpBudget(60.0))
    taken = [second for second in range(0, 500, 10) if plan.due([Reason("x")], second)]
    assert taken == [0, 30, 60, 120, 240, 360, 480]


def test_a_weak_suspicion_is_worth_three_dumps() -> None:
    plan = DumpPlan(30.0, DumpBudget(60.0))
    weak = [Reason("x", strong=False)]
    assert [second for second in range(0, 500, 10) if plan.due(weak, second)] == [0, 30, 60]
    assert plan.due([Reason("y")], 500)
    assert not plan.due([], 510)
    assert not plan.due([], 560)
    assert plan.due(weak, 570)


def test_jvms_that_are_all_suspicious_share_the_dumps_in_pairs() -> None:
    budget = DumpBudget(per_minute=6.0)
    plans = [DumpPlan(30.0, budget) for _ in range(100)]
    taken = [
        (second, jvm)
        for second in range(0, 600, 10)
        for jvm, plan in enumerate(plans)
        if plan.due([Reason("the cluster is gone")], second)
    ]
    assert [jvm for second, jvm in taken if second == 0] == [0, 1, 2], "six are left, for two dumps of each"
    assert 54 <= len(taken) <= 66, "six to begin with and six a minute, some of them kept for a second one"
    first = {jvm: second for second, jvm in reversed(taken)}
    assert all((second + 30, jvm) in taken for jvm, second in first.items() if second + 30 < 600)


def test_a_small_budget_grants_a_pair_now_and_then() -> None:
    budget = DumpBudget(per_minute=0.5)
    assert [second for second in range(0, 600, 60) if budget.grants(2, second)] == [0, 240, 480]
