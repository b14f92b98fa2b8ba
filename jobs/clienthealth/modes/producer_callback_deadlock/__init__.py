"""A producer's I/O thread is stuck in its own callback.

Mechanism. Callbacks run on the producer's single I/O thread. One that sends again and calls `get()` without a time
limit waits for a result that only its own thread could deliver; and because that thread enforces every timeout,
nothing times out. The buffer fills, then each `send()` blocks for `max.block.ms` and fails, for ever.

What proves it. A new batch in the buffer wakes the I/O thread up, and a living thread goes back to its selector once
in `request.timeout.ms` at the latest. So a selector that stands still while the buffer fills, or stands still longer
than that while work waits, is proof. A thread dump proves it from the first moment: the network thread WAITING in
`ProduceRequestResult.await`. It does not where the selector went on afterwards: then the callback waited for
something that another thread delivered.

Relatives, told apart by `detail.cause`: `get-in-callback` and `flush-in-callback`. `send-in-callback`: the callback's
own send() waits for metadata or memory on the I/O thread, at most `max.block.ms` per record, then it recovers.
`callback-blocked`: the callback holds the thread in something else. `io-thread-blocked`: other code that is not the
client's holds it: an interceptor, a logger, a reporter of metrics. `io-thread-died`: an exception that nobody
caught has ended the thread. `flush-refused`: since 4.1 the client throws
instead of waiting, so nothing is stuck and nothing is flushed. `poll-not-called`: librdkafka's delivery reports, which
the application never serves, fill its queue; its statistics come in poll() too, and end meanwhile.
`detail.bounded`: the thread has come back, or will, by itself;
`blocked_seconds` how long it was held.

Known gaps. Clients before 1.0 have no `select-total`: their rates fall to 0 only after 30 to 60 s. kafka-python
counts no selects at all.

A client that pushes its metrics itself (KIP-714) does so on this thread, and falls silent: no push shows the selector
at a stand. Where its buffer filled before and nothing was sent, and the others of its address push on, all of them, its
process lives and it is suspected; else it is `unknown`. Clients before 4.1.2 can fall silent while they are well.
"""

from __future__ import annotations

from clienthealth.modes import Cause, LiveMode
from clienthealth.modes.delivery_stalled.lines import ID as DELIVERY_STALLED
from clienthealth.modes.producer_callback_deadlock.health import doubt, worth_a_dump
from clienthealth.modes.producer_callback_deadlock.lines import EXHAUSTED, FLUSH_REFUSED, ID, LINES, THREAD_DIED
from clienthealth.modes.producer_callback_deadlock.rules import GATE, Thresholds, judge, recovered
from clienthealth.modes.producer_callback_deadlock.silence import silence
from clienthealth.modes.producer_not_closed.lines import CLOSED, CLOSING, DIED
from clienthealth.modes.producer_not_closed.lines import ID as NOT_CLOSED
from clienthealth.modes.send_blocked_on_metadata.lines import METADATA_WAITED

MODE = LiveMode(
    id=ID,
    title="Producer deadlocked in its own callback",
    summary="The producer's I/O thread is stuck in one of its own callbacks, so nothing is sent any more.",
    impact=(
        "Every record sent from now on fails after max.block.ms, what is in the buffer is lost when the process "
        "ends, and it does not recover even though the brokers are fine."
    ),
    action=(
        "Restart the process, and change the callback so that it never waits: no get(), flush() or blocking send() "
        "inside it; hand a retry to another thread."
    ),
    first="Take thread dumps first, ten seconds apart: they alone name the code.",
    caution=(
        "Make sure first; then look at the callback: it must never wait, so no get(), flush() or blocking send() "
        "inside it."
    ),
    kinds=frozenset({"producer"}),
    evidence=("metric", "thread-dump", "log", "absence"),
    thresholds=Thresholds(),
    confused_with=(
        "Back-pressure: the buffer is full and threads wait, but the I/O thread goes on to select.",
        "A broker outage or a broker that hangs: it goes on, or stands still for one request timeout at most.",
        "A slow callback: a dump finds the thread inside it, yet it comes back between batches.",
        "An idle producer: its I/O thread stands still for many seconds, but the buffer is empty.",
        "A long garbage collection: all threads stand still, and the readings stop with them.",
    ),
    causes=(
        Cause(
            "get-in-callback",
            "A callback calls get() on the only I/O thread, which alone could deliver the result.",
        ),
        Cause(
            "flush-in-callback",
            "A callback calls flush() on the only I/O thread, which alone could send the rest.",
        ),
        Cause(
            "send-in-callback",
            "A callback's own send() waits on the I/O thread, for max.block.ms per record at most: then it goes on.",
            title="Producer held up by a send() in its own callback",
            summary="A callback's own send() holds the producer's I/O thread, so nothing is sent meanwhile.",
            advice={
                "": "Let the callback hand records to another thread that sends them; a restart is not needed, it goes "
                "on by itself."
            },
        ),
        Cause(
            "callback-blocked",
            "A callback held the producer's only I/O thread for {blocked_seconds} s, and then it returned.",
            vague="A callback holds the producer's only I/O thread in something that does not return.",
        ),
        Cause(
            "io-thread-blocked",
            "Code that is not the client's (an interceptor, a logger, a metrics reporter) holds the producer's "
            "I/O thread.",
            title="Producer's I/O thread held by code that is not the client's",
            summary="The producer's I/O thread is stuck in code that is not the client's, so nothing is sent any more.",
            advice={
                "": "Restart the process, and let what the dump names (an interceptor, a logger, a metrics reporter) "
                "never wait on the I/O thread: no lock that others hold for long, no call over the network."
            },
        ),
        Cause(
            "io-thread-died",
            "The producer's only I/O thread has ended by {thrown}, which nobody caught: nothing is sent any more.",
            vague="The producer's only I/O thread has ended: nothing is sent any more.",
            title="Producer's I/O thread has died",
            advice={
                "": "Restart the process, or close the producer and make a new one: what its buffer held is lost. Then "
                "mend what ended the thread: most often memory ran out, or a class is missing."
            },
        ),
        Cause(
            "flush-refused",
            "A callback calls flush(), which the client refuses there: nothing is stuck, but nothing is flushed "
            "either.",
            title="Producer's callback calls flush(), which is refused",
            summary="A callback of the producer calls flush(), and the client refuses it each time.",
            advice={"": "Take flush() out of the callback: call it on another thread, or not at all."},
        ),
        Cause(
            "poll-not-called",
            "The application does not call poll() or flush(), so that delivery reports pile up.",
            title="Producer whose delivery reports nobody serves",
            summary="The application does not serve the producer's delivery reports, so its queue fills.",
            advice={
                "": "Call poll(0) after each produce(), or poll() in a thread of its own: delivery reports are served "
                "there alone, and until then each record counts as queued, delivered or not."
            },
        ),
    ),
    judge=judge,
    lines=LINES,
    reads=(EXHAUSTED, FLUSH_REFUSED, METADATA_WAITED, THREAD_DIED, CLOSING, CLOSED, DIED),
    gate=GATE,
    recovered=recovered,
    silence=silence,
    explains=frozenset({DELIVERY_STALLED, NOT_CLOSED}),
    doubt=doubt,
    peaks=frozenset({"waiting_threads", "buffer_used_ratio", "blocked_seconds"}),
    momentary=frozenset({"bounded"}),
    worth_a_dump=worth_a_dump,
)
