"""The monitor's step does bounded work for a flood of clients or log lines."""

from __future__ import annotations

import dataclasses
import json
import resource
from collections.abc import Iterator

import pytest

from clienthealth.measure.packed import LogEntry
from clienthealth.model.clients import Client
from clienthealth.model.telemetry import Snapshot
from clienthealth.settings import MonitorSettings, Settings
from tests.support.stepped import START, Stepped, logged, snapshot


def limited(**limits: int) -> Settings:
    return Settings(monitor=dataclasses.replace(MonitorSettings(buckets=1, publish_seconds=0), **limits))  # type: ignore[arg-type]


def fleet(second: float, service: str, first: int, count: int) -> list[Snapshot]:
    return [
        snapshot(
            second,
            {"select-total": 100 * second + n},
            f"{service}-{n}",
            service=service,
            instance=f"h{n}:1",
            host=f"h{n}",
        )
        for n in range(first, first + count)
    ]


def test_a_flood_of_new_ids_leaves_known_clients_judged_and_is_counted() -> None:
    monitor = Stepped(limited(max_clients=50))
    monitor.batch(fleet(0, "shop", 0, 20), 1)
    for second in range(10, 70, 10):
        flood = fleet(second, "flood", 1000 * second, 1000)
        published = monitor.batch([*flood, *fleet(second, "shop", 0, 20)], second + 1)
        assert published.left_out["clients"] == (970 if second == 10 else 1000)
    assert len(monitor.state.all_clients) == 50
    shop = {key: record for key, record in monitor.records.items() if key.startswith("shop|")}
    assert len(shop) == 20
    assert {record["samples"] for record in shop.values()} == {4}  # each client's newest window has 4 samples


def test_of_clients_that_reported_once_a_batch_takes_in_few_and_the_others_when_they_report_again() -> None:
    monitor = Stepped(limited(max_new_clients=10))
    assert len(monitor.batch(fleet(0, "shop", 0, 10), 1).records) == 10
    flooded = monitor.batch([*fleet(9, "flood", 0, 500), *fleet(9, "shop", 0, 40)], 10)
    assert flooded.left_out == {"new-clients": 520}
    again = monitor.batch([*fleet(19, "flood", 1000, 500), *fleet(19, "shop", 0, 40)], 20)
    known = [client.service for client in monitor.state.all_clients]
    assert (known.count("shop"), known.count("flood")) == (40, 20), (
        "the other thirty came back, no client of the flood did"
    )
    assert again.left_out == {"new-clients": 490}
    assert {record["samples"] for key, record in monitor.records.items() if key.startswith("shop|")} == {1, 3}


def test_a_client_over_the_limit_is_not_published_until_there_is_room() -> None:
    monitor = Stepped(limited(max_new_clients=1))
    published = monitor.batch(fleet(0, "shop", 0, 3), 1)
    assert [key.partition("|")[0] for key, _ in published.records] == ["shop"]
    monitor.batch(fleet(10, "shop", 0, 3), 11)
    assert len(monitor.records) == 3


def test_a_full_topic_makes_a_whole_fleet_known_with_the_first_batch() -> None:
    monitor = Stepped(limited(max_new_clients=1))
    published = monitor.batch([*fleet(0, "shop", 0, 50), *fleet(10, "shop", 0, 50)], 60)
    assert (len(published.records), published.left_out) == (50, {})
    repeated = Stepped(limited(max_new_clients=1))
    assert repeated.batch([*fleet(0, "shop", 0, 50), *fleet(0.5, "shop", 0, 50)], 60).left_out == {"new-clients": 49}


def test_a_flood_that_is_over_leaves_nothing_behind() -> None:
    monitor = Stepped(limited(max_new_clients=5))
    monitor.batch(fleet(0, "flood", 0, 100), 1)
    assert len(monitor.state.reported_once) == 95
    monitor.batch([], 2)
    assert len(monitor.state.reported_once) == 95, "nothing was read, so no client could report again"
    monitor.batch(fleet(10, "shop", 0, 1), 11)
    assert not len(monitor.state.reported_once)


def test_what_ends_at_once_is_looked_through_as_often_as_what_ends_alone() -> None:
    def passes(ending: int) -> int:
        monitor = Stepped(limited(), saved=False)
        monitor.batch([*fleet(0, "stays", 0, 10), *fleet(0, "ends", 0, ending)], 1)
        for second in range(10, 70, 10):
            monitor.batch(fleet(second, "stays", 0, 10), second + 1)
        monitor.state.all_clients = looked_through = LookedThrough(monitor.state.all_clients)
        published = monitor.batch(fleet(70, "stays", 0, 10), 71)
        assert sum(json.loads(value).get("departed", False) for _, value in published.records if value) == ending
        return looked_through.times

    assert passes(40) == passes(2)


class LookedThrough(list[Client]):
    times = 0

    def __iter__(self) -> Iterator[Client]:
        self.times += 1
        return super().__iter__()


def test_a_service_takes_no_more_than_its_share() -> None:
    monitor = Stepped(limited(max_clients_per_service=5))
    published = monitor.batch([*fleet(0, "big", 0, 12), *fleet(0, "small", 0, 3)], 1)
    assert published.left_out == {"clients-per-service": 7}
    assert sorted(client.client_id for client in monitor.state.all_clients) == sorted(
        [*(f"big-{n}" for n in range(5)), *(f"small-{n}" for n in range(3))]
    )
    again = monitor.batch([*fleet(10, "big", 0, 12), *fleet(10, "small", 0, 3)], 11)
    assert again.left_out == {"clients-per-service": 7}
    assert len(again.records) == 8


def test_room_that_departed_clients_leave_is_given_to_others() -> None:
    monitor = Stepped(limited(max_clients=10))
    monitor.batch(fleet(0, "one", 0, 10), 1)
    monitor.batch(fleet(0, "two", 0, 10), 2)
    assert {client.service for client in monitor.state.all_clients} == {"one"}
    beat = [
        snapshot(s, {"select-total": s}, "one-0", service="one", instance="h0:1", host="h0") for s in range(10, 100, 10)
    ]
    monitor.batches(beat, 10)
    monitor.batch(fleet(101, "two", 0, 10), 102)
    assert [client.service for client in monitor.state.all_clients] == ["one"] + ["two"] * 9


def test_of_the_readings_of_a_second_the_newest_are_kept() -> None:
    monitor = Stepped(limited(max_readings_per_second=3))
    burst = [snapshot(5 + n / 100, {"select-total": n}, "loud") for n in range(100)]
    calm = [snapshot(s, {"select-total": s}, "calm") for s in range(0, 10, 2)]
    published = monitor.batch([*burst, *calm], 10)
    assert published.left_out == {"readings-per-second": 97}
    assert [r.metrics["select-total"] for r in monitor.clients["loud"].readings] == [97, 98, 99]
    assert len(monitor.clients["calm"].readings) == 5


def test_a_storm_of_thread_names_is_capped_and_drives_out_nothing_rare() -> None:
    monitor = Stepped(limited(max_events_per_process=100))
    rare = logged(1, "producer-close-begins", "p")
    storm: list[Snapshot | LogEntry] = [
        logged(2 + n / 1000, "consumer-metadata-fetch-failed", thread=f"pool-{n}") for n in range(5000)
    ]
    published = monitor.batch([rare, *storm, snapshot(8, {"select-total": 1})], 10)
    assert len(monitor.state.log_entries) == 100
    assert published.left_out["events-per-process"] == 4901
    signatures = [entry.event.signature for entry in monitor.state.log_entries if entry.event]
    assert signatures.count("producer-close-begins") == 1
    newest = max(entry.ts_ms for entry in monitor.state.log_entries)
    oldest = min(entry.ts_ms for entry in monitor.state.log_entries if entry is not rare and entry.ts_ms > START + 1500)
    assert (newest - START, oldest - START) == (6999, 6901)


def test_events_of_all_processes_are_bounded_and_the_loud_pay_first() -> None:
    monitor = Stepped(limited(max_events=300))
    storm = [
        on_host(logged(2 + n / 1000, "consumer-metadata-fetch-failed", thread=f"t{n}"), "loud") for n in range(1000)
    ]
    single_lines = [on_host(logged(2 + n / 1000, "buffer-exhausted"), f"quiet{n}") for n in range(100)]
    published = monitor.batch([*storm, *single_lines], 10)
    assert published.left_out["events"] == 800
    hosts = [entry.host for entry in monitor.state.log_entries]
    assert (hosts.count("loud"), len(set(hosts) - {"loud"})) == (200, 100)


def on_host(entry: LogEntry, host: str) -> LogEntry:
    return LogEntry(entry.service, host, entry.instance, entry.event)


@pytest.mark.long
def test_memory_is_bounded_under_a_flood_of_ids() -> None:
    monitor = Stepped(limited(max_clients=2_000))
    flood = 20_000
    monitor.batch(fleet(0, "flood", 0, 2_000), 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for n in range(5):
        monitor.batch(fleet(1 + n, "flood", flood * n + 10_000, flood), 2 + n)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert len(monitor.state.readings) == len(monitor.state.all_clients) == 2_000
    assert grown < 200
