"""Check dashboards of simulated fleets, drawn in Chromium by Grafana's own components."""

from __future__ import annotations

import dataclasses
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clienthealth.settings import MonitorSettings, PrometheusSettings, Settings
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from dashboards import look
from dashboards.panel import ORDER
from tests.bench.bench_fleet import fleet
from tests.e2e.test_alert_delivery import now_ms
from tests.e2e.test_dashboards_queries import BOARDS, PROMETHEUS, Prometheus, sick, watching
from tests.support import browser
from tests.support.dashboard_pixels import WIDTH, Look, Seen, bundle, seen
from tests.support.dashboard_reading import panels
from tests.support.health_records import group, wire
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        "DASHBOARDS_IN_PIXELS" not in os.environ, reason="make pixels draws the dashboards, in two minutes"
    ),
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed"),
    pytest.mark.skipif(
        not (browser.CHROMIUM and browser.NODE and browser.NPM), reason="chromium, node and npm draw the dashboards"
    ),
]
CLIENTS, GROUPS, FAILING = 1_000, 40, 0.02
INTERVAL_SECONDS = 2
SECONDS = 60
TURN = 15
LINES = 20
RED, YELLOW, BLUE = (look.PALETTE[name] for name in (look.CRITICAL, look.WARNING, look.GOOD))
#: GREEN is Grafana's default colour.
GREY, GREEN, UNKNOWN = look.BAND.upper(), "#73BF69", look.UNKNOWN.upper()
PICTURES = ("overview", "producers", "consumers", "one client")
PHONE = 390
KINDS = {"stat", "table", "timeseries", "state-timeline", "text", "alertlist"}


def installation(cluster: str, env: str) -> Settings:
    return Settings(monitor=MonitorSettings(cluster=cluster), prometheus=PrometheusSettings(labels={"env": env}))


def clients(number: int, failing: float) -> Iterator[dict[str, Any]]:
    end = now_ms()
    yield from fleet(number, failing, services=50, end_ms=end)
    for place in range(GROUPS):
        status = "STALL" if place % 10 == 0 else "OK"
        one = group(f"service-{place:03d}-workers", cluster="kafka-1", status=status, partitions=3, end_ms=end)
        one["indicators"]["group"] |= {"max_lag": 40 * place, "max_lag_seconds": 3.0 * place, "sum_lag": 120 * place}
        yield one


class Turning:
    def __init__(self, settings: Settings, number: int, failing: float) -> None:
        self._states = States(settings)
        self._exporter = Exporter(settings, self._states, lambda: None)
        self._records = list(clients(number, failing))
        for one in self._records:
            self._put(one)
        self._producers = [one for one in self._records if one["client"]["kind"] == "producer"]
        self._turn = 0

    def _put(self, one: Mapping[str, Any]) -> None:
        key, value, _ = wire(dict(one))
        self._states.put(key, value, now_ms())

    def page(self) -> str:
        for place in range(TURN):
            one = self._producers[(self._turn * TURN + place) % len(self._producers)]
            worse = {
                "buffer_used_ratio": {"last": 0.9 + self._turn / 1e4, "max": 1.0},
                "request_latency_seconds": {"avg": 2.0 + self._turn / 1e4, "max": 3.0},
            }
            self._put(one | {"window_end": now_ms(), "indicators": one["indicators"] | worse})
        self._turn += 1
        return b"".join(self._exporter.metrics()).decode()


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    bundle()
    others = [
        Turning(installation("us", "prod"), CLIENTS, FAILING).page,
        Turning(installation("eu", "prod"), CLIENTS, FAILING).page,
        Turning(installation("eu", "staging"), 100, 0.2).page,
    ]
    folder = tmp_path_factory.mktemp("fleets")
    with watching(folder, sick(), busy=True, interval_seconds=INTERVAL_SECONDS, others=others) as prometheus:
        enough = f"count_over_time(kafka_client_health_exporter_up[{SECONDS}s]) >= {SECONDS // INTERVAL_SECONDS - 1}"
        eventually(lambda: prometheus.series(enough), "a minute of scrapes", 2 * SECONDS)
        yield prometheus


@pytest.fixture(scope="module")
def drawn(fleets: Prometheus) -> dict[str, list[Seen]]:
    url = fleets.url.removesuffix("/api/v1")
    mode = "mode-producer-callback-deadlock"
    one = {"service": "orders-api", "client_id": "order-producer", "cluster": "eu", "env": "prod"}
    looks = [Look(name, board, url, seconds=SECONDS, scrape=INTERVAL_SECONDS) for name, board in BOARDS.items()]
    alone = Look("one client", BOARDS[mode], url, one, seconds=SECONDS, scrape=INTERVAL_SECONDS)
    nothing = [Look(f"nothing: {name}", board) for name, board in BOARDS.items() if not name.startswith("mode-")]
    return seen([*map(pictured, (*looks, alone)), *nothing])


def pictured(look: Look) -> Look:
    folder = os.environ.get("DASHBOARDS_PICTURES")
    if folder is None or look.name not in PICTURES:
        return look
    return dataclasses.replace(look, picture=Path(folder).resolve() / f"{look.name.replace(' ', '-')}.webp")


@pytest.mark.parametrize(("theme", "width"), [("light", WIDTH), ("dark", WIDTH), ("light", PHONE), ("dark", PHONE)])
def test_every_panel_is_drawn_in_each_theme_and_on_a_phone(fleets: Prometheus, theme: str, width: int) -> None:
    folder, url = os.environ.get("DASHBOARDS_LOOKS"), fleets.url.removesuffix("/api/v1")
    looks = []
    for name, board in BOARDS.items():
        picture = Path(folder).resolve() / f"{name}-{theme}-{width}.webp" if folder else None
        look = Look(name, board, url, seconds=SECONDS, scrape=INTERVAL_SECONDS, picture=picture)
        looks.append(dataclasses.replace(look, theme=theme, width=width, short=False))
    drawn = seen(looks)
    assert {where: panel["error"] for where, panel in every(drawn, *KINDS) if panel.get("error")} == {}
    assert len(every(drawn, *KINDS)) == sum(p["type"] in KINDS for board in BOARDS.values() for p in panels(board))


def every(drawn: Mapping[str, list[Seen]], *types: str) -> list[tuple[str, Seen]]:
    return [(f"{name}, {p['title']}", p) for name, panels in drawn.items() for p in panels if p["type"] in types]


def the(drawn: Mapping[str, list[Seen]], name: str, title: str) -> Seen:
    (panel,) = (panel for panel in drawn[name] if panel["title"] == title)
    return panel


def test_every_panel_is_drawn(drawn: dict[str, list[Seen]]) -> None:
    assert {where: panel["error"] for where, panel in every(drawn, *KINDS) if panel.get("error")} == {}
    assert {panel["type"] for _, panel in every(drawn, *KINDS)} == KINDS
    assert len(every(drawn, *KINDS)) == sum(map(len, drawn.values()))
    tables = [panel for _, panel in every({name: drawn[name] for name in BOARDS}, "table")]
    assert len(tables) > 10 and all(panel["nothing"] or panel["rows"] for panel in tables)


def test_no_text_is_cut_and_nothing_lies_outside(drawn: dict[str, list[Seen]]) -> None:
    assert {where: panel["cut"] for where, panel in every(drawn, *KINDS) if panel["cut"]} == {}


def test_a_chart_has_twenty_lines_at_most_and_room_for_them(drawn: dict[str, list[Seen]]) -> None:
    charts = every(drawn, "timeseries")
    assert {where: len(panel["series"]) for where, panel in charts if len(panel["series"]) > LINES} == {}
    assert {where: panel["plot"] for where, panel in charts if panel["series"] and panel["plot"] < 0.43} == {}
    assert len(the(drawn, "producers", "Request latency")["series"]) == LINES


def test_names_of_series_are_distinct(drawn: dict[str, list[Seen]]) -> None:
    for where, panel in every(drawn, "timeseries", "state-timeline"):
        names = [one["name"] for one in panel["series"]]
        assert len(names) == len(set(names)), where
        for one in panel["series"]:
            for label in {"cluster", "env"} & one["labels"].keys():
                assert one["labels"][label] in re.split("[:,]? ", one["name"]), (where, one)
    for where, panel in every({name: drawn[name] for name in BOARDS}, "table"):
        if not panel["nothing"]:
            assert {"cluster", "env"} <= set(panel["columns"]), where
    rows = {
        tuple(cell["text"] for cell in row[:2]) for row in the(drawn, "overview", "Clusters and environments")["rows"]
    }
    assert rows == {("us", "prod"), ("eu", "prod"), ("eu", "staging")}


def test_each_number_is_the_sum_of_the_column_with_its_name(drawn: dict[str, list[Seen]]) -> None:
    apart = the(drawn, "overview", "Clusters and environments")
    for title in ("Confirmed", "Suspected", "Not judged", "Reporting"):
        (shown,) = the(drawn, "overview", title)["values"]
        column = apart["columns"].index(title.lower())
        assert sum(int(row[column]["text"]) for row in apart["rows"]) == int(shown["text"]), title
    (suspected,) = the(drawn, "overview", "Suspected")["values"]
    assert suspected["text"] == "1"


def test_timelines_show_every_group_in_trouble_on_the_first_page(drawn: dict[str, list[Seen]]) -> None:
    bands = the(drawn, "consumers", "State of each group")["series"]
    red = [one for one in bands if RED in map(hexadecimal, one["bands"])]
    (trouble,) = the(drawn, "consumers", "Groups in trouble")["values"]
    assert len(red) == int(trouble["text"]) == 13


def test_columns_with_labels_come_before_columns_with_values(drawn: dict[str, list[Seen]]) -> None:
    for where, panel in every({name: drawn[name] for name in BOARDS}, "table"):
        if not panel["nothing"]:
            labels = [column for column in panel["columns"] if column in ORDER]
            assert panel["columns"][: len(labels)] == sorted(labels, key=ORDER.index), where
            assert len(panel["columns"]) > len(labels), where
    assert the(drawn, "overview", "Unhealthy now")["columns"] == [
        *("status", "mode", "service", "client_id", "instance", "cluster", "env", "since")
    ]


def test_the_text_for_no_data_is_in_no_label(drawn: dict[str, list[Seen]]) -> None:
    placeholders = {
        panel["fieldConfig"]["defaults"]["noValue"]
        for board in BOARDS.values()
        for panel in panels(board)
        if panel["type"] == "table"
    }
    for where, panel in every(drawn, "table"):
        assert not [cell for row in panel.get("rows", ()) for cell in row if cell["text"] in placeholders], where
        for link in panel["links"]:
            assert "%20" not in link["href"], (where, link)


def test_each_status_has_its_colour(drawn: dict[str, list[Seen]]) -> None:
    assert colour_of(the(drawn, "overview", "Confirmed")) == RED
    assert colour_of(the(drawn, "overview", "Suspected")) == YELLOW
    assert colour_of(the(drawn, "overview", "Age of what you see")) == BLUE
    for row in the(drawn, "overview", "Unhealthy now")["rows"]:
        assert hexadecimal(row[0]["colour"]) == {"confirmed": RED, "suspected": YELLOW}[row[0]["text"]]
    for name in ("overview", "review"):
        by_mode = the(drawn, name, "Unhealthy clients by failure mode")["series"]
        colours = {(one["labels"]["mode"], hexadecimal(one["colour"])) for one in by_mode}
        assert len(colours) == len({mode for mode, _ in colours}) == len({colour for _, colour in colours}) >= 7
        assert {colour for _, colour in colours}.isdisjoint({BLUE, GREEN})
    for where, panel in every(drawn, "state-timeline"):
        if panel["title"] in ("Failures over time", "Verdict over time"):
            assert {hexadecimal(c) for one in panel["series"] for c in one["bands"]} <= {RED, YELLOW, GREY}, where
    healthy = {hexadecimal(one["colour"]) for one in the(drawn, "review", "Observed and unhealthy clients")["series"]}
    assert healthy == {RED, YELLOW, BLUE}


def test_what_is_not_known_has_no_colour_of_health(drawn: dict[str, list[Seen]]) -> None:
    numbers = [(where, panel) for where, panel in every(drawn, "stat") if where.startswith("nothing: ")]
    assert len(numbers) > 20
    for where, panel in numbers:
        if panel["title"] not in ("Target",):
            assert colour_of(panel) == UNKNOWN, (where, panel["values"])


def test_a_link_of_a_row_leads_to_that_client_in_its_installation(drawn: dict[str, list[Seen]]) -> None:
    (link,) = (one for one in the(drawn, "overview", "Unhealthy now")["links"] if one["title"] == "This client alone")
    first = dict(
        zip(
            the(drawn, "overview", "Unhealthy now")["columns"],
            (cell["text"] for cell in the(drawn, "overview", "Unhealthy now")["rows"][0]),
            strict=True,
        )
    )
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(link["href"]).query, keep_blank_values=True)
    for label in ("service", "client_id", "instance", "cluster", "env"):
        assert asked[f"var-{label}"] == [first[label]]
    for where, panel in every(drawn, *KINDS):
        for one in panel["links"]:
            assert "$" not in one["href"], (where, one)
            if one["href"].startswith("/d/"):
                target = urllib.parse.urlsplit(one["href"])
                (board,) = (b for b in BOARDS.values() if target.path == f"/d/{b['uid']}")
                names = {f"var-{variable['name']}" for variable in board["templating"]["list"]}
                assert names >= {n for n in urllib.parse.parse_qs(target.query, True) if n.startswith("var-")}, (
                    where,
                    one,
                )


def test_the_dashboard_that_an_alert_links_to_shows_that_client_alone(drawn: dict[str, list[Seen]]) -> None:
    page = drawn["one client"]
    (row,) = the(drawn, "one client", "Unhealthy now")["rows"]
    assert {"confirmed", "orders-api", "order-producer", "eu", "prod"} <= {cell["text"] for cell in row}
    assert the(drawn, "one client", "Confirmed")["values"][0]["text"] == "1"
    lines = [one["labels"] for panel in page if panel["type"] == "timeseries" for one in panel["series"]]
    assert len(lines) >= 5
    assert {labels["client_id"] for labels in lines if "client_id" in labels} == {"order-producer"}


def colour_of(number: Seen) -> str:
    (value,) = number["values"]
    return hexadecimal(value["colour"])


def hexadecimal(colour: str) -> str:
    parts = re.fullmatch(r"rgba?\((\d+), (\d+), (\d+)(?:, [\d.]+)?\)", colour)
    return "#" + "".join(f"{int(part):02X}" for part in parts.groups()) if parts else colour.upper()
