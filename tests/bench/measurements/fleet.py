"""Measure 100,000 clients for 15 minutes, from the generator to a real Prometheus with all rules."""

from __future__ import annotations

import json
import statistics
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from clienthealth.model.errors import ServiceError
from deploy.demo import alerting
from deploy.demo.processes import Process, free_port
from tests.bench import canonical
from tests.bench.lab import KAFKA_HEALTH, Lab, Monitor
from tests.bench.load import Load, Steady
from tests.bench.measurements import Scope
from tests.bench.publish import ends
from tests.bench.results import Figure, Result, Table
from tests.bench.templates import BUFFER_BYTES, Values, values
from tests.bench.usage import MONITOR, Usage

TITLE = "100,000 clients with exporter and Prometheus"
TOPIC = "client-metrics"
CLIENTS, INTERVAL_SECONDS, SECONDS = 100_000, 30, 900.0
BEHIND_SECONDS, SCRAPE_SECONDS, SCRAPE = 60.0, 60.0, "60s"
LOOK_SECONDS = 15.0
SICK, SICK_FROM = 100, 6


@dataclass
class Seen:
    """Values that were measured repeatedly during a run.

    `behind`: seconds of unread input (unread records / rate of sent records).
    """

    behind: list[float] = field(default_factory=list)
    scrapes: list[float] = field(default_factory=list)
    rules: list[float] = field(default_factory=list)
    clients: list[int] = field(default_factory=list)
    sick: list[int] = field(default_factory=list)
    firing: set[str] = field(default_factory=set)


def measure(scope: Scope) -> Result:
    clients = CLIENTS // 10 if scope.quick else CLIENTS
    seconds = scope.seconds(SECONDS, 180)
    rate = clients / INTERVAL_SECONDS
    if lacking := alerting.missing():
        raise ServiceError("; ".join(lacking))
    with Lab() as lab, ExitStack() as stack:
        lab.topics()
        monitor = stack.enter_context(lab.monitor(prometheus=_exporter(clients), heap_mb=1536))
        command = [KAFKA_HEALTH, "export", "prometheus", "--config", str(monitor.config)]
        exporter = Process("exporter", command, lab.folder / "exporter.log")
        stack.callback(exporter.stop)
        settings = monitor.settings
        targets = {
            "kafka-client-health": f"127.0.0.1:{settings.prometheus.port}",
            "kafka-client-health-monitor": f"127.0.0.1:{settings.monitor.metrics_port}",
        }
        servers = alerting.start(lab.folder / "alerting", settings, targets, "http://127.0.0.1:9/", SCRAPE)
        stack.callback(servers.prometheus.stop)
        stack.callback(servers.alertmanager.stop)
        monitor.wait_for_queries()
        programs = {"exporter": exporter.pid, "prometheus": servers.prometheus.pid}
        usage = stack.enter_context(Usage(programs))
        with Load(lab.servers, Steady(TOPIC, canonical.producer(), clients, rate, value_of=values_of)) as load:
            _watched(lab, monitor, servers.prometheus_url, seconds / 2, rate)
            since, sent = time.time(), load.sent
            seen = _watched(lab, monitor, servers.prometheus_url, seconds / 2, rate)
            until = time.time()
            cost, shown = monitor.usage.cost(since, until), usage.cost(since, until)
            sent_rate = (load.sent - sent) / (until - since)
        peaks = {name: usage.peak_mb(name) for name in programs} | {
            name: monitor.usage.peak_mb(name) for name in ("jvm", "python")
        }
    name = f"{clients:,} clients with Prometheus"
    figures = [
        Figure(f"{name}: longest delay until a record is read", max(seen.behind), "s", BEHIND_SECONDS),
        Figure(f"{name}: longest scrape of the exporter", max(seen.scrapes, default=0.0), "s", SCRAPE_SECONDS),
        Figure(f"{name}: clients that Prometheus knows at the end", seen.clients[-1], "", clients, "least"),
        Figure(f"{name}: clients with a confirmed failure", seen.sick[-1], "", clients // SICK, "least"),
        Figure(f"{name}: longest evaluation of all rules", max(seen.rules, default=0.0), "s", SCRAPE_SECONDS),
        Figure(f"{name}: cores of the monitor", cost.cores(*MONITOR), "cores"),
        Figure(f"{name}: cores of the exporter", shown.cores("exporter"), "cores"),
        Figure(f"{name}: cores of Prometheus", shown.cores("prometheus"), "cores"),
    ]
    memory = [f"peak memory of {program}, MB" for program in peaks]
    head = ["clients", "records/s sent", "median delay, s", "longest delay, s", *memory]
    row = [f"{clients:,}", f"{sent_rate:,.0f}", f"{statistics.median(seen.behind):.1f}", f"{max(seen.behind):.1f}"]
    row += [f"{peak:,.0f}" for peak in peaks.values()]
    how = (
        f"For {seconds:.0f} s, each of {clients:,} producers sends a snapshot of 1.5 kB every {INTERVAL_SECONDS} s. "
        f"One producer in {SICK} hangs in a callback. The monitor, an exporter, Prometheus with all rules, and "
        f"Alertmanager share the cores. Prometheus scrapes every {SCRAPE_SECONDS:.0f} s. Only the second half of the "
        "time counts. The delay is the number of unread records, divided by the records sent per second."
    )
    return Result(figures, how, [Table(head, [row])])


def values_of(client: int, reading: int, ts_ms: int) -> Values:
    stuck = reading - SICK_FROM
    if client % SICK or stuck <= 0:
        return values(client, reading, ts_ms)
    left = max(0, BUFFER_BYTES * (3 - stuck) // 3)
    return {**values(client, SICK_FROM, ts_ms), b"available": left, b"waiting": 2 * (left == 0)}


def _exporter(clients: int) -> Mapping[str, Any]:
    return {"port": free_port(), "max_series_per_metric": clients, "client_series": "unhealthy"}


def _watched(lab: Lab, monitor: Monitor, prometheus: str, seconds: float, rate: float) -> Seen:
    seen, until = Seen(), time.time() + seconds
    while time.time() < until:
        monitor.watch(LOOK_SECONDS, LOOK_SECONDS)
        seen.behind.append((ends(lab.servers, TOPIC) - monitor.checkpoints.count(TOPIC)) / rate)
        seen.scrapes += _asked(prometheus, 'scrape_duration_seconds{job="kafka-client-health"}').values()
        seen.rules.append(_evaluation(prometheus))
        seen.clients += map(round, _asked(prometheus, KNOWN_QUERY).values() or [0.0])
        seen.sick += map(round, _asked(prometheus, SICK_QUERY).values() or [0.0])
        seen.firing |= _asked(prometheus, 'sum by (alertname) (ALERTS{alertstate="firing"})').keys()
        clients = f"{seen.clients[-1]:,} clients known, {seen.sick[-1]:,} failing"
        times = f"{seen.behind[-1]:.1f} s behind, scrape {seen.scrapes[-1:]} s, rules {seen.rules[-1]:.1f} s"
        print(f"  {clients}, {times}, firing {sorted(seen.firing)}", flush=True)
    return seen


KNOWN_QUERY = "sum(kafka_client_service_clients)"
SICK_QUERY = 'sum(kafka_client_service_failure_mode_clients{mode="producer-callback-deadlock", status="confirmed"})'


def _evaluation(prometheus: str) -> float:
    groups = _get(f"{prometheus}/api/v1/rules").get("groups", ())
    return float(sum(group["evaluationTime"] for group in groups))


def _asked(prometheus: str, query: str) -> Mapping[str, float]:
    series = _get(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}").get("result", ())
    return {one["metric"].get("alertname", str(at)): float(one["value"][1]) for at, one in enumerate(series)}


def _get(url: str) -> Mapping[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=LOOK_SECONDS) as answer:
            data: Mapping[str, Any] = json.load(answer)["data"]
    except OSError:
        return {}
    return data
