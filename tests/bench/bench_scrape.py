"""Measure one scrape of 12,000 partitions: 2,000 consumer groups with 6 partitions each."""

from __future__ import annotations

import gzip
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from clienthealth.platform.web import Server
from clienthealth.settings import PrometheusSettings, Settings
from clienthealth_exporters.prometheus.exporter import PROBES, Exporter
from clienthealth_exporters.prometheus.series import FAMILIES, SCOPES
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import NOW_MS, group, wire

GROUPS = 2_000
PARTITIONS = 6
RUNS = 15


def main() -> None:
    records = []
    for number in range(GROUPS):
        one = group(f"group-{number}", partitions=PARTITIONS)
        for row in one["indicators"]["lag"]:
            row["topic"] = f"topic-{number}"
        records.append(wire(one))
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    cpu = time.process_time()
    for record in records:
        states.put(*record)
    put("all records taken in (CPU)", time.process_time() - cpu)
    exporter = Exporter(Settings(), states, lambda: None)
    page = b"".join(exporter.metrics()).decode()
    body = page.encode()
    print(f"{'page':52}{len(body) / 1e6:9.1f} MB  {page.count(chr(10)):,} lines")
    print(f"{'page, gzip':52}{len(gzip.compress(body, 1)) / 1e6:9.1f} MB")

    def changed() -> None:
        states.put(*records[0])
        for _ in exporter.metrics():
            pass

    timed("page after a change", changed)
    with Server(PrometheusSettings(port=0), exporter, PROBES) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def scrape(encoding: str) -> Callable[[], None]:
            request = urllib.request.Request(f"{server.url}/metrics", headers={"Accept-Encoding": encoding})

            def once() -> None:
                states.put(*records[0])
                with urllib.request.urlopen(request) as answer:
                    answer.read()

            return once

        timed("scrape after a change", scrape("identity"))
        timed("scrape after a change, gzip", scrape("gzip"))
        server.shutdown()
    registry = CollectorRegistry()
    registry.register(Plain([state.record for state in states.live()]))
    timed("the same series by prometheus-client, no HTTP", lambda: generate_latest(registry) and None, runs=3)


class Plain(Collector):
    def __init__(self, records: list) -> None:  # type: ignore[type-arg]
        self._records = records

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing. Without this method, prometheus-client would collect all metrics at registration."""
        return []

    def collect(self):  # type: ignore[no-untyped-def]
        for family in FAMILIES:
            metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for record in self._records:
                client = record.client
                scope = {
                    "client": (client.service, client.host, client.instance, client.client_id),
                    "group": (client.instance, client.client_id, client.version),
                    "partition": (client.instance,),
                }[family.scope]
                assert len(scope) == len(SCOPES[family.scope])
                for extra, value in family.read(record):
                    metric.add_metric((*scope, *extra), value)
            yield metric


def timed(what: str, work: Callable[[], object], runs: int = RUNS) -> None:
    walls, cpu = [], time.process_time()
    for _ in range(runs):
        start = time.perf_counter()
        work()
        walls.append(time.perf_counter() - start)
    used = (time.process_time() - cpu) / runs
    print(f"{what:52}{statistics.median(walls):9.3f} s   CPU {used:.3f} s")


def put(what: str, seconds: float) -> None:
    print(f"{what:52}{seconds:9.3f} s")


if __name__ == "__main__":
    main()
