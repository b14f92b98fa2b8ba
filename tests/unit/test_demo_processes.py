"""The demo's processes leave CPU time for other programs on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo.processes import forget, give_way, spawn


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
