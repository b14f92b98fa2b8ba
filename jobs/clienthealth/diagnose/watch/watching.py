"""The loop: every process is read each second, by itself, and all that was read is judged together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from clienthealth.diagnose.watch.attach import Agent, agent_jar, attached, lives, runtime_of
from clienthealth.diagnose.watch.python_process import Page, Stacks
from clienthealth.diagnose.watch.session import Session
from clienthealth.model.clients import ClientProcess
from clienthealth.model.errors import InputError, ServiceError
from clienthealth.monitor.incidents import Transition
from clienthealth.settings import Settings
from clienthealth_exporters.jvm.dumps import DumpBudget
from clienthealth_exporters.jvm.exporter import Target, Watch

INTERVAL_SECONDS = 1.0
#: Two dumps show whether a thread stands still; five seconds lie between them.
DUMP_SECONDS = 5.0
DUMPS_PER_MINUTE = 12.0
#: A JVM without a process id of ours that does not answer for so long is taken to have ended.
GONE_SECONDS = 15.0


def watch_settings(settings: Settings, agent: Agent | None) -> Settings:
    """The settings with the pace of a watch, and the password of an agent that a watch brought in."""
    jvm = replace(
        settings.jvm,
        interval_seconds=INTERVAL_SECONDS,
        dump_min_seconds=DUMP_SECONDS,
        dumps_per_minute=DUMPS_PER_MINUTE,
        thread_dumps=True,
    )
    if agent is not None and agent.user:
        jvm = replace(jvm, user=agent.user, password_file=agent.password_file)
    return replace(settings, jvm=jvm)


class Reader(Protocol):
    """Whoever reads a process: `process` is known once it was read."""

    @property
    def process(self) -> ClientProcess | None: ...
    def publish(self) -> None: ...


@dataclass
class Watched:
    """A process that is watched. `silent`: why it does not answer, '' while it does.

    `ended_ms`: when it was found to have ended (epoch ms), 0 while it runs.
    """

    service: str
    reader: Reader
    pid: int | None = None
    silent: str = ""
    ended_ms: int = 0
    _heard: float = field(default_factory=time.monotonic)

    def read(self) -> None:
        """Read once; a process that has not ended may be silent."""
        try:
            self.reader.publish()
        except ServiceError as error:
            self.silent = str(error)
            quiet = time.monotonic() - self._heard
            if not lives(self.pid) if self.pid is not None else quiet > GONE_SECONDS:
                self.ended_ms = int(time.time() * 1000)
        else:
            self.silent, self._heard = "", time.monotonic()


def watched(text: str, jar: Path | None, settings: Settings, session: Session, agents: ExitStack) -> Watched:
    """A process by `[SERVICE=]PID` or `[SERVICE=]URL [option=value]…`, read once. `jar`: of the agent, None: ours.

    An agent that is brought in for it leaves when `agents` is closed. Raises InputError for what is no such process,
    SettingsError for what is no URL, ServiceError where it does not answer, DependencyError where a tool is missing.
    """
    service, _, number = text.rpartition("=")
    pid = int(number) if number.isascii() and number.isdigit() else None
    if pid is None and "://" not in text:
        raise InputError(f"'{text}' is neither a process id nor a URL")
    reader = _reader(text, service, pid, jar, settings, session, agents)
    reader.publish()
    assert reader.process is not None
    return Watched(reader.process.service, reader, pid)


def _reader(
    text: str, service: str, pid: int | None, jar: Path | None, settings: Settings, session: Session, agents: ExitStack
) -> Reader:
    budget, agent = DumpBudget(DUMPS_PER_MINUTE), None
    if pid is not None:
        service = service or f"pid-{pid}"
        if runtime_of(pid) == "python":
            return Stacks(service, pid, watch_settings(settings, None), session, budget)
        agent = agents.enter_context(attached(pid, agent_jar(jar), bool(settings.jvm.password_file)))
        target = Target(service, agent.url)
    else:
        target = Target.parse(text)
        page = Page(target.service, target.url, settings, session)
        if page.holds_clients():
            return page
    return Watch(target, watch_settings(settings, agent), session, budget)


def watch(
    processes: Sequence[Watched],
    session: Session,
    stop: threading.Event,
    seconds: float | None,
    show: Callable[[Sequence[Transition]], None],
) -> None:
    """Until `stop` is set, so many seconds are over, or all processes have ended. `show`: called after each step."""
    begin = time.monotonic()
    under_way: list[Future[None] | None] = [None] * len(processes)
    with ThreadPoolExecutor(len(processes), thread_name_prefix="watch") as pool:
        due = begin
        while not stop.is_set() and not all(process.ended_ms for process in processes):
            for at, process in enumerate(processes):
                task = under_way[at]
                if task is not None and task.done():
                    # A mistake of ours ends the watch.
                    task.result()
                    task = under_way[at] = None
                if task is None and not process.ended_ms:
                    under_way[at] = pool.submit(process.read)
            now = time.monotonic()
            due = max(due + INTERVAL_SECONDS, now)
            left = due - now if seconds is None else min(due - now, begin + seconds - now)
            stop.wait(max(0.0, left))
            show(session.step(int(time.time() * 1000)))
            if seconds is not None and time.monotonic() - begin >= seconds:
                break
    show(session.step(int(time.time() * 1000)))


def ended_instances(processes: Sequence[Watched]) -> Mapping[str, int]:
    """Those that have ended, as the records of their clients call them, and when (epoch ms)."""
    return {
        process.reader.process.instance: process.ended_ms
        for process in processes
        if process.ended_ms and process.reader.process is not None
    }
