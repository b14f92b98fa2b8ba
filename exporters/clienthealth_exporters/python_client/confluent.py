"""confluent-kafka (librdkafka): a class whose clients report, in place of the application's own class.

librdkafka passes statistics, errors and log lines to callbacks in the configuration, and the outcome of a record to the
callback of `produce()`. All of them are wrapped, and the application's own are called as before. They run in the
application's `poll()`; if it does not poll, or a callback does not return, the reporter's thread goes on.
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
    DELIVERY_SECONDS,
    ConsumerProbe,
    ProducerProbe,
    Watched,
    named_like,
    quietly,
)

_CONNECTION = (
    *("bootstrap.servers", "metadata.broker.list", "security.", "ssl.", "sasl.", "enable.ssl.", "oauth_cb"),
    *("client.dns.lookup", "broker.address.", "socket."),
)
#: The place of the callback among the arguments of `produce()` after the topic.
_POSITION = 3


class Reported:
    """Collects what a client of the class reports, until the reporter's thread takes it.

    heard  is called with a line (level, text) of the library's log or of an error, and without one for new statistics
    """

    def __init__(self, config: Mapping[str, Any], on_line: Callable[..., None]) -> None:
        self.config, self._on_line = dict(config), on_line
        self._stats: str | None = None
        only_errors = str(config.get("delivery.report.only.error", "")).lower()
        #: False if the library reports only failures: then it is not known how many records are still in flight.
        self.all_reported = only_errors not in ("true", "1", "t", "yes", "on")

    def wrapped(self, interval_seconds: float) -> dict[str, Any]:
        """Return the application's configuration with callbacks that report and call its own."""
        config = {"statistics.interval.ms": round(1000 * interval_seconds), **self.config}
        config["stats_cb"] = self._calling(self.keep_statistics, config.get("stats_cb"))
        if config.get("logger") is not None:
            # The logger also gets the lines of errors.
            config["logger"] = _Tee(config["logger"], self._on_line)
        else:
            config["error_cb"] = self._calling(
                lambda error: self._on_line(logging.ERROR, f"{error.name()}: {error.str()}"), config.get("error_cb")
            )
        # The library calls this for each record that has no callback of its own.
        config.pop("on_delivery", None)
        return config

    def fresh(self) -> bool:
        """True if there are new statistics."""
        return self._stats is not None

    def taken(self, _client: Any = None) -> tuple[Mapping[str, float], list[dict[str, Any]]]:
        """Return the measurements of the newest statistics, each only once; empty if there are no new ones."""
        text, self._stats = self._stats, None
        if text is None or not (decoded := FORMAT.decode(Record(text=text, document=msgspec.json.decode(text)))):
            return {}, []
        form = written(cast(Snapshot, decoded[0]))
        return form["metrics"], form["topics"]

    def keep_statistics(self, text: str) -> None:
        """Keep statistics until the reporter's thread takes them."""
        self._stats = text
        self._on_line()

    @staticmethod
    def _calling(ours: Callable[[Any], None], own: Callable[[Any], object] | None) -> Callable[[Any], object]:
        def call(what: Any) -> object:
            quietly(ours, what)
            return own(what) if own is not None else None

        return call


class _Tee:
    """The application's logger, with a copy of its lines for the reporter."""

    def __init__(self, logger: Any, on_line: Callable[..., None]) -> None:
        self._logger, self._on_line = logger, on_line

    def log(self, level: int, text: str, *args: object, **more: Any) -> None:
        quietly(lambda: self._on_line(level, text % args if args else text))
        self._logger.log(level, text, *args, **more)


def reporting(base: Any, start: Callable[..., None], interval_seconds: float) -> Any:
    """Return a class like `base` whose clients report: `start` gets each client, and how to reach the cluster."""
    if not issubclass(base, confluent_kafka.Producer | confluent_kafka.Consumer):
        raise TypeError(f"{base.__name__} is neither a Producer nor a Consumer")
    calls = _ProducerCalls if issubclass(base, confluent_kafka.Producer) else _ConsumerCalls
    # The new class lacks the methods that this version of the library lacks.
    methods = {
        name: getattr(calls, name) for name in dir(calls) if callable(getattr(calls, name)) and hasattr(base, name)
    }
    own = {name: method for name, method in methods.items() if getattr(object, name, None) is not method}
    return named_like(
        type(base.__name__, (base,), {**own, "_kafka_health_class": (base, start, interval_seconds)}), base
    )


class _Calls:
    """Methods that replace those of the base class."""

    __dict__: dict[str, Any]
    _kafka_health_class: tuple[Any, Callable[..., None], float]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        base, start, interval_seconds = self._kafka_health_class
        name = next((name for name in ("conf", "config") if name in kwargs), None)
        given = {**(kwargs.pop(name) if name else {}), **(args[0] if args else {}), **kwargs}
        probe = ProducerProbe() if issubclass(base, confluent_kafka.Producer) else ConsumerProbe()
        lines: list[Callable[..., None]] = []
        said = Reported(given, lambda *line: lines[0](*line) if lines else None)
        base.__init__(self, said.wrapped(interval_seconds), *args[1:])
        probe.all_reported = said.all_reported
        self.__dict__["_kafka_health"] = probe, said
        options = {name: str(given[name]) for name in CONFIG_OPTIONS if given.get(name) is not None}
        client_id, group = str(given.get("client.id") or "rdkafka"), given.get("group.id")
        version = confluent_kafka.libversion()[0]
        watched = Watched(weakref.ref(self), client_id, probe, "librdkafka", version, group, options, said.taken)
        watched.fresh, watched.patience = said.fresh, 1.25
        quietly(start, watched, connection_of(given), lines.append)

    def __exit__(self, *exception: Any) -> Any:
        try:
            return self._kafka_health_class[0].__exit__(self, *exception)
        finally:
            quietly(self.__dict__["_kafka_health"][0].closed)

    def close(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._kafka_health_class[0].close(self, *args, **kwargs)
        finally:
            quietly(self.__dict__["_kafka_health"][0].closed)


class _ProducerCalls(_Calls):
    def produce(self, topic: str, *args: Any, **kwargs: Any) -> Any:
        probe, said = self.__dict__["_kafka_health"]
        named = [kwargs.pop(name, None) for name in ("on_delivery", "callback")]
        own = next(filter(callable, (*named, *args[_POSITION : _POSITION + 2])), None)
        settled, count = _callback(probe, said, topic, own)
        if len(args) > _POSITION:
            alias = (None if callable(one) else one for one in args[_POSITION + 1 :])
            args = (*args[:_POSITION], settled, *alias)
        else:
            kwargs["on_delivery"] = settled
        try:
            return self._kafka_health_class[0].produce(self, topic, *args, **kwargs)
        except BaseException:
            count.gave_up()
            raise

    def produce_batch(self, topic: str, messages: Any, *args: Any, **kwargs: Any) -> Any:
        probe, said = self.__dict__["_kafka_health"]
        named = [kwargs.pop(name, None) for name in ("on_delivery", "callback")]
        own = next(filter(callable, (*named, *args[1:])), None)
        settled = [_callback(probe, said, topic, one.get("callback") or own) for one in messages]
        given = [{**one, "callback": callback} for one, (callback, _) in zip(messages, settled, strict=True)]
        taken: Any = False
        try:
            taken = self._kafka_health_class[0].produce_batch(self, topic, given, *args[:1], **kwargs)
            return taken
        finally:
            for one, its, (_, count) in zip(messages, given, settled, strict=True):
                if "_error" in its or taken is False:
                    count.gave_up()
                if "_error" in its:
                    one["_error"] = its["_error"]


class _ConsumerCalls(_Calls):
    def poll(self, *args: Any, **kwargs: Any) -> Any:
        return _polled(self, self._kafka_health_class[0].poll, args, kwargs)

    def consume(self, *args: Any, **kwargs: Any) -> Any:
        return _polled(self, self._kafka_health_class[0].consume, args, kwargs)


def _callback(
    probe: ProducerProbe, said: Reported, topic: str, own: Callable[..., object] | None
) -> tuple[Callable[..., Any], Any]:
    """Return a callback that counts a record's outcome, and the counts of its topic.

    It calls the callback of the record, or that of the configuration, as the library does.
    """
    own = own or said.config.get("on_delivery")
    timed = probe.timed(own) if own is not None else None
    count, began = probe.topic(topic), probe.clock()
    count.taken()
    sampled = probe.sampled(began)

    def settled(error: Any, message: Any) -> object:
        if error is not None:
            count.gave_up()
        elif sampled:
            probe.delivered(count, began)
        else:
            count.succeeded(message)
        return timed(error, message) if timed is not None else None

    return settled, count


def _polled(consumer: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    probe, _ = consumer.__dict__["_kafka_health"]
    probe.polling()
    number = 0
    try:
        polled = method(consumer, *args, **kwargs)
        messages = polled if isinstance(polled, list) else [] if polled is None else [polled]
        number = sum(message.error() is None for message in messages)
        return polled
    finally:
        quietly(probe.polled, consumer, {}, number)


def connection_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a client for reaching its cluster."""
    return {name: value for name, value in config.items() if name.startswith(_CONNECTION)}


class Sender:
    """Sends reports by its own small producer: the application's may be stuck."""

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
        """Send, and wait for the acknowledgements."""
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
        """Do nothing: no record is in flight, and librdkafka ends with the object."""
        self._producer = None
