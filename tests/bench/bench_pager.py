"""Let 10,000 clients fail and recover, and count the messages of a real Alertmanager."""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clienthealth.settings import PrometheusSettings
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from tests.bench.bench_fleet import fleet
from tests.e2e.test_alert_delivery import free_address, now_ms, started
from tests.e2e.test_dashboards_queries import INSTALLATION, Monitor, configured, serving
from tests.e2e.test_notifications import World, notified
from tests.support.health_records import wire

WARM_MINUTES = 3.0
STEP_SECONDS = 10.0
#: After the last recovery, keep_firing_for, resolve_timeout and group_interval take five minutes each.
END_MINUTES = 15.0
SHARE = 1 / 3
ONE = 0.0001
NEWEST = re.compile(rb"^(kafka_client_health_exporter_newest_record_timestamp_seconds\S*) \S+$", re.MULTILINE)
GROUP = re.compile(
    r'^prometheus_rule_group_(last_duration|interval)_seconds\{rule_group="[^"]*;([^"]+)"\} (\S+)$', re.M
)


class Phase(NamedTuple):
    """A phase, which begins at `minute`. `failing` is the share (0 to 1) of clients that fail in this phase.

    For a negative `failing`, such as -0.25, a quarter of the clients fail, but the clients that failed in the first
    phase are healthy.
    """

    minute: float
    failing: float


def phases(storm: float) -> list[Phase]:
    step = STEP_SECONDS / 60
    shares = (0.25, 0.5, 0.75, 1.0)
    begin, end = WARM_MINUTES, WARM_MINUTES + storm
    rising = [Phase(begin + place * step, share) for place, share in enumerate(shares)]
    falling = [Phase(end + place * step, share) for place, share in enumerate((-0.75, -0.5, -0.25, 0.0))]
    return [Phase(0.0, ONE), *rising, Phase(begin + storm / 2, -1.0), *falling]


class Page:
    def __init__(self, clients: int, shares: Sequence[float]) -> None:
        settings = dataclasses.replace(INSTALLATION, prometheus=_without_limit(clients))
        healed = {name: value for name, value, _ in map(wire, fleet(clients, 0.0, end_ms=now_ms()))}
        first = {wire(one)[0] for one in fleet(clients, ONE) if one["worst"] == "confirmed"}
        self._bodies, self._newest, self._shown = {}, b"", shares[0]
        for share in dict.fromkeys(shares):
            states = States(settings)
            for name, value, _ in map(wire, fleet(clients, abs(share), end_ms=now_ms())):
                states.put(name, healed[name] if share < 0 and name in first else value, now_ms())
            text = b"".join(Exporter(settings, states, lambda: None).metrics())
            self._newest = b"\n".join(NEWEST.findall(text))
            self._bodies[share] = gzip.compress(NEWEST.sub(b"", text).replace(b"\n\n", b"\n"), 1)
            print(f"{share:.2%}: {len(first)} first, {len(text) / 1e6:.1f} MB", flush=True)

    def show(self, share: float) -> None:
        self._shown = share

    def compressed(self) -> bytes:
        now = f" {time.time()}\n".encode()
        return self._bodies[self._shown] + gzip.compress(b"".join(one + now for one in self._newest.split(b"\n")))


def _without_limit(clients: int) -> PrometheusSettings:
    return dataclasses.replace(INSTALLATION.prometheus, max_series_per_metric=10 * clients)


@contextmanager
def prometheus(folder: Path, clients: str, monitor: str, alertmanager: str) -> Iterator[str]:
    here = {
        "exporter:9309": clients,
        "monitor:9308": monitor,
        "alertmanager:9093": alertmanager,
        "alerts/rules/": "rules/",
    }
    address = free_address()
    command = [shutil.which("prometheus") or "", f"--config.file={configured(folder, here)}"]
    command += [f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address={address}"]
    with started(command, folder / "prometheus.log", address):
        yield address


def durations(address: str) -> dict[str, tuple[float, float]]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found: dict[str, dict[str, float]] = {}
    for kind, group, value in GROUP.findall(text):
        found.setdefault(group, {})[kind] = float(value)
    return {group: (kinds["last_duration"], kinds["interval"]) for group, kinds in found.items()}


class Watch:
    def __init__(self, world: World) -> None:
        self._world, self._begun = world, time.monotonic()
        self._seen: Counter[str] = Counter()
        self.messages: list[tuple[float, str, str]] = []
        self.slowest: dict[str, tuple[float, float, float]] = {}

    @property
    def minute(self) -> float:
        return (time.monotonic() - self._begun) / 60

    def look(self, address: str) -> None:
        for way, bodies in self._world.sent.items():
            for body in bodies[self._seen[way] :]:
                if way != "/kafka-client-health":
                    self.messages.append((self.minute, way, title(way, body)))
                    print(f"{self.minute:6.1f} min  {way}: {title(way, body)}", flush=True)
            self._seen[way] = len(bodies)
        for group, (seconds, interval) in durations(address).items():
            if seconds > self.slowest.get(group, (0.0, 0.0, 0.0))[0]:
                self.slowest[group] = (seconds, interval, self.minute)


def title(way: str, body: bytes) -> str:
    if way == "mail":
        return (re.search(rb"^Subject: (.*)$", body, re.MULTILINE) or re.search(rb".*", body))[0].decode()  # type: ignore[index]
    sent: dict[str, Any] = json.loads(body)
    if "event_action" in sent:
        return f"{sent['event_action']} {sent.get('payload', {}).get('summary', '')} [{sent['dedup_key'][:8]}]"
    return str(sent["attachments"][0]["title"])


def judged(watch: Watch, end: float) -> list[str]:
    triggers = {text.rpartition("[")[2] for _, way, text in watch.messages if text.startswith("trigger")}
    ends = {text.rpartition("[")[2] for _, way, text in watch.messages if text.startswith("resolve")}
    tickets = [text for _, way, text in watch.messages if way != "/pagerduty"]
    late = [text for minute, _, text in watch.messages if minute > end + END_MINUTES]
    slow = {group: one for group, one in watch.slowest.items() if one[0] > SHARE * one[1]}
    wrong = [f"{len(triggers)} pages in place of two"] if len(triggers) != 2 else []
    wrong += ["a page has no end"] if triggers != ends else []
    wrong += [f"{len(tickets)} tickets"] if tickets else []
    wrong += [f"{len(late)} messages long after the end"] if late else []
    return wrong + [f"{group}: {one[0]:.2f} s of {one[1]:.0f} s" for group, one in slow.items()]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_pager")
    parser.add_argument("--storm", type=float, default=30.0, metavar="MINUTES")
    parser.add_argument("--after", type=float, default=60.0, metavar="MINUTES")
    parser.add_argument("--clients", type=int, default=10_000)
    asked, _ = parser.parse_known_args(arguments)
    course = phases(asked.storm)
    page = Page(asked.clients, [phase.failing for phase in course])
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        world = stack.enter_context(notified(folder))
        clients = stack.enter_context(serving(page.compressed))
        runs = Monitor(busy=False)
        monitor = stack.enter_context(serving(runs.page))
        address = stack.enter_context(prometheus(folder, clients, monitor, world.address))
        watch, last = Watch(world), course[-1].minute
        for phase, until in zip(course, [one.minute for one in course[1:]] + [last + asked.after], strict=True):
            page.show(phase.failing)
            print(f"{watch.minute:6.1f} min  {abs(phase.failing):.0%} fail", flush=True)
            while watch.minute < until:
                watch.look(address)
                time.sleep(2)
    for group, (seconds, interval, minute) in sorted(watch.slowest.items(), key=lambda one: -one[1][0] / one[1][1]):
        print(f"{seconds:6.2f} s of {interval:.0f} s at {minute:.0f} min: {group}")
    print(f"{dict(Counter(way for _, way, _ in watch.messages))}, load {os.getloadavg()[0]:.1f}")
    wrong = judged(watch, last)
    print(*(wrong or ["as it should be"]), sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
