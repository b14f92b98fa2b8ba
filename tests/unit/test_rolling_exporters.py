"""During a rolling restart, two exporters or no exporter may read the clients for half a minute."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from clienthealth.model.telemetry import Snapshot
from clienthealth.monitor.incidents import Transition
from tests.support.chronic import FAILURES, Failure
from tests.support.stepped import SHOWN_SHORTLY, START, Stepped, snapshot

pytestmark = pytest.mark.long

BEGIN, LENGTH, EVERY = 60, 900, 10
ROLLS = {"both for half a minute": (430, 400), "none for half a minute": (400, 430)}
BY_METRICS = [f for f in FAILURES if f.mode not in ("consumer-shutdown-loop", "producer-not-closed")]
WELL = [Failure(name, "", "", 10) for name in ("healthy-4.1", "slow-callback-4.1", "slow-consumer-4.1")]


def rolled(client: Failure, goes: float, comes: float) -> Iterator[Snapshot]:
    for reading in client.snapshots(BEGIN, LENGTH, every=1):
        second = round(((reading.ts_ms or 0) - START) / 1000)
        by_first, by_next = second % EVERY == 0 and second < goes, second % EVERY == 4 and second >= comes
        if by_first or by_next:
            yield msgspec.structs.replace(reading, interval_ms=1000 * EVERY)


def changes_of(client: Failure, roll: str) -> list[Transition]:
    others = (
        snapshot(second, {"select-total": second + 1000}, "other", instance="o:1", host="o", every=EVERY)
        for second in range(-120, BEGIN + LENGTH + 300, EVERY)
    )
    monitor = Stepped(SHOWN_SHORTLY)
    monitor.batches([*rolled(client, *ROLLS[roll]), *others], EVERY)
    return [change for published in monitor.published for change in published.changes]


@pytest.mark.parametrize("roll", ROLLS)
@pytest.mark.parametrize("failure", BY_METRICS, ids=lambda failure: failure.mode)
def test_a_failure_stays_one_incident(failure: Failure, roll: str) -> None:
    changes = [change for change in changes_of(failure, roll) if change.verdict.mode == failure.mode]
    assert [c.change for c in changes] in (["opened", "closed"], ["opened", "escalated", "closed"])
    assert (changes[-1].ts_ms - START) / 1000 > BEGIN + LENGTH - 61


@pytest.mark.parametrize("roll", ROLLS)
@pytest.mark.parametrize("client", WELL, ids=lambda client: client.recording)
def test_no_healthy_client_is_accused(client: Failure, roll: str) -> None:
    assert list(rolled(client, *ROLLS[roll]))
    assert changes_of(client, roll) == []
