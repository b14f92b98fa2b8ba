"""The loop of `watch`: read every process once a second, and judge all of them together."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from clienthealth.diagnose.outcome import HEALTHY, NOT_JUDGED, UNHEALTHY
from clienthealth.diagnose.watch.attach import Agent, agent_jar, attached, lives, runtime_of
from clienthealth.diagnose.watch.python_process import Page, Stacks
from clienthealth.diagnose.watch.session import Session
from clienthealth.measure.lag_state import FINE
from clienthealth.model.clients import ClientProcess
from clienthealth.model.errors import InputError, ServiceError
from clienthealth.model.health_record import HealthRecord
from clienthealth.monitor.incidents import Transition
from clienthealth.settings import Settings
from clienthealth_exporters.groups.exporter import WATCHED_SECONDS, only, readings
from clienthealth_exporters.jvm.dumps import DumpBudget
from clienthealth_exporters.jvm.exporter import Target, Watch

INTERVAL_SECONDS = 1.0
#: Minimum time (s) between two dumps: long enough to show whether a thread moves.
DUMP_SECONDS = 5.0
DUMPS_PER_MINUTE = 12.0
#: A JVM with an unknown process id counts as ended after this silence (s).
GONE_SECONDS = 15.0


def watch_settings(settings: Settings, agent: Agent | None) -> Settings:
    """Return the settings with the intervals of `watch` and the attached agent's password."""
    changes: dict[str, Any] = {"interval_seconds": INTERVAL_SECONDS, "dump_min_seconds": DUMP_SECONDS}
    changes |= {"dumps_per_minute": DUMPS_PER_MINUTE, "thread_dumps": True}
    if agent is not None and agent.user:
        changes |= {"user": agent.user, "password_file": agent.password_file}
    return replace(settings, jvm=replace(settings.jvm, **changes))


class Reader(Protocol):
    """Reads the state of one process. `process` is None before the first read."""

    @property
    def process(self) -> ClientProcess | None: ...
    def publish(self) -> None: ...


@dataclass
class Watched:
    """A process that `watch` reads. `silent`: why the process does not answer, '' while it answers.

    `ended_ms`: when the process's end was noticed (epoch ms); 0 while the process runs.
    """

    service: str
    reader: Reader
    pid: int | None = None
    silent: str = ""
    ended_ms: int = 0
    _last_read: float = field(default_factory=time.monotonic)

    @property
    def instance(self) -> str:
        """The instance id of the process's clients; '' if the process was never read."""
        return self.reader.process.instance if self.reader.process is not None else ""

    def read(self) -> None:
        """Read the process's metrics and threads once. A failure sets `silent`, and `ended_ms` if the process ended."""
        try:
            self.reader.publish()
        except ServiceError as error:
            self.silent = str(error)
            quiet = time.monotonic() - self._last_read
            if not lives(self.pid) if self.pid is not None else quiet > GONE_SECONDS:
                self.ended_ms = int(time.time() * 1000)
        else:
            self.silent, self._last_read = "", time.monotonic()


def watched(text: str, jar: Path | None, settings: Settings, session: Session, agents: ExitStack) -> Watched:
    """Connect to a process, read its data for the first time, and return the process as `Watched`.

    `text`: `[SERVICE=]PID` or `[SERVICE=]URL [option=value]…`. `jar`: the agent's jar, None for the default.
    `agents`: an ExitStack. Closing this stack removes the attached agents from their JVMs.

    Raises InputError if `text` is invalid or no agent can be attached. Raises SettingsError for an invalid URL. Raises
    ServiceError if the process does not answer. Raises DependencyError if a tool is missing.
    """
    service, _, number = text.rpartition("=")
    pid = int(number) if number.isascii() and number.isdigit() else None
    if pid is None and "://" not in text:
        raise InputError(f"'{text}' is neither a process id nor a URL")
    reader: Reader
    budget = DumpBudget(DUMPS_PER_MINUTE)
    if pid is None:
        target = Target.parse(text)
        reader = Page(target.service, target.url, settings, session)
        if not reader.holds_clients():
            reader = Watch(target, watch_settings(settings, None), session, budget)
    elif runtime_of(pid) == "python":
        reader = Stacks(service or f"pid-{pid}", pid, watch_settings(settings, None), session, budget)
    else:
        agent = agents.enter_context(attached(pid, agent_jar(jar), bool(settings.jvm.password_file)))
        reader = Watch(Target(service or f"pid-{pid}", agent.url), watch_settings(settings, agent), session, budget)
    reader.publish()
    assert reader.process is not None
    return Watched(reader.process.service, reader, pid)


def watch(
    processes: Sequence[Watched],
    session: Session,
    stop: threading.Event,
    seconds: float | None,
    show: Callable[[Sequence[Transition]], None],
) -> None:
    """Read and judge the processes until `stop` is set, `seconds` are over, or all processes have ended.

    `show` is called after each judgement with the changes of the clients' incidents.
    """
    due = time.monotonic()
    end = due + (math.inf if seconds is None else seconds)
    under_way: dict[int, Future[None]] = {}
    with ThreadPoolExecutor(len(processes), thread_name_prefix="watch") as pool:
        while not stop.is_set() and time.monotonic() < end and not all(process.ended_ms for process in processes):
            for at, process in enumerate(processes):
                if at in under_way and under_way[at].done():
                    # If a mistake in our own code made `read` fail, `result` raises the exception, which ends the
                    # watch.
                    under_way.pop(at).result()
                if at not in under_way and not process.ended_ms:
                    under_way[at] = pool.submit(process.read)
            now = time.monotonic()
            due = max(due + INTERVAL_SECONDS, now)
            stop.wait(max(0.0, min(due, end) - now))
            show(session.step(int(time.time() * 1000)))
    show(session.step(int(time.time() * 1000)))


def ended_instances(processes: Sequence[Watched]) -> Mapping[str, int]:
    """Map the instance id of each ended process to the time of its end (epoch ms)."""
    return {process.instance: process.ended_ms for process in processes if process.ended_ms and process.instance}


def watch_group(
    group: str, settings: Settings, stop: threading.Event, seconds: float | None, show: Callable[[HealthRecord], None]
) -> HealthRecord:
    """Judge a consumer group's lag until `stop` is set or `seconds` are over, and return its newest state.

    `show` is called with each new state. Raises InputError if the group does not exist, and ServiceError if the group
    cannot be read or judged.
    """
    own = only(settings, group)
    session, begin = Session(own), time.monotonic()
    with closing(readings(own, group)) as snapshots_of_readings:
        for snapshots in snapshots_of_readings:
            for snapshot in snapshots:
                session.send(own.topics.metrics[0], "", snapshot)
            session.step(int(time.time() * 1000))
            if session.faults:
                raise ServiceError(f"group '{group}' could not be judged: {session.faults[0]}")
            (record,) = session.newest.values()
            show(record)
            left = WATCHED_SECONDS if seconds is None else min(WATCHED_SECONDS, begin + seconds - time.monotonic())
            if left <= 0 or stop.wait(left):
                break
    return record


def exit_code(record: HealthRecord) -> int:
    """Return 0 if the group's lag is fine, 1 if it is not, and 3 if the lag is unknown."""
    state = record.text("group", "status")
    return HEALTHY if state in FINE else NOT_JUDGED if state in (None, "UNKNOWN") else UNHEALTHY


def table(record: HealthRecord, seconds: float) -> list[str]:
    """Return a table of the group's lag as lines, the greatest lag first.

    `seconds`: duration of the watch so far.
    """
    members = record.value("group", "members")
    head = f"{record.client.group}: {record.text('group', 'status')}, "
    head += "members unknown" if members is None else f"{members:.0f} members"
    layout = "{:<28} {:>9} {:>12} {:>12} {:>10} {:<8} {}"
    lines = [
        f"{head}, watched for {seconds:.0f} s",
        layout.format("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "STATE", "MEMBER"),
    ]
    for row in sorted(record.rows("lag"), key=lambda row: -(row.get("records") or 0)):
        offsets = (row.get(name) for name in ("committed_offset", "end_offset", "records"))
        shown = ("?" if offset is None else offset for offset in offsets)
        lines.append(
            layout.format(row["topic"], row["partition"], *shown, row.get("state") or "", _member(row, seconds))
        )
    return lines


def _member(row: Mapping[str, Any], seconds: float) -> str:
    member, age = row.get("member"), row.get("commit_age_seconds")
    name = f"{member['client_id']} {member['host']}" if member else "no member"
    if not row.get("records"):
        return name
    return f"{name}: " + (f"committed {age:.0f} s ago" if age is not None else f"no commit seen in {seconds:.0f} s")
