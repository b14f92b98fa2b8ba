"""Run a monitor on a real broker from an earlier release's checkpoint."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from tests.chaos.published import History
from tests.support import left_by_release as left
from tests.support.monitor_lab import BUFFER, Lab, create, reading
from tests.support.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.long, pytest.mark.early]

RECOVERED_SECONDS = 180
RECOVERED = len(left.HOSTS) * RECOVERED_SECONDS // left.STEP
BAD = (b"", b"{", b'{"a": 1}', b"\x0a\x07\xff\x00\x80", b"[1, 2", b"42")
HEAP_MB, BOMB_MB = 512, 256


def healthy(start_ms: int, seconds: int) -> list[bytes]:
    return [reading(start_ms + s * 1000, 5000.0 + 50 * s, float(BUFFER)) for s in range(0, seconds, 5)]


@dataclass
class Continued:
    lab: Lab
    begin_ms: int
    rejects: list[Any]
    minutes: list[Any]
    verdicts: list[Any]
    quality: list[Any]


@pytest.fixture(scope="module")
def continued(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Continued]:
    folder = tmp_path_factory.mktemp("continued")
    left.unpacked(folder)
    lab = Lab(
        broker.bootstrap_servers,
        folder,
        {**left.FIXED, "heap_mb": HEAP_MB},
        {"metrics": left.METRICS, "logs": left.LOGS},
    )
    for topic, count in zip(("metrics", "logs"), left.READ, strict=True):
        lab.publish(topic, *[b"{ this has been read"] * count)
    now = int(time.time() * 1000)
    lab.publish("metrics", *healthy(now - 30_000, 30), *healthy(now - 200_000, 10), *BAD)
    for second in range(0, RECOVERED_SECONDS, left.STEP):
        ts_ms = now + 1000 * (second - RECOVERED_SECONDS)
        for host in left.HOSTS:
            value = left.reading(host, ts_ms, 1000 + second)
            lab.producer.send(left.METRICS, value, partition=0, timestamp_ms=ts_ms)
    lab.producer.flush()
    history = History(folder / "history")

    def quality() -> list[Any]:
        return [row for row in history.quality.look() if row["minute"] > now - 600_000]

    lab.start()
    try:
        lab.wait(lambda: len(lab.records("rejects")) >= len(BAD))
        lab.wait(lambda: any(row["change"] == "closed" for row in history.verdicts.look()))
        lab.wait(lambda: sum(row["records"] for row in quality()) >= 8 + len(BAD) + RECOVERED)
        # The metric rises only after the batch that writes the history.
        lab.wait(lambda: lab.metric("records_read_total") == 8 + len(BAD) + RECOVERED)
        minutes, verdicts = history.minutes.look(), history.verdicts.look()
        yield Continued(lab, now, lab.records("rejects"), [*minutes], [*verdicts], quality())
    finally:
        lab.close()


def test_what_cannot_be_read_is_sent_on_with_its_reason_and_counted(continued: Continued) -> None:
    assert sorted(r.value or b"" for r in continued.rejects) == sorted(BAD)
    for record in continued.rejects:
        headers = {name: value.decode() for name, value in record.headers}
        assert headers["reject_reason"]
        assert (headers["source_topic"], headers["source_partition"]) == (left.METRICS, "0")
        assert headers["source_offset"].isdigit()
    assert {row["source_topic"] for row in continued.quality} == {left.METRICS}
    totals = tuple(sum(row[name] for row in continued.quality) for name in ("records", "rejected", "late"))
    assert totals == (8 + len(BAD) + RECOVERED, len(BAD), 2)


def test_an_incident_that_was_open_is_closed_and_not_opened_again(continued: Continued) -> None:
    changes = [(row["host"], row["mode"], row["change"]) for row in continued.verdicts]
    first, *_, last = changes
    assert {change[:2] for change in changes} == {(left.HOSTS[0], "producer-callback-deadlock")}
    assert (first[2], last[2]) == ("opened", "closed")
    assert [change for *_, change in changes].count("opened") == 1


def test_readings_in_the_state_make_minutes(continued: Continued) -> None:
    old = [row for row in continued.minutes if row["minute"] < continued.begin_ms - 600_000]
    assert Counter(row["host"] for row in old) == dict.fromkeys(left.HOSTS, left.SECONDS // 60)
    assert len({(row["host"], row["minute"]) for row in old}) == len(old)
    assert {row["samples"] for row in old} == {60 // left.STEP}


def test_retention_a_new_topic_of_the_same_name_and_new_partitions_do_not_stop_it(continued: Continued) -> None:
    lab, topic = continued.lab, left.METRICS
    written = len(lab.log.read_text())
    now = int(time.time() * 1000)
    admin = KafkaAdminClient(bootstrap_servers=lab.servers)
    read, lost = lab.metric("records_read_total"), lab.metric("lost_records_total")
    end = sum(lab.ends("metrics").values())

    def send(begin_ms: int, count: int) -> None:
        lab.publish("metrics", *(reading(begin_ms + 1000 * n, 100.0 * n, float(BUFFER)) for n in range(count)))

    with lab.standing():
        send(now - 50_000, 20)
        admin.delete_records({TopicPartition(topic, 0): end + 15})
    lab.wait(lambda: lab.metric("records_read_total") == read + 5)
    assert lab.metric("lost_records_total") == lost + 15
    silent_ms = int(1000 * time.time())
    admin.delete_topics([topic])
    lab.wait(lambda: lab.metric("input_topic_present") == 0)
    lab.wait(lambda: any(departed(record) for record in lab.records("health") if record.timestamp >= silent_ms))
    departures = [r for r in lab.records("health") if r.timestamp >= silent_ms and departed(r)]
    assert all(r.timestamp - silent_ms <= 80_000 for r in departures)
    assert {v["status"] for r in departures for v in json.loads(r.value)["verdicts"]} == {"unknown"}
    create(lab.servers, topic)
    send(now - 30_000, 4)
    lab.wait(lambda: lab.metric("recreated_partitions_total") == 1)
    lab.wait(lambda: lab.metric("input_topic_present") == 1)
    send(now - 20_000, 6)
    # The first four records on the new topic may be skipped, and are then counted as lost.
    lab.wait(lambda: lab.metric("records_read_total") + lab.metric("lost_records_total") == read + lost + 20 + 4 + 6)
    assert lab.metric("lost_records_total") <= lost + 15 + 4
    admin.create_partitions({topic: 3})
    before = lab.metric("records_read_total")
    fresh = KafkaProducer(bootstrap_servers=lab.servers)
    lab.wait(lambda: 2 in fresh.partitions_for(topic))
    fresh.send(topic, reading(now, 1.0, float(BUFFER)), partition=2).get(WAIT_SECONDS)
    fresh.close()
    lab.wait(lambda: lab.metric("records_read_total") == before + 1)
    admin.close()
    assert "failed" not in lab.log.read_text()[written:]


def test_a_record_bomb_between_good_records_affects_no_other_record(continued: Continued) -> None:
    """The bomb is a record that kills the JVM whenever it is read."""
    lab = continued.lab
    now = int(time.time() * 1000) - 30_000
    bomber = KafkaProducer(
        bootstrap_servers=lab.servers, compression_type="gzip", max_request_size=BOMB_MB << 21, max_block_ms=300_000
    )
    with lab.standing():
        for second in range(0, 30, 5):
            if second == 5:
                bomb = bomber.send(left.METRICS, bytes(BOMB_MB << 20), partition=0).get(WAIT_SECONDS)
            lab.publish("metrics", reading(now + second * 1000, 9000.0 + 50 * second, float(BUFFER)))
        bomber.close()
    lab.wait(lambda: any(headers(r)["reject_reason"].startswith("fatal: ") for r in lab.records("rejects")), 600)
    lab.wait(lambda: any(json.loads(r.value)["last_seen"] == now + 25_000 for r in lab.records("health")))
    assert "the batch is now read in steps of 1 records" in lab.log.read_text()
    rejects = [headers(record) for record in lab.records("rejects")]
    (reject,) = (each for each in rejects if each.pop("reject_reason").startswith("fatal: "))
    assert len(rejects) == len(BAD) + 1
    assert reject == {"source_topic": left.METRICS, "source_partition": "0", "source_offset": str(bomb.offset)}
    # The history counts the bomb at once, and counts other rejected records every 20 s.
    counted = History(lab.folder / "history").quality.look()
    assert sum(row["rejected"] for row in counted if row["minute"] > continued.begin_ms - 600_000) == len(BAD) + 1


def departed(record: Any) -> bool:
    return record.value is not None and bool(json.loads(record.value).get("departed"))


def headers(record: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in record.headers}


def test_it_ends_properly_on_request(continued: Continued) -> None:
    assert continued.lab.stop() == 0
