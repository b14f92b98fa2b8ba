"""Build Kafka clients from the settings (`producer`, `consumer`, `admin`); read offsets of partitions (`extents`)."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import (
    BrokerResponseError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
    RequestTimedOutError,
)

from clienthealth.model.errors import ServiceError
from clienthealth.model.tables import table
from clienthealth.platform.logins import python_options
from clienthealth.settings import KafkaSettings, Settings

_Client = TypeVar("_Client")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: After these errors the caller needs a new client. A client of kafka-python looks up each coordinator only once, and
#: so does not notice that the coordinator has moved.
_RECONNECT = (NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError, RequestTimedOutError)
_UNKNOWN_TOPIC = 3
#: If a partition of this topic has no leader, brokers do not list the groups that the partition stores.
OFFSETS_TOPIC = "__consumer_offsets"

_FAILURE = re.compile(r"connection to \S+ failed: (?:\[\w+ \d+\] )?(?:\w+Error: )*(.*?)(?: \(backoff .*)?$")
#: Errors that name no reason. A broker gives the reason only for the first connection that it refuses.
_VAGUE = ("socket disconnected", "Connection reset", "timed out")
#: Maps parts of kafka-python's error messages to the reasons that are shown instead.
_WORDS: Mapping[str, str] = table(Path(__file__).with_suffix(".toml"))


def producer(settings: Settings, **options: Any) -> KafkaProducer:
    """Return a producer for keys and values in bytes. `options`: kafka-python's options, which override the settings.

    Raises ServiceError if no broker can be reached, and SettingsError if the options in [kafka] are wrong.
    """
    return _built(KafkaProducer, settings, options)


def consumer(settings: Settings, *topics: str, **options: Any) -> KafkaConsumer:
    """Return a consumer for keys and values in bytes, subscribed to `topics` if any are given.

    `options` and errors are those of `producer`.
    """
    return _built(partial(KafkaConsumer, *topics), settings, options)


def admin(settings: Settings, **options: Any) -> KafkaAdminClient:
    """Return an admin client. `options` and errors are those of `producer`."""
    return _built(KafkaAdminClient, settings, options)


class Extent(NamedTuple):
    """Offsets of a partition. `begin`: offset of the first record. `end`: offset of the next record to be written."""

    begin: int
    end: int


class Extents(NamedTuple):
    """First and end offsets of the readable partitions (`known`), and why other partitions are unreadable (`unread`).

    If both `known` and `unread` lack a partition of `only` (see `extents`), the partition does not exist. `reconnect`:
    True if the caller should make a new client.
    """

    known: Mapping[TopicPartition, Extent]
    unread: Mapping[TopicPartition, str]
    reconnect: bool

    @property
    def trouble(self) -> str:
        """The partitions that could not be read, grouped by reason, as one text; '' if there are none."""
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for (topic, number), why in sorted(self.unread.items()):
            by_reason[why].append(f"{topic}/{number}")
        return "; ".join(f"{', '.join(partitions)}: {why}" for why, partitions in by_reason.items())


def extents(
    client: KafkaAdminClient,
    topics: Iterable[str],
    only: Set[TopicPartition] | None = None,
    run: Callable[..., Iterable[Any]] = map,
) -> Extents:
    """Return the `Extent` of each partition of `topics`.

    `only`: the partitions to return; None for all. `run`: a function like `map`, which may query several brokers in
    parallel. Raises KafkaError if no broker answers.
    """
    by_leader, unread = leaders(client, topics, only)

    def ask(chunk: Sequence[TopicPartition]) -> dict[TopicPartition, Extent]:
        ends = client.list_partition_offsets(dict.fromkeys(chunk, OffsetSpec.LATEST))
        begins = client.list_partition_offsets(dict.fromkeys(chunk, OffsetSpec.EARLIEST))
        return {partition: Extent(begins[partition].offset, ends[partition].offset) for partition in chunk}

    known, failed, reconnect = ask_in_chunks(ask, [sorted(chunk) for chunk in by_leader.values()], run)
    return Extents(known, unread | failed, reconnect)


def leaders(
    client: KafkaAdminClient, topics: Iterable[str], only: Set[TopicPartition] | None = None
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, str]]:
    """Return (partitions by the id of the broker that leads them, reason for each partition without a known leader).

    `only`: the partitions to return; None for all. Raises KafkaError if no broker answers.
    """
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    hidden: dict[TopicPartition, str] = {}
    for topic in client.describe_topics(names) if (names := sorted(topics)) else ():
        if topic["error_code"] not in (0, _UNKNOWN_TOPIC):
            unseen = (partition for partition in only or () if partition.topic == topic["name"])
            hidden.update(dict.fromkeys(unseen, f"topic error {topic['error_code']}"))
        for row in topic["partitions"]:
            partition = TopicPartition(topic["name"], row["partition_index"])
            if only is None or partition in only:
                by_leader[row["leader_id"]].append(partition)
    hidden.update(dict.fromkeys(by_leader.pop(-1, ()), "no leader"))
    return by_leader, hidden


def ask_in_chunks(
    ask: Callable[[Sequence[_Key]], Mapping[_Key, _Value]],
    chunks: Iterable[Sequence[_Key]],
    run: Callable[..., Iterable[Any]] = map,
) -> tuple[dict[_Key, _Value], dict[_Key, str], bool]:
    """Query items (such as partitions) in chunks. `ask`: sends one request and returns the value of each item.

    `run`: a function like `map`, which may query several chunks in parallel.

    Returns the value of each item, the reason for each failed item, and True if the caller should make a new client.
    A rejected chunk is halved and queried again, so that only the faulty item fails.
    """
    failed: dict[_Key, str] = {}
    reconnect = []

    def response(chunk: Sequence[_Key]) -> dict[_Key, _Value]:
        try:
            return dict(ask(chunk))
        except (KafkaError, OSError) as error:
            whole = isinstance(error, _RECONNECT) or not isinstance(error, BrokerResponseError)
            if whole or len(chunk) == 1:
                reconnect.append(whole)
                failed.update(dict.fromkeys(chunk, error_text(error)))
                return {}
        middle = len(chunk) // 2
        return response(chunk[:middle]) | response(chunk[middle:])

    known: dict[_Key, _Value] = {}
    for part in run(response, chunks):
        known.update(part)
    return known, failed, any(reconnect)


def error_text(error: BaseException) -> str:
    """Format an error as `type: message`. If the message already contains the type, return only the message."""
    kind, text = type(error).__name__, str(error)
    return text if kind in text else f"{kind}: {text}" if text else kind


def _built(client: Callable[..., _Client], settings: Settings, options: Mapping[str, Any]) -> _Client:
    servers = [server.strip() for server in settings.kafka.bootstrap_servers.split(",") if server.strip()]
    with _attempts() as failures:
        try:
            return client(bootstrap_servers=servers, **{**python_options(settings.kafka.options), **options})
        except KafkaError as error:
            why = _reason(failures) or str(error)
            default = settings.kafka.bootstrap_servers == KafkaSettings().bootstrap_servers
            hint = "; if your settings name another address, give the settings file with --config" if default else ""
            raise ServiceError(f"Kafka at {settings.kafka.bootstrap_servers}: {why}{hint}") from error


@contextmanager
def _attempts() -> Iterator[list[str]]:
    """Yield a list, and add to it the reasons of failed connections, which kafka-python only logs."""
    failures: list[str] = []
    log = logging.getLogger("kafka.net.manager")

    def note(record: logging.LogRecord) -> bool:
        failures.extend(_FAILURE.findall(record.getMessage()))
        return True

    log.addFilter(note)
    try:
        yield failures
    finally:
        log.removeFilter(note)


def _reason(failures: Sequence[str]) -> str | None:
    def vague(failure: str) -> int:
        return next((rank for rank, part in enumerate(_VAGUE, 1) if part in failure), 0)

    telling = min(failures, key=vague, default=None)
    return telling and next((words for part, words in _WORDS.items() if part in telling), telling)
