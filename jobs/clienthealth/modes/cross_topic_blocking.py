"""One slow topic starves the other topics of the same consumer.

Mechanism. In the old Scala consumer one `ConsumerFetcherThread` per broker puts chunks into a short queue per topic
(`queued.max.message.chunks`, 2 by default). When one topic's handler stops taking, its queue fills, the fetcher parks
in `put`, and no other topic of the connector gets data.

What proves it. The culprit's queue stands at its limit, the queues of the others are empty, and the connector's fetch
count stands still: an idle topic is still fetched for. A thread dump shows the fetcher WAITING in
`LinkedBlockingQueue.put` under `PartitionTopicInfo.enqueue`. A healthy fetcher can be caught there too, and with one
connector per topic the paused topic's own fetcher parks there for good reason: so victims must share the connector.

Relatives under the same id: librdkafka (the prefetch queue of one topic at its limit, others empty with data waiting)
and the Java consumer (a slow handler in a single poll loop: it stays away from `poll()`, and falls behind on all of
its topics). Both show only in metrics, so they stay suspected until the client logs that its poll interval expired.

Known gaps. `MaxLag` and `ConsumerLag` stand at 0 throughout, as they are set when a response is processed: a frozen
lag is no healthy lag. The log is silent. With several brokers only the fetcher of one is blocked: the fetch count of
the connector goes on, and a thread dump has to tell. The Java consumer does not say which topic's handler is slow,
and updates the lag of a partition only when it returns records of it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clienthealth.logs.signatures import BLOCKING
from clienthealth.modes import MIN_READINGS, FailureMode, threshold
from clienthealth.modes._evidence import (
    Fact,
    conclude,
    count,
    duration,
    events,
    has_frame,
    listing,
    option,
    runs,
    values,
)
from clienthealth.records import ClientWindow, Reading, Thread, ThreadDump, TopicReading, Verdict

if TYPE_CHECKING:
    from pyspark.sql import Column

    from clienthealth.windows import WindowColumns

FETCHER = "ConsumerFetcherThread-"
PUT, ENQUEUE, NEXT = "LinkedBlockingQueue.put", "PartitionTopicInfo.enqueue", "ConsumerIterator.makeNext"
POLL_EXPIRED = ("poll-timeout-expired", "librdkafka-poll-interval-exceeded")
DEFAULT_CHUNKS = 2.0
DEFAULT_MIN_MESSAGES = 100_000.0
DEFAULT_MAX_KBYTES = 65_536.0


@dataclass(frozen=True)
class Thresholds:
    """When a full queue is a blockade."""

    suspect_blocked_seconds: float = threshold(
        5.0, "fetches stand still for so long: healthy connectors fetched at every reading, 1 s apart"
    )
    confirm_blocked_seconds: float = threshold(
        20.0, "and for so long they are not waiting for a broker or a rebalance: either empties the culprit's queue"
    )
    victim_share: float = threshold(
        0.01, "a topic with fewer of the culprit's messages than this share is idle: it has nothing to starve of"
    )
    parked_seconds: float = threshold(
        5.0, "the same fetcher parked in put in dumps so far apart, without CPU: a healthy one moves within 0.1 s"
    )
    librdkafka_full_ratio: float = threshold(0.99, "prefetch queue at its limit: librdkafka stops fetching there")
    slow_poll_seconds: float = threshold(
        10.0, "no poll for so long: healthy consumers came back within 0.8 s, one with a slow handler after 25 s"
    )


def judge(window: ClientWindow, now_ms: int, thresholds: Thresholds) -> Verdict:
    """See the module's docstring for the rules."""
    if window.client.kind == "legacy-consumer":
        return _legacy(window, thresholds)
    return _modern(window, thresholds)


def _topics(reading: Reading, name: str) -> dict[str, float]:
    """A metric by topic: the largest over the topic's partitions and threads."""
    found: dict[str, float] = {}
    for topic in reading.topics:
        value = topic.metrics.get(name)
        if value is not None:
            found[topic.topic] = max(value, found.get(topic.topic, value))
    return found


# --- the old Scala consumer -------------------------------------------------------------------------------------


def _legacy(window: ClientWindow, limits: Thresholds) -> Verdict:
    blockade = _blockade(window, limits)
    facts, detail = blockade if blockade else ([], {})
    several = len({t.topic for r in window.readings for t in r.topics}) > 1
    facts = facts + _parked(window, several, bool(facts), limits)
    return conclude(BLOCKING, facts, detail, None if facts else _blindness(window))


def _blockade(window: ClientWindow, limits: Thresholds) -> tuple[list[Fact], dict[str, Any]] | None:
    """The longest stretch over which nothing was fetched while one topic's queue was full and others were empty."""
    limit = option(window, "queued.max.message.chunks") or DEFAULT_CHUNKS
    for run in sorted(runs(window, "fetch-requests-total"), key=lambda run: -run.seconds):
        if run.seconds < limits.suspect_blocked_seconds:
            break
        queues = [_topics(reading, "queue-chunks") for reading in run.readings[1:]]
        full = [t for t in queues[-1] if all(q.get(t, 0) >= limit for q in queues)]
        empty = [t for t in queues[-1] if all(q.get(t) == 0 for q in queues)]
        for culprit in full:
            victims = [topic for topic in empty if _is_victim(window, run.first, topic, culprit, limits)]
            if victims:
                text = (
                    f"the queue of topic {culprit} stood at {queues[-1][culprit]:.0f} chunks for "
                    f"{duration(run.seconds)}, nothing was fetched, and {listing(victims)} had nothing in the queue"
                )
                direct = run.seconds >= limits.confirm_blocked_seconds and len(run.readings) >= MIN_READINGS
                fact = Fact("metric", run.first.ts_ms, run.last.ts_ms, text, direct, run.last.source)
                shares = {topic: round(min(1.0, chunks / limit), 3) for topic, chunks in queues[-1].items()}
                return [fact], {"culprit": culprit, "victims": victims, "queues": shares}
    return None


def _is_victim(window: ClientWindow, start: Reading, topic: str, culprit: str, limits: Thresholds) -> bool:
    """Had the topic messages before it was cut off: in this window, or as many that it cannot be idle?"""
    totals = [_topics(r, "messages-total").get(topic) for r in window.readings if r.ts_ms <= start.ts_ms]
    known = [total for total in totals if total is not None]
    if any(later > earlier for earlier, later in itertools.pairwise(known)):
        return True
    before = _topics(start, "messages-total")
    return before.get(topic, 0.0) > limits.victim_share * before.get(culprit, 0.0)


def _parked(window: ClientWindow, several_topics: bool, measured: bool, limits: Thresholds) -> list[Fact]:
    """Fetchers parked in `put` while consumers of their connector wait for data."""
    facts: list[Fact] = []
    earlier: dict[str, tuple[ThreadDump, Thread]] = {}
    for dump in window.dumps:
        fetchers = _own([t for t in dump.threads if t.name.startswith(FETCHER)], window)
        parked = [t for t in fetchers if t.state == "WAITING" and has_frame(t, PUT, ENQUEUE)]
        waiting = [t for t in dump.threads if has_frame(t, NEXT) and t.state.endswith("WAITING")]
        others = {_connector(t) for t in fetchers} - {_connector(t) for t in parked}
        if not parked or not waiting or (others and not measured) or not (several_topics or measured):
            continue
        thread = parked[0]
        before, same = earlier.setdefault(thread.name, (dump, thread))
        apart = (dump.ts_ms - before.ts_ms) / 1000
        still = apart >= limits.parked_seconds and same.cpu_ms == thread.cpu_ms is not None
        text = f"the fetcher '{thread.name}' is parked in {PUT} and {count(len(waiting), 'consumer')} wait for data"
        if still:
            text += f"; it used no CPU for {duration(apart)}"
        facts.append(Fact("thread-dump", before.ts_ms, dump.ts_ms, text, still and not others, dump.source))
    return facts


def _own(fetchers: list[Thread], window: ClientWindow) -> list[Thread]:
    """The fetchers whose consumer id begins with the client's id (its group's name by default), if there are such."""
    mine = [t for t in fetchers if t.name.startswith(f"{FETCHER}{window.client.client_id}_")]
    return mine or fetchers


def _connector(fetcher: Thread) -> str:
    return fetcher.name.removeprefix(FETCHER).rsplit("-", 2)[0]


# --- librdkafka and the Java consumer ---------------------------------------------------------------------------


def _modern(window: ClientWindow, limits: Thresholds) -> Verdict:
    found = _prefetched(window, limits) or _slow_poll(window, limits)
    facts, detail = found if found else ([], {})
    if facts:
        for event in events(window, *POLL_EXPIRED)[:1]:
            text = "the client logged that its application had not called poll() in time"
            facts = [*facts, Fact("log", event.ts_ms, event.ts_ms, text, source=event.source)]
    return conclude(BLOCKING, facts, detail, None if facts else _blindness(window))


def _prefetched(window: ClientWindow, limits: Thresholds) -> tuple[list[Fact], dict[str, Any]] | None:
    """librdkafka: one topic's prefetch queue full, another topic's empty although it has lag, none being consumed."""
    records = option(window, "queued.min.messages") or DEFAULT_MIN_MESSAGES
    kbytes = option(window, "queued.max.messages.kbytes") or DEFAULT_MAX_KBYTES
    readings = [r for r in window.readings if any("queue-records" in t.metrics for t in r.topics)]
    if len(readings) < MIN_READINGS or readings[-1] is not window.readings[-1]:
        return None
    used = [_summed(r, {"queue-records": records, "queue-bytes": kbytes * 1024}) for r in readings]
    full = [t for t in used[-1] if all(u.get(t, 0) >= limits.librdkafka_full_ratio for u in used)]
    lag = _topics(readings[-1], "records-lag")
    victims = [t for t in used[-1] if all(u.get(t) == 0 for u in used) and lag.get(t, 0) > 0]
    if not full or not victims:
        return None
    first, last = readings[0], readings[-1]
    text = (
        f"the prefetch queue of topic {full[0]} was at its limit for {duration((last.ts_ms - first.ts_ms) / 1000)}, "
        f"while {listing(victims)} got nothing with {count(sum(lag[t] for t in victims), 'record')} waiting"
    )
    shares = {topic: round(min(1.0, share), 3) for topic, share in used[-1].items()}
    detail = {"culprit": full[0], "victims": victims, "queues": shares}
    return [Fact("metric", first.ts_ms, last.ts_ms, text, source=last.source)], detail


def _summed(reading: Reading, limits: Mapping[str, float]) -> dict[str, float]:
    """By topic, how full its queue is: records by partition, bytes over all partitions."""
    shares: dict[str, float] = defaultdict(float)
    size: dict[str, float] = defaultdict(float)
    for topic in reading.topics:
        if "queue-records" in topic.metrics:
            share = topic.metrics["queue-records"] / limits["queue-records"]
            shares[topic.topic] = max(shares[topic.topic], share)
            size[topic.topic] += topic.metrics.get("queue-bytes", 0.0)
    return {topic: max(share, size[topic] / limits["queue-bytes"]) for topic, share in shares.items()}


def _slow_poll(window: ClientWindow, limits: Thresholds) -> tuple[list[Fact], dict[str, Any]] | None:
    """Java: the application stays away from poll(), and what it has of two topics or more piles up."""
    away = max(values(window, "last-poll-seconds-ago"), default=0.0)
    away = max(away, max(values(window, "time-between-poll-max"), default=0.0) / 1000)
    lags = [(reading, lag) for reading in window.readings if (lag := _lag(reading)) is not None]
    if len(window.readings) < MIN_READINGS or not lags or away < limits.slow_poll_seconds:
        return None
    topics = sorted({t.topic for r in window.readings for t in r.topics if _has_data(t)})
    counts = values(window, "records-consumed-total")
    consumed = max(0.0, counts[-1] - counts[0]) if counts else 0.0
    (_, before), (reading, behind) = lags[0], lags[-1]
    if len(topics) < 2 or behind <= 0 or behind < consumed or (behind <= before and consumed):
        return None
    text = (
        f"the application stayed away from poll() for {duration(away)}, consumed {count(consumed, 'record')} "
        f"and is {count(behind, 'record')} behind on {listing(topics)}"
    )
    since = round(reading.ts_ms - 1000 * away)
    return [Fact("metric", since, window.readings[-1].ts_ms, text, source=reading.source)], {"victims": topics}


def _has_data(topic: TopicReading) -> bool:
    return (topic.metrics.get("records-consumed-total") or topic.metrics.get("records-lag") or 0) > 0


def _lag(reading: Reading) -> float | None:
    """How far the consumer is behind: over all partitions, or on the worst where only that is told."""
    by_partition = [t.metrics["records-lag"] for t in reading.topics if "records-lag" in t.metrics]
    worst = reading.get("records-lag-max")
    told = [sum(by_partition)] if by_partition else []
    return max([*told, *([] if worst is None else [worst])], default=None)


# --- what cannot be judged --------------------------------------------------------------------------------------


def _blindness(window: ClientWindow) -> str | None:
    if len(window.readings) < MIN_READINGS:
        return f"fewer than {MIN_READINGS} readings"
    if window.client.kind == "legacy-consumer":
        return None if any(r.topics for r in window.readings) else BLIND_QUEUES
    polls = any(values(window, name) for name in ("last-poll-seconds-ago", "time-between-poll-max"))
    queues = any("queue-records" in topic.metrics for topic in window.readings[-1].topics)
    return None if polls or queues else BLIND_POLLS


BLIND_QUEUES = "the consumer does not report the queue of each topic (FetchQueueSize)"
BLIND_POLLS = "the consumer reports neither the time of its polls (Java clients from 2.4 on) nor a queue per topic"


def suspects(w: WindowColumns, thresholds: Thresholds) -> Column:
    """Fetches that stood still, a fetcher in `put`, a full prefetch queue, or a poll that stays away."""
    from pyspark.sql import functions as F

    legacy = w.stood_still("fetch-requests-total") | w.has_frame(PUT)
    away = F.greatest(w.max("last-poll-seconds-ago"), w.max("time-between-poll-max") / 1000)
    slow = F.coalesce(away >= thresholds.slow_poll_seconds, F.lit(False))
    queued = F.coalesce((w.topic_max("queue-records") > 0) | (w.topic_max("queue-bytes") > 0), F.lit(False))
    return F.when(w.kind == "legacy-consumer", legacy).otherwise(slow | queued)


def blind(w: WindowColumns, thresholds: Thresholds) -> Column:
    """No queue per topic, and no time of the polls."""
    from pyspark.sql import functions as F

    polls = w.known("last-poll-seconds-ago") | w.known("time-between-poll-max")
    records = w.topic_max("queue-records").isNotNull()
    return F.when((w.kind == "legacy-consumer") & ~w.has_topics(), F.lit(BLIND_QUEUES)).when(
        (w.kind == "consumer") & ~polls & ~records, F.lit(BLIND_POLLS)
    )


MODE = FailureMode(
    id=BLOCKING,
    title="One slow topic blocks the others",
    summary="One topic that is not consumed holds up all other topics of the same consumer.",
    impact="Topics whose own handlers are idle get no data, their lag grows, and lag metrics of the client stay at 0.",
    action=(
        "Look at the handler of the culprit topic; then give each topic its own connector or consumer, or move slow "
        "work out of the consuming thread to a pool."
    ),
    kinds=frozenset({"legacy-consumer", "consumer"}),
    evidence=("metric", "thread-dump", "log"),
    thresholds=Thresholds(),
    confused_with=(
        "Idle topics: their consumers wait in the same place, but fetches go on.",
        "A busy fetcher caught RUNNABLE or for a moment WAITING in put: it moves on.",
        "One connector per topic, which is the remedy: only the paused topic's own fetcher is parked.",
        "A consumer of one topic that is merely slow: nobody else waits for it.",
        "A broker outage: fetches stand still, but no queue is full.",
    ),
    judge=judge,
    suspects=suspects,
    blind=blind,
)
