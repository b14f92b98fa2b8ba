"""Define the families of clients. Clients of a family have the same program and version of the client library."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from clienthealth.platform.jars import JarSet

Role = Literal["producer", "consumer"]
VERSIONS = {
    "0.11": "0.11.0.3",
    "1.1": "1.1.1",
    "2.2": "2.2.2",
    "2.6": "2.6.3",
    "2.8": "2.8.2",
    "3.3": "3.3.2",
    "3.7": "3.7.2",
    "3.9": "3.9.1",
    "4.0": "4.0.1",
    "4.1": "4.1.2",
}
_NO_LOGGING = ("org.slf4j:slf4j-log4j12", "log4j:*", "ch.qos.reload4j:*", "org.slf4j:slf4j-reload4j")
SETS = {
    **{
        f"lab-java-{name}": JarSet((f"org.apache.kafka:kafka-clients:{release}",), without=_NO_LOGGING)
        for name, release in VERSIONS.items()
    },
    **{
        f"lab-spring-{name}": JarSet((f"org.springframework.kafka:spring-kafka:{name}",), without=_NO_LOGGING)
        for name in ("2.9.13", "3.3.10")
    },
    **{
        f"lab-streams-{name}": JarSet((f"org.apache.kafka:kafka-streams:{name}",), without=_NO_LOGGING)
        for name in ("3.6.2", "4.0.1")
    },
    "lab-connect": JarSet(("org.apache.kafka:connect-runtime:3.7.2",), without=_NO_LOGGING),
    "lab-reactor": JarSet(("io.projectreactor.kafka:reactor-kafka:1.3.23",), without=_NO_LOGGING),
    "lab-vertx": JarSet(("io.vertx:vertx-kafka-client:4.5.14",), without=(*_NO_LOGGING, "org.slf4j:*")),
    "lab-reload4j": JarSet(("ch.qos.reload4j:reload4j:1.2.26", "org.slf4j:slf4j-reload4j:1.7.36")),
    "lab-logback": JarSet(
        ("ch.qos.logback:logback-classic:1.2.13", "net.logstash.logback:logstash-logback-encoder:6.6")
    ),
    "lab-log4j2": JarSet(
        (
            "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
            "org.apache.logging.log4j:log4j-core:2.24.3",
            "org.apache.logging.log4j:log4j-layout-template-json:2.24.3",
        )
    ),
    "lab-jul": JarSet(("org.slf4j:slf4j-jdk14:1.7.36",)),
    "lab-jmx-exporter": JarSet(("io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1",), without=("*:*",)),
    "lab-otel": JarSet(("io.opentelemetry.javaagent:opentelemetry-javaagent:2.21.0",), without=("*:*",)),
    "lab-micrometer": JarSet(
        ("io.micrometer:micrometer-registry-prometheus:1.11.12",), without=("org.apache.kafka:*",)
    ),
}


@dataclass(frozen=True, eq=False)
class Family:
    name: str
    program: str
    version: str
    weight: float = 1.0
    roles: Collection[str] = ("producer", "consumer")
    options: dict[str, str] = field(default_factory=dict)
    lacks: Collection[str] = ()
    only: Collection[str] = ()
    routes: Sequence[str] = ("jolokia-bulk", "jolokia-pretty", "jolokia-single", "jolokia-each", "jmx-exporter")
    requires: Sequence[str] = ()
    jars: str | None = None
    ids: Mapping[Role, Sequence[str]] = field(default_factory=dict)

    @property
    def java(self) -> bool:
        return self.program not in ("confluent", "kafka_python", "aio")

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))


def _java(name: str, weight: float = 1.0, **more: object) -> Family:
    return Family(f"java-{name}", "Plain", name, weight, **more)  # type: ignore[arg-type]


_BASE = ("jolokia-bulk", "jolokia-pretty", "jolokia-single", "jolokia-each", "jmx-exporter")
#: Only Java clients from 3.7 on can push their metrics (KIP-714).
_PUSHES = (*_BASE, "pushes")
_ROUTES = (*_BASE, "micrometer", "otlp")
_NO_THREAD = ("callback-exit", "callback-error", "callback-flush", "handler-error")
_OTHER_GROUP = ("rebalance", "rebalances")
_NEEDS_BROKERS = ("brokers-away", "brokers-silent", "login-wrong", "tls-wrong")
#: Two properties of librdkafka make these causes impossible: produce() never waits, and callbacks run in the
#: application's thread.
_RDKAFKA = (
    *_NO_THREAD,
    "callback-get",
    "topic-missing",
    "topic-denied",
    "partition-missing",
    "brokers-away",
    "brokers-silent",
)
#: These causes are left out, because nothing is logged while a callback blocks aiokafka's only thread.
_AIO = (
    *_NO_THREAD,
    "callback-get",
    "topic-missing",
    "topic-denied",
    "partition-missing",
    "brokers-away",
    "brokers-silent",
)


#: The Scala consumer finds its brokers in ZooKeeper, so it cannot use a gateway.
_LEGACY = (
    "topic-hangs",
    "endless-lookup",
    "left-behind",
    "topics-apart",
    "topic-of-many-idle",
    "healthy-consumer",
    "consumer-frozen",
    "topic-idle",
    "handler-slow",
    "quotes-consumer",
    "closed-consumer",
)
_SCALA = {"c.auto.offset.reset": "smallest", "c.consumer.timeout.ms": "-1"}


def _confluent(name: str, *requires: str) -> Family:
    return Family(
        f"confluent-{name}", "confluent", name, 1.5, lacks=(*_RDKAFKA, *_NEEDS_BROKERS),
        routes=("statistics", "statistics", "none"), requires=requires,
    )  # fmt: skip


def _kafka_python(name: str, *requires: str) -> Family:
    return Family(
        f"kafka-python-{name}", "kafka_python", name, 1.5, lacks=(*_NO_THREAD, *_NEEDS_BROKERS),
        routes=("kafka-python", "kafka-python", "none"), requires=requires,
    )  # fmt: skip


_FRAMEWORK = ("paused", "handler-error", "callback-flush")
_SPRING: Mapping[Role, Sequence[str]] = {"producer": ("{id}-1",), "consumer": ("{id}-{n}",)}
_STREAMS: Mapping[Role, Sequence[str]] = {
    "consumer": tuple(f"{{id}}-StreamThread-{{m}}-{client}" for client in ("consumer", "restore-consumer", "producer"))
}


def _spring(name: str, release: str, version: str) -> Family:
    jars = f"lab-spring-{release}"
    return Family(f"spring-{name}", "Spring", version, 2.0, lacks=_FRAMEWORK, jars=jars, ids=_SPRING)


def _framework(name: str, program: str, version: str, ids: str = "", lacks: Collection[str] = ()) -> Family:
    named: Mapping[Role, Sequence[str]] = {"consumer": (ids,)} if ids else {}
    without = (*_FRAMEWORK, *lacks)
    return Family(name, program, version, 1.0, ("consumer",), lacks=without, jars=f"lab-{program.lower()}", ids=named)


def _streams(version: str, release: str) -> Family:
    jars, lacks = f"lab-streams-{release}", (*_FRAMEWORK, *_OTHER_GROUP)
    return Family(f"streams-{version}", "Streams", version, 2.0, ("consumer",), lacks=lacks, jars=jars, ids=_STREAMS)


FAMILIES = {
    family.name: family
    for family in (
        _java("0.11"),
        _java("1.1"),
        _java("2.2"),
        _java("2.6"),
        _java("2.8", routes=_ROUTES),
        _java("3.3", routes=_ROUTES),
        _java("3.7", routes=_PUSHES),
        _java("3.9", 2.0, routes=(*_ROUTES, "pushes")),
        _java("4.0", routes=_PUSHES),
        _java("4.1", 2.0, routes=(*_ROUTES, "pushes")),
        Family(
            "java-4.1-kip848",
            "Plain",
            "4.1",
            2.0,
            ("consumer",),
            {"c.group.protocol": "consumer"},
            _OTHER_GROUP,
            routes=_PUSHES,
        ),
        _spring("2.9", "2.9.13", "3.2"),
        _spring("3.3", "3.3.10", "3.8"),
        _streams("3.6", "3.6.2"),
        _streams("4.0", "4.0.1"),
        _framework("connect-3.7", "Connect", "3.7", "connector-consumer-{id}-{n}", _OTHER_GROUP),
        _framework("reactor-1.3", "Reactor", "3.6"),
        _framework("vertx-4.5", "Vertx", "3.7"),
        _confluent("2.16"),
        _confluent("2.6", "confluent-kafka==2.6.2"),
        _confluent("2.2", "confluent-kafka==2.2.0"),
        _kafka_python("3.0"),
        _kafka_python("2.0", "kafka-python==2.0.6"),
        Family(
            "legacy-0.8",
            "Legacy",
            "0.8",
            2.0,
            ("consumer",),
            _SCALA,
            only=_LEGACY,
            jars="legacy",
            routes=("jolokia-bulk", "jolokia-single", "jolokia-each", "none"),
        ),
        Family("aiokafka-0.14", "aio", "0.14", 1.5, lacks=(*_AIO, *_NEEDS_BROKERS, "name-unknown"), routes=("none",)),
    )
}
