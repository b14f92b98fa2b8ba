"""Check that panels and rules of three large clusters keep to Prometheus' limits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dashboards.panel import MOMENTS
from tests.bench.bench_queries import CLUSTERS, MAX_SAMPLES, asking, evaluated, fleets
from tests.e2e.test_dashboards_queries import watching

pytestmark = pytest.mark.long

PART = 50
THINNED = 10


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_every_panel_and_rule_is_within_the_limits_of_prometheus(tmp_path: Path) -> None:
    """Query a part of the fleet, and calculate the samples of the whole fleet.

    The number of samples grows at most in proportion to the number of clients.
    """
    with watching(tmp_path, fleets(PART), busy=True, interval_seconds=5, clusters=CLUSTERS) as prometheus:
        took, groups = [*asking(prometheus, MOMENTS // THINNED)], evaluated(prometheus)
    assert {query.where: query.outcome for query in took if query.outcome != "ok"} == {}
    # The review's samples grow with the number of services. The whole fleet has twice as many services as this part.
    whole = {one.where: one.samples * (2 if one.where.startswith("review") else PART * THINNED) for one in took}
    assert {where: samples for where, samples in whole.items() if samples > MAX_SAMPLES} == {}
    assert {group.where: group.outcome for group in groups if group.outcome != "ok"} == {}
    assert len(took) > 100 and len(groups) >= 6, "it was asked"
