"""Judge watched clients by their samples and dumps, with the monitor's own steps: decode, pack, judge."""

from __future__ import annotations

import json
import queue
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clienthealth.diagnose.diagnosis import add_ends, client_key, pack, settled
from clienthealth.diagnose.frames import decisive, is_application
from clienthealth.measure.packed import Chunk, encode
from clienthealth.measure.packer import Packer
from clienthealth.model import canonical, health_record
from clienthealth.model.clients import Client
from clienthealth.model.errors import InputError
from clienthealth.model.readings import POLL_FRAMES, Source
from clienthealth.model.telemetry import DumpedThread, LogLine, RawRecord
from clienthealth.model.verdicts import STATUS_ORDER, Verdict
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.faults import isolated
from clienthealth.monitor.incidents import Transition
from clienthealth.monitor.state import BucketState, load, save
from clienthealth.monitor.step import Published, step
from clienthealth.platform.secrecy import redacted, shown
from clienthealth.read.decode import decode_logs, decode_metrics
from clienthealth.settings import Settings

_ODD = re.compile(r"[^\w.-]+")


class Recorder:
    """Writes the watched data, without secrets, to files that `diagnose` can read.

    Each service gets a folder with `metrics.jsonl` and a `jstack-*.txt` per dump. Raises InputError if a file cannot be
    written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dumps: dict[str, int] = {}

    def readings(self, value: Mapping[str, Any]) -> None:
        """Append a client's snapshot to `metrics.jsonl` as a line, without service, host and instance."""
        client = value["client"]
        anonymous = {**client, "service": None, "host": None, "instance": None}
        line = {**value, "client": anonymous, "config": shown(value["config"])}
        self._write(client["service"], "metrics.jsonl", json.dumps(line) + "\n", "a")

    def dump(self, record: Mapping[str, Any]) -> None:
        """Take the thread dump from a log record's message, and write the dump to a file `jstack-*.txt`."""
        service = record["service.name"]
        self._dumps[service] = number = self._dumps.get(service, 0) + 1
        at = datetime.fromisoformat(record["@timestamp"])
        self._write(service, f"jstack-{number:02}-{at:%H%M%S}.txt", redacted(record["message"]) + "\n", "w")

    def _write(self, service: str, name: str, text: str, mode: str) -> None:
        folder = self._folder / _ODD.sub("-", service)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / name).open(mode, encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            raise InputError(f"--record {self._folder}: cannot be written: {error.strerror}") from error


#: Maximum number of dumps in memory. The number is small, because a dump of thousands of threads takes megabytes.
KEPT_DUMPS = 20
_encode = msgspec.json.Encoder().encode


class Stand(NamedTuple):
    """A thread in the newest dump of a process, and how long the thread has had the same frames.

    `since_ms`  time (epoch ms) of the dump that first showed the current frames; all dumps since then show them
    `at_ms`     time of the newest dump, epoch ms
    `dumps`     number of dumps from `since_ms` to `at_ms`
    `cpu_ms`    CPU time (ms) of the thread since `since_ms`; None if unknown
    `polled`    True if the newest dump or an earlier one shows the thread inside poll()
    """

    thread: DumpedThread
    since_ms: int
    at_ms: int
    dumps: int = 1
    cpu_ms: float | None = None
    polled: bool = False

    @property
    def seconds(self) -> float:
        """The time (s) for which all dumps have shown the thread in the same frames."""
        return (self.at_ms - self.since_ms) / 1000

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object for this thread in the output of `watch`."""
        of_thread = {"name": self.thread.name, "state": self.thread.state, "since": self.since_ms, "dumps": self.dumps}
        return of_thread | {"cpu_ms": self.cpu_ms, "polled": self.polled, "frames": decisive(self.thread.frames)}


class Session:
    """Judges watched clients. `send` and `take` accept records, from any thread. `step` judges the clients.

    `newest`  maps a client's key to the client's state, as the monitor would publish it
    `found`   maps a client's key and a failure mode to the worst verdict so far, except verdicts that were withdrawn or
              moved to another client
    `dumps`   the threads in the newest KEPT_DUMPS (20) records with thread dumps, by `Source`
    `stands`  a `Stand` for each thread of an application, by instance id and thread name
    `faults`  the texts of the errors because of which data or clients were not judged
    """

    def __init__(self, settings: Settings, recorder: Recorder | None = None) -> None:
        self._settings = replace(settings, monitor=replace(settings.monitor, publish_seconds=0))
        self._recorder = recorder
        self._inbox: queue.SimpleQueue[tuple[RawRecord, Mapping[str, Any] | None]] = queue.SimpleQueue()
        self._state: bytes | bytearray = save(BucketState(), 1)
        self._taken: Counter[str] = Counter()
        self.newest: dict[str, health_record.HealthRecord] = {}
        self.found: dict[str, dict[str, tuple[Client, Verdict]]] = {}
        self.dumps: dict[Source, list[DumpedThread]] = {}
        self.stands: dict[str, dict[str, Stand]] = {}
        self.faults: list[str] = []

    def send(self, topic: str, key: str, value: Mapping[str, Any]) -> None:
        """Accept a snapshot or a log line that an exporter would send to a topic. `key` is ignored."""
        del key
        self._inbox.put((RawRecord(_encode(value), Source(topic, 0, 0), int(time.time() * 1000)), value))

    def take(self, record: RawRecord) -> None:
        """Accept a record of metrics in any format."""
        self._inbox.put((record, None))

    def step(self, now_ms: int) -> list[Transition]:
        """Judge the records since the last step, and return the changes of findings.

        A finding is opened, confirmed, closed (over), withdrawn (never true) or moved (to another client). `now_ms`:
        the present time (epoch ms).
        """
        packer = Packer(1)
        for _ in range(self._inbox.qsize()):
            raw, value = self._inbox.get()
            topic = raw.source.topic
            source = raw.source = Source(topic, 0, self._taken[topic])
            self._taken[topic] += 1
            is_dump = topic in self._settings.topics.logs
            decoded = (decode_logs if is_dump else decode_metrics)(raw, self._settings, now_ms)
            if self._recorder is not None and is_dump and value is not None:
                self._recorder.dump(value)
            elif self._recorder is not None:
                for reading in [value] if value is not None else map(canonical.written, decoded.snapshots):
                    self._recorder.readings(reading)
            pack(decoded, source, packer)
            self._keep(source, decoded.lines, now_ms)
        chunk = packer.chunks().get(0, Chunk())
        chunk.clocks = [packer.clock] if packer.clock else []

        def run(state: BucketState, chunks: Sequence[Chunk]) -> tuple[Published, bytearray]:
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

    def standing(self, instance: str) -> list[Stand]:
        """Return the application's threads in the newest dump of the process `instance`.

        Threads that called poll() come first, then all other threads. In each of the two groups, the thread that has
        had the same frames for the longest time comes first.
        """
        stands = self.stands.get(instance, {}).values()
        return sorted(stands, key=lambda s: (not s.polled, s.since_ms, s.cpu_ms or 0.0, s.thread.name))

    def ended_processes(self, ended: Mapping[str, int]) -> Mapping[str, Mapping[str, Any]]:
        """Return a JSON object for each process, by the process's instance id.

        `threads` has the application's threads in the newest dump, and `ended` is the end time (epoch ms). A field
        with an unknown value is absent.
        """
        by_instance: dict[str, dict[str, Any]] = defaultdict(dict)
        for instance in self.stands:
            by_instance[instance]["threads"] = [stand.as_json() for stand in self.standing(instance)]
        for instance, ended_ms in ended.items():
            by_instance[instance]["ended"] = ended_ms
        return by_instance

    def _keep(self, source: Source, lines: Sequence[LogLine], now_ms: int) -> None:
        threads: list[DumpedThread] = []
        for line in lines:
            for dump in line.dumps:
                self._stand(line.client.instance or "", line.ts_ms or now_ms, dump.threads)
                threads += dump.threads
        if threads:
            self.dumps[source] = threads
            if len(self.dumps) > KEPT_DUMPS:
                del self.dumps[next(iter(self.dumps))]

    def _stand(self, instance: str, ts_ms: int, threads: Iterable[DumpedThread]) -> None:
        before, now = self.stands.get(instance, {}), dict[str, Stand]()
        for thread in filter(is_application, threads):
            last = before.get(thread.name)
            polls = any(method.endswith(POLL_FRAMES) for method, _ in thread.frames)
            polled = polls or (last is not None and last.polled)
            if last is None or [f.method for f in last.thread.frames] != [f.method for f in thread.frames]:
                now[thread.name] = Stand(thread, ts_ms, ts_ms, polled=polled)
                continue
            used = None
            if thread.cpu_ms is not None and last.thread.cpu_ms is not None:
                used = (last.cpu_ms or 0.0) + thread.cpu_ms - last.thread.cpu_ms
            now[thread.name] = Stand(thread, last.since_ms, ts_ms, last.dumps + 1, used, polled)
        self.stands[instance] = now

    def clients(self, ended: frozenset[str] = frozenset()) -> list[tuple[Client, list[Verdict]]]:
        """Return all clients, each with its worst verdict per mode.

        `ended`: instance ids of the ended processes. A client of an ended process also gets verdicts on how the
        client ended.
        """
        bucket = Bucket(load(self._state, 1), self._settings)
        by_key: dict[str, tuple[Client, list[Verdict]]] = {}
        for key in {**self.newest, **self.found}:
            found, record = self.found.get(key, {}), self.newest.get(key)
            client = record.client if record else next((client for client, _ in found.values()), None)
            if client is not None:
                now = {verdict.mode: verdict for verdict in record.verdicts} if record else {}
                worst = {mode: verdict for mode, (_, verdict) in found.items()}
                by_key[client_key(client)] = client, list({**now, **worst}.values())
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
