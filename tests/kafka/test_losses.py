"""Input that Kafka deletes under the monitor: it goes on with what is there, and counts what is not."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from deploy.demo.processes import free_port
from tests.kafka.test_monitor import BUFFER, Lab, create, reading, session_of

pytestmark = pytest.mark.early


@pytest.fixture
def lab(broker: Any, tmp_path: Path) -> Iterator[Lab]:
    port = free_port()
    made = Lab(broker.bootstrap_servers, tmp_path)
    text = made.config.read_text().replace("metrics_port = 0", f"metrics_port = {port}")
    made.config.write_text(text)
    made.folder.joinpath("port").write_text(str(port))
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()
    made.producer.close()


def metric(lab: Lab, name: str) -> float:
    """A metric of the monitor about its topic of metrics, 0 where it is not there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{(lab.folder / 'port').read_text()}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
    except OSError:
        return -1.0
    label = f'source_topic="{lab.topics["metrics"]}"'
    matching = [line for line in lines if line.startswith(f"kafka_client_health_{name}{{") and label in line]
    return float(matching[0].rpartition(" ")[2]) if matching else 0.0


def send(lab: Lab, begin_ms: int, count: int) -> None:
    """So many readings into the first partition, one a second."""
    for n in range(count):
        lab.producer.send(lab.topics["metrics"], reading(begin_ms + 1000 * n, 100.0 * n, float(BUFFER)), partition=0)
    lab.producer.flush()


@contextmanager
def standing(lab: Lab) -> Iterator[None]:
    """The monitor does not move meanwhile."""
    assert lab.process is not None
    for pid in session_of(lab.process.pid):
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in session_of(lab.process.pid):
        os.kill(pid, signal.SIGCONT)


def test_retention_a_new_topic_of_the_same_name_and_new_partitions_do_not_stop_it(lab: Lab) -> None:
    topic = lab.topics["metrics"]
    now = int(time.time() * 1000)
    admin = KafkaAdminClient(bootstrap_servers=lab.servers)
    send(lab, now - 60_000, 10)
    lab.start()
    lab.await_(lambda: metric(lab, "records_read_total") == 10)
    # While it stands still, 20 records come and 15 of them go.
    with standing(lab):
        send(lab, now - 50_000, 20)
        admin.delete_records({TopicPartition(topic, 0): 25})
    lab.await_(lambda: metric(lab, "records_read_total") == 15)
    assert metric(lab, "lost_records_total") == 15
    admin.delete_topics([topic])
    lab.await_(lambda: metric(lab, "input_topic_present") == 0)
    create(lab.servers, topic)
    send(lab, now - 30_000, 4)
    lab.await_(lambda: metric(lab, "recreated_partitions_total") == 1)
    lab.await_(lambda: metric(lab, "input_topic_present") == 1)
    send(lab, now - 20_000, 6)
    # Of the first that were written to the new topic some are passed over and counted; all that follow are read.
    lab.await_(lambda: metric(lab, "records_read_total") + metric(lab, "lost_records_total") == 30 + 4 + 6)
    assert metric(lab, "lost_records_total") <= 15 + 4
    admin.create_partitions({topic: 3})
    before = metric(lab, "records_read_total")
    fresh = KafkaProducer(bootstrap_servers=lab.servers)
    lab.await_(lambda: 2 in fresh.partitions_for(topic), 60)
    fresh.send(topic, reading(now, 1.0, float(BUFFER)), partition=2).get(60)
    fresh.close()
    lab.await_(lambda: metric(lab, "records_read_total") == before + 1)
    admin.close()
    lab.kill(signal.SIGTERM)
    assert lab.process is not None
    assert lab.process.returncode == 0
    assert "failed" not in (lab.folder / "monitor.log").read_text()
