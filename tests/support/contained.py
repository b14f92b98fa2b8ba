"""Run a program, and afterwards end everything that it started."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from deploy.demo.processes import give_way

#: PR_SET_CHILD_SUBREAPER in <linux/prctl.h>.
_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 10.0
PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Outcome:
    """How a program ended. `cpu_seconds` includes all descendants. `left` lists commands that outlived the program."""

    code: int
    cpu_seconds: float
    left: Sequence[str] = ()


class _Ended(BaseException):
    """An exception that is raised when a signal asks this process to end."""


def main(nice: int, command: Sequence[str]) -> int:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    left: Collection[str] = ()
    try:
        if nice:
            os.nice(nice)
            give_way(os.getpid(), nice)
        threading.Thread(target=_end_with_input, daemon=True).start()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
        code = _code(process.pid)
        left = _left()
    except _Ended:
        code = 128 + signal.SIGTERM
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _kill_all()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = Outcome(code, round(used.ru_utime + used.ru_stime, 1), [*left])
    sys.stdout.write(json.dumps(asdict(outcome)))
    return 0


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise _Ended


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _code(wanted: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == wanted:
            return os.waitstatus_to_exitcode(status)


def _left() -> Collection[str]:
    deadline = time.monotonic() + GRACE_SECONDS
    while (running := _below()) and time.monotonic() < deadline:
        _reap()
        time.sleep(PAUSE_SECONDS)
    return running.values()


def _kill_all() -> None:
    while running := _below():
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)
        _reap()
    _reap()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _below() -> Mapping[int, str]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process may end before its file in /proc is read.
        with suppress(OSError):
            state, parent = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(path.parent.name)] = int(parent)
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    commands = {}
    for pid in ours - {os.getpid()}:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            commands[pid] = words.decode(errors="replace").strip()
    return commands


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
