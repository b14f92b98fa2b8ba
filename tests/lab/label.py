"""Derive, without the product's code, what an expert could conclude about a case."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tests.lab.families import FAMILIES
from tests.lab.mechanisms import (
    BLOCKED,
    CONSUMER,
    CROSS_TOPIC,
    DEADLOCK,
    LOOP,
    MECHANISMS,
    NOT_CLOSED,
    STALLED,
    Level,
)

Asked = Literal["nothing", "suspected", "confirmed"]
#: Two dumps APART_SECONDS apart, or metrics unchanged for STILL_SECONDS, prove a long wait.
APART_SECONDS, STILL_SECONDS = 10.0, 30.0
#: The I/O thread hangs if its metrics stay unchanged for DEAD_SECONDS, or for request.timeout.ms if that is longer.
DEAD_SECONDS = 60.0
#: A callback or handler that has run for LONG_SECONDS counts as hanging. Two dumps prove the hang if they are
#: LONG_SECONDS apart.
LONG_SECONDS = 40.0
_BUSY = ("callback-retry", "callback-sleep", "callback-spin", "callback-latch", "callback-socket")
_BUSY_HANDLERS = ("handler-retry", "handler-sleep", "handler-spin")
MANY = 3
_LAST_POLL, _SELECTS, _OVERDUE = (2, 4), (1, 0), (2, 6)
#: Within CLOSE_SECONDS, a consumer's close() gives up, because its default timeout is 30 s.
CLOSE_SECONDS = 45.0


@dataclass(frozen=True)
class Label:
    """The range of accepted verdicts, from `at_least` to `at_most`. If `not_ok` is true, the verdict `ok` is wrong."""

    at_least: Asked = "nothing"
    at_most: Level = "ok"
    not_ok: bool = False


@dataclass(frozen=True)
class Recorded:
    folder: Path

    @cached_property
    def case(self) -> Mapping[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "case.json").read_text(encoding="utf-8"))
        return document

    @cached_property
    def truth(self) -> Sequence[Mapping[str, Any]]:
        lines = map(json.loads, (self.folder / "truth.jsonl").read_text(encoding="utf-8").splitlines())
        return [one for one in lines if one["ts"] <= self.until_ms and one["id"] in self.case["troubled"]]

    @property
    def onset_ms(self) -> int:
        return int(self.case["timeline"].get("onset", 1 << 60))

    @cached_property
    def moments(self) -> Mapping[str, Sequence[int]]:
        seconds = {
            name: {ts // 1000: ts for ts in of if ts >= self.onset_ms} for name, of in self.case["written"].items()
        }
        return {name: sorted(of.values()) for name, of in seconds.items()}

    @cached_property
    def until_ms(self) -> int:
        written = self.case["written"]
        log_ms = self.log_until_ms if any(ts >= self.onset_ms for ts in written["lines"]) else 0
        return max([log_ms, *written["metrics"], *written["dumps"]], default=0)

    @property
    def log_until_ms(self) -> int:
        seen = self.case["seen"]
        missing = seen["layout"] == "none"
        return 0 if missing else int(self.case["timeline"]["end"] - 1000 * seen["ends"])

    @property
    def log_seconds(self) -> float:
        return max(0.0, (self.log_until_ms - self.onset_ms) / 1000) if self.case["written"]["lines"] else 0.0

    def span(self, what: str) -> float:
        of = self.moments[what]
        return (of[-1] - of[0]) / 1000 if len(of) > 1 else 0.0

    def most(self, name: str, until_ms: int | None = None) -> int:
        before = [one[name] for one in self.truth if one["ts"] < self.onset_ms]
        counted = [one[name] for one in self.truth if until_ms is None or one["ts"] <= until_ms]
        return max(counted, default=0) - (max(before, default=0) if name != "callback_ms" else 0)

    def still_seconds(self, name: str) -> float:
        longest = 0.0
        for client in {one["id"] for one in self.truth}:
            lines = [one for one in self.truth if one["id"] == client]
            moved = max((b["ts"] for a, b in pairwise(lines) if b[name] != a[name]), default=lines[0]["ts"])
            longest = max(longest, (lines[-1]["ts"] - max(moved, self.onset_ms)) / 1000)
        return longest

    @property
    def java(self) -> bool:
        return FAMILIES[self.case["family"]].java

    @property
    def version(self) -> tuple[int, ...]:
        """Return the version of a Java client, and (0,) for other clients."""
        family = FAMILIES[self.case["family"]]
        return family.numbers if family.java else (0,)


def labels(recorded: Recorded) -> Mapping[str, Label] | None:
    """Return the label of each failure mode. Return None if the case's mechanism is unknown or caused no failure."""
    case = recorded.case
    mechanism = MECHANISMS.get(case["mechanism"])
    if mechanism is None:
        return None
    ceilings: dict[str, Level] = dict(mechanism.beside)
    if case["weather"][0] and mechanism.role == "producer":
        ceilings = {BLOCKED: "suspected", STALLED: "suspected", **ceilings}
    if any(one["unknown"] for one in recorded.truth):
        ceilings[BLOCKED] = "confirmed"
    if recorded.most("expired") and mechanism.world:
        ceilings[STALLED] = "confirmed"
    if mechanism.name == "handler-slow" and recorded.still_seconds("polls") >= LONG_SECONDS:
        ceilings[CONSUMER] = "suspected"
    judged = {mode: Label(at_most=most) for mode, most in ceilings.items()}
    if mechanism.mode is not None:
        if not _came(recorded):
            return None
        judged[mechanism.mode] = _ASKED[mechanism.mode](recorded)
    return judged


def _came(recorded: Recorded) -> bool:
    mode = recorded.case["mode"]
    whole = [json.loads(line) for line in (recorded.folder / "truth.jsonl").read_text(encoding="utf-8").splitlines()]
    if mode == NOT_CLOSED:
        return bool(_sent(whole) > recorded.case["stored"])
    if mode == LOOP:
        return not recorded.case["ended_by_itself"] and whole[-1]["in"] in ("commit", "close", "closed")
    after = [one for one in whole if one["ts"] >= recorded.onset_ms]
    clients = [[one for one in after if one["id"] == client] for client in recorded.case["troubled"]]
    return any(_stands(mode, lines) for lines in clients if lines)


def _stands(mode: str, lines: Sequence[Mapping[str, int]]) -> bool:
    first, middle, last = lines[0], lines[len(lines) // 2], lines[-1]
    if mode == DEADLOCK:
        return last["callback_ms"] > 10_000 or last["acked"] == middle["acked"]
    if mode == BLOCKED:
        return last["failed"] > first["failed"] or last["sending_ms"] > 2_000
    if mode == STALLED:
        return last["acked"] == middle["acked"]
    if mode == CROSS_TOPIC:
        return last["handled"] > 0 and last["others"] - middle["others"] <= (last["ts"] - middle["ts"]) / 1000
    return last["handled"] > 0 and last["polls"] - first["polls"] <= 8


def _sent(truth: Sequence[Mapping[str, int]]) -> int:
    return sum(one["attempted"] - one["failed"] for one in {one["id"]: one for one in truth}.values())


def _deadlock(recorded: Recorded) -> Label:
    still, name = recorded.still_seconds("acked"), recorded.case["mechanism"]
    dumps = 0 if name == "callback-error" else len(recorded.moments["dumps"])
    full = recorded.log_seconds and recorded.most("exhausted", recorded.log_until_ms)
    one = (dumps and (full or (recorded.java and name not in _BUSY))) or recorded.span("dumps") >= APART_SECONDS
    # A single dump of aiokafka shows no frame of a Kafka client.
    one = one and (full or not recorded.case["family"].startswith("aiokafka"))
    # An application that waits for acknowledgements stops sending, so its metrics look idle.
    goes_on = recorded.most("attempted") > MANY
    metrics = recorded.span("metrics") if recorded.version >= _SELECTS and goes_on else 0.0
    timeout = int(recorded.case["options"].get("p.request.timeout.ms", "30000")) / 1000
    endless = recorded.java and name not in _BUSY
    direct = dumps and recorded.span("dumps") >= (APART_SECONDS if endless else LONG_SECONDS)
    if still < 3:
        return Label()
    if direct or metrics >= max(DEAD_SECONDS, timeout) + 2 * recorded.case["seen"]["interval"]:
        return Label("confirmed", "confirmed", True)
    logged_failure = name == "callback-error" and recorded.log_seconds > 5
    if one or logged_failure or (metrics >= 20 and len(recorded.moments["metrics"]) >= 3):
        return Label("suspected", "confirmed", True)
    return Label("nothing", "confirmed", still > 20)


def _blocked(recorded: Recorded) -> Label:
    if recorded.case["mechanism"] == "topic-denied":
        # On a denied topic, send() waits only if several threads request the metadata.
        waited = any(one["unknown"] for one in recorded.truth)
        logged_failure = recorded.log_seconds > 10
        return Label(
            "suspected" if logged_failure else "nothing", "confirmed" if waited else "suspected", logged_failure
        )
    if max((one["sending_ms"] for one in recorded.truth), default=0) <= 500 and not recorded.most("unknown"):
        # kafka-python refuses a record at once if its partition does not exist.
        return Label(at_most="suspected")
    waits = recorded.most("unknown", recorded.log_until_ms) if recorded.log_seconds else 0
    if waits >= 2:
        return Label("confirmed", "confirmed", True)
    waiting = [one["ts"] for one in recorded.truth if one["sending_ms"] > 500]
    dumped = [ts for ts in recorded.moments["dumps"] if any(abs(ts - at) < 600 for at in waiting)]
    if waits or dumped or recorded.log_seconds > 10:
        return Label("suspected", "confirmed", True)
    return Label("nothing", "confirmed", recorded.until_ms > recorded.onset_ms + 30_000)


def _stalled(recorded: Recorded) -> Label:
    still, logged = recorded.still_seconds("acked"), recorded.log_seconds
    expired = recorded.most("expired", recorded.log_until_ms) if logged else 0
    span = min(recorded.span("metrics"), still)
    if still < 5:
        return Label(at_most="suspected")
    if expired >= MANY and span >= 20 and len(recorded.moments["metrics"]) > MANY and not recorded.most("unknown"):
        return Label("confirmed", "confirmed", True)
    if expired or (span >= 20 and len(recorded.moments["metrics"]) >= 3):
        return Label("suspected", "confirmed", True)
    logged_failure = logged > 20 and recorded.case["mechanism"] in ("node-away", "outage")
    return Label("suspected" if logged_failure else "nothing", "confirmed", still > 20 and (logged > 20 or span > 10))


def _not_closed(recorded: Recorded) -> Label:
    if MECHANISMS[recorded.case["mechanism"]].again:
        # The old client of a restarted program looks as if it only paused.
        return Label(at_most="confirmed")
    ended = recorded.case["timeline"].get("ended", 1 << 60)
    forced = recorded.case["mechanism"] == "closed-at-once" and recorded.log_until_ms >= ended
    if recorded.until_ms < recorded.onset_ms:
        # Without data after the onset, nothing shows whether the buffer was sent.
        return Label(at_most="suspected")
    return Label("suspected" if forced else "nothing", "confirmed", recorded.until_ms >= ended - 1000)


def _consumer(recorded: Recorded) -> Label:
    if FAMILIES[recorded.case["family"]].program == "Reactor":
        # Reactor's consumer still calls poll() while its partitions are paused.
        return Label(at_most="confirmed")
    still, name = recorded.still_seconds("polls"), recorded.case["mechanism"]
    interval = int(recorded.case["options"].get("c.max.poll.interval.ms", "300000")) / 1000
    overdue = recorded.log_seconds > interval + 6 and recorded.version >= _OVERDUE
    # A dump from before the onset must show the thread inside poll().
    written = recorded.case["written"]
    polled = any(ts < recorded.onset_ms for ts in written.get("polling", written["dumps"]))
    polled &= len(recorded.case["clients"]) == 1 or not recorded.case["family"].startswith("kafka-python")
    dumps = recorded.span("dumps") if polled and name not in ("handler-error", "handler-too-slow") else 0.0
    metrics = recorded.span("metrics") if recorded.version >= _LAST_POLL else 0.0
    if still < 3 and name != "handler-too-slow":
        return Label()
    if overdue and name != "handler-too-slow" and (dumps >= APART_SECONDS or metrics >= STILL_SECONDS):
        return Label("confirmed", "confirmed", True)
    apart = LONG_SECONDS if name in _BUSY_HANDLERS else APART_SECONDS
    if overdue or dumps >= apart or (metrics >= LONG_SECONDS and len(recorded.moments["metrics"]) >= 3):
        return Label("suspected", "confirmed", True)
    return Label("nothing", "confirmed", still > 20)


def _cross_topic(recorded: Recorded) -> Label:
    still, metrics = recorded.still_seconds("others"), recorded.span("metrics")
    several = len(recorded.moments["metrics"]) >= 3
    if recorded.until_ms <= recorded.onset_ms:
        return Label()
    if recorded.case["family"].startswith("legacy"):
        dumped = recorded.moments["dumps"]
        if still >= 3 and (recorded.span("dumps") >= APART_SECONDS or (several and metrics >= STILL_SECONDS)):
            return Label("confirmed", "confirmed", True)
        if still >= 3 and (dumped or (several and metrics >= APART_SECONDS)):
            return Label("suspected", "confirmed", True)
    elif still >= STILL_SECONDS and several and metrics >= STILL_SECONDS and recorded.version >= _LAST_POLL:
        return Label("suspected", "confirmed", True)
    return Label("nothing", "confirmed", still > 20)


def _ending(recorded: Recorded) -> Label:
    logged, dumps = recorded.log_seconds, recorded.span("dumps")
    seconds, name = (recorded.until_ms - recorded.onset_ms) / 1000, recorded.case["mechanism"]
    if seconds <= 0:
        return Label()
    if name == "close-hangs":
        # A consumer inside close() logs nothing.
        shown = [recorded.onset_ms, *recorded.moments["metrics"], *recorded.moments["dumps"]]
        seconds = (max(shown) - recorded.onset_ms) / 1000
    if name == "endless-lookup":
        if logged >= 15 or dumps >= APART_SECONDS:
            return Label("confirmed", "confirmed", True)
        if logged >= 5:
            return Label("suspected", "confirmed", True)
    elif name == "left-behind" and logged and recorded.moments["dumps"]:
        return Label("suspected", "confirmed", True)
    elif name == "close-hangs" and dumps >= APART_SECONDS:
        return Label("confirmed" if dumps >= CLOSE_SECONDS else "suspected", "confirmed", True)
    return Label("nothing", "confirmed", seconds > 20)


_ASKED: Mapping[str, Callable[[Recorded], Label]] = {
    DEADLOCK: _deadlock,
    BLOCKED: _blocked,
    STALLED: _stalled,
    NOT_CLOSED: _not_closed,
    CONSUMER: _consumer,
    CROSS_TOPIC: _cross_topic,
    LOOP: _ending,
}
