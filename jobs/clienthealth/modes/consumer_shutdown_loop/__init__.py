"""A consumer that is to stop never does: it loops, looking for its offset manager.

Mechanism (Scala consumer 0.8.2 and storm-kafka). At exit the thread that commits offsets carries its interrupt flag,
so every `SocketChannel.connect` throws `ClosedByInterruptException`. That is swallowed, and
`ClientUtils.channelToOffsetManager` tries again without a pause and without a look at the flag. The process never
ends, keeps its partitions, takes a CPU and fills the disk with one log line.

What proves it. The same broker failing again and again with no pause, or a thread RUNNABLE under
`channelToOffsetManager` that used CPU between two dumps: a look-up that merely waits sleeps or sits in a connect. But
the stock client spins in the same way while a broker that has died is still listed in ZooKeeper, for as long as its
session lasts (6 s by default). Then other threads miss that broker too and say so, several times a second.

Relatives, told apart by `detail.cause`: `endless-lookup` is the above. `threads-left-behind`: the stock connector,
interrupted in `shutdown()`, logs an error and completes all the same, leaves a fetcher thread behind that is no
daemon, and the JVM never exits. `close-hangs`: the `close()` of a consumer of the Java client does not come back, as
a rebalance listener, an interceptor or an unbounded timeout holds it. It is here and not under `consumer-stalled`
because it was told to stop: nobody expects it to poll, and what helps is the same, to kill it.

Known gaps. The connector's MBeans vanish or freeze at shutdown, so metrics cannot show it. Of a storm only one line
per tenth of a second is kept, so rates are lower bounds. A `close()` shows in thread dumps; its log says where it
begins only when it gets as far as leaving the group (3.0 and newer).
"""

from __future__ import annotations

from clienthealth.modes import Cause, LiveMode
from clienthealth.modes.consumer_shutdown_loop.health import doubt, worth_a_dump
from clienthealth.modes.consumer_shutdown_loop.lines import ID, LINES
from clienthealth.modes.consumer_shutdown_loop.rules import GATE, Thresholds, judge, recovered
from clienthealth.modes.consumer_stalled.lines import ID as CONSUMER_STALLED

MODE = LiveMode(
    id=ID,
    title="Consumer stuck in an endless shutdown",
    summary="The consumer was told to stop and never does: its process stays alive and holds its partitions.",
    impact=(
        "Its partitions are consumed by nobody while the process lives, one CPU is busy, and its log can grow by "
        "megabytes a second."
    ),
    action=(
        "Kill the process (kill -9; a normal stop cannot work) and see that its partitions move; then mend what keeps "
        "it from ending: a thread that is interrupted while it commits, a close() without a timeout."
    ),
    caution="Make sure first, and change nothing until then.",
    kinds=frozenset({"legacy-consumer", "consumer"}),
    evidence=("log", "thread-dump", "metric"),
    logs_on=True,
    thresholds=Thresholds(),
    confused_with=(
        "A healthy start: the same line appears once before the coordinator is found.",
        "A coordinator that restarts: one line a second, then it recovers.",
        "A coordinator that crashed: the same spinning until it is dropped; other threads miss that broker too.",
        "A look-up that waits for a dead host: the thread sits in a connect or sleeps, and uses no CPU.",
        "A clean shutdown: 'shutdown completed' follows within a second.",
        "A close() whose brokers are out of reach: it gives up after 30 s by default.",
    ),
    causes=(
        Cause(
            "endless-lookup",
            "The thread that commits offsets is interrupted and looks for its broker {broker} for ever, without "
            "a pause.",
            vague=(
                "The thread that commits offsets is interrupted and looks for its broker for ever, without a pause."
            ),
            advice={
                "": "Kill the process (kill -9; a normal stop cannot work) and see that its partitions move; then "
                "commit offsets before the thread is interrupted, or replace the old consumer."
            },
        ),
        Cause(
            "threads-left-behind",
            "The shutdown failed half-way and left a thread behind that keeps the process alive.",
            title="Consumer's shutdown left a thread behind",
            advice={
                "": "Kill the process (kill -9) and see that its partitions move; then let nobody interrupt the thread "
                "that shuts the consumer down, or replace the old consumer."
            },
        ),
        Cause(
            "close-hangs",
            "The consumer's close() does not return.",
            title="Consumer's close() does not return",
            advice={
                "": "End the process, so that its partitions move; then give the close a timeout, and what its "
                "rebalance listener calls, too."
            },
        ),
    ),
    judge=judge,
    lines=LINES,
    reads=LINES,
    gate=GATE,
    recovered=recovered,
    explains=frozenset({CONSUMER_STALLED}),
    doubt=doubt,
    worth_a_dump=worth_a_dump,
    needs_times="the same line again and again, but without times nobody can say whether it paused in between",
)
