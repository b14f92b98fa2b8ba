"""The calculated results of a chaos campaign do not depend on batches."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from clienthealth.settings import Settings
from tests.chaos import load
from tests.chaos.calculated import calculated
from tests.chaos.compare import CLIENT
from tests.support import fake_registry

BEGIN_MS = 1_795_208_640_000
NOW_MS = BEGIN_MS + 86_400_000


def stepped(parts: Sequence[load.Slice], cuts: int, settings: Settings) -> tuple[dict[Any, Any], dict[Any, Any]]:
    tables = calculated(parts, cuts, settings, NOW_MS)
    by_minute = {tuple(row[name] for name in ("minute", *CLIENT)): row for row in tables.minutes.rows}
    assert len(by_minute) == len(tables.minutes.rows)
    reached: dict[Any, list[str]] = defaultdict(list)
    for change in tables.verdicts.rows:
        of = reached["|".join(change[name] for name in ("service", "instance", "client_id")), change["mode"]]
        if change["change"] == "opened":
            of.append(change["status"])
        elif change["change"] == "escalated":
            of[-1] = change["status"]
    return by_minute, dict(reached)


@pytest.fixture(scope="module")
def parts() -> list[load.Slice]:
    return load.slices(1, range(len(load.FAILING) + 1), BEGIN_MS)


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    registry = fake_registry.Registry()
    with fake_registry.serving(registry, fake_registry.always):
        yield registry.settings


@pytest.mark.long
def test_minutes_and_incidents_do_not_hang_on_the_batches(parts: list[load.Slice], settings: Settings) -> None:
    minutes, reached = stepped(parts, 3, settings)
    whole_minutes, whole_reached = stepped(parts, 0, settings)
    assert minutes == whole_minutes
    assert reached == whole_reached
    assert not any(row.get("clock_skew_seconds") for row in minutes.values())
    incidents = {(key.split("|")[0].rpartition("-")[0], mode) for key, mode in reached}
    assert incidents >= {(name, mode) for name, mode in load.FAILING.items()}
    assert not {name for name, _ in incidents} & set(load.HARMLESS)
    assert load.AVRO in {client for (_, _, _, client, _) in minutes}
    assert reached["service-0|web-0:100|client-0", "producer-callback-deadlock"] == ["confirmed"]


@pytest.mark.long
def test_a_backlog_of_half_an_hour_in_one_batch_gives_the_same(parts: list[load.Slice], settings: Settings) -> None:
    whole = load.Slice(0, BEGIN_MS, tuple(record for part in parts[:5] for record in part.records))
    assert stepped([whole, parts[5]], 0, settings) == stepped(parts[:6], 0, settings)


def unevenly(parts: Sequence[load.Slice]) -> list[load.Slice]:
    chosen, batches = random.Random(7), [list[load.Published]() for _ in range(3)]
    third_ms = 1000 * load.SECONDS * len(parts) // 3
    ends: dict[Any, list[int]] = {}
    for record in (record for part in parts for record in part.records):
        key = record.stream, record.partition(2)
        if key not in ends:
            ends[key] = [BEGIN_MS + at * third_ms + chosen.randrange(-300_000, 300_000) for at in (1, 2)]
        batches[sum(record.ts_ms >= end_ms for end_ms in ends[key])].append(record)
    return [load.Slice(at, BEGIN_MS, tuple(records)) for at, records in enumerate(batches)]


@pytest.mark.long
def test_partitions_of_a_backlog_that_are_read_unevenly_lose_nothing(
    parts: list[load.Slice], settings: Settings
) -> None:
    batches = [*unevenly(parts[:5]), parts[5]]
    assert sorted(len(batch.records) for batch in batches)[0] > 500
    assert stepped(batches, 0, settings) == stepped(parts[:6], 0, settings)


def test_the_same_seed_gives_the_same_records() -> None:
    assert load.slices(3, range(2), BEGIN_MS) == load.slices(3, range(2), BEGIN_MS)
    assert load.slices(3, range(2), BEGIN_MS) != load.slices(4, range(2), BEGIN_MS)
