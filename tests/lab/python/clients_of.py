"""Run clients of each Python library as its documentation recommends."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka as library
import kafka
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import KafkaException
from kafka.errors import KafkaError

#: kafka-python 2 raises AssertionError if the partition does not exist.
_FAILED = (KafkaError, AioError, AssertionError, ValueError)
_RDKAFKA = (
    "bootstrap.servers", "client.id", "group.id", "linger.ms", "request.timeout.ms", "delivery.timeout.ms", "acks",
    "batch.size", "max.poll.interval.ms", "auto.offset.reset", "security.protocol", "sasl.mechanism", "group.protocol",
)  # fmt: skip


def confluent(app: Any) -> None:
    kind = app.GIVEN["role"]
    made = []
    for number in range(int(app.GIVEN["clients"])):
        truth = app.Truth(kind, number)
        given = {name: value for name, value in app.options(kind, truth).items() if name in _RDKAFKA}
        if kind == "consumer":
            # librdkafka requires that session.timeout.ms is at most max.poll.interval.ms.
            given |= {"session.timeout.ms": "8000", "enable.auto.commit": str(app.GIVEN["commit"] == "auto").lower()}
        if "sasl.mechanism" in given:
            given |= {"sasl.username": "orders", "sasl.password": "wrong"}
        more: dict[str, Any] = {"statistics.interval.ms": int(1000 * app.number_of("metrics.seconds", "0"))}
        if more["statistics.interval.ms"]:
            more["stats_cb"] = lambda text: app.say(f"METRICS {text}")
        known = {**given, **more}
        logger = logging.getLogger("librdkafka")
        client = (library.Producer if kind == "producer" else library.Consumer)(known, logger=logger)
        loop = _rd_produce if kind == "producer" else _rd_consume
        made.append((client, _thread(app, loop, client, truth, number)))
    app.finish(lambda how: _rd_close(made, how))


def _thread(app: Any, loop: Callable[..., None], client: Any, truth: Any, number: int) -> threading.Thread:
    name = f"{app.GIVEN.get('thread', 'worker-')}{number}"
    thread = threading.Thread(target=loop, args=(app, client, truth), name=name, daemon=True)
    thread.start()
    return thread


def _rd_produce(app: Any, producer: Any, truth: Any) -> None:
    payload = b"x" * int(app.GIVEN["size"])
    while not app.ENDING.is_set():
        for _ in range(app.due(truth)):
            app.accepted(truth)

            def produce() -> None:
                producer.produce(value=payload, callback=lambda error, _: truth.settled(error), **app.target(truth))

            try:
                truth.during("sending", produce)
            except BufferError as full:
                truth.failure(full)
                app.log.error("order not accepted: %s", full)
        if not (truth.mine and app.TROUBLE == "not-polled" and app.GO.is_set()):
            producer.poll(0)
        time.sleep(1 / app.number_of("rate", "10"))


def _rd_consume(app: Any, consumer: Any, truth: Any) -> None:
    consumer.subscribe(app.GIVEN["topic"].split(","))
    while not app.ENDING.is_set():
        wanted = truth.mine and app.TROUBLE == "pause" and app.GO.is_set() and not app.OVER.is_set()
        if wanted != truth.paused:
            (consumer.pause if wanted else consumer.resume)(consumer.assignment())
            truth.paused = wanted
        truth.place = "poll"
        message = consumer.poll(0.5)
        truth.counts["polls"] += 1
        if message is None or message.error():
            continue
        app.handle(truth, message.topic())
        if app.GIVEN["commit"] != "auto":
            truth.place = "commit"
            try:
                consumer.commit(message=message, asynchronous=app.GIVEN["commit"] == "async")
            except KafkaException as failed:
                app.log.warning("goes on after: %s", failed)
    truth.place = "close"
    consumer.close()
    truth.place = "closed"


def _rd_close(made: list[tuple[Any, threading.Thread]], how: str) -> None:
    for client, thread in made:
        thread.join(10)
        if hasattr(client, "flush"):
            client.flush(30 if how in ("close", "flush") else int(how) / 1000)


def kafka_python(app: Any) -> None:
    kind = app.GIVEN["role"]
    of = kafka.KafkaProducer if kind == "producer" else kafka.KafkaConsumer
    made = []
    for number in range(int(app.GIVEN["clients"])):
        truth = app.Truth(kind, number)
        given = {name.replace(".", "_"): _typed(value) for name, value in app.options(kind, truth).items()}
        if kind == "consumer":
            given["enable_auto_commit"] = app.GIVEN["commit"] == "auto"
            given |= {"session_timeout_ms": 8000, "heartbeat_interval_ms": 2500}
        if "sasl_mechanism" in given:
            given |= {"sasl_plain_username": "orders", "sasl_plain_password": "wrong"}
        known = {name: value for name, value in given.items() if name in of.DEFAULT_CONFIG}
        client = of(**known)
        loop = _kp_produce if kind == "producer" else _kp_consume
        made.append((client, truth, _thread(app, loop, client, truth, number)))
    seconds = app.number_of("metrics.seconds", "0")
    if seconds:
        threading.Thread(target=_kp_report, args=(app, kind, made, seconds, kafka.__version__), daemon=True).start()
    app.finish(lambda how: _kp_close(made, how))


def _typed(value: str) -> Any:
    return int(value) if value.lstrip("-").isdigit() else value


def _kp_report(app: Any, kind: str, made: Any, seconds: float, version: str) -> None:
    while True:
        for client, truth, _ in made:
            ref = {"client_id": truth.id, "client_type": kind, "host": "app-1", "service": "orders"}
            fields = {**ref, "instance": "app-1:4711", "library_version": version, "ts_ms": int(1000 * time.time())}
            app.say(f"METRICS {json.dumps({**fields, 'metrics': client.metrics()})}")
        time.sleep(seconds)


def _kp_produce(app: Any, producer: Any, truth: Any) -> None:
    payload = b"x" * int(app.GIVEN["size"])
    truth.again = lambda: producer.send(app.GIVEN["topic"], payload).get()
    while not app.ENDING.is_set():
        for _ in range(app.due(truth)):
            app.accepted(truth)
            try:
                future = truth.during("sending", lambda: producer.send(value=payload, **app.target(truth)))
                future.add_callback(lambda _: truth.settled(None)).add_errback(truth.settled)
                if app.GIVEN.get("sync") == "true":
                    future.get(timeout=30)
            except _FAILED as failed:
                truth.failure(failed)
                app.log.error("order not accepted", exc_info=True)
        time.sleep(1 / app.number_of("rate", "10"))


def _kp_consume(app: Any, consumer: Any, truth: Any) -> None:
    consumer.subscribe(app.GIVEN["topic"].split(","))
    while not app.ENDING.is_set():
        wanted = truth.mine and app.TROUBLE == "pause" and app.GO.is_set() and not app.OVER.is_set()
        if wanted != truth.paused:
            (consumer.pause if wanted else consumer.resume)(*consumer.assignment())
            truth.paused = wanted
        try:
            truth.place = "poll"
            batches = consumer.poll(500)
            truth.counts["polls"] += 1
            for topic in (partition.topic for partition, records in batches.items() for _ in records):
                app.handle(truth, topic)
            truth.place = "commit"
            if batches and app.GIVEN["commit"] == "sync":
                consumer.commit()
            elif batches and app.GIVEN["commit"] == "async":
                consumer.commit_async()
        except _FAILED:
            app.log.warning("goes on", exc_info=True)
            time.sleep(0.5)
    truth.place = "close"
    consumer.close()
    truth.place = "closed"


def _kp_close(made: Any, how: str) -> None:
    for client, _, thread in made:
        thread.join(10)
        if hasattr(client, "flush"):
            if how == "flush":
                client.flush()
            else:
                client.close(timeout=None if how == "close" else int(how) / 1000)


async def aio(app: Any) -> None:
    kind = app.GIVEN["role"]
    of = aiokafka.AIOKafkaProducer if kind == "producer" else aiokafka.AIOKafkaConsumer
    allowed = inspect.signature(of).parameters
    made = []
    for number in range(int(app.GIVEN["clients"])):
        truth = app.Truth(kind, number)
        given = {name.replace(".", "_"): _typed(value) for name, value in app.options(kind, truth).items()}
        if kind == "consumer":
            given["enable_auto_commit"] = app.GIVEN["commit"] == "auto"
            # The event loop that runs the handler also sends heartbeats, so a blocked handler stops the heartbeats.
            given |= {"session_timeout_ms": 8000, "heartbeat_interval_ms": 2500}
        given = {name: value for name, value in given.items() if name in allowed}
        client = of(*app.GIVEN["topic"].split(","), **given) if kind == "consumer" else of(**given)
        await client.start()
        loop = _aio_produce if kind == "producer" else _aio_consume
        made.append((client, asyncio.create_task(loop(app, client, truth))))
    await asyncio.to_thread(app.END.wait)
    if app.GIVEN["end"] in ("close", "flush"):
        app.ENDING.set()
        for client, task in made:
            await task
            await (client.flush if app.GIVEN["end"] == "flush" else client.stop)()
    await asyncio.to_thread(app.finish, lambda how: None)


async def _aio_produce(app: Any, producer: Any, truth: Any) -> None:
    payload = b"x" * int(app.GIVEN["size"])

    def settled(future: Any) -> None:
        truth.settled(future.exception())

    while not app.ENDING.is_set():
        for _ in range(app.due(truth)):
            app.accepted(truth)
            truth.calls["sending"] = time.time()
            try:
                future = await producer.send(value=payload, **app.target(truth))
                future.add_done_callback(settled)
            except _FAILED as failed:
                truth.failure(failed)
                app.log.error("order not accepted", exc_info=True)
            finally:
                took = time.time() - truth.calls.pop("sending")
                truth.longest["sending"] = max(truth.longest["sending"], took)
        await asyncio.sleep(1 / app.number_of("rate", "10"))


async def _aio_consume(app: Any, consumer: Any, truth: Any) -> None:
    while not app.ENDING.is_set():
        wanted = truth.mine and app.TROUBLE == "pause" and app.GO.is_set() and not app.OVER.is_set()
        if wanted != truth.paused:
            (consumer.pause if wanted else consumer.resume)(*consumer.assignment())
            truth.paused = wanted
        try:
            truth.place = "poll"
            batches = await consumer.getmany(timeout_ms=500)
            truth.counts["polls"] += 1
            for topic in (partition.topic for partition, records in batches.items() for _ in records):
                if truth.wrong("handler") and app.TROUBLE == "join":
                    truth.place = "handler"
                    await asyncio.Event().wait()
                app.handle(truth, topic)
            truth.place = "commit"
            if batches and app.GIVEN["commit"] != "auto":
                await consumer.commit()
        except _FAILED:
            app.log.warning("goes on", exc_info=True)
            await asyncio.sleep(0.5)
