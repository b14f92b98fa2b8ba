"""Whose threads a dump shows: the clients that they name, else the kinds of client that their frames speak of."""

from __future__ import annotations

from collections.abc import Iterator

from clienthealth.logs.thread_names import FETCHER_THREAD, PRODUCER_THREAD
from clienthealth.model.clients import Kind
from clienthealth.model.readings import Thread, ThreadDump

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


def clients_of(dump: ThreadDump) -> Iterator[tuple[str | None, Kind]]:
    """Name and kind of the clients whose threads a dump shows; None stands for those that nothing names.

    A caller inside a producer is one of a named producer's, where there is one. A modern consumer, which a dump says
    little of, is told only where the dump speaks of nothing else.
    """
    named = dict.fromkeys(
        name for thread in dump.threads if (name := thread.name.removeprefix(PRODUCER_THREAD)) != thread.name
    )
    for name in named:
        yield name, "producer"
    any_client = bool(named)
    for kind, parts in _FRAMES:
        named_already = named if kind == "producer" else any_client if kind == "consumer" else False
        if not named_already and any(_shows(thread, kind, parts) for thread in dump.threads):
            any_client = True
            yield None, kind


def _shows(thread: Thread, kind: Kind, parts: tuple[str, ...]) -> bool:
    if kind == "legacy-consumer" and thread.name.startswith(FETCHER_THREAD):
        return True
    return any(part in frame for frame in thread.frames for part in parts)
