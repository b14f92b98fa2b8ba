"""A producer's process ended with records still in its buffer.

Mechanism. `send()` only appends to a buffer, and the I/O thread that empties it is a daemon. A process that exits
without `close()` (or `flush()`) loses what is still buffered, without an error anywhere.

What shows it: absence. The client stops reporting, its last reading shows a buffer in use or more records sent than
acknowledged, and no line tells of its close. That line is missed only where the log is read at all: a start that was
logged shows that. librdkafka and a forced close say it outright.

How sure. A buffer in use is also what a producer under load shows at any moment, and the last reading can be older
than a final `flush()`. So little in the buffer suspects; clearly more than is ever in flight, with the log read and no
close in it, confirms. A client that comes back had not ended: the verdict is withdrawn.

By library, as real processes ended (returned, sys.exit, an exception, os._exit, SIGKILL, a last flush or close):

- librdkafka logs an end with records left, and nothing of an end in order or of a kill. A flush() sends at once what
  linger.ms held back, so its last statistics show the same before a loss and before none: without that line, `unknown`.
  Nobody gets the line where a `logger` was given, for that is served by poll(). What is under way may still arrive.
- kafka-python closes its producers at exit by itself; 3.x waits for a second then, and logs nothing of it: that no line
  tells of a close proves nothing. Our reporter counts to the end, a kill leaves the last count: suspected. What 2.x has
  in its buffer nobody knows, but it logs a close() that gave up.
- aiokafka tells no numbers. "Unclosed AIOKafkaProducer" shows that stop() was left out, not whether anything was
  left: suspected. Of a kill, or of a stop() that was cut off, it says nothing.
- What arrived at the brokers says nothing of one producer: theirs are offsets of topics.

Causes (`detail.cause`): `exit-without-close`, `forced-close`, `killed` (where the process logged why it died).

A client that pushes its metrics (KIP-714) says with the last push that it closes; with nothing left to deliver then it
is well. That it did not say so shows little where its buffer was empty: the I/O thread then ends before the last push.
Silence never confirms of a client before 4.1.2 (KAFKA-19747): it pushes no more after a push during which its
connection broke; nor of one that was sending: while all requests that it may have under way are, it cannot push (with
max.in.flight.requests.per.connection=1 under back-pressure 1 and 2 pushes came of 14, and not the last one).

Known gaps. Clients before 1.0 do not name themselves when they log their close, so theirs cannot be missed. Records
sent after the last reading are not seen, those delivered after it are still counted: the loss is an interval from 0
to an upper bound, exact only where the client counts. A `kill -9` looks like an exit.
"""

from __future__ import annotations

from clienthealth.modes import AbsenceMode, Cause
from clienthealth.modes.producer_not_closed.health import doubt
from clienthealth.modes.producer_not_closed.lines import ID, LINES
from clienthealth.modes.producer_not_closed.rules import Thresholds, explicable, judge

AGAIN = "Send the lost records again if their source allows it"

MODE = AbsenceMode(
    id=ID,
    title="Producer ended with records undelivered",
    summary="The producer ended with records still in its buffer that it never delivered.",
    impact=(
        "Records that send() had accepted were lost, or may have been, without an exception and without an error in "
        "any log."
    ),
    action=(
        "Send the lost records again if their source allows it, and close the producer at every way out of the "
        "process, with a time limit long enough to empty the buffer."
    ),
    kinds=frozenset({"producer"}),
    evidence=("absence", "metric", "log"),
    thresholds=Thresholds(),
    confused_with=(
        "A clean close: the log tells of it.",
        "flush() without close(): the buffer was empty when last heard of, unless the last reading is older.",
        "An idle producer that exits without close(): it had nothing to lose.",
        "A network partition or a collector that stalls: the client comes back, and the verdict is withdrawn.",
        "An agent that fails alone: the process goes on logging.",
        "The end of another process at the same place: lines count only for the process that wrote them.",
        "A scale-down of healthy pods: each logs its close.",
    ),
    causes=(
        Cause(
            "exit-without-close",
            "The process ended without close(), so what was still in the buffer was never sent.",
            title="Producer ended without close(), with records undelivered",
            advice={
                "": f"{AGAIN}, and close the producer at every way out of the process, with a time limit long enough "
                "to empty the buffer.",
                "java": f"{AGAIN}, and close the producer at every way out of the process (try-with-resources, a "
                "shutdown hook), with a time limit long enough to empty the buffer.",
                "rdkafka": f"{AGAIN}, and call flush() at every way out of the process, signals too; what it returns "
                "is how many records are still left.",
                "confluent": f"{AGAIN}, and call flush() at every way out of the process, signals too; what it returns "
                "is how many records are still left.",
                "kafka-python": f"{AGAIN}, and call close() at every way out of the process: finally, atexit, a "
                "handler of SIGTERM.",
                "aiokafka": f"{AGAIN}, and await stop() at every way out of the process: finally, a handler of SIGTERM "
                "on the event loop.",
            },
        ),
        Cause(
            "forced-close",
            "close() ran out of its time limit and threw away what was still in the buffer.",
            title="Producer's close() gave up, with records undelivered",
            summary="The producer was closed, ran out of its time limit, and gave up the records still in its buffer.",
            advice={
                "": f"{AGAIN}; find out why the brokers did not take them in time, and give the close more time than "
                "one request may take."
            },
        ),
        Cause(
            "killed",
            "The process was killed or crashed with records still in the buffer.",
            title="Producer's process was killed with records undelivered",
            summary="The producer's process was killed or crashed, with records still in its buffer.",
            advice={
                "": f"{AGAIN}; find out what ended the process (memory, a kill after too short a grace period), and "
                "give it time to close its producer."
            },
        ),
    ),
    judge=judge,
    lines=LINES,
    reads=LINES,
    loses=True,
    explicable=explicable,
    doubt=doubt,
)
