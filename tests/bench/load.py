"""Send the records of a live fleet from one thread, with little CPU time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Self

from tests.bench.publish import producer, send
from tests.bench.templates import INTERVAL_MS, Template, Values, values

TICK_SECONDS, JOIN_SECONDS = 0.1, 30.0

Due = Callable[[float, float], Iterable[tuple[str, bytes, bytes]]]


class Load:
    def __init__(self, servers: str, due: Due) -> None:
        self.sent = 0
        self.latest_behind = 0.0
        self._producer = producer(servers)
        self._due = due
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(JOIN_SECONDS)
        self._producer.flush(10)
        # Delete the producer: otherwise it would continue to search for the broker.
        del self._producer

    def _run(self) -> None:
        until = time.time()
        while not self._closed.is_set():
            since, until = until, time.time()
            for topic, key, value in self._due(since, until):
                send(self._producer, topic, key, value)
                self.sent += 1
                if not self.sent % 1000:
                    self._producer.poll(0)
            self._producer.poll(0)
            self.latest_behind = time.time() - until
            self._closed.wait(max(0.0, TICK_SECONDS - self.latest_behind))


class Steady:
    """Clients that together send `rate` records a second.

    `since_ms` is the timestamp of the first record. The timestamps of one client are INTERVAL_MS apart, and the first
    timestamps of all clients are spread over INTERVAL_MS. If `since_ms` is None, the timestamp of a record is the time
    of sending.
    """

    def __init__(
        self,
        topic: str,
        template: Template,
        clients: int,
        rate: float,
        since_ms: int | None = None,
        value_of: Callable[[int, int, int], Values] = values,
    ) -> None:
        self._value_of = value_of
        self._topic, self._template, self._clients, self._rate = topic, template, clients, rate
        self._since_ms = since_ms
        self._began = time.time()
        self._next = 0

    def __call__(self, since: float, until: float) -> Iterable[tuple[str, bytes, bytes]]:
        end = int((until - self._began) * self._rate)
        for number in range(self._next, end):
            client, reading = number % self._clients, number // self._clients
            at = self._began + number / self._rate
            ts_ms = at * 1000 if self._since_ms is None else self._since_ms + number / self._clients * INTERVAL_MS
            key, value = self._template.record(self._value_of(client, reading, round(ts_ms)))
            yield self._topic, key, value
        self._next = max(self._next, end)
