"""Let 10,000 clients fail and recover, and count the messages of a real Alertmanager."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from clienthealth.model.errors import ServiceError
from clienthealth.settings import Settings
from deploy.demo import alerting
from deploy.demo.processes import Process
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table

TITLE = "Alerts while 10,000 clients fail and recover"
CLIENTS, SERVICES = 10_000, 200
SCRAPE = "15s"
BEFORE_SECONDS, ILL_SECONDS, HEALING_SECONDS, AFTER_SECONDS = 180.0, 600.0, 120.0, 1200.0
LOOK_SECONDS = 5.0
BUSY = 30
ENDLESS = f"for i in $(seq {BUSY}); do while :; do :; done & done; wait"
SHARE = 1 / 3
INSTALLATION = 'cluster="eu",env="prod"'


@dataclass
class Fleet:
    failed: float = 0.0
    heals: float = 0.0
    received: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def ill(self, client: int) -> bool:
        """Return whether the client fails now.

        Client 0 fails from the start until 60 s after the time `failed`. All other clients begin to fail at this time.
        """
        now = time.time()
        if client == 0:
            return not self.failed or now < self.failed + 60
        return bool(self.failed) and now >= self.failed and not self._well(client, now)

    def _well(self, client: int, now: float) -> bool:
        return bool(self.heals) and now >= self.heals + HEALING_SECONDS * client / CLIENTS

    def page(self) -> str:
        ill = [client for client in range(CLIENTS) if self.ill(client)]
        return "".join(f"{line}\n" for line in self._lines(ill))

    def _lines(self, ill: Sequence[int]) -> Iterator[str]:
        counts = Counter(client % SERVICES for client in ill)
        since = self.failed or time.time() // 86_400 * 86_400
        for client in ill:
            service, mode = f"service-{client % SERVICES}", 'mode="delivery-stalled"'
            ref = f'service="{service}",host="h-{client}",instance="h-{client}:1",client_id="producer-{client}"'
            yield f'kafka_client_failure_mode{{{INSTALLATION},{ref},{mode},status="confirmed"}} 1'
            yield f"kafka_client_failure_mode_since_timestamp_seconds{{{INSTALLATION},{ref},{mode}}} {since:.0f}"
        full = set(ill)
        for client in range(CLIENTS):
            used = 1.0 if client in full else 0.01
            ref = f'service="service-{client % SERVICES}",host="h-{client}",instance="h-{client}:1"'
            ref += f',client_id="producer-{client}"'
            yield f"kafka_client_producer_buffer_used_ratio{{{INSTALLATION},{ref}}} {used}"
            yield f"kafka_client_producer_waiting_threads{{{INSTALLATION},{ref}}} {int(used)}"
        for number in range(SERVICES):
            of = f'{INSTALLATION},service="service-{number}"'
            yield f'kafka_client_service_clients{{{of},status="confirmed"}} {counts[number]}'
            yield f'kafka_client_service_clients{{{of},status="ok"}} {CLIENTS // SERVICES - counts[number]}'
        yield f"kafka_client_health_exporter_up{{{INSTALLATION}}} 1"


def measure(scope: Scope) -> Result:
    if lacking := alerting.missing():
        raise ServiceError("; ".join(lacking))
    ill, after = scope.seconds(ILL_SECONDS, 120), scope.seconds(AFTER_SECONDS, 120)
    fleet, slowest = Fleet(), dict[str, tuple[float, float]]()
    with ExitStack() as stack:
        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), _handler(fleet)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        address = f"127.0.0.1:{server.server_address[1]}"
        targets = {"kafka-client-health": address, "kafka-client-health-monitor": address}
        folder = Path(mkdtemp(prefix="storm-"))
        busy = Process("busy processes", ["sh", "-c", ENDLESS], folder / "busy.log")
        stack.callback(busy.kill)
        servers = alerting.start(folder, Settings(), targets, f"http://{address}/hook", SCRAPE, group_wait=None)
        stack.callback(servers.prometheus.stop)
        stack.callback(servers.alertmanager.stop)
        _watch(servers.prometheus_url, BEFORE_SECONDS, slowest)
        fleet.failed = time.time()
        _watch(servers.prometheus_url, ill, slowest)
        fleet.heals = time.time()
        _watch(servers.prometheus_url, HEALING_SECONDS + after, slowest)
    begun, healed = fleet.failed, fleet.heals + HEALING_SECONDS
    table = [
        [name, *(_count(fleet.received, name, *when) for when in ((0, begun), (begun, healed), (healed, time.time())))]
        for name in ("pager", "tickets")
    ]
    new = [_new(fleet.received, since) for since in (begun, healed)]
    share = max(a / b for a, b in slowest.values())
    figures = [
        Figure(f"pages while {CLIENTS:,} clients fail", new[0]["pager"] - new[1]["pager"], "", 1),
        Figure(f"tickets while {CLIENTS:,} clients fail", new[0]["tickets"] - new[1]["tickets"], "", 0),
        Figure(f"pages and tickets after {CLIENTS:,} clients have recovered", sum(new[1].values()), "", 0),
        Figure(f"slowest rule group while {CLIENTS:,} clients fail: share of its interval", share, "", SHARE),
    ]
    how = (
        f"{CLIENTS:,} producers of {SERVICES} services fail at the same time, for {ill:.0f} s. All producers recover "
        f"within {HEALING_SECONDS:.0f} s. The measurement ends {after:.0f} s after the recovery. One producer fails "
        "earlier than all other producers. Rules and Alertmanager's routes have their usual intervals."
    )
    groups = [[name, f"{took:.2f}", f"{every:.0f}"] for name, (took, every) in sorted(slowest.items())]
    return Result(
        figures,
        how,
        [
            Table(["receiver", "messages before", "messages while clients fail", "messages afterwards"], table),
            Table(["rule group", "slowest evaluation, s", "interval, s"], groups),
        ],
    )


def _handler(fleet: Fleet) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(fleet.page().encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fleet.received.append((time.time(), body))
            about = f"{body['receiver']} {body['status']} {body['groupLabels']} {len(body['alerts'])}"
            print(f"  {time.strftime('%H:%M:%S', time.gmtime())} {about}", flush=True)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return None

    return Handler


def _watch(prometheus: str, seconds: float, slowest: dict[str, tuple[float, float]]) -> None:
    until = time.time() + seconds
    while time.time() < until:
        with urllib.request.urlopen(f"{prometheus}/api/v1/rules", timeout=120) as answer:
            groups = json.load(answer)["data"]["groups"]
        for group in groups:
            if failed := [rule["lastError"] for rule in group["rules"] if rule["health"] == "err"]:
                raise ServiceError(f"a rule of {group['name']} failed: {failed[0]}")
            took, every = group["evaluationTime"], group["interval"]
            slowest[group["name"]] = max(slowest.get(group["name"], (0.0, every)), (took, every))
        time.sleep(LOOK_SECONDS)


def _between(received: Sequence[tuple[float, dict[str, Any]]], since: float, until: float) -> list[dict[str, Any]]:
    return [body for at, body in received if since <= at < until]


def _count(received: Sequence[tuple[float, dict[str, Any]]], receiver: str, since: float, until: float) -> str:
    found = Counter(body["status"] for body in _between(received, since, until) if body["receiver"] == receiver)
    return ", ".join(f"{count} {status}" for status, count in sorted(found.items())) or "none"


def _new(received: Sequence[tuple[float, dict[str, Any]]], since: float) -> Mapping[str, int]:
    known = {body["groupKey"] for body in _between(received, 0, since)}
    new = {(body["receiver"], body["groupKey"]) for body in _between(received, since, time.time())}
    return Counter(receiver for receiver, key in new if key not in known)
