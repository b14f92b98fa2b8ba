"""Of a burst, the monitor decodes few lines, but it counts all lines and loses no rare line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from clienthealth.measure.packed import LogEntry
from clienthealth.measure.packed import decode as unpacked
from clienthealth.modes import catalogue
from clienthealth.read import decode
from clienthealth.read.logs.events import literals
from clienthealth.settings import Settings
from clienthealth.spark.decoding import COUNTS, RAW, REJECTS, Count, _Task, decompressed

START = 1_795_208_640_000
_counts = msgspec.msgpack.Decoder(list[Count]).decode
LOST = "INFO  [{thread}] kafka.client.ClientUtils$ - Failed to fetch consumer metadata from broker-{n}:9092."


class Decoded:
    def __init__(self, values: Sequence[bytes], keys: Sequence[bytes | None], monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        honest = decode.decode_logs

        def counted(*given: object) -> object:
            self.calls += 1
            return honest(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(decode, "decode_logs", counted)
        rows = len(values)
        columns = {
            "value": pa.array(values, pa.binary()),
            "size": pa.array([None] * rows, pa.int32()),
            "key": pa.array(keys, pa.binary()),
            "headers": pa.array([None] * rows, pa.string()),
            "topic": pa.array(["client-logs"] * rows),
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "ts_ms": pa.array(START + np.arange(rows) // 10, pa.int64()),
        }
        batch = pa.RecordBatch.from_arrays([columns[name] for name in RAW], names=list(RAW))
        task = _Task(Settings(), literals(catalogue()))
        (output,) = task.run([batch])
        self.log_entries: list[LogEntry] = []
        self.counts: list[Count] = []
        self.rejects = 0
        for bucket, data in zip(*(column.to_pylist() for column in output.columns), strict=True):
            if bucket == COUNTS:
                self.counts = _counts(data)
            elif bucket > REJECTS:
                self.log_entries += unpacked(decompressed(data)).log_entries
            else:
                self.rejects += 1

    @property
    def repeats(self) -> Counter[str]:
        by_host: Counter[str] = Counter()
        for entry in self.log_entries:
            by_host[entry.host] += entry.repeats
        return by_host


def test_a_storm_is_counted_to_the_line_and_costs_the_decoding_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"2026-11-20 18:24:0{n // 1000},{n % 1000:03d} {LOST.format(thread='main', n=n % 7)}" for n in range(4000)]
    decoded = Decoded([line.encode() for line in lines], [b"shop|web-7:1|"] * 4000, monkeypatch)
    assert decoded.repeats == {"web-7:1": 4000}
    assert decoded.calls <= 50
    assert [(count.reason, count.records) for count in decoded.counts] == [(None, 4000)]


def test_what_is_rare_in_a_storm_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    storm = [f"2026-11-20 18:24:00,{n % 1000:03d} {LOST.format(thread='main', n=1)}" for n in range(4000)]
    storm[1234] = "2026-11-20 18:24:01,234 INFO  [main] org.apache.kafka.clients.producer.KafkaProducer - "
    storm[1234] += "[Producer clientId=p] Closing the Kafka producer with timeoutMillis = 9223372036854775807 ms."
    keys = [b"shop|web-7:1|"] * 4000
    keys[77] = b"shop|web-8:1|"
    decoded = Decoded([line.encode() for line in storm], keys, monkeypatch)
    assert decoded.repeats == {"web-7:1": 3999, "web-8:1": 1}
    signatures = Counter(entry.event.signature for entry in decoded.log_entries if entry.event)
    assert len(signatures) == 2
    assert decoded.calls <= 52


def test_without_a_key_lines_of_two_hosts_are_never_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        json.dumps(
            {
                "@timestamp": f"2026-11-20T18:24:00.{n % 1000:03d}Z",
                "host": {"name": f"web-{n % 40}"},
                "log": {"offset": n, "level": "INFO", "logger": "kafka.client.ClientUtils$"},
                "message": "Failed to fetch consumer metadata from broker-1:9092.",
                "service": {"name": "shop"},
            }
        )
        for n in range(4000)
    ]
    decoded = Decoded([line.encode() for line in lines], [None] * 4000, monkeypatch)
    assert decoded.repeats == {f"web-{n}": 100 for n in range(40)}
    assert decoded.calls == 40 * 50


def test_rejects_of_a_burst_are_reported_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'{{"message": "Failed to fetch consumer metadata from broker-{n}'.encode() for n in range(4000)]
    decoded = Decoded(lines, [b"shop|web-7:1|"] * 4000, monkeypatch)
    counts = {count.reason: count.records for count in decoded.counts}
    assert sum(counts.values()) == 4000
    assert decoded.calls == 4000 or None in counts


def test_lines_of_a_thread_dump_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = ["\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)"] * 1000
    decoded = Decoded([frame.encode() for frame in frames], [b"shop|web-7:1|"] * 1000, monkeypatch)
    assert decoded.calls == 1000
