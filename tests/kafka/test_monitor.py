"""The streaming job on a real broker, on what the release before left: it goes on, and what cannot be read is not lost.

What it survives: `test_chaos.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from deploy.demo.stack import QUICK_START
from tests.chaos.published import History
from tests.support import left_by_release as left

pytestmark = pytest.mark.early

BUFFER = 4_194_304
#: So long the producers of the release have been well again.
RECOVERED_SECONDS = 180


class Lab:
    """A monitor with its own topics, checkpoint and history on the shared broker.

    `more`: lines for the section [monitor]; `topics`: names of some.
    """

    def __init__(self, servers: str, folder: Path, more: str = "", topics: Mapping[str, str] | None = None) -> None:
        self.servers, self.folder = servers, folder
        self.topics = {name: f"{folder.name}-{name}" for name in ("metrics", "logs", "health", "rejects")}
        self.topics |= topics or {}
        create(servers, *self.topics.values())
        self.config = folder / "health.toml"
        self.config.write_text(
            f"""
            [kafka]
            bootstrap_servers = "{servers}"
            [topics]
            metrics = ["{self.topics["metrics"]}"]
            logs = ["{self.topics["logs"]}"]
            health = "{self.topics["health"]}"
            rejects = "{self.topics["rejects"]}"
            [monitor]
            checkpoint = "{folder}/checkpoints"
            history = "{folder}/history"
            trigger_seconds = 1
            metrics_port = 0
            {more}
            """
        )
        self.producer = KafkaProducer(bootstrap_servers=servers)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "monitor.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clienthealth.cli", "monitor", "--config", str(self.config)],
                stdout=log,
                stderr=log,
                env={**os.environ, **QUICK_START},
                start_new_session=True,
            )

    def kill(self, number: int = signal.SIGKILL) -> None:
        """The signal to the driver; SIGKILL to all its processes (JVM, Python workers), as a lost machine would."""
        assert self.process is not None
        if number == signal.SIGKILL:
            for pid in session_of(self.process.pid):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
        else:
            self.process.send_signal(number)
        self.process.wait(180)

    def publish(self, topic: str, *values: bytes) -> None:
        for value in values:
            self.producer.send(self.topics[topic], value)
        self.producer.flush()

    def records(self, topic: str) -> list[Any]:
        """All records of a topic so far."""
        consumer = KafkaConsumer(bootstrap_servers=self.servers, auto_offset_reset="earliest")
        partitions = [TopicPartition(self.topics[topic], p) for p in (0, 1)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        records = []
        while any(consumer.position(p) < ends[p] for p in partitions):
            for batch in consumer.poll(1000).values():
                records += batch
        consumer.close()
        return records

    def worked_off(self, records: int) -> bool:
        """Has it finished the batches of so many records. Not while the checkpoint is set back."""
        root = self.folder / "checkpoints/monitor"
        done = [int(path.name) for path in (root / "commits").glob("[0-9]*")]
        if not done:
            return False
        newest = root / "offsets" / str(max(done))
        if not newest.exists():
            return False
        offsets = map(json.loads, newest.read_text().splitlines()[2:])
        return sum(sum(of.values()) for source in offsets for of in source.values()) >= records

    def await_(self, what: Callable[[], bool], seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert self.process is None or self.process.poll() is None, (self.folder / "monitor.log").read_text()[
                -3000:
            ]
            assert time.monotonic() < deadline, (self.folder / "monitor.log").read_text()[-3000:]
            time.sleep(0.5)


def create(servers: str, *topics: str) -> None:
    """Topics of two partitions."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(topic, 2, 1) for topic in topics])
    admin.close()


def session_of(pid: int) -> list[int]:
    """The processes of the session that the process leads; Python's workers are in a process group of their own."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == pid:
            pids.append(int(path.parent.name))
    return pids


def reading(ts_ms: int, selects: float, available: float, waiting: float = 0.0) -> bytes:
    """A canonical snapshot of a producer of kafka-clients 3.9.1."""
    return json.dumps(
        {
            "ts": ts_ms,
            "client": {
                "service": "orders-api", "host": "web-7", "instance": "web-7:31337", "client_id": "order-producer",
                "kind": "producer", "library": "java", "version": "3.9.1", "group": None,
            },
            "metrics": {
                "select-total": selects, "buffer-total-bytes": BUFFER, "buffer-available-bytes": available,
                "waiting-threads": waiting, "record-send-total": selects, "requests-in-flight": 1.0,
                "io-time-ns-total": selects * 1e6, "io-wait-time-ns-total": selects * 9e6, "metadata-age": 5.0,
            },
            "topics": [],
            "config": {"buffer.memory": str(BUFFER), "request.timeout.ms": "5000"},
        }
    ).encode()  # fmt: skip


def healthy(start_ms: int, seconds: int) -> list[bytes]:
    return [reading(start_ms + s * 1000, 5000.0 + 50 * s, float(BUFFER)) for s in range(0, seconds, 5)]


BAD = (b"", b"{", b'{"a": 1}', b"\x0a\x07\xff\x00\x80", b"[1, 2", b"42")


@dataclass
class Continued:
    """A monitor that went on with what the release before left, until it had seen its stuck producer recover."""

    lab: Lab
    begin_ms: int
    rejects: list[Any]
    history: History


@pytest.fixture(scope="module")
def continued(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Continued]:
    folder = tmp_path_factory.mktemp("continued")
    left.unpacked(folder)
    more = "\n".join(f"{name} = {value}" for name, value in left.FIXED.items())
    lab = Lab(broker.bootstrap_servers, folder, more, {"metrics": left.METRICS, "logs": left.LOGS})
    for topic, count in zip((left.METRICS, left.LOGS), left.READ, strict=True):
        for _ in range(count):
            lab.producer.send(topic, b"{ this has been read", partition=0)
    now = int(time.time() * 1000)
    # Six readings in time, and two that are older than the watermark allows.
    lab.publish("metrics", *healthy(now - 30_000, 30), *healthy(now - 200_000, 10), *BAD)
    # Those came when they were made.
    for second in range(0, RECOVERED_SECONDS, left.STEP):
        ts_ms = now + 1000 * (second - RECOVERED_SECONDS)
        for host in left.HOSTS:
            lab.producer.send(left.METRICS, left.reading(host, ts_ms, 1000 + second), timestamp_ms=ts_ms)
    lab.producer.flush()
    history = History(folder / "history")
    lab.start()
    try:
        lab.await_(lambda: len(lab.records("rejects")) >= len(BAD))
        lab.await_(lambda: any(row["change"] == "closed" for row in history.verdicts.look()), 60)
        rejects = lab.records("rejects")
        lab.kill(signal.SIGTERM)
        yield Continued(lab, now, rejects, history)
    finally:
        if lab.process is not None and lab.process.poll() is None:
            lab.kill()
        lab.producer.close()


def test_what_cannot_be_read_is_sent_on_with_its_reason_and_counted(continued: Continued) -> None:
    assert sorted(r.value or b"" for r in continued.rejects) == sorted(BAD)
    for record in continued.rejects:
        headers = {name: value.decode() for name, value in record.headers}
        assert headers["reject_reason"]
        assert headers["source_topic"] == left.METRICS
        assert headers["source_partition"] in ("0", "1")
        assert headers["source_offset"].isdigit()
    counted = [row for row in continued.history.quality.look() if row["minute"] > continued.begin_ms - 600_000]
    assert {row["source_topic"] for row in counted} == {left.METRICS}
    recovered = len(left.HOSTS) * RECOVERED_SECONDS // left.STEP
    totals = tuple(sum(row[name] for row in counted) for name in ("records", "rejected", "late"))
    assert totals == (8 + len(BAD) + recovered, len(BAD), 2)


def test_an_incident_that_was_open_is_closed_and_not_opened_again(continued: Continued) -> None:
    changes = [(row["host"], row["mode"], row["change"]) for row in continued.history.verdicts.look()]
    first, *_, last = changes
    assert {change[:2] for change in changes} == {(left.HOSTS[0], "producer-callback-deadlock")}
    assert (first[2], last[2]) == ("opened", "closed")
    assert [change for *_, change in changes].count("opened") == 1


def test_readings_in_the_state_make_minutes(continued: Continued) -> None:
    """The release before had written those alone whose windows were closed."""
    old = [row for row in continued.history.minutes.look() if row["minute"] < continued.begin_ms - 600_000]
    assert Counter(row["host"] for row in old) == dict.fromkeys(left.HOSTS, left.SECONDS // 60)
    assert len({(row["host"], row["minute"]) for row in old}) == len(old)
    assert {row["samples"] for row in old} == {60 // left.STEP}
