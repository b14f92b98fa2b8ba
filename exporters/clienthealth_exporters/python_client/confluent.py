"""confluent-kafka (librdkafka): subclass Producer or Consumer to report on its instances.

The subclass replaces the client's callbacks for statistics, errors and deliveries, and the client's logger if it has
one. The subclass's callbacks and logger pass the data to the reporter, and to the application's callbacks and logger.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import confluent_kafka
import msgspec

from clienthealth.model.canonical import written
from clienthealth.model.metrics import CONFIG_OPTIONS
from clienthealth.model.telemetry import Snapshot
from clienthealth.read.formats import Record
from clienthealth.read.formats.librdkafka_stats import FORMAT
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

_CONNECTION = (
    *("bootstrap.servers", "metadata.broker.list", "security.", "ssl.", "sasl.", "enable.ssl.", "oauth_cb"),
    *("client.dns.lookup", "broker.address.", "socket."),
)
_ON_DELIVERY = "_kafka_health_on_delivery"
#: Index of the delivery callback in `args` of `produce(topic, *args)`.
_POSITION = 3


class Reported:
    """Collects the statistics, log lines and errors of one client for the reporter.

    `on_line`: called with (level, text) for each log line or error, and without arguments for new statistics.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.on_line: Callable[..., None] = lambda *line: None
        self._stats: str | None = None

    def wrapped(self, interval_seconds: float) -> dict[str, Any]:
        """Return the application's configuration with callbacks that report and then call the application's callbacks.

        `interval_seconds`: the interval of statistics, unless the application's configuration sets one.
        """
        config = {"statistics.interval.ms": round(1000 * interval_seconds), **self.config}
        config["stats_cb"] = self._calling(self.keep_statistics, config.get("stats_cb"))
        config["error_cb"] = self._calling(self.keep_error, config.get("error_cb"))
        if config.get("logger") is not None:
            config["logger"] = _Tee(config["logger"], self)
        # Our delivery callback calls the application's on_delivery, so the library must not call it, too.
        config.pop("on_delivery", None)
        return config

    def fresh(self) -> bool:
        """True if there are statistics that `taken` has not returned yet."""
        return self._stats is not None

    def taken(self, _client: Any = None) -> tuple[Mapping[str, float], list[dict[str, Any]]]:
        """Return the newest statistics as the fields `metrics` and `topics` of a snapshot.

        Returns ({}, []) if no statistics came since the previous call.
        """
        text, self._stats = self._stats, None
        if text is None or not (decoded := FORMAT.decode(Record(text=text, document=msgspec.json.decode(text)))):
            return {}, []
        form = written(cast(Snapshot, decoded[0]))
        return form["metrics"], form["topics"]

    def keep_statistics(self, text: str) -> None:
        self._stats = text
        self.on_line()

    def keep_error(self, error: Any) -> None:
        """Report a KafkaError as a log line, unless the library itself logs the error.

        With a `logger`, the library logs all errors except "all brokers are down".
        """
        if self.config.get("logger") is None or error.name() == "_ALL_BROKERS_DOWN":
            self.on_line(logging.ERROR, f"{error.name()}: {error.str()}")

    @staticmethod
    def _calling(ours: Callable[[Any], None], own: Callable[[Any], object] | None) -> Callable[[Any], object]:
        def call(what: Any) -> object:
            quietly(ours, what)
            return own(what) if own is not None else None

        return call


class _Tee:
    def __init__(self, logger: Any, reported: Reported) -> None:
        self._logger, self._reported = logger, reported

    def log(self, level: int, text: str, *args: object, **more: Any) -> None:
        quietly(lambda: self._reported.on_line(level, text % args if args else text))
        self._logger.log(level, text, *args, **more)


def reporting(base: Any, start: Callable[..., None], interval_seconds: float) -> Any:
    """Return a subclass of `base` that reports on its instances.

    `start`: called with each new client (`Watched`), its connection options, and its collected data (`Reported`).
    `interval_seconds`: the interval of statistics, unless the client's configuration gives one.

    Raises TypeError if `base` is neither Producer nor Consumer.
    """
    if not issubclass(base, confluent_kafka.Producer | confluent_kafka.Consumer):
        raise TypeError(f"{base.__name__} is neither a Producer nor a Consumer")
    producing = issubclass(base, confluent_kafka.Producer)

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        name = next((name for name in ("conf", "config") if name in kwargs), None)
        given = {**(kwargs.pop(name) if name else {}), **(args[0] if args else {}), **kwargs}
        probe, reported = ProducerProbe() if producing else ConsumerProbe(), Reported(given)
        base.__init__(self, reported.wrapped(interval_seconds), *args[1:])
        # With `delivery.report.only.error`, the number of acknowledged records is unknown.
        only_errors = str(given.get("delivery.report.only.error", "")).lower()
        probe.all_reported = only_errors not in ("true", "1", "t", "yes", "on")
        self.__dict__.update({ATTRIBUTE: probe, _ON_DELIVERY: given.get("on_delivery")})
        options = {name: str(given[name]) for name in CONFIG_OPTIONS if given.get(name) is not None}
        client_id, group = str(given.get("client.id") or "rdkafka"), given.get("group.id")
        version = confluent_kafka.libversion()[0]
        watched = Watched(weakref.ref(self), client_id, probe, "librdkafka", version, group, options, reported.taken)
        watched.fresh, watched.patience = reported.fresh, 1.25
        quietly(start, watched, connection_of(given), reported)

    # Older versions of the library have no produce_batch.
    wrappers = _PRODUCER if producing else _CONSUMER
    calls = {name: wrapper(getattr(base, name)) for name, wrapper in wrappers.items() if hasattr(base, name)}
    return named_like(type(base.__name__, (base,), {"__init__": begin, **calls}), base)


def _producing(method: Any) -> Callable[..., Any]:
    def produce(self: Any, topic: str, *args: Any, **kwargs: Any) -> Any:
        named = [kwargs.pop(name, None) for name in ("on_delivery", "callback")]
        own = next(filter(callable, (*named, *args[_POSITION : _POSITION + 2])), None)
        settled, count = _callback(self, topic, own)
        if len(args) > _POSITION:
            alias = (None if callable(one) else one for one in args[_POSITION + 1 :])
            args = (*args[:_POSITION], settled, *alias)
        else:
            kwargs["on_delivery"] = settled
        # If the queue is full, `method` raises BufferError. The application may then send the same record again.
        returned = method(self, topic, *args, **kwargs)
        count.taken()
        return returned

    return produce


def _producing_batch(method: Any) -> Callable[..., Any]:
    def produce_batch(self: Any, topic: str, messages: Any, *args: Any, **kwargs: Any) -> Any:
        named = [kwargs.pop(name, None) for name in ("on_delivery", "callback")]
        own = next(filter(callable, (*named, *args[1:])), None)
        settled = [_callback(self, topic, one.get("callback") or own) for one in messages]
        given = [{**one, "callback": callback} for one, (callback, _) in zip(messages, settled, strict=True)]
        returned = method(self, topic, given, *args[:1], **kwargs)
        for one, its, (_, count) in zip(messages, given, settled, strict=True):
            if "_error" in its:
                one["_error"] = its["_error"]
            else:
                count.taken()
        return returned

    return produce_batch


def _callback(producer: Any, topic: str, own: Callable[..., object] | None) -> tuple[Callable[..., Any], Any]:
    """Return (delivery callback, counter of the topic).

    The callback updates the counter, and then calls the application's callback `own`.
    """
    probe: ProducerProbe = producer.__dict__[ATTRIBUTE]
    own = own or producer.__dict__[_ON_DELIVERY]
    timed = probe.timed(own) if own is not None else None
    count, began = probe.topic(topic), probe.clock()
    sampled = probe.sampled(began)

    def settled(error: Any, message: Any) -> object:
        if error is not None:
            count.gave_up()
        else:
            probe.delivered(count, sampled)
        return timed(error, message) if timed is not None else None

    return settled, count


def _polling(method: Any) -> Callable[..., Any]:
    def poll(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.__dict__[ATTRIBUTE].poll(self) as got:
            polled = method(self, *args, **kwargs)
            messages = polled if isinstance(polled, list) else [] if polled is None else [polled]
            got.others = sum(message.error() is None for message in messages)
            return polled

    return poll


_CLOSING = {"close": closing, "__exit__": closing}
_PRODUCER = {"produce": _producing, "produce_batch": _producing_batch, **_CLOSING}
_CONSUMER = {"poll": _polling, "consume": _polling, **_CLOSING}


def connection_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connection options in a client's configuration."""
    return {name: value for name, value in config.items() if name.startswith(_CONNECTION)}


class Sender:
    """Sends records with its own small producer, because the application's producer may be stuck."""

    def __init__(self, client_id: str, options: Mapping[str, Any]) -> None:
        silent = logging.getLogger(f"{__name__}.sender")
        silent.propagate, silent.disabled = False, True
        self._options = {
            "client.id": client_id,
            "acks": 1,
            "linger.ms": 5,
            "message.timeout.ms": round(1000 * DELIVERY_SECONDS),
            "queue.buffering.max.messages": 10_000,
            "logger": silent,
            **options,
        }
        self._producer: Any = None

    def deliver(self, records: Sequence[tuple[str, bytes, bytes]]) -> int:
        """Send records (topic, key, value). Return the number of records that were acknowledged within 5 s."""
        if self._producer is None:
            self._producer = confluent_kafka.Producer(self._options)
        failed: list[object] = []
        for topic, key, value in records:
            self._producer.produce(
                topic, value, key, on_delivery=lambda error, _: failed.append(error) if error is not None else None
            )
        left = self._producer.flush(DELIVERY_SECONDS + 1)
        return max(0, len(records) - len(failed) - int(left))

    def close(self) -> None:
        """Release the producer, so that librdkafka ends the producer's threads."""
        self._producer = None
