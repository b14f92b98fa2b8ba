"""`kafka-health diagnose FILE` reports the file's format, and the clients in the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from clienthealth.ops.cli import main
from tests.support.raw_records import SAMPLES


def test_files_of_one_record_and_of_one_per_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point = json.loads((SAMPLES / "telegraf_jolokia2_kafka_producer.json").read_text())
    rounds = [json.dumps({**point, "timestamp": point["timestamp"] + 10 * n}) for n in range(4)]
    lines = tmp_path / "telegraf.json"
    lines.write_text("\n".join([*rounds, rounds[0][:100], '{"neither": "metrics nor logs"}']))
    whole = ("jolokia_bulk_response.json", "librdkafka_stats_producer.json", "filebeat_ecs_dotted.json")
    by_line = ("prometheus_kafka_adapter.ndjson",)
    with pytest.raises(SystemExit):
        main(["diagnose", str(lines), *(str(SAMPLES / name) for name in (*whole, *by_line))])
    output = capsys.readouterr().out
    inputs = " ".join(output.partition("\n\n")[0].split())
    assert "telegraf.json: JSON lines; 4 of 6 lines used; 2026-11-20 18:40:30 to 18:41:00 UTC;" in inputs
    assert "left out: 1 unknown-format" in inputs and "NOT READABLE: 1 truncated-json" in inputs
    heads = {line.partition("  ")[2] for line in output.splitlines() if line[:1].isupper() and "  " in line}
    assert heads == {
        "checkout-producer-2  (telegraf, producer, java)",
        "checkout-producer-2  (formats, producer, java)",
        "audit-producer  (formats, producer, java)",
        "billing-1  (formats, consumer, java)",
        "pricing-py  (formats, producer, librdkafka)",
        "checkout-producer-2  (checkout, producer, java 4.1.0)",
        "billing-1  (checkout, consumer, java 4.1.0)",
        "(process)  (checkout, producer)",
        "checkout-producer-2  (jmx, producer, java)",
        "billing-1  (jmx, consumer, java)",
    }


def test_files_of_bytes_and_of_line_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pushed = (SAMPLES / "otlp_proto_metrics_otel_javaagent.bin").read_bytes()
    (tmp_path / "push.bin").write_bytes(pushed)
    (tmp_path / "packed.bin.gz").write_bytes(gzip.compress(pushed))
    (tmp_path / "lines.txt").write_bytes((SAMPLES / "telegraf_influx_jolokia2.influx").read_bytes())
    (tmp_path / "other.bin").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(SystemExit):
        main(["diagnose", str(tmp_path)])
    output = capsys.readouterr().out
    inputs = " ".join(output.partition("\n\n")[0].split())
    assert "push.bin: OTLP protobuf; 1 of 1 lines used; 2026-11-20 18:40:30 UTC" in inputs
    assert "packed.bin: OTLP protobuf; 1 of 1 lines used" in inputs
    assert "lines.txt: line protocol; 3 of 4 lines used" in inputs
    assert "other.bin: binary; NOT READABLE: 1 binary, not text" in inputs
    assert "checkout-producer-2  (checkout, producer, java)" in output


@pytest.mark.parametrize(
    ("name", "head", "what"),
    [
        ("orders.bin", b"JAVA PROFILE 1.0.2\0", "a heap dump"),
        ("report", b"%PDF-1.4\n", "a PDF"),
    ],
)
def test_what_cannot_be_read_is_named(
    name: str, head: bytes, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(head)
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", str(tmp_path / name)])
    assert ended.value.code == 3
    assert f"{what}; left out" in capsys.readouterr().out
