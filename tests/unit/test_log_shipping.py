"""The demo's log shipper turns lines into records, and sends only a part of a burst."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clienthealth_exporters.publish import Publisher
from deploy.demo.log_file import LogEvent, LogFile
from deploy.demo.shipper import Shipper

STORM = "2026-11-20 21:21:44,790 INFO  [events-worker] kafka.client.ClientUtils$ - Failed to fetch consumer metadata."


def drained(file: LogFile) -> list[LogEvent]:
    events: list[LogEvent] = []
    empty_reads = 0
    while empty_reads < 3:
        new = list(file.events())
        events += new
        empty_reads = 0 if new or file.behind else empty_reads + 1
    return events


def test_an_exception_belongs_to_the_line_above_it(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(
        "2026-11-20 21:21:44,770 ERROR [kafka-producer-network-thread | x] a.B - not sent\n"
        "java.lang.IllegalStateException: no\n\tat a.B.c(B.java:1)\n"
        "2026-11-20 21:21:45,000 WARN  [main] a.C - next\n",
        encoding="utf-8",
    )
    first, second = drained(LogFile(log, limit=10))
    assert first == LogEvent(
        ts_ms=1795209704770,
        level="ERROR",
        thread="kafka-producer-network-thread | x",
        logger="a.B",
        message="not sent",
        stack=["java.lang.IllegalStateException: no", "\tat a.B.c(B.java:1)"],
        size=56,
    )
    assert (second.ts_ms, second.message, second.stack) == (1795209705000, "next", [])


def test_a_half_written_exception_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    file = LogFile(log, limit=10)
    assert list(file.events()) == []
    with log.open("w", encoding="utf-8") as out:
        out.write("2026-11-20 21:21:44,770 ERROR [t] a.B - not sent\njava.lang.Ill")
        out.flush()
        assert list(file.events()) == []
        assert list(file.events()) == []
        out.write("egalStateException\n")
    (event,) = drained(file)
    assert event.stack == ["java.lang.IllegalStateException"]


def test_a_burst_is_sampled_and_counted_and_hides_no_other_process(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    other = "2026-11-20 21:21:44,791 INFO  [main] kafka.consumer.ZookeeperConsumerConnector - shutting down\n"
    log.write_text(f"{STORM}\n" * 20_000 + other + STORM.replace("44,790", "45,000") + "\n", encoding="utf-8")
    events = drained(LogFile(log, limit=5))
    storm = [event for event in events if event.message == "Failed to fetch consumer metadata."]
    assert len(storm) == 6
    notes = [event.message for event in events if event.message.startswith("left out")]
    assert notes == ["left out 19995 of 20000 lines of kafka.client.ClientUtils$ in one second"]
    assert "shutting down" in [event.message for event in events]


def test_rotation_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    file = LogFile(log, limit=10)
    log.write_text("2026-11-20 21:21:44,000 INFO  [t] l - one\n", encoding="utf-8")
    list(file.events())
    with log.open("a", encoding="utf-8") as out:
        out.write("2026-11-20 21:21:45,000 INFO  [t] l - two\n")
    log.rename(tmp_path / "app.log.1")
    log.write_text("2026-11-20 21:21:46,000 INFO  [t] l - three\n", encoding="utf-8")
    assert [event.message for event in drained(file)] == ["one", "two", "three"]


def test_shipped_lines_contain_their_process(tmp_path: Path) -> None:
    class Delivered(Publisher):
        def __init__(self) -> None:
            self.records: list[tuple[str, str, Mapping[str, Any]]] = []

        def send(self, topic: str, key: str, value: Mapping[str, Any]) -> None:
            self.records.append((topic, key, value))

    log, files = tmp_path / "app.log", tmp_path / "files"
    log.write_text(f"{STORM}\n", encoding="utf-8")
    delivered = Delivered()
    shipper = Shipper(files, delivered, "client-logs")
    assert not shipper.ship()
    source = {"service": "events", "host": "web-7", "instance": "web-7:1", "file": str(log)}
    files.write_text(json.dumps(source) + "\n", encoding="utf-8")
    while not delivered.records:
        shipper.ship()
    assert delivered.records == [
        (
            "client-logs",
            "events|web-7:1|",
            {
                "@timestamp": "2026-11-20T21:21:44.790+00:00",
                "log.level": "INFO",
                "log.logger": "kafka.client.ClientUtils$",
                "process.thread.name": "events-worker",
                "message": "Failed to fetch consumer metadata.",
                "service.name": "events",
                "host.name": "web-7",
                "service.node.name": "web-7:1",
            },
        )
    ]
