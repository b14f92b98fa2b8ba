"""What the consumer groups of a cluster have committed, how far their partitions go, and who reads them.

A reading lists all groups and asks for those that are due (see `pace`).

Committed offsets come first and end offsets after them: what is produced in between makes the lag look larger, never
negative. Everything is asked broker by broker, and a request that fails is asked again in halves, so that one group,
topic or broker that fails costs the others nothing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import (
    BrokerResponseError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
)

from clienthealth.errors import ServiceError
from clienthealth.settings import GroupSettings
from clienthealth_exporters.groups.pace import MEMBERLESS, Pace

log = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: Errors after which the client must forget which broker coordinates which group; kafka-python does not by itself.
_STALE = (NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError)
#: Groups of these protocols commit offsets; others (Connect workers, schema registries, share groups) do not.
_PROTOCOLS = ("consumer", "")
_UNKNOWN_TOPIC = 3


class Member(NamedTuple):
    """Who of a group owns a partition."""

    client_id: str
    consumer_id: str
    host: str


class Offsets(NamedTuple):
    """What a group has committed on a partition, and how far the partition goes (None: could not be read)."""

    committed: int
    end: int | None
    start: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group at one moment. `members`: their number, and `owners` by partition, None where not known."""

    name: str
    state: str
    members: int | None
    offsets: Mapping[TopicPartition, Offsets]
    owners: Mapping[TopicPartition, Member]


@dataclass(frozen=True, slots=True)
class GroupsReading:
    """Groups at one moment (`ts_ms`: when the committed offsets had been read), and what failed with the reason.

    `names`: all groups that there are; those that are not in `groups` were not due, or failed.
    """

    ts_ms: int
    names: Set[str]
    groups: Sequence[Group]
    failed_groups: Mapping[str, str]
    failed_partitions: Mapping[TopicPartition, str]


@dataclass(slots=True)
class _Description:
    members: int | None
    owners: Mapping[TopicPartition, Member]
    state: str
    at: float


@dataclass(slots=True)
class _Attempt:
    """One reading under way: what failed so far."""

    groups: dict[str, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    stale: bool = False


class GroupReader:
    """Reads groups again and again over one connection. Not for use by several threads."""

    def __init__(
        self,
        connect: Callable[[], KafkaAdminClient],
        settings: GroupSettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._include = re.compile(settings.include)
        self._exclude = re.compile(settings.exclude) if settings.exclude else None
        self._admin: KafkaAdminClient | None = None
        self._groups_of_broker: dict[int, set[str]] = {}
        self._described: dict[str, _Description] = {}
        self._pace = Pace(settings.idle_interval_seconds)
        self._threads = ThreadPoolExecutor(max(1, settings.concurrency), "group-offsets")

    def close(self) -> None:
        """Close the connection and end the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._disconnect()

    def read(self) -> GroupsReading:
        """Read all groups that are due. Raises ServiceError where no broker can be reached at all."""
        if self._admin is None:
            self._admin = self._connect()
        admin, attempt = self._admin, _Attempt()
        try:
            listed = self._listed(admin, attempt)
            states = {name: state for groups in listed.values() for name, state in groups.items()}
            names = states.keys() | attempt.groups.keys()
            due = self._pace.due(states, self._clock())
            of_brokers = [[name for name in groups if name in due] for groups in listed.values()]
            committed = self._committed(admin, of_brokers, attempt)
            now = self._clock()
            ends, starts = self._limits(admin, {tp for offsets in committed.values() for tp in offsets}, attempt)
            self._describe(admin, of_brokers, states, attempt)
        except (KafkaError, OSError) as error:
            self._disconnect()
            raise ServiceError(f"consumer groups cannot be read: {_reason(error)}") from error
        if attempt.stale:
            self._disconnect()
        for name in due:
            if name in committed:
                # With a partition of which the end is not known it is asked again next time.
                if attempt.partitions.keys().isdisjoint(committed[name]):
                    self._pace.read(name, states[name], committed[name], now)
            else:
                reason = attempt.groups.setdefault(name, "the broker did not answer for it")
                self._pace.failed(name, states[name], reason, now)
        attempt.groups.update(self._pace.failing(states.keys() - due))
        groups = []
        for name in sorted(committed):
            offsets = {
                tp: Offsets(offset, ends.get(tp), starts.get(tp))
                for tp, offset in sorted(committed[name].items())
                if tp in ends or tp in attempt.partitions
            }
            groups.append(self._group(name, states[name], offsets))
        return GroupsReading(round(now * 1000), names, groups, attempt.groups, attempt.partitions)

    def _disconnect(self) -> None:
        if self._admin is not None:
            with closing(self._admin):
                self._admin = None

    def _wanted(self, name: str) -> bool:
        return bool(self._include.fullmatch(name)) and not (self._exclude and self._exclude.fullmatch(name))

    def _listed(self, admin: KafkaAdminClient, attempt: _Attempt) -> dict[int, dict[str, str]]:
        """Broker → the groups that it coordinates, with their state."""
        brokers = [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]]

        def listing(broker: int) -> dict[str, str] | Exception:
            try:
                rows = admin.list_groups(broker_ids=[broker])
            except (KafkaError, OSError) as error:
                return error
            return {
                row["group_id"]: row.get("group_state") or ""
                for row in rows
                if row["protocol_type"] in _PROTOCOLS
                and row.get("group_type") != "share"
                and self._wanted(row["group_id"])
            }

        of_brokers: dict[int, dict[str, str]] = {}
        error: Exception = KafkaError("the cluster has no brokers")
        for broker, result in zip(brokers, self._threads.map(listing, brokers), strict=True):
            if isinstance(result, Exception):
                attempt.stale, error = True, result
                missed = self._groups_of_broker.get(broker, ())
                attempt.groups.update(dict.fromkeys(missed, f"broker {broker}: {_reason(result)}"))
            else:
                of_brokers[broker] = result
                self._groups_of_broker[broker] = set(result)
        if not of_brokers:
            raise error
        for groups in of_brokers.values():
            for name in groups:
                attempt.groups.pop(name, None)
        return of_brokers

    def _committed(
        self, admin: KafkaAdminClient, groups_of_brokers: Iterable[Iterable[str]], attempt: _Attempt
    ) -> dict[str, dict[TopicPartition, int]]:
        def ask(groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
            response = admin.list_group_offsets(list(groups))
            return {
                name: {tp: offset.offset for tp, offset in offsets.items() if offset.offset >= 0}
                for name, offsets in response.items()
            }

        size = max(1, self._settings.groups_per_request)
        chunks = [chunk for groups in groups_of_brokers for chunk in _chunks(sorted(groups), size)]
        return self._in_chunks(ask, chunks, attempt.groups, attempt)

    def _limits(
        self, admin: KafkaAdminClient, partitions: set[TopicPartition], attempt: _Attempt
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """End and start offsets. A partition that is in neither, nor among the failed ones, does not exist any more."""
        leaders: dict[int, list[TopicPartition]] = {}
        for topic in admin.describe_topics(sorted({tp.topic for tp in partitions})) if partitions else ():
            if topic["error_code"] not in (0, _UNKNOWN_TOPIC):
                unread = (tp for tp in partitions if tp.topic == topic["name"])
                attempt.partitions.update(dict.fromkeys(unread, f"topic error {topic['error_code']}"))
            for row in topic["partitions"]:
                tp = TopicPartition(topic["name"], row["partition_index"])
                if tp in partitions and row["leader_id"] >= 0:
                    leaders.setdefault(row["leader_id"], []).append(tp)
                elif tp in partitions:
                    attempt.partitions[tp] = "no leader"

        def asking(spec: OffsetSpec) -> dict[TopicPartition, int]:
            def ask(chunk: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
                response = admin.list_partition_offsets(dict.fromkeys(chunk, spec))
                return {tp: offset.offset for tp, offset in response.items() if offset.offset >= 0}

            return self._in_chunks(ask, [sorted(tps) for tps in leaders.values()], attempt.partitions, attempt)

        return asking(OffsetSpec.LATEST), asking(OffsetSpec.EARLIEST)

    def _describe(
        self,
        admin: KafkaAdminClient,
        groups_of_brokers: Iterable[Iterable[str]],
        states: Mapping[str, str],
        attempt: _Attempt,
    ) -> None:
        """Who is in the groups: asked where the state changed, else every `members_interval_seconds`."""
        now, every = self._clock(), self._settings.members_interval_seconds
        self._described = {name: description for name, description in self._described.items() if name in states}

        def due(name: str) -> bool:
            description = self._described.get(name)
            return states[name] not in MEMBERLESS and (
                description is None or description.state != states[name] or now - description.at >= every
            )

        size = max(1, self._settings.groups_per_request)
        chunks = [chunk for groups in groups_of_brokers for chunk in _chunks(sorted(filter(due, groups)), size)]
        failed: dict[str, str] = {}
        for name, row in self._in_chunks(admin.describe_groups, chunks, failed, attempt).items():
            # A group of the newer consumer protocol answers this request with an error: its members stay unknown.
            description = row["error"] is None and row["group_state"] != "Dead"
            self._described[name] = _Description(
                len(row["members"]) if description else None, dict(_owners(row["members"])), states[name], now
            )
        for name, reason in failed.items():
            log.debug("members of group %s are not known: %s", name, reason)

    def _in_chunks(
        self,
        ask: Callable[[Sequence[_Key]], Mapping[_Key, _Value]],
        chunks: Iterable[Sequence[_Key]],
        failed: dict[_Key, str],
        attempt: _Attempt,
    ) -> dict[_Key, _Value]:
        """Ask for chunks of things, several at a time; what fails alone goes to `failed`."""

        def response(chunk: Sequence[_Key]) -> dict[_Key, _Value]:
            try:
                return dict(ask(chunk))
            except (KafkaError, OSError) as error:
                stale = isinstance(error, _STALE)
                attempt.stale = attempt.stale or stale or not isinstance(error, BrokerResponseError)
                # Halves help only where the broker answered and minds a part of the request.
                if len(chunk) == 1 or stale or not isinstance(error, BrokerResponseError):
                    failed.update(dict.fromkeys(chunk, _reason(error)))
                    return {}
            middle = len(chunk) // 2
            return response(chunk[:middle]) | response(chunk[middle:])

        answers: dict[_Key, _Value] = {}
        for part in self._threads.map(response, chunks):
            answers.update(part)
        return answers

    def _group(self, name: str, state: str, offsets: Mapping[TopicPartition, Offsets]) -> Group:
        if state in MEMBERLESS:
            return Group(name, state, 0, offsets, {})
        description = self._described.get(name)
        return Group(
            name,
            state,
            description.members if description else None,
            offsets,
            description.owners if description else {},
        )


def _owners(members: Iterable[Mapping[str, Any]]) -> Iterator[tuple[TopicPartition, Member]]:
    for row in members:
        assignment = row["member_assignment"]
        if isinstance(assignment, Mapping):
            member = Member(row["client_id"], row["member_id"], row["client_host"])
            for topic in assignment["assigned_partitions"]:
                for partition in topic["partitions"]:
                    yield TopicPartition(topic["topic"], partition), member


def _chunks(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
