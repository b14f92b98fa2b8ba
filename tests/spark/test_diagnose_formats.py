"""`kafka-health diagnose FILE` on files of any format: it says what it recognised, and which clients are in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clienthealth.cli import main
from tests.raw_records import SAMPLES


@pytest.mark.usefixtures("spark")
def test_files_of_one_record_and_of_one_per_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point = json.loads((SAMPLES / "telegraf_jolokia2_kafka_producer.json").read_text())
    rounds = [json.dumps({**point, "timestamp": point["timestamp"] + 10 * n}) for n in range(4)]
    lines = tmp_path / "telegraf.json"
    lines.write_text("\n".join([*rounds, rounds[0][:100], '{"neither": "metrics nor logs"}']))
    whole = ("jolokia_bulk_response.json", "librdkafka_stats_producer.json", "filebeat_ecs_dotted.json")
    by_line = ("prometheus_kafka_adapter.ndjson",)
    with pytest.raises(SystemExit):
        main(["diagnose", str(lines), *(str(SAMPLES / name) for name in (*whole, *by_line))])
    said = capsys.readouterr().out
    assert said.splitlines()[0] == (
        "Recognised: ecs 1, jolokia 1, librdkafka_stats 1, prometheus_adapter 13, telegraf 4."
    )
    assert "Not readable: truncated-json 1, unknown-format 1." in said
    clients = {line for line in said.splitlines() if line and not line.startswith((" ", "Recognised", "Not readable"))}
    assert clients == {
        "telegraf  checkout-producer-2  producer  java",
        "jolokia_bulk_response  checkout-producer-2  producer  java",
        "jolokia_bulk_response  audit-producer  producer  java",
        "jolokia_bulk_response  billing-1  consumer  java",
        "librdkafka_stats_producer  pricing-py  producer  librdkafka",
        "checkout  checkout-producer-2  producer  java 4.1.0",
        "checkout  billing-1  consumer  java 4.1.0",
        # Whose buffer was exhausted, the log line does not say.
        "checkout  (process)  producer",
        "jmx  checkout-producer-2  producer  java",
        "jmx  billing-1  consumer  java",
    }
