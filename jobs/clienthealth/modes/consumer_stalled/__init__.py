"""A consumer holds partitions, and its poll loop does not come back.

Mechanism. A handler hangs, or needs longer than `max.poll.interval.ms` (5 min by default). The client then leaves its
group by itself; when the handler does return, it joins again, reads the same records and is thrown out again.

What is no such fault. A commit, a flush or a framework waits inside its client while brokers are away, and nobody polls
meanwhile. So all that rests on missing polls needs brokers, and a coordinator, that answered at that time: without them
it accuses nobody (`unknown`), and where no data tells it only suspects. Frames of the application outside of any Kafka
client need no brokers.

What proves it. The client logs that its poll interval has passed, or says so by its metrics: `last-poll-seconds-ago`
or `time-between-poll-max` beyond `max.poll.interval.ms`. Where that option is not known, its default only
suspects, but heartbeats that have stopped while nobody polls prove that the client has left its group. Well before
that an application is suspected that is outside `poll()` (no fetch is sent, heartbeats go on) for much longer than any
time between two polls before, and than its last records would take at the pace before. A consuming
thread of a known framework, or one that an earlier dump found inside `poll()`, at the same frames outside it suspects
a handler that hangs; where it is there no more, or has died in the log, the poll loop has ended. A client up to 2.2
leaves its group in silence, and says only that its commits are refused.

librdkafka hands out its statistics in poll(), and in Python its log too: both stop with it. Where they have ended and
the process demonstrably goes on (its log, a dump, another of its clients), with records waiting at the last reading or
a thread that has not moved since, the consumer is suspected; its own word that the poll interval has passed confirms.
Where nothing shows that the process lives it is `unknown`.

A consumer that has not polled for long, yet may take longer, is no healthy one either: it is `unknown`. One whose
`close()` hangs was told to stop: that is `consumer-shutdown-loop`.

Known gaps. The client's own lag stands still with its polls: a frozen lag is no healthy lag, so it is asked only
whether there ever was something to handle. A thread of an application that no framework runs, and that no dump found
inside poll(), does not show that it polls. A librdkafka consumer that is closed with records waiting, in a process that
goes on, looks like one whose handler hangs: it is suspected, no more. What Kafka Streams restores a state with is not
judged by its polls: they end with the restoring.
"""

from __future__ import annotations

from clienthealth.modes import Cause, LiveMode
from clienthealth.modes.consumer_stalled.lines import ID, LINES
from clienthealth.modes.consumer_stalled.rules import GATE, Thresholds, judge, recovered, silence

MODE = LiveMode(
    id=ID,
    title="Consumer does not come back to poll()",
    summary="The consumer holds partitions, but its application does not come back for more records.",
    impact=(
        "Its partitions are not consumed and their lag grows; beyond max.poll.interval.ms it is thrown out of its "
        "group, and the records that it was handling go to another member, which can hang on them too."
    ),
    action=(
        "Look at what the consuming thread waits for; restart the process once that is known, and give the call in "
        "the handler a timeout."
    ),
    first="Take two thread dumps first, ten seconds apart.",
    caution="Make sure first, and change nothing until then.",
    kinds=frozenset({"consumer"}),
    evidence=("metric", "log", "thread-dump", "absence"),
    thresholds=Thresholds(),
    confused_with=(
        "An idle topic: the consumer polls, there is nothing to get.",
        "Partitions paused on purpose: the application goes on calling poll().",
        "A handler that is slow but returns: polls are rare, yet within max.poll.interval.ms.",
        "One batch that takes far longer than all before: suspected until the application polls again.",
        "A rebalance that ends: the consumer polls all the while.",
        "A broker outage: a commit waits inside the client, so nobody polls; no connection or no answer shows it.",
        "One slow topic among several of one consumer: see cross-topic-blocking, both can be true.",
    ),
    causes=(
        Cause(
            "handler-hangs",
            "A handler does not return, so the consumer never comes back to poll().",
        ),
        Cause(
            "poll-interval-exceeded",
            "A handler takes longer than max.poll.interval.ms, so the consumer is thrown out.",
            title="Consumer's handler takes too long, and it is thrown out",
            advice={"": "Make the handler faster, give it fewer records at a time, or allow more time between polls."},
        ),
        Cause(
            "rejoins",
            "The consumer is thrown out, joins again, reads the same records and hangs again.",
            title="Consumer is thrown out of its group again and again",
            advice={
                "": "Find the record or the call that its handler does not get over: give the call a timeout, and move "
                "a record that cannot be handled to a dead-letter topic. A restart only begins anew."
            },
        ),
        Cause(
            "poll-loop-ended",
            "The thread {thread}, which called poll(), ended by an exception; nobody has called poll() since.",
            "The thread that called poll() has ended, and nobody has called it since.",
            title="Consumer's poll loop has ended",
            advice={
                "": "Read the exception that ended the thread and mend its cause; then restart the process, and let "
                "the loop catch what one record can throw, so that it is not the end of all."
            },
        ),
    ),
    judge=judge,
    lines=LINES,
    reads=LINES,
    gate=GATE,
    recovered=recovered,
    silence=silence,
    sums=frozenset({"times_expired"}),
    peaks=frozenset({"seconds_since_poll"}),
)
