"""A service of a Python library that sends to a topic and consumes it, as `java/Service.java` does.

    python service.py LIBRARY NAME=VALUE…

LIBRARY is confluent-kafka, kafka-python or aiokafka. Options: topic, rate (records/s), servers, reports.to (brokers of
the monitor), service, p.client.id, c.client.id, c.group.id, commit (auto; batch: a blocking commit after each).
It writes `app.log` and, of librdkafka, `stats.jsonl`. Where the file `hang` exists, the handler does not return.

Lines on standard output: COUNTERS json.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from clienthealth_exporters.python_client import report

log = logging.getLogger("stock.service")
counters = Counter[str](sent=0, failed=0, handled=0, committed=0)
PAYLOAD = b"x" * 200
REPORT_SECONDS = 5
HANDLE_SECONDS = float(dict(pair.split("=", 1) for pair in sys.argv[2:]).get("handle.ms", 150)) / 1000


def handle() -> None:
    """What the service is for."""
    if Path("hang").exists():
        threading.Event().wait()
    time.sleep(HANDLE_SECONDS)
    counters["handled"] += 1


def settled(failed: object) -> None:
    """A record was acknowledged or given up."""
    counters["failed" if failed else "sent"] += 1


def write_statistics(text: str) -> None:
    """Append a line."""
    with Path("stats.jsonl").open("a", encoding="utf-8") as stats:
        stats.write(f"{text}\n")


def confluent_kafka(options: dict[str, str]) -> None:
    """librdkafka hands out statistics in poll(): one file for both clients."""
    common = {
        "bootstrap.servers": options["servers"],
        "statistics.interval.ms": 1000 * REPORT_SECONDS,
        "enable.metrics.push": False,
        "stats_cb": write_statistics,
        "logger": logging.getLogger("librdkafka"),
    }
    producer = Producer({**common, "client.id": options["p.client.id"]})
    batch = options["commit"] == "batch"
    consumer = Consumer(
        {
            **common,
            "client.id": options["c.client.id"],
            "group.id": options["c.group.id"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": not batch,
        }
    )
    consumer.subscribe([options["topic"]])

    def consume() -> None:
        while True:
            message = consumer.poll(0.5)
            if message is None or message.error():
                continue
            handle()
            if batch:
                try:
                    consumer.commit(message=message, asynchronous=False)
                    counters["committed"] += 1
                except KafkaException as failed:
                    log.warning("goes on after: %s", failed)

    threading.Thread(target=consume, name="worker").start()
    while True:
        try:
            producer.produce(options["topic"], PAYLOAD, callback=lambda error, _: settled(error))
        except BufferError:
            counters["failed"] += 1
        producer.poll(0)
        time.sleep(1 / float(options["rate"]))


def kafka_python(options: dict[str, str]) -> None:
    """It reports by our reporter to the brokers of the monitor."""
    producer = KafkaProducer(bootstrap_servers=options["servers"], client_id=options["p.client.id"])
    batch = options["commit"] == "batch"
    consumer = KafkaConsumer(
        options["topic"],
        bootstrap_servers=options["servers"],
        client_id=options["c.client.id"],
        group_id=options["c.group.id"],
        auto_offset_reset="earliest",
        enable_auto_commit=not batch,
    )
    to = {"bootstrap_servers": options["reports.to"]}
    report(producer, consumer, service=options["service"], interval_seconds=REPORT_SECONDS, kafka_options=to)

    def consume() -> None:
        while True:
            try:
                records = sum(map(len, consumer.poll(500).values()))
                for _ in range(records):
                    handle()
                if batch and records:
                    consumer.commit()
                    counters["committed"] += 1
            except KafkaError as failed:
                log.warning("goes on after: %s", failed)

    threading.Thread(target=consume, name="worker").start()
    while True:
        try:
            producer.send(options["topic"], PAYLOAD).add_callback(lambda _: settled(False)).add_errback(settled)
        except KafkaError:
            counters["failed"] += 1
        time.sleep(1 / float(options["rate"]))


def aiokafka(options: dict[str, str]) -> None:
    """It has no metrics: its log alone speaks of it."""
    asyncio.run(_aiokafka(options))


async def _aiokafka(options: dict[str, str]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=options["servers"], client_id=options["p.client.id"])
    batch = options["commit"] == "batch"
    consumer = AIOKafkaConsumer(
        options["topic"],
        bootstrap_servers=options["servers"],
        client_id=options["c.client.id"],
        group_id=options["c.group.id"],
        auto_offset_reset="earliest",
        enable_auto_commit=not batch,
    )
    await producer.start()
    await consumer.start()

    async def consume() -> None:
        while True:
            try:
                records = sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
                for _ in range(records):
                    await asyncio.to_thread(handle)
                if batch and records:
                    await consumer.commit()
                    counters["committed"] += 1
            except AioError as failed:
                log.warning("goes on after: %s", failed)

    consuming = asyncio.create_task(consume())
    while not consuming.done():
        try:
            (await producer.send(options["topic"], PAYLOAD)).add_done_callback(lambda f: settled(f.exception()))
        except AioError:
            counters["failed"] += 1
        await asyncio.sleep(1 / float(options["rate"]))


def count() -> None:
    """Say how far it is, every two seconds."""
    while True:
        time.sleep(2)
        print(f"COUNTERS {json.dumps(counters)}", flush=True)


if __name__ == "__main__":
    logging.Formatter.converter = time.gmtime
    layout = "%(asctime)s %(levelname)-5s [%(threadName)s] %(name)s - %(message)s"
    logging.basicConfig(filename="app.log", level=logging.INFO, format=layout)
    threading.Thread(target=count, daemon=True).start()
    library, *given = sys.argv[1:]
    globals()[library.replace("-", "_")](dict(option.split("=", 1) for option in given))
