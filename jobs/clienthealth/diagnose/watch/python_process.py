"""Read the stacks of a Python process with py-spy. Read the statistics page of a process in any language."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

from clienthealth.diagnose.watch.attach import output_of
from clienthealth.diagnose.watch.session import Session
from clienthealth.model.clients import ClientProcess
from clienthealth.model.errors import DependencyError, ServiceError
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import Settings
from clienthealth_exporters.jvm.dumps import DumpBudget, DumpPlan, Reason, dump_record

PY_SPY_SECONDS = 10.0
PAGE_SECONDS = 5.0
PAGE_BYTES = 16 * 1024 * 1024
_ALWAYS = (Reason("dumped regularly, because only the stacks of a Python process show its state"),)
_REFUSED = ("permission denied", "operation not permitted")


class Stacks:
    """Reads the stacks of a Python process. A `DumpPlan` limits how often the stacks are read."""

    def __init__(self, service: str, pid: int, settings: Settings, session: Session, budget: DumpBudget) -> None:
        host = socket.gethostname()
        self.process = ClientProcess(service, host, f"{host}:{pid}")
        beside = Path(sys.executable).with_name("py-spy")
        py_spy = str(beside) if beside.is_file() else shutil.which("py-spy")
        if py_spy is None:
            why = f"install py-spy to read the stacks of Python process {pid}: pip install py-spy"
            raise DependencyError(why)
        self._command = [py_spy, "dump", "--pid", str(pid)]
        self._topic, self._session = settings.topics.logs[0], session
        self._plan = DumpPlan(settings.jvm.dump_min_seconds, budget)

    def publish(self) -> None:
        """If a dump is due, read the stacks with py-spy and pass them to the session.

        Raises ServiceError if py-spy has no permission, fails, or does not end in time.
        """
        if not self._plan.due(_ALWAYS, time.monotonic()):
            return
        try:
            done = output_of(self._command, PY_SPY_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ServiceError(f"py-spy did not end within {PY_SPY_SECONDS:.0f} s") from error
        if done.returncode != 0:
            raise ServiceError(_why(done.stderr))
        record = dump_record(self.process, int(time.time() * 1000), done.stdout, _ALWAYS[0].text)
        self._session.send(self._topic, "", record)


class Page:
    """Reads the HTTP page on which a process shows its clients' statistics, in any format that the monitor reads."""

    def __init__(self, service: str, url: str, settings: Settings, session: Session) -> None:
        at = urllib.parse.urlsplit(url)
        host = socket.gethostname() if at.hostname in ("localhost", "127.0.0.1", "::1") else at.hostname or ""
        self.process = ClientProcess(service or at.netloc, host, at.netloc)
        self._url, self._session, self._settings = url, session, settings
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def holds_clients(self) -> bool:
        """True if the page can be read and names Kafka clients."""
        try:
            return bool(decode_metrics(self._read(), self._settings, int(time.time() * 1000)).snapshots)
        except ServiceError:
            return False

    def publish(self) -> None:
        """Read the statistics page and pass it to the session.

        Raises ServiceError if the page's server does not answer.
        """
        self._session.take(self._read())

    def _read(self) -> RawRecord:
        try:
            with self._opener.open(self._url, timeout=PAGE_SECONDS) as answer:
                value = answer.read(PAGE_BYTES)
        except OSError as error:
            raise ServiceError(f"{self._url}: {getattr(error, 'reason', error)}") from error
        client = {name: getattr(self.process, name).encode() for name in ("service", "host", "instance")}
        now_ms = int(time.time() * 1000)
        return RawRecord(value, Source(self._settings.topics.metrics[0], 0, 0), now_ms, None, client)


def _why(output: str) -> str:
    if any(word in output.lower() for word in _REFUSED):
        return (
            "py-spy has no permission to read the process: run this command as root, or permit access (sysctl "
            "kernel.yama.ptrace_scope=0; in a container, the capability SYS_PTRACE)"
        )
    lines = output.strip().splitlines()
    return f"py-spy: {lines[-1] if lines else 'no stacks'}"
