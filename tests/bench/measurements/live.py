"""Compare what the monitor and a Kafka Streams program cost per record of a live fleet."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.bench import canonical, peer
from tests.bench.lab import PARTITIONS, Lab
from tests.bench.load import Load, Steady
from tests.bench.log_lines import of_library, ordinary
from tests.bench.measurements import Scope
from tests.bench.measurements.fleet import SICK, SICK_FROM, values_of
from tests.bench.measurements.onset import DEADLOCK, Verdicts
from tests.bench.results import NEVER, Figure, Result, Table
from tests.bench.templates import Values
from tests.bench.usage import MONITOR, Cost, Usage

TITLE = "A live fleet compared with Kafka Streams"
TOPIC, LOGS = "client-metrics", "client-logs"
FLEETS = (
    (5_000, 10, None, None),
    (5_000, 30, None, None),
    (20_000, 10, 0.20, None),
    (20_000, 30, None, None),
    (100_000, 10, 0.70, None),
    (100_000, 30, 0.40, 1500.0),
)
#: RATIO: the monitor's highest allowed CPU time per record, relative to that of Kafka Streams.
RATIO, ONSET_SECONDS = 1.5, 40.0
KEEPS_UP = 0.9
SPOKEN, OF_LIBRARY = 10, 100
HEALTHY_SECONDS, WATCHED_SECONDS, LOOK_SECONDS = 900, 120.0, 5.0


@dataclass(frozen=True)
class Live:
    monitor: Cost
    peer: Cost
    due: int
    worked_off: int
    peer_took: int
    memory_mb: float
    onsets: list[float]
    sick: int

    @property
    def micros(self) -> float:
        """Return the monitor's CPU time (µs) per record, without the broker's CPU time."""
        return self.monitor.per_record(self.worked_off, *MONITOR)

    @property
    def ratio(self) -> float:
        return self.micros / self.peer.per_record(self.peer_took, "peer")

    @property
    def p95(self) -> float:
        every = [*self.onsets, *[float("inf")] * (self.sick - len(self.onsets))]
        return every[min(len(every) - 1, round(0.95 * len(every)))]


class Fleet:
    def __init__(self, clients: int, every: int) -> None:
        self.began, self._sent, self._clients = time.time(), 0, clients
        self.last = HEALTHY_SECONDS // every

        def value_of(client: int, reading: int, ts_ms: int) -> Values:
            return values_of(client, reading + SICK_FROM - self.last, ts_ms)

        self._steady = Steady(TOPIC, canonical.producer(), clients, clients / every, value_of=value_of)

    def __call__(self, since: float, until: float) -> Iterable[tuple[str, bytes, bytes]]:
        for topic, key, value in self._steady(since, until):
            client = self._sent % self._clients
            self._sent += 1
            yield topic, key, value
            if not self._sent % SPOKEN:
                yield LOGS, key, ordinary(client, until)
            if not self._sent % OF_LIBRARY:
                yield LOGS, b"", of_library(client, until)


def measure(scope: Scope) -> Result:
    fleets: Iterable[tuple[int, int, float | None, float | None]] = FLEETS
    if scope.quick or scope.clients:
        asked = scope.clients or 500, scope.every or 10
        fleets = [fleet for fleet in FLEETS if fleet[:2] == asked] or [(*asked, None, None)]
    figures, rows = [], []
    for clients, every, most_cores, most_mb in fleets:
        live = _live(clients, every)
        name = f"live fleet of {clients:,} clients, a sample every {every} s"
        parts = [live.monitor.per_record(live.worked_off, part) for part in ("jvm", "python", "broker")]
        shown = f"JVM {parts[0]:.0f}, Python {parts[1]:.0f}; p95 {live.p95:.0f} s, {live.memory_mb:.0f} MB"
        print(f"  {name}: {live.micros:.0f} µs a record, {live.ratio:.2f} × the peer; {shown}", flush=True)
        aimed = (clients, every) == (20_000, 10)
        onset = ONSET_SECONDS if clients == 100_000 else None
        cores = live.monitor.cores(*MONITOR)
        behind = live.worked_off < KEEPS_UP * live.due
        target = None if behind else most_cores
        note = f"the monitor read only {live.worked_off / live.due:.0%} of its input" if behind else ""
        figures += [
            Figure(f"{name}: cores", cores, "cores", target, peer=live.peer.cores("peer"), note=note),
            Figure(f"{name}: CPU per record, relative to Kafka Streams", live.ratio, "×", RATIO if aimed else None),
            Figure(f"{name}: memory (shared memory is counted once)", live.memory_mb, "MB", most_mb),
            Figure(
                f"{name}: time to the verdict for 95 % of the failures", min(live.p95, NEVER), "s", onset, note=note
            ),
        ]
        peer_micros = live.peer.per_record(live.peer_took, "peer")
        cells = [f"{micros:.0f}" for micros in (live.micros, *parts, peer_micros)]
        today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        rows.append([f"{clients:,}", f"{every} s", *cells, f"{len(live.onsets)} of {live.sick}", today])
    how = (
        f"The monitor and Kafka Streams {peer.KAFKA_STREAMS} read the same topic at the same time. After "
        f"{HEALTHY_SECONDS} s the measurement begins, and one producer in {SICK} hangs in a callback from then on. The "
        f"measurement lasts {WATCHED_SECONDS:.0f} s plus one interval. The CPU per record excludes the broker."
    )
    parts_head = [f"{part}, µs" for part in ("JVM", "Python", "broker for both", "Kafka Streams")]
    head = ["clients", "interval", "CPU per record, µs", *parts_head, "failures found", "date (UTC)"]
    return Result(figures, how, [Table(head, rows)])


def _live(clients: int, every: int) -> Live:
    rate = clients / every
    seconds = every + WATCHED_SECONDS
    with Lab() as lab, ExitStack() as stack:
        lab.topics()
        monitor = stack.enter_context(lab.monitor())
        monitor.wait_for_queries()
        other = peer.started(lab, "peer", TOPIC, 1 << 40, PARTITIONS)
        stack.callback(other.stop, 20)
        usage = stack.enter_context(Usage({"peer": other.pid}))
        verdicts = Verdicts(lab.servers, monitor.settings.topics.health)
        stack.callback(verdicts.close)
        fleet = Fleet(clients, every)
        with Load(lab.servers, fleet):
            monitor.watch(HEALTHY_SECONDS, LOOK_SECONDS)
            since, before, taken = time.time(), monitor.checkpoints.count(TOPIC), peer.progress(other.log)[-1][1]
            while time.time() < since + seconds:
                verdicts.read(LOOK_SECONDS)
                monitor.watch(0)
            until, after = time.time(), monitor.checkpoints.count(TOPIC)
            took = peer.progress(other.log)[-1][1] - taken
            memory_mb = monitor.usage.proportional_mb("monitor")
        onsets = {client: fleet.began + (fleet.last * clients + client) / rate for client in range(0, clients, SICK)}
        firsts = ((verdicts.first.get((client, DEADLOCK)), at) for client, at in onsets.items())
        found = sorted(first - at for first, at in firsts if first is not None)
        costs = monitor.usage.cost(since, until), usage.cost(since, until)
        return Live(*costs, round(rate * (until - since)), after - before, took, memory_mb, found, len(onsets))
