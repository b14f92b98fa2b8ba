"""Send a thousand clients' alerts to a real Alertmanager with our routes and templates."""

from __future__ import annotations

import json
import re
import shutil
import socketserver
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from clienthealth.settings import Settings
from clienthealth_exporters.alerts.build import write
from tests.e2e import test_alert_delivery as delivery
from tests.e2e.test_alert_delivery import free_address, started
from tests.support.alert_rules import ROOT, alerts
from tests.support.waiting import WAIT_SECONDS, eventually

PROMETHEUS = shutil.which("prometheus")
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
pytestmark = [pytest.mark.long, pytest.mark.skipif(ALERTMANAGER is None, reason="alertmanager is not installed")]

LIMIT_BYTES = 20_000
SILENT_SECONDS = 2.5
EVERY = {(rule.name, rule.labels["severity"]): rule for rule in alerts()}
DEADLOCK = "KafkaClientProducerCallbackDeadlock"
HOSTILE = '<!channel> <https://evil.example.org|Runbook> <@U012AB3CD> "&lt;é\\' * 10


class World:
    def __init__(self, address: str) -> None:
        self.address = address
        self.sent: dict[str, list[bytes]] = {"/pagerduty": [], "/slack": [], "mail": []}

    def post(self, alerts: Sequence[dict[str, object]]) -> None:
        """Post alerts in batches of 64, as Prometheus does."""
        for start in range(0, len(alerts), 64):
            body = json.dumps(alerts[start : start + 64]).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://{self.address}/api/v2/alerts", body, headers)
            urllib.request.urlopen(request, timeout=WAIT_SECONDS).close()

    def settled(self, way: str, at_least: int) -> list[bytes]:
        eventually(lambda: len(self.sent[way]) >= at_least, f"{at_least} by {way}")
        waited = threading.Event()
        before = -1
        while before != sum(map(len, self.sent.values())):
            before = sum(map(len, self.sent.values()))
            waited.wait(SILENT_SECONDS)
        return self.sent[way]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with notified(tmp_path, wait="1s") as running:
        yield running


@contextmanager
def notified(folder: Path, wait: str = "") -> Iterator[World]:
    """Run Alertmanager. If `wait` is not empty, it replaces each `group_wait` and `group_interval`."""
    assert ALERTMANAGER
    running = World(free_address())
    with ExitStack() as stack:
        http = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), _http(running.sent)))
        mail = stack.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _mail(running.sent["mail"])))
        for server in (http, mail):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        address = f"http://127.0.0.1:{http.server_address[1]}"
        write(folder, Settings(), dry_run=False)
        text = (folder / "alertmanager.yml").read_text("utf-8")
        if wait:
            text = re.sub(r"(group_wait|group_interval): \w+", rf"\1: {wait}", text)
        text = text.replace("https://heartbeat.example.org", address)
        text = text.replace("smtp.example.org:587", f"127.0.0.1:{mail.server_address[1]}")
        text = text.replace(
            "resolve_timeout: 5m",
            f"resolve_timeout: 5m\n  pagerduty_url: {address}/pagerduty\n  smtp_require_tls: false",
        )
        for secret, value in {
            "pagerduty-routing-key": "k",
            "slack-webhook-url": f"{address}/slack",
            "smtp-password": "p",
        }.items():
            (folder / secret).write_text(value)
            text = text.replace(f"/etc/alertmanager/secrets/{secret}", str(folder / secret))
        (folder / "alertmanager.yml").write_text(text, "utf-8")
        command = [ALERTMANAGER, f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data"]
        command += [f"--web.listen-address={running.address}", "--cluster.listen-address="]
        stack.enter_context(started(command, folder / "log", running.address))
        yield running


def alert(name: str, severity: str, **labels: str) -> dict[str, object]:
    rule = EVERY[name, severity]
    client = {"host": "web-7.example.org", "instance": "web-7:31337", "client_id": "order-producer", **labels}
    return {
        "labels": {"alertname": name, "cluster": "eu", "env": "prod", **rule.labels, **labels},
        "annotations": {key: _filled(text, client) for key, text in rule.annotations.items()},
    }


def failing(severity: str, clients: int, services: int) -> list[dict[str, object]]:
    return [
        alert(
            DEADLOCK,
            severity,
            mode="producer-callback-deadlock",
            service=f"service-{number % services}",
            instance=f"service-{number % services}-7c9d8f-{number}:1",
            client_id=f"producer-{number}",
        )
        for number in range(clients)
    ]


def test_a_thousand_pages_and_tickets_are_short_and_contain_their_number(world: World) -> None:
    world.post([*failing("critical", 1000, 1), *failing("warning", 1000, 1)])
    pages = world.settled("/pagerduty", 1)
    text = json.loads(pages[-1])["payload"]["custom_details"]["alerts"]
    assert "and 990 more" in text
    lines = re.findall(r"^- producer-\d+ · service-0-7c9d8f-\d+:1, since [\d:]{8} UTC$", text, re.MULTILINE)
    assert len(lines) == 9 and text.count("What to do:") == 1
    payload = json.loads(pages[-1])["payload"]
    assert re.match(r"service-0: 1000 of 1200 producers sending nothing, since \d\d:\d\d UTC · ", payload["summary"])
    assert payload["severity"] == "critical"
    _short(world)


def test_tickets_are_short_whatever_labels_hold(world: World) -> None:
    hostile = [
        alert(
            "KafkaClientBufferNearlyExhausted", "warning", service=HOSTILE, instance=f"{HOSTILE}{n}", client_id=HOSTILE
        )
        for n in range(300)
    ]
    world.post([*hostile, *failing("warning", 1000, 1)])
    tickets, mails = world.settled("/slack", 2), world.settled("mail", 2)
    assert any(b"and 990 more" in ticket for ticket in tickets) and any(b"and 990 more" in mail for mail in mails)
    assert any(b"and 290 more" in ticket for ticket in tickets)
    markup = {found for ticket in tickets for found in re.findall("<[^>]*>?", "\n".join(_texts(json.loads(ticket))))}
    assert {found.split("|")[-1] for found in markup} == {"Runbook>", "Dashboard>"}
    assert {urlsplit(found.strip("<>")).netloc for found in markup} == {"status.example.org", "grafana.example.org"}
    _short(world)


def test_a_fleet_that_fails_is_one_page(world: World) -> None:
    fleet = alert("KafkaClientFleetUnhealthy", "critical")
    elsewhere = alert(DEADLOCK, "critical", mode="producer-callback-deadlock", service="orders", cluster="us")
    burns = [alert("KafkaClientErrorBudgetBurn", "critical", service=f"service-{n}", long="1h") for n in range(200)]
    full = [
        alert("KafkaClientBufferNearlyExhausted", "warning", measurement="buffer", service=f"s{n}") for n in range(200)
    ]
    world.post([fleet, elsewhere, *full, *burns])
    world.settled("/pagerduty", 2)
    assert _kinds(world.sent["/pagerduty"]) == {
        "eu · eu · prod · KafkaClientFleetUnhealthy",
        f"orders · us · prod · {DEADLOCK}",
    }
    assert world.sent["/slack"] == world.sent["mail"] == []
    _short(world)


@dataclass(frozen=True)
class Storm:
    """A fleet. `each`: number of failing clients per service and mode. `fleet`: number of other, healthy clients."""

    services: int
    status: str
    modes: tuple[str, ...] = ("delivery-stalled",)
    each: int = 1
    groups: int = 0
    fleet: int = 10_000
    env: str = "prod"

    def page(self, cluster: str) -> Iterator[str]:
        begin = f'cluster="{cluster}",env="{self.env}"'
        for service, mode, client in product(range(self.services), self.modes, range(self.each)):
            ref = f'service="service-{service}",host="h-{client}",instance="h-{client}:1",client_id="client-{mode[0]}"'
            yield f'kafka_client_failure_mode{{{begin},{ref},mode="{mode}",status="{self.status}"}} 1'
        for service in range(self.services):
            clients = self.each * len(self.modes)
            ours = f'{begin},service="service-{service}",status="{self.status}"'
            yield f"kafka_client_service_clients{{{ours}}} {clients}"
        yield f'kafka_client_service_clients{{{begin},service="others",status="ok"}} {self.fleet}'
        for group in range(self.groups):
            of = f'cluster_name="{cluster}",group="group-{group}"'
            yield f'kafka_consumergroup_group_status{{{begin},{of},status="STALL"}} 1'


STORMS = {
    "50 clients of one service fail": Storm(1, "confirmed", each=50),
    "one client in each of 9 services fails": Storm(9, "confirmed"),
    "one client in each of 160 services fails": Storm(160, "confirmed"),
    "one client in each of 160 services in staging fails": Storm(160, "confirmed", env="staging"),
    "two clients in each of 160 services fail": Storm(
        160, "confirmed", ("delivery-stalled", "producer-callback-deadlock")
    ),
    "30 clients of 15 services fail, in a cluster of 400 clients": Storm(15, "confirmed", each=2, fleet=370),
    "one client in each of 200 services is suspected": Storm(200, "suspected"),
    "400 consumer groups stall": Storm(0, "ok", groups=400),
}
SENT: Mapping[str, Sequence[tuple[str, str, int]]] = {
    "200 services fall silent": (
        ("KafkaClientFleetServicesSilent", "warning", 0),
        ("KafkaClientServiceSilent", "warning", 200),
    ),
    "a whole fleet falls silent": (
        ("KafkaClientFleetSilent", "critical", 0),
        ("KafkaClientHealthStale", "critical", 0),
        ("KafkaClientFleetServicesSilent", "warning", 0),
        ("KafkaClientServiceSilent", "warning", 200),
    ),
    "200 services overspend their error budgets after an outage": (("KafkaClientErrorBudgetBurn", "warning", 200),),
}
#: Maps a situation to the sizes (bytes) of its largest page and its largest ticket.
LARGEST: Mapping[str, tuple[int, int]] = {
    "50 clients of one service fail": (5_100, 0),
    "one client in each of 9 services fails": (1_800, 0),
    "one client in each of 160 services fails": (1_400, 0),
    "one client in each of 160 services in staging fails": (0, 1_400),
    "two clients in each of 160 services fail": (1_400, 0),
    "30 clients of 15 services fail, in a cluster of 400 clients": (1_400, 0),
    "one client in each of 200 services is suspected": (0, 1_300),
    "400 consumer groups stall": (0, 3_800),
    "200 services fall silent": (0, 1_000),
    "a whole fleet falls silent": (1_400, 0),
    "200 services overspend their error budgets after an outage": (0, 3_600),
}


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
def test_mass_failures_give_as_many_pages_and_tickets_as_in_the_table(world: World, tmp_path: Path) -> None:
    text = (ROOT / "alerts/README.md").read_text("utf-8")
    table = dict(re.findall(r"^\| ([^|]+) \| ([\d, |]+) \|$", text, re.MULTILINE))
    wanted = {name: [int(cell.replace(",", "")) for cell in table[name].split("|")] for name in (*STORMS, *SENT)}
    names = {name: f"storm-{place:02}" for place, name in enumerate(wanted)}
    served = delivery.World()
    served.client_page = "".join(f"{line}\n" for name, storm in STORMS.items() for line in storm.page(names[name]))
    served.client_page += "kafka_client_health_exporter_up 1\n"
    with ExitStack() as stack:
        pages = stack.enter_context(delivery.serving(served))
        stack.enter_context(delivery.prometheus(tmp_path, pages, world.address, every="5s", again="1m"))
        for name, alerts in SENT.items():
            world.post(
                [
                    alert(kind, severity, cluster=names[name], **({"service": f"service-{n}"} if many else {}))
                    for kind, severity, many in alerts
                    for n in range(many or 1)
                ]
            )
        for way, column in (("/pagerduty", 0), ("/slack", 1)):
            least = sum(cells[column] for cells in wanted.values())
            eventually(partial(_at_least, world, way, least), f"{least} by {way}")
        world.settled("/slack", 1)
    for name, counts in wanted.items():
        page_bytes, ticket_bytes = LARGEST[name]
        token = names[name].encode()
        ours = [[body for body in world.sent[way] if token in body] for way in ("/pagerduty", "/slack")]
        assert [len(_kinds(bodies)) for bodies in ours] == counts, (name, [_kinds(bodies) for bodies in ours])
        largest = [max(map(len, bodies), default=0) for bodies in ours]
        assert largest[0] <= page_bytes and largest[1] <= ticket_bytes, (name, largest)
    _short(world)


def _at_least(world: World, way: str, least: int) -> bool:
    return len(_kinds(world.sent[way])) >= least


def _kinds(bodies: Sequence[bytes]) -> set[str]:
    texts = [json.loads(body) for body in bodies]
    titles = [text["payload"]["summary"] if "payload" in text else text["attachments"][0]["title"] for text in texts]
    kinds = {re.sub(r"^(Over: )?(.*?): .*?( · .*)$", r"\2\3", title) for title in titles}
    whole_cluster = {kind for kind in kinds if kind.split(" · ")[0] == kind.split(" · ")[1]}
    reported = {kind.partition(" · ")[2] for kind in whole_cluster}
    return whole_cluster | {kind for kind in kinds if kind.partition(" · ")[2] not in reported}


def _texts(sent: Any) -> Iterator[str]:
    if isinstance(sent, str):
        yield sent
    elif isinstance(sent, list | dict):
        for part in sent.values() if isinstance(sent, dict) else sent:
            yield from _texts(part)


def _short(world: World) -> None:
    sizes = {way: max(map(len, bodies), default=0) for way, bodies in world.sent.items()}
    assert max(sizes.values()) < LIMIT_BYTES, sizes


def _filled(template: str, labels: dict[str, str]) -> str:
    text = re.sub(r"\{\{ with .*?\{\{ end \}\}", "", template)
    text = text.replace("127.0.0.1:9309", "status.example.org").replace("127.0.0.1:3000", "grafana.example.org")
    text = re.sub(r"\{\{ printf \"%.6f\" \$value[^}]*\}\}", "001200", text)
    text = re.sub(r"\{\{ \$value[^}]*\}\}", "97%", text)
    text = re.sub(r"\{\{ \$labels\.(\w+) \| urlquery \}\}", lambda match: quote(labels.get(match[1], "")), text)
    return re.sub(r"\{\{ \$labels\.(\w+)[^}]*\}\}", lambda match: labels.get(match[1], ""), text)


def _http(sent: dict[str, list[bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.setdefault(self.path, []).append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(202 if self.path == "/pagerduty" else 200)
            self.end_headers()
            self.wfile.write(b'{"status":"success"}' if self.path == "/pagerduty" else b"ok")

        def log_message(self, format: str, *args: object) -> None:
            return None

    return Handler


def _mail(sent: list[bytes]) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            for line in self.rfile:
                command = line[:4].upper()
                if command == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    sent.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")
                if command == b"QUIT":
                    return

    return Handler
