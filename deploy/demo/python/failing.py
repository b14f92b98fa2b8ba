"""Python applications for the demo with Docker Compose. All except `shop` make a mistake that real programs make.

    python failing.py NAME

NAME is a key of `APPLICATIONS`. The environment variables KAFKA_BOOTSTRAP_SERVERS and KAFKA_HEALTH_SERVICE name the
brokers and the service. Failures begin after FAILS_AFTER seconds (60 by default).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from clienthealth_exporters.python_client import report

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
FAILS_AFTER = float(os.environ.get("FAILS_AFTER", "60"))
TOPIC, PAYLOAD = "orders", b"x" * 200


def shop() -> None:
    """Produce orders and consume them: a healthy application."""
    # Keep the admin client in a variable. Otherwise, Python would close the client before the brokers answer.
    administrator = AdminClient({"bootstrap.servers": SERVERS})
    failed = administrator.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].exception()
    if failed is not None and failed.args[0].code() != confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
        raise failed
    producer = report(confluent_kafka.Producer)({"bootstrap.servers": SERVERS, "client.id": "shop-orders"})
    settings = {"bootstrap.servers": SERVERS, "client.id": "shop-desk", "group.id": "desk"}
    consumer = report(confluent_kafka.Consumer)({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    while True:
        producer.produce(TOPIC, PAYLOAD)
        producer.poll(0)
        consumer.poll(0.1)


def callback_deadlock() -> None:
    """Fill the producer's queue while holding a lock that the delivery callback needs."""
    settings = {"bootstrap.servers": SERVERS, "client.id": "billing-events", "queue.buffering.max.messages": 500}
    producer, lock, delivered = report(confluent_kafka.Producer)(settings), threading.Lock(), [0]

    def count(_error: object, _message: object) -> None:
        with lock:
            delivered[0] += 1

    def poll() -> None:
        while True:
            producer.poll(0.1)

    def produce() -> None:
        while True:
            try:
                producer.produce(TOPIC, PAYLOAD, callback=count)
                return
            except BufferError:
                time.sleep(0.1)

    threading.Thread(target=poll, daemon=True).start()
    begun = time.monotonic()
    while True:
        many = time.monotonic() - begun > FAILS_AFTER
        with lock:
            for _ in range(5000 if many else 1):
                produce()
        time.sleep(0.05)


def consumer_stalled() -> None:
    """Consume records. After FAILS_AFTER seconds, the handler of a record hangs for ever."""
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=SERVERS, client_id="mailer", group_id="mail", max_poll_interval_ms=60_000
    )
    report(consumer)
    begun = time.monotonic()
    for _ in consumer:
        if time.monotonic() - begun > FAILS_AFTER:
            threading.Event().wait()


def send_blocked() -> None:
    """Send to a misspelt topic, so that each call waits for metadata."""
    producer = KafkaProducer(bootstrap_servers=SERVERS, client_id="checkout", max_block_ms=20_000)
    report(producer)
    begun = time.monotonic()
    while True:
        try:
            producer.send("ordres" if time.monotonic() - begun > FAILS_AFTER else TOPIC, PAYLOAD)
        except KafkaError as error:
            print(error, file=sys.stderr)
        time.sleep(0.2)


APPLICATIONS: Mapping[str, Callable[[], None]] = {
    "shop": shop,
    "callback-deadlock": callback_deadlock,
    "consumer-stalled": consumer_stalled,
    "send-blocked": send_blocked,
}

if __name__ == "__main__":
    APPLICATIONS[sys.argv[1]]()
