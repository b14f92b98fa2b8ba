"""Lets the calls of a kafka-python producer or consumer pass through a probe.

The object is given a subclass of its own class. Whoever holds it calls through the probe, and `isinstance` and identity
stay as they are. Nothing refers back to the client, so it is closed and freed as before. Arguments, results and
exceptions pass through unchanged.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)

#: The name under which a watched client carries its probe.
ATTRIBUTE = "_kafka_health_probe"


def watch(client: Any, probe: Any) -> None:
    """Let the client's calls pass through the probe."""
    base: Any = type(client)
    client.__dict__[ATTRIBUTE] = probe
    client.__class__ = (_watched_producer if probe.kind == "producer" else _watched_consumer)(base)


def _quietly(work: Callable[..., None], *args: object) -> None:
    """A defect of the reporter's must not become one of the application."""
    try:
        work(*args)
    except Exception:
        log.debug("the reporter failed", exc_info=True)


def named_like(made: type, base: type) -> type:
    """The class `made` under the name of `base`, for logs and messages of the application."""
    made.__name__, made.__qualname__, made.__module__ = base.__name__, base.__qualname__, base.__module__
    return made


def _closing(base: Any) -> Callable[..., Any]:
    """The `close` of `base`, which the probe then hears of."""

    @functools.wraps(base.close)
    def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return base.close(self, *args, **kwargs)
        finally:
            _quietly(self.__dict__[ATTRIBUTE].closed)

    return close


@functools.cache
def _watched_producer(base: Any) -> type:
    base_send = base.send

    class Watched(base):  # type: ignore[misc]
        @functools.wraps(base_send)
        def send(self, topic: str, *args: Any, **kwargs: Any) -> Any:
            probe = self.__dict__[ATTRIBUTE]
            count = probe.sending(topic)
            began = probe.clock()
            try:
                future = base_send(self, topic, *args, **kwargs)
            except BaseException:
                count.gave_up()
                raise
            _quietly(probe.accepted, future, count, began)
            return future

        close = _closing(base)

    return named_like(Watched, base)


@functools.cache
def _watched_consumer(base: Any) -> type:
    class Watched(base):  # type: ignore[misc]
        @functools.wraps(base.poll)
        def poll(self, *args: Any, **kwargs: Any) -> Any:
            probe = self.__dict__[ATTRIBUTE]
            probe.polling()
            records: Any = {}
            try:
                records = super().poll(*args, **kwargs)
                return records
            finally:
                _quietly(probe.polled, self, records)

        close = _closing(base)

    return named_like(Watched, base)


def timed_future(base: Any, timed: Callable[[Callable[[Any], object]], Callable[[Any], object]]) -> type:
    """A class of futures that time the callbacks that are added to them before they are done."""

    class Timed(base):  # type: ignore[misc]
        __slots__ = ()

        def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
            bound = functools.partial(f, *args, **kwargs) if args or kwargs else f
            return base.add_callback(self, bound if self.is_done else timed(bound))

        def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
            bound = functools.partial(f, *args, **kwargs) if args or kwargs else f
            return base.add_errback(self, bound if self.is_done else timed(bound))

    return named_like(Timed, base)
