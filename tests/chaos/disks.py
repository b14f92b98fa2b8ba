"""Provide small disks that a fault can fill or make read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSIDE = "CHAOS_NAMESPACE"
SIZE_MB = 400
BALLAST = "ballast"


def enter() -> None:
    if INSIDE in os.environ or unavailable() is not None:
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", [*_unshare(), sys.executable, "-m", "tests.chaos", *sys.argv[1:]])


def inside() -> bool:
    return INSIDE in os.environ


def unavailable() -> str | None:
    """Return the reason why this machine cannot mount disks, or None if it can mount disks."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "no mount namespaces here"
    tried = [*_unshare(), "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"mounting is not permitted: {done.stderr.strip()}"


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder))
    try:
        yield
    finally:
        # The disk vanishes when the last process closes its files there.
        _run("umount", "--lazy", str(folder))


def fill(folder: Path) -> None:
    with (folder / BALLAST).open("ab") as ballast:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        os.posix_fallocate(ballast.fileno(), 0, max(1, free))


def empty(folder: Path) -> None:
    (folder / BALLAST).unlink(missing_ok=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only by a bind mount, which works despite open files."""
    _run("mount", "--bind", str(folder), str(folder))
    try:
        _run("mount", "-o", "remount,bind,ro", str(folder))
        yield
    finally:
        _run("umount", "--lazy", str(folder))


def _unshare() -> list[str]:
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
