"""A consumer of the Java client inside `close()`: since when at least, and what holds it up.

`close()` waits for 30 s by default, and without any bound for what the application does in its rebalance listener or
in an interceptor. A consumer takes its metrics down when `close()` ends: one that still reports them has not left it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clienthealth.model.readings import Source
from clienthealth.modes._evidence import has_frame, innermost
from clienthealth.modes._io_thread import in_foreign_code
from clienthealth.modes._polls import has_polled, polled_ms
from clienthealth.modes.held import Held, held
from clienthealth.windows.client_window import ClientWindow

CLOSE = "KafkaConsumer.close"
CONSUMER_THREADS = ("kafka-coordinator-heartbeat-thread", "consumer_background_thread")


@dataclass(frozen=True, slots=True)
class Closing:
    """A thread inside close(): found there by dumps, the first at `since_ms`, and not back by `last_ms`.

    where      the innermost frame that is not the JVM's own
    waits      it is inside the client there, and may wait for brokers
    measured   that it was not back is known of the client's own metrics
    certain    it is this client that is being closed: its metrics say so, or the process has no other consumer
    """

    thread: str
    where: str
    waits: bool
    since_ms: int
    last_ms: int
    measured: bool
    certain: bool
    source: Source | None

    @property
    def seconds(self) -> float:
        """The least time that it has been inside."""
        return (self.last_ms - self.since_ms) / 1000


def closing(window: ClientWindow) -> Closing | None:
    """The thread that has been closing the client for longest, None where none is."""
    inside = held(window.dumps, lambda _, thread: CLOSE if has_frame(thread, CLOSE) else None)
    still = [stay for stay in inside if stay.dump is window.dumps[-1] and not has_polled(window, stay.since_ms)]
    return max((_of(window, stay) for stay in still), key=lambda candidate: candidate.seconds, default=None)


def _of(window: ClientWindow, stay: Held) -> Closing:
    last, thread = stay.seen[-1]
    reading = window.readings[-1] if window.readings else None
    polled = None if reading is None else polled_ms(reading)
    standing = reading is not None and polled is not None and polled <= stay.since_ms and reading.ts_ms > last.ts_ms
    others = sum(t.name.startswith(CONSUMER_THREADS) for t in last.threads) > 1
    return Closing(
        thread.name,
        innermost(thread),
        not in_foreign_code(thread),
        stay.since_ms,
        reading.ts_ms if standing and reading is not None else last.ts_ms,
        standing,
        polled is not None or not others,
        last.source,
    )
