"""Check that the status page fits a desktop and a phone of 390 px in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clienthealth.platform.web import Request, Response, Server
from clienthealth.settings import PrometheusSettings, Settings
from clienthealth_exporters.prometheus import status_page
from clienthealth_exporters.prometheus.exporter import PROBES, Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support import browser
from tests.support.health_records import NOW_MS, deadlock, group, healthy, record, verdict, wire

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
#: Simulates a phone with an iframe, because a window cannot be narrower than 500 px.
FRAME = """<!doctype html><title>waiting</title><meta name="color-scheme" content="light dark">
<style>body{{margin:0}}iframe{{border:0;display:block}}</style>
<iframe id="f" width="{width}" height="{height}" src="{url}"></iframe>
<script>f.onload = () => {{ const d = f.contentDocument.documentElement;
document.title = `width ${{d.scrollWidth}} of ${{d.clientWidth}} height ${{d.scrollHeight}}`; }}</script>"""
LONG = "a-service-with-a-very-long-name-that-nobody-would-choose-but-somebody-always-does.prod.eu-central-1"

pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    dump = "kafka-producer-network-thread | " + "x" * 300
    suspected = verdict(
        "send-blocked-on-metadata",
        "suspected",
        detail={"cause": "topic-missing", "topic": "ordres", "blocked_threads": 8},
        evidence=[
            {
                "kind": "log",
                "ts": NOW_MS - 5_000,
                "text": "NetworkClient asked 14 times in 10 s; each answer was that the topic ordres is unknown",
                "source": {"topic": "client-logs", "partition": 0, "offset": 9_120},
            }
        ],
    )
    long_text = verdict(
        "producer-callback-deadlock", "confirmed", evidence=[{"kind": "log", "ts": NOW_MS, "text": dump}]
    )
    lag = {"queues": [{"topic": "trade", "used_ratio": 0.45}], "poll_idle_ratio": 0.4, "last_poll_age_seconds": 1}
    records = [
        deadlock(),
        record(suspected, service="checkout", client_id="basket-events", instance="pod-77c9f", worst="suspected"),
        group("order-workers", status="STALL", partitions=4),
        record(
            verdict("cross-topic-blocking", "ok"), service="search", kind="consumer", client_id="index", indicators=lag
        ),
        record(service="legacy", kind="legacy-consumer", client_id="spout", instance="storm-1:9", worst="unknown"),
        *(healthy(number) for number in range(6)),
    ]
    extreme = record(long_text, service=LONG, instance=LONG, client_id=LONG * 2, worst="confirmed")
    for one in (*records, *([] if os.environ.get("KAFKA_HEALTH_SCREENSHOTS") else [extreme])):
        states.put(*wire(one))
    inner = Exporter(Settings(), states, lambda: None, clock=lambda: NOW_MS / 1000 + 4)

    def answer(request: Request) -> Response:
        if request.path == "/frame":
            return Response(FRAME.format(**request.query), headers={"Content-Security-Policy": ""})
        return replace(inner(request), headers={"Content-Security-Policy": "frame-ancestors 'self'"})

    with Server(PrometheusSettings(port=0), answer, PROBES) as found_server:
        threading.Thread(target=found_server.serve_forever, daemon=True).start()
        yield found_server
        found_server.shutdown()


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("path", ["/", "/runbooks/producer-callback-deadlock", "/runbooks/monitor-health"])
def test_nothing_is_wider_than_the_screen(server: Server, tmp_path: Path, width: int, path: str) -> None:
    dom = chromium(tmp_path, f"{server.url}/frame?width={width}&height=900&url={path}", "--dump-dom", width=width)
    match = re.search(r"<title>width (\d+) of (\d+) height (\d+)</title>", dom)
    assert match, dom[:500]
    content, screen, height = map(int, match.groups())
    assert (screen, height > 900) == (width, True)
    assert content <= screen, f"{path} is {content} px wide on a screen of {screen} px"


@pytest.mark.parametrize("clients", [10, 10_000])
def test_a_fleet_on_a_desktop_and_on_a_phone(clients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = browser.node_modules()
    monkeypatch.setattr(status_page, "REFRESH_SECONDS", 1)
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    for number in range(clients):
        names = {"service": f"service-{number % 200}", "instance": f"pod-{number}:7"}
        states.put(*wire(deadlock(**names) if number % 10 == 0 else healthy(number, **names)))
    inner = Exporter(Settings(), states, lambda: None, clock=lambda: NOW_MS / 1000)

    def answer(request: Request) -> Response:
        if request.path == "/change":
            for number in range(clients):
                names = {"service": "just-came", "instance": f"pod-{number}:8"}
                states.put(*wire(deadlock(**names) if number % 10 == 0 else healthy(number, **names)))
            return Response("done")
        return inner(request)

    paths = ["/", "/client?service=service-0&instance=pod-0%3A7&client_id=order-producer", "/fleet"]
    with Server(PrometheusSettings(port=0), answer, PROBES) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        urllib.request.urlopen(server.url).read()
        first_bytes = min(_first_byte(f"{server.url}{paths[0]}") for _ in range(5))
        script = str(browser.SCRIPT.with_name("status_page_check.mjs"))
        command = [str(browser.NODE), script, str(modules / "node_modules"), str(CHROMIUM), server.url, *paths]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        server.shutdown()
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert first_bytes <= 0.3
    for look in report["looks"]:
        assert look["wide"] <= look["width"], look
        assert look["broken"] == [], look
        assert look["passes"] > 15 and look["bad"] == [], look
    before, after = report["refresh"]["before"], report["refresh"]["after"]
    assert before[1] is False and after == {"scroll": before[0], "same": True, "open": True}
    assert report["refresh"]["refused"] == [], "the page's own policy lets its script run"
    assert report["copy"] == {"shown": True}
    assert report["plain"]["text"] > 300 and report["plain"]["reload"] == 1


def _first_byte(url: str) -> float:
    began = time.monotonic()
    with urllib.request.urlopen(url) as answer:
        answer.read(1)
    return time.monotonic() - began


@pytest.mark.parametrize(("name", "width", "height"), [("desktop", 1200, 1500), ("phone", 390, 1700)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_picture(server: Server, tmp_path: Path, name: str, width: int, height: int, scheme: str) -> None:
    folder = Path(os.environ.get("KAFKA_HEALTH_SCREENSHOTS") or tmp_path)
    picture = folder / f"status-page-{name}-{scheme}.png"
    url = f"{server.url}/frame?width={width}&height={height}&url=/"
    dark = "--blink-settings=preferredColorScheme=0" if scheme == "dark" else "--blink-settings=preferredColorScheme=1"
    chromium(tmp_path, url, f"--screenshot={picture}", dark, width=width, height=height)
    header = picture.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert picture.stat().st_size > 40_000, "an empty page"


def chromium(folder: Path, url: str, *options: str, width: int, height: int = 900) -> str:
    assert CHROMIUM
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", f"--window-size={width},{height}"]
    command += ["--virtual-time-budget=4000", *options, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
