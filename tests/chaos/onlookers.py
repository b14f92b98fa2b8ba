"""Simulate clients that become stuck one by one during a flood."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Self

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from tests.bench.load import Load
from tests.bench.publish import messages

EVERY_SECONDS, NEXT_SECONDS, FULL_SECONDS = 5.0, 25.0, 30.0
MIB = 1 << 20
SERVICE = "onlookers"


class Onlookers:
    def __init__(self, servers: str, topic: str, clients: int) -> None:
        self._topic, self._clients = topic, clients
        self._began = time.time()
        self._last: dict[int, float] = {}
        self._load = Load(servers, self._due)
        self._stuck: dict[int, float] = {}
        self._next_stuck = self._began + NEXT_SECONDS
        self._settled = threading.Event()

    @property
    def sent(self) -> int:
        return self._load.sent

    def stuck(self, since: float, until: float) -> Sequence[tuple[str, float]]:
        return [(_name(client), at) for client, at in self._stuck.items() if since <= at < until]

    def settle(self) -> None:
        self._settled.set()

    def __enter__(self) -> Self:
        self._load.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._load.__exit__(*error)

    def _due(self, _: float, until: float) -> Iterable[tuple[str, bytes, bytes]]:
        if until >= self._next_stuck and len(self._stuck) < self._clients - 1 and not self._settled.is_set():
            self._stuck[len(self._stuck) + 1] = until
            self._next_stuck = until + NEXT_SECONDS
        for client in range(self._clients):
            if until - self._last.get(client, 0.0) >= EVERY_SECONDS:
                self._last[client] = until
                name = _name(client)
                yield (
                    self._topic,
                    f"{SERVICE}|{name}:1|{name}".encode(),
                    json.dumps(self._reading(client, until)).encode(),
                )

    def _reading(self, client: int, now: float) -> dict[str, Any]:
        age = now - self._began
        stuck = max(0.0, now - self._stuck.get(client, now))
        alive, name = age - stuck, _name(client)
        ref = ClientProcess(SERVICE, name, f"{name}:1").client(name, "producer", "java", "3.9.1")
        metrics = {
            "select-total": 1000.0 + 50 * alive, "record-send-total": 20.0 * alive, "buffer-total-bytes": 32.0 * MIB,
            "buffer-available-bytes": max(0.0, 32.0 * MIB * (1 - stuck / FULL_SECONDS)),
            "waiting-threads": 2.0 * (stuck > FULL_SECONDS), "io-time-ns-total": alive * 1e7,
            "io-wait-time-ns-total": alive * 9e8, "requests-in-flight": 1.0, "metadata-age": age % 300,
            "connection-count": 2.0,
        }  # fmt: skip
        config = {"buffer.memory": str(32 * MIB)}
        return canonical.snapshot(ref, round(now * 1000), metrics, config=config)


def _name(client: int) -> str:
    return f"onlooker-{client}"


def clients_of(servers: str, topic: str) -> tuple[dict[str, float], set[str]]:
    failing: dict[str, float] = {}
    clients: set[str] = set()
    for message in messages(servers, topic):
        key, value = message.key() or b"", message.value()
        if key.startswith(f"{SERVICE}|".encode()) and value is not None:
            name = key.decode().rpartition("|")[2]
            clients.add(name)
            if any(one["status"] in ("suspected", "confirmed") for one in json.loads(value)["verdicts"]):
                at = message.timestamp()[1] / 1000
                failing[name] = min(at, failing.get(name, at))
    return failing, clients
