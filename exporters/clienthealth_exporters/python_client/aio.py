"""aiokafka: measure the calls of a client, and send the reporter's snapshots."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import aiokafka

from clienthealth_exporters.python_client.probes import (
    ATTRIBUTE,
    DELIVERY_SECONDS,
    ConsumerProbe,
    ProducerProbe,
    Watched,
    named_like,
    quietly,
)

#: Connection options that the reporter's own producer copies from the application's client.
_CONNECTION = (
    *("bootstrap_servers", "security_protocol", "ssl_context", "sasl_mechanism", "sasl_plain_username"),
    *("sasl_plain_password", "sasl_kerberos_service_name", "sasl_kerberos_domain_name", "sasl_oauth_token_provider"),
)


def watched(client: Any) -> Watched:
    """Measure a client's calls from now on. Return the client as `Watched`.

    Raises TypeError if the client is neither an AIOKafkaProducer nor an AIOKafkaConsumer.
    """
    if not isinstance(client, aiokafka.AIOKafkaProducer | aiokafka.AIOKafkaConsumer):
        raise TypeError(f"{type(client).__name__} is neither an AIOKafkaProducer nor an AIOKafkaConsumer")
    producing = isinstance(client, aiokafka.AIOKafkaProducer)
    probe = ProducerProbe() if producing else ConsumerProbe()
    base: Any = type(client)
    client.__dict__[ATTRIBUTE] = probe
    client.__class__ = (_watched_producer if producing else _watched_consumer)(base)
    group, limit = getattr(client, "_group_id", None), getattr(client, "_max_poll_interval_ms", None)
    config = {} if limit is None else {"max.poll.interval.ms": str(limit)}
    client_id = getattr(_connection(client), "_client_id", None) or "aiokafka"
    return Watched(weakref.ref(client), client_id, probe, "aiokafka", aiokafka.__version__, group, config)


def _connection(client: Any) -> Any:
    return client.client if isinstance(client, aiokafka.AIOKafkaProducer) else client._client


def connection_of(client: Any) -> dict[str, Any]:
    """Return the client's connection options that are not None, by name."""
    values = {name: getattr(_connection(client), f"_{name}", None) for name in _CONNECTION}
    return {name: value for name, value in values.items() if value is not None}


def _stopping(base: Any) -> Any:
    @functools.wraps(base.stop)
    async def stop(self: Any) -> None:
        try:
            await base.stop(self)
        finally:
            # Call `closed` in a thread: the function waits for the last snapshot, and would block the event loop.
            await asyncio.to_thread(quietly, self.__dict__[ATTRIBUTE].closed)

    return stop


@functools.cache
def _watched_producer(base: Any) -> type:
    class Watching(base):  # type: ignore[misc]
        @functools.wraps(base.send)
        async def send(self, topic: str, *args: Any, **kwargs: Any) -> Any:
            probe = self.__dict__[ATTRIBUTE]
            count, began = probe.topic(topic), probe.clock()
            sampled = probe.sampled(began)
            try:
                future = await base.send(self, topic, *args, **kwargs)
            except BaseException:
                count.not_taken()
                raise
            count.taken()

            def settled(future: asyncio.Future[Any]) -> None:
                # future.exception() would suppress asyncio's warning about an exception that is never retrieved.
                if future.cancelled() or getattr(future, "_exception", None) is not None:
                    count.gave_up()
                else:
                    probe.delivered(count, sampled)

            future.add_done_callback(settled)
            return future

        stop = _stopping(base)

    return named_like(Watching, base)


@functools.cache
def _watched_consumer(base: Any) -> type:
    class Watching(base):  # type: ignore[misc]
        @functools.wraps(base.getone)
        async def getone(self, *partitions: Any) -> Any:
            with self.__dict__[ATTRIBUTE].poll(self) as got:
                record = await base.getone(self, *partitions)
                got.records = {aiokafka.TopicPartition(record.topic, record.partition): [record]}
                return record

        @functools.wraps(base.getmany)
        async def getmany(self, *partitions: Any, **kwargs: Any) -> Any:
            with self.__dict__[ATTRIBUTE].poll(self) as got:
                got.records = await base.getmany(self, *partitions, **kwargs)
                return got.records

        stop = _stopping(base)

    return named_like(Watching, base)


class Sender:
    """Sends records with its own small producer and event loop."""

    def __init__(self, client_id: str, options: Mapping[str, Any]) -> None:
        self._options = {"client_id": client_id, "acks": 1, "request_timeout_ms": 4000, **options}
        self._loop = asyncio.new_event_loop()
        self._producer: Any = None

    def deliver(self, records: Sequence[tuple[str, bytes, bytes]]) -> int:
        """Send records (topic, key, value). Return the number of records that were acknowledged within 5 s."""
        return self._loop.run_until_complete(asyncio.wait_for(self.send(records), DELIVERY_SECONDS))

    async def send(self, records: Sequence[tuple[str, bytes, bytes]]) -> int:
        """Send records (topic, key, value) on the sender's event loop. Return the number of acknowledged records."""
        if self._producer is None:
            producer = aiokafka.AIOKafkaProducer(**self._options)
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            self._producer = producer
        futures = [await self._producer.send(topic, value, key) for topic, key, value in records]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        return sum(not isinstance(outcome, BaseException) for outcome in outcomes)

    def close(self) -> None:
        if self._producer is not None:
            self._loop.run_until_complete(self._producer.stop())
        self._loop.close()
