"""A replay reads recordings as raw records, and shifts their times to the present."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from clienthealth.model.errors import InputError
from clienthealth.ops import cli
from clienthealth.read.recordings import read, readings
from deploy.demo import replay
from deploy.demo.replay import in_order, moved, time_of

READING = b'{"ts": 1795208530689, "client_id": "p", "metrics": {"producer-metrics/select-total{client-id=p}": 5}}'
LINE = "2026-11-20 21:02:10,164 INFO  [main] app - hello"


def test_a_folder_is_one_process_and_a_prefix_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "metrics.jsonl.gz").write_bytes(gzip.compress(READING + b"\n" + READING + b"\n"))
    (folder / "consumer-metrics.jsonl").write_bytes(READING + b"\n")
    (folder / "app.log").write_text(f"{LINE}\njava.lang.Error: x\n\tat a.B.c(B.java:1)\n{LINE}\n")
    (folder / "consumer.log").write_text(LINE + "\n")
    (folder / "jstack-during1-consumer-210000.txt").write_text("2026-11-20 21:00:00\nFull thread dump X:\n\n\n")
    (folder / "truth.json").write_text("{}")
    records = [(r.stream, r.instance, r.file, r.offset) for r in read([folder])]
    assert records == [
        ("logs", "shop", "app.log", 0),
        ("logs", "shop", "app.log", 3),
        ("metrics", "shop/consumer", "consumer-metrics.jsonl", 0),
        ("logs", "shop/consumer", "consumer.log", 0),
        ("logs", "shop/consumer", "jstack-during1-consumer-210000.txt", 0),
        ("metrics", "shop", "metrics.jsonl.gz", 0),
        ("metrics", "shop", "metrics.jsonl.gz", 1),
    ]
    assert {r.service for r in read([folder])} == {"shop"}


def test_a_file_is_one_document_or_a_record_per_line(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{\n "a": 1\n}')
    (tmp_path / "many.ndjson").write_text('{"a": 1}\n\n{"a": 2}\n')
    assert [(r.stream, r.offset) for r in read([tmp_path / "one.json", tmp_path / "many.ndjson"])] == [
        ("any", 0),
        ("any", 0),
        ("any", 2),
    ]


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "broken.log.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(InputError, match="cannot be read"):
        read([tmp_path / "broken.log.gz"])
    with pytest.raises(InputError, match="no such file"):
        read([tmp_path / "absent"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nothing to read"):
        read([tmp_path / "empty"])


def test_a_line_of_metrics_becomes_a_snapshot_per_client() -> None:
    line = json.dumps(
        {
            "ts": 1795208530689,
            "client_id": "p",
            "metrics": {
                "app-info/version{client-id=p}": "3.0.1",
                "producer-metrics/iotime-total{client-id=p}": 7,
                "producer-metrics/batch-size-avg{client-id=p}": "NaN",
                "producer-topic-metrics/record-send-total{client-id=p,topic=a.b}": 3,
            },
        }
    ).encode()
    (snapshot,) = map(canonical.written, readings(line, ClientProcess("shop", "h", "h:1")) or ())
    assert snapshot["ts"] == 1795208530689
    assert snapshot["client"]["version"] == "3.0.1"
    assert (snapshot["client"]["kind"], snapshot["client"]["client_id"], snapshot["client"]["service"]) == (
        "producer",
        "p",
        "shop",
    )
    assert snapshot["metrics"] == {"io-time-ns-total": 7.0}
    assert snapshot["topics"] == [
        {"topic": "a.b", "partition": None, "thread": None, "metrics": {"record-send-total": 3.0}}
    ]


def test_an_old_mbean_becomes_a_snapshot_and_a_broken_line_stays_what_it_is() -> None:
    key = "kafka.consumer:clientId=g,name=FetchQueueSize,threadId=0,topic=a,type=ZookeeperConsumerConnector/Value"
    line = json.dumps({"ts": 1795208530689, "client_id": "g", "metrics": {key: 2}}).encode()
    (snapshot,) = map(canonical.written, readings(line, ClientProcess("shop", "h", "h:1")) or ())
    assert snapshot["client"]["kind"] == "legacy-consumer"
    assert snapshot["topics"] == [{"topic": "a", "partition": None, "thread": "0", "metrics": {"queue-chunks": 2.0}}]
    assert readings(b'{"ts": 1', ClientProcess("shop", "h", "h:1")) is None


def test_times_are_moved_in_readings_log_lines_and_dumps() -> None:
    assert moved(READING, 1000) == READING.replace(b"1795208530689", b"1795208531689")
    assert moved(LINE.encode(), 60_000) == LINE.replace("21:02:10,164", "21:03:10,164").encode()
    assert moved(b"2026-11-20 21:02:10\nFull thread dump", 50_000).startswith(b"2026-11-20 21:03:00\nFull")
    assert moved(b"no time", 50_000) == b"no time"
    assert time_of(LINE.encode()) == 1795208530164


def test_a_record_without_a_time_goes_with_the_one_before_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"first\n{LINE}\n")
    assert [ts for ts, _ in in_order(read([tmp_path / "a.log"]))] == [1795208530164, 1795208530164]


@pytest.mark.parametrize(("speed", "waited"), [("1", [30.0, 10.0]), ("4", [7.5, 2.5])])
def test_a_replay_takes_as_long_as_the_recording_or_a_part_of_it(
    speed: str, waited: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = 1_795_208_530_689
    lines = [READING.replace(b"1795208530689", str(start + after).encode()) for after in (0, 30_000, 40_000)]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines))
    now, waits = 1_800_000_000.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        waits.extend([seconds] * (seconds > 0))

    sink = MagicMock()
    monkeypatch.setattr("deploy.demo.replay.producer", lambda settings: sink)
    monkeypatch.setattr(replay, "time", SimpleNamespace(time=lambda: now, sleep=sleep))
    with pytest.raises(SystemExit) as left:
        cli.main(["replay", "--speed", speed, str(tmp_path / "metrics.jsonl")])
    assert left.value.code == 0
    assert waits == waited
    assert json.loads(sink.send.call_args.kwargs["value"])["ts"] == 1000 * now
