"""`kafka-health formats PATH` shows the content of files, and why records are rejected."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from clienthealth.ops.cli import main
from clienthealth.ops.doctor import records
from tests.support.raw_records import SAMPLES

CLIENT = {"service": "s", "instance": "i", "client_id": "p", "kind": "producer"}
READING = {
    "ts": 1795200030000,
    "client": CLIENT,
    "metrics": {"waiting-threads": 2.0},
}


def ran(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["formats", *map(str, arguments)])
    return int(str(ended.value.code))


def test_a_file_is_listed_by_format_with_the_first_reject_of_each_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**READING, "client": {**CLIENT, "client_id": "q"}}
    point = "kafka_producer,client-id=p,host=h waiting-threads=1i 1795200030000000000"
    lines = [json.dumps(READING), json.dumps(other), json.dumps(READING), point, '{"ts": 1', '{"a": 1}', '{"ts": 2', ""]
    (tmp_path / "sample.jsonl").write_text("\n".join(lines))
    assert ran(tmp_path / "sample.jsonl") == 1
    assert capsys.readouterr().out.splitlines() == [
        "sample.jsonl: 7 records, 3 rejected",
        "          3  canonical: 3 readings, 2 clients",
        "          1  influx: 1 reading, 1 client",
        "          2  REJECTED truncated-json; the first: line 5 of sample.jsonl",
        "          1  REJECTED unknown-format; the first: line 6 of sample.jsonl",
    ]
    assert ran(tmp_path / "sample.jsonl", "--limit", "4") == 0
    assert capsys.readouterr().out.startswith("sample.jsonl: 4 records, 0 rejected\n")


def test_files_of_a_folder_each_as_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("otlp_proto_metrics_kip714_java.bin", "telegraf_prometheus.prom", "filebeat_jstack_multiline.json")
    for name in names:
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
    (tmp_path / "packed.bin").write_bytes(gzip.compress((SAMPLES / names[0]).read_bytes()))
    (tmp_path / "framed.bin").write_bytes(b"\0\0\0\0\x07whatever")
    assert ran(tmp_path, "--json") == 1
    by_source: dict[str, Any] = {}
    for line in capsys.readouterr().out.splitlines():
        document = json.loads(line)
        by_source[document.pop("source")] = document
    nothing = {"readings": 0, "lines": 0, "events": 0, "dumps": 0, "clients": 0}
    pushed = {"otlp_metrics_protobuf": nothing | {"records": 1, "readings": 2, "clients": 2}}
    assert by_source == {
        names[0]: {"records": 1, "rejected": 0, "formats": pushed, "rejects": []},
        "packed.bin": {"records": 1, "rejected": 0, "formats": pushed, "rejects": []},
        names[1]: {
            "records": 1,
            "rejected": 0,
            "formats": {"prometheus_text": nothing | {"records": 1, "readings": 1, "clients": 1}},
            "rejects": [],
        },
        names[2]: {
            "records": 1,
            "rejected": 0,
            "formats": {"ecs": nothing | {"records": 1, "lines": 1, "dumps": 1}},
            "rejects": [],
        },
        "framed.bin": {
            "records": 1,
            "rejected": 1,
            "formats": {},
            "rejects": [
                {
                    "reason": "binary",
                    "detail": "needs schema 7, but [registry] url is not set",
                    "records": 1,
                    "partition": None,
                    "offset": 0,
                }
            ],
        },
    }


def test_wrong_usage_and_nothing_to_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran() == 2
    assert ran(tmp_path / "absent") == 2
    assert ran(tmp_path, "--limit", "0") == 2
    (tmp_path / "empty.jsonl").touch()
    assert ran(tmp_path / "empty.jsonl") == 2
    assert capsys.readouterr().out == ""


def test_a_kafka_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "TIMEOUT_MS", 500)
    config = tmp_path / "health.toml"
    config.write_text('[kafka]\nbootstrap_servers = "127.0.0.1:9"\n')
    assert ran("--topic", "t", "--config", config) == 2
    assert "Kafka at 127.0.0.1:9" in capsys.readouterr().err
