"""A healthy application with a producer and a consumer of the same topics. It reports to the monitor.

    python produce_and_consume.py LIBRARY NAME=VALUE…

LIBRARY is confluent-kafka, kafka-python or aiokafka. The application sends its log to the monitor. With
confluent-kafka, the application also sends librdkafka's statistics. With kafka-python, our function `report` sends
metrics. Options:

`service`, `topics`    the service's name; names of topics, separated by commas
`rate`                 records per second to each topic
`p.bootstrap.servers`  brokers of the producer and the consumer
`reports.to`           brokers of the monitor, for the reports
`p.client.id`          the producer's client id
`c.client.id`          the consumer's client id
`c.group.id`           the consumer's group
`restart.every`        0: one process runs. N: two processes run, and every N seconds a new process replaces the older
                       of the two, as in a rolling deployment

Each process prints its numbers of acknowledged, failed and consumed records as lines `COUNTERS json`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from clienthealth_exporters.python_client import report

PAYLOAD = b"x" * 512
REPORT_SECONDS = 5
FLUSH_SECONDS = 20


class Shipper(logging.Handler):
    """A logging handler that sends log lines as JSON to the topic for logs."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        line = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = logging.Formatter().formatException(record.exc_info)
        self._send("client-logs", json.dumps(line))


class Application:
    """The producer and the consumer of one process, which run until `stop` is set."""

    def __init__(self, library: str, options: Mapping[str, str]) -> None:
        self._library = library.replace("-", "_")
        self._servers, self._to = options["p.bootstrap.servers"], options["reports.to"]
        self._service, self._group = options["service"], options["c.group.id"]
        self._producer_id, self._consumer_id = options["p.client.id"], options["c.client.id"]
        self._pause = 1 / float(options["rate"])
        self.topics = options["topics"].split(",")
        self.stop = threading.Event()
        self.counters = Counter[str](acknowledged=0, failed=0, consumed=0)
        self._reports = Producer({"bootstrap.servers": self._to, "client.id": f"{self._service}-reports"})
        host = socket.gethostname()
        self._identity: dict[str, str | bytes | None] = {
            "service": self._service,
            "host": host,
            "instance": f"{host}:{os.getpid()}",
        }

    def tell(self, topic: str, text: str) -> None:
        """Send a report to the monitor's brokers. Drop the report if the producer's queue is full."""
        try:
            self._reports.produce(topic, text, headers=self._identity)
        except BufferError:
            return
        self._reports.poll(0)

    def settled(self, failed: object) -> None:
        self.counters["failed" if failed else "acknowledged"] += 1

    def confluent_kafka(self) -> None:
        common = {
            "bootstrap.servers": self._servers,
            "statistics.interval.ms": 1000 * REPORT_SECONDS,
            # If the client also pushed metrics, the monitor would list the client twice.
            "enable.metrics.push": False,
            "stats_cb": lambda text: self.tell("client-metrics", text),
        }
        logger = logging.getLogger("librdkafka")
        producer = Producer({**common, "client.id": self._producer_id, "acks": "all"}, logger=logger)
        settings = {**common, "client.id": self._consumer_id, "group.id": self._group}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"}, logger=logger)
        consumer.subscribe(self.topics)

        def consume() -> None:
            while not self.stop.is_set():
                message = consumer.poll(0.5)
                self.counters["consumed"] += message is not None and message.error() is None
            consumer.close()

        thread = threading.Thread(target=consume)
        thread.start()
        while not self.stop.wait(self._pause):
            for topic in self.topics:
                producer.produce(topic, PAYLOAD, callback=lambda error, _: self.settled(error))
            producer.poll(0)
        producer.flush(FLUSH_SECONDS)
        thread.join()

    def kafka_python(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._servers, client_id=self._producer_id, acks="all")
        consumer = KafkaConsumer(
            *self.topics,
            bootstrap_servers=self._servers,
            client_id=self._consumer_id,
            group_id=self._group,
            auto_offset_reset="earliest",
        )
        to = {"bootstrap_servers": self._to}
        report(producer, consumer, service=self._service, interval_seconds=REPORT_SECONDS, kafka_options=to)

        def consume() -> None:
            while not self.stop.is_set():
                self.counters["consumed"] += sum(map(len, consumer.poll(500).values()))
            consumer.close()

        thread = threading.Thread(target=consume)
        thread.start()
        while not self.stop.wait(self._pause):
            for topic in self.topics:
                sent = producer.send(topic, PAYLOAD)
                sent.add_callback(lambda _: self.settled(False)).add_errback(self.settled)
        producer.close(timeout=FLUSH_SECONDS)
        thread.join()

    def aiokafka(self) -> None:
        asyncio.run(self._aiokafka())

    async def _aiokafka(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._servers, client_id=self._producer_id, acks="all")
        consumer = AIOKafkaConsumer(
            *self.topics,
            bootstrap_servers=self._servers,
            client_id=self._consumer_id,
            group_id=self._group,
            auto_offset_reset="earliest",
        )
        await producer.start()
        await consumer.start()

        async def consume() -> None:
            while not self.stop.is_set():
                self.counters["consumed"] += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))

        consuming = asyncio.create_task(consume())
        while not self.stop.is_set():
            for topic in self.topics:
                sent = await producer.send(topic, PAYLOAD)
                sent.add_done_callback(lambda future: self.settled(future.exception()))
            await asyncio.sleep(self._pause)
        await producer.stop()
        await consuming
        await consumer.stop()

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self.stop.set())
        logging.basicConfig(level=logging.INFO, handlers=[Shipper(self.tell)])
        threading.Thread(target=self._count, daemon=True).start()
        getattr(self, self._library)()
        self._tell()
        self._reports.flush(FLUSH_SECONDS)

    def _count(self) -> None:
        while not self.stop.wait(REPORT_SECONDS):
            self._tell()

    def _tell(self) -> None:
        # Write each line with a single call, because processes and threads share the pipe.
        os.write(sys.stdout.fileno(), f"COUNTERS {json.dumps({**self.counters, 'pid': os.getpid()})}\n".encode())


def supervise(seconds: float) -> int:
    """Run two worker processes, and replace the older process every `seconds` until SIGTERM.

    Return 1 if a worker ends too early or with an error. Return 0 otherwise.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    command = [sys.executable, *sys.argv, "restart.every=0"]
    workers = [subprocess.Popen(command) for _ in range(2)]
    try:
        while not stop.wait(seconds):
            if any(worker.poll() is not None for worker in workers):
                return 1
            oldest = workers.pop(0)
            oldest.terminate()
            if oldest.wait():
                return 1
            workers.append(subprocess.Popen(command))
        return 0
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()


def main() -> int:
    library, *given = sys.argv[1:]
    options = dict(option.split("=", 1) for option in given)
    seconds = float(options["restart.every"])
    if seconds:
        return supervise(seconds)
    Application(library, options).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
