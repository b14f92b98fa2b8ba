"""The status page: what it says, in which order, and that nothing of a record becomes markup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from clienthealth.model import wording
from clienthealth.modes import modes
from clienthealth.platform.web import Request
from clienthealth.settings import LinkSettings, Settings
from clienthealth_exporters.prometheus import runbook_pages
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.markdown import html
from clienthealth_exporters.prometheus.states import States
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
    """A page as the server answers it."""
    chosen = settings or Settings()
    states = States(chosen, clock=lambda: NOW)
    for found in records:
        states.put(*wire(found))
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
    found = _Text()
    found.feed(page)
    return found


def text(page: str) -> str:
    """What a reader sees, on one line."""
    return re.sub(r"\s+", " ", " ".join(parsed(page).words))


def test_says_who_what_since_when_why_and_what_to_do() -> None:
    page = text(get(deadlock()))
    mode = modes()["producer-callback-deadlock"]
    parts = [
        "orders-api / order-producer",
        "confirmed",
        "producer · java 3.9.1 · web-7:31337",
        mode.title,
        "since 21:02:30 UTC, for 1 min 30 s",
        mode.summary,
        "cause: get-in-callback",
        "metric 21:03:30 UTC select-total stood at 10213 for 40 s while the buffer filled from 12 % to 96 %",
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


def test_worst_first_and_counted() -> None:
    page = text(get(healthy(), group(status="STOP"), record(worst="suspected", client_id="sus"), deadlock()))
    order = [page.index(name) for name in ("/ order-producer", "/ sus", "/ order-workers", "/ invoices")]
    assert order == sorted(order)
    assert "confirmed 1 suspected 1 lagging 1 ok 1" in page


def test_statuses_differ_by_shape_and_word() -> None:
    found = get(deadlock(), record(worst="suspected", client_id="a"), healthy(), record(worst="unknown", client_id="b"))
    shapes = dict(re.findall(r'<span class="badge (\w+)"><svg[^>]*>(.*?)</svg>', found))
    assert len(shapes) == 4 and len({re.sub(r"var\(--[\w-]+\)", "", shape) for shape in shapes.values()}) == 4


def test_hostile_text_never_becomes_markup() -> None:
    fact = {"kind": EVIL, "ts": NOW_MS, "text": EVIL, "source": {"topic": EVIL, "partition": 0, "offset": 1}}
    found = verdict(EVIL, "confirmed", detail={EVIL: EVIL, "list": [EVIL]}, evidence=[fact])
    blind = verdict("send-blocked-on-metadata", "unknown", reason=EVIL)
    ill = record(found, blind, worst="confirmed")
    ill["client"] |= dict.fromkeys(("service", "host", "instance", "client_id", "group", "library", "version"), EVIL)
    lag = group(EVIL, cluster=EVIL, status="STALL")
    lag["indicators"]["lag"][0] |= {"topic": EVIL, "member": {"client_id": EVIL}, "state": EVIL}
    queue = record(kind="consumer", service=EVIL, indicators={"queues": [{"topic": EVIL, "used_ratio": 1}]})
    for page in (get(ill, lag, queue), get(ill, query={"q": EVIL}), get(path="/client", query={"service": EVIL})):
        tags = parsed(page).tags
        assert not [tag for tag, _ in tags if tag in ("script", "img", "iframe", "link", "object")]
        assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
        assert not [a for _, a in tags if (a.get("href") or "").lower().startswith(("javascript:", "data:"))]


#: Turns the direction of all text that follows it in its paragraph.
TURNING = "\u202eevil\u05d0"


class _Bare(HTMLParser):
    """The text outside of <bdi>, <title> and <style>."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("bdi", "title", "style"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("bdi", "title", "style"):
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open:
            self.found.append(data)


def test_foreign_text_turns_no_text_of_ours() -> None:
    fact = {"kind": TURNING, "ts": NOW_MS, "text": TURNING, "source": {"topic": TURNING, "partition": 0, "offset": 1}}
    found = verdict(TURNING, "confirmed", detail={TURNING: TURNING, "list": [TURNING]}, evidence=[fact])
    blind = verdict("send-blocked-on-metadata", "unknown", reason=TURNING)
    names = dict.fromkeys(("service", "host", "instance", "client_id", "group", "library", "version"), TURNING)
    ill, unknown = record(found, blind, worst="confirmed"), record(blind, worst="unknown")
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
        assert TURNING in page and "\u202e" not in "".join(bare.found)


def test_lone_surrogates_can_be_sent() -> None:
    page = get(record(service="\ud800", worst="suspected"))
    assert page.encode("utf-8", "replace")


def test_nothing_is_fetched_from_elsewhere() -> None:
    for page in (get(deadlock(), group()), runbook_pages.page("producer-callback-deadlock") or ""):
        assert "url(" not in page and "@import" not in page
        assert not [a for _, a in parsed(page).tags if "src" in a]


@pytest.mark.parametrize(
    ("age", "trouble", "says"),
    [
        (10, None, None),
        (180, None, None),
        (181, None, "the newest data is from 21:04:00 UTC, 3 min 1 s ago"),
        (10, "Kafka at x:9092 is lost: NoBrokersAvailable", "Kafka at x:9092 is lost: NoBrokersAvailable"),
    ],
)
def test_blind_monitor_says_so(age: int, trouble: str | None, says: str | None) -> None:
    page = text(get(healthy(), now=NOW + age, trouble=trouble))
    assert ("The monitor is blind" in page) is (says is not None)
    assert says is None or says.lower() in page.lower()


def test_no_client_yet_tells_where_to_look() -> None:
    assert "No client has reported. Does anything write to client-metrics" in text(get())


def test_find_and_not_found() -> None:
    records = (deadlock(), healthy(3))
    assert "order-producer" not in text(get(*records, query={"q": "BILL-3"}))
    assert "bill-3" in text(get(*records, query={"q": " BILL-3 "}))
    assert "No client matches “nothing”" in text(get(*records, query={"q": "nothing"}))


def test_thousands_of_healthy_clients_are_collapsed_and_limited() -> None:
    page = get(*(healthy(number) for number in range(1_000)), deadlock())
    assert '<details class="list"><summary><strong>Healthy</strong> <span class="muted">1000</span>' in page
    assert "600 more are not shown" in text(page)
    assert len(page) < 700_000


def test_hundreds_of_ill_clients_are_limited() -> None:
    page = get(*(deadlock(instance=f"i-{number}") for number in range(100)))
    assert page.count("<article") == 60 and "40 more are not shown" in text(page)


def test_page_of_one_client_and_of_none() -> None:
    named = {"service": "orders-api", "instance": "web-7:31337", "client_id": "order-producer"}
    assert "select-total stood" in text(get(deadlock(), healthy(), path="/client", query=named))
    missing = text(get(healthy(), path="/client", query=named))
    assert "Nothing is known of orders-api · web-7:31337 · order-producer" in missing
    assert "silent for more than 15 min" in missing


def test_links_follow_the_settings() -> None:
    links = LinkSettings(runbooks="https://wiki.example.org/r/", dashboards="https://grafana.example.org")
    page = get(deadlock(), settings=replace(Settings(), links=links))
    assert 'href="https://wiki.example.org/r/producer-callback-deadlock"' in page
    assert "https://grafana.example.org" in page
    assert 'href="/runbooks/producer-callback-deadlock"' in get(deadlock())


def test_groups_show_their_lag() -> None:
    page = text(get(group(status="STALL")))
    assert "lagging: STALL" in page
    assert "commits the same offset again and again while records wait" in page
    assert "240 records STALL, oldest 4 s, 2 partitions" in page
    assert "orders-1 STALL 120 4 s worker-1" in page


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
    assert wording.short_seconds(seconds) == shown


def test_moments() -> None:
    assert wording.moment(NOW, NOW) == "21:04:00 UTC"
    assert wording.moment(NOW - 86_400, NOW) == "2026-11-19 21:04:00 UTC"
    assert wording.moment(1e18, NOW) == "an impossible time"


def test_every_runbook_is_served() -> None:
    assert set(modes()) <= set(runbook_pages.names())
    for name in runbook_pages.names():
        page = runbook_pages.page(name)
        assert page and '<h2 id="mitigation">Mitigation</h2>' in page
        assert "<!--" not in page and "```" not in page
    assert runbook_pages.page("nothing") is None and runbook_pages.page("../../README") is None
    for name in runbook_pages.names():
        assert f'href="/runbooks/{name}"' in runbook_pages.index()


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
