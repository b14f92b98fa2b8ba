"""The exporter reads `client-health`, and reports when all records have been read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaTimeoutError, UnsupportedCodecError

from clienthealth.model.errors import ServiceError
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus import health_topic
from clienthealth_exporters.prometheus.health_topic import HealthTopic


@dataclass
class Record:
    key: bytes
    value: bytes
    timestamp: int = 1


@dataclass
class Broker:
    partitions: dict[int, list[Record]] = field(default_factory=dict)
    polls: list[Callable[[], None]] = field(default_factory=list)
    leaderless: set[int] = field(default_factory=set)
    lost: bool = False
    connections: int = 0

    def connect(self, settings: Settings, **options: Any) -> Any:
        self.connections += 1
        assert options["group_id"] is None and options["auto_offset_reset"] == "earliest"
        assert options["allow_auto_create_topics"] is False
        if self.lost:
            raise ServiceError("Kafka at 127.0.0.1:9092: NoBrokersAvailable")
        return Consumer(self)

    def ask(self, settings: Settings, **options: Any) -> Any:
        return self

    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        assert topics == ["client-health"]
        if self.lost:
            raise KafkaTimeoutError("no answer")
        rows = [{"partition_index": n, "leader_id": -1 if n in self.leaderless else 7} for n in self.partitions]
        return [{"name": "client-health", "error_code": 0 if rows else 3, "partitions": rows}]

    def list_partition_offsets(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, Any]:
        assert self.leaderless.isdisjoint(partition.partition for partition in wanted)
        return {
            partition: SimpleNamespace(offset=0 if spec == OffsetSpec.EARLIEST else self.end(partition))
            for partition, spec in wanted.items()
        }

    def end(self, partition: TopicPartition) -> int:
        return len(self.partitions[partition.partition])

    def close(self) -> None:
        return None


class Consumer:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.at: dict[TopicPartition, int] = {}

    def assignment(self) -> set[TopicPartition]:
        return set(self.at)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.at = {partition: self.at.get(partition, 0) for partition in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at[partition] = offset

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return self.at[partition]

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Record]]:
        if self.broker.polls:
            self.broker.polls.pop(0)()
        there = {p: at for p, at in self.at.items() if p.partition not in self.broker.leaderless}
        records = {p: self.broker.partitions[p.partition][at : at + 2] for p, at in there.items()}
        self.at |= {p: at + len(records[p]) for p, at in there.items()}
        return records

    def close(self) -> None:
        return None


class Reading:
    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(health_topic, "CHECK_SECONDS", 0.0)
        monkeypatch.setattr(health_topic, "RETRY_SECONDS", 0.0)
        self.broker = broker
        self.seen: list[bytes | None] = []
        self.states: list[str | None] = []
        self.stop = threading.Event()
        self.prepared: list[tuple[int, str | None]] = []
        self.topic = HealthTopic(
            Settings(), lambda key, value, ts: self.seen.append(key), broker.connect, broker.ask, self.prepare
        )

    def prepare(self) -> None:
        self.prepared.append((len(self.seen), self.topic.trouble))

    def note(self) -> None:
        self.states.append(self.topic.trouble)

    def run(self) -> None:
        self.broker.polls.append(self.stop.set)
        self.topic.run(self.stop)


def records(*keys: str) -> list[Record]:
    return [Record(key.encode(), b"{}") for key in keys]


def test_reads_everything_and_reports_how_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a", "b", "c"), 1: records("d")}), monkeypatch)
    reading.broker.polls = [reading.note, reading.note, reading.note]
    assert reading.topic.trouble == "starting"
    reading.run()
    assert sorted(key or b"" for key in reading.seen) == [b"a", b"b", b"c", b"d"]
    assert reading.states == [
        "reading client-health: 4 records are left",
        "reading client-health: 1 records are left",
        None,
    ]


def test_it_is_whole_only_once_what_was_read_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a", "b", "c"), 1: records("d")}), monkeypatch)
    reading.broker.polls = [reading.note, reading.note, reading.note]
    reading.run()
    assert reading.prepared == [(4, "reading client-health: 1 records are left")]
    assert reading.topic.trouble is None


def test_empty_topic_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: []}), monkeypatch)
    reading.run()
    assert reading.topic.trouble is None


def test_once_caught_up_a_new_record_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a")}), monkeypatch)
    reading.broker.polls = [
        lambda: None,
        lambda: reading.broker.partitions[0].extend(records("b", "c", "d")),
        reading.note,
    ]
    reading.run()
    assert reading.states == [None]


def test_new_partition_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a")}), monkeypatch)
    reading.broker.polls = [lambda: None, lambda: reading.broker.partitions.update({1: records("z")}), lambda: None]
    reading.run()
    assert reading.seen == [b"a", b"z"]


def test_lost_broker_is_noticed_and_everything_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a")}), monkeypatch)
    broker = reading.broker

    def lose() -> None:
        broker.lost = True

        def first_wait(seconds: float) -> None:
            if broker.lost and broker.connections == 1:
                reading.note()
            else:
                broker.lost = False

        monkeypatch.setattr(reading.stop, "wait", first_wait)

    broker.polls = [lambda: None, lose]
    reading.run()
    assert reading.states == ["the connection to Kafka at 127.0.0.1:9092 is lost: KafkaTimeoutError: no answer"]
    assert broker.connections == 3 and reading.seen == [b"a", b"a"]


def test_a_partition_that_loses_its_leader_is_named_and_the_others_are_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a"), 1: records("b")}), monkeypatch)
    broker = reading.broker
    broker.polls = [
        lambda: None,
        lambda: broker.leaderless.add(1),
        lambda: broker.partitions[0].extend(records("c")),
        reading.note,
        broker.leaderless.clear,
        reading.note,
    ]
    reading.run()
    assert reading.states == ["a part of client-health cannot be read: client-health/1: no leader", None]
    assert (reading.seen, broker.connections) == ([b"a", b"b", b"c"], 1)


def test_a_partition_without_a_leader_at_the_start_is_read_once_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a"), 1: records("b")}, leaderless={1}), monkeypatch)
    broker = reading.broker
    broker.polls = [lambda: None, reading.note, broker.leaderless.clear, lambda: None]
    reading.run()
    assert reading.states == ["a part of client-health cannot be read: client-health/1: no leader"]
    assert (reading.seen, reading.topic.trouble) == ([b"a", b"b"], None)


def test_topic_that_is_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker(), monkeypatch)

    def created(seconds: float) -> None:
        reading.note()
        reading.broker.partitions = {0: records("a")}

    monkeypatch.setattr(reading.stop, "wait", created)
    reading.broker.polls = [lambda: None]
    reading.run()
    assert reading.states == ["the topic client-health does not exist yet; start the monitor, or run kafka-health init"]
    assert (reading.seen, reading.topic.trouble) == ([b"a"], None)


def test_a_missing_codec_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a")}), monkeypatch)

    def packed() -> None:
        monkeypatch.setattr(reading.stop, "wait", lambda seconds: reading.note())
        raise UnsupportedCodecError("Libraries for lz4 compression codec not found")

    reading.broker.polls = [packed]
    reading.run()
    (sentence,) = reading.states
    assert sentence is not None and sentence.startswith("client-health cannot be decompressed: ") and "lz4" in sentence
    assert "is lost" not in sentence and "pip install 'kafka-client-health[exporters]'" in sentence


def test_a_defect_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Broker({0: records("a")}), monkeypatch)

    def defect() -> None:
        raise ZeroDivisionError

    reading.broker.polls = [defect]
    with pytest.raises(ZeroDivisionError):
        reading.run()
