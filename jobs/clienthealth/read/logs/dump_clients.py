"""Whose threads a dump shows: the clients that they name, else the kinds of client that their frames speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clienthealth.model.clients import Kind
from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.read.logs.thread_names import FETCHER_THREAD, PRODUCER_THREAD

#: What in a frame speaks of a client of a kind; the kinds in the order in which they are looked for.
_FRAMES: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("producer", ("clients.producer.KafkaProducer.", "clients.producer.internals.")),
    (
        "legacy-consumer",
        (
            "kafka.consumer.ConsumerIterator.",
            "kafka.consumer.ConsumerFetcherThread.",
            "kafka.consumer.ZookeeperConsumerConnector",
            "kafka.client.ClientUtils$.channelToOffsetManager",
        ),
    ),
    ("consumer", ("clients.consumer.KafkaConsumer.", "clients.consumer.internals.")),
)
#: Frames of frameworks whose threads poll and call the application's handler in between.
_CONTAINERS = (
    "KafkaMessageListenerContainer$ListenerConsumer.run",
    "org.apache.camel.component.kafka.KafkaFetchRecords.run",
    "org.apache.kafka.connect.runtime.WorkerSinkTask.execute",
    "org.apache.kafka.streams.processor.internals.StreamThread.run",
)
#: What such threads are called where Kafka itself names them, and what their consumers are called by default.
_POLLERS = (
    (re.compile(r"(.+-StreamThread-\d+)"), re.compile(r".+-StreamThread-\d+-(?:restore-)?consumer"), "{}-consumer"),
    (re.compile(r"task-thread-(.+)"), re.compile(r"connector-consumer-.+"), "connector-consumer-{}"),
)


def in_container(thread: Thread) -> bool:
    """Does a framework run the thread, which polls and calls the application's handler in between?"""
    return any(part in frame for frame in thread.frames for part in _CONTAINERS)


def polls_for(thread: Thread, client_id: str) -> bool | None:
    """Does the thread poll this consumer, by what their framework calls the two? None where that does not tell."""
    for of_thread, of_client, called in _POLLERS:
        if (match := of_thread.fullmatch(thread.name)) and of_client.fullmatch(client_id):
            return client_id == called.format(match[1])
    return None


def clients_of(dump: ThreadDump) -> Iterator[tuple[str | None, Kind]]:
    """Name and kind of the clients whose threads a dump shows; None stands for those that nothing names.

    A caller inside a producer is one of a named producer's, where there is one. A modern consumer, which a dump says
    little of, is told where a framework's thread polls it, else only where the dump speaks of nothing else.
    """
    named = dict.fromkeys(
        name for thread in dump.threads if (name := thread.name.removeprefix(PRODUCER_THREAD)) != thread.name
    )
    for name in named:
        yield name, "producer"
    polled = dict.fromkeys(_consumer(thread) for thread in dump.threads if in_container(thread))
    for consumer in polled:
        yield consumer, "consumer"
    any_client = bool(named or polled)
    for kind, parts in _FRAMES:
        named_already = named if kind == "producer" else any_client if kind == "consumer" else False
        if not named_already and any(_shows(thread, kind, parts) for thread in dump.threads):
            any_client = True
            yield None, kind


def _consumer(thread: Thread) -> str | None:
    """What the consumer of a framework's thread is called; None where the thread's name does not tell."""
    matches = ((of_thread.fullmatch(thread.name), called) for of_thread, _, called in _POLLERS)
    return next((called.format(match[1]) for match, called in matches if match), None)


def _shows(thread: Thread, kind: Kind, parts: tuple[str, ...]) -> bool:
    if kind == "legacy-consumer" and thread.name.startswith(FETCHER_THREAD):
        return True
    return any(part in frame for frame in thread.frames for part in parts)
