"""Limit the CPU share of processes with control groups."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tests.support.waiting import eventually

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
EMPTY_SECONDS = 10.0


@contextmanager
def share(cores: float) -> Iterator[Path | None]:
    first = (ROOT / "cgroup.controllers").exists()
    group = (ROOT if first else ROOT / "cpu") / f"kafka-health-{uuid4()}"
    quota = round(cores * PERIOD_US)
    try:
        if first:
            (ROOT / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
        group.mkdir()
        if first:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}", encoding="ascii")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US), encoding="ascii")
            (group / "cpu.cfs_quota_us").write_text(str(quota), encoding="ascii")
    except OSError:
        with suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        with suppress(TimeoutError):
            eventually(lambda: _removed(group), "the group is empty", EMPTY_SECONDS)


def _removed(group: Path) -> bool:
    """Remove the control group. Return False if a killed process is still in the group."""
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def join(group: Path, pid: int) -> None:
    (group / "cgroup.procs").write_text(str(pid), encoding="ascii")


@contextmanager
def pinned(cores: Collection[int]) -> Iterator[None]:
    """Pin processes that start in this context to the cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
