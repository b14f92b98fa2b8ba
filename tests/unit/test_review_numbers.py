"""A review's error budgets and buffer trends equal numbers that were calculated by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from clienthealth.configuration.owners import Owner, Owners, Row
from clienthealth.model import wording as words
from clienthealth.review import content
from clienthealth.review.capacity import buffer_distribution, buffers, percentile
from clienthealth.review.client_minutes import gap_minutes, gaps
from clienthealth.review.incidents import FLEET_SERVICES, night_of, of_fleet, opens_tickets_only
from clienthealth.review.model import Page
from clienthealth.review.period import Period, utc
from clienthealth.review.slo import Budget, Loss, Minutes, Range, ServiceSlo, objectives, of_all, of_service
from clienthealth.settings import MonitorSettings, PrometheusSettings, ReviewSettings, Settings
from tests.support.review_example import markdown, review

NB = content.NB


def test_suspected_and_confirmed_spend_the_budget_and_unknown_counts_neither_way() -> None:
    minutes = Minutes(ok=980, suspected=15, confirmed=5, unknown=500)
    assert minutes.observed == 1000
    assert minutes.sli == pytest.approx(0.98)
    budget = Budget(minutes, 0.99)
    assert budget.size == pytest.approx(10)
    assert budget.spent == pytest.approx(2)
    assert budget.left == pytest.approx(-10)
    assert budget.state == "overspent"


@pytest.mark.parametrize(
    ("unhealthy", "state"), [(0, "within budget"), (7, "within budget"), (8, "nearly spent"), (11, "overspent")]
)
def test_states(unhealthy: int, state: str) -> None:
    assert Budget(Minutes(ok=1000 - unhealthy, confirmed=unhealthy), 0.99).state == state


@pytest.mark.parametrize(("observed", "target", "unhealthy"), [(10_080, 0.9, 1008), (1_260_000, 0.9999, 126)])
def test_a_share_that_equals_the_target_spends_the_whole_budget(observed: int, target: float, unhealthy: int) -> None:
    budget = Budget(Minutes(ok=observed - unhealthy, confirmed=unhealthy), target)
    assert (budget.spent, budget.left, budget.state) == (1, 0, "nearly spent")


def test_an_overspent_budget_is_shown_as_over() -> None:
    # The budget is 500 of 100,000 client-minutes, and 502 are spent.
    overall = ServiceSlo("", 1, 0.995, [Minutes(ok=99_498, confirmed=502)])
    shown = {figure.name: figure.value.replace(NB, " ") for figure in content.list_figures(review(overall=overall))}
    assert shown["Error budget"] == "< 1 % over"


def test_nothing_observed_is_no_data_and_not_health() -> None:
    budget = Budget(Minutes(unknown=60), 0.995)
    assert (budget.minutes.sli, budget.spent, budget.state) == (None, None, "no data")


def test_objectives_are_summed_per_service_and_period_worst_first() -> None:
    rows = [
        {"service": "a", "period": 2, "slot": -1, "status": "ok", "count": 100},
        {"service": "a", "period": 3, "slot": 0, "status": "ok", "count": 90},
        {"service": "a", "period": 3, "slot": 1, "status": "confirmed", "count": 10},
        {"service": "b", "period": 3, "slot": 1, "status": "suspected", "count": 30},
        {"service": "b", "period": 3, "slot": 1, "status": "ok", "count": 40},
        {"service": "b", "period": 3, "slot": 1, "status": "partial", "count": 30},
        {"service": "b", "period": 3, "slot": 1, "status": "unknown", "count": 7},
    ]
    overall, services = objectives(rows, {"a": 2, "b": 1}, 0.9, {}, 0)
    assert [s.service for s in services] == ["b", "a"]
    assert services[0].trend == [None, None, None, 0.7]
    assert services[1].trend == [None, None, 1.0, 0.9]
    assert services[1].change == pytest.approx(-0.1)
    assert overall.minutes == Minutes(ok=130, partial=30, suspected=30, confirmed=10, unknown=7)
    assert overall.clients == 3
    assert overall.slots == {0: Minutes(ok=90), 1: Minutes(ok=40, partial=30, suspected=30, confirmed=10, unknown=7)}


def test_each_service_is_held_against_the_target_of_its_owner() -> None:
    payments, batch = Owner("payments", "1", "payments-oncall"), Owner("batch", slo_target=0.8)
    owners = Owners([Row(payments, ("orders",), (), ""), Row(batch, ("nightly",), (), "")])
    rows = [
        {"service": name, "period": 3, "slot": 0, "status": status, "count": count}
        for name in ("orders", "nightly", "alone")
        for status, count in (("ok", 90), ("confirmed", 10))
    ]
    overall, services = objectives(rows, {}, 0.995, {}, 0, owners)
    by_name = {slo.service: slo for slo in services}
    assert {name: (slo.target, slo.budget.state, slo.decision) for name, slo in by_name.items()} == {
        "orders": (0.995, "overspent", "freeze"),
        "nightly": (0.8, "within budget", "ship"),
        "alone": (0.995, "overspent", "freeze"),
    }
    assert (overall.target, by_name["orders"].as_json()["owner"]) == (
        0.995,
        {"team": "payments", "tier": "1", "pager": "payments-oncall"},
    )
    called = Page("orders", "delivery-stalled", datetime(2026, 11, 10, 3, tzinfo=UTC), None, 1, True, None)
    shown = review(overall=overall, services=services, pages=[called, called])
    assert "2 of 3 services missed their targets: " in shown.headline[0]
    text = markdown(shown)
    for row in (
        "| Team | Services | Missed the target | Freeze | Pages | Needed nobody |",
        "| payments | 1 | orders | orders | 2 |  |",
        "| *nobody* | 1 | alone | alone |  |  |",
        "| batch | 1 |  |  |  |  |",
    ):
        assert row in text
    assert f"| nightly | batch | 90.00{NB}% | 80.00{NB}% |" in text


@pytest.mark.parametrize(
    ("records", "target", "observed", "state"),
    [
        ((0, 0), 0, True, "met"),
        ((0, 0), 0, False, "no data"),
        ((12, 12), 0, True, "missed"),
        ((0, 1140), 0, True, "not known"),
        ((0, None), 0, True, "not known"),
        ((1, None), 0, False, "missed"),
        ((3, 10), 10, True, "met"),
        ((3, 11), 10, True, "not known"),
        ((3, None), 10, True, "not known"),
        ((11, 20), 10, True, "missed"),
    ],
)
def test_the_objective_of_lost_records_is_met_or_missed_only_where_the_whole_interval_is(
    records: Range, target: int, observed: bool, state: str
) -> None:
    assert of_service(records, target, observed) == Loss(records, state)  # type: ignore[arg-type]


def test_all_lose_what_each_loses_and_are_as_bad_as_the_worst() -> None:
    met, unsure, missed = Loss((3, 4), "met"), Loss((0, None), "not known"), Loss((12, 12), "missed")
    assert of_all([met, met]) == Loss((6, 8), "met")
    assert of_all([met, unsure]) == Loss((3, None), "not known")
    assert of_all([met, missed, unsure, Loss()]) == Loss((15, None), "missed")
    assert of_all([Loss(), met]) == met
    assert of_all([]) == Loss((0, 0), "no data")


def test_records_lost_count_beside_the_minutes_also_of_a_service_that_left_none() -> None:
    rows = [
        {"service": "a", "period": 3, "slot": 0, "status": "ok", "count": 100},
        {"service": "b", "period": 3, "slot": 0, "status": "ok", "count": 100},
        {"service": "old", "period": 1, "slot": -1, "status": "ok", "count": 100},
    ]
    overall, services = objectives(rows, {"a": 1, "b": 1}, 0.9, {"b": (12, 12), "gone": (0, 7)}, 0)
    assert [(s.service, s.lost.records, s.lost.state) for s in services] == [
        ("b", (12, 12), "missed"),
        ("gone", (0, 7), "not known"),
        ("a", (0, 0), "met"),
        ("old", (0, 0), "no data"),
    ]
    assert (overall.lost.records, overall.lost.state) == ((12, 19), "missed")
    assert services[0].as_json()["lost_records"] == {"at_least": 12, "at_most": 12, "state": "missed"}
    assert services[0].minutes.sli == 1
    assert [content.healthy(s) for s in services] == [f"<{NB}100.00{NB}%", "–", f"100.00{NB}%", "–"]


@pytest.mark.parametrize(
    ("records", "in_bytes", "text"),
    [
        ((0, 1140), None, "0 to 1,140"),
        ((12, 12), (4096, 4096), "12"),
        ((250, None), None, "at least 250"),
        ((0, None), None, "not counted"),
        ((0, None), (0, 900_000), "0 to 900,000 bytes"),
        (None, None, "–"),
    ],
)
def test_what_was_lost_in_words(records: Range | None, in_bytes: Range | None, text: str) -> None:
    assert content.lost(records, in_bytes) == text


def test_percentile_is_the_lowest_class_that_covers_the_share() -> None:
    assert percentile({100: 94, 900: 6}, 0.95) == 900
    assert percentile({100: 95, 900: 5}, 0.95) == 100
    assert percentile({}, 0.95) is None


def test_buffers_that_fill_by_five_points_a_week_are_full_after_two_more() -> None:
    rows = [{"service": "a", "period": n, "per_mille": 750 + 50 * n, "count": 10} for n in range(4)]
    (capacity,) = buffers(rows, 4)
    assert capacity.p95 == (0.75, 0.8, 0.85, 0.9)
    assert capacity.slope == pytest.approx(0.05)
    assert capacity.periods_left == pytest.approx(2.0)


def test_two_weeks_have_no_slope_and_a_falling_one_no_end() -> None:
    young = [{"service": "a", "period": n, "per_mille": 100 * n, "count": 1} for n in (2, 3)]
    assert [(c.slope, c.periods_left) for c in buffers(young, 4)] == [(None, None)]
    falling = [{"service": "a", "period": n, "per_mille": 900 - 100 * n, "count": 1} for n in range(4)]
    (capacity,) = buffers(falling, 4)
    assert capacity.slope == pytest.approx(-0.1)
    assert capacity.periods_left is None


def test_a_full_buffer_has_a_class_of_its_own() -> None:
    rows = [{"period": 3, "per_mille": p, "count": 1, "service": "a"} for p in (0, 99, 100, 999, 1000)]
    distribution = buffer_distribution(rows, 3)
    assert distribution.classes[-1] == "full"
    assert distribution.now == (2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1)


def test_gaps_are_minutes_without_monitoring() -> None:
    start = 1_794_182_400  # Monday 2026-11-09 00:00
    hour = Period(utc(start), utc(start + 3600))
    minutes = [start + 60 * n for n in range(60) if n not in (0, 1, 30, 59)]
    unwatched = gaps(hour, minutes)
    assert [(g.start.minute, g.minutes) for g in unwatched] == [(0, 2), (30, 1), (59, 1)]
    assert gap_minutes(unwatched, utc(start + 60), utc(start + 1860)) == 2
    assert gaps(hour, []) == [Period(hour.start, hour.end)]


@pytest.mark.parametrize(
    ("ratio", "digits", "text"),
    [
        (0.99995, 2, "99.99"),
        (1.0, 2, "100.00"),
        (0.5, 0, "50"),
        (0.0, 2, "0.00"),
        (0.00001, 2, f"<{NB}0.01"),
    ],
)
def test_what_is_not_whole_is_never_shown_as_whole(ratio: float, digits: int, text: str) -> None:
    assert content.percent(ratio, digits) == f"{text}{NB}%"


def test_words() -> None:
    assert content.duration(6000) == f"1{NB}h{NB}40{NB}min"
    assert content.duration(0) == f"0{NB}s"
    assert content.duration(86_400 + 59) == f"1{NB}d"
    assert content.duration(None) == "–"
    assert words.short(1234) == "1.2k"
    assert words.short(45_678) == "46k"
    assert content.points(-0.0123) == "−1.23"
    assert content.points(0.000001) == "±0.00"
    assert content.lost((0, 1140), (0, 99)) == "0 to 1,140"
    assert content.lost((7, 7), None) == "7"
    assert content.lost(None, (0, 4096)) == "0 to 4,096 bytes"
    assert words.listing(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert words.listing(["a", "b"]) == "a and b"
    assert content.left(-1.61) == f"161{NB}% over"


@pytest.mark.parametrize(
    ("weeks", "decision"),
    [
        # With a target of 99 %, 4,000 client-minutes have an error budget of 40.
        ((0, 0, 0, 0), "ship"),
        ((0, 0, 0, 40), "ship"),
        ((0, 0, 0, 41), "freeze"),
        ((41, 0, 0, 0), "freeze"),
    ],
)
def test_a_service_ships_until_the_budget_of_four_weeks_is_overspent(weeks: tuple[int, ...], decision: str) -> None:
    slo = ServiceSlo("a", 1, 0.99, [Minutes(ok=1000 - ill, confirmed=ill) for ill in weeks])
    assert slo.decision == decision
    assert slo.as_json()["decision"] == decision


def test_nothing_is_decided_where_nothing_was_observed() -> None:
    assert ServiceSlo("a", 1, 0.99, [Minutes()] * 4).decision == "no data"


def page(service: str, minute: int, lasts: int | None = 60, loses: bool = False) -> Page:
    start = 1_794_225_600 + 60 * minute
    stop = None if lasts is None else utc(start + 60 * lasts)
    return Page(service, "producer-callback-deadlock", utc(start), stop, 3, loses, None)


def test_ten_services_that_begin_to_fail_within_ten_minutes_are_one_page() -> None:
    storm = [page(f"s{n}", n) for n in range(10)]
    (fleet,) = of_fleet(storm)
    assert (fleet.service, fleet.clients, fleet.start, fleet.stop) == ("", 30, storm[0].start, storm[9].stop)
    many = [page("early", -60), *storm, page("s10", 12), page("s11", 13), page("late", 80)]
    assert [(p.service, p.clients) for p in of_fleet(many)] == [("early", 3), ("", 36), ("late", 3)]


def test_nine_services_or_ten_within_an_hour_are_as_many_pages() -> None:
    nine = [page(f"s{n}", n) for n in range(9)]
    slow = [page(f"s{n}", 6 * n) for n in range(10)]
    one_service = [page("s", n) for n in range(10)]
    assert (of_fleet(nine), of_fleet(slow), of_fleet(one_service)) == (nine, slow, one_service)
    assert of_fleet([]) == []


def test_two_storms_are_two_pages_and_one_goes_on_while_any_of_it_does() -> None:
    first = [page(f"s{n}", 0, None if n == 3 else 5, loses=n == 4) for n in range(10)]
    second = [page(f"s{n}", 600, 5) for n in range(10)]
    one, other = of_fleet([*first, *second])
    assert (one.stop, one.loses, other.stop, other.loses) == (None, True, second[0].stop, False)


def test_a_storm_is_one_page_where_the_rule_makes_it_one() -> None:
    rules = (Path(__file__).parents[2] / "alerts/rules/failure-modes.yml").read_text("utf-8")
    assert f") >= {FLEET_SERVICES}\n" in rules


@pytest.mark.parametrize(
    ("lasts", "loses", "needed_nobody"), [(10, False, True), (11, False, False), (5, True, False), (None, False, False)]
)
def test_a_page_over_within_ten_minutes_without_loss_needed_no_action(
    lasts: int | None, loses: bool, needed_nobody: bool
) -> None:
    assert page("s", 0, lasts, loses).needed_nobody is needed_nobody


@pytest.mark.parametrize(
    ("hours", "hour", "ends_on"),
    [
        ((22, 7), 21, None),
        ((22, 7), 22, 10),  # Monday 22:00 belongs to the night that ends on Tuesday, the 10th
        ((22, 7), 6, 9),
        ((22, 7), 7, None),
        ((0, 6), 5, 9),
        ((0, 6), 23, None),
        ((0, 0), 0, None),
    ],
)
def test_a_night_is_named_by_the_day_on_which_it_ends(hours: tuple[int, int], hour: int, ends_on: int | None) -> None:
    settings = ReviewSettings(night_from_hour=hours[0], night_to_hour=hours[1])
    night = night_of(1_794_182_400 + 3600 * hour, settings)  # Monday 2026-11-09
    assert (night and night.day) == ends_on


@pytest.mark.parametrize(("env", "quiet"), [("staging", True), ("dev-3", True), ("prod", False), ("", False)])
def test_paging_is_decided_as_in_the_rules(env: str, quiet: bool) -> None:
    settings = Settings(monitor=MonitorSettings(cluster="eu"), prometheus=PrometheusSettings(labels={"env": env}))
    assert opens_tickets_only(settings) is quiet
