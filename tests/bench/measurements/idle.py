"""Measure what the monitor costs with 20 clients and all outputs."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.bench import canonical
from tests.bench.lab import Lab
from tests.bench.load import Load
from tests.bench.log_lines import ordinary
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table
from tests.bench.templates import values
from tests.bench.usage import MONITOR

TITLE = "Cost with twenty clients"
PRODUCERS, CONSUMERS, GROUPS = 12, 6, 2
INTERVAL_SECONDS = 10
SCRAPE_SECONDS = 15.0
CORES, MEGABYTES = 0.15, 900.0


def few(since: float, until: float) -> Iterable[tuple[str, bytes, bytes]]:
    kinds = [canonical.producer()] * PRODUCERS + [canonical.consumer()] * CONSUMERS + [canonical.group()] * GROUPS
    for client, template in enumerate(kinds):
        phase = client * INTERVAL_SECONDS / len(kinds)
        reading = int((until - phase) / INTERVAL_SECONDS)
        if reading > int((since - phase) / INTERVAL_SECONDS):
            key, value = template.record(values(client, reading % 1_000_000, round(until * 1000)))
            yield "client-metrics", key, value
            yield "client-logs", key, ordinary(client, until)


def measure(scope: Scope) -> Result:
    seconds = scope.seconds(600, 120)
    with Lab() as lab:
        lab.topics()
        with lab.monitor() as monitor, Load(lab.servers, few):
            monitor.wait_for_queries()
            monitor.watch(seconds / 2, SCRAPE_SECONDS)
            since, usage, shared_mb = time.time(), monitor.usage, 0.0
            while time.time() < since + seconds / 2:
                monitor.watch(SCRAPE_SECONDS, SCRAPE_SECONDS)
                shared_mb = max(shared_mb, usage.proportional_mb("monitor"))
            until = time.time()
            cost = usage.cost(since, until)
            peak_mb = usage.peak_mb("jvm", "python", since=since)
            parts = {part: usage.peak_mb(part, since=since) for part in ("jvm", "python")}
    cores = cost.cores(*MONITOR)
    figures = [
        Figure("20 clients: cores", cores, "cores", CORES),
        Figure("20 clients: memory of all processes", peak_mb, "MB", MEGABYTES),
        Figure("20 clients: memory (shared memory is counted once)", shared_mb, "MB"),
    ]
    how = (
        f"For {seconds:.0f} s, the monitor gets a sample and a log line every {INTERVAL_SECONDS} s from each of "
        f"{PRODUCERS} producers, {CONSUMERS} consumers and {GROUPS} groups. Only the second half of the time counts. "
        "The memory of all processes and the peak memory include shared memory once for each process that uses it."
    )
    rows = [
        [part, f"{cost.cores(part):.3f}", f"{parts[part]:,.0f}" if part in parts else "–"]
        for part in ("jvm", "python", "broker")
    ]
    return Result(figures, how, [Table(["process", "cores", "peak memory, MB"], rows)])
