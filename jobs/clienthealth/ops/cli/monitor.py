"""`kafka-health monitor`: run the streaming job, and restart the job when it fails."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clienthealth.model.errors import HeapError, ServiceError, StateError

#: Exit code (EX_TEMPFAIL) of a failed job that may succeed after a restart.
AGAIN = 75
#: Exit code of a job that exhausted its heap; the next job gets --heap-ran-out.
HEAP = 76
#: Exit codes after which the job is not restarted: success (0), wrong usage or unusable environment (2), Ctrl-C (130).
FINAL = (0, 2, 130)
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
#: After a job that ran longer than WELL_SECONDS, the pauses begin at FIRST_WAIT again.
WELL_SECONDS = 300.0


def run(args: argparse.Namespace) -> int:
    """Run the monitor until a signal ends it, and return its exit code.

    A failed job is restarted after a pause, unless its exit code is in FINAL. The pauses grow from 1 to 60 s.
    """
    from clienthealth.configuration import load

    settings = load(args.config)
    if not args.once and "PYSPARK_GATEWAY_PORT" not in os.environ:
        with _alone(settings.monitor.checkpoint):
            return _supervised(args.config)
    from clienthealth.ops.cli._stderr import to_stderr
    from clienthealth.spark.program import run as run_monitor
    from clienthealth.spark.session import session

    to_stderr()
    try:
        run_monitor(session("kafka-client-health", settings), settings, args.heap_ran_out)
    except ServiceError as error:
        print(f"kafka-health: {error}", file=sys.stderr, flush=True)
        # Skip Python's normal shutdown, which waits for the JVM: the JVM may have ended, or may never answer.
        os._exit(HEAP if isinstance(error, HeapError) else AGAIN)
    return 0


@contextmanager
def _alone(checkpoint: str) -> Iterator[None]:
    """Lock the checkpoint's folder, because two monitors on one checkpoint would fail."""
    from clienthealth.platform.locations import is_url
    from clienthealth.spark.failures import ANOTHER

    lock = None
    try:
        if not is_url(checkpoint):
            Path(checkpoint).mkdir(parents=True, exist_ok=True)
            lock = os.open(Path(checkpoint, "lock"), os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StateError(ANOTHER.format(checkpoint=checkpoint)) from error
    except OSError as error:
        # If the folder is unusable, the streaming job fails with an error that says what to do.
        print(f"kafka-health: {checkpoint} cannot be locked: {error.strerror}", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _supervised(config: str | None) -> int:
    from clienthealth.platform.stopping import set_by_signal

    command = [sys.executable, "-m", "clienthealth.ops.cli", "monitor", "--once"]
    command += ["--config", config] if config else []
    job: list[subprocess.Popen[bytes]] = []
    stop = threading.Event()

    def stop_job(number: int, _: object) -> None:
        set_by_signal(stop)
        for process in job:
            process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_job)
    wait, code = FIRST_WAIT, 0
    while True:
        begun = time.monotonic()
        job[:] = [subprocess.Popen([*command, "--heap-ran-out"] if code == HEAP else command)]
        code = job[0].wait()
        if stop.is_set() or code in FINAL:
            return code
        if time.monotonic() - begun > WELL_SECONDS:
            wait = FIRST_WAIT
        print(
            f"kafka-health: the monitor ended with exit code {code} and restarts in {wait:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if stop.wait(wait):
            return 0
        wait = min(2 * wait, LONGEST_WAIT)
