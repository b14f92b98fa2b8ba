"""Kill a real monitor once, and compare its results with calculated results."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import faults, load
from tests.chaos.campaign import Campaign
from tests.chaos.published import History
from tests.chaos.world import Cluster

pytestmark = [pytest.mark.long, pytest.mark.early]

#: Kills the monitor after the results of a batch are written, but before the batch is committed.
SHORT = ("monitor-lost-uncommitted",)


def test_a_fault_leaves_what_is_calculated_without_spark(broker: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    chosen = [faults.Fault(number, faults.KINDS[name]) for number, name in enumerate(SHORT)]
    campaign = Campaign(Cluster(broker.kafka, broker), tmp_path, chosen, 1, lines.append)
    outcomes = campaign.run()
    assert all(outcome.passed for outcome in outcomes), "\n".join(lines)
    assert [outcome.kind for outcome in outcomes] == list(SHORT)
    assert outcomes[0].restarts == 1
    stuck = [row for row in History(tmp_path / "tried" / "history").verdicts.look() if row["client_id"] == load.STUCK]
    *_, row = stuck
    assert (row["mode"], row["status"]) == ("producer-callback-deadlock", "confirmed")
    assert [other["change"] for other in stuck] in (["opened"], ["opened", "escalated"])
    assert abs(row["since"] - (campaign.begin_ms + 1000 * load.STUCK_FROM)) <= 10_000
    assert {evidence["source"]["topic"] for evidence in json.loads(row["evidence"])} == {
        f"{tmp_path.name}-tried-metrics"
    }


def test_faults_are_the_same_for_the_same_seed_and_each_kind_comes_as_often() -> None:
    first, again, other = (faults.campaign(seed, 40, [], {}) for seed in (1, 1, 2))
    assert first == again != other
    counts = [sum(fault.kind is kind for fault in first) for kind in faults.KINDS.values()]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == 40
    assert {fault.kind.name for fault in faults.campaign(1, 5, ["clock-jump"], {})} == {"clock-jump"}
    assert "history-full" not in {fault.kind.name for fault in faults.campaign(1, 40, [], {"history-full": "no disks"})}


def test_a_clock_that_jumps_is_always_wrong() -> None:
    assert all(faults.strayed(faults.KINDS["clock-jump"], random.Random(seed)) for seed in range(20))
    assert faults.strayed(faults.KINDS["monitor-lost"], random.Random(1)) == 0


@pytest.mark.parametrize("name", [name for name, kind in faults.KINDS.items() if kind.hides])
def test_what_hides_records_begins_when_all_before_was_read(name: str) -> None:
    assert faults.KINDS[name].calm
