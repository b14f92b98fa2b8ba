"""The exporter reads a cluster's groups while parts of the cluster fail."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import (
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)

from clienthealth.model.errors import InputError, ServiceError
from clienthealth.settings import GroupSettings, Settings
from clienthealth_exporters.groups import exporter
from clienthealth_exporters.groups.exporter import Snapshots, only, readings, table
from clienthealth_exporters.groups.reader import GroupReader, Member, Offsets
from tests.support.waiting import WAIT_SECONDS

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)


class Cluster:
    """Two fake brokers. Broker 1 has the groups `1-…`, broker 2 has `2-…`. `errors` maps a request to its error."""

    def __init__(self, *groups: str, committed: int = 40) -> None:
        self.committed = {name: {ORDERS: committed} for name in groups}
        self.states = dict.fromkeys(groups, "Empty")
        self.ends = {ORDERS: 100, PAYMENTS: 7}
        self.leaders = {ORDERS: 1, PAYMENTS: 2}
        self.owners: dict[str, dict[str, Any]] = {}
        self.errors: dict[object, Exception] = {}
        self.types = dict.fromkeys(groups, "classic")
        self.asked: list[str] = []
        self.connections = 0
        self._manager = self

    def connect(self) -> Cluster:
        self.connections += 1
        return self

    def close(self) -> None:
        pass

    def _fail(self, requests: Iterable[object]) -> None:
        for request in requests:
            if request in self.errors:
                raise self.errors[request]

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": 1}, {"broker_id": 2}]}

    def list_groups(self, broker_ids: Sequence[int]) -> list[dict[str, Any]]:
        self._fail([f"broker-{broker}" for broker in broker_ids])
        listed = [(name, state) for name, state in self.states.items() if name.startswith(str(broker_ids[0]))]
        types = {name: self.types[name] for name, _ in listed}
        protocols = {"classic": ("classic", "consumer"), "connect": ("classic", "connect")}
        kinds = {name: protocols.get(kind, (kind, kind)) for name, kind in types.items()}
        return [
            {"group_id": name, "group_state": state, "group_type": kinds[name][0], "protocol_type": kinds[name][1]}
            for name, state in listed
        ]

    def list_group_offsets(self, groups: Sequence[str]) -> dict[str, Any]:
        self.asked.append("committed")
        self._fail(groups)
        return {
            name: {tp: SimpleNamespace(offset=offset) for tp, offset in self.committed[name].items()} for name in groups
        }

    def describe_topics(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        return [
            {
                "name": topic,
                "error_code": 0,
                "partitions": [
                    {"partition_index": tp.partition, "leader_id": leader}
                    for tp, leader in self.leaders.items()
                    if tp.topic == topic
                ],
            }
            for topic in topics
        ]

    def list_partition_offsets(self, wanted: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, Any]:
        self.asked.append("end" if OffsetSpec.LATEST in wanted.values() else "start")
        self._fail(wanted)
        return {
            tp: SimpleNamespace(offset=self.ends[tp] if spec == OffsetSpec.LATEST else 0) for tp, spec in wanted.items()
        }

    def run(self, send: Callable[..., Any], *request: Any) -> Any:
        return send(*request)

    def send(self, request: Any, broker: int) -> Any:
        if request.name in self.errors:
            raise self.errors[request.name]
        if request.name == "DescribeShareGroupOffsetsRequest":
            rows = [
                {"group_id": group.group_id, "error_code": 0, "topics": [share_topic(tp, at) for tp, at in at.items()]}
                for group in request.groups
                for at in [self.committed[group.group_id]]
            ]
            return named({"groups": rows})
        self.asked.append("members")
        names = getattr(request, "group_ids", None) or request.groups
        described = {self.types[name] for name in names}
        assert described <= REQUESTS[request.name], "one type, in one request"
        return SimpleNamespace(groups=[named({"group_id": name, **self.owners[name]}) for name in names])


def reader(cluster: Cluster, clock: Callable[[], float] = lambda: 1000.0, **changed: Any) -> GroupReader:
    settings = dataclasses.replace(GroupSettings(), **changed)
    return GroupReader(cluster.connect, settings, clock)


REQUESTS = {
    "DescribeGroupsRequest": {"classic", "connect", "sr", "of-kafka-9"},
    "ConsumerGroupDescribeRequest": {"consumer"},
    "StreamsGroupDescribeRequest": {"streams"},
    "ShareGroupDescribeRequest": {"share"},
}


def named(document: Any) -> Any:
    if isinstance(document, dict):
        return SimpleNamespace(**{name: named(value) for name, value in document.items()})
    return [named(one) for one in document] if isinstance(document, list) else document


def share_topic(tp: TopicPartition, start: int) -> dict[str, Any]:
    partition = {"partition_index": tp.partition, "start_offset": start, "error_code": 0}
    return {"topic_name": tp.topic, "partitions": [partition]}


ASSIGNMENT = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("00000002 00000000 00000001 ffffffff")
NULL_PARTITIONS = ASSIGNMENT[:14] + b"\xff" * 8


def description(client: str, **more: Any) -> dict[str, Any]:
    more = more or {"member_assignment": ASSIGNMENT}
    member = {"client_id": client, "member_id": f"{client}-1", "client_host": "/10.0.0.1", **more}
    return {"error_code": 0, "error_message": "", "protocol_type": "consumer", "members": [member]}


def test_committed_offsets_are_read_before_end_offsets() -> None:
    cluster = Cluster("1-a", "2-b")
    reading = reader(cluster).read()
    assert reading.ts_ms == 1_000_000
    assert [(group.name, group.offsets) for group in reading.groups] == [
        ("1-a", {ORDERS: Offsets(40, 100, 0)}),
        ("2-b", {ORDERS: Offsets(40, 100, 0)}),
    ]
    assert cluster.asked == ["committed", "committed", "end", "start"]


def test_as_many_requests_at_a_time_as_are_allowed() -> None:
    cluster, together, threads = Cluster(*(f"1-{n:02}" for n in range(12))), threading.Barrier(3), set()
    asked = cluster.list_group_offsets

    def counted(groups: Sequence[str]) -> dict[str, Any]:
        threads.add(threading.get_ident())
        together.wait(WAIT_SECONDS)
        return asked(groups)

    cluster.list_group_offsets = counted  # type: ignore[method-assign]
    assert len(reader(cluster, groups_per_request=1, concurrency=3).read().groups) == 12
    assert len(threads) == 3


def test_one_group_that_fails_costs_no_other() -> None:
    cluster = Cluster(*(f"1-{n:02}" for n in range(20)))
    cluster.errors["1-07"] = GroupAuthorizationFailedError("not yours")
    reading = reader(cluster, groups_per_request=10).read()
    assert len(reading.groups) == 19
    assert list(reading.failed_groups) == ["1-07"]
    assert "not yours" in reading.failed_groups["1-07"]
    # Twenty groups need two requests. A failing request is split in two at most four times.
    assert cluster.asked.count("committed") <= 2 + 2 * 4


def test_a_broker_that_does_not_answer_in_time_is_asked_once_not_for_every_half() -> None:
    cluster = Cluster(*(f"1-{n:02}" for n in range(20)))
    cluster.errors["1-07"] = RequestTimedOutError("Request timed out after 10000 ms")
    assert len(reader(cluster).read().failed_groups) == 20
    assert cluster.asked.count("committed") == 1


def test_one_broker_that_fails_costs_no_other_and_its_groups_are_named() -> None:
    cluster = Cluster("1-a", "2-b")
    groups = reader(cluster)
    groups.read()
    cluster.errors["broker-2"] = KafkaConnectionError("refused")
    reading = groups.read()
    assert [group.name for group in reading.groups] == ["1-a"]
    assert reading.failed_groups["2-b"].startswith("broker 2: KafkaConnectionError")
    del cluster.errors["broker-2"]
    assert len(groups.read().groups) == 2
    assert cluster.connections == 2


def test_no_broker_at_all_is_an_error_and_the_next_sample_reconnects() -> None:
    cluster = Cluster("1-a")
    groups = reader(cluster)
    cluster.errors |= {"broker-1": KafkaConnectionError("refused"), "broker-2": KafkaConnectionError("refused")}
    with pytest.raises(ServiceError, match="KafkaConnectionError"):
        groups.read()
    cluster.errors.clear()
    assert len(groups.read().groups) == 1
    assert cluster.connections == 2


def test_a_moved_coordinator_is_looked_up_again() -> None:
    cluster = Cluster("1-a", "1-b")
    groups = reader(cluster)
    cluster.errors["1-a"] = NotCoordinatorError()
    assert set(groups.read().failed_groups) == {"1-a", "1-b"}
    cluster.errors.clear()
    assert len(groups.read().groups) == 2
    assert cluster.connections == 2


def test_a_partition_without_an_end_is_kept_and_one_that_is_gone_is_not() -> None:
    cluster = Cluster("1-a")
    deleted, leaderless = TopicPartition("gone", 0), TopicPartition("orders", 1)
    cluster.committed["1-a"] |= {PAYMENTS: 5, deleted: 3, leaderless: 4}
    cluster.leaders[leaderless] = -1
    cluster.errors[PAYMENTS] = UnknownTopicOrPartitionError("deleted just now")
    reading = reader(cluster).read()
    assert reading.groups[0].offsets == {
        ORDERS: Offsets(40, 100, 0),
        leaderless: Offsets(4, None, None),
        PAYMENTS: Offsets(5, None, None),
    }
    assert set(reading.failed_partitions) == {PAYMENTS, leaderless}


def test_groups_that_no_broker_lists_are_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group is not listed while its partition of the offsets topic has no leader."""
    cluster = Cluster("1-a")
    cluster.leaders |= {TopicPartition("__consumer_offsets", 0): 1, TopicPartition("__consumer_offsets", 1): -1}
    groups = reader(cluster)
    failed = groups.read().failed_partitions
    assert failed == {TopicPartition("__consumer_offsets", 1): "no leader; the groups in this partition are unknown"}
    monkeypatch.setattr(exporter, "connection", lambda settings: cluster.connect)
    with pytest.raises(
        ServiceError, match=r"its offsets may be in __consumer_offsets/1, which cannot be read: no leader"
    ):
        next(readings(only(Settings(), "2-b"), "2-b"))
    (snapshot,) = next(readings(only(Settings(), "1-a"), "1-a"))
    assert snapshot["client"]["group"] == "1-a"


def test_a_group_that_is_nowhere_is_named_as_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "connection", lambda settings: Cluster("1-a").connect)
    with pytest.raises(InputError, match="there is no consumer group '2-b'"):
        next(readings(only(Settings(), "2-b"), "2-b"))


def test_members_are_asked_for_now_and_then_and_when_the_state_changes() -> None:
    cluster = Cluster("1-a")
    now = 1000.0
    groups = reader(cluster, lambda: now, members_interval_seconds=30.0)
    assert (groups.read().groups[0].members, cluster.asked.count("members")) == ((), 0)

    cluster.states["1-a"], cluster.owners["1-a"] = "Stable", description("web")
    group = groups.read().groups[0]
    assert group.members == [Member("web", "web-1", "/10.0.0.1")]
    assert group.owners == {tp: Member("web", "web-1", "/10.0.0.1") for tp in (ORDERS, TopicPartition("orders", 1))}
    now += 29
    groups.read()
    assert cluster.asked.count("members") == 1
    now += 1
    groups.read()
    assert cluster.asked.count("members") == 2

    cluster.states["1-a"] = "Empty"
    assert groups.read().groups[0].owners == {}


def kinds(**owners: dict[str, Any]) -> Cluster:
    of = {"topic_partitions": [{"topic_name": "orders", "partitions": [0]}]}
    task = {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}, {"subtopology_id": "1", "partitions": [0]}]}
    topology = [
        {"subtopology_id": "0", "source_topics": ["orders"], "repartition_source_topics": []},
        {"subtopology_id": "1", "source_topics": [], "repartition_source_topics": [{"name": "payments"}]},
    ]
    described = {
        "classic": description("web"),
        "connect": description("worker", member_assignment=b"\0\1") | {"protocol_type": "connect"},
        "consumer": description("new", assignment=of, member_epoch=3),
        "share": description("sharer", assignment=of, member_epoch=4),
        "streams": description("thread", assignment=task, member_epoch=5) | {"topology": {"subtopologies": topology}},
    }
    cluster = Cluster(*(f"1-{kind}" for kind in described))
    cluster.owners = {f"1-{kind}": row for kind, row in (described | owners).items()}
    cluster.types = {f"1-{kind}": kind for kind in described}
    cluster.states = dict.fromkeys(cluster.states, "Stable")
    cluster.committed["1-connect"] = {}
    cluster.committed["1-streams"][PAYMENTS] = 7
    return cluster


def test_groups_of_all_types_are_read_with_their_members() -> None:
    groups = {group.type: group for group in reader(kinds()).read().groups}
    web, new = Member("web", "web-1", "/10.0.0.1"), Member("new", "new-1", "/10.0.0.1", 3)
    worker, sharer = Member("worker", "worker-1", "/10.0.0.1"), Member("sharer", "sharer-1", "/10.0.0.1", 4)
    thread = Member("thread", "thread-1", "/10.0.0.1", 5)
    assert {kind: (group.members, group.owners.get(ORDERS)) for kind, group in groups.items()} == {
        "classic": ([web], web),
        "connect": ([worker], None),
        "consumer": ([new], new),
        "share": ([sharer], sharer),
        "streams": ([thread], thread),
    }
    assert groups["share"].offsets == {ORDERS: Offsets(40, 100, 0)}
    assert groups["connect"].offsets == {}
    assert groups["streams"].owners[PAYMENTS] == thread, "through a topic of its own between two parts"


def test_members_of_a_share_group_share_a_partition_and_the_first_stands_for_it() -> None:
    share = description("sharer", assignment={"topic_partitions": [{"topic_name": "orders", "partitions": [0]}]})
    (one,) = share["members"]
    share["members"] = [one | {"member_id": member} for member in ("b", "a", "c")]
    groups = {group.type: group for group in reader(kinds(share=share)).read().groups}
    assert [member.consumer_id for member in groups["share"].members or ()] == ["a", "b", "c"]
    assert groups["share"].owners[ORDERS].consumer_id == "a"


def test_an_unsupported_request_is_reported_once_and_affects_no_other(caplog: pytest.LogCaptureFixture) -> None:
    cluster = kinds()
    for request in ("ShareGroupDescribeRequest", "DescribeShareGroupOffsetsRequest", "StreamsGroupDescribeRequest"):
        cluster.errors[request] = IncompatibleBrokerVersion(f"Kafka broker does not support '{request}'.")
    groups = reader(cluster, members_interval_seconds=0.0)
    for _ in range(3):
        reading = groups.read()
    assert {group.name: group.members is None for group in reading.groups} == {
        "1-classic": False,
        "1-connect": False,
        "1-consumer": False,
        "1-streams": True,
    }
    assert list(reading.failed_groups) == ["1-share"] and "does not support" in reading.failed_groups["1-share"]
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        "cannot read the members of groups of type share",
        "cannot read the members of groups of type streams",
    ]
    assert cluster.connections == 1, "a new connection would not change it"


@pytest.mark.parametrize("assignment", [b"", b"\0", ASSIGNMENT[:-9], b"\xff" * 40, NULL_PARTITIONS])
def test_an_assignment_of_other_bytes_costs_its_owner_alone(assignment: bytes) -> None:
    cluster = kinds(classic=description("web", member_assignment=assignment))
    groups = {group.type: group for group in reader(cluster).read().groups}
    assert len(groups) == 5
    assert (len(groups["classic"].members or ()), groups["classic"].owners) == (1, {})


@settings(deadline=None)
@given(
    listed=st.dictionaries(
        st.from_regex(r"[12]-[a-c]{1,3}", fullmatch=True),
        st.tuples(
            st.sampled_from(["classic", "consumer", "streams", "share", "connect", "sr", "of-kafka-9"]),
            st.sampled_from(["Stable", "Empty", "Dead", "NotReady", ""]),
        ),
    ),
    failing=st.sets(st.sampled_from(["1-a", "2-b", "broker-1", "ShareGroupDescribeRequest"])),
)
def test_no_group_that_a_broker_lists_is_dropped_without_a_count_and_a_reason(
    listed: dict[str, tuple[str, str]], failing: set[str]
) -> None:
    cluster = Cluster(*listed)
    cluster.types = {name: kind for name, (kind, _) in listed.items()}
    cluster.states = {name: state for name, (_, state) in listed.items()}
    cluster.owners = {name: {"error_code": 69, "error_message": "it is gone"} for name in listed}
    now, groups = 1000.0, reader(cluster, lambda: now, exclude=".*c")
    for second in (0, 10, 25, 300):
        now = 1000.0 + second
        if second == 10:
            cluster.errors = dict.fromkeys(failing, GroupAuthorizationFailedError("not yours"))
        reading = groups.read()
        read = {group.name for group in reading.groups}
        assert reading.names == {name for name in listed if not name.endswith("c")}
        assert read | reading.failed_groups.keys() <= reading.names
        assert not read & reading.failed_groups.keys() and all(reading.failed_groups.values())
        waiting = reading.names - read - reading.failed_groups.keys()
        assert all(cluster.states[name] in ("Empty", "Dead") for name in waiting)
        broker_is_silent = "broker-1" in failing and second >= 10
        assert reading.left_out == sum(name[-1] == "c" for name in listed if not (broker_is_silent and name[0] == "1"))


def test_include_and_exclude_are_on_the_whole_name() -> None:
    cluster = Cluster("1-web", "1-web-canary", "2-batch")
    reading = reader(cluster, include="1-.*", exclude=".*-canary").read()
    assert ([group.name for group in reading.groups], reading.left_out) == (["1-web"], 2)


def test_a_commit_has_a_time_once_it_was_seen_to_change() -> None:
    cluster = Cluster("1-a", "1-b")
    now = 1000.0
    groups, snapshots = reader(cluster, lambda: now), Snapshots("default", "consumer-groups")

    def commit_time() -> object:
        first, *_ = snapshots.from_reading(groups.read())
        return first["topics"][0]["metrics"].get("commit-timestamp-ms")

    assert commit_time() is None
    now = 1010.0
    cluster.committed["1-a"][ORDERS] = 50
    assert commit_time() == 1_010_000
    now = 1020.0
    cluster.errors["1-a"] = GroupAuthorizationFailedError()
    assert commit_time() is None
    del cluster.errors["1-a"]
    assert commit_time() == 1_010_000


def test_a_snapshot_is_canonical() -> None:
    cluster = Cluster("1-a")
    cluster.states["1-a"], cluster.owners["1-a"] = "Stable", description("web")
    reading = reader(cluster).read()
    (snapshot,) = Snapshots("default", "consumer-groups").from_reading(reading)
    assert snapshot == {
        "ts": 1_000_000,
        "client": {
            "service": "consumer-groups",
            "host": None,
            "instance": "default",
            "client_id": "1-a",
            "kind": "group",
            "group": "1-a",
            "library": "broker",
            "version": "classic",
        },
        "metrics": {"members": 1},
        "topics": [
            {
                "topic": "orders",
                "partition": 0,
                "thread": None,
                "metrics": {"committed-offset": 40, "end-offset": 100, "start-offset": 0},
                "member": {"client_id": "web", "consumer_id": "web-1", "host": "/10.0.0.1", "epoch": None},
            }
        ],
        "config": {"group.state": "Stable"},
    }
    header, line = table(reading)
    assert header.split()[-2:] == ["LAG", "MEMBER"]
    assert line.split() == ["1-a", "classic", "Stable", "orders", "0", "40", "100", "60", "web", "/10.0.0.1"]
    connect = next(line for line in table(reader(kinds()).read()) if line.startswith("1-connect"))
    assert connect.split() == ["1-connect", "connect", "Stable", *"-----", "worker", "/10.0.0.1"]


def read_at(cluster: Cluster, seconds: Sequence[float], **changed: Any) -> list[list[str]]:
    now = 1000.0
    groups, readings = reader(cluster, lambda: now, **changed), []
    for second in seconds:
        now = 1000.0 + second
        readings.append([group.name for group in groups.read().groups])
    return readings


def test_an_idle_group_without_members_is_read_less_and_less_often() -> None:
    cluster = Cluster("1-left", "1-used")
    cluster.states["1-used"], cluster.owners["1-used"] = "Stable", description("web")
    readings = read_at(cluster, range(0, 1210, 10))
    assert all("1-used" in names for names in readings), "only its offsets show that it committed"
    left = [10 * number for number, names in enumerate(readings) if "1-left" in names]
    assert left[:11] == list(range(0, 110, 10)), "a tenth of the time for which it stood"
    assert {later - earlier for earlier, later in pairwise(left) if earlier >= 700} == {60}, "but once a minute"


def test_groups_and_members_are_read_after_the_clock_was_set_back() -> None:
    cluster = Cluster("1-left", "1-used")
    cluster.states["1-used"], cluster.owners["1-used"] = "Stable", description("web")
    readings = read_at(cluster, [*range(0, 700, 10), -3600])
    assert readings[-1] == ["1-left", "1-used"]
    before = cluster.asked.count("members")
    read_at(cluster, [0, -3600])
    assert cluster.asked.count("members") == before + 2


def test_a_group_is_read_at_once_when_a_member_joins() -> None:
    cluster = Cluster("1-left")
    now = 1000.0
    groups = reader(cluster, lambda: now)
    for step in range(70):
        now = 1000.0 + 10 * step
        groups.read()
    now += 5
    assert groups.read().groups == []
    cluster.states["1-left"], cluster.owners["1-left"] = "Stable", description("web")
    now += 1
    assert [group.name for group in groups.read().groups] == ["1-left"]


def test_a_group_that_is_moved_is_read_every_time_again() -> None:
    cluster = Cluster("1-left")
    now = 1000.0
    groups, seen = reader(cluster, lambda: now), []
    for step in range(140):
        now = 1000.0 + 10 * step
        cluster.committed["1-left"][ORDERS] = 40 if step < 90 else 50
        seen += [(10 * step, group.offsets[ORDERS].committed) for group in groups.read().groups]
    moved = min(second for second, committed in seen if committed == 50)
    assert 900 <= moved <= 960
    assert [second for second, _ in seen if second >= moved][:11] == list(range(moved, moved + 110, 10))


def test_a_group_that_fails_is_asked_more_seldom_and_stays_among_the_failed() -> None:
    cluster = Cluster("1-a", "1-b")
    cluster.states["1-b"], cluster.owners["1-b"] = "Stable", description("web")
    cluster.errors["1-b"] = GroupAuthorizationFailedError("not yours")
    now = 1000.0
    groups, asked = reader(cluster, lambda: now, groups_per_request=1), []
    for step in range(100):
        now = 1000.0 + 10 * step
        before = cluster.asked.count("committed")
        assert list(groups.read().failed_groups) == ["1-b"]
        asked.append(cluster.asked.count("committed") - before)
    assert sum(asked[-6:]) == 2, "each of both once a minute"
    del cluster.errors["1-b"]
    now += 60
    assert groups.read().failed_groups == {}


def test_an_offset_that_stands_keeps_the_time_of_its_commit_while_the_group_is_not_read() -> None:
    cluster = Cluster("1-a")
    now = 1000.0
    groups, snapshots, times = reader(cluster, lambda: now), Snapshots("default", "consumer-groups"), []
    for step in range(70):
        now = 1000.0 + 10 * step
        cluster.committed["1-a"][ORDERS] = 40 if step == 0 else 50
        times += [
            snap["topics"][0]["metrics"].get("commit-timestamp-ms") for snap in snapshots.from_reading(groups.read())
        ]
    assert len(times) < 70
    assert times == [None, *[1_010_000] * (len(times) - 1)]
