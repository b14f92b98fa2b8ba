"""A consumer of the Java client inside `close()`: since when at least, and what holds it up.

`close()` waits for 30 s by default, and without any bound for what the application does in its rebalance listener or
in an interceptor. A consumer takes its metrics down when `close()` ends: one that still reports them has not left it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clienthealth.model.readings import Source, Thread, ThreadDump
from clienthealth.modes._evidence import has_frame, innermost
from clienthealth.modes._io_thread import in_foreign_code
from clienthealth.modes._polls import has_polled, polled_ms
from clienthealth.windows.client_window import ClientWindow

CLOSE = "KafkaConsumer.close"
CONSUMER_THREADS = ("kafka-coordinator-heartbeat-thread", "consumer_background_thread")


@dataclass(frozen=True, slots=True)
class Closing:
    """A thread inside close(): found there by so many dumps, the first at `since_ms`, and not back by `last_ms`.

    where      the innermost frame that is not the JVM's own
    waits      it is inside the client there, and may wait for brokers
    measured   that it was not back is known of the client's own metrics
    certain    it is this client that is being closed: its metrics say so, or the process has no other consumer
    """

    thread: str
    where: str
    waits: bool
    dumps: int
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
    closing_threads: dict[str, list[tuple[ThreadDump, Thread]]] = {}
    for dump in window.dumps:
        inside = {thread.name: thread for thread in dump.threads if has_frame(thread, CLOSE)}
        for name in [name for name in closing_threads if name not in inside]:
            del closing_threads[name]  # it came back
        for name, thread in inside.items():
            closing_threads.setdefault(name, []).append((dump, thread))
    candidates = [
        _of(window, name, seen) for name, seen in closing_threads.items() if not has_polled(window, seen[0][0].ts_ms)
    ]
    return max(candidates, key=lambda candidate: candidate.seconds, default=None)


def _of(window: ClientWindow, name: str, seen: list[tuple[ThreadDump, Thread]]) -> Closing:
    (first, _), (last, thread) = seen[0], seen[-1]
    reading = window.readings[-1] if window.readings else None
    polled = None if reading is None else polled_ms(reading)
    standing = reading is not None and polled is not None and polled <= first.ts_ms and reading.ts_ms > last.ts_ms
    others = sum(t.name.startswith(CONSUMER_THREADS) for t in last.threads) > 1
    return Closing(
        name,
        innermost(thread),
        not in_foreign_code(thread),
        len(seen),
        first.ts_ms,
        reading.ts_ms if standing and reading is not None else last.ts_ms,
        standing,
        polled is not None or not others,
        last.source,
    )
