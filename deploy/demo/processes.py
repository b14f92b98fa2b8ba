"""Start child processes that end when this process ends, even if it is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from clienthealth.model.errors import ServiceError

_GUARD = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
_lock = threading.Lock()
_guard: subprocess.Popen[str] | None = None
TAIL_LINES, TAIL_COLUMNS = 15, 400
_PORTS = (20_000, 32_768)


def spawn(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a process in its own session.

    The caller must call `forget` when the process has ended.
    """
    with _lock:
        guard = _started_guard()
        process = subprocess.Popen(
            command, stdin=options.pop("stdin", subprocess.DEVNULL), start_new_session=True, **options
        )
        _tell(guard, f"+{process.pid}")
    return process


def give_way(pid: int, nice: int) -> None:
    """Lower the priority of a process and of all processes in its session.

    The call has no effect if the system is not Linux, or if this process may not change the priority.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")


def forget(pid: int) -> None:
    """Tell the guard process not to kill `pid`, because a new process may get this id."""
    with _lock:
        if _guard is not None:
            _tell(_guard, f"-{pid}")


def free_port() -> int:
    """Return a free TCP port on loopback, from 20,000 to 32,767.

    Higher ports are not used, because the system may give them to outgoing connections at any time.
    """
    while True:
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def port_or_free(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return free_port()
    return port


class Process:
    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        output: IO[bytes]
        with log.open("ab") as output:
            self._process = spawn(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=None if environment is None else {**os.environ, **environment},
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs; -N if signal N ended the process."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        # On macOS, killpg raises PermissionError if all processes of the group have ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def pause(self) -> None:
        """Freeze the process and wait until it is stopped."""
        while not self._stopped():
            # SIGSTOP may stop a child of the process between fork and exec. The process then cannot stop, because it
            # waits for this child. Let the process and the child continue, and try again.
            self.resume()
            time.sleep(0.1)

    def _stopped(self) -> bool:
        self.signal(signal.SIGSTOP)
        for _ in range(50):
            try:
                pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                if os.WIFSTOPPED(status):
                    return True
                raise ServiceError(f"{self.name} has ended\n{self.tail()}")
            time.sleep(0.1)
        return False

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self, seconds: float = 10.0) -> None:
        """Ask the process to end, and kill it if it still runs after `seconds`."""
        if self.alive:
            self._process.terminate()
            self.resume()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()
        forget(self.pid)

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready` returns True.

        Raises ServiceError, with the end of the log, if the process is not ready in `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.alive:
                raise ServiceError(f"{self.name} ended with exit code {self.exit_code}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServiceError(f"{self.name} was not ready after {seconds:.0f} s\n{self.tail()}")
            time.sleep(0.1)

    def tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join((*(f"  {line[:TAIL_COLUMNS]}" for line in lines), f"  (log: {self.log})"))


def _started_guard() -> subprocess.Popen[str]:
    global _guard
    if _guard is None or _guard.poll() is not None:
        _guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    return _guard


def _tell(guard: subprocess.Popen[str], line: str) -> None:
    assert guard.stdin is not None
    guard.stdin.write(f"{line}\n")
    guard.stdin.flush()
