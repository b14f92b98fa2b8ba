"""Check that an alert passes from a real Prometheus through Alertmanager to a webhook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from clienthealth.platform.web import Request
from clienthealth.settings import Settings
from clienthealth_exporters.alerts.build import write
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from deploy.demo.alerting import alertmanager_config
from deploy.demo.processes import free_port
from tests.support.alert_rules import ROOT
from tests.support.health_records import deadlock, group, healthy, record, verdict, wire
from tests.support.waiting import WAIT_SECONDS, eventually, patient

PROMETHEUS = shutil.which("prometheus")
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
PATIENCE_SECONDS = 300.0
SLACK_SECONDS = 15.0
MONITOR_RUNS = 'kafka_client_health_query_up{query="monitor"} 1\n'

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (PROMETHEUS and ALERTMANAGER), reason="prometheus and alertmanager are not installed"),
]


class World:
    def __init__(self) -> None:
        self.client_page = ""
        self.monitor_page: str | None = MONITOR_RUNS
        self.received: list[dict[str, Any]] = []
        self.alertmanager = ""

    def firing(self) -> set[tuple[str, str]]:
        state: dict[str, dict[str, Any]] = {}
        for notification in list(self.received):
            state |= {alert["fingerprint"]: alert for alert in notification["alerts"]}
        return {
            (alert["labels"]["alertname"], alert["labels"]["severity"])
            for alert in state.values()
            if alert["status"] == "firing"
        }

    def suppressed(self, **labels: str) -> bool:
        return any(
            alert["status"]["state"] == "suppressed"
            for alert in self.known()
            if labels.items() <= alert["labels"].items()
        )

    def known(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.alertmanager}/api/v2/alerts", timeout=30) as answer:
            alerts: list[dict[str, Any]] = json.load(answer)
        return alerts


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    assert PROMETHEUS and ALERTMANAGER
    running = World()
    with ExitStack() as stack:
        pages = stack.enter_context(serving(running))
        alertmanager = free_address()
        running.alertmanager = f"http://{alertmanager}"
        write(tmp_path, Settings(), dry_run=False)
        (tmp_path / "alertmanager.yml").write_text(alertmanager_config(f"http://{pages}/hook", "1s"), "utf-8")
        routing = [f"--config.file={tmp_path}/alertmanager.yml", f"--storage.path={tmp_path}/alertmanager"]
        routing += [f"--web.listen-address={alertmanager}", "--cluster.listen-address="]
        stack.enter_context(started([ALERTMANAGER, *routing], tmp_path / "alertmanager.log", alertmanager))
        stack.enter_context(prometheus(tmp_path, pages, alertmanager))
        yield running


@contextmanager
def prometheus(
    folder: Path, pages: str, alertmanager: str, every: str = "1s", again: str = "1s", paging: str = ""
) -> Iterator[str]:
    """Run Prometheus with our rules. Each `for` in the rules is set to one second.

    `again`: the time after which Prometheus repeats an alert.
    """
    assert PROMETHEUS
    address = free_address()
    for path in (folder / "rules").glob("*.yml"):
        text = re.sub(r'\b(for|keep_firing_for): "?\w+"?', r"\1: 1s", path.read_text("utf-8"))
        path.write_text(
            re.sub(r'^( *interval): "?\w+"?$', rf"\1: {paging or every}", text, flags=re.MULTILINE), "utf-8"
        )
    (folder / "prometheus.yml").write_text(
        f"""
global: {{scrape_interval: {every}, evaluation_interval: {every}}}
rule_files: ["{folder}/rules/*.yml"]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alertmanager}"]}}]}}]}}
scrape_configs:
  - {{job_name: kafka-client-health, honor_labels: true, static_configs: [{{targets: ["{pages}"]}}]}}
  - {{job_name: kafka-client-health-monitor, metrics_path: /monitor, static_configs: [{{targets: ["{pages}"]}}]}}
""",
        "utf-8",
    )
    scraping = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
    scraping += [f"--web.listen-address={address}", f"--rules.alert.resend-delay={again}"]
    with started([PROMETHEUS, *scraping], folder / "prometheus.log", address):
        yield address
        assert not failed_rules(address)


def failed_rules(address: str) -> list[str]:
    with urllib.request.urlopen(f"http://{address}/api/v1/rules", timeout=30) as answer:
        groups = json.load(answer)["data"]["groups"]
    return [f"{rule['name']}: {rule['lastError']}" for of in groups for rule in of["rules"] if rule["health"] == "err"]


def scraped(address: str) -> bool:
    with urllib.request.urlopen(f"http://{address}/api/v1/query?query=sum(up)", timeout=30) as answer:
        found = json.load(answer)["data"]["result"]
    return bool(found) and found[0]["value"][1] == "2"


def test_every_alert_arrives_with_its_runbook_and_no_other(world: World) -> None:
    states = show(world)
    expected = {
        ("KafkaClientProducerCallbackDeadlock", "critical"),
        ("KafkaClientSendBlockedOnMetadata", "warning"),
        ("KafkaClientLagStalled", "warning"),
    }
    eventually(lambda: world.firing() >= expected, f"{sorted(expected)}; delivered: {sorted(world.firing())}")
    eventually(lambda: world.suppressed(measurement="buffer"), "the ticket for the full buffer is held back")
    assert world.firing() == expected, "what is explained by a failure has no alert of its own"
    for notification in world.received:
        for alert in notification["alerts"]:
            annotations = alert["annotations"]
            page = annotations["runbook_url"].removeprefix("http://127.0.0.1:9309")
            assert exporter(states)(Request(page, {})).status == 200
            assert annotations["dashboard_url"].startswith("http://127.0.0.1:3000/d/kafka-client-health-")
    (deadlocked,) = (n for n in world.received if n["commonLabels"].get("mode") == "producer-callback-deadlock")
    description = deadlocked["alerts"][0]["annotations"]["description"]
    assert description.startswith("order-producer of orders-api on web-7:31337: confirmed since 20")
    address = "http://127.0.0.1:9309/client?service=orders-api&instance=web-7%3A31337&client_id=order-producer"
    assert description.endswith(address) and deadlocked["receiver"] == "pager"


def test_a_page_arrives_within_the_documented_time(tmp_path: Path) -> None:
    """A page may take 18 s: scrape interval (5 s), evaluation interval (10 s) and group_wait (3 s)."""
    assert ALERTMANAGER
    scraping = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))["scrape_configs"][0]
    evaluating = yaml.safe_load((ROOT / "alerts/rules/failure-modes.yml").read_text("utf-8"))["groups"][0]
    routes = yaml.safe_load((ROOT / "alerts/alertmanager.yml").read_text("utf-8"))["route"]["routes"]
    paging = next(route for route in routes if route["receiver"] == "pager")
    waits = {"scrape_interval": scraping, "interval": evaluating, "group_wait": paging}
    seconds = {name: int(of[name].removesuffix("s")) for name, of in waits.items()}
    assert 40 + 0.5 + sum(seconds.values()) <= 60, "of 95 % the verdict is there after 40 s"
    running = World()
    running.client_page = metrics(healthy(end_ms=now_ms()))
    with ExitStack() as stack:
        pages = stack.enter_context(serving(running))
        running.alertmanager = f"http://{(alertmanager := free_address())}"
        write(tmp_path, Settings(), dry_run=False)
        (tmp_path / "alertmanager.yml").write_text(alertmanager_config(f"http://{pages}/hook"), "utf-8")
        routing = [f"--config.file={tmp_path}/alertmanager.yml", f"--storage.path={tmp_path}/alertmanager"]
        routing += [f"--web.listen-address={alertmanager}", "--cluster.listen-address="]
        stack.enter_context(started([ALERTMANAGER, *routing], tmp_path / "alertmanager.log", alertmanager))
        every, rules = scraping["scrape_interval"], evaluating["interval"]
        address = stack.enter_context(prometheus(tmp_path, pages, alertmanager, every, again="1m", paging=rules))
        # Until Prometheus has scraped both targets, an alert may say that a target is down. Such an alert holds back
        # the page.
        eventually(lambda: scraped(address), "both are scraped")
        eventually(lambda: quiet(running), "nothing counts as down")
        begun = time.monotonic()
        show(running)
        page = ("KafkaClientProducerCallbackDeadlock", "critical")
        try:
            eventually(lambda: page in running.firing(), "the page")
        except TimeoutError as error:
            error.add_note(f"what Alertmanager knows: {json.dumps(running.known(), indent=1)}")
            raise
    assert time.monotonic() - begun <= patient(sum(seconds.values()) + SLACK_SECONDS)


def test_cured_clients_are_reported_as_cured(world: World) -> None:
    show(world)
    page = ("KafkaClientProducerCallbackDeadlock", "critical")
    eventually(lambda: page in world.firing(), "the page")
    world.client_page = metrics(healthy(end_ms=now_ms()))
    eventually(lambda: page not in world.firing(), "its end")


def test_blind_monitor_silences_the_clients_and_speaks_itself(world: World) -> None:
    world.monitor_page = None
    down = ("KafkaClientHealthMonitorDown", "critical")
    eventually(lambda: down in world.firing(), "the monitor is down")
    show(world)
    eventually(
        lambda: world.suppressed(mode="producer-callback-deadlock", severity="critical"),
        "Alertmanager holds the page back",
    )
    assert not {name for name, _ in world.firing() if not name.startswith("KafkaClientHealth")}
    world.monitor_page = MONITOR_RUNS
    page = ("KafkaClientProducerCallbackDeadlock", "critical")
    eventually(lambda: page in world.firing(), "the page, once the monitor is back")


def quiet(world: World) -> bool:
    world.client_page = metrics(healthy(end_ms=now_ms()))
    return not world.known()


def show(world: World) -> States:
    records = [
        deadlock(end_ms=now_ms()),
        record(
            verdict("send-blocked-on-metadata", "suspected"), service="checkout", worst="suspected", end_ms=now_ms()
        ),
        group(status="STALL", end_ms=now_ms()),
        group("fine", end_ms=now_ms()),
        *(healthy(number, end_ms=now_ms()) for number in range(2)),
    ]
    states = States(Settings())
    for one in records:
        name, value, _ = wire(one)
        states.put(name, value, now_ms())
    world.client_page = b"".join(exporter(states).metrics()).decode()
    return states


def metrics(*records: dict[str, Any]) -> str:
    states = States(Settings())
    for one in records:
        name, value, _ = wire(one)
        states.put(name, value, now_ms())
    return b"".join(exporter(states).metrics()).decode()


def exporter(states: States) -> Exporter:
    return Exporter(Settings(), states, lambda: None)


def now_ms() -> int:
    return int(time.time() * 1000)


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


@contextmanager
def serving(world: World) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = world.client_page if self.path == "/metrics" else world.monitor_page
            self.send_response(503 if page is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write((page or "").encode())

        def do_POST(self) -> None:
            world.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def started(command: Sequence[str], log: Path, address: str) -> Iterator[None]:
    def ready() -> bool:
        assert process.poll() is None, log.read_text("utf-8")
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=30):
                return True
        except OSError:
            return False

    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        eventually(ready, f"{command[0]} is ready")
        yield
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)
