"""`kafka-health export jvm`: read the Kafka clients of JVMs through their Jolokia agents.

A target is `[SERVICE=]URL`. Client options may follow the URL (see TARGET_OPTIONS). An example is
`orders=http://10.0.0.7:8778/jolokia/ max.block.ms=10000 group.id=billing`. The option `metrics=pushed` says that the
clients push metrics through the broker plugin.
"""

from __future__ import annotations

import argparse
import logging
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from clienthealth.model.errors import InputError, SettingsError
from clienthealth.model.metrics import CONFIG_OPTIONS
from clienthealth.platform.locations import Reread, written
from clienthealth.platform.secrecy import secret_in
from clienthealth.platform.stopping import stop_event
from clienthealth.read.mbeans import GROUP_OPTION, PATTERNS, process_of, snapshots
from clienthealth.settings import Settings
from clienthealth_exporters.jvm.dumps import DumpBudget, DumpPlan, Suspicion, dump_record
from clienthealth_exporters.jvm.jolokia import Jolokia, JolokiaError
from clienthealth_exporters.publish import Publisher

log = logging.getLogger(__name__)

WORKERS = 256
MAX_BACKOFF_SECONDS = 60.0
TICK_SECONDS = 0.2
#: A warning is logged if this number of consecutive reads found no Kafka client.
READS_WITHOUT_CLIENTS = 6
#: Client options that may follow a target's URL, because JMX does not show them.
TARGET_OPTIONS = (*CONFIG_OPTIONS, GROUP_OPTION)
PUSHED = "metrics=pushed"


@dataclass(frozen=True)
class Target:
    """A JVM to read: service, URL of its Jolokia agent, client options (`config`).

    `pushed`: True if the clients push their metrics through the broker plugin.
    """

    service: str
    url: str
    config: Mapping[str, str] = field(default_factory=dict, hash=False)
    pushed: bool = False

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse `[SERVICE=]URL [option=value]…`. SERVICE is by default the URL's `host:port`.

        Raises SettingsError if the URL is not http(s), or if an option is unknown.
        """
        where, *options = text.split()
        before, scheme, rest = where.partition("://")
        service, _, protocol = before.rpartition("=")
        host = urllib.parse.urlsplit(f"{protocol}://{rest}").netloc
        if not scheme or protocol not in ("http", "https") or not host:
            raise SettingsError(f"target '{where}' must have the form [SERVICE=]http(s)://…")
        config = {}
        for option in options:
            if option == PUSHED:
                continue
            name, equals, value = option.partition("=")
            if not equals or name not in TARGET_OPTIONS:
                known = f"{PUSHED}, and NAME=VALUE with the names {', '.join(TARGET_OPTIONS)}"
                raise SettingsError(f"target '{where}': unknown option '{option}'; known options: {known}")
            config[name] = value
        return cls(service or host.rpartition("@")[2], f"{protocol}://{rest}", config, PUSHED in options)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Read all targets until SIGTERM or Ctrl-C. Return 1 if records were not delivered before the exit, else 0."""
    given = [Target.parse(text) for text in (*settings.jvm.targets, *args.target)]
    targets = Targets(given, args.targets_file)
    stop = stop_event()
    publisher = Publisher.to(settings, "kafka-health-jvm", compression_type="gzip")
    try:
        Exporter(settings, targets, publisher).run(stop)
    finally:
        lost = publisher.close()
    return 1 if lost else 0


class Targets:
    """The JVMs to read: `targets`, and the targets listed in `file`, if any. The file may change at any time.

    Raises InputError if neither targets nor a file are given.
    """

    def __init__(self, targets: Sequence[Target], file: Path | None = None) -> None:
        if not targets and file is None:
            raise InputError("there are no targets: give --target or --targets-file, or set [jvm] targets")
        self._given = tuple(targets)
        self._in_file: Reread[tuple[Target, ...]] | None = None
        if file is not None:
            self._in_file = Reread(f"targets of {file}", [file], lambda: _targets(file), former=())

    def now(self) -> tuple[Target, ...]:
        """Return all targets. If the targets file cannot be read, use the targets of the last successful read."""
        return (*self._given, *(self._in_file.current() if self._in_file else ()))


def _targets(file: Path) -> tuple[Target, ...]:
    lines = map(str.strip, written(str(file)).splitlines())
    targets = tuple(Target.parse(line) for line in lines if line and not line.startswith("#"))
    log.info("%s: %d targets", file, len(targets))
    return targets


@dataclass
class Exporter:
    """Reads every target (a JVM) every `[jvm] interval_seconds`."""

    settings: Settings
    targets: Targets
    publisher: Publisher

    def run(self, stop: threading.Event) -> None:
        """Read all targets until `stop` is set."""
        watched: dict[Target, Watch] = {}
        under_way: dict[Target, Future[None]] = {}
        budget = DumpBudget(self.settings.jvm.dumps_per_minute)
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="jvm") as pool:
            while not stop.is_set():
                targets = self.targets.now()
                new = [target for target in targets if target not in watched]
                for position, target in enumerate(new):
                    delay = self.settings.jvm.interval_seconds * position / len(new)
                    watched[target] = Watch(target, self.settings, self.publisher, budget, delay)
                watched = {target: watched[target] for target in targets}
                under_way = {target: task for target, task in under_way.items() if not task.done()}
                for target, watch in watched.items():
                    if target not in under_way and time.monotonic() >= watch.due:
                        under_way[target] = pool.submit(watch.read)
                stop.wait(TICK_SECONDS)


class Sink(Protocol):
    """A receiver of records, such as a `Publisher`."""

    def send(self, topic: str, key: str, value: Mapping[str, Any]) -> None: ...


@dataclass(eq=False)
class Watch:
    """The reader of one JVM.

    `delay`: seconds until the first read. `due`: time of the next read, in seconds of `clock`.
    """

    target: Target
    settings: Settings
    publisher: Sink
    budget: DumpBudget
    delay: float = 0.0
    clock: Callable[[], float] = time.monotonic
    process: ClientProcess | None = None
    _failures: int = 0
    _pause: float = 0.0
    _reads_without_clients: int = 0
    _suspicion: Suspicion = field(default_factory=Suspicion)

    def __post_init__(self) -> None:
        jvm = self.settings.jvm
        password = secret_in(jvm.password_file, "[jvm] password_file")
        self._agent = Jolokia(self.target.url, jvm.timeout_seconds, jvm.user, password)
        self._plan = DumpPlan(jvm.dump_min_seconds, self.budget)
        self.due = self.clock() + self.delay

    def read(self) -> None:
        """Read the JVM once and publish the result. Set `due` to the time of the next read."""
        begin = self.clock()
        interval = self.settings.jvm.interval_seconds
        try:
            self.publish()
        except JolokiaError as error:
            self._failures += 1
            longest = max(interval, MAX_BACKOFF_SECONDS)
            interval = min(interval * 2 ** (self._failures - 1), longest)
            # Warn only until the pause before the next try is `longest`. Warnings about a thousand silent JVMs would
            # fill the log.
            if self._failures == 1 or self._pause < longest:
                log.warning("%s does not answer: %s; next try in %.0f s", self.target.service, error, interval)
            self._pause = interval
        except Exception:
            log.exception("%s (%s) could not be read", self.target.service, self.target.url)
        else:
            if self._failures:
                log.info("%s answers again after %d tries", self.target.service, self._failures)
            self._failures = 0
        self.due = begin + interval

    def publish(self) -> None:
        """Read the JVM once. Publish the snapshots of the JVM's clients and, if due, a thread dump.

        Raises JolokiaError if the agent does not answer, answers with an error, or does not name its process.
        """
        mbeans = self._agent.read(PATTERNS)
        found = process_of(self.target.service, mbeans, self.target.config)
        if found is None:
            raise JolokiaError(f"{self.target.url}: the agent does not report the name of its process")
        if found != self.process:
            log.info("%s is %s", self.target.service, found.instance)
            self.process, self._suspicion = found, Suspicion()
        clients = snapshots(mbeans, found, int(time.time() * 1000))
        for snapshot in () if self.target.pushed else map(canonical.written, clients):
            self.publisher.send(self.settings.topics.metrics[0], canonical.key(snapshot), snapshot)
        self._reads_without_clients = 0 if clients else self._reads_without_clients + 1
        if self._reads_without_clients == READS_WITHOUT_CLIENTS:
            log.warning(
                "%s shows no Kafka client: the JVM runs none, or the client option metric.reporters lacks "
                "org.apache.kafka.common.metrics.JmxReporter (in kafka-clients 4.x, OpenTelemetry's agent replaces "
                "this reporter)",
                self.target.service,
            )
        reasons = self._suspicion.reasons(clients)
        if self.settings.jvm.thread_dumps and self._plan.due(reasons, self.clock()):
            why = "; ".join(reason.text for reason in reasons)
            log.info("thread dump of %s: %s", found.instance, why)
            record = dump_record(found, int(time.time() * 1000), self._agent.thread_dump(), why)
            self.publisher.send(self.settings.topics.logs[0], found.key, record)
