"""The status page shows the worst clients first. No text of a record becomes markup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

import pytest

from clienthealth.model import wording
from clienthealth.modes import modes
from clienthealth.platform.web import Request
from clienthealth.settings import LinkSettings, Settings
from clienthealth_exporters.prometheus import history, status_page
from clienthealth_exporters.prometheus.client_details import plot
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from clienthealth_exporters.prometheus.status_page import runbook_html as html
from tests.support.health_records import NOW_MS, deadlock, group, healthy, record, verdict, wire

NOW = NOW_MS / 1000
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def get(
    *records: dict[str, Any],
    path: str = "/",
    now: float = NOW,
    trouble: str | None = None,
    settings: Settings | None = None,
    query: Mapping[str, str] | None = None,
) -> str:
    chosen = settings or Settings()
    states = States(chosen, clock=lambda: NOW)
    for one in records:
        states.put(*wire(one))
    body = Exporter(chosen, states, lambda: trouble, clock=lambda: now)(Request(path, query or {})).body
    assert isinstance(body, str)
    return body


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.words.append(data)


def parsed(page: str) -> _Text:
    parser = _Text()
    parser.feed(page)
    return parser


def text(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(parsed(page).words))


def test_a_card_shows_client_failure_onset_evidence_and_advice() -> None:
    page = text(get(deadlock()))
    mode = modes()["producer-callback-deadlock"]
    parts = [
        "orders-api / order-producer",
        "confirmed",
        "producer · java 3.9.1 · web-7:31337",
        mode.title,
        "since 21:02:30 UTC, for 1 min 30 s",
        mode.summary,
        "A callback calls get() on the only I/O thread; no other thread could deliver the result.",
        "metric 21:03:30 UTC select-total stayed at 10213 for 40 s while the buffer filled from 12 % to 96 %",
        "client-metrics/2@88123",
        "thread-dump 21:03:40 UTC",
        f"What to do: {mode.action}",
        "Runbook",
        "ok send-blocked-on-metadata",
        "Buffer 100 % used 4 threads wait",
        "Callback unknown I/O thread 100 % busy",
    ]
    at = 0
    for part in parts:
        at = page.find(part, at)
        assert at >= 0, f"{part!r} is missing, or too early"


def test_three_facts_decide_and_the_others_are_folded() -> None:
    facts = [
        {"kind": kind, "ts": NOW_MS - 1000 * ago, "text": f"fact {ago}"}
        for kind, ago in (("log", 50), ("thread-dump", 40), ("log", 30), ("log", 20), ("log", 10))
    ]
    detail = {"cause": "get-in-callback", "frozen_seconds": 40.0}
    page = get(
        record(verdict("producer-callback-deadlock", "confirmed", detail=detail, evidence=facts), worst="confirmed")
    )
    shown, folded = page.split('<summary class="small">2 more</summary>')
    assert re.findall(r"fact \d+", shown) == ["fact 40", "fact 20", "fact 10"]
    assert re.findall(r"fact \d+", folded) == ["fact 50", "fact 30"]
    assert "frozen_seconds: 40" in page and "get-in-callback" not in text(folded)


def test_worst_first_and_counted() -> None:
    page = text(get(healthy(), group(status="STOP"), record(worst="suspected", client_id="sus"), deadlock()))
    order = [page.index(name) for name in ("/ order-producer", "/ sus", "/ order-workers", "/ invoices")]
    assert order == sorted(order)
    assert "confirmed 1 suspected 1 lagging 1 ok 1" in page


def test_a_partly_judged_client_is_not_shown_as_healthy() -> None:
    blind = verdict("send-blocked-on-metadata", "unknown", reason="no line of its log was ever read")
    fine = [verdict(mode, "ok") for mode in ("delivery-stalled", "producer-callback-deadlock")]
    page = text(get(record(*fine, blind, worst="unknown"), healthy()))
    assert "partial 1 ok 1" in page and "No failure in the judged modes 1" in page
    missing = "not judged: send-blocked-on-metadata (no line of its log was ever read)"
    assert f"nothing found in 2 of 3 failure modes; {missing}" in page


def test_statuses_differ_by_shape_and_word() -> None:
    page_text = get(
        deadlock(),
        record(worst="suspected", client_id="a"),
        healthy(),
        record(worst="unknown", client_id="b"),
        record(verdict("a", "ok"), verdict("b", "unknown"), worst="unknown", client_id="c"),
    )
    shapes = dict(re.findall(r'<span class="badge (\w+)"><svg[^>]*>(.*?)</svg>', page_text))
    assert len(shapes) == 5 and len({re.sub(r"var\(--[\w-]+\)", "", shape) for shape in shapes.values()}) == 5


def test_hostile_text_never_becomes_markup() -> None:
    fact = {"kind": EVIL, "ts": NOW_MS, "text": EVIL, "source": {"topic": EVIL, "partition": 0, "offset": 1}}
    hostile = verdict(EVIL, "confirmed", detail={EVIL: EVIL, "list": [EVIL]}, evidence=[fact])
    blind = verdict("send-blocked-on-metadata", "unknown", reason=EVIL)
    ill = record(hostile, blind, worst="confirmed")
    ill["client"] |= dict.fromkeys(("service", "host", "instance", "client_id", "group", "library", "version"), EVIL)
    lag = group(EVIL, cluster=EVIL, status="STALL")
    lag["indicators"]["lag"][0] |= {"topic": EVIL, "member": {"client_id": EVIL}, "state": EVIL}
    queue = record(kind="consumer", service=EVIL, indicators={"queues": [{"topic": EVIL, "used_ratio": 1}]})
    for page in (get(ill, lag, queue), get(ill, query={"q": EVIL}), get(path="/client", query={"service": EVIL})):
        tags = parsed(page).tags
        assert not [tag for tag, _ in tags if tag in ("img", "iframe", "link", "object")]
        assert [a["src"] for tag, a in tags if tag == "script"] in ([], ["./page.js"])
        assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
        assert not [a for _, a in tags if (a.get("href") or "").lower().startswith(("javascript:", "data:"))]


TURNING = "\u202eevil\u05d0"


class _Bare(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.bare: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("bdi", "title", "style", "option"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("bdi", "title", "style", "option"):
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open:
            self.bare.append(data)


def test_foreign_text_turns_no_text_of_ours() -> None:
    fact = {"kind": TURNING, "ts": NOW_MS, "text": TURNING, "source": {"topic": TURNING, "partition": 0, "offset": 1}}
    turning = verdict(TURNING, "confirmed", detail={TURNING: TURNING, "list": [TURNING]}, evidence=[fact])
    blind = verdict("send-blocked-on-metadata", "unknown", reason=TURNING)
    names = dict.fromkeys(("service", "host", "instance", "client_id", "group", "library", "version"), TURNING)
    ill, unknown = record(turning, blind, worst="confirmed"), record(blind, worst="unknown")
    for one in (ill, unknown):
        one["client"] |= names
    unknown["client"]["instance"] = "another"
    lag = group(TURNING, cluster=TURNING, status="STALL")
    lag["indicators"]["lag"][0] |= {"topic": TURNING, "member": {"client_id": TURNING}, "state": TURNING}
    queue = record(kind="consumer", service=TURNING, indicators={"queues": [{"topic": TURNING, "used_ratio": 1}]})
    pages = (
        get(ill, unknown, lag, queue),
        get(ill, query={"q": TURNING}),
        get(ill, query={"q": f"{TURNING}{TURNING}"}),
    )
    for page in (*pages, get(path="/client", query={"service": TURNING})):
        bare = _Bare()
        bare.feed(page)
        assert TURNING in page and "\u202e" not in "".join(bare.bare)


def test_lone_surrogates_can_be_sent() -> None:
    page = get(record(service="\ud800", worst="suspected"))
    assert page.encode("utf-8", "replace")


def test_nothing_is_fetched_from_elsewhere() -> None:
    for page in (get(deadlock(), group()), status_page.runbook("producer-callback-deadlock") or ""):
        assert "url(" not in page and "@import" not in page
        assert {a["src"] for _, a in parsed(page).tags if "src" in a} <= {"./page.js"}


@pytest.mark.parametrize(
    ("age", "trouble", "reason"),
    [
        (10, None, None),
        (180, None, None),
        (181, None, "the newest data is from 21:04:00 UTC, 3 min 1 s ago"),
        (10, "Kafka at x:9092 is lost: NoBrokersAvailable", "Kafka at x:9092 is lost: NoBrokersAvailable"),
    ],
)
def test_a_blind_monitor_is_shown(age: int, trouble: str | None, reason: str | None) -> None:
    page = text(get(healthy(), now=NOW + age, trouble=trouble))
    assert ("The monitor is blind" in page) is (reason is not None)
    assert reason is None or reason.lower() in page.lower()


def test_an_empty_page_links_to_help() -> None:
    assert "No client has reported. Does anything write to client-metrics" in text(get())


def test_find_and_not_found() -> None:
    records = (deadlock(), healthy(3))
    assert "order-producer" not in text(get(*records, query={"q": "BILL-3"}))
    assert "bill-3" in text(get(*records, query={"q": " BILL-3 "}))
    assert "No client matches “nothing”" in text(get(*records, query={"q": "nothing"}))


def test_thousands_of_clients_are_on_pages_the_worst_first() -> None:
    records = [*(healthy(number) for number in range(1_000)), *(deadlock(instance=f"i-{n}") for n in range(100))]
    first, second, last = (get(*records, query={"page": page}) for page in ("1", "2", "99"))
    assert first.count("<article") == 10 and second.count("<article") == 10, "ten in full, the others in a line each"
    assert len(re.findall(r'<span class="badge confirmed">', first)) == 2 + 10 + 10 + 50 - 1
    assert '<strong>Healthy</strong> <span class="muted">1000</span>' in second and second.count("<tr>") == 21 + 31
    assert "page 1 of 19, 1100 clients" in text(first) and "page 19 of 19" in text(last)
    assert 'rel="next" href="./?page=2"' in first and 'rel="prev"' not in first and 'rel="next"' not in last
    assert len(first) < 300_000


FILTERED: list[dict[str, Any]] = [
    deadlock(),
    healthy(1),
    healthy(2, kind="consumer"),
    group("order-workers", cluster="prod-eu"),
    group("mailers", cluster="prod-us"),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"service": "billing"}, {"bill-1:77", "bill-2:77"}),
        ({"status": "confirmed"}, {"web-7:31337"}),
        ({"mode": "producer-callback-deadlock"}, {"web-7:31337"}),
        ({"mode": "consumer-stalled"}, set[str]()),
        ({"cluster": "prod-us"}, {"prod-us"}),
        ({"library": "java", "service": "billing", "q": "bill-2"}, {"bill-2:77"}),
        ({"version": "3.9.1", "status": "ok", "page": "x", "kind": "y"}, {"bill-1:77", "bill-2:77"}),
        ({"library": "broker", "version": "classic", "status": "ok"}, {"prod-eu", "prod-us"}),
    ],
)
def test_filters_stand_in_the_address(query: dict[str, str], names: set[str]) -> None:
    page = get(*FILTERED, query=query)
    shown = set(re.findall(r"instance=([^&\"]+)", page))
    assert {unquote(name) for name in shown} == names
    for name, value in query.items():
        if name in ("service", "status", "mode") and names:
            assert f'value="{value}" selected' in page


def test_only_what_differs_can_be_filtered_by() -> None:
    page = get(healthy(1), healthy(2))
    assert "<select" not in page
    assert 'name="service"' in get(*FILTERED) and "billing\u2069 (2)" in get(*FILTERED)
    many = get(*(healthy(number, service=f"s-{number}") for number in range(60)))
    assert '<datalist id="services">' in many and '<option value="s-7">' in many


def failing(mode: str, status: str, cause: str, **names: Any) -> dict[str, Any]:
    return record(verdict(mode, status, detail={"cause": cause}), worst=status, **names)


def test_failures_and_owners_stand_above_the_cards() -> None:
    blocked = "send-blocked-on-metadata"
    records = [
        *(failing(blocked, "confirmed", "topic-missing", service=f"s-{n % 5}", instance=f"i{n}") for n in range(40)),
        *(failing(blocked, "suspected", "unreachable", service="s-9", instance=f"j{n}") for n in range(7)),
        deadlock(),
        healthy(),
    ]
    page = get(*records)
    assert page.index("What is wrong") < page.index("Whose") < page.index("<article")
    title = modes()[blocked].title
    assert f"{title} topic-missing 40 s-0 , s-1 , s-2 and 2 more" in text(page)
    assert f"{title} unreachable 7 s-9" in text(page)
    assert (
        text(page).index("topic-missing 40") < text(page).index("get-in-callback 1") < text(page).index("unreachable 7")
    )
    assert "s-0 8 8 s-1 8 8" in text(page) and "orders-api 1 1" in text(page), "and of how many"
    assert f'href="./?mode={blocked}&amp;cause=topic-missing"' in page
    filtered = get(*records, query={"mode": blocked, "cause": "unreachable"})
    assert filtered.count("<article") == 7 and "get-in-callback" not in filtered.partition("<main")[2]
    assert "What is wrong" not in get(deadlock()), "a card shows it already"


def test_the_header_leads_to_the_fleet_and_a_clients_page_has_a_heading() -> None:
    header = get(healthy()).partition("</header>")[0]
    assert 'href="fleet"' in header
    (heading,) = re.findall("<h1>.*?</h1>", get(deadlock(), path="/client", query=NAMED))
    assert text(heading) == "orders-api / order-producer"


def test_a_plot_has_a_time_axis() -> None:
    # NOW is 21:04:00 UTC.
    svg = str(plot("Buffer", [(NOW - 60, 0.2), (NOW, 0.5)], NOW))
    assert re.findall(r">(\d\d:\d\d)<", svg) == ["21:00", "20:45", "20:30", "20:15"]
    assert 'x="93.33%"' in svg, "four minutes of sixty before the right edge"


def test_counts_lead_to_the_clients_that_they_count() -> None:
    assert 'href="./?service=billing&amp;status=ok"' in get(*FILTERED, query={"service": "billing"})


def tracked(seconds: int, step: int = 30) -> list[dict[str, Any]]:
    tracked_states = []
    for back in range(seconds, -1, -step):
        share = 1 - back / seconds
        end_ms = NOW_MS - back * 1000
        one = deadlock(end_ms=end_ms) if share > 0.5 else healthy(0, **IDENTITY, end_ms=end_ms)
        one["indicators"] = {**one["indicators"], "buffer_used_ratio": {"last": share, "max": share}}
        tracked_states.append(one)
    return tracked_states


IDENTITY = {"service": "orders-api", "host": "web-7", "instance": "web-7:31337", "client_id": "order-producer"}
NAMED = {name: IDENTITY[name] for name in ("service", "instance", "client_id")}


def test_a_clients_page_shows_its_last_hour_also_in_words() -> None:
    page = get(*tracked(1800), path="/client", query=NAMED)
    (line,) = re.findall(r"<desc>(Buffer, last hour[^<]*)</desc>", page)
    assert line == "Buffer, last hour: 0 % to 100 %, last 100 %, 61 readings"
    (points,) = re.findall(r'<desc>Buffer.*?<polyline class="curve" points="([^"]+)"', page)
    drawn = [tuple(map(float, point.split(","))) for point in points.split()]
    # The plot is 1000 units wide, and its first point is half an hour old.
    assert drawn[0] == (500.0, 55.0) and drawn[-1] == (1000.0, 1.0) and len(drawn) == 61


def test_a_clients_page_has_its_incidents_and_what_can_be_copied() -> None:
    page = get(*tracked(600), path="/client", query=NAMED)
    words = text(page)
    assert "Incidents" in words and "producer-callback-deadlock: still confirmed" in words
    assert "20:59:30 UTC producer-callback-deadlock: confirmed" in words
    assert "Kafka threads in its newest dumps" in words and "FutureRecordMetadata.get" in words
    assert 'data-copy="evidence-text" hidden' in page and "client-metrics/2@88123" in words
    assert "What is known of it" in words and "4194304.0" in words


def test_a_clients_page_has_the_options_that_judgement_looks_at() -> None:
    page = get(deadlock(config={"delivery.timeout.ms": "<120000>"}), path="/client", query=NAMED)
    assert "Its configuration" in page and "&lt;120000&gt;" in page
    assert "Its configuration" not in get(deadlock(), path="/client", query=NAMED)


def test_a_clients_page_lists_measured_costs_of_options_first() -> None:
    options = {"acks": "1", "max.block.ms": "60000"}  # four threads wait in send()
    shown = text(get(deadlock(config=options), path="/client", query=NAMED))
    measured, hint = "its callers: waiting_threads = 4, max.block.ms = 60000", "all replicas hint : acks = 1"
    assert shown.index(measured) < shown.index(hint)


def test_a_clients_page_has_what_is_known_of_its_version() -> None:
    page = get(deadlock(), path="/client", query=NAMED)
    assert '<a href="https://issues.apache.org/jira/browse/KAFKA-10790">KAFKA-10790</a>' in page
    assert "Causes producer-callback-deadlock. Fixed in 4.1.0." in text(page)
    assert "Upgrade to 4.1.2 or newer." in text(page)
    fresh = deadlock()
    fresh["client"]["version"] = "4.1.2"
    assert "Known bugs of its version" not in get(fresh, path="/client", query=NAMED)


def test_a_clients_page_has_its_trouble_that_no_mode_is_about() -> None:
    source = {"topic": "client-logs", "partition": 1, "offset": 7}
    seen = {"what": "tls", "lines": 12, "first": NOW_MS - 60_000, "last": NOW_MS - 5_000, "text": "<b>no</b>"}
    unknown = {**seen, "what": "of-a-later-release", "source": None, "of_process": True}
    row = {**healthy(), "also_seen": [{**seen, "source": source}, unknown]}
    client = row["client"]
    query = {name: client[name] for name in ("service", "instance", "client_id")}
    page = re.sub("[\u2066-\u2069]", "", text(get(row, path="/client", query=query)))
    assert "Also seen: TLS failed , 12 lines, last" in page
    assert "The TLS handshake with a broker failed" in page and "<b>no</b> client-logs/1@7" in page
    assert "Also seen: of-a-later-release in its process, by lines that name no client, 12 lines" in page


def test_a_plot_has_gaps_where_nothing_is_known() -> None:
    points = [
        (NOW - 600, 0.2),
        (NOW - 570, 0.3),
        (NOW - 540, None),
        (NOW - 510, 0.4),
        (NOW - 100, 0.5),
        (NOW - 70, 0.5),
    ]
    svg = str(plot("Buffer", points, NOW))
    assert svg.count("<polyline") == 2 and svg.count("<circle") == 1
    assert plot("Lag", [(NOW, None)], NOW) is None


def test_the_fleet_by_hour_by_version_and_stale_clients() -> None:
    ill = [deadlock(end_ms=NOW_MS - hours * 3_600_000, instance=f"i-{hours}") for hours in (0, 2)]
    fine = [healthy(number) for number in range(30)]
    away = healthy(99, departed=True)
    page = get(*ill, *fine, away, path="/fleet")
    cells = re.findall(r'<td class="(\w+)"', re.split("<tr>", page)[2])
    assert cells[-1] == "bad" and cells[-3] == "bad" and cells[-2] == "none" and len(cells) == 24
    words = text(page)
    assert "java 3.9.1 32 1 3 4.1.2" in words  # 3 bugs: KAFKA-10790, KAFKA-19012, KAFKA-19747
    assert "billing / invoices bill-99:77 has ended 21:04:00 UTC" in words
    assert 'href="./?service=billing"' in page


def test_memory_of_the_last_hour_is_bounded_and_keeps_the_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_CLIENTS", 3)
    states = States(Settings(), clock=lambda: NOW)
    for number in range(4):
        states.put(*wire(healthy(number)))
    states.put(*wire(deadlock()))
    kept = [states.history.track(f"billing|bill-{number}:77|invoices") is not None for number in range(4)]
    assert kept == [False, True, True, False]
    track = states.history.track("orders-api|web-7:31337|order-producer")
    assert track is not None
    for point in range(1, 500):
        states.put(*wire(deadlock(end_ms=NOW_MS + point * 30_000)))
    assert len(track.series("Buffer", 0)) == history.POINTS


def test_page_of_one_client_and_of_none() -> None:
    named = {"service": "orders-api", "instance": "web-7:31337", "client_id": "order-producer"}
    assert "select-total stayed" in text(get(deadlock(), healthy(), path="/client", query=named))
    missing = text(get(healthy(), path="/client", query=named))
    assert "Nothing is known of orders-api · web-7:31337 · order-producer" in missing
    assert "sent no data for more than 15 min" in missing


def test_links_follow_the_settings() -> None:
    links = LinkSettings(runbooks="https://wiki.example.org/r/", dashboards="https://grafana.example.org")
    page = get(deadlock(), settings=replace(Settings(), links=links))
    assert 'href="https://wiki.example.org/r/producer-callback-deadlock"' in page
    assert "https://grafana.example.org" in page
    assert 'href="./runbooks/producer-callback-deadlock"' in get(deadlock())


def test_groups_show_their_lag() -> None:
    page = text(get(group(status="STALL")))
    assert "lagging: STALL" in page
    assert "commits the same offset again and again, or a partition" in page
    assert "240 records STALL, oldest 4 s, 2 partitions" in page
    assert "orders-1 STALL 120 4 s worker-1" in page
    alone = text(get(group(status="STALL", partitions=1)))
    assert "1 partition " in alone and "1 partitions" not in alone


def test_whole_numbers_of_a_verdict_are_shown_whole() -> None:
    detail = {"partitions": 1.0, "seconds_since_poll": 236.0, "share": 0.25, "offset": 4711}
    page = text(get(record(verdict("consumer-stalled", "confirmed", detail=detail), worst="confirmed")))
    assert "partitions: 1 · seconds_since_poll: 236 · share: 0.25 · offset: 4711" in page


def test_unknown_is_never_zero() -> None:
    page = text(get(record(worst="unknown"), record(client_id="c", kind="consumer", worst="suspected")))
    assert "unknown" in page and not re.search(r"\b0 (%|ms|records)", page)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (252, "4 min 12 s"),
        (11_100, "3 h 5 min"),
        (90_061, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert wording.duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.00013, "0.13 ms"), (0.012, "12 ms"), (1.25, "1.2 s"), (200, "3 min 20 s")]
)
def test_latencies(seconds: float, shown: str) -> None:
    assert wording.latency(seconds) == shown


def test_a_small_share_is_not_none_and_a_fact_may_have_no_time() -> None:
    assert [wording.percent(share) for share in (0.0, 0.003, 0.5, 1.0)] == ["0 %", "0.3 %", "50 %", "100 %"]
    assert [wording.clock(ts_ms) for ts_ms in (None, 1000)] == ["--:--:--", "00:00:01"]
    assert wording.moment_of(None) == "time unknown"


def test_moments() -> None:
    assert wording.moment(NOW, NOW) == "21:04:00 UTC"
    assert wording.moment(NOW - 86_400, NOW) == "2026-11-19 21:04:00 UTC"
    assert wording.moment(1e18, NOW) == "an impossible time"


def test_every_runbook_is_served() -> None:
    assert set(modes()) <= set(status_page.runbook_names())
    for name in status_page.runbook_names():
        page = status_page.runbook(name)
        assert page and '<h2 id="mitigation">Mitigation</h2>' in page
        assert "<!--" not in page and "```" not in page
    assert status_page.runbook("nothing") is None and status_page.runbook("../../README") is None
    for name in status_page.runbook_names():
        assert f'href="./runbooks/{name}"' in status_page.runbook_index()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("# A & B", '<h1 id="a-b">A &amp; B</h1>'),
        ("| a |\n|---|\n| `x \\| y` |", '<div class="scroll"><table>'),
        ("| a |\n|---|\n| `x \\| y` |", "<td><code>x | y</code></td>"),
        ("[t](https://x.example/?a=1&b=2)", '<a href="https://x.example/?a=1&amp;b=2">t</a>'),
        ("[t](javascript:alert(1))", "<p>[t](javascript:alert(1))</p>"),
        ("<!-- gone\n--><b>raw</b>", "<p>&lt;b&gt;raw&lt;/b&gt;</p>"),
    ],
)
def test_markdown(source: str, wanted: str) -> None:
    assert wanted in html(source)
    assert "gone" not in html(source)
