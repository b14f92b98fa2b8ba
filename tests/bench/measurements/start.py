"""Measure the time from the monitor's cold start to the first report of a failure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clienthealth.model.errors import ServiceError
from tests.bench.lab import Lab
from tests.bench.measurements import Scope
from tests.bench.measurements.onset import DEADLOCK, INTERVAL_SECONDS, TOPIC, Fate, Fleet, Verdicts
from tests.bench.publish import fill
from tests.bench.results import Figure, Result, Table
from tests.bench.usage import MONITOR

TITLE = "Time from the start to the first verdict"
CLIENTS, HISTORY_SECONDS, FAILING_SECONDS = 20, 300.0, 180.0
STARTS = 3
LIMIT_SECONDS = 300.0
TARGET_SECONDS = 10.0


@dataclass(frozen=True)
class Start:
    """The times of a start in seconds. `cpu` is the CPU time up to the first verdict."""

    planned: float
    verdict: float
    cpu: float


def measure(scope: Scope) -> Result:
    with Lab() as lab:
        lab.topics()
        fill(lab.servers, TOPIC, _readings(time.time()), CLIENTS)
        starts = [_start(lab, f"monitor-{number}") for number in range(1 if scope.quick else STARTS)]
    figures = [
        Figure(
            "start of the monitor: time to the first verdict",
            statistics.median(s.verdict for s in starts),
            "s",
            TARGET_SECONDS,
        ),
    ]
    how = (
        f"`kafka-health monitor` starts without checkpoint and history. The topic has samples of {CLIENTS} clients; "
        "one of them hangs in a callback. The time runs from the start until a consumer gets the verdict."
    )
    rows = [[str(n), f"{s.planned:.1f}", f"{s.verdict:.1f}", f"{s.cpu:.1f}"] for n, s in enumerate(starts, 1)]
    return Result(
        figures,
        how,
        [Table(["start", "time to the first batch, s", "time to the verdict, s", "CPU of the monitor, s"], rows)],
    )


def _readings(now: float) -> Iterator[tuple[bytes, bytes]]:
    phases = (client * INTERVAL_SECONDS / CLIENTS for client in range(CLIENTS))
    fates = [Fate(client, DEADLOCK, phase, fills_in=30.0) for client, phase in enumerate(phases)]
    fates[0].onset = now - FAILING_SECONDS
    fleet = Fleet(fates)
    for second in range(round(HISTORY_SECONDS)):
        at = now - HISTORY_SECONDS + second
        for _, key, value in fleet(at, at + 1):
            yield key, value


def _start(lab: Lab, name: str) -> Start:
    with lab.monitor(name) as monitor:
        verdicts = Verdicts(lab.servers, monitor.settings.topics.health)
        failing = (0, DEADLOCK)
        try:
            while failing not in verdicts.first:
                if not monitor.process.alive or time.time() - monitor.started > LIMIT_SECONDS:
                    raise ServiceError(f"no verdict {LIMIT_SECONDS:.0f} s after the start\n{monitor.process.tail()}")
                verdicts.read(0.2)
        finally:
            verdicts.close()
        seconds = verdicts.first[failing] - monitor.started
        cpu = monitor.usage.cost(monitor.started, monitor.started + seconds)
        (plan,) = Path(monitor.settings.monitor.checkpoint).glob("*/offsets/0")
        start = Start(plan.stat().st_mtime - monitor.started, seconds, cpu.cores(*MONITOR) * cpu.seconds)
    print(f"  {name}: planned {start.planned:.1f} s, verdict {start.verdict:.1f} s, CPU {start.cpu:.1f} s", flush=True)
    return start
