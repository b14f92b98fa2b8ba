"""Measure how much the reporter for Python clients slows an application's sends."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from clienthealth_exporters.python_client import report
from deploy.demo.broker import Broker

RECORDS, PASSES = 20_000, 7
PAYLOAD = b"x" * 200


def sends_per_second(servers: str, reported: bool, callback: Callable[[Any], None] | None) -> float:
    """Return the number of acknowledged records per CPU second."""
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    if reported:
        reporter = report(producer, service="bench")
        while not reporter.delivered_total:
            time.sleep(0.01)
    for _ in range(1000):
        producer.send("orders", PAYLOAD)
    producer.flush()
    began = time.process_time()
    for _ in range(RECORDS):
        future = producer.send("orders", PAYLOAD)
        if callback is not None:
            future.add_callback(callback)
    producer.flush()
    spent = time.process_time() - began
    producer.close()
    return RECORDS / spent


def compare(servers: str, callback: Callable[[Any], None] | None) -> tuple[float, float]:
    pairs = [
        (sends_per_second(servers, False, callback), sends_per_second(servers, True, callback)) for _ in range(PASSES)
    ]
    return max(without for without, _ in pairs), max(with_ for _, with_ in pairs)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        broker.create_topic("orders")
        broker.create_topic("client-metrics")
        for name, callback in (("no callback", None), ("a callback each", lambda _: None)):
            without, with_ = compare(broker.bootstrap_servers, callback)
            sys.stdout.write(
                f"reporter, {name}: {without:,.0f} sends per CPU second without, {with_:,.0f} with: "
                f"ratio {with_ / without:.2f}, {1e6 / with_ - 1e6 / without:.1f} µs a record\n"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
