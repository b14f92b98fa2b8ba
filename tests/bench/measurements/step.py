"""Measure the CPU time per record of the step that judges clients, without Spark."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from clienthealth.measure.packed import Chunk, client_of, decode, encode
from clienthealth.measure.packer import Packer
from clienthealth.model.readings import LogEvent
from clienthealth.monitor.state import BucketState, load, save
from clienthealth.monitor.step import step
from clienthealth.read.decode import fast
from clienthealth.settings import Settings
from clienthealth.spark import stepping
from clienthealth.spark.decoding import compressed, decompressed
from tests.bench import canonical
from tests.bench.lab import PARTITIONS
from tests.bench.measurements import Scope
from tests.bench.measurements.fleet import SICK, SICK_FROM, values_of
from tests.bench.results import Figure, Result, Table

TITLE = "CPU of judging alone"
CLIENTS, INTERVALS, BATCH_SECONDS = 3_125, (10, 30), 10
MEASURED, WARM = 6, SICK_FROM + 6
SPOKEN = 100
LINES = (
    ("node-disconnected", "Node 2 disconnected."),
    ("connection-failed", "Connection to node 2 could not be established. Node may not be available."),
)
START_MS = 1_795_208_640_000
PARTS = ("unpack", "load", "step", "rows", "save")
SETTINGS = Settings()


def measure(scope: Scope) -> Result:
    figures, rows = [], []
    for every in INTERVALS:
        bucket = Bucket(every)
        bucket.run(WARM * every // BATCH_SECONDS, (1 if scope.quick else MEASURED) * every // BATCH_SECONDS)
        name = f"judging without Spark, {CLIENTS:,} clients, a sample every {every} s"
        figures.append(Figure(f"{name}: CPU per record", bucket.micros(*PARTS), "µs"))
        parts = [f"{bucket.micros(part):.1f}" for part in PARTS]
        rows.append([f"{every} s", *parts, f"{bucket.published / bucket.records:.2f}", f"{len(bucket.kept) / 1e6:.2f}"])
        print(f"  {name}: {bucket.micros(*PARTS):.1f} µs a record", flush=True)
    how = (
        f"One process judges {CLIENTS:,} producers. In a fleet of 100,000 producers, each of 32 Spark tasks judges "
        f"{CLIENTS:,} producers. One producer in {SICK} hangs in a callback. The columns show the CPU of each phase of "
        "a batch, in the order of the phases."
    )
    head = ["interval of samples", *(f"{part}, µs per record" for part in PARTS), "results per sample", "state, MB"]
    return Result(figures, how, [Table(head, rows)])


@dataclass
class Bucket:
    every: int
    kept: bytes = field(default_factory=lambda: compressed(save(BucketState(), SETTINGS.monitor.buckets)))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    records: int = 0
    published: int = 0

    def run(self, warm: int, batches: int) -> None:
        for number, packed in enumerate(self._packed(warm + batches)):
            if number == warm:
                self.records, self.published, self.seconds = 0, 0, dict.fromkeys(PARTS, 0.0)
            self._step(packed, START_MS + 1000 * BATCH_SECONDS * (number + 1))

    def _step(self, packed: Sequence[bytes], now_ms: int) -> None:
        # Collect garbage only between steps, as Spark's workers do between tasks.
        gc.collect()
        gc.disable()
        monitor = SETTINGS.monitor
        with self._timed("unpack"):
            chunks = [decode(decompressed(data)) for data in packed]
        with self._timed("load"):
            state = load(decompressed(self.kept), monitor.buckets)
        with self._timed("step"):
            published = step(state, chunks, SETTINGS, now_ms)
        with self._timed("rows"):
            stepping._rows(published, 0, SETTINGS.topics.max_message_bytes, now_ms)
        with self._timed("save"):
            self.kept = compressed(save(state, monitor.buckets))
        gc.enable()
        self.records += sum(len(chunk.readings) for chunk in chunks)
        self.published += len(published.records)

    def micros(self, *parts: str) -> float:
        return sum(self.seconds[part] for part in parts) / self.records * 1e6

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[part] += time.process_time() - began

    def _packed(self, batches: int) -> Iterator[Sequence[bytes]]:
        template, packers = canonical.producer(), [Packer(1) for _ in range(PARTITIONS)]
        for batch in range(batches):
            begin, end = (CLIENTS * BATCH_SECONDS * number // self.every for number in (batch, batch + 1))
            for number in range(begin, end):
                client, reading, ts_ms = number % CLIENTS, number // CLIENTS, self._time(number)
                sample = fast(memoryview(template.record(values_of(client, reading, ts_ms))[1]), False, ts_ms)
                assert sample is not None
                ref, packer, partition = (
                    client_of(sample.client.identity),
                    packers[client % PARTITIONS],
                    client % PARTITIONS,
                )
                where = "client-metrics", partition, number
                packer.reading(packer.slot(ref), ts_ms, sample.values, *where, sample.config, sample.interval_ms)
                if not number % SPOKEN:
                    event = LogEvent(ts_ms, *LINES[number // SPOKEN % 2], ref.client_id)
                    packer.log_entry((ref.service, ref.host, ref.instance), event)
            yield [compressed(encode(_closed(packer))) for packer in packers]

    def _time(self, number: int) -> int:
        return START_MS + 1000 * self.every * number // CLIENTS


def _closed(packer: Packer) -> Chunk:
    (chunk,) = packer.chunks().values()
    chunk.clocks = [packer.clock] if packer.clock else []
    return chunk
