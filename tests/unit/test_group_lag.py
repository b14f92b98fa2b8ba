"""The lag of a consumer group is published from snapshots of the group's offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from kafka import TopicPartition

from clienthealth.model.health_record import decode
from clienthealth.model.telemetry import Identity, Member, Snapshot, TopicMetrics
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import Settings
from clienthealth_exporters.groups.exporter import Snapshots
from clienthealth_exporters.groups.reader import Group, GroupsReading, Offsets
from clienthealth_exporters.groups.reader import Member as Owner
from clienthealth_exporters.prometheus.services import standing
from tests.support.raw_records import SAMPLES, Raw, sample
from tests.support.stepped import Stepped

NOON_MS = 1_700_000_000_000 - 1_700_000_000_000 % 300_000
SETTINGS = Settings()
ORDERS = [TopicPartition("orders", number) for number in range(2)]


def decoded(values: Iterable[object]) -> list[Snapshot]:
    results = [decode_metrics(Raw("m", json.dumps(v).encode()).record, SETTINGS, 2 * NOON_MS) for v in values]
    assert not any(one.errors for one in results)
    return [snapshot for one in results for snapshot in one.snapshots]


def state_of(*snapshots: Snapshot) -> dict[str, Any]:
    (state,) = states(snapshots).values()
    return state


def states(snapshots: Iterable[Snapshot]) -> dict[str, dict[str, Any]]:
    monitor = Stepped()
    monitor.batch(snapshots)
    return monitor.records


def published() -> list[Snapshot]:
    exporter = Snapshots("default", SETTINGS.groups.service)
    statuses: list[object] = []
    for step in range(49):
        offsets = {
            ORDERS[0]: Offsets(100 * step, 100 * step + 5, 0),
            ORDERS[1]: Offsets(10 * min(step, 12), 10 * step + 1, 0),
        }
        owner = Owner("web", "web-1", "/10.0.0.1")
        group = Group("billing", "classic", "Stable", [owner], offsets, {ORDERS[0]: owner})
        statuses += exporter.from_reading(GroupsReading(NOON_MS + 10_000 * step, {group.name}, [group], {}, {}, 0))
    return decoded(statuses)


def metricbeat_snapshots() -> list[Snapshot]:
    event = json.loads((SAMPLES / "metricbeat_kafka_consumergroup.json").read_bytes())
    snapshots = []
    for step in range(25):
        at = datetime.fromtimestamp(NOON_MS / 1000 + 10 * step, UTC)
        for topic, lag in (("orders", 5), ("refunds", 40 * step)):
            group = {**event["kafka"]["consumergroup"], "topic": topic, "offset": 100 * step, "consumer_lag": lag}
            snapshots.append(
                {**event, "@timestamp": at.isoformat(), "kafka": {**event["kafka"], "consumergroup": group}}
            )
    return decoded(snapshots)


def test_records_of_one_partition_each_are_one_reading() -> None:
    state = state_of(*metricbeat_snapshots())
    assert (state["client"]["group"], state["samples"]) == ("billing", 25)
    orders, refunds = state["indicators"]["lag"]
    assert (orders["topic"], orders["records"], orders["state"]) == ("orders", 5, "OK")
    assert (refunds["topic"], refunds["records"], refunds["state"]) == ("refunds", 960, "WARN")
    assert orders["member"]["client_id"] == refunds["member"]["client_id"] == "billing-1"


def test_what_the_exporter_publishes_becomes_a_lag() -> None:
    ((key, state),) = states(published()).items()
    assert key == "consumer-groups|default|billing"
    assert state["samples"] == 49
    assert state["client"]["kind"] == "group"
    healthy, stopped = state["indicators"]["lag"]
    assert healthy == {
        "topic": "orders",
        "partition": 0,
        "records": 5,
        "seconds": 0.5,
        "quality": "interpolated",
        "state": "OK",
        "committed_offset": 4800,
        "end_offset": 4805,
        "start_offset": 0,
        "commit_age_seconds": 0.0,
        "retention_used_ratio": 5 / 4805,
        "clamped": 0,
        "member": {"client_id": "web", "consumer_id": "web-1", "host": "/10.0.0.1"},
    }
    # The committed offset is 120. The end offset was 120 at second 119. The newest sample is from second 480, so the
    # lag is 361 s.
    assert (stopped["records"], stopped["state"], stopped["member"]) == (361, "STOP", None)
    assert stopped["seconds"] == 361.0
    assert stopped["commit_age_seconds"] == 360.0
    assert state["indicators"]["group"] == {
        "status": "STOP",
        "max_lag": 361,
        "max_lag_seconds": 361.0,
        "sum_lag": 366,
        "members": 1,
        "clamped": 0,
    }


def test_a_group_in_many_batches_ends_as_in_one_and_has_a_row_for_every_minute() -> None:
    whole, pieces = Stepped(), Stepped()
    whole.batch(published())
    for snapshot in published():
        pieces.batch([snapshot])
    assert whole.records == pieces.records
    assert whole.minutes == pieces.minutes
    minutes = [row["minute"] for row in whole.minutes]
    assert minutes == [NOON_MS + 60_000 * n for n in range(8)]


def test_a_group_with_fine_lag_is_ok_in_its_record() -> None:
    (fine,) = states(snapshot for snapshot in published() if (snapshot.ts_ms or 0) <= NOON_MS + 120_000).values()
    assert (fine["indicators"]["group"]["status"], fine["worst"]) == ("OK", "ok")
    (stopped,) = states(published()).values()
    assert (stopped["indicators"]["group"]["status"], stopped["worst"]) == ("STOP", "unknown")
    assert [standing(decode(json.dumps(state).encode())) for state in (fine, stopped)] == ["unknown"] * 2


def test_only_declared_formats_contain_groups() -> None:
    names = set()
    for path in sorted(SAMPLES.iterdir()):
        for raw in sample(path.name) if "log" not in path.name else ():
            one = decode_metrics(raw.record, SETTINGS, raw.record.ts_ms)
            if any(snapshot.client.kind == "group" for snapshot in one.snapshots):
                names.add(one.format)
    assert names == {"metricbeat_consumergroup"}


def group(
    name: str, second: float, partitions: Iterable[tuple[str, int | None, int]], member: str | None = None
) -> Snapshot:
    owner = Member(member, f"{member}-1", "/10.0.0.1") if member else None
    topics = []
    for topic, committed, end in partitions:
        offsets = {"committed-offset": committed, "end-offset": end, "start-offset": 0}
        metrics = {key: float(value) for key, value in offsets.items() if value is not None}
        topics.append(TopicMetrics(topic, 0, None, owner, metrics))
    client = Identity("groups", None, "default", name, "group", group=name)
    return Snapshot(NOON_MS + int(1000 * second), client, {"members": 2.0}, topics)


def test_groups_keep_their_own_partitions_names_and_members() -> None:
    by_group = states([group("a", 0, [("orders", 5, 9)], "app"), group("b", 0, [("orders", 1, 2), ("audit", 7, 7)])])
    assert sorted(by_group) == ["groups|default|a", "groups|default|b"]
    (orders,) = by_group["groups|default|a"]["indicators"]["lag"]
    assert (orders["topic"], orders["records"], orders["member"]["client_id"]) == ("orders", 4, "app")
    assert [(p["topic"], p["records"], p["member"]) for p in by_group["groups|default|b"]["indicators"]["lag"]] == [
        ("audit", 0, None),
        ("orders", 1, None),
    ]
    assert by_group["groups|default|b"]["client"]["kind"] == "group"
    assert by_group["groups|default|b"]["indicators"]["group"]["members"] == 2


def test_readings_come_in_any_order_and_the_newest_counts() -> None:
    state = state_of(group("a", 20, [("orders", 15, 25)]), group("a", 10, [("orders", 5, 15)]))
    (orders,) = state["indicators"]["lag"]
    assert (state["last_seen"], state["samples"], orders["records"]) == (NOON_MS + 20_000, 2, 10)
    # At second 10, ten seconds before the newest sample, the end offset was 15.
    assert (orders["seconds"], orders["quality"]) == (10.0, "interpolated")


def test_what_the_newest_reading_does_not_name_is_gone() -> None:
    state = state_of(group("a", 0, [("orders", 1, 2), ("audit", 7, 7)]), group("a", 10, [("audit", 7, 8)]))
    assert [p["topic"] for p in state["indicators"]["lag"]] == ["audit"]


def test_records_of_one_partition_each_bring_their_names() -> None:
    state = state_of(
        *(
            group("a", second, [(topic, second, second + lag)], "app")
            for second in (0, 10, 20)
            for topic, lag in (("orders", 3), ("audit", 4))
        )
    )
    assert [(p["topic"], p["records"], p["member"]["client_id"]) for p in state["indicators"]["lag"]] == [
        ("audit", 4, "app"),
        ("orders", 3, "app"),
    ]
    assert state["samples"] == 3


def test_a_group_without_partitions_is_unknown() -> None:
    state = state_of(group("a", 0, []), group("a", 10, []))
    assert (state["indicators"]["lag"], state["indicators"]["group"]["status"]) == ([], "UNKNOWN")
