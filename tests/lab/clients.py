"""The clients of the lab: a program for each family, its library's version, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from clienthealth.platform.jars import _LOG4J_1, JarSet

#: Jars of the lab alone, beside those of `platform.jars`.
JARS = {
    "clients-1.1": JarSet(("org.apache.kafka:kafka-clients:1.1.1", *_LOG4J_1)),
    "clients-2.8": JarSet(("org.apache.kafka:kafka-clients:2.8.2", *_LOG4J_1)),
    "spring-2.9": JarSet(("org.springframework.kafka:spring-kafka:2.9.13", *_LOG4J_1)),
    "spring-3.3": JarSet(("org.springframework.kafka:spring-kafka:3.3.10", *_LOG4J_1)),
    "streams-3.5": JarSet(("org.apache.kafka:kafka-streams:3.5.2", *_LOG4J_1)),
    "streams-4.1": JarSet(("org.apache.kafka:kafka-streams:4.1.2", *_LOG4J_1)),
    "connect-3.7": JarSet(
        (
            "org.apache.kafka:connect-runtime:3.7.2",
            "org.apache.kafka:connect-file:3.7.2",
            "org.apache.kafka:connect-json:3.7.2",
            *_LOG4J_1,
        ),
        without=("log4j:*", "org.slf4j:slf4j-log4j12"),
    ),
}
LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")


@dataclass(frozen=True)
class LabClient:
    """A service that feeds a topic and consumes it.

    jars     the set of jars that it runs on, or the Python library
    program  the class in `java`; connect: a standalone worker, beside a Service that feeds it
    options  its system properties, see the program
    hangs    its handler stops to return some seconds before each fault: the failure that the fault may not hide
    """

    name: str
    jars: str
    program: Literal["Service", "Listener", "Topology", "connect", "python"] = "Service"
    options: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False


def _service(name: str, version: str, commit: str = "auto", **options: str) -> LabClient:
    more = {key.replace("_", "."): value for key, value in options.items()}
    return LabClient(name, f"clients-{version}", options={"commit": commit, **more})


#: As long as a caller waits who means to commit whatever happens: librdkafka and clients up to 1.1 have no limit.
_LONG = {"c_default_api_timeout_ms": "900000"}
_ALL = (
    _service("java-0.11-batch", "0.11", "batch"),
    _service("java-1.1-batch", "1.1", "batch"),
    _service("java-2.3-batch", "2.3", "batch", **_LONG),
    _service("java-2.8-record", "2.8", "record", **_LONG),
    _service("java-3.9-auto", "3.9"),
    _service("java-3.9-batch", "3.9", "batch", **_LONG),
    _service("java-3.9-only", "3.9", "only", **_LONG),
    _service("java-3.9-produces", "3.9", "auto", handle="produce"),
    _service("java-4.1-batch", "4.1", "batch", **_LONG),
    _service("java-4.1-kip848-batch", "4.1", "batch", c_group_protocol="consumer", **_LONG),
    LabClient("spring-2.9", "spring-2.9", "Listener", {"ack": "RECORD"}),
    LabClient("spring-3.3-batch", "spring-3.3", "Listener", {"ack": "BATCH", "c.default.api.timeout.ms": "900000"}),
    LabClient("streams-3.5", "streams-3.5", "Topology", {"s.commit.interval.ms": "1000"}),
    LabClient(
        "streams-4.1-eos",
        "streams-4.1",
        "Topology",
        {"s.commit.interval.ms": "1000", "s.processing.guarantee": "exactly_once_v2"},
    ),
    LabClient("connect-3.7", "connect-3.7", "connect"),
    LabClient("confluent-kafka-batch", "confluent-kafka", "python", {"commit": "batch"}),
    LabClient("kafka-python-batch", "kafka-python", "python", {"commit": "batch"}),
    LabClient("aiokafka-batch", "aiokafka", "python", {"commit": "batch"}),
)
_HANGING = tuple(
    replace(client, name=f"{client.name}-hangs", hangs=True, options={**client.options, "handle.ms": "10"})
    for client in _ALL
    if client.name
    in (
        "java-2.3-batch",
        "java-3.9-auto",
        "java-4.1-kip848-batch",
        "spring-2.9",
        "streams-3.5",
        "confluent-kafka-batch",
    )
)
CLIENTS = {client.name: client for client in (*_ALL, *_HANGING)}
