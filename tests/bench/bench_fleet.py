"""Measure what a fleet's clients cost the Prometheus exporter."""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clienthealth.modes import modes
from clienthealth.platform.web import Request
from clienthealth.settings import PrometheusSettings, Settings
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import NOW_MS, group, record, verdict, wire

FAILING = 0.01
SERVICES = 200
Record = dict[str, Any]


def fleet(clients: int, failing: float = FAILING, services: int = SERVICES, end_ms: int = NOW_MS) -> Iterator[Record]:
    random = Random(7)
    ids = {kind: [m.id for m in modes().values() if kind in m.kinds] for kind in ("producer", "consumer")}
    for number in range(clients):
        kind, service = "consumer" if number % 2 else "producer", f"service-{number // 2 % services:03d}"
        verdicts = [verdict(mode, "ok") for mode in ids[kind]]
        if ill := random.random() < failing:
            verdicts[0] = verdict(ids[kind][0], "confirmed")
        yield record(
            *verdicts,
            service=service,
            host=f"node-{number // 10:05d}.dc1.example.org",
            instance=f"{service}-7c9d8f-{number:06d}:1",
            client_id=f"{service}-{kind}-1",
            kind=kind,
            worst="confirmed" if ill else "ok",
            group=f"{service}-workers" if kind == "consumer" else None,
            indicators=_producer(random) if kind == "producer" else _consumer(random, service),
            end_ms=end_ms,
        )


def groups(number: int, partitions: int = 12, end_ms: int = NOW_MS) -> Iterator[Record]:
    random = Random(11)
    for count in range(number):
        behind = 100_000 if count % 10 == 0 else 50
        lag = [
            {
                **{"topic": f"topic-{count:03d}", "partition": partition, "state": "OK", "start_offset": 1_000},
                **{"records": random.randrange(2, behind), "committed_offset": 900_000, "end_offset": 1_000_000},
                "member": {"host": f"node-{partition}", "consumer_id": f"c-{partition}", "client_id": "worker"},
            }
            for partition in range(partitions)
        ]
        one = group(f"group-{count:03d}", end_ms=end_ms)
        one["indicators"]["lag"] = lag
        yield one


def records(clients: int, failing: float = FAILING) -> Iterator[tuple[bytes, bytes, int]]:
    return map(wire, fleet(clients, failing))


def _producer(random: Random) -> dict[str, object]:
    return {
        "buffer_used_ratio": {"last": round(random.random() / 2, 4), "max": 0.5},
        "buffer": {"total_bytes": 33554432.0, "available_bytes": random.random() * 33554432, "waiting_threads": 0.0},
        "callback_seconds": {"avg": round(random.random() / 1000, 6), "max": 0.004, "source": "derived"},
        "io_thread_busy_ratio": round(random.random() / 10, 5),
        "queue_time_seconds": {"avg": 0.003, "max": 0.02},
        "request_latency_seconds": {"avg": round(random.random() / 50, 5), "max": 0.1},
        "record_error_rate": 0.0,
        "record_retry_rate": float(random.random() < 0.01),
        "batch_size_bytes": float(random.randrange(200, 16_384)),
        "compression_ratio": round(random.random(), 3),
        "connections": 3.0,
        "slowest_broker": {"id": float(random.randrange(9)), "latency_seconds": round(random.random() / 20, 5)},
        "throttle_seconds": 0.0,
        "queues": [],
        "lag": [],
    }


def _consumer(random: Random, service: str) -> dict[str, object]:
    lag = [
        {"topic": f"{service}-in", "partition": number, "records": random.randrange(50), "state": "OK"}
        for number in range(3)
    ]
    return {
        "throttle_seconds": 0.0,
        "last_poll_age_seconds": 0.0,
        "poll_idle_ratio": 0.8,
        "rebalance_rate": float(random.random() < 0.01) / 60,
        "records_consumed_rate": round(random.random() * 500, 1),
        "connections": 3.0,
        "commit_latency_seconds": {"avg": round(random.random() / 50, 5), "max": 0.1},
        "queues": [],
        "lag": lag,
    }


def measured(clients: int, profile: str, shard: str) -> None:
    chosen = PrometheusSettings(client_series=profile, shard=shard, max_series_per_metric=10 * clients)
    settings = Settings(prometheus=chosen)
    states = States(settings, clock=lambda: NOW_MS / 1000)
    exporter = Exporter(settings, states, lambda: None, clock=lambda: NOW_MS / 1000)
    taking_in = 0.0
    slice_: list[tuple[bytes, bytes, int]] = []
    for one in records(clients):
        slice_.append(one)
        if len(slice_) == 5_000:
            taking_in += _cpu(lambda: _taken_in(states, slice_))
            slice_.clear()
    taking_in += _cpu(lambda: _taken_in(states, slice_))
    first = _cpu(lambda: [*exporter.metrics()])
    page = [*exporter.metrics()]
    series = sum(block.count(b"\n") - block.count(b"\n#") for block in page)
    changed = next(records(1, failing=1.0))
    states.put(*changed)
    again = _cpu(lambda: [*exporter.metrics()])
    states.put(*next(records(1)))
    overview = _cpu(lambda: exporter(Request("/", {})))
    gc.collect()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(
        f"{profile:10} {shard or '-':6} {series:10,} series {sum(map(len, page)) / 1e6:8.1f} MB  "
        f"start {taking_in + first:6.2f} s CPU  page {again:5.2f} s  status page {overview:5.2f} s  "
        f"memory {rss:6.0f} MB",
        flush=True,
    )


def _taken_in(states: States, records: list[tuple[bytes, bytes, int]]) -> None:
    for one in records:
        states.put(*one)


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_fleet")
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--one", nargs=2, metavar=("PROFILE", "SHARD"), help="measure one exporter in this process")
    asked, _ = parser.parse_known_args()
    if asked.one:
        measured(asked.clients, *asked.one)
        return
    shards = [("all", f"{number}/{asked.shards}") for number in range(1, asked.shards + 1)]
    total = 0
    for run in shards or [("unhealthy", ""), ("all", "")]:
        command = [sys.executable, "-m", "tests.bench.bench_fleet", "--clients", str(asked.clients), "--one", *run]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(line, end="", flush=True)
        total += int(line.split()[2].replace(",", ""))
    if shards:
        print(f"{total:,} series in all, {total / asked.clients:.1f} a client")


if __name__ == "__main__":
    main()
