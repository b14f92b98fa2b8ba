"""What the consumer groups of a cluster have committed, how far their partitions go, and who reads them.

A reading lists all groups and asks for those that are due (see `Pace`).

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
from kafka.errors import KafkaError

from clienthealth.model.errors import ServiceError
from clienthealth.platform.kafka import OFFSETS_TOPIC, Extents, ask_in_chunks, error_text, extents, leaders
from clienthealth.settings import GroupSettings

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

#: Groups of these protocols commit offsets; others (Connect workers, schema registries, share groups) do not.
_PROTOCOLS = ("consumer", "")


#: States of a group that nobody is in.
MEMBERLESS = ("Empty", "Dead")
#: A group waits for this share of the time for which nothing has changed.
SHARE = 0.1


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
        self._threads = ThreadPoolExecutor(settings.concurrency, "group-offsets")

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
            partitions = {tp for offsets in committed.values() for tp in offsets}
            limits = extents(admin, {tp.topic for tp in partitions}, partitions, self._threads.map)
            _, hidden = leaders(admin, [OFFSETS_TOPIC])
            self._describe(admin, of_brokers, states, attempt)
        except (KafkaError, OSError) as error:
            self._disconnect()
            raise ServiceError(f"consumer groups cannot be read: {error_text(error)}") from error
        if attempt.stale or limits.reconnect:
            self._disconnect()
        for name in due:
            if name in committed:
                # With a partition of which the end is not known it is asked again next time.
                if limits.unread.keys().isdisjoint(committed[name]):
                    self._pace.read(name, states[name], committed[name], now)
            else:
                reason = attempt.groups.setdefault(name, "the broker did not answer for it")
                self._pace.failed(name, states[name], reason, now)
        attempt.groups.update(self._pace.failing(states.keys() - due))
        groups = [self._group(name, states[name], committed[name], limits) for name in sorted(committed)]
        unread = {**limits.unread, **{tp: f"{why}; its groups are not known" for tp, why in hidden.items()}}
        return GroupsReading(round(now * 1000), names, groups, attempt.groups, unread)

    def _disconnect(self) -> None:
        if self._admin is not None:
            with closing(self._admin):
                self._admin = None

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
                and self._include.fullmatch(row["group_id"])
                and not (self._exclude and self._exclude.fullmatch(row["group_id"]))
            }

        of_brokers: dict[int, dict[str, str]] = {}
        error: Exception = KafkaError("the cluster has no brokers")
        for broker, result in zip(brokers, self._threads.map(listing, brokers), strict=True):
            if isinstance(result, Exception):
                attempt.stale, error = True, result
                missed = self._groups_of_broker.get(broker, ())
                attempt.groups.update(dict.fromkeys(missed, f"broker {broker}: {error_text(result)}"))
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

        return self._asked(ask, groups_of_brokers, attempt.groups, attempt)

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

        failed: dict[str, str] = {}
        asked = [filter(due, groups) for groups in groups_of_brokers]
        for name, row in self._asked(admin.describe_groups, asked, failed, attempt).items():
            # A group of the newer consumer protocol answers this request with an error: its members stay unknown.
            description = row["error"] is None and row["group_state"] != "Dead"
            self._described[name] = _Description(
                len(row["members"]) if description else None, dict(_owners(row["members"])), states[name], now
            )
        for name, reason in failed.items():
            log.debug("members of group %s are not known: %s", name, reason)

    def _asked(
        self,
        ask: Callable[[Sequence[str]], Mapping[str, _Value]],
        groups_of_brokers: Iterable[Iterable[str]],
        failed: dict[str, str],
        attempt: _Attempt,
    ) -> dict[str, _Value]:
        """What brokers say of groups, several asked at a time; what fails alone goes to `failed`."""
        size, chunks = self._settings.groups_per_request, list[Sequence[str]]()
        for groups in map(sorted, groups_of_brokers):
            chunks += [groups[start : start + size] for start in range(0, len(groups), size)]
        known, failures, reconnect = ask_in_chunks(ask, chunks, self._threads.map)
        failed.update(failures)
        attempt.stale = attempt.stale or reconnect
        return known

    def _group(self, name: str, state: str, committed: Mapping[TopicPartition, int], limits: Extents) -> Group:
        offsets = {
            tp: Offsets(offset, extent and extent.end, extent and extent.begin)
            for tp, offset in sorted(committed.items())
            if (extent := limits.known.get(tp)) or tp in limits.unread
        }
        if state in MEMBERLESS:
            return Group(name, state, 0, offsets, {})
        described = self._described.get(name)
        return Group(
            name, state, described.members if described else None, offsets, described.owners if described else {}
        )


def _owners(members: Iterable[Mapping[str, Any]]) -> Iterator[tuple[TopicPartition, Member]]:
    for row in members:
        assignment = row["member_assignment"]
        if isinstance(assignment, Mapping):
            member = Member(row["client_id"], row["member_id"], row["client_host"])
            for topic in assignment["assigned_partitions"]:
                for partition in topic["partitions"]:
                    yield TopicPartition(topic["topic"], partition), member


@dataclass(slots=True)
class _Seen:
    """A group when it was read last: `at`, and `since` when it has been so. `committed`: a hash of its offsets."""

    state: str
    committed: int | None
    failing: str
    since: float
    at: float


class Pace:
    """When each group is read next: one that is in use every time, one that stands or fails more and more seldom.

    Most groups of a large cluster are of nobody any more. Nothing tells that a group committed but its offsets, so one
    that has members is read every time. One without members can be moved by an administrator alone; a member that joins
    changes its state, which the list of all groups tells at every reading.

    Times are in seconds of one clock; `longest`: no group waits for longer."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._seen: dict[str, _Seen] = {}

    def due(self, states: Mapping[str, str], now: float) -> set[str]:
        """Those to be read now. `states`: all groups that there are; others are forgotten."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in states}
        wait = {
            name
            for name, seen in self._seen.items()
            if seen.state == states[name] and (seen.state in MEMBERLESS or seen.failing)
            if now - seen.at < min(self._longest, SHARE * (seen.at - seen.since))
        }
        return states.keys() - wait

    def read(self, name: str, state: str, committed: Mapping[TopicPartition, int], now: float) -> None:
        """A group was read."""
        self._note(name, state, hash(frozenset(committed.items())), "", now)

    def failed(self, name: str, state: str, reason: str, now: float) -> None:
        """A group could not be read."""
        self._note(name, state, None, reason, now)

    def failing(self, waiting: set[str]) -> dict[str, str]:
        """Groups of those that could not be read last time, with the reason."""
        return {name: self._seen[name].failing for name in waiting if self._seen[name].failing}

    def _note(self, name: str, state: str, committed: int | None, failing: str, now: float) -> None:
        seen, so = self._seen.get(name), (state, committed, bool(failing))
        same = seen is not None and (seen.state, seen.committed, bool(seen.failing)) == so
        self._seen[name] = _Seen(state, committed, failing, seen.since if seen is not None and same else now, now)
