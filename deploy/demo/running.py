"""A running demo client: its process, its output, and functions that act on it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from pathlib import Path

from kafka.errors import KafkaError

from clienthealth.model.errors import HealthError, ServiceError
from deploy.demo.processes import forget, spawn

STOP_SECONDS = 5.0
_PUSHES_AS = re.compile(rb"Client telemetry registered with client instance id: (\S+)\n")


class Running:
    """A started client of the demo. Lines that begin with ONSET, RECOVERED or COUNTERS in its output are parsed.

    `jolokia_urls`  targets for `kafka-health export jvm`
    `actions`       functions that run in threads while the program runs, for example outages. Each function must return
                    soon after `self.wait` returns True
    `output`        file with everything that the program prints
    `onset_ms`      time (epoch ms) of the first line `ONSET` or call of `begins`; None before
    `timeline`      (epoch ms, text) of each event so far
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        service: str,
        jolokia_urls: Sequence[str],
        log_file: Path,
        actions: Sequence[Callable[[Running], None]] = (),
    ) -> None:
        self.service = service
        self.jolokia_urls = list(jolokia_urls)
        self.log_file = log_file
        self.onset_ms: int | None = None
        self._counters: dict[int, dict[str, int]] = {}
        self.timeline: list[tuple[int, str]] = []
        self._failure: Exception | None = None
        self._push_ids: set[str] = set()
        self._log_read = 0
        self._onset = threading.Event()
        self._stopping = threading.Event()
        self.output = folder / "output.txt"
        self._process = spawn(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.note("application started")
        self._threads = [threading.Thread(target=self._read, name=f"read {folder.name}", daemon=True)]
        for action in actions:
            self._threads.append(
                threading.Thread(target=self._act, args=(action,), name=f"act on {folder.name}", daemon=True)
            )
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def counters(self) -> Counter[str]:
        """The counters that each process of the program printed last, summed over the processes."""
        total = Counter[str]()
        for counted in list(self._counters.values()):
            total.update(counted)
        return total

    def is_instance(self, name: str) -> bool:
        """Return whether a client of this program has this instance (`host:pid` or `host:client_instance_id`)."""
        process_name = name.rpartition(":")[2]
        return process_name == str(self.pid) or process_name in self._push_ids or process_name in self._read_push_ids()

    def _read_push_ids(self) -> Set[str]:
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_read)
                new, newline, _ = log.read().rpartition(b"\n")
        except FileNotFoundError:
            return self._push_ids
        self._log_read += len(new + newline)
        self._push_ids |= {found.decode() for found in _PUSHES_AS.findall(new + newline)}
        return self._push_ids

    @property
    def log_source(self) -> str:
        """Return a line of JSON with the path of the program's log file."""
        host = socket.gethostname()
        source = {"service": self.service, "host": host, "instance": f"{host}:{self.pid}", "file": str(self.log_file)}
        return json.dumps(source)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set() or not self.alive

    def wait(self, seconds: float) -> bool:
        return self._stopping.wait(seconds) or not self.alive

    def wait_for_onset(self, seconds: float) -> bool:
        return self._onset.wait(seconds)

    def begins(self, what: str) -> None:
        """Record that a failure begins now. `what`: a text that describes the failure."""
        self._understand(f"ONSET {int(time.time() * 1000)} {what}")

    def note(self, what: str) -> None:
        self.timeline.append((int(time.time() * 1000), what))

    def stop(self) -> None:
        self._stopping.set()
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self._process.wait()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def check(self) -> None:
        """Raise an error if an action failed, or if the output could not be parsed."""
        if self._failure is not None:
            raise self._failure

    def _act(self, action: Callable[[Running], None]) -> None:
        try:
            action(self)
        except (HealthError, KafkaError, OSError) as error:
            self._failure = error

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self.output.open("w", encoding="utf-8") as copy:
            for line in self._process.stdout:
                copy.write(line)
                copy.flush()
                try:
                    self._understand(line.strip())
                except ValueError:
                    # Continue to read, because a full pipe would block the program.
                    self._failure = ServiceError(f"{self.output}: not understood: {line.strip()}")
        self.note(f"application ended, exit code {self._process.wait()}")
        forget(self.pid)

    def _understand(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "COUNTERS":
            counted = json.loads(rest)
            self._counters[counted.pop("pid", self.pid)] = counted
        elif word in ("ONSET", "RECOVERED"):
            at, _, what = rest.partition(" ")
            self.timeline.append((int(at), f"{word} {what}"))
            if word == "ONSET" and self.onset_ms is None:
                self.onset_ms = int(at)
                self._onset.set()
