"""Run the monitor's `step` on one bucket, and collect what is published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clienthealth.diagnose.diagnosis import pack
from clienthealth.measure.packed import Chunk, Clock, LogEntry, client_of, decode, encode
from clienthealth.measure.packer import Packer
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.faults import Fault
from clienthealth.monitor.incidents import OpenIncident
from clienthealth.monitor.state import BucketState, load
from clienthealth.monitor.step import Published, step
from clienthealth.settings import MonitorSettings, Settings
from clienthealth.spark.decoding import decompressed
from clienthealth.spark.stepping import advance, by_bucket
from tests.support.recorded import Recorded

__all__ = ["START", "Stepped", "logged", "pack", "snapshot"]

#: The beginning of a minute (epoch ms).
START = 1_795_208_640_000
#: Every batch publishes its clients, so that tests see the effect of each sample.
SETTINGS = Settings(monitor=MonitorSettings(publish_seconds=0))
LONGER = 6
SHOWN_SHORTLY = replace(SETTINGS, absence=replace(SETTINGS.absence, shown_seconds=240))


def snapshot(
    second: float,
    metrics: Mapping[str, float] | None = None,
    client_id: str = "p",
    kind: str = "producer",
    service: str = "shop",
    instance: str = "h:1",
    topics: Sequence[TopicMetrics] = (),
    every: float = 10,
    delta: bool = False,
    host: str = "h",
) -> Snapshot:
    return Snapshot(
        START + int(1000 * second),
        Identity(service, host, instance, client_id, kind, "java", "3.9.1"),
        {name: float(value) for name, value in (metrics or {}).items()},
        list(topics),
        {},
        int(1000 * every),
        delta,
    )


def logged(
    second: float,
    signature: str = "buffer-exhausted",
    client_id: str | None = None,
    service: str = "shop",
    instance: str | None = None,
    thread: str | None = None,
    dump: ThreadDump | None = None,
    **captures: str,
) -> LogEntry:
    ts_ms = START + int(1000 * second)
    source = Source("client-logs", 0, int(1000 * second))
    if dump is not None:
        return LogEntry(service, "h", instance, dump=dump)
    event = LogEvent(ts_ms, signature, "x", client_id, thread=thread, captures=captures, source=source)
    return LogEntry(service, "h", instance, event)


class Kept:
    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self.value is not None
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value


def by_batch(
    inputs: Iterable[Snapshot | LogEntry], seconds: float, beside: str | None = None
) -> dict[float, list[Snapshot | LogEntry]]:
    """Group inputs into batches. Return a mapping from the end of a batch (s) to its inputs.

    `beside`: id of a client. The batches form groups of `LONGER` batches. If a group contains only samples of this
    client, the group becomes one batch.
    """
    numbered: dict[int, list[Snapshot | LogEntry]] = {}
    for one in sorted(inputs, key=lambda one: one.ts_ms or 0):
        numbered.setdefault(int(((one.ts_ms or 0) - START) / 1000 // seconds), []).append(one)
    busy = {
        number // LONGER
        for number, items in numbered.items()
        if any(isinstance(one, LogEntry) or one.client.client_id != beside for one in items)
    }
    ends: dict[float, list[Snapshot | LogEntry]] = {}
    for number in range(min(numbered), max(numbered) + 1):
        last = number if beside is None or number // LONGER in busy else number // LONGER * LONGER + LONGER - 1
        ends.setdefault((last + 1) * seconds, []).extend(numbered.get(number, []))
    return ends


class Stepped:
    """Runs `step` on one bucket, batch by batch.

    `saved`: True if each batch loads the state that the previous batch saved
    `apart`: True if a step may leave out a process with data that makes the step fail
    """

    def __init__(
        self,
        settings: Settings = SETTINGS,
        saved: bool = True,
        apart: bool = False,
        opened: Sequence[OpenIncident] = (),
    ) -> None:
        self.settings, self.saved, self.apart = settings, saved, apart
        self.faults: list[Fault] = []
        self._state: BucketState | None = BucketState()
        self.published: list[Published] = []
        self._kept: Any = Kept()
        self._opened = by_bucket(opened, 1)
        self._offset = 0

    def chunk(self, inputs: Iterable[Snapshot | LogEntry]) -> Chunk:
        packer = Packer(1)
        for item in inputs:
            if isinstance(item, LogEntry):
                packer.log_entry((item.service, item.host, item.instance), item.event, item.dump)
            else:
                packer.snapshot(item, client_of(item.client), Source("client-metrics", 0, self._offset))
                self._offset += 1
        chunks = packer.chunks()
        chunk = chunks.get(0, Chunk())
        chunk.clocks = [packer.clock] if packer.clock else []
        return decode(encode(chunk))

    def batch(
        self, inputs: Iterable[Snapshot | LogEntry], second: float = 10_000_000, others: float | None = None
    ) -> Published:
        """Run a batch `second` s after START on the monitor's clock.

        `others`: watermark of another task, in seconds after START; None if there is no other task.
        """
        chunks, now_ms = [self.chunk(inputs)], START + int(1000 * second)
        if others is not None:
            there_ms = START + int(1000 * others)
            chunks.append(Chunk(clocks=[Clock(there_ms, 1, there_ms - 15_000)]))
        if self.saved:
            packed = list(map(encode, chunks))
            advanced, self.faults = advance(0, packed, self._kept, self.settings, self._opened, now_ms)
            assert self.apart or not self.faults, self.faults
            published = advanced[0] if advanced else Published()
            if self._kept.exists:
                self._state = None
        else:
            published = step(self.state, chunks, self.settings, now_ms)
        self.published.append(published)
        return published

    def batches(
        self, inputs: Iterable[Snapshot | LogEntry], seconds: float, beside: str | None = None
    ) -> list[Published]:
        return [self.batch(items, end) for end, items in by_batch(inputs, seconds, beside).items()]

    @property
    def state(self) -> BucketState:
        if self._state is None:
            self._state = load(decompressed(self._kept.get[0]), self.settings.monitor.buckets)
        return self._state

    @property
    def clients(self) -> dict[str, Recorded]:
        bucket = Bucket(self.state, self.settings)
        return {client.client_id: Recorded(bucket, number) for number, client in enumerate(self.state.all_clients)}

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        return {key: json.loads(value) for p in self.published for key, value in p.records if value is not None}

    @property
    def minutes(self) -> list[dict[str, Any]]:
        return [row for p in self.published for row in p.minutes]
