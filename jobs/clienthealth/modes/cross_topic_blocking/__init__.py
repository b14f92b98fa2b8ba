"""One slow topic starves the other topics of the same consumer.

Mechanism. In the old Scala consumer one `ConsumerFetcherThread` per broker puts chunks into a short queue per topic
(`queued.max.message.chunks`, 2 by default). When one topic's handler stops taking, its queue fills, the fetcher parks
in `put`, and no other topic of the connector gets data.

What proves it. The culprit's queue stands at its limit, the queues of the others are empty, and the connector's fetch
count stands still: an idle topic is still fetched for. A thread dump shows the fetcher WAITING in
`LinkedBlockingQueue.put` under `PartitionTopicInfo.enqueue`. A healthy fetcher can be caught there too, and with one
connector per topic the paused topic's own fetcher parks there for good reason: so victims must share the connector.

Two relatives have the same id. librdkafka: the prefetch queue of one topic is at its limit, and others are empty with
data waiting. Where all topics share one queue to the application, that queue is full of the records of a slow topic,
and nothing is fetched: the lag of the others is that of the last fetch then, 0 maybe. The Java consumer: a slow handler
in a single poll loop stays away from `poll()`, and all topics fall behind. Both show only in metrics, so they stay
suspected until the client logs that its poll interval expired.

Known gaps. Where records of all topics come in turn through librdkafka's one queue, all lags grow alike, be it that one
handler is slow or all are: its statistics do not tell which, so it is unknown. `MaxLag` and `ConsumerLag` stand at 0
throughout, as they are set when a response is processed: a frozen lag is no healthy lag. The log is silent. With
several brokers only the fetcher of one is blocked: the fetch count of the connector goes on, and a thread dump has to
tell. The Java consumer does not say which topic's handler is slow, and updates the lag of a partition only when it
returns records of it. Before 2.4 it does not tell when it polls: its selector, in which an application waits inside
poll() and the heartbeats do not, shows it. Where it tells its positions, the culprit is the topic whose records the
time away from `poll()` goes with.
"""

from __future__ import annotations

from clienthealth.modes import Cause, LiveMode
from clienthealth.modes.cross_topic_blocking.health import worth_a_dump
from clienthealth.modes.cross_topic_blocking.lines import ID, LINES
from clienthealth.modes.cross_topic_blocking.rules import GATE, Thresholds, judge, recovered

MODE = LiveMode(
    id=ID,
    title="One slow topic blocks the others",
    summary="One topic that is not consumed holds up all other topics of the same consumer.",
    impact="Topics whose own handlers are idle get no data, their lag grows, and lag metrics of the client stay at 0.",
    action=(
        "Look at the handler of the culprit topic; then give each topic its own consumer, or move slow "
        "work out of the consuming thread to a pool."
    ),
    kinds=frozenset({"legacy-consumer", "consumer"}),
    evidence=("metric", "thread-dump", "log"),
    thresholds=Thresholds(),
    confused_with=(
        "Idle topics: their consumers wait in the same place, but fetches go on.",
        "A busy fetcher caught for a moment at a full queue: it moves on.",
        "One consumer per topic, which is the remedy: only the paused topic's own fetcher waits.",
        "A consumer of one topic that is merely slow: nobody else waits for it.",
        "A broker outage: fetches stand still, but no queue is full.",
    ),
    causes=(
        Cause(
            "",
            "The topic {culprit} is not consumed, so its full queue holds up {victims}.",
            vague="The application stays with the records of some topic, and those of the others wait meanwhile.",
        ),
    ),
    judge=judge,
    lines=LINES,
    reads=LINES,
    gate=GATE,
    recovered=recovered,
    worth_a_dump=worth_a_dump,
)
