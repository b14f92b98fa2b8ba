"""Small disks of our own for the checkpoint and the history: full or read-only as a fault wants it.

They are file systems in memory, mounted in a mount namespace of the campaign's own, so that nothing stays mounted when
it has ended, however it ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Set in a program that runs in such a namespace.
INSIDE = "CHAOS_NAMESPACE"
SIZE_MB = 400
BALLAST = "ballast"


def enter() -> None:
    """Start this program anew in a mount namespace of its own, where this machine lets us; else go on as we are."""
    if INSIDE in os.environ or unavailable() is not None:
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", [*_unshare(), sys.executable, "-m", "tests.chaos", *sys.argv[1:]])


def inside() -> bool:
    """May this program mount disks."""
    return INSIDE in os.environ


def unavailable() -> str | None:
    """Why this machine does not let us mount disks; None where it does."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "no mount namespaces here"
    tried = [*_unshare(), "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"mounting is not permitted: {done.stderr.strip()}"


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """A disk of its own for an empty folder."""
    _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder))
    try:
        yield
    finally:
        # Who has a file open there keeps it as long as he lives.
        _run("umount", "--lazy", str(folder))


def fill(folder: Path) -> None:
    """Not a byte is left."""
    with (folder / BALLAST).open("ab") as ballast:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        os.posix_fallocate(ballast.fileno(), 0, max(1, free))


def empty(folder: Path) -> None:
    """The opposite of `fill`."""
    (folder / BALLAST).unlink(missing_ok=True)


def read_only(folder: Path, yes: bool) -> None:
    """Refuse all writing, or permit it again."""
    _run("mount", "-o", f"remount,{'ro' if yes else 'rw'}", str(folder))


def _unshare() -> list[str]:
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
