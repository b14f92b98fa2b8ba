"""Read the groups of a cluster: members, committed offsets, and the begin and end offsets of the groups' partitions.

For a share group, the share-partition start offset (KIP-932) counts as the committed offset. Committed offsets are read
before end offsets. In the opposite order, a group could commit an offset beyond the end offset that was read, and the
lag would be negative.
"""

from __future__ import annotations

import logging
import re
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import IncompatibleBrokerVersion, KafkaError, for_code
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from clienthealth.model.errors import ServiceError
from clienthealth.platform.kafka import OFFSETS_TOPIC, Extents, ask_in_chunks, error_text, extents, leaders
from clienthealth.settings import GroupSettings

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")
_Reasons = dict[str, str]


def _message(name: str) -> Any:
    for kind in ("Response", "Request"):
        made = type(ApiMessage)(name + kind, (ApiMessage,), {}, load_json=f"{__package__}.messages")
        # Keep a reference to response classes, because kafka-python keeps only a weak one.
        _MESSAGES.append(made)
    return made


_MESSAGES: list[Any] = []
_DESCRIBE = {kind.lower(): _message(f"{kind}GroupDescribe") for kind in ("Consumer", "Streams", "Share")}
_SHARE_OFFSETS = _message("DescribeShareGroupOffsets")
MEMBERLESS = ("Empty", "Dead")
#: The wait before an empty or unreadable group is read again, as a share of the time since the group last changed.
WAIT_RATIO = 0.1


class Member(NamedTuple):
    """A member of a group. `epoch`: the member epoch of KIP-848; None in a classic group."""

    client_id: str
    consumer_id: str
    host: str
    epoch: int | None = None


class Listed(NamedTuple):
    """A group, as the group's coordinator lists it. `broker`: id of the coordinator.

    `type`: classic, consumer, streams or share. If the members of a classic group are not consumers, `type` is the
    group's protocol type instead, such as `connect`. `state`: state of the group; '' if the broker does not report the
    state.
    """

    broker: int
    type: str
    state: str


class Offsets(NamedTuple):
    """A group's committed offset in a partition, and the partition's end and start offsets (None if unknown)."""

    committed: int
    end: int | None
    start: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group with its committed offsets and its members. `members`: None if unknown."""

    name: str
    type: str
    state: str
    members: Sequence[Member] | None
    offsets: Mapping[TopicPartition, Offsets]
    owners: Mapping[TopicPartition, Member]


@dataclass(frozen=True, slots=True)
class GroupsReading:
    """The result of one pass over the groups of a cluster.

    `ts_ms`              time (epoch ms) just after the committed offsets were read
    `names`              names of all existing groups that the settings do not leave out
    `groups`             the groups that were due to be read, and could be read
    `failed_groups`      maps each group that could not be read to the reason
    `failed_partitions`  maps each partition that could not be read to the reason. Partitions of the topic in which
                         brokers store groups are included.
    `left_out`           number of groups left out because of the settings `include` and `exclude` in `[groups]`
    """

    ts_ms: int
    names: Set[str]
    groups: Sequence[Group]
    failed_groups: Mapping[str, str]
    failed_partitions: Mapping[TopicPartition, str]
    left_out: int

    @property
    def failures(self) -> dict[str, str]:
        """Return the reason for each group and each end offset that could not be read.

        The keys are `group NAME` for a group, and `the end of TOPIC/PARTITION` for an end offset.
        """
        groups = {f"group {name}": why for name, why in sorted(self.failed_groups.items())}
        ends = {f"the end of {tp.topic}/{tp.partition}": why for tp, why in sorted(self.failed_partitions.items())}
        return groups | ends


@dataclass(slots=True)
class _Description:
    members: Sequence[Member] | None
    owners: Mapping[TopicPartition, Member]
    state: str
    at: float


@dataclass(slots=True)
class _Attempt:
    admin: KafkaAdminClient
    listed: dict[str, Listed] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    stale: bool = False
    left_out: int = 0


@dataclass(eq=False)
class GroupReader:
    """Read groups repeatedly over one connection, which is replaced after failures. Not thread-safe."""

    connect: Callable[[], KafkaAdminClient]
    settings: GroupSettings
    clock: Callable[[], float] = time.time
    _admin: KafkaAdminClient | None = None
    _groups_of_broker: dict[int, set[str]] = field(default_factory=dict)
    _described: dict[str, _Description] = field(default_factory=dict)
    _unsupported: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._include, self._exclude = re.compile(self.settings.include), re.compile(self.settings.exclude or "(?!)")
        self._pace = Pace(self.settings.idle_interval_seconds)
        self._threads = ThreadPoolExecutor(self.settings.concurrency, "group-offsets")

    def close(self) -> None:
        """Close the connection and end the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._disconnect()

    def read(self) -> GroupsReading:
        """Read all groups that are due. Raises ServiceError if no group can be read."""
        if self._admin is None:
            self._admin = self.connect()
        attempt = _Attempt(self._admin)
        try:
            listed = attempt.listed = self._listed(attempt)
            states = {name: group.state for name, group in listed.items()}
            names = states.keys() | attempt.groups.keys()
            due = self._pace.due(states, self.clock())
            committed = self._committed(attempt, due)
            now = self.clock()
            partitions = {tp for offsets in committed.values() for tp in offsets}
            limits = extents(self._admin, {tp.topic for tp in partitions}, partitions, self._threads.map)
            _, hidden = leaders(self._admin, [OFFSETS_TOPIC])
            self._describe(attempt, due, states)
        except (KafkaError, OSError, ServiceError) as error:
            self._disconnect()
            if isinstance(error, ServiceError):
                raise
            raise ServiceError(f"consumer groups cannot be read: {error_text(error)}") from error
        if attempt.stale or limits.reconnect:
            self._disconnect()
        for name in due:
            if name in committed:
                if limits.unread.keys().isdisjoint(committed[name]):
                    self._pace.read(name, states[name], committed[name], now)
            else:
                reason = attempt.groups.setdefault(name, "the broker's response does not contain this group")
                self._pace.failed(name, states[name], reason, now)
        attempt.groups.update(self._pace.failing(states.keys() - due))
        groups = [self._group(name, listed[name], committed[name], limits) for name in sorted(committed)]
        hidden = {tp: f"{why}; the groups in this partition are unknown" for tp, why in hidden.items()}
        unread = {**limits.unread, **hidden}
        return GroupsReading(round(now * 1000), names, groups, attempt.groups, unread, attempt.left_out)

    def _disconnect(self) -> None:
        if self._admin is not None:
            with closing(self._admin):
                self._admin = None

    def _listed(self, attempt: _Attempt) -> dict[str, Listed]:
        brokers = [broker["broker_id"] for broker in attempt.admin.describe_cluster()["brokers"]]

        def ask(one: Sequence[int]) -> dict[int, Any]:
            return {broker: attempt.admin.list_groups(broker_ids=[broker]) for broker in one}

        rows, failed, _ = ask_in_chunks(ask, [[broker] for broker in brokers], self._threads.map)
        if not rows:
            why = next(iter(failed.values()), "the cluster has no brokers")
            raise ServiceError(f"consumer groups cannot be read: {why}")
        listed: dict[str, Listed] = {}
        for broker, of_broker in rows.items():
            self._groups_of_broker[broker] = set()
            for row in of_broker:
                name = row["group_id"]
                if self._exclude.fullmatch(name) or not self._include.fullmatch(name):
                    attempt.left_out += 1
                    continue
                self._groups_of_broker[broker].add(name)
                # Brokers before 3.8 report no group type, because they have only classic groups.
                group_type = row.get("group_type") or "classic"
                if group_type == "classic" and row["protocol_type"] not in ("consumer", ""):
                    group_type = row["protocol_type"]
                listed[name] = Listed(broker, group_type, row.get("group_state") or "")
        for broker, why in failed.items():
            attempt.groups.update(dict.fromkeys(self._groups_of_broker.get(broker, ()), f"broker {broker}: {why}"))
        attempt.stale = bool(failed)
        for name in listed:
            attempt.groups.pop(name, None)
        return listed

    def _committed(self, attempt: _Attempt, names: Set[str]) -> dict[str, dict[TopicPartition, int]]:
        def ask(groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
            broker, group_type, _ = attempt.listed[groups[0]]
            if group_type == "share":
                asked = [_SHARE_OFFSETS.DescribeShareGroupOffsetsRequestGroup(name, None) for name in groups]
                response = {
                    row.group_id: {
                        TopicPartition(topic.topic_name, partition.partition_index): partition.start_offset
                        for topic in row.topics
                        for partition in topic.partitions
                        if not _raised(partition)
                    }
                    for row in _answer(attempt.admin, _SHARE_OFFSETS(groups=asked), broker)
                }
            else:
                found = attempt.admin.list_group_offsets(list(groups))
                response = {name: {tp: one.offset for tp, one in of_group.items()} for name, of_group in found.items()}
            return {name: {tp: at for tp, at in offsets.items() if at >= 0} for name, offsets in response.items()}

        return self._asked(ask, names, attempt, attempt.groups)

    def _describe(self, attempt: _Attempt, names: Set[str], states: Mapping[str, str]) -> None:
        """Read the members of each group when its state changes, and every `members_interval_seconds`."""
        now, every = self.clock(), self.settings.members_interval_seconds
        self._described = {name: description for name, description in self._described.items() if name in states}

        def due(name: str) -> bool:
            description = self._described.get(name)
            return states[name] not in MEMBERLESS and (
                description is None or description.state != states[name] or not 0 <= now - description.at < every
            )

        def ask(groups: Sequence[str]) -> dict[str, Any]:
            broker, group_type, _ = attempt.listed[groups[0]]
            request = _DESCRIBE.get(group_type, DescribeGroupsRequest)(list(groups))
            return {row.group_id: row for row in _answer(attempt.admin, request, broker)}

        failed: dict[str, str] = {}
        for name, row in self._asked(ask, {*filter(due, names)}, attempt, failed).items():
            by_member = sorted(_assigned(row), reverse=True)
            # If several members of a share group have the same partition, the partition's owner is the member with the
            # smallest client id.
            owners = {tp: member for member, partitions in by_member for tp in partitions}
            members = [member for member, _ in reversed(by_member)]
            self._described[name] = _Description(members, owners, states[name], now)
        for name, reason in failed.items():
            self._described[name] = _Description(None, {}, states[name], now)
            unsupported = {attempt.listed[name].type} if IncompatibleBrokerVersion.__name__ in reason else set[str]()
            for group_type in unsupported - self._unsupported:
                log.warning("cannot read the members of groups of type %s: %s", group_type, reason)
            self._unsupported |= unsupported
            log.debug("cannot read the members of group %s: %s", name, reason)

    def _asked(
        self, ask: Callable[[Sequence[str]], Mapping[str, _Value]], names: Set[str], attempt: _Attempt, failed: _Reasons
    ) -> dict[str, _Value]:
        """Call `ask` for the groups `names`, and return its results by group.

        `failed`: receives the unreadable groups, each with the reason.
        """
        by_request: dict[tuple[int, str], list[str]] = defaultdict(list)
        for name in sorted(names):
            by_request[attempt.listed[name][:2]].append(name)
        size, chunks = self.settings.groups_per_request, list[Sequence[str]]()
        for groups in by_request.values():
            chunks += [groups[start : start + size] for start in range(0, len(groups), size)]
        known, failures, reconnect = ask_in_chunks(ask, chunks, self._threads.map)
        failed.update(failures)
        attempt.stale = attempt.stale or reconnect
        return known

    def _group(self, name: str, listed: Listed, committed: Mapping[TopicPartition, int], limits: Extents) -> Group:
        offsets = {
            tp: Offsets(offset, extent and extent.end, extent and extent.begin)
            for tp, offset in sorted(committed.items())
            if (extent := limits.known.get(tp)) or tp in limits.unread
        }
        _, group_type, state = listed
        if state in MEMBERLESS:
            return Group(name, group_type, state, (), offsets, {})
        described = self._described.get(name)
        members, owners = (described.members, described.owners) if described else (None, {})
        return Group(name, group_type, state, members, offsets, owners)


def _answer(admin: KafkaAdminClient, request: Any, broker: int) -> list[Any]:
    return [row for row in admin._manager.run(admin._manager.send, request, broker).groups if not _raised(row)]


def _raised(row: Any) -> bool:
    if row.error_code:
        raise for_code(row.error_code)(row.error_message or "")
    return False


def _assigned(group: Any) -> Iterator[tuple[Member, list[TopicPartition]]]:
    """Yield each member with its partitions (for Streams, the partitions of its active tasks)."""
    topics = {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in getattr(getattr(group, "topology", None), "subtopologies", None) or ()
    }
    for row in group.members:
        if hasattr(row, "member_assignment"):
            given = []
            # Ignore invalid bytes: a client writes the bytes of its assignment, and brokers do not check these bytes.
            with suppress(struct.error, ValueError, IndexError):
                if group.protocol_type == "consumer":
                    decoded = ConsumerProtocolAssignment.decode(row.member_assignment)
                    given = [(part.topic, part.partitions) for part in decoded.assigned_partitions or ()]
        elif hasattr(row.assignment, "active_tasks"):
            tasks = row.assignment.active_tasks
            given = [(topic, task.partitions) for task in tasks for topic in topics.get(task.subtopology_id, ())]
        else:
            given = [(part.topic_name, part.partitions) for part in row.assignment.topic_partitions]
        member = Member(row.client_id, row.member_id, row.client_host, getattr(row, "member_epoch", None))
        yield member, [TopicPartition(topic, number) for topic, numbers in given for number in numbers or ()]


@dataclass(slots=True)
class _Seen:
    state: str
    committed: int | None
    failing: str
    since: float
    at: float


class Pace:
    """Decide which groups a reading includes.

    A group with members is always due. An empty or failing group is due less and less often. `longest`: maximum time
    (s) until a group is read again. `now`, a parameter of methods: the present time (s).
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._seen: dict[str, _Seen] = {}

    def due(self, states: Mapping[str, str], now: float) -> set[str]:
        """Return the groups that are due to be read at `now`."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in states}
        wait = {
            name
            for name, seen in self._seen.items()
            if seen.state == states[name] and (seen.state in MEMBERLESS or seen.failing)
            if 0 <= now - seen.at < min(self._longest, WAIT_RATIO * (seen.at - seen.since))
        }
        return states.keys() - wait

    def read(self, name: str, state: str, committed: Mapping[TopicPartition, int], now: float) -> None:
        """Record that a group was read at time `now`, with its state and offsets."""
        self._note(name, state, hash(frozenset(committed.items())), "", now)

    def failed(self, name: str, state: str, reason: str, now: float) -> None:
        """Record that a group could not be read at time `now`, with the reason."""
        self._note(name, state, None, reason, now)

    def failing(self, waiting: set[str]) -> dict[str, str]:
        """Return the latest read error of each unreadable group in `waiting` (groups that are not due)."""
        return {name: self._seen[name].failing for name in waiting if self._seen[name].failing}

    def _note(self, name: str, state: str, committed: int | None, failing: str, now: float) -> None:
        seen, so = self._seen.get(name), (state, committed, bool(failing))
        same = seen is not None and (seen.state, seen.committed, bool(seen.failing)) == so
        self._seen[name] = _Seen(state, committed, failing, seen.since if seen is not None and same else now, now)
