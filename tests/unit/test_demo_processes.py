"""The demo's processes leave CPU time for other programs, and can be paused at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.demo.processes import Process, forget, give_way, spawn


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="CPUs are not shared among sessions")
def test_a_client_that_burns_a_cpu_gives_way_to_other_sessions() -> None:
    process = spawn(["sleep", "60"])
    try:
        give_way(process.pid, 19)
        assert Path(f"/proc/{process.pid}/autogroup").read_text(encoding="ascii").endswith("nice 19\n")
    finally:
        process.kill()
        process.wait()
        forget(process.pid)


def test_what_is_gone_needs_no_priority() -> None:
    process = spawn(["true"])
    process.wait()
    forget(process.pid)
    give_way(process.pid, 19)


def test_a_process_is_paused_even_if_it_waits_for_a_child_that_has_not_called_exec(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # After SIGSTOP, the parent stops only when its child has called exec.
    opens = "[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)]"
    spawns = f"import os, sys, time\nos.posix_spawn('/bin/true', ['true'], {{}}, file_actions={opens})\ntime.sleep(60)"
    process = Process("parent", [sys.executable, "-c", spawns, str(fifo)], tmp_path / "log")
    try:
        process.wait_until(lambda: len(states(process)) == 2, 20)
        with ThreadPoolExecutor() as threads:
            paused = threads.submit(process.pause)
            process.wait_until(lambda: "T" in states(process), 20)
            writer = os.open(fifo, os.O_RDWR)
            paused.result(60)
        os.close(writer)
        assert set(states(process)) <= {"T", "Z"}
    finally:
        process.kill()


def states(process: Process) -> list[str]:
    shown = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in shown.splitlines())
    return [state[0] for group, state in rows if int(group) == process.pid]
