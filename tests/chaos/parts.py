"""Run parts of the product, and restart parts that end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deploy.demo.processes import Process

RESTART_SECONDS = 1.0
STOP_SECONDS = 60.0


class Supervised:
    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.log = name, log
        self.starts = 0
        self._command, self._environment = command, environment
        self._process: Process | None = None
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"supervisor of {name}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        self._wanted.set()

    def hold(self) -> None:
        self._wanted.clear()
        with self._lock:
            self._end()

    def abandon(self) -> Process:
        self._wanted.clear()
        with self._lock:
            process, self._process = self._process, None
        assert process is not None
        process.pause()
        return process

    def stop(self) -> int | None:
        self._wanted.clear()
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return None
            process.stop(STOP_SECONDS)
            return process.exit_code

    def close(self) -> None:
        self._closed.set()
        self.hold()
        self._thread.join()

    def processes(self, chosen: Callable[[str], bool]) -> list[tuple[int, str]]:
        with self._lock:
            leader = self._process.pid if self._process is not None else None
        return [] if leader is None else [process for process in session(leader) if chosen(process[1])]

    def pids(self, chosen: Callable[[str], bool]) -> list[int]:
        return [pid for pid, _ in self.processes(chosen)]

    def kill(self, chosen: Callable[[str], bool]) -> int:
        return self.signal(chosen, signal.SIGKILL)

    def signal(self, chosen: Callable[[str], bool], number: signal.Signals) -> int:
        pids = self.pids(chosen)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(pids)

    def tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:] if self.log.exists() else ""

    def _run(self) -> None:
        while not self._closed.is_set():
            if self._wanted.is_set():
                with self._lock:
                    if self._process is not None and not self._process.alive:
                        self._end()
                    elif self._process is None and self._wanted.is_set():
                        self._process = Process(self.name, self._command, self.log, environment=self._environment)
                        self.starts += 1
            self._closed.wait(RESTART_SECONDS)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pid, _ in session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.kill()


def everything(_: str) -> bool:
    return True


def jvm(command: str) -> bool:
    return command.split("\0")[0].endswith("java")


def workers(command: str) -> bool:
    # Exclude Spark's JVM: its command line contains the name of the worker module, too.
    return "clienthealth.spark.worker" in command and not jvm(command)


def session(leader: int) -> list[tuple[int, str]]:
    r"""Return (process id, command line) of a session's processes; a \0 ends each argument."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            command = (path / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if int(fields[3]) == leader:
            pids.append((int(path.name), command))
    return pids
