"""Run the application of a chaos test: producer, consumer, and reporter of metrics."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from clienthealth_exporters.python_client import report
from tests.support.subscribing import subscribe

RATE_SECONDS = 0.2
REPORT_SECONDS = 5.0


def main(servers: str, topic: str, metrics: str, file: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    producer = KafkaProducer(bootstrap_servers=servers, client_id="order-producer", delivery_timeout_ms=300_000)
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        client_id="order-consumer",
        group_id="chaos-billing",
        auto_offset_reset="earliest",
    )
    subscribe(consumer, topic)
    reporter = report(producer, consumer, service="order-service", topic=metrics, interval_seconds=REPORT_SECONDS)
    counts = {"sent": 0, "refused": 0, "acknowledged": 0, "failed": 0}
    got: set[bytes] = set()
    done = threading.Event()

    def consume() -> None:
        while not done.is_set():
            try:
                for records in consumer.poll(timeout_ms=500).values():
                    got.update(record.value for record in records)
            except KafkaError:
                done.wait(1)

    def add(what: str) -> None:
        counts[what] += 1

    reader = threading.Thread(target=consume)
    reader.start()
    counts_file = Path(file)

    def write_counts() -> None:
        whole = {**counts, "consumed": len(got)}
        whole |= {"reported": reporter.delivered_total, "dropped": reporter.dropped_total}
        counts_file.write_text(json.dumps(whole), encoding="utf-8")

    while not stop.wait(RATE_SECONDS):
        try:
            future = producer.send(topic, str(counts["sent"]).encode())
            counts["sent"] += 1
            future.add_callback(lambda _: add("acknowledged"))
            future.add_errback(lambda _: add("failed"))
        except KafkaError:
            add("refused")
        write_counts()
    producer.flush(timeout=60)
    deadline = time.monotonic() + 60
    while len(got) < counts["acknowledged"] and time.monotonic() < deadline:
        time.sleep(0.2)
    done.set()
    reader.join()
    consumer.close()
    producer.close()
    write_counts()


if __name__ == "__main__":
    main(*sys.argv[1:])
