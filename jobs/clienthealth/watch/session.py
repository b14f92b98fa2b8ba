"""What is known of the clients that are watched: readings and dumps, decoded, packed and stepped as in the stream."""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clienthealth.decode import decode_logs, decode_metrics
from clienthealth.diagnose import add_ends, pack, settled
from clienthealth.incidents import Transition
from clienthealth.model import health_record
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread, RawRecord, Snapshot
from clienthealth.model.verdicts import STATUS_ORDER, Verdict
from clienthealth.settings import Settings
from clienthealth.step import Published, readings, step
from clienthealth.step.bucket import Bucket
from clienthealth.step.faults import isolated
from clienthealth.step.state import BucketState, load, save
from clienthealth.watch.recorder import Recorder
from clienthealth.windows.packed import Chunk, encode, who_of
from clienthealth.windows.packer import Packer

#: A watch may last for days, and a dump of thousands of threads takes megabytes.
KEPT_DUMPS = 20
_encode = msgspec.json.Encoder().encode


def _canonical(snapshot: Snapshot) -> Mapping[str, Any]:
    """A snapshot in our own form, from whatever format it came."""
    return {
        "ts": snapshot.ts_ms,
        "client": msgspec.to_builtins(snapshot.client),
        "metrics": snapshot.metrics,
        "topics": msgspec.to_builtins(snapshot.topics),
        "config": snapshot.config,
    }


class Session:
    """Takes what would go to topics (`send`, from any thread), and judges it when `step` is called.

    newest  the state of each client as the monitor would publish it, by key
    found   the worst that was found of each client, by key and mode; what turned out to be no failure is taken back
    dumps   the threads of the newest dumps
    faults  clients that could not be judged, by a mistake of ours
    """

    def __init__(self, settings: Settings, recorder: Recorder | None = None) -> None:
        """`recorder`: keeps what was read."""
        self._settings, self._recorder = settings, recorder
        self._inbox: queue.SimpleQueue[tuple[RawRecord, Mapping[str, Any] | None]] = queue.SimpleQueue()
        self._state: bytes | bytearray = save(BucketState(), 1)
        self._taken: Counter[str] = Counter()
        self.newest: dict[str, health_record.HealthRecord] = {}
        self.found: dict[str, dict[str, tuple[Client, Verdict]]] = {}
        self.dumps: dict[Source, list[DumpedThread]] = {}
        self.faults: list[str] = []

    def send(self, topic: str, key: str, value: Mapping[str, Any]) -> None:
        """A snapshot or a line of log, as an exporter publishes it."""
        del key
        self._inbox.put((RawRecord(_encode(value), Source(topic, 0, 0), int(time.time() * 1000)), value))

    def take(self, record: RawRecord) -> None:
        """A record of metrics in any format."""
        self._inbox.put((record, None))

    def step(self, now_ms: int) -> list[Transition]:
        """Judge what has come since the last step; which failures opened, became certain, or were over."""
        packer = Packer(1)
        for _ in range(self._inbox.qsize()):
            raw, value = self._inbox.get()
            topic = raw.source.topic
            source = raw.source = Source(topic, 0, self._taken[topic])
            self._taken[topic] += 1
            is_dump = topic in self._settings.topics.logs
            decode = decode_logs if is_dump else decode_metrics
            decoded = decode(raw, self._settings, now_ms)
            if self._recorder is not None and is_dump and value is not None:
                self._recorder.dump(value)
            elif self._recorder is not None:
                for canonical in [value] if value is not None else map(_canonical, decoded.snapshots):
                    self._recorder.readings(canonical)
            pack(decoded, source, packer)
            for snapshot in decoded.snapshots:
                if snapshot.client.kind == "group":
                    packer.snapshot(snapshot, who_of(snapshot.client), source)
            threads = [thread for line in decoded.lines for dump in line.dumps for thread in dump.threads]
            if threads:
                self.dumps[source] = threads
                if len(self.dumps) > KEPT_DUMPS:
                    del self.dumps[next(iter(self.dumps))]
        chunk = packer.chunks().get(0, Chunk())
        chunk.clocks = [packer.clock] if packer.clock else []

        def run(state: BucketState, chunks: Sequence[Chunk], _: bool) -> tuple[Published, bytearray]:
            return step(state, chunks, self._settings, now_ms), save(state, 1)

        stepped, faults = isolated(self._state, [encode(chunk)], 1, run)
        self.faults += [fault.reason for fault in faults]
        if stepped is None:
            return []
        published, self._state = stepped
        for key, record in published.records:
            if record is None:
                self.newest.pop(key, None)
            else:
                self._note(key, health_record.decode(record))
        for change in published.changes:
            if change.change in ("withdrawn", "moved"):
                self.found.get(change.client.key, {}).pop(change.verdict.mode, None)
        return published.changes

    def clients(self, ended: frozenset[str] = frozenset()) -> list[tuple[Client, list[Verdict]]]:
        """All clients with their verdicts: the worst of each mode, `ok` only where there is evidence of health.

        `ended`: instances whose process has ended; of their clients, what that says.
        """
        state = load(self._state, 1)
        bucket = Bucket(state, self._settings, readings.grid_of(state, self._settings.monitor))
        by_key: dict[str, tuple[Client, list[Verdict]]] = {}
        for key in {**self.newest, **self.found}:
            worst = {mode: verdict for mode, (_, verdict) in self.found.get(key, {}).items()}
            record = self.newest.get(key)
            client = record.client if record else next((client for client, _ in self.found[key].values()), None)
            if client is not None:
                now = {verdict.mode: verdict for verdict in record.verdicts} if record else {}
                by_key[f"{client.kind}|{key}"] = client, list({**now, **worst}.values())
        add_ends(bucket, by_key, ended)
        judged = settled(bucket, by_key, ()).values()
        clients = [(client, sorted(verdicts, key=lambda verdict: verdict.mode)) for client, verdicts in judged]
        return sorted(clients, key=lambda client_judged: client_judged[0].key)

    def _note(self, key: str, record: health_record.HealthRecord) -> None:
        self.newest[key] = record
        for verdict in record.verdicts:
            before = self.found.get(key, {}).get(verdict.mode)
            rank = STATUS_ORDER.index(verdict.status)
            if verdict.unhealthy and (before is None or rank >= STATUS_ORDER.index(before[1].status)):
                self.found.setdefault(key, {})[verdict.mode] = record.client, verdict
