"""Read CPU time and memory of programs and of all their processes from /proc."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
SEARCH_SECONDS = 1.0
MONITOR = ("jvm", "python", "children")


@dataclass(frozen=True)
class Cost:
    seconds: float
    parts: Mapping[str, float]

    def cores(self, *names: str) -> float:
        return self.cpu(*names) / self.seconds

    def per_record(self, records: int, *names: str) -> float:
        """Return the CPU time per record in microseconds."""
        return self.cpu(*names) / max(1, records) * 1e6

    def cpu(self, *names: str) -> float:
        return sum(self.parts[name] for name in names or self.parts)


@dataclass
class _Sample:
    at: float
    cpu: dict[str, float] = field(default_factory=dict)
    rss_mb: dict[str, float] = field(default_factory=dict)


class Usage:
    def __init__(self, programs: Mapping[str, int], every: float = 0.1) -> None:
        self._sessions = {pid: name for name, pid in programs.items()}
        self._every = every
        self._samples: list[_Sample] = []
        self._pids: dict[int, str] = {}
        # Maps each process, including ended processes, to (component such as `jvm`, CPU seconds).
        self._own: dict[int, tuple[str, float]] = {}
        self._young: set[int] = set()
        self._searched = 0.0
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def cost(self, since: float, until: float) -> Cost:
        with self._lock:
            names = list(self._samples[-1].cpu)
            return Cost(
                max(1e-9, until - since), {name: self._cpu(name, until) - self._cpu(name, since) for name in names}
            )

    def peak_mb(self, *names: str, since: float = 0.0) -> float:
        with self._lock:
            return max(
                (sum(s.rss_mb.get(name, 0.0) for name in names) for s in self._samples if s.at >= since), default=0.0
            )

    def proportional_mb(self, program: str) -> float:
        return sum(_proportional_mb(pid) for pid, name in list(self._pids.items()) if name == program)

    def _cpu(self, name: str, at: float) -> float:
        samples = self._samples
        after = min(max(1, bisect_left(samples, at, key=lambda s: s.at)), len(samples) - 1)
        if len(samples) == 1:
            return samples[0].cpu.get(name, 0.0)
        left, right = samples[after - 1], samples[after]
        share = min(1.0, max(0.0, (at - left.at) / max(1e-9, right.at - left.at)))
        before = left.cpu.get(name, 0.0)
        return before + share * (right.cpu.get(name, 0.0) - before)

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            self._sample()

    def _sample(self) -> None:
        if time.monotonic() - self._searched >= SEARCH_SECONDS:
            self._search()
        sample = _Sample(time.time())
        for pid, program in self._pids.items():
            stat = _stat(pid)
            if stat is None:
                continue
            own, children, rss_mb, java = stat
            part = program if program != "monitor" else "jvm" if java else "python"
            self._own[pid] = part, own
            _add(sample.rss_mb, part, rss_mb)
            if part == "jvm":
                _add(sample.cpu, "children", children)
        for part, own in self._own.values():
            _add(sample.cpu, part, own)
        with self._lock:
            self._samples.append(sample)

    def _search(self) -> None:
        """Find processes. After the first search, a new process is measured only when two searches have found it.

        This is because a new child of the JVM shares the JVM's memory at first.
        """
        by_pid = {pid: self._sessions[leader] for pid, leader in _sessions().items() if leader in self._sessions}
        first = not self._searched
        before = self._pids.keys() | self._young
        self._young = by_pid.keys() - before
        self._pids = {pid: name for pid, name in by_pid.items() if first or pid in before}
        self._searched = time.monotonic()


def _add(to: dict[str, float], name: str, value: float) -> None:
    to[name] = to.get(name, 0.0) + value


def _fields(pid: int | str) -> tuple[str, list[str]] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition(" (")[2].rpartition(") ")
    return name, rest.split()


def _sessions() -> dict[int, int]:
    by_pid: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _fields(entry.name)) is not None:
            by_pid[int(entry.name)] = int(stat[1][3])
    return by_pid


def _stat(pid: int) -> tuple[float, float, float, bool] | None:
    """Return a process's CPU seconds, its ended children's CPU seconds, its resident MB, and whether it is a JVM."""
    stat = _fields(pid)
    if stat is None:
        return None
    name, fields = stat
    own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / TICKS, children / TICKS, int(fields[21]) * PAGE_MB, name == "java"


def _proportional_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1.024e-3
