"""A record that ends the JVM whenever it is read: found, left out and told of, and all others judged."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from tests.chaos.published import History
from tests.kafka.test_monitor import BUFFER, Lab, reading

pytestmark = pytest.mark.early

HEAP_MB, BOMB_MB = 512, 256


@pytest.fixture
def lab(broker: Any, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(broker.bootstrap_servers, tmp_path, more=f"heap_mb = {HEAP_MB}")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()
    made.producer.close()


def test_a_record_bomb_between_good_records_costs_nobody_else_anything(lab: Lab) -> None:
    now = int(time.time() * 1000) - 60_000
    bomber = KafkaProducer(
        bootstrap_servers=lab.servers, compression_type="gzip", max_request_size=BOMB_MB << 21, max_block_ms=120_000
    )
    topic = lab.topics["metrics"]
    for second in range(0, 30, 5):
        if second == 5:
            bomb = bomber.send(topic, bytes(BOMB_MB << 20), partition=0).get(120)
        lab.producer.send(topic, reading(now + second * 1000, 1000.0 + 50 * second, float(BUFFER)), partition=0)
        lab.producer.flush()
    bomber.close()
    lab.start()
    lab.await_(lambda: lab.worked_off(7), 900)
    lab.await_(
        lambda: any(json.loads(record.value)["last_seen"] == now + 25_000 for record in lab.records("health")), 60
    )
    lab.kill(signal.SIGTERM)
    (reject,) = lab.records("rejects")
    headers = {name: value.decode() for name, value in reject.headers}
    assert headers.pop("reject_reason").startswith("fatal: ")
    assert headers == {"source_topic": topic, "source_partition": "0", "source_offset": str(bomb.offset)}
    # What was read goes to the history every 20 s, the reject at once.
    counted = History(lab.folder / "history").quality.look()
    assert {row["source_topic"] for row in counted} == {topic}
    assert sum(row["rejected"] for row in counted) == 1
