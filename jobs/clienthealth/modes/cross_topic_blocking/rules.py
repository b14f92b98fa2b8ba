"""One slow topic starves the other topics of the same consumer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools
from clienthealth.measure.queue import CHUNKS, Queues, queues
from clienthealth.measure.view import Runs, Windows
from clienthealth.model.metrics import QUEUE_DEFAULTS
from clienthealth.model.readings import Reading, Thread
from clienthealth.model.values import option as option_of
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, listing
from clienthealth.modes import MIN_READINGS, Gate, Limits, LiveMode, Texts, first_reason, flagged, lags, mode_file
from clienthealth.modes._evidence import Fact, conclude, events, has_frame, option, run
from clienthealth.modes._looks import TwoReadings
from clienthealth.modes._polls import seconds_away
from clienthealth.modes.circumstances import coordinator_answers
from clienthealth.modes.cross_topic_blocking.culprit import handled_alone, moved, positions, slow_topic
from clienthealth.modes.held import held
from clienthealth.read.logs.fields import FETCHER_THREAD

FILE = mode_file(__file__)
ID = FILE.id
POLL_EXPIRED = FILE.reads("consumer-stalled.poll-expired")

PUT, ENQUEUE, NEXT = "LinkedBlockingQueue.put", "PartitionTopicInfo.enqueue", "ConsumerIterator.makeNext"


class Thresholds(Limits, of=FILE):
    """Limits that decide whether one topic holds up the other topics of its consumer."""

    suspect_blocked_seconds: float
    confirm_blocked_seconds: float
    victim_share: float
    parked_seconds: float
    librdkafka_full_ratio: float
    slow_poll_seconds: float
    hanging_poll_seconds: float
    shared_queue_seconds: float
    slow_record_seconds: float
    culprit_share: float


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Return this failure mode's verdict on a window. `background` in mode.toml explains the rules."""
    w = window.table
    return (_legacy if window.client.kind == "legacy-consumer" else _modern)(window, w, thresholds)


def without_fetches(w: Windows, limits: Thresholds) -> Runs:
    """Return the stretches of at least `suspect_blocked_seconds` in which an old Scala consumer fetched nothing."""
    runs = w.still("fetch-requests-total")
    return runs.at(runs.seconds >= limits.suspect_blocked_seconds)


def full(topic_queues: Queues, limits: Thresholds) -> Bools:
    """Return one flag per queue: True if a librdkafka queue is filled to `librdkafka_full_ratio` of its limit."""
    return topic_queues.share >= limits.librdkafka_full_ratio


def starving(topic_queues: Queues) -> Bools:
    """Return one flag per queue: True if a librdkafka queue is empty although records wait on the broker."""
    empty: Bools = topic_queues.share == 0
    return empty & (topic_queues.lag > 0)


def held_up(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if librdkafka's last sample has a full queue and a starving topic."""
    of_topics = queues(w)
    culprit = flagged(w, of_topics.window[full(of_topics, limits)])
    victim = flagged(w, of_topics.window[starving(of_topics)])
    return culprit & victim & (w.samples >= MIN_READINGS)


def without_records(w: Windows, limits: Thresholds) -> Runs:
    """Return the stretches of at least `shared_queue_seconds` without a consumed record.

    Windows without `position` in their last sample are left out, because only librdkafka reports `position`.
    """
    runs = w.still("records-consumed-total")
    shown = w.last_knows("position")
    return runs.at((runs.seconds >= limits.shared_queue_seconds) & shown[runs.window])


def in_one_queue(w: Windows) -> Bools:
    """Return one flag per window: True if all topics (two or more) of a librdkafka client share one queue.

    Topics share a queue if they all report the same queue length above 0, and records of each topic wait on the broker.
    """
    of_topics = queues(w)
    least, most = np.full(len(w), np.inf), np.zeros(len(w))
    np.minimum.at(least, of_topics.window, np.where(of_topics.lag > 0, of_topics.share, 0.0))
    np.maximum.at(most, of_topics.window, of_topics.share)
    several = np.bincount(of_topics.window, minlength=len(w)) > 1
    shared: Bools = several & (least == most) & (most > 0)
    return shared


def stays_away(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if a Java application was outside poll() for `slow_poll_seconds`."""
    return (seconds_away(w) >= limits.slow_poll_seconds) & (w.samples >= MIN_READINGS)


def suspects(w: Windows, thresholds: Thresholds) -> Bools:
    """Return one flag per window: True if fetches, queues or polls suggest this failure."""
    if w.kind == "legacy-consumer":
        return flagged(w, without_fetches(w, thresholds).window)
    unfetched = flagged(w, without_records(w, thresholds).window)
    return held_up(w, thresholds) | in_one_queue(w) | stays_away(w, thresholds) | unfetched


BLIND_QUEUES = "the consumer does not report the queue of each topic (metric FetchQueueSize)"
BLIND_POLLS = "the consumer reports neither a queue per topic nor when it polls; Java clients report polls from 2.4 on"


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """Return one text per window: why metrics do not suffice for a verdict; '' if metrics suffice."""
    if w.kind == "legacy-consumer":
        return first_reason(len(w), (BLIND_QUEUES, ~w.has_topics))
    return first_reason(len(w), (BLIND_POLLS, np.isnan(seconds_away(w)) & ~w.last_knows("queue-records")))


GATE = Gate(blind, suspects)


def _topics(reading: Reading, name: str) -> dict[str, float]:
    """Return, for each topic, the greatest value of a metric in the topic's partitions or queues."""
    by_topic: dict[str, float] = {}
    for topic in reading.topics:
        if (value := topic.metrics.get(name)) is not None:
            by_topic[topic.topic] = max(value, by_topic.get(topic.topic, value))
    return by_topic


def _legacy(window: ClientWindow, w: Windows, limits: Thresholds) -> Verdict:
    facts, detail = _blockade(window, w, limits) or ([], {})
    # Without samples, the number of topics is unknown. Assume several topics, so that dumps alone can show the failure.
    several = not window.readings or len({t.topic for r in window.readings for t in r.topics}) > 1
    facts = facts + _parked(window, several, bool(facts), limits)
    return conclude(ID, facts, detail, GATE.reason(w, limits))


def _blockade(window: ClientWindow, w: Windows, limits: Thresholds) -> tuple[list[Fact], dict[str, Any]] | None:
    """Return (facts, detail) on the longest time without fetches in which one queue was full and another was empty."""
    configured = option(window, CHUNKS)
    limit = configured or QUEUE_DEFAULTS[CHUNKS]
    runs = without_fetches(w, limits)
    for at in np.argsort(-runs.seconds, kind="stable"):
        blocked = run(window, "fetch-requests-total", runs.first[at], runs.last[at])
        chunks_of = [_topics(reading, "queue-chunks") for reading in blocked.readings[1:]]
        # If the limit is unknown, a queue that is never empty counts as full.
        least = limit if configured else min(limit, 1)
        at_limit = [t for t in chunks_of[-1] if all(q.get(t, 0) >= least for q in chunks_of)]
        empty = [t for t in chunks_of[-1] if all(q.get(t) == 0 for q in chunks_of)]
        for culprit in at_limit:
            victims = [topic for topic in empty if _is_victim(window, blocked.first, topic, culprit, limits)]
            if victims:
                text = (
                    f"the queue of topic {culprit} stayed at {chunks_of[-1][culprit]:.0f} chunks for "
                    f"{elapsed(blocked.seconds)}, nothing was fetched, and the queue of {listing(victims)} stayed empty"
                )
                full_for_sure = chunks_of[-1][culprit] >= limit and len(blocked.readings) >= MIN_READINGS
                direct = full_for_sure and blocked.seconds >= limits.confirm_blocked_seconds
                fact = Fact.of("metric", blocked.last, text, direct, since=blocked.first)
                shares = {topic: round(min(1.0, chunks / limit), 3) for topic, chunks in chunks_of[-1].items()}
                return [fact], {"culprit": culprit, "victims": victims, "queues": shares}
    return None


def _is_victim(window: ClientWindow, start: Reading, topic: str, culprit: str, limits: Thresholds) -> bool:
    totals = [_topics(r, "messages-total").get(topic) for r in window.readings if r.ts_ms <= start.ts_ms]
    counted = [total for total in totals if total is not None]
    if any(later > earlier for earlier, later in itertools.pairwise(counted)):
        return True
    before = _topics(start, "messages-total")
    return before.get(topic, 0.0) > limits.victim_share * before.get(culprit, 0.0)


def _parked(window: ClientWindow, several_topics: bool, measured: bool, limits: Thresholds) -> list[Fact]:
    """Return facts on fetcher threads that wait for room while consumer threads wait for data."""
    facts: list[Fact] = []
    in_put = held(
        window.dumps,
        lambda _, thread: (thread.state == "WAITING" and has_frame(thread, PUT, ENQUEUE)) or None,
        stays=lambda stay: not stay.cpu_ms,
    )
    for dump in window.dumps:
        every = [t for t in dump.threads if t.name.startswith(FETCHER_THREAD)]
        fetchers = [t for t in every if t.name.startswith(f"{FETCHER_THREAD}{window.client.client_id}_")] or every
        parked = [stay for stay in in_put if stay.dump is dump and stay.thread in fetchers]
        waiting = [t for t in dump.threads if has_frame(t, NEXT) and t.state.endswith("WAITING")]
        others = {_connector(t) for t in fetchers} - {_connector(stay.thread) for stay in parked}
        if not parked or not waiting or (others and not measured) or not (several_topics or measured):
            continue
        stay = parked[0]
        still = stay.seconds >= limits.parked_seconds and stay.cpu_ms == 0
        wait = f"{count_of(len(waiting), 'consumer')} wait for data"
        text = f"the fetcher '{stay.thread.name}' is parked in {PUT}, and {wait}"
        if still:
            text += f"; the fetcher used no CPU for {elapsed(stay.seconds)}"
        facts.append(Fact.of("thread-dump", dump, text, still and not others, since=stay.since_ms))
    return facts


def _connector(fetcher: Thread) -> str:
    return fetcher.name.removeprefix(FETCHER_THREAD).rsplit("-", 2)[0]


def _modern(window: ClientWindow, w: Windows, limits: Thresholds) -> Verdict:
    symptom = _prefetched(window, w, limits) or _one_queue(window, w, limits) or _slow_poll(window, w, limits)
    if symptom is None:
        return conclude(ID, [], {}, GATE.reason(w, limits), _in_turn(window, w, limits) + _away(window, w, limits))
    text = "the client logged that its application had not called poll() in time"
    facts = [*symptom[0], *(Fact.of("log", event, text) for event in events(window, POLL_EXPIRED)[:1])]
    return conclude(ID, facts, symptom[1])


def _prefetched(window: ClientWindow, w: Windows, limits: Thresholds) -> tuple[list[Fact], dict[str, Any]] | None:
    """Judge a librdkafka client with one queue per topic. Return None if there is no failure."""
    if not held_up(w, limits)[0]:
        return None
    over_time, now = queues(w.apart()), queues(w)
    rows = list(dict.fromkeys(over_time.window.tolist()))
    if len(rows) < MIN_READINGS:
        return None

    def always(topics: Any, where: Bools) -> list[int]:
        return [t for t in topics.tolist() if np.count_nonzero(where & (over_time.topic == t)) == len(rows)]

    at_limit = always(now.topic[full(now, limits)], full(over_time, limits))
    victims = always(now.topic[starving(now)], over_time.share == 0)
    if not at_limit or not victims:
        return None
    first, last = window.readings[rows[0]], window.readings[-1]
    names, lag = w.names, dict(zip(now.topic.tolist(), now.lag.tolist(), strict=True))
    text = (
        f"the prefetch queue of topic {names[at_limit[0]]} was full for "
        f"{elapsed((last.ts_ms - first.ts_ms) / 1000)}; meanwhile, the consumer received no records of "
        f"{listing(names[t] for t in victims)}, although {count_of(sum(lag[t] for t in victims), 'record')} waited"
    )
    shares = {
        names[t]: round(min(1.0, share), 3) for t, share in zip(now.topic.tolist(), now.share.tolist(), strict=True)
    }
    detail = {"culprit": names[at_limit[0]], "victims": [names[t] for t in victims], "queues": shares}
    return [Fact.of("metric", last, text, since=first)], detail


def _one_queue(window: ClientWindow, w: Windows, limits: Thresholds) -> tuple[list[Fact], dict[str, Any]] | None:
    """Judge a librdkafka client with one shared queue. Return None if there is no failure."""
    runs = without_records(w, limits)
    for at in np.argsort(-runs.seconds, kind="stable"):
        alone = handled_alone(window.readings[: runs.last[at] + 1], window.readings[runs.first[at]].ts_ms)
        if alone is None or alone.seconds < limits.shared_queue_seconds:
            continue
        rate = alone.records / alone.seconds
        if rate * limits.slow_record_seconds > 1:
            continue
        text = (
            f"the consumer fetched nothing for {elapsed(alone.seconds)}; meanwhile, the application handled "
            f"{rate:.1f} records of {alone.topic} per second and none of {listing(alone.starved)}"
        )
        fact = Fact.of("metric", alone.last, text, since=alone.first)
        return [fact], {"culprit": alone.topic, "victims": list(alone.starved)}
    return None


def _in_turn(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    """Return a fact if an application slowly handles several topics of one queue; else []."""
    positioned = [(reading, at) for reading in window.readings if (at := positions(reading, "position"))]
    if not in_one_queue(w)[0] or len(positioned) < MIN_READINGS:
        return []
    (first, before), (last, now) = positioned[0], positioned[-1]
    handled, seconds = moved(before, now), (last.ts_ms - first.ts_ms) / 1000
    records, waiting = sum(handled.values()), sum(_topics(last, "records-lag").get(topic, 0) for topic in handled)
    slow = records * limits.slow_record_seconds <= seconds
    if len(handled) < 2 or not slow or waiting * seconds < records * limits.shared_queue_seconds:
        return []
    text = (
        f"the application handled {count_of(records, 'record')} of {listing(sorted(handled))} in {elapsed(seconds)}, "
        f"and {waiting:.0f} records wait in the queue that these topics share; statistics do not show whether one "
        "topic holds up the others, or all are handled slowly"
    )
    return [Fact.of("metric", last, text, since=first)]


def _away(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    topics = _with_records(window) if stays_away(w, limits)[0] else []
    first, last = (_topics(window.readings[at], "records-consumed-total") if topics else {} for at in (0, -1))
    stood = [topic for topic in topics if topic in last and last[topic] == first.get(topic)]
    if len(topics) < 2 or not stood:
        return []
    text = f"the application did not call poll() for {elapsed(float(seconds_away(w)[0]))}, and nothing shows whether "
    return [Fact.of("metric", window.readings[-1], f"{text}records of {listing(stood)} waited meanwhile")]


def _with_records(window: ClientWindow) -> list[str]:
    records = ("records-consumed-total", "records-lag")
    return sorted({t.topic for r in window.readings for t in r.topics if any(t.metrics.get(n, 0) > 0 for n in records)})


def _slow_poll(window: ClientWindow, w: Windows, limits: Thresholds) -> tuple[list[Fact], dict[str, Any]] | None:
    """Judge a Java client by its time outside poll(). Return None if there is no failure."""
    if not stays_away(w, limits)[0]:
        return None
    away = float(seconds_away(w)[0])
    topics = _with_records(window)
    consumed = np.fmax(0.0, w.grown("records-consumed-total")[0])
    reading = window.readings[lags(w).last_row(w.lo, w.hi)[0]]
    before, behind = (np.nan_to_num(value[0]) for value in (w.first(lags(w)), w.last(lags(w))))
    culprit = slow_topic(window.readings, limits.slow_poll_seconds / 2, limits.culprit_share)
    grows = behind > 0 and (behind > before or not consumed)
    piles_up = grows and (behind >= consumed or culprit is not None)
    # Old clients do not report polls, and selector metrics may miss a short poll().
    reported = window.readings[-1].get("last-poll-seconds-ago")
    hanging = away if reported is None and not w.reported("time-between-poll-max")[0] else reported or 0.0
    if len(topics) < 2 or not (piles_up or hanging >= limits.hanging_poll_seconds):
        return None
    others = [topic for topic in topics if topic != culprit]
    text = f"the application did not call poll() for {elapsed(away)}, consumed {count_of(consumed, 'record')}"
    text += f", and is {count_of(behind, 'record')} behind on " if piles_up else " meanwhile, and holds up "
    text += listing(topics)
    if culprit:
        text += f"; the more records of {culprit} it consumes, the longer it stays outside poll()"
    since = round(reading.ts_ms - 1000 * away)
    detail = {"culprit": culprit, "victims": others} if culprit else {"topics": topics}
    given = coordinator_answers(window, max(window.readings, key=_seconds_away).ts_ms)
    return [Fact("metric", since, window.readings[-1].ts_ms, text, source=reading.source, given=given)], detail


def _seconds_away(reading: Reading) -> float:
    return max(reading.get("last-poll-seconds-ago") or 0.0, (reading.get("time-between-poll-max") or 0.0) / 1000)


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """Return True if the client fetches or consumes again."""
    counters = ("fetch-requests-total", "records-consumed-total", "fetch-total")
    return any(window.table.rose(name)[0] for name in counters)


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """Yield a reason to take a thread dump: one queue of a Scala consumer stays full while another queue is empty."""
    if readings.before is None:
        return
    limit = option_of(readings.config.get(CHUNKS)) or QUEUE_DEFAULTS[CHUNKS]
    chunks, before = (_topics(reading, "queue-chunks") for reading in (readings.now, readings.before))
    stuck = [topic for topic, queue in chunks.items() if min(queue, before.get(topic, 0.0)) >= limit]
    starving = [topic for topic, queue in chunks.items() if queue == 0]
    if stuck and starving:
        yield f"the queue of {', '.join(stuck)} is full, and the queue of {', '.join(starving)} is empty"


MODE = LiveMode(**FILE.facts(Thresholds()), judge=judge, gate=GATE, recovered=recovered, worth_a_dump=worth_a_dump)
