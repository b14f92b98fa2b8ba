"""A review's headline and page stay readable with little or hostile data."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clienthealth.configuration.owners import Owner
from clienthealth.review.actions import Action
from clienthealth.review.clusters import side_by_side, write_all
from clienthealth.review.content import NB
from clienthealth.review.incidents import Links
from clienthealth.review.model import AlsoSeen, Fleet, KnownBugs, ModeChange, Page, Quality
from clienthealth.review.period import Period
from clienthealth.review.render import definitions, details, write
from clienthealth.review.slo import Loss, Minutes, total
from clienthealth.settings import LinkSettings
from tests.support.review_example import FINE, ILL, WEEK, everything, html, markdown, review, service, theme, watched

HOSTILE = "<script>alert(1)</script> [x](javascript:alert(1)) | `rm` \n# not a heading"


def sentences(value: object) -> list[str]:
    return [s.replace(NB, " ") for s in value.headline]  # type: ignore[attr-defined]


def test_an_empty_week_reports_missing_data() -> None:
    assert sentences(review()) == [
        "No client was observed this week, so the clients' health is unknown.",
        "No failure was found this week; in 7 d (100.0 % of the week), no record arrived, so nothing is known of that "
        "time.",
        "To do: find out why no record arrived for 7 d (Mon 9 Nov 00:00 – Mon 16 Nov 00:00).",
    ]


@pytest.mark.parametrize(
    ("lasts", "task"),
    [
        (4, "Nothing needs a decision today."),
        (60, "To do: find out why no record arrived for 1 h (Mon 9 Nov 10:00 – 11:00)."),
    ],
)
def test_only_a_long_gap_is_a_task(lasts: int, task: str) -> None:
    begins = (WEEK.start + timedelta(hours=10 * n) for n in range(1, 16))
    gaps = tuple(Period(begin, begin + timedelta(minutes=lasts)) for begin in begins)
    reviewed = review(quality=Quality(10_080, gaps, (), 0, 0))
    assert sentences(reviewed)[2] == task


def test_a_first_good_week() -> None:
    one = service("orders-api", FINE)
    reviewed = review(overall=one, services=[one], quality=watched())
    assert sentences(reviewed) == [
        "Clients were healthy 100.00 % of their observed time (the first week, so there is no trend yet); "
        "0 % of the week's error budget is spent, 100 % is left; the only service met the target of 99.50 %.",
        "No failure was found this week.",
        "Nothing needs a decision today.",
    ]


def test_a_bad_week_after_good_ones() -> None:
    orders, audit = service("orders-api", FINE, FINE, ILL), service("audit", FINE, FINE, FINE)
    overall = service("", *(total(s.periods[n] for s in (orders, audit)) for n in (1, 2, 3)))
    late = Action("x", "y", date(2026, 11, 1), overdue_days=15)
    reviewed = review(
        overall=overall, services=[orders, audit], themes=[theme()], quality=watched(), actions=[late, late]
    )
    # The week's error budget is 100.8 minutes, of which 100 are spent.
    assert sentences(reviewed) == [
        "Clients were healthy 99.50 % of their observed time, worse than the 2 weeks before (100.00 %, −0.50 points); "
        "99 % of the week's error budget is spent, 1 % is left; "
        "1 of 2 services missed the target of 99.50 %: orders-api (99.01 %).",
        "The worst was “Producer deadlocked”: 1 incident (confirmed) on 1 client of orders-api, 1 h 40 min in all, "
        "found after a median of 40 s.",
        "To do: finish the overdue actions: “x” (y, 15 days) and “x” (y, 15 days); agree on one action against "
        "“Producer deadlocked”; find out what spent the week's budget of orders-api.",
    ]


def test_lost_records_are_named_and_are_not_whole_health() -> None:
    orders = dataclasses.replace(service("orders-api", FINE), lost=Loss((0, 1140), "not known"))
    overall = dataclasses.replace(orders, service="")
    reviewed = review(overall=overall, services=[orders], quality=watched())
    assert sentences(reviewed)[0] == (
        "Clients were healthy < 100.00 % of their observed time (the first week, so there is no trend yet); "
        "0 % of the week's error budget is spent, 100 % is left; "
        "the only service met the target of 99.50 % in client-minutes; "
        "records lost: 0 to 1,140 (target 0, not known): orders-api 0 to 1,140."
    )
    assert sentences(reviewed)[2] == "To do: send again the records that orders-api lost, if their source has them."
    page = html(reviewed) + details(reviewed)
    assert f"<dd>&lt;{NB}100.00{NB}%<small>target" in page
    assert '<span class="badge warn">not known</span>' in page
    assert f"Healthy: W43: –, W44: –, W45: –, W46: &lt;{NB}100.00{NB}%" in page
    assert f"100.00{NB}%" not in markdown(reviewed).replace(f"<{NB}100.00{NB}%", "").replace(f"\\<{NB}100.00{NB}%", "")


def test_records_lost_where_nothing_was_observed_are_named() -> None:
    gone = dataclasses.replace(service("orders-api", Minutes()), lost=Loss((12, None), "missed"))
    reviewed = review(overall=dataclasses.replace(gone, service=""), services=[gone])
    assert sentences(reviewed)[0] == (
        "No client was observed this week, so the clients' health is unknown; "
        "records lost: at least 12 (target 0, missed): orders-api at least 12."
    )


def test_an_overspent_month_puts_reliability_first() -> None:
    ill = service("orders-api", ILL, ILL)
    reviewed = review(overall=ill, services=[ill], themes=[theme(open=1, stop=None)], quality=watched())
    assert sentences(reviewed)[2] == (
        "To do: end the open failures (“Producer deadlocked”); "
        "put reliability first in orders-api: the budget for the last 4 weeks is overspent."
    )


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.values: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.values += [(name, value or "") for name, value in attrs]


class Around(HTMLParser):
    def __init__(self, text: str, name: str) -> None:
        super().__init__()
        self.name, self.open = name, list[str]()
        self.paths: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        if self.name in data:
            self.paths.append(list(self.open))


def test_names_of_others_keep_their_direction_to_themselves() -> None:
    name = "\u05d0\u05d1-\u05d2"
    reviewed = everything(name)
    around = Around(html(reviewed), name).paths + Around(details(reviewed), name).paths
    shown = [path for path in around if "svg" not in path and path[-3:] != ["header", "ol", "li"]]
    assert len(shown) > 30
    assert [path for path in shown if path[-1] != "bdi"] == []


def test_hostile_text_stays_text() -> None:
    reviewed = everything(HOSTILE, HOSTILE)
    page = Elements(html(reviewed) + details(reviewed))
    assert "script" not in page.names
    assert not [value for name, value in page.values if name in ("href", "src") and "javascript" in value]
    text = markdown(reviewed)
    assert text.count("alert(1)") > 40
    assert "<script" not in text.replace("\\<", "")
    assert "](javascript" not in text.replace("\\]", "")
    assert "`rm" not in text.replace("\\`", "")
    assert "\n# not" not in text


def test_the_page_loads_nothing_and_every_plot_has_words() -> None:
    one = service("orders-api", FINE, ILL)
    reviewed = review(overall=one, services=[one], themes=[theme()], quality=watched())
    page = html(reviewed) + details(reviewed)
    assert not [v for n, v in Elements(page).values if n in ("src", "data", "xlink:href")]
    assert "@import" not in page
    assert "url(http" not in page
    plots = [plot for plot in page.split("<svg")[1:] if 'role="img"' in plot]
    assert len(plots) == 6
    assert all("<title" in plot for plot in plots)


def test_a_gap_is_shown_as_no_data() -> None:
    gap = Period(datetime(2026, 11, 12, tzinfo=UTC), datetime(2026, 11, 13, tzinfo=UTC))
    one = service("orders-api", FINE)
    page = details(review(overall=one, services=[one], quality=Quality(10_080, (gap,), (), 0, 10_080)))
    assert 'class="blind" title="no data; no record arrived in 1' in page
    assert "No record arrived in the gaps below" in page


def test_a_review_of_a_quarter_of_an_hour_speaks_of_periods_and_times() -> None:
    demo = Period(datetime(2026, 11, 21, 7, 10, tzinfo=UTC), datetime(2026, 11, 21, 7, 25, tzinfo=UTC))
    one = service("orders-api", Minutes(ok=10, confirmed=5))
    reviewed = review(period=demo, overall=one, services=[one], slot_minutes=1, quality=watched(demo))
    page = html(reviewed) + details(reviewed)
    assert "Sat 21 Nov 07:10 to Sat 21 Nov 07:25 2026, all times UTC" in page
    assert '<th scope="col">07:24</th>' in page
    assert "week" not in page


def test_the_same_review_gives_the_same_bytes(tmp_path: Path) -> None:
    one = service("orders-api", FINE, ILL)
    reviewed = review(overall=one, services=[one], themes=[theme()], quality=watched())
    first = [file.read_bytes() for file in write(reviewed, tmp_path / "a")]
    assert [file.read_bytes() for file in write(reviewed, tmp_path / "b")] == first
    assert json.loads(first[2])["overall"]["client_minutes"]["unhealthy"] == 100


def test_definitions_are_those_of_the_code() -> None:
    by_word = dict(definitions())
    assert list(by_word) == [
        "client-minute",
        "healthy",
        "unhealthy",
        "unknown",
        "observed",
        "SLI",
        "error budget",
        "records lost",
        "watched",
        "gap",
    ]
    assert by_word["unhealthy"].startswith("a client-minute with the status suspected or confirmed. A suspected minute")


def test_links_carry_the_client_and_the_time_of_the_incident() -> None:
    mode = "producer-callback-deadlock"
    links = Links(LinkSettings(dashboards="https://grafana.example/"), WEEK)
    start = datetime(2026, 11, 10, 10, tzinfo=UTC)
    assert links.dashboard(mode, "a&b", "c d", start, None) == (
        "https://grafana.example/d/kafka-client-health-mode-producer-callba"
        "?from=1794303900000&to=1794788100000&var-service=a%26b&var-client_id=c+d"
    )
    assert Links(LinkSettings(), WEEK).dashboard(mode, "a", "b", start, None) == ""
    assert Links(LinkSettings(), WEEK).runbook(mode) == "http://127.0.0.1:9309/runbooks/producer-callback-deadlock"


def paged(service: str, day: int, hour: int, night: date | None, minutes: int = 60) -> Page:
    start = datetime(2026, 11, day, hour, tzinfo=UTC)
    return Page(service, "producer-callback-deadlock", start, start + timedelta(minutes=minutes), 1, False, night)


def alerts_of(**changes: object) -> str:
    text = markdown(review(**changes)).replace(NB, " ")
    return text.partition("## Alerts")[2].partition("## Suspicions that cleared")[0]


def test_pages_are_listed_by_service_and_by_night_without_zeros() -> None:
    tuesday = date(2026, 11, 10)
    pages = [
        paged("orders-api", 9, 23, tuesday),
        paged("orders-api", 10, 2, tuesday, minutes=5),
        paged("search", 11, 12, None),
    ]
    alerts = alerts_of(pages=pages)
    assert (
        "3 pages, 2 at night (22:00 to 07:00): 0.3 per night, at most 2 (the night that ended on Tue 10 Nov). "
        "1 ended within 10 minutes, and no record was lost: no action was needed."
    ) in alerts
    assert "| orders-api | 2 | 2 | 1 |\n| search | 1 |  |  |" in alerts
    assert "Pages: 3 (2 at night, 1 needed no action)" in markdown(review(pages=pages))


def test_needless_pages_are_held_against_a_budget_and_named() -> None:
    night = date(2026, 11, 10)
    pages = [
        paged("billing", 9, 23, night, minutes=5),
        paged("billing", 10, 2, night, minutes=5),
        paged("search", 11, 12, None, minutes=5),
    ]
    text = markdown(review(pages=pages, quality=watched())).replace(NB, " ")
    assert "- Noise budget: 3 of 2 (needless pages, beyond the target)" in text
    assert "see why 3 pages (2 at night) needed no action: billing (2) and search (1)" in text
    within = markdown(review(pages=pages[2:], quality=watched())).replace(NB, " ")
    assert "- Noise budget: 1 of 2 (needless pages, within the target)" in within
    assert "needed no action:" not in within
    assert "see why 1 page (1 at night) needed no action: billing (1)" in markdown(review(pages=pages[:1]))


def test_what_to_do_names_the_team_that_owns_the_service() -> None:
    orders = dataclasses.replace(service("orders-api", FINE, FINE, ILL), owner=Owner("checkout"))
    reviewed = review(overall=orders, services=[orders], themes=[theme()], quality=watched())
    assert "1 client of orders-api (checkout)" in sentences(reviewed)[1]
    assert sentences(reviewed)[2].endswith("find out what spent the week's budget of orders-api (checkout).")


def test_a_storm_of_many_services_is_not_one_services_page() -> None:
    assert "| many at once | 1 |" in alerts_of(pages=[paged("", 11, 12, None)])


def test_zero_pages_differ_from_an_environment_without_paging() -> None:
    assert "Nobody was paged." in alerts_of()
    staging = alerts_of(pages=None, environment="staging")
    assert "opens tickets only" in staging
    assert "Pages" not in markdown(review(pages=None, environment="staging"))
    assert ", environment staging" in markdown(review(pages=None, environment="staging"))


def test_each_service_gets_the_advice_to_ship_or_to_freeze() -> None:
    well, ill = service("audit", FINE, FINE, FINE, FINE), service("orders-api", ILL, ILL, ILL, ILL)
    text = markdown(review(overall=well, services=[ill, well], quality=watched()))
    of_orders, of_audit = (
        next(line for line in text.splitlines() if f"| {s} " in line) for s in ("orders-api", "audit")
    )
    assert "| **freeze** |" in of_orders
    assert "| ship |" in of_audit


def test_failure_modes_that_count_nothing_are_left_out() -> None:
    none, some = ModeChange("a", "Not seen", 0, 0, 0, 0), ModeChange("b", "Seen before", 0, 2, 0, 20)
    text = markdown(review(changes=[none, some]))
    assert "Not seen" not in text
    assert "| Seen before |  | 2 |  | 20 |" in text
    assert "No failure in this week or the one before." in markdown(review(changes=[none]))


def test_what_is_ill_in_staging_spends_no_budget_of_production(tmp_path: Path) -> None:
    well, ill = service("orders-api", FINE), service("orders-api", ILL)
    reviews = [
        review(cluster="stage-eu", environment="staging", pages=None, overall=ill, services=[ill]),
        review(
            cluster="prod-eu",
            environment="prod",
            overall=well,
            services=[well],
            pages=[paged("orders-api", 9, 12, None)],
        ),
        review(cluster="prod-us", environment="prod", overall=well, services=[well]),
    ]
    _, text, numbers = (file.read_text("utf-8") for file in write_all(side_by_side(reviews), tmp_path)[""])
    rows = [line.replace(NB, " ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    # In stage-eu 100 of 10,080 client-minutes are unhealthy, twice the budget of 50.4.
    assert [(row[0], row[1], row[3], row[7]) for row in rows[2:7]] == [
        ("| [prod-eu](#prod-eu)", "100.00 %", "0 %", "1"),
        ("| [prod-us](#prod-us)", "100.00 %", "0 %", "0"),
        ("| All of prod", "100.00 %", "0 %", "1"),
        ("| [stage-eu](#stage-eu)", "99.01 %", "198 %", "tickets only"),
        ("| All of staging", "99.01 %", "198 %", "tickets only"),
    ]
    assert json.loads(numbers)["environments"]["prod"]["client_minutes"]["unhealthy"] == 0


def test_known_issues_without_a_mode_are_listed_by_service_with_advice() -> None:
    rows = [AlsoSeen("tls", "orders", 1200, 2, 7), AlsoSeen("of-a-later-release", "billing", 1, 1, 0)]
    text = markdown(review(also_seen=rows)).replace(NB, " ").partition("## Also seen")[2].partition("\n## ")[0]
    assert "TLS failed" in text and "orders" in text and "1,200" in text and "of-a-later-release" in text
    assert "TLS failed: The TLS handshake with a broker failed, so no connection was established. Compare" in text
    assert "The clients' logs show no known issue." in markdown(review())


def test_trouble_and_versions_with_known_bugs_name_the_team_that_owns_the_service() -> None:
    orders = dataclasses.replace(service("orders", FINE, FINE), owner=Owner("checkout"))
    bugs = (
        KnownBugs("billing", "java", "3.3.1", 7, ("KAFKA-14303",), "4.1.2"),
        KnownBugs("orders", "librdkafka", "2.5.0", 2, ("#4833",), "2.10.1"),
    )
    rows = [AlsoSeen("options-acks", "orders", 3, 3, 0)]
    text = markdown(review(services=[orders], also_seen=rows, fleet=Fleet(known_bugs=bugs))).replace(NB, " ")
    assert "records are acknowledged by fewer than all replicas | orders (checkout) | 3 |" in text
    assert "| billing |  | java 3.3.1 | 7 | KAFKA-14303 | 4.1.2 |" in text
    assert "| orders | checkout | librdkafka 2.5.0 | 2 | \\#4833 | 2.10.1 |" in text
