"""Run producers or consumers of a Python library. The options determine how the clients fail."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import queue
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.lab.python import clients_of

LIBRARY = sys.argv[1]
GIVEN = dict(option.split("=", 1) for option in sys.argv[2:])
log = logging.getLogger("orders.main")
OUT = threading.Lock()
GO, OVER, END = threading.Event(), threading.Event(), threading.Event()
ENDING = threading.Event()
TROUBLE, WHERE = GIVEN.get("trouble", ""), GIVEN.get("trouble.in", "")
MS = int(GIVEN.get("trouble.ms", "0"))
COUNTED = ("attempted", "acked", "failed", "expired", "unknown", "exhausted", "polls", "handled", "others")
ALL: list[Truth] = []


class Truth:
    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.id = kind, GIVEN[f"{kind[0]}.client.id"] + (f"-{number}" if number else "")
        self.mine = number < int(GIVEN.get("trouble.clients", "1"))
        self.counts = dict.fromkeys(COUNTED, 0)
        self.calls: dict[str, float] = {}
        self.longest = {"sending": 0.0, "callback": 0.0}
        self.place, self.paused = "", False
        self.once = False
        ALL.append(self)

    def during(self, what: str, act: Callable[[], Any]) -> Any:
        self.calls[what] = time.time()
        try:
            return act()
        finally:
            self.longest[what] = max(self.longest[what], time.time() - self.calls.pop(what))

    def settled(self, error: object) -> None:
        self.during("callback", lambda: self._settled(error))

    def _settled(self, error: object) -> None:
        if error is None:
            self.counts["acked"] += 1
        else:
            self.failure(error)
            log.warning("order not delivered: %s", error)
        if self.wrong("callback"):
            happen(self)

    def failure(self, error: object) -> None:
        text = f"{type(error).__name__} {error}"
        self.counts["failed"] += 1
        if "BufferError" in text or "queue full" in text.lower() or "allocate" in text:
            self.counts["exhausted"] += 1
        elif "metadata" in text.lower():
            self.counts["unknown"] += 1
        elif "timed out" in text.lower() or "timeout" in text.lower() or "expired" in text.lower():
            self.counts["expired"] += 1

    def wrong(self, where: str) -> bool:
        return self.mine and where == WHERE and GO.is_set() and not OVER.is_set()

    def line(self) -> str:
        now = time.time()
        ages = {f"{what}_ms": int(1000 * (now - self.calls.get(what, now))) for what in self.longest}
        longest = {f"longest_{what}_ms": int(1000 * most) for what, most in self.longest.items()}
        longest["longest_send_ms"] = longest.pop("longest_sending_ms")
        head = {"ts": int(1000 * now), "kind": self.kind, "id": self.id}
        return json.dumps({**head, **self.counts, **ages, **longest, "in": self.place, "paused": self.paused})


def say(text: str) -> None:
    with OUT:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def tell() -> None:
    for truth in ALL:
        say(f"TRUTH {truth.line()}")


def wait_for_answer() -> None:
    threading.Event().wait()


def ask_ledger() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(server.getsockname()) as connection:
        connection.recv(1)


def reconcile() -> None:
    total = 0
    while total != -1:
        total = abs(hash((total, "entry")))


def back_off(ms: int) -> None:
    end, pause = time.monotonic() + ms / 1000, 0.2
    while (left := end - time.monotonic()) > 0:
        log.warning("ledger is busy, again in %d ms", 1000 * pause)
        time.sleep(min(pause, left))
        pause = min(5.0, 2 * pause)


def retry_for_ever() -> None:
    for attempt in range(1, 1_000_000):
        log.warning("ledger does not answer, attempt %d", attempt)
        time.sleep(MS / 1000)


def enqueue() -> None:
    full: queue.Queue[str] = queue.Queue(1)
    full.put("full")
    full.put("entry")


def update() -> None:
    lock = threading.Lock()
    lock.acquire()
    with lock:
        log.info("ledger updated")


def happen(truth: Truth) -> None:
    once: dict[str, Callable[[], object]] = {
        "backoff": lambda: back_off(MS),
        "held": lambda: threading.Event().wait(MS / 1000),
    }
    if TROUBLE in once:
        if not truth.once:
            truth.once = True
            once[TROUBLE]()
        return
    ways: dict[str, Callable[[], Any]] = {
        "latch": wait_for_answer,
        "join": wait_for_answer,
        "socket": ask_ledger,
        "spin": reconcile,
        "retry": retry_for_ever,
        "queue": enqueue,
        "lock": update,
        "monitor": update,
        "sleep": lambda: time.sleep(MS / 1000),
        "get": lambda: truth.again() if hasattr(truth, "again") else None,
    }
    ways.get(TROUBLE, lambda: None)()


def number_of(name: str, default: str) -> float:
    return float(GIVEN.get(name, default))


def due(truth: Truth) -> int:
    active = truth.mine and GO.is_set() and not OVER.is_set()
    if active and TROUBLE == "burst" and not truth.once:
        truth.once = True
        return int(GIVEN["burst"])
    return 200 if active and TROUBLE == "flood" else 0 if active and TROUBLE == "idle" else 1


def target(truth: Truth) -> dict[str, Any]:
    wrong = truth.mine and GO.is_set() and not OVER.is_set()
    topic = GIVEN["wrong.topic"] if wrong and TROUBLE == "topic" else GIVEN["topic"]
    return {"topic": topic, **({"partition": 17} if wrong and TROUBLE == "partition" else {})}


def accepted(truth: Truth) -> None:
    truth.counts["attempted"] += 1
    if truth.counts["attempted"] % int(GIVEN.get("every", "50")) == 0:
        log.info("order %d accepted", truth.counts["attempted"])


def handle(truth: Truth, topic: str) -> None:
    truth.place = "handler"
    time.sleep(number_of("handle.ms", "5") / 1000)
    slow = GIVEN.get("slow.topic", "")
    if truth.wrong("handler") and slow in ("", topic):
        happen(truth)
    truth.counts["handled"] += 1
    truth.counts["others"] += slow != topic


def options(kind: str, truth: Truth) -> dict[str, str]:
    chosen = {name[2:]: value for name, value in GIVEN.items() if name.startswith(f"{kind[0]}.")}
    return {**chosen, "client.id": truth.id}


def quote() -> None:
    dice = random.Random(GIVEN["quotes"])
    quotes = GIVEN["quoted"].split("\x01")
    while True:
        time.sleep(dice.uniform(0.5, 4.5))
        if GO.is_set() and not OVER.is_set():
            logging.getLogger("orders.watch").error("%s", dice.choice(quotes))


def listen() -> None:
    for line in sys.stdin:
        {"go": GO, "over": OVER, "end": END}.get(line.strip(), threading.Event()).set()
    os._exit(9)


def tell_for_ever() -> None:
    while True:
        tell()
        time.sleep(0.5)


def background(*acts: Callable[[], None]) -> None:
    for act in acts:
        threading.Thread(target=act, name=f"{GIVEN.get('thread', 'worker-')}{act.__name__}", daemon=True).start()


def finish(close: Callable[[str], None]) -> None:
    how = GIVEN.get("end", "close")
    END.wait()
    log.info("shutting down")
    time.sleep(number_of("end.ms", "0") / 1000)
    if how in ("exit", "halt", "return", "throw"):
        tell()
        if how == "halt":
            os._exit(137)
        if how == "throw":
            raise ValueError("no price for order 4711")
        sys.exit(0)
    ENDING.set()
    close(how)
    tell()
    os._exit(0)


def main() -> None:
    logging.Formatter.converter = time.gmtime
    layout = GIVEN["layout"] or "%(asctime)s %(levelname)-5s [%(threadName)s] %(name)s - %(message)s"
    logging.basicConfig(filename="app.log", level=logging.INFO, format=layout)
    if GIVEN.get("hook"):
        signal.signal(signal.SIGTERM, lambda number, frame: END.set())
    background(listen, tell_for_ever)
    if "quotes" in GIVEN:
        background(quote)
    client = getattr(clients_of, LIBRARY)
    result = client(sys.modules[__name__])
    if inspect.iscoroutine(result):
        asyncio.run(result)


if __name__ == "__main__":
    main()
