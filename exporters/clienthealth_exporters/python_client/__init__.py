"""Report on an application's own Kafka clients: clients of kafka-python 3, aiokafka or confluent-kafka.

    from clienthealth_exporters.python_client import report

    producer = KafkaProducer(bootstrap_servers="kafka:9092", client_id="order-producer")
    report(producer, service="orders-api")

    Producer = report(confluent_kafka.Producer, service="orders-api")

The second form is for confluent-kafka: `report` returns a class to use instead of the library's class.

Every 10 s the reporter sends all clients' snapshots to the topic `client-metrics` of the first client's cluster. A
client's last snapshot is sent when the client is closed or the process ends. Errors of librdkafka, and the lines that
librdkafka writes to the application's `logger`, go to the topic `client-logs`. Log lines of kafka-python and aiokafka
go to the topic that the parameter `logs_topic` names, if given.

The application never gets an exception from the reporter. While the cluster is unreachable, snapshots are dropped and
counted (`Reporter.dropped_total`). After a fork the child must call `report` again for its own clients.

With confluent-kafka, the durations of all delivery callbacks are measured. With kafka-python, a callback is measured
only if it was added to the future of `send()` before the acknowledgement.
"""

from __future__ import annotations

import atexit
import importlib
import json
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from clienthealth_exporters.python_client.probes import Sender, Watched

log = logging.getLogger(__name__)

#: Maps the top-level package of a client's class to the module that supports the client.
_LIBRARIES = {"kafka": "kafka_python", "aiokafka": "aio", "cimpl": "confluent", "confluent_kafka": "confluent"}
SERVICE, INSTANCE = ("KAFKA_HEALTH_SERVICE", "OTEL_SERVICE_NAME"), "KAFKA_HEALTH_INSTANCE"
MAX_LINES = 1000
#: If the brokers have refused all log lines of a report, log lines are dropped for this number of seconds.
PAUSE_SECONDS = 60.0

#: (instance, client id) of each reported client. No two clients may have the same instance and client id.
_TAKEN: set[tuple[str, str]] = set()
_LOCK = threading.RLock()


def report(
    *clients: Any,
    service: str | None = None,
    instance: str | None = None,
    topic: str = "client-metrics",
    logs_topic: str | None = None,
    interval_seconds: float = 10.0,
    close_seconds: float = 1.0,
    kafka_options: Mapping[str, Any] | None = None,
) -> Any:
    """Report on producers and consumers from now on. Return the Reporter.

    For a class of confluent-kafka, return a subclass that reports on its instances.

    `service`        name of the service; by default $KAFKA_HEALTH_SERVICE, or $OTEL_SERVICE_NAME
    `instance`       a name of the process; by default $KAFKA_HEALTH_INSTANCE, or host:pid
    `topic`          topic for the snapshots
    `logs_topic`     topic for log lines, "" for none; by default `client-logs` for confluent-kafka, else none
    `close_seconds`  maximum time that a client's close() waits for the delivery of its last snapshot
    `kafka_options`  options of the reporter's own producer; by default the first client's options for connection and
                     security

    Raises TypeError if no client or service is given, or if an argument is neither a producer nor a consumer.
    """
    if not clients:
        raise TypeError("report() needs at least one producer or consumer")
    service = service or next((os.environ[name] for name in SERVICE if os.environ.get(name)), None)
    if service is None:
        raise TypeError(f"the service is unknown: give service=, or set {SERVICE[0]}")
    host = socket.gethostname()
    process = ClientProcess(service, host, instance or os.environ.get(INSTANCE) or f"{host}:{os.getpid()}")
    first, module = clients[0], _module_of(clients[0])
    by_class = isinstance(first, type)
    if logs_topic is None and by_class:
        logs_topic = "client-logs"
    reporter = Reporter(process, topic, logs_topic, interval_seconds, close_seconds)
    if by_class:

        def start(watched: Watched, connection: Mapping[str, Any], reported: Any) -> None:
            if reporter.sender is None:
                options = connection if kafka_options is None else kafka_options
                reporter.sender = module.Sender(f"kafka-health-{service}", options)
            reported.on_line = partial(reporter.on_line, "librdkafka")
            reporter.watch(watched)

        return module.reporting(first, start, interval_seconds)
    watched = [_module_of(client).watched(client) for client in clients]
    options = module.connection_of(first) if kafka_options is None else kafka_options
    reporter.sender = module.Sender(f"kafka-health-{service}", options)
    if logs_topic:
        logger, handler = logging.getLogger(watched[0].library.partition("-")[0]), _Lines(reporter)
        logger.addHandler(handler)
        reporter.at_end = lambda: logger.removeHandler(handler)
    for one in watched:
        reporter.watch(one)
    return reporter


def _module_of(client: Any) -> Any:
    of = client if isinstance(client, type) else type(client)
    for base in of.__mro__:
        if (name := _LIBRARIES.get(base.__module__.partition(".")[0])) is not None:
            module = importlib.import_module(f"{__name__}.{name}")
            if isinstance(client, type) == hasattr(module, "reporting"):
                return module
            raise TypeError(
                f"{of.__name__}: with confluent-kafka, pass a class to report() (Producer = report(Producer)); "
                "with another library, pass a client object"
            )
    raise TypeError(f"{of.__name__} is neither a producer nor a consumer of kafka-python, aiokafka or confluent-kafka")


@dataclass(eq=False)
class Reporter:
    """Publishes snapshots of one process's clients, from a thread of its own.

    `sender`: sends the records; None until there is a client. `at_end`: called at the end of the thread.
    """

    process: ClientProcess
    topic: str
    logs_topic: str | None
    interval_seconds: float
    close_seconds: float
    sender: Sender | None = None
    at_end: Callable[[], None] = lambda: None
    delivered_total: int = 0
    dropped_total: int = 0
    _watched: list[Watched] = field(default_factory=list)
    _last: deque[tuple[bytes, bytes, threading.Event]] = field(default_factory=deque)
    _lines: deque[bytes] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _no_lines_before: float = 0.0

    def watch(self, watched: Watched) -> None:
        """Report on one more client. A client with an id that is already taken gets a number: `id-2`."""
        wanted, number = watched.client_id, 1
        with _LOCK:
            while (self.process.instance, watched.client_id) in _TAKEN:
                number += 1
                watched.client_id = f"{wanted}-{number}"
            _TAKEN.add((self.process.instance, watched.client_id))
            self._watched.append(watched)
            watched.probe.closed = lambda: self._finish(watched)
            if self._thread is None:
                atexit.register(self._at_exit)
                name = f"kafka-health {self.process.service}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
        self._wake.set()

    def on_line(self, logger: str, *line: Any) -> None:
        """Keep a log line (level, text) if there is a topic for log lines.

        A call without a line means that the library has new statistics. Such a call wakes the reporter.
        """
        if not line:
            self._wake.set()
        elif self.logs_topic:
            self.keep(logger, line[0], line[1])

    def keep(self, logger: str, level: int, text: str, more: Mapping[str, Any] | None = None) -> None:
        """Keep a log line until the next report. `more`: fields to add to the line."""
        process = self.process
        client = {"service": process.service, "host": process.host, "instance": process.instance}
        line = {"time": time.time(), "level": logging.getLevelName(level), "logger": logger, "message": text}
        self._lines.append(json.dumps({**client, **line, **(more or {})}).encode())

    def snapshot(self, watched: Watched) -> dict[str, Any]:
        """Return a client's snapshot in the monitor's format.

        The snapshot has the library's metrics only if the client still exists.
        """
        client, probe = watched.client(), watched.probe
        metrics, topics = probe.metrics(), probe.topics()
        if client is not None:
            try:
                measured, by_topic = watched.more(client)
                metrics, topics = {**measured, **metrics}, topics if by_topic is None else by_topic
            except Exception:
                log.debug("metrics of %s failed", watched.client_id, exc_info=True)
        if self.dropped_total:
            metrics["reporter-dropped-total"] = self.dropped_total
        ref = self.process.client(watched.client_id, probe.kind, watched.library, watched.version, watched.group)
        return canonical.snapshot(ref, round(time.time() * 1000), metrics, topics, watched.config)

    def _encoded(self, watched: Watched) -> tuple[bytes, bytes]:
        snapshot = self.snapshot(watched)
        return canonical.key(snapshot).encode(), json.dumps(snapshot, allow_nan=False).encode()

    def _finish(self, watched: Watched) -> None:
        with _LOCK:
            if watched not in self._watched:
                return
            delivered = threading.Event()
            self._last.append((*self._encoded(watched), delivered))
            self._forget(watched)
        self._wake.set()
        if self._thread is not None and self._thread.is_alive() and threading.current_thread() is not self._thread:
            delivered.wait(self.close_seconds)

    def _forget(self, watched: Watched) -> None:
        with _LOCK:
            self._watched.remove(watched)
            _TAKEN.discard((self.process.instance, watched.client_id))

    def _at_exit(self) -> None:
        # Leave out kafka-python's producers, because their counts may still change. The library closes the producers
        # after this function has run.
        for watched in list(self._watched):
            if watched.probe.kind == "consumer" or watched.library != "kafka-python":
                self._finish(watched)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            now = time.monotonic()
            # A client with new measurements may be reported up to one interval before the time `one.due`.
            due = [one for one in list(self._watched) if now >= one.due - self.interval_seconds * one.fresh()]
            try:
                self._publish(due)
            except Exception:
                log.debug("the reporter failed", exc_info=True)
            with _LOCK:
                for watched in due:
                    watched.due = now + self.interval_seconds * watched.patience
                    if watched.client() is None and watched in self._watched:
                        self._forget(watched)
                if not self._watched and not self._last:
                    self._thread = None
                    break
                following = min((watched.due for watched in self._watched), default=now)
            self._wake.wait(max(0.0, following - time.monotonic()))
        atexit.unregister(self._at_exit)
        self.at_end()
        if self.sender is not None:
            self.sender.close()

    def _publish(self, due: list[Watched]) -> None:
        ended = [self._last.popleft() for _ in range(len(self._last))]
        snapshots = [(key, value) for key, value, _ in ended] + [self._encoded(watched) for watched in due]
        delivered = 0
        try:
            delivered = self._delivered(self.topic, snapshots)
        finally:
            self.delivered_total += delivered
            self.dropped_total += len(snapshots) - delivered
            for *_, event in ended:
                event.set()
        lines, key = [self._lines.popleft() for _ in range(len(self._lines))], self.process.key.encode()
        if self.logs_topic and lines and time.monotonic() >= self._no_lines_before:
            taken = self._delivered(self.logs_topic, [(key, line) for line in lines])
            self._no_lines_before = time.monotonic() + (0 if taken else PAUSE_SECONDS)

    def _delivered(self, topic: str, records: list[tuple[bytes, bytes]]) -> int:
        if not records or self.sender is None:
            return 0
        return self.sender.deliver([(topic, key, value) for key, value in records])


class _Lines(logging.Handler):
    """Passes a library's log lines to the reporter, except lines that the reporter causes."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__()
        self._reporter = reporter

    def emit(self, record: logging.LogRecord) -> None:
        if not (record.threadName or "").startswith("kafka-health"):
            more = {"thread": record.threadName, "time": record.created}
            if record.exc_info:
                more["exception"] = logging.Formatter().formatException(record.exc_info)
            self._reporter.keep(record.name, record.levelno, record.getMessage(), more)
        last, logger = logging.lastResort, logging.getLogger(record.name)
        while last is not None and record.levelno >= last.level:
            # If only this handler gets the line, write the line to standard error, as `logging` does with lines that no
            # handler gets.
            if any(not isinstance(handler, _Lines) for handler in logger.handlers):
                break
            if not logger.propagate or logger.parent is None:
                last.handle(record)
                break
            logger = logger.parent
