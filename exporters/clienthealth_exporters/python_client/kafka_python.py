"""kafka-python 3: measure the calls of a client, and send the reporter's snapshots.

The client's class is replaced by a subclass. The methods' arguments, results and exceptions stay the same.
"""

from __future__ import annotations

import functools
import logging
import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafka

from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS
from clienthealth_exporters.python_client.probes import (
    ATTRIBUTE,
    DELIVERY_SECONDS,
    ConsumerProbe,
    ProducerProbe,
    Watched,
    closing,
    named_like,
    quietly,
)

log = logging.getLogger(__name__)
_CONNECTION = ("bootstrap_servers", "security_", "ssl_", "sasl_", "proxy_url", "socks5_proxy", "client_dns_lookup")
#: Factors for the metrics that kafka-python 3.0 reports in seconds, although its documentation says milliseconds.
_FACTORS = {"record-queue-time-avg": 1000.0, "record-queue-time-max": 1000.0}
_GROUPS = ("producer-metrics", "consumer-metrics", "consumer-fetch-manager-metrics", "consumer-coordinator-metrics")


def watched(client: Any) -> Watched:
    """Measure a client's calls from now on. Return the client as `Watched`.

    Raises TypeError if the client is neither a KafkaProducer nor a KafkaConsumer.
    """
    if not isinstance(client, kafka.KafkaProducer | kafka.KafkaConsumer):
        raise TypeError(f"{type(client).__name__} is neither a KafkaProducer nor a KafkaConsumer")
    probe = ProducerProbe() if isinstance(client, kafka.KafkaProducer) else ConsumerProbe()
    watch(client, probe)
    options = {name: client.config.get(name.replace(".", "_")) for name in CONFIG_OPTIONS}
    return Watched(
        weakref.ref(client),
        client.config["client_id"],
        probe,
        "kafka-python",
        kafka.__version__,
        client.config.get("group_id") if probe.kind == "consumer" else None,
        {name: str(value) for name, value in options.items() if value is not None},
        lambda client: (library_metrics(client, probe.kind), None),
    )


def watch(client: Any, probe: Any) -> None:
    """Replace the client's class by a subclass that measures the client's calls with `probe`."""
    base: Any = type(client)
    client.__dict__[ATTRIBUTE] = probe
    client.__class__ = (_watched_producer if probe.kind == "producer" else _watched_consumer)(base)


def accepted(probe: ProducerProbe, future: Any, topic: Any, began: float) -> None:
    """Count a record's outcome once its future is done. Measure the callbacks that the application adds to the future.

    `topic`: the `_Topic` that counts the outcome. `began`: time (s) of the call of `send()`, from `probe.clock`.
    """
    future.add_callback(probe.delivered, topic, probe.sampled(began))
    future.add_errback(topic.gave_up)
    if not future.is_done:
        kind = type(future)
        if kind not in probe.futures:
            probe.futures[kind] = timed_future(kind, probe.timed)
        future.__class__ = probe.futures[kind]


@functools.cache
def _watched_producer(base: Any) -> type:
    class Watched(base):  # type: ignore[misc]
        @functools.wraps(base.send)
        def send(self, topic: str, *args: Any, **kwargs: Any) -> Any:
            probe = self.__dict__[ATTRIBUTE]
            count, began = probe.topic(topic), probe.clock()
            try:
                future = base.send(self, topic, *args, **kwargs)
            except BaseException:
                count.not_taken()
                raise
            count.taken()
            quietly(accepted, probe, future, count, began)
            return future

        close = closing(base.close)

    return named_like(Watched, base)


@functools.cache
def _watched_consumer(base: Any) -> type:
    class Watched(base):  # type: ignore[misc]
        @functools.wraps(base.poll)
        def poll(self, *args: Any, **kwargs: Any) -> Any:
            with self.__dict__[ATTRIBUTE].poll(self) as got:
                got.records = base.poll(self, *args, **kwargs)
                return got.records

        close = closing(base.close)

    return named_like(Watched, base)


def timed_future(base: Any, timed: Callable[[Callable[[Any], object]], Callable[[Any], object]]) -> type:
    """Return a subclass of the future class `base` that wraps each added callback with `timed`."""

    def timing(add: Callable[[Any, Callable[..., object]], Any]) -> Callable[..., Any]:
        def added(self: Any, f: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
            bound = functools.partial(f, *args, **kwargs) if args or kwargs else f
            return add(self, bound if self.is_done else timed(bound))

        return added

    methods = {name: timing(getattr(base, name)) for name in ("add_callback", "add_errback")}
    return named_like(type("Timed", (base,), {"__slots__": (), **methods}), base)


def library_metrics(client: Any, kind: str) -> dict[str, float]:
    """Call `client.metrics()`, and return the metrics that the monitor knows.

    If nothing was measured, the library reports the average 0 and an infinite maximum. Such an average is left out.
    """
    ours = {name: f"{name.removesuffix('-avg')}-max" for name in CLIENT_METRICS[kind]}
    known = {*ours, *ours.values()}
    values = {
        name.name: float(metric.value()) * _FACTORS.get(name.name, 1.0)
        for name, metric in (client.metrics(raw=True) or {}).items()
        if name.group in _GROUPS and name.name in known and name.tags.keys() <= {"client-id"}
    }
    return {
        name: values[name]
        for name, largest in ours.items()
        if math.isfinite(values.get(name, math.nan)) and math.isfinite(values.get(largest, 0.0))
    }


def connection_of(client: Any) -> dict[str, Any]:
    """Return the client's connection options that are not None, by name."""
    return {name: value for name, value in client.config.items() if name.startswith(_CONNECTION) and value is not None}


class Sender:
    """Sends records with its own small producer."""

    def __init__(self, client_id: str, options: Mapping[str, Any]) -> None:
        self._options = {
            "client_id": client_id,
            "acks": 1,
            "enable_idempotence": False,
            "max_block_ms": 2000,
            "request_timeout_ms": 4000,
            "delivery_timeout_ms": round(1000 * DELIVERY_SECONDS),
            "bootstrap_timeout_ms": 3000,
            "metrics_enabled": False,
            **options,
        }
        self._producer: Any = None

    def deliver(self, records: Sequence[tuple[str, bytes, bytes]]) -> int:
        """Send records (topic, key, value). Return the number of records that were acknowledged within 5 s."""
        if self._producer is None:
            self._producer = kafka.KafkaProducer(**self._options)
            # Without this call, kafka-python closes the producer at exit, before the last snapshots are sent.
            getattr(self._producer, "_unregister_cleanup", lambda: None)()
        futures = [self._producer.send(topic, key=key, value=value) for topic, key, value in records]
        until = time.monotonic() + DELIVERY_SECONDS
        delivered = 0
        for future in futures:
            try:
                future.get(max(0.0, until - time.monotonic()))
                delivered += 1
            except Exception:
                log.debug("a report was not delivered", exc_info=True)
        return delivered

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=1.0)
