"""Define causes that make clients fail, or make healthy clients look as if they failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.lab.families import Family, Role

Level = Literal["ok", "suspected", "confirmed"]
Options = Mapping[str, str]
DEADLOCK, BLOCKED, STALLED = "producer-callback-deadlock", "send-blocked-on-metadata", "delivery-stalled"
NOT_CLOSED, CONSUMER = "producer-not-closed", "consumer-stalled"
CROSS_TOPIC, LOOP = "cross-topic-blocking", "consumer-shutdown-loop"
MODES = (DEADLOCK, BLOCKED, CROSS_TOPIC, LOOP, NOT_CLOSED, STALLED, CONSUMER)
_SYMPTOMS: Mapping[str, Level] = {BLOCKED: "suspected", STALLED: "suspected", NOT_CLOSED: "suspected"}


@dataclass(frozen=True)
class Mechanism:
    """A cause of a failure. In the values of `options`, `a..b` stands for a random number from a to b.

    `mode` is None if the client stays healthy.
    """

    name: str
    mode: str | None
    role: Role
    options: Options = field(default_factory=dict)
    world: str = ""
    early: bool = False
    lasts: tuple[int, int] | None = None
    end: str = ""
    again: bool = False
    beside: Mapping[str, Level] = field(default_factory=dict)
    since: tuple[tuple[int, ...], tuple[int, ...]] = ((0, 0), (99, 0))
    only: Collection[str] = ()
    weight: float = 1.0

    def suits(self, family: Family) -> bool:
        first, last = self.since
        able = (not self.only or family.program in self.only) and (not family.only or self.name in family.only)
        in_range = not family.java or first <= family.numbers < last
        return able and in_range and self.role in family.roles and self.name not in family.lacks


def _held(how: str, ms: str = "0", since: tuple[tuple[int, ...], tuple[int, ...]] = ((0, 0), (99, 0))) -> Mechanism:
    options = {"trouble": how, "trouble.in": "callback", "trouble.ms": ms, "trouble.clients": "1|1|2"}
    if how == "exit":
        # exit() waits for the shutdown hook, and the hook's close() waits for the I/O thread.
        options |= {"hook": "true"}
    return Mechanism(f"callback-{how}", DEADLOCK, "producer", options, beside=_SYMPTOMS, since=since)


def _hangs(how: str, ms: str = "0", **more: object) -> Mechanism:
    options = {
        "trouble": how,
        "trouble.in": "handler",
        "trouble.ms": ms,
        "c.max.poll.interval.ms": "20000|45000|300000",
    }
    return Mechanism(f"handler-{how}", CONSUMER, "consumer", options, **more)  # type: ignore[arg-type]


_LARGE = {"p.batch.size": "500000", "p.buffer.memory": "33554432"}
_BUFFERED = {**_LARGE, "p.linger.ms": "120000", "rate": "5..30", "every": "100000"}
_SHORT: Mapping[str, Level] = {STALLED: "suspected", BLOCKED: "suspected"}


def _lost(name: str, end: str, again: bool = False, **options: str) -> Mechanism:
    chosen = {**_BUFFERED, **{key.replace("_", "."): value for key, value in options.items()}}
    return Mechanism(name, NOT_CLOSED, "producer", chosen, end=end, again=again)


def _shuts(name: str, options: Options, **more: object) -> Mechanism:
    return Mechanism(name, LOOP, "consumer", options, beside={CONSUMER: "confirmed"}, **more)  # type: ignore[arg-type]


def _fine(name: str, role: Role, world: str = "", **more: object) -> Mechanism:
    return Mechanism(name, None, role, world=world, **more)  # type: ignore[arg-type]


def _slow(name: str, role: Role, how: str, ms: str, where: str, **more: object) -> Mechanism:
    options = {"trouble": how, "trouble.in": where, "trouble.ms": ms}
    return Mechanism(name, None, role, options, **more)  # type: ignore[arg-type]


_DEADLOCKS = (
    _held("get"),
    # From version 4.1 on, the Java client refuses flush() in a callback.
    _held("flush", since=((0, 0), (4, 1))),
    _held("latch"),
    _held("join"),
    _held("queue"),
    _held("lock"),
    _held("monitor"),
    _held("socket"),
    _held("spin"),
    _held("retry", "300..3000"),
    _held("sleep", "3600000"),
    _held("exit"),
    _held("error"),
)
_BLOCKS = (
    Mechanism("topic-missing", BLOCKED, "producer", {"trouble": "topic"}, beside=_SYMPTOMS, weight=2),
    Mechanism("topic-denied", BLOCKED, "producer", {"trouble": "topic", "wrong": "denied"}, beside=_SYMPTOMS),
    Mechanism("partition-missing", BLOCKED, "producer", {"trouble": "partition"}, beside=_SYMPTOMS),
    Mechanism("brokers-away", BLOCKED, "producer", world="cut", early=True, beside=_SYMPTOMS),
    Mechanism("brokers-silent", BLOCKED, "producer", world="swallow", early=True, beside=_SYMPTOMS),
    Mechanism("login-wrong", BLOCKED, "producer", {"through": "login"}, early=True, beside=_SYMPTOMS),
    Mechanism("tls-wrong", BLOCKED, "producer", {"p.security.protocol": "SSL"}, early=True, beside=_SYMPTOMS),
)
_STALLS = (
    Mechanism(
        "node-away", STALLED, "producer", world="cut-node", beside={BLOCKED: "suspected", NOT_CLOSED: "suspected"}
    ),
    Mechanism(
        "node-silent", STALLED, "producer", world="swallow-node", beside={BLOCKED: "suspected", NOT_CLOSED: "suspected"}
    ),
    Mechanism("name-unknown", STALLED, "producer", {"through": "lost"}, early=True, beside=_SYMPTOMS),
    Mechanism("outage", STALLED, "producer", world="cut", beside=_SYMPTOMS),
    Mechanism("silence", STALLED, "producer", world="swallow", beside=_SYMPTOMS),
)
_LOSSES = (
    _lost("exit-unclosed", "exit"),
    _lost("main-returns", "return"),
    _lost("main-throws", "throw"),
    _lost("halted", "halt"),
    _lost("killed", "kill"),
    _lost("terminated-unclosed", "term"),
    _lost("closed-at-once", "0", end_ms="0|0|5000"),
    _lost("burst-and-exit", "exit", trouble="burst", burst="3000..20000"),
    _lost("killed-and-back", "kill", again=True),
)
_CONSUMERS = (
    *(_hangs(how) for how in ("latch", "join", "queue", "lock", "monitor", "socket", "spin")),
    _hangs("retry", "300..3000"),
    _hangs("sleep", "3600000"),
    _hangs("error"),
    Mechanism(
        "handler-too-slow",
        CONSUMER,
        "consumer",
        {"trouble": "sleep", "trouble.in": "handler", "trouble.ms": "14000..20000", "c.max.poll.interval.ms": "10000"},
    ),
)
_SEVERAL = {"topics": "2|3", "slow": "true", "trouble.in": "handler"}
_JVM = ("Plain", "Spring", "Streams")
_LOOPS = ("Plain", "Spring", "Legacy", "confluent", "kafka_python", "aio")
_TOPICS = (
    Mechanism(
        "topic-hangs",
        CROSS_TOPIC,
        "consumer",
        {**_SEVERAL, "clients": "1", "trouble": "latch|queue|monitor|socket", "trouble.ms": "0"},
        beside={CONSUMER: "confirmed"},
        only=_LOOPS,
        weight=3,
    ),
    Mechanism(
        "topic-slow",
        CROSS_TOPIC,
        "consumer",
        {**_SEVERAL, "clients": "1", "trouble": "sleep", "trouble.ms": "800..3000", "c.max.poll.records": "20|60|500"},
        beside={CONSUMER: "suspected"},
        only=_LOOPS,
    ),
)
_KAFKA_OFFSETS = {"c.offsets.storage": "kafka", "c.dual.commit.enabled": "false", "clients": "1"}
_ENDINGS = (
    _shuts("endless-lookup", {**_KAFKA_OFFSETS, "interrupted": "commits"}, end="return", only=("Legacy",)),
    _shuts("left-behind", {**_KAFKA_OFFSETS, "interrupted": "shuts-down"}, end="return", only=("Legacy",)),
    _shuts(
        "close-hangs",
        {"trouble": "latch|join|queue|monitor|socket|spin", "trouble.in": "revoked", "trouble.ms": "0"},
        end="close",
        only=("Plain",),
        weight=2,
    ),
)
_CONTROLS = (
    _fine("healthy", "producer", weight=2),
    _fine("healthy-consumer", "consumer", options={"topics": "1|3"}, weight=2),
    _fine(
        "topics-apart",
        "consumer",
        options={**_SEVERAL, "topics": "2", "clients": "2", "trouble": "latch"},
        only=("Legacy",),
    ),
    _fine("topic-of-many-idle", "consumer", "feed-one", options={"topics": "2|3", "clients": "1"}, weight=2),
    _fine("broker-restart", "producer", "stop-broker", lasts=(2, 8), beside=_SHORT),
    _fine("consumer-broker-restart", "consumer", "stop-broker", lasts=(2, 8)),
    _fine("quota", "producer", "quota", lasts=(25, 50), beside=_SYMPTOMS),
    _fine("consumer-quota", "consumer", "quota", lasts=(25, 50)),
    _fine("collections", "producer", options={"trouble": "collect"}, lasts=(10, 30), only=_JVM, beside=_SHORT),
    _fine("consumer-collections", "consumer", options={"trouble": "collect"}, lasts=(10, 30), only=_JVM),
    _fine("deployed-again", "producer", end="close", again=True),
    _fine("consumer-deployed-again", "consumer", end="close", again=True),
    _fine("rebalances", "consumer", "rebalances", lasts=(20, 50)),
    # If write access is lost while the producer runs, each record fails at once.
    _fine("topic-denied-later", "producer", "deny", beside=_SYMPTOMS),
    _fine("topic-read-denied", "consumer", "deny", lasts=(8, 30), only=("Plain", "confluent", "kafka_python")),
    _fine("short-outage", "producer", "cut", lasts=(3, 15), beside=_SHORT),
    _fine("short-silence", "producer", "swallow", lasts=(3, 15), beside=_SHORT),
    _fine("slow-network", "producer", "delay", lasts=(15, 40), beside=_SHORT),
    _fine("consumer-outage", "consumer", "cut", lasts=(5, 40)),
    _fine("consumer-silence", "consumer", "swallow", lasts=(5, 40)),
    _fine("consumer-outage-commits", "consumer", "cut", lasts=(5, 40), options={"commit": "sync"}),
    _fine("frozen", "producer", "freeze-process", lasts=(5, 20), beside=_SHORT),
    _fine("consumer-frozen", "consumer", "freeze-process", lasts=(5, 20)),
    _slow("callback-slow", "producer", "sleep", "5..60", "callback", beside=_SYMPTOMS),
    _slow(
        "callback-backs-off",
        "producer",
        "backoff",
        "3000..22000",
        "callback",
        beside={DEADLOCK: "suspected", **_SYMPTOMS},
    ),
    _slow("callback-held", "producer", "held", "3000..22000", "callback", beside={DEADLOCK: "suspected", **_SYMPTOMS}),
    _slow("handler-slow", "consumer", "sleep", "50..900", "handler"),
    _slow("handler-backs-off", "consumer", "backoff", "3000..25000", "handler", beside={CONSUMER: "suspected"}),
    _slow("handler-held", "consumer", "held", "3000..25000", "handler", beside={CONSUMER: "suspected"}),
    _fine("paused", "consumer", options={"trouble": "pause"}, weight=2),
    _fine("rebalance", "consumer", "rebalance", lasts=(8, 25), weight=2),
    _fine("topic-idle", "consumer", "no-feed"),
    _fine("producer-idle", "producer", options={"trouble": "idle"}),
    _fine(
        "flood",
        "producer",
        options={"trouble": "flood", "size": "2000", "p.buffer.memory": "1000000"},
        beside=_SYMPTOMS,
    ),
    _fine("long-linger", "producer", options={**_LARGE, "p.linger.ms": "5000..20000"}),
    _fine("acks-none", "producer", options={"p.acks": "0"}),
    _fine("quotes", "producer", options={"quotes": "1..999"}, weight=2),
    # The program also logs errors of other programs' clients, so its healthy consumer may be suspected.
    _fine("quotes-consumer", "consumer", options={"quotes": "1..999"}, beside={CONSUMER: "suspected"}, weight=2),
    _fine("closed", "producer", end="close"),
    _fine("closed-slowly", "producer", end="close", options={"end.ms": "5000..20000"}),
    _fine("closed-consumer", "consumer", end="close", options={"end.ms": "0|0|15000"}),
    _fine("flushed", "producer", end="flush", beside={NOT_CLOSED: "suspected"}),
    _fine("terminated", "producer", end="term", options={"hook": "true"}),
)
_ALL = (*_DEADLOCKS, *_BLOCKS, *_STALLS, *_LOSSES, *_CONSUMERS, *_TOPICS, *_ENDINGS, *_CONTROLS)
MECHANISMS = {one.name: one for one in _ALL}
