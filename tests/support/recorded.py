"""Read recordings of real clients with the code of `kafka-health diagnose`."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from clienthealth.diagnose.diagnosis import bucket_of, judged, pack, raw_record, silence
from clienthealth.diagnose.known import contexts
from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools, Ints
from clienthealth.measure.packed import Chunk, decode, encode
from clienthealth.measure.packer import Packer
from clienthealth.model.clients import Client
from clienthealth.model.readings import Reading
from clienthealth.model.telemetry import RawRecord
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import Verdict
from clienthealth.monitor import departures, readings
from clienthealth.monitor.adjust import adjust
from clienthealth.monitor.attribution import NO_LOG
from clienthealth.monitor.bucket import Bucket, Span
from clienthealth.monitor.client_verdicts import window_starts
from clienthealth.read.decode import decode_any, decode_logs, decode_metrics
from clienthealth.read.recordings import Recorded as Read
from clienthealth.read.recordings import read
from clienthealth.settings import Settings
from deploy.demo.replay import time_of

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests" / "recordings"
#: Cache of decoded recordings, for the last KEPT versions of the decoding code.
DECODED, KEPT = ROOT / ".cache" / "decoded", 2
SETTINGS = Settings()
DECODERS = {"any": decode_any, "metrics": decode_metrics, "logs": decode_logs}


@dataclass(frozen=True)
class Recorded:
    bucket: Bucket
    number: int

    @cached_property
    def client(self) -> Client:
        return self.bucket.state.all_clients[self.number]

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        return tuple(
            map(self.bucket.reading, np.flatnonzero(self.bucket.state.readings.client == self.number).tolist())
        )

    @cached_property
    def windows(self) -> tuple[ClientWindow, ...]:
        state, grid = self.bucket.state, self.bucket.grid
        client = state.all_clients[self.number]
        slide, length = int(grid.slide[self.number]), int(grid.length[self.number])
        process_log = self.bucket.logs.get(client.process)
        times = [
            *(reading.ts_ms for reading in self.readings),
            *(entry.ts_ms for entry in (process_log.entries if process_log else ())),
        ]
        start = np.array(sorted(window_starts(times, slide, length)), np.int64)
        lo, hi = self.bucket.span(np.full(len(start), self.number), start, start + length)
        windows = []
        for begin, first, end in zip(start.tolist(), lo.tolist(), hi.tolist(), strict=True):
            log = process_log.within(begin, begin + length).about(client) if process_log else NO_LOG
            if end > first or any(log):
                windows.append(self.bucket.window(client, self.number, Span(begin, begin + length, first, end), log))
        return tuple(windows)

    @cached_property
    def departure(self) -> ClientWindow:
        """Return the client's window at its departure, which is the end of the recording."""
        return departures.departure(self.bucket, self.number)

    @cached_property
    def silence(self) -> list[Verdict]:
        return silence(self.bucket, self.number, self.departure)


def folders(root: Path = RECORDINGS) -> list[Path]:
    return sorted(path.parent for path in root.rglob("truth.json"))


def clients(folder: Path, every_ms: int = 0) -> tuple[Recorded, ...]:
    return _clients(folder, every_ms)


@cache
def _clients(folder: Path, every_ms: int) -> tuple[Recorded, ...]:
    bucket = recorded_bucket(folder, every_ms)
    all_clients = bucket.state.all_clients
    return tuple(
        Recorded(bucket, n) for n in sorted(range(len(all_clients)), key=lambda n: (all_clients[n].instance, n))
    )


def verdicts(folder: Path, every_ms: int = 0) -> dict[Client, list[Verdict]]:
    return _verdicts(folder, every_ms)


@cache
def _verdicts(folder: Path, every_ms: int) -> dict[Client, list[Verdict]]:
    bucket = recorded_bucket(folder, every_ms)
    found = dict(judged(bucket).values())
    known = contexts(bucket, found, ())
    return {client: adjust("moment", client_verdicts, known[client]) for client, client_verdicts in found.items()}


def recorded_bucket(folder: Path, every_ms: int = 0) -> Bucket:
    return _bucket(folder, every_ms)


@cache
def _bucket(folder: Path, every_ms: int) -> Bucket:
    bucket = bucket_of(_packed(folder).chunks().values(), SETTINGS)
    state = bucket.state
    if every_ms:
        readings.keep_readings(state, _thinned(state.readings.client, state.readings.ts, every_ms))
    return Bucket(state, SETTINGS)


def _thinned(ref: Ints, ts: Ints, every_ms: int) -> Bools:
    """Return a mask of the samples to keep. Two kept samples of a client are at least 0.95 * `every_ms` apart."""
    keep = np.zeros(len(ts), bool)
    last: dict[int, int] = {}
    for row, (client, moment) in enumerate(zip(ref.tolist(), ts.tolist(), strict=True)):
        if client not in last or moment >= last[client] + every_ms - every_ms // 20:
            last[client], keep[row] = moment, True
    return keep


def sent(record: Read) -> RawRecord:
    return raw_record(replace(record, ts_ms=record.ts_ms or time_of(record.value) or 0))


def chunks(folder: Path) -> list[Chunk]:
    return [decode(encode(chunk)) for chunk in _packed(folder).chunks().values()]


class _Packed(Packer):
    def __init__(self, chunks: Mapping[int, Chunk]) -> None:
        super().__init__(1)
        self._chunks = dict(chunks)

    def chunks(self) -> dict[int, Chunk]:
        return self._chunks


@cache
def _packed(folder: Path) -> Packer:
    kept = DECODED / _code() / f"{folder.name}-{_hash(sorted(path for path in folder.rglob('*') if path.is_file()))}"
    if not kept.exists():
        packer, now_ms = Packer(1), int(time.time() * 1000)
        for first, *others in grouped(enumerate(read([folder])), _line).values():
            record, repeats = first[1], 1 + len(others)
            raw = sent(record)
            pack(DECODERS[record.stream](raw, SETTINGS, now_ms), raw.source, packer, repeats)
        encoded = {number: encode(chunk) for number, chunk in packer.chunks().items()}
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Replace the cached file in one step, because another process may read it.
        own = kept.with_name(f"{kept.name}.{os.getpid()}")
        own.write_bytes(pickle.dumps(encoded))
        own.replace(kept)
    decoded = {number: decode(chunk) for number, chunk in pickle.loads(kept.read_bytes()).items()}
    return _Packed(decoded)


def _line(numbered: tuple[int, Read]) -> object:
    """Return a record's key. Equal log lines share a key, because the monitor reads only one line of a burst."""
    number, record = numbered
    return (record.instance, record.file, record.value) if record.stream == "logs" else number


@cache
def _code() -> str:
    packages = (ROOT / folder for folder in ("jobs", "exporters"))
    sources = sorted(path for package in packages for path in package.rglob("*") if path.suffix in (".py", ".toml"))
    now = _hash([*sources, Path(__file__), ROOT / "uv.lock"])
    others = sorted((path for path in DECODED.glob("*") if path.name != now), key=lambda path: path.stat().st_mtime)
    for other in others[:-KEPT]:
        shutil.rmtree(other, ignore_errors=True)
    return now


def _hash(files: Iterable[Path]) -> str:
    found = hashlib.sha256(sys.version.encode())
    for path in files:
        found.update(f"{os.path.relpath(path, ROOT)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:20]
