"""The review of W46 gives the numbers that were calculated by hand from `known_weeks`."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clienthealth.review.clusters import Clusters, side_by_side, write_all
from clienthealth.review.model import (
    Alert,
    ClientRow,
    FleetRow,
    InputQuality,
    KnownBugs,
    ModeChange,
    Review,
    TopicRow,
    Upgrade,
)
from clienthealth.review.period import Period
from clienthealth.review.queries import build
from clienthealth.review.render import write
from clienthealth.review.slo import Loss, Minutes
from clienthealth.settings import LinkSettings, MonitorSettings, Settings
from tests.spark import known_weeks
from tests.spark.conftest import Reviewed
from tests.spark.known_weeks import BLOCKING, DASHBOARDS, DEADLOCK, METADATA, NOT_CLOSED, W46, at


@pytest.fixture(scope="module")
def week(reviewed: Reviewed) -> Review:
    return reviewed(W46)


def test_objectives(week: Review) -> None:
    # Each client has data for 9,950 of the week's 10,080 minutes, because data of 130 minutes is missing. Confirmed
    # failures last 95 + 20 + 10 + 60 minutes.
    assert week.overall.minutes == Minutes(ok=49_470, suspected=35, confirmed=185, unknown=60)
    assert {s.service: s.minutes for s in week.services} == {
        "orders-api": Minutes(ok=9_820, suspected=5, confirmed=125),
        "search": Minutes(ok=9_890, confirmed=60),
        "billing": Minutes(ok=19_810, suspected=30, unknown=60),
        "audit": Minutes(ok=9_950),
    }
    assert [s.service for s in week.services] == ["orders-api", "search", "billing", "audit"]
    assert [s.clients for s in week.services] == [1, 1, 2, 1]
    orders = week.services[0]
    assert orders.budget.size == pytest.approx(49.75)
    assert orders.budget.spent == pytest.approx(130 / 49.75)
    assert orders.budget.left == pytest.approx(-80.25)
    assert orders.trend == [10_030 / 10_080, 1.0, 10_060 / 10_080, 9_820 / 9_950]
    assert orders.long_budget.spent == pytest.approx(200 / 200.95)
    assert [s.budget.state for s in week.services] == ["overspent", "overspent", "within budget", "within budget"]


def test_records_lost_have_an_objective_of_their_own(week: Review, tmp_path: Path) -> None:
    assert week.overall.lost == Loss((12, 1152), "missed")
    assert {s.service: s.lost for s in week.services} == {
        "orders-api": Loss((0, 1140), "not known"),
        "search": Loss((0, 0), "met"),
        "billing": Loss((0, 0), "met"),
        "audit": Loss((12, 12), "missed"),
    }
    assert week.headline[0].endswith(
        "; records lost: 12 to 1,152 (target 0, missed): orders-api 0 to 1,140 and audit 12."
    )
    assert "send again the records that orders-api and audit lost, if their source has them" in week.headline[2]
    page, text, numbers, _ = (file.read_text() for file in write(week, tmp_path))
    assert "| Records lost, each service | 0 | 12 to 1,152 | **missed** |" in text
    assert "| audit | <\u00a0100.00\u00a0% | within budget |" in text.replace("\\<", "<")
    assert '<td data-label="Records lost"><span>12 <span class="badge bad">missed</span></span></td>' in page
    lost = {s["service"]: s["lost_records"] for s in json.loads(numbers)["services"]}
    assert lost["audit"] == {"at_least": 12, "at_most": 12, "state": "missed"}


def test_the_burn_down_is_by_the_hour(week: Review) -> None:
    assert week.slot_minutes == 60
    orders = week.services[0]
    # Hour 34 is Tuesday 10:00.
    assert {slot: m.unhealthy for slot, m in orders.slots.items() if m.unhealthy} == {34: 60, 35: 40, 38: 30}
    assert sum(m.observed for m in orders.slots.values()) == 9_950


def test_themes(week: Review) -> None:
    themes = [(t.mode, t.cause, t.topic, t.incidents, t.confirmed, t.open, t.clients, t.seconds) for t in week.themes]
    assert themes == [
        (DEADLOCK, "get-in-callback", "", 3, 3, 0, 1, 100 * 60 + 20 * 60 + 10 * 60),
        (BLOCKING, "", "order-events", 1, 1, 1, 1, 3600),
        (NOT_CLOSED, "exit-without-close", "", 2, 2, 0, 2, 360 + 300),
        (METADATA, "topic-missing", "invoices.v2", 1, 0, 0, 1, 1800),
    ]
    deadlock, blocking, lost, _ = week.themes
    assert (deadlock.start, deadlock.stop) == (at(10, "10:00"), at(10, "14:45"))
    assert (deadlock.detect, deadlock.clear) == (50.0, 19 * 60 + 10.0)  # median times (s) to detection and end
    assert (deadlock.title, deadlock.services) == ("Producer deadlocked in its own callback", ("orders-api",))
    assert (blocking.stop, blocking.clear) == (None, None)
    assert (lost.lost_records, lost.lost_bytes) == ((12, 1152), None)
    assert [(i.client_id, i.lost_records, i.lost_bytes) for i in lost.listed] == [
        ("refund-producer", (0, 1140), None),
        ("audit-batch", (12, 12), (4096, 4096)),
    ]
    assert deadlock.lost_records is None
    assert week.withdrawn == 1


def test_an_incident(week: Review) -> None:
    first = week.themes[0].listed[0]
    assert (first.service, first.client_id, first.instance, first.version) == (
        "orders-api",
        "order-producer",
        "web-1:100",
        "3.9.1",
    )
    assert (first.start, first.sure, first.stop) == (at(10, "10:00"), at(10, "10:05"), at(10, "11:40"))
    assert (first.seconds, first.detect, first.clear) == (6000, 40, 5960)
    assert first.evidence == (
        "metric: select-total stayed at 10213 for 40 s <script>alert(1)</script> (client-metrics-2@88123)",
    )
    assert first.link == (
        "https://grafana.example/d/kafka-client-health-mode-producer-callba"
        "?from=1794303900000&to=1794311700000&var-service=orders-api&var-client_id=order-producer"
    )


def test_alerts(week: Review) -> None:
    assert week.alerts == [
        Alert(BLOCKING, "critical", 1, 1, 0, 3600, None),
        Alert(DEADLOCK, "critical", 3, 1, 1, (95 + 20 + 10) * 60, 20 * 60.0),
        Alert(DEADLOCK, "warning", 1, 1, 0, 300, 300.0),
        Alert(NOT_CLOSED, "critical", 2, 2, 0, 660, 330.0),
        Alert(METADATA, "warning", 1, 1, 0, 1800, 1800.0),
    ]
    assert [a.repeats for a in week.alerts] == [0, 2, 0, 0, 0]
    assert week.never_fired == [
        ("consumer-shutdown-loop", "critical"),
        ("consumer-shutdown-loop", "warning"),
        ("consumer-stalled", "critical"),
        ("consumer-stalled", "warning"),
        (BLOCKING, "warning"),
        ("delivery-stalled", "critical"),
        ("delivery-stalled", "warning"),
        (NOT_CLOSED, "warning"),
        (METADATA, "critical"),
    ]


def test_pages(week: Review) -> None:
    assert week.pages is not None
    assert [(p.service, p.mode, p.start, p.stop, p.clients) for p in week.pages] == [
        ("orders-api", DEADLOCK, at(10, "10:05:00"), at(10, "11:40"), 1),
        ("orders-api", DEADLOCK, at(10, "14:00:50"), at(10, "14:20"), 1),
        ("orders-api", DEADLOCK, at(10, "14:36:30"), at(10, "14:45"), 1),
        ("orders-api", NOT_CLOSED, at(13, "15:01:15"), at(13, "15:06"), 1),
        ("audit", NOT_CLOSED, at(13, "16:01:15"), at(13, "16:05"), 1),
        ("search", BLOCKING, at(15, "23:00:30"), None, 1),
    ]
    # The third page came at 14:36:30, too late to act before 14:45.
    assert [p.needed_nobody for p in week.pages] == [False, False, True, False, False, False]
    assert [p.night for p in week.pages] == [None] * 5 + [date(2026, 11, 16)]


def test_suspicions_that_cleared(week: Review) -> None:
    assert [(i.client_id, i.mode, i.seconds) for i in week.cleared] == [("invoice-producer", METADATA, 1800)]
    assert week.cleared_count == 1


def test_rankings(week: Review) -> None:
    def named(what: str) -> list[tuple[str, float]]:
        return [(row.client_id, row.value) for row in week.top_clients[what]]

    assert named("unhealthy") == [("order-producer", 130), ("<b>index</b>", 60), ("invoice-producer", 30)]
    assert named("buffer") == [("invoice-producer", 0.85), ("audit-producer", 0.7), ("order-producer", 0.7)]
    assert named("queue") == [("<b>index</b>", 1.0)]
    lag = ClientRow("consumer-groups", "default", "indexers", "lag", 10_079, topic="order-events", seconds=2.5)
    assert week.top_clients["lag"] == [lag]
    assert week.top_topics == {
        "unhealthy": [TopicRow("order-events", "unhealthy", 60, 1), TopicRow("invoices.v2", "unhealthy", 30, 1)],
        "queue": [TopicRow("order-events", "queue", 1.0, 1)],
        "lag": [TopicRow("order-events", "lag", 10_079, 1)],
    }


def test_fleet(week: Review) -> None:
    assert week.fleet.new == (FleetRow("audit", "audit-producer", "producer", 1),)
    assert week.fleet.vanished == (FleetRow("audit", "audit-old", "producer", 1),)
    assert (week.fleet.new_count, week.fleet.vanished_count) == (1, 1)
    assert week.fleet.upgrades == (Upgrade("audit", "python", ("2.9.9",), ("3.0.0",)),)
    producers = ("KAFKA-10790", "KAFKA-19012", "KAFKA-19747")
    assert week.fleet.known_bugs == (
        KnownBugs("billing", "java", "3.9.1", 1, ("KAFKA-19747",), "4.1.2"),
        KnownBugs("billing", "java", "3.9.1", 1, producers, "4.1.2"),
        KnownBugs("orders-api", "java", "3.9.1", 1, producers, "4.1.2"),
    )


def test_capacity(week: Review) -> None:
    # 60 of 9,950 minutes are too few to raise the 95th percentile.
    rising = (0.4, 0.5, 0.6, 0.7)
    assert [c.service for c in week.capacity] == ["audit", "billing", "orders-api"]
    for capacity in week.capacity:
        assert capacity.p95 == rising
        assert capacity.slope == pytest.approx(0.1)
        assert capacity.periods_left == pytest.approx(3.0)
    (lag,) = week.lag_trends
    assert (lag.group, lag.topic, lag.records) == ("indexers", "order-events", 10_079)
    assert lag.slope == pytest.approx(1440)
    assert dict(zip(week.buffers.classes, week.buffers.now, strict=True))["70–80 %"] == 3 * 9_950 - 60
    assert dict(zip(week.buffers.classes, week.buffers.now, strict=True))["80–90 %"] == 60
    assert dict(zip(week.buffers.classes, week.buffers.before, strict=True))["60–70 %"] == 3 * 9_950 + 3 * 130
    # In minute n the lag is n records, except in the gap.
    assert week.lags.now == (1, 9, 90, 900, 9_000 - 130, 80, 0, 0, 0)
    assert week.lags.before == (10_080, 0, 0, 0, 0, 0, 0, 0, 0)


def test_changes(week: Review) -> None:
    assert {c.mode: c for c in week.changes}[DEADLOCK] == ModeChange(
        DEADLOCK, "Producer deadlocked in its own callback", 3, 1, 130, 20
    )
    assert [(c.mode, c.incidents, c.incidents_before, c.minutes, c.minutes_before) for c in week.changes] == [
        ("consumer-shutdown-loop", 0, 0, 0, 0),
        ("consumer-stalled", 0, 0, 0, 0),
        (BLOCKING, 1, 0, 60, 0),
        ("delivery-stalled", 0, 0, 0, 0),
        (DEADLOCK, 3, 1, 130, 20),
        (NOT_CLOSED, 2, 0, 0, 0),
        (METADATA, 1, 0, 30, 0),
    ]


def test_a_gap_of_the_monitor_is_reported_and_counts_neither_way(week: Review) -> None:
    quality = week.quality
    assert [(g.start, g.end) for g in quality.gaps] == [known_weeks.GAP]
    assert (quality.minutes, quality.watched, quality.gap_minutes) == (10_080, 9_950, 130)
    assert (quality.unknown, quality.judged) == (60, 49_690)
    assert quality.inputs == (
        InputQuality("client-logs", 995_000, 0, None),
        InputQuality("client-metrics", 298_500, 29_850, 9_950),
    )
    assert dict(week.not_computed) == {
        "Late records": "for some input topics, the monitor did not count late records",
        "Time until unread records are deleted": "the history does not hold the retention of topics",
        "Changed thresholds": "the history does not hold the settings of the monitor",
    }


def test_actions_are_judged_at_the_end_of_the_week(week: Review) -> None:
    assert [(a.title, a.overdue_days) for a in week.actions] == [
        ("Move the confirmation mail out of the producer callback", 5),
        ("Give billing its own metadata timeout", 0),
    ]


@pytest.mark.long
def test_the_first_week_has_no_trend(reviewed: Reviewed) -> None:
    first = reviewed(known_weeks.W43)
    assert [s.trend[:3] for s in first.services] == [[None, None, None]] * len(first.services)
    assert "(the first week, so there is no trend yet)" in first.headline[0]
    missing = [what for what, _ in first.not_computed]
    assert missing[:3] == [
        "Trend, and comparison with the week before",
        "New and vanished clients",
        "Weeks until buffers are full",
    ]
    assert first.fleet.new_count == 0


@pytest.mark.long
def test_a_week_without_history_claims_no_health(reviewed: Reviewed, tmp_path: Path) -> None:
    empty = reviewed(W46.before(-1))
    assert empty.overall.minutes == Minutes()
    assert empty.quality.gap_minutes == 10_080
    assert empty.headline[0] == "No client was observed this week, so the clients' health is unknown."
    assert [(t.mode, t.seconds) for t in empty.themes] == [(BLOCKING, 3600)]
    assert "So the clients' health is unknown." in write(empty, tmp_path)[3].read_text()


@pytest.mark.long
def test_an_hour_of_the_demo(reviewed: Reviewed) -> None:
    hour = reviewed(Period(datetime(2026, 11, 10, 9, 50, tzinfo=UTC), datetime(2026, 11, 10, 10, 20, tzinfo=UTC)))
    assert hour.slot_minutes == 1
    assert hour.overall.minutes == Minutes(ok=130, suspected=5, confirmed=15)
    assert [(t.mode, t.open, t.seconds) for t in hour.themes] == [(DEADLOCK, 1, 1200)]
    assert hour.overall.trend[:3] == [1.0, 1.0, 1.0]


@pytest.fixture(scope="module")
def both(spark: SparkSession, week: Review, tmp_path_factory: pytest.TempPathFactory) -> Clusters:
    root = tmp_path_factory.mktemp("elsewhere")
    history = str(root / "history")
    known_weeks.write_elsewhere(spark, history)
    settings = dataclasses.replace(
        Settings(),
        links=LinkSettings(dashboards=DASHBOARDS),
        monitor=MonitorSettings(cluster="prod-us", history=history),
    )
    elsewhere = build(spark, settings, W46, root / "actions.toml", history)
    return side_by_side([dataclasses.replace(week, cluster="prod-eu"), elsewhere])


@pytest.mark.long
def test_each_cluster_has_its_own_numbers_and_the_one_that_spent_most_comes_first(both: Clusters) -> None:
    # prod-us has spent 60 minutes; its budget is 43.2 minutes. prod-eu has spent 220 minutes; its budget is 248.45
    # minutes.
    assert [review.cluster for review in both.reviews] == ["prod-us", "prod-eu"]
    us, eu = both.reviews
    assert us.overall.minutes == Minutes(ok=8_580, confirmed=60)
    assert us.overall.budget.spent == pytest.approx(60 / 43.2)
    assert us.quality.gap_minutes == 1_440
    assert eu.overall.minutes == Minutes(ok=49_470, suspected=35, confirmed=185, unknown=60)
    assert {s.service: s.minutes for s in us.services} == {"orders-api": Minutes(ok=8_580, confirmed=60)}
    assert {s.service: s.minutes for s in eu.services}["orders-api"] == Minutes(ok=9_820, suspected=5, confirmed=125)
    assert [(t.mode, t.incidents, t.seconds) for t in us.themes] == [(DEADLOCK, 1, 3600)]


@pytest.mark.long
def test_all_together_are_their_sums(both: Clusters) -> None:
    assert both.overall.minutes == Minutes(ok=58_050, suspected=35, confirmed=245, unknown=60)
    assert both.overall.clients == 6
    assert both.overall.budget.spent == pytest.approx(280 / (0.005 * 58_330))
    assert both.overall.lost.records == (12, 1152)


@pytest.mark.long
def test_a_link_names_the_cluster(both: Clusters) -> None:
    assert "&var-cluster=prod-us&var-service=orders-api" in both.reviews[0].themes[0].listed[0].link


@pytest.mark.long
def test_the_page_has_a_row_and_a_section_for_each_and_the_way_to_the_whole(both: Clusters, tmp_path: Path) -> None:
    files = write_all(both, tmp_path)
    assert [*files] == ["", "prod-us", "prod-eu"]
    page, text, numbers = (file.read_text("utf-8") for file in files[""])
    assert page.index('<section id="prod-us">') < page.index('<section id="prod-eu">')
    for cluster in ("prod-us", "prod-eu"):
        assert f'<a href="{cluster}/review.html">' in page
        assert f", cluster {cluster}</p>" in (tmp_path / cluster / "review.html").read_text("utf-8")
    row = "| [prod-us](#prod-us) | 99.31 % | **overspent** | 139 % | 60 | 0 | 1 | 1 | 1 | 85.7 % | – |"
    assert row in text.replace("\u00a0", " ")
    together = json.loads(numbers)
    assert [one["cluster"] for one in together["clusters"]] == ["prod-us", "prod-eu"]
    assert together["overall"]["client_minutes"]["unhealthy"] == 280
