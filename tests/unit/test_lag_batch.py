"""Lag windows as Arrow batches → records, without Spark: what belongs together, and what is gone."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from clienthealth.batches.lag import lag_rows
from clienthealth.settings import Settings

MEMBER = pa.struct([(name, pa.string()) for name in ("client_id", "consumer_id", "host")])
NAME = pa.struct([("key", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()), ("member", MEMBER)])
NUMBERS = ("key", "committed_offset", "end_offset", "start_offset", "commit_timestamp_ms")
PARTITION = pa.struct([*((name, pa.int64()) for name in NUMBERS), ("name", NAME)])
CLIENT = ("service", "host", "instance", "client_id", "kind", "library", "version", "group")
WINDOW = pa.schema(
    [
        (
            "newest",
            pa.struct(
                [
                    ("client", pa.struct([(name, pa.string()) for name in CLIENT])),
                    ("members", pa.float64()),
                    ("partitions", pa.list_(NAME)),
                ]
            ),
        ),
        ("readings", pa.list_(pa.struct([("ts_ms", pa.int64()), ("partitions", pa.list_(PARTITION))]))),
        ("start_ms", pa.int64()),
    ]
)
ORDERS, AUDIT = 11, 12


def name(key: int, member: str | None = None) -> dict[str, Any]:
    told = None if member is None else {"client_id": member, "consumer_id": f"{member}-1", "host": "/10.0.0.1"}
    return {"key": key, "topic": {ORDERS: "orders", AUDIT: "audit"}[key], "partition": 0, "member": told}


def seen(key: int, committed: int | None, end: int, alone: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "key": key,
        "committed_offset": committed,
        "end_offset": end,
        "start_offset": 0,
        "commit_timestamp_ms": None,
        "name": alone,
    }


def window(
    group: str, names: list[dict[str, Any]], *readings: tuple[int, list[dict[str, Any]] | None]
) -> dict[str, Any]:
    client = dict.fromkeys(CLIENT) | {"service": "groups", "instance": "default", "client_id": group, "group": group}
    return {
        "newest": {"client": client, "members": 2.0, "partitions": names},
        "readings": [{"ts_ms": 1000 * second, "partitions": partitions} for second, partitions in readings],
        "start_ms": 0,
    }


def records(*windows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The records by key."""
    batch = pa.RecordBatch.from_pylist(list(windows), schema=WINDOW)
    # Spark hands over slices of larger batches too.
    found = [
        row
        for part in (batch.slice(0, 1), batch.slice(1))
        for out in lag_rows(Settings())([part])
        for row in out.to_pylist()
    ]
    return {row["key"]: json.loads(row["value"]) for row in found}


def test_groups_keep_their_own_partitions_names_and_members() -> None:
    found = records(
        window("a", [name(ORDERS, "app")], (0, [seen(ORDERS, 5, 9)])),
        window("b", [name(AUDIT), name(ORDERS)], (0, [seen(ORDERS, 1, 2), seen(AUDIT, 7, 7)])),
    )
    assert sorted(found) == ["groups|default|a", "groups|default|b"]
    (orders,) = found["groups|default|a"]["indicators"]["lag"]
    assert (orders["topic"], orders["records"], orders["member"]["client_id"]) == ("orders", 4, "app")
    assert [(p["topic"], p["records"], p["member"]) for p in found["groups|default|b"]["indicators"]["lag"]] == [
        ("audit", 0, None),
        ("orders", 1, None),
    ]
    assert found["groups|default|b"]["client"]["kind"] == "group"
    assert found["groups|default|b"]["indicators"]["group"]["members"] == 2


def test_readings_come_in_any_order_and_the_newest_counts() -> None:
    later, earlier = (20, [seen(ORDERS, 15, 25)]), (10, [seen(ORDERS, 5, 15)])
    (state,) = records(window("a", [name(ORDERS)], later, earlier)).values()
    (orders,) = state["indicators"]["lag"]
    assert (state["last_seen"], state["samples"], orders["records"]) == (20_000, 2, 10)
    # Offset 15 was the end at second 10.
    assert (orders["seconds"], orders["quality"]) == (10.0, "interpolated")


def test_what_the_newest_reading_does_not_name_is_gone() -> None:
    both = [seen(ORDERS, 1, 2), seen(AUDIT, 7, 7)]
    (state,) = records(window("a", [name(AUDIT)], (0, both), (10, [seen(AUDIT, 7, 8)]))).values()
    assert [p["topic"] for p in state["indicators"]["lag"]] == ["audit"]


def test_records_of_one_partition_each_bring_their_names() -> None:
    single = [
        (second, [seen(key, second, second + lag, name(key, "app"))])
        for second in (0, 10, 20)
        for key, lag in ((ORDERS, 3), (AUDIT, 4))
    ]
    # The newest record is one of the two.
    (state,) = records(window("a", [name(AUDIT, "app")], *single)).values()
    assert [(p["topic"], p["records"], p["member"]["client_id"]) for p in state["indicators"]["lag"]] == [
        ("audit", 4, "app"),
        ("orders", 3, "app"),
    ]
    assert state["samples"] == 3


def test_a_group_without_partitions_is_unknown() -> None:
    (state,) = records(window("a", [], (0, None), (10, []))).values()
    assert (state["indicators"]["lag"], state["indicators"]["group"]["status"]) == ([], "UNKNOWN")
