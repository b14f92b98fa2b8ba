"""Generate random windows for property tests."""

from __future__ import annotations

import random
from collections.abc import Sequence

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Kind
from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Reading, Thread, ThreadDump, TopicReading
from clienthealth.modes import catalogue
from tests.scenarios import _making as making

FRAMES = (making.GET, making.CALLBACK, making.AWAIT_UPDATE, making.ALLOCATE, making.PUT, making.TAKE, making.LOOKUP, ())
NAMES = (making.NETWORK, "ConsumerFetcherThread-orders_a-1-x-0-0", "worker", "DestroyJavaVM", "http-1", "")
STATES = ("RUNNABLE", "WAITING", "TIMED_WAITING", "BLOCKED", "")
CAPTURES = {
    "topic": ("a", "b", ""),
    "waitMs": ("0", "3000", "60000"),
    "waitS": ("0.5", "60.0"),
    "partition": ("7",),
    "address": ("kafka-1:9092", "/[::1]:9092", ""),
    "error": ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"),
    "timeout": ("0", "5000", "9.5"),
    "records": ("0", "42"),
    "requestTimeoutMs": ("4000", "30000"),
}


def arbitrary_window(seed: int, kinds: Sequence[Kind]) -> ClientWindow:
    dice = random.Random(seed)
    kind = dice.choice(list(kinds))
    readings = _readings(dice, kind)
    departed = dice.random() < 0.3
    return ClientWindow(
        client=making.client(kind),
        start_ms=making.T0,
        end_ms=making.at(60),
        readings=readings[-1:] if departed else readings,
        logs=tuple(sorted((_event(dice) for _ in range(dice.choice((0, 0, 1, 3, 12)))), key=lambda e: e.ts_ms)),
        dumps=tuple(sorted((_dump(dice) for _ in range(dice.choice((0, 0, 1, 3)))), key=lambda d: d.ts_ms)),
        config={dice.choice(CONFIG_OPTIONS): dice.choice(("1", "4000", "30000", "", "x"))}
        if dice.random() < 0.3
        else {},
        departed_ms=making.at(60) if departed else None,
    )


def _readings(dice: random.Random, kind: Kind) -> tuple[Reading, ...]:
    names = dice.sample(list(CLIENT_METRICS[kind]), dice.randint(0, len(CLIENT_METRICS[kind])))
    topic_names = dice.sample(list(TOPIC_METRICS), dice.randint(0, 5))
    frozen = {name: _value(dice) for name in (*names, *topic_names) if dice.random() < 0.5}
    times = sorted(dice.sample(range(60_000), dice.choice((0, 1, 2, 3, 6, 6, 12))))

    def metrics(wanted: Sequence[str]) -> dict[str, float]:
        return {n: frozen[n] if n in frozen else _value(dice) for n in wanted if dice.random() < 0.9}

    topics = dice.sample(["a", "b", "c"], dice.randint(0, 3))
    partition = dice.choice((None, 0))
    return tuple(
        Reading(
            making.T0 + ts,
            metrics(names),
            tuple(TopicReading(t, partition, None, metrics(topic_names)) for t in topics),
        )
        for ts in times
    )


def _value(dice: random.Random) -> float:
    return dice.choice((0.0, 0.0, 1.0, 2.0, 500.0, 32.0 * making.MIB, 1.8e9, dice.random() * 1e6))


def _event(dice: random.Random) -> LogEvent:
    captures = {name: dice.choice(values) for name, values in CAPTURES.items() if dice.random() < 0.5}
    return LogEvent(
        ts_ms=making.T0 + dice.randrange(60_000),
        signature=dice.choice(catalogue().wordings).id,
        text=dice.choice(("", "one line", "two\nlines", "x" * 400)),
        client_id=dice.choice((None, "orders")),
        thread=dice.choice((None, "worker")),
        captures=captures,
    )


def _dump(dice: random.Random) -> ThreadDump:
    threads = tuple(
        Thread(dice.choice(NAMES), dice.choice(STATES), dice.choice(FRAMES), dice.choice((None, 0.0, 50.0, 9000.0)))
        for _ in range(dice.randint(0, 4))
    )
    return ThreadDump(making.T0 + dice.randrange(60_000), threads)
