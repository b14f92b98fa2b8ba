"""A thousand failing clients at a real Alertmanager with the committed routes, templates and receivers.

PagerDuty, Slack and a mail server are stand-ins of our own; nothing else is replaced but addresses, secrets and waits.
"""

from __future__ import annotations

import json
import re
import shutil
import socketserver
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from clienthealth.settings import Settings
from clienthealth_exporters.alerts.build import catalogue, write
from clienthealth_exporters.alerts.rule import Alert
from tests.e2e.test_alert_delivery import free_address, started
from tests.support.waiting import eventually

ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
pytestmark = pytest.mark.skipif(ALERTMANAGER is None, reason="alertmanager is not installed")

LIMIT_BYTES = 20_000
SILENT_SECONDS = 2.5
EVERY = {(alert.name, alert.severity): alert for alert in catalogue(Settings())}
DEADLOCK = "KafkaClientProducerCallbackDeadlock"
HOSTILE = '<!channel> <https://evil.example.org|Runbook> <@U012AB3CD> "&lt;é\\' * 10


class World:
    """A running Alertmanager, and what was sent by it: bodies by the way that they took."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.sent: dict[str, list[bytes]] = {"/pagerduty": [], "/slack": [], "mail": []}

    def post(self, alerts: Sequence[dict[str, object]]) -> None:
        """As Prometheus does it: all that an evaluation finds, in batches of 64."""
        for start in range(0, len(alerts), 64):
            body = json.dumps(alerts[start : start + 64]).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://{self.address}/api/v2/alerts", body, headers)
            urllib.request.urlopen(request, timeout=10).close()

    def settled(self, way: str, at_least: int) -> list[bytes]:
        """What came that way, once nothing more comes."""
        eventually(lambda: len(self.sent[way]) >= at_least, f"{at_least} by {way}")
        waited = threading.Event()
        before = -1
        while before != sum(map(len, self.sent.values())):
            before = sum(map(len, self.sent.values()))
            waited.wait(SILENT_SECONDS)
        return self.sent[way]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    assert ALERTMANAGER
    running = World(free_address())
    with ExitStack() as stack:
        http = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), _http(running.sent)))
        mail = stack.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _mail(running.sent["mail"])))
        for server in (http, mail):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        address = f"http://127.0.0.1:{http.server_address[1]}"
        write(tmp_path, Settings(), dry_run=False)
        text = (tmp_path / "alertmanager.yml").read_text("utf-8")
        text = re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", text)
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
            (tmp_path / secret).write_text(value)
            text = text.replace(f"/etc/alertmanager/secrets/{secret}", str(tmp_path / secret))
        (tmp_path / "alertmanager.yml").write_text(text, "utf-8")
        command = [ALERTMANAGER, f"--config.file={tmp_path}/alertmanager.yml", f"--storage.path={tmp_path}/data"]
        command += [f"--web.listen-address={running.address}", "--cluster.listen-address="]
        stack.enter_context(started(command, tmp_path / "log", running.address))
        yield running


def alert(name: str, severity: str, **labels: str) -> dict[str, object]:
    """An alert of the catalogue as Prometheus sends it, its templates filled in from the labels."""
    sent = EVERY[name, severity]
    client = {"host": "web-7.example.org", "instance": "web-7:31337", "client_id": "order-producer", **labels}
    return {
        "labels": {"alertname": name, "severity": severity, "cluster": "eu", "env": "prod", **sent.labels, **labels},
        "annotations": {
            "summary": sent.summary,
            "description": _filled(sent.description, client),
            "runbook_url": f"http://status.example.org/runbooks/{sent.runbook}",
            "dashboard_url": _filled(_dashboard(sent), client),
        },
    }


def failing(severity: str, clients: int, services: int) -> list[dict[str, object]]:
    """Clients that all have one failure."""
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


def test_a_thousand_pages_and_tickets_are_short_and_say_how_many_there_are(world: World) -> None:
    world.post([*failing("critical", 1000, 1), *failing("warning", 1000, 1)])
    pages = world.settled("/pagerduty", 1)
    text = json.loads(pages[-1])["payload"]["custom_details"]["alerts"]
    assert "and 990 more" in text and text.count("confirmed") + text.count("suspected") >= 10
    assert json.loads(pages[-1])["payload"]["summary"].startswith("[FIRING 1000] ")
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
    world.post([fleet, elsewhere, *failing("critical", 1000, 200), *failing("warning", 200, 200), *burns])
    pages = [json.loads(body)["payload"]["summary"] for body in world.settled("/pagerduty", 2)]
    assert sorted(pages) == [
        "[FIRING 1] KafkaClientFleetUnhealthy · eu · prod",
        f"[FIRING 1] {DEADLOCK} · us · prod · orders",
    ]
    assert world.sent["/slack"] == world.sent["mail"] == []
    _short(world)


def _texts(sent: Any) -> Iterator[str]:
    """Every text of a message, the keys aside."""
    if isinstance(sent, str):
        yield sent
    elif isinstance(sent, list | dict):
        for part in sent.values() if isinstance(sent, dict) else sent:
            yield from _texts(part)


def _short(world: World) -> None:
    sizes = {way: max(map(len, bodies), default=0) for way, bodies in world.sent.items()}
    assert max(sizes.values()) < LIMIT_BYTES, sizes


def _dashboard(sent: Alert) -> str:
    labels = "&".join(f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in sent.dashboard_labels)
    return f"http://grafana.example.org/d/{sent.dashboard}?{labels}"


def _filled(template: str, labels: dict[str, str]) -> str:
    """The template with its labels, and without what it asks Prometheus for."""
    text = re.sub(r"\{\{ with printf .*?\{\{ end \}\}", "", template)
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
        """As much of SMTP as a sender needs."""

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
