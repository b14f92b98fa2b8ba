"""A consumer holds partitions, but its application has stopped calling poll()."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import replace

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools, Column, Floats
from clienthealth.measure.view import Windows
from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, quoted
from clienthealth.modes import MIN_READINGS, Gate, Limits, LiveMode, Texts, first_reason, lags, lasted, mode_file
from clienthealth.modes._evidence import (
    Fact,
    captured,
    conclude,
    counted,
    deadlock,
    events,
    innermost,
    moments,
    number_or_none,
    occurrences,
    reported,
    stated,
    with_counts,
)
from clienthealth.modes._io_thread import idles, in_foreign_code, places, waits, where_they_were
from clienthealth.modes._polls import (
    CLOSED,
    CLOSES,
    ENDED,
    HEARTBEAT_SECONDS,
    SILENT,
    UNREPORTED,
    has_polled,
    listed,
    outside,
    polled_ms,
    pushes,
    reports_in_poll,
    reports_only_in_poll,
    seconds_away,
    seconds_since,
    statistics_ended,
)
from clienthealth.modes.circumstances import answered_at, coordinator_answers, inside_the_client, unless_away
from clienthealth.modes.held import Held, held
from clienthealth.read.logs.dumps import in_container, polls_for

FILE = mode_file(__file__)
ID = FILE.id
POLL_EXPIRED, COMMIT_REFUSED, DIED, HELD = map(FILE.reads, ("poll-expired", "commit-refused", "thread-died", "held"))

#: The end of a thread explains missing polls if it is at most SAME_END_MS (ms) before or after the last poll.
SAME_END_MS = 5000
#: Suffix of the client ids of restore consumers, which Kafka Streams polls only while it restores state.
_RESTORES = "-restore-consumer"
#: A client counts as inside poll() if it waited in the selector less than WAITED_SECONDS before its last sample.
WAITED_SECONDS = 10.0


class Thresholds(Limits, of=FILE):
    """Limits that decide whether a poll loop is stalled."""

    assumed_poll_interval_seconds: float
    suspect_share: float
    outside_seconds: float
    outside_margin: float
    heartbeats_gone_seconds: float
    min_rebalances_repeats: int
    shortest_lock_seconds: float
    circling_away_seconds: float
    same_frames_seconds: float
    waits_seconds: float
    silent_seconds: float


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Return this failure mode's verdict on a window. `background` in mode.toml explains the rules."""
    w = window.table
    stuck, threads = _dumped(window, w, thresholds)
    facts = [*_measured(window, w, thresholds), *_logged(window, w, thresholds), *threads]
    # If there are other facts, `_outside` is not used: a dump may already show the slow batch that `_outside` would
    # report, and one batch must not count twice.
    if not facts and (facts := _outside(window, w, thresholds)):
        stuck = {"cause": "handler-hangs"}
    facts += [*_refused_commits(window, thresholds), *stated(window, HELD)]
    detail = {
        "cause": _cause(window, w, thresholds),
        **stuck,
        "partitions": number_or_none(w.last("assigned-partitions")[0]),
        "lag": number_or_none(w.max(lags(w))[0]),
        "seconds_since_poll": number_or_none(w.last("last-poll-seconds-ago")[0]),
    }
    return with_counts(
        conclude(ID, facts, detail, GATE.reason(w, thresholds), doubts=_silence(window, w, thresholds)),
        counted(window, "times_expired", "log", occurrences(window, POLL_EXPIRED)),
        counted(window, "commits_refused", "log", occurrences(window, COMMIT_REFUSED)),
    )


def interval(w: Windows) -> Floats:
    """Return, for each window, the configured max.poll.interval.ms in seconds; NaN if unknown."""
    return w.option("max.poll.interval.ms") / 1000


def idle(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if the consumer need not poll.

    One of three facts is enough:
    - The consumer has no partitions, and has not stopped its heartbeats (`left`). If it has stopped its heartbeats, the
      consumer may have lost its partitions because of late polls (KIP-848), so it must poll.
    - The consumer has no lag, and never consumed a record.
    - The consumer only restores state of Kafka Streams.
    """
    consumed, lag = w.last("records-consumed-total"), w.max(lags(w))
    restores = np.array([client.group.endswith(_RESTORES) for client in w.about()], np.bool_)
    nothing: Bools = ((consumed == 0) & ~(lag > 0)) | restores
    nothing |= (w.max("assigned-partitions") == 0) & ~left(w, limits)
    return nothing


def assigns(w: Windows) -> Bools:
    """Return one flag per window: True if the consumer chose its partitions by assign(), so it is in no group.

    No group removes such a consumer, however rarely it polls. It never joins a group and sends no heartbeats. If a
    client reports only increments of its counters, it may have joined its group before its first sample.
    """
    from_start = np.array([client.whole for client in w.about()], np.bool_)
    alone: Bools = (w.max("assigned-partitions") > 0) & (w.max("rebalance-total") == 0) & from_start
    return alone & ~w.reported("last-heartbeat-seconds-ago")


def takes(w: Windows) -> Bools:
    """Return one flag per window: True if a librdkafka consumer's positions rose, or its lag is 0 at the end."""
    positions = w.once_for_rows("consumer: positions", lambda: Column(w.summed("position")))
    taken: Bools = w.reported(positions) & (w.rose(positions) | (w.last(lags(w)) == 0))
    return taken


def too_long(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if a group's consumer that must poll was outside poll() for too long.

    One of three signs is enough:
    - The consumer was outside poll() for max.poll.interval.ms (or the option's default).
    - The time since the consumer's last poll is at least `suspect_share` of max.poll.interval.ms.
    - The consumer stopped its heartbeats, as the function `left` finds.
    """
    seconds = seconds_away(w)
    suspected: Bools = (w.samples >= MIN_READINGS) & ~np.isnan(seconds)
    some = np.flatnonzero(suspected)
    if len(some):
        sub = w.at(some)
        configured = interval(sub)
        most = np.where(np.isnan(configured), limits.assumed_poll_interval_seconds, configured)
        hanging = sub.last("last-poll-seconds-ago") >= limits.suspect_share * most
        long = (seconds[some] >= most) | hanging | left(sub, limits)
        suspected[some] = long & ~idle(sub, limits) & ~assigns(sub)
    return suspected


def left(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if the client stopped its heartbeats, perhaps because of missing polls.

    The client also stops its heartbeats if its coordinator does not answer.
    """
    polled, beat = w.last("last-poll-seconds-ago"), w.last("last-heartbeat-seconds-ago")
    gone: Bools = (beat >= limits.heartbeats_gone_seconds) & (polled - beat >= HEARTBEAT_SECONDS)
    gone &= ~(polled < limits.suspect_share * interval(w))
    standing = w.grown("last-poll-seconds-ago") > 0
    return gone & standing & (w.grown("last-heartbeat-seconds-ago") > 0)


def circling(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if the group repeatedly removes the consumer for polling too rarely.

    A consumer that polls too rarely joins its group repeatedly, and its lag grows. Before each join, the consumer is
    outside poll() for about `seconds_away`. So if slow polls cause all joins, successive joins are about `seconds_away`
    apart. If the window is shorter than `seconds_away` × (number of joins − 1), other members caused some of the joins.
    Other members also caused the joins if `seconds_away` is less than `suspect_share` of a known max.poll.interval.ms.
    """
    rejoins, away = w.grown("rebalance-total"), seconds_away(w)
    circles: Bools = (rejoins >= limits.min_rebalances_repeats) & (w.samples >= MIN_READINGS)
    circles &= (away >= limits.circling_away_seconds) & (w.grown(lags(w)) > 0)
    circles &= ~(away < limits.suspect_share * interval(w))
    return circles & ((rejoins - 1) * away <= lasted(w))


def outlasting_locks(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if brokers refuse a share consumer's acknowledgements.

    The consumer's locks on records may have expired while the consumer was outside poll().
    """
    refused: Bools = w.grown("acknowledgements-error-total") > 0
    return refused & (seconds_away(w) >= limits.shortest_lock_seconds)


def silent(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if a consumer that must poll has not polled for `silent_seconds`."""
    silent_long: Bools = (seconds_since(w) >= limits.silent_seconds) & (w.samples >= MIN_READINGS)
    return silent_long & ~idle(w, limits)


def unseen(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if a client that does not report polls (Java up to 2.3) sends no fetch."""
    reported = w.reported("last-poll-seconds-ago") | w.reported("time-between-poll-max")
    counted = (w.count("fetch-total") >= MIN_READINGS) & ~w.rose("fetch-total")
    return counted & ~reported & ~idle(w, limits)


def suspects(w: Windows, thresholds: Thresholds) -> Bools:
    """Return one flag per window: True if the application was outside poll() for too long, or perhaps never polls."""
    long = too_long(w, thresholds) | silent(w, thresholds) | outlasting_locks(w, thresholds)
    return long | circling(w, thresholds) | unseen(w, thresholds)


BLIND_POLLS = "the consumer does not report when it polls; Java clients report this from version 2.4 on"


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """Return one text per window: why metrics do not suffice for a verdict; '' if metrics suffice."""
    return first_reason(len(w), (BLIND_POLLS, np.isnan(seconds_away(w)) & ~takes(w)))


GATE = Gate(blind, suspects)


def _measured(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    if not too_long(w, limits)[0]:
        return _circles(window, w, limits)
    configured = number_or_none(interval(w)[0])
    most = limits.assumed_poll_interval_seconds if configured is None else configured
    seconds, last = float(seconds_away(w)[0]), window.readings[-1]
    hanging = number_or_none(w.last("last-poll-seconds-ago")[0])
    gone = bool(left(w, limits)[0])
    if hanging is not None and (gone or hanging >= limits.suspect_share * most):
        text = f"the application has not called poll() for {elapsed(hanging)}"
        since = round(last.ts_ms - 1000 * hanging)
        passed = since + round(1000 * most)
        at_ms = passed if window.start_ms <= passed < last.ts_ms else last.ts_ms
        if gone:
            at_ms = last.ts_ms - round(1000 * float(w.last("last-heartbeat-seconds-ago")[0]))
    else:
        text = f"the application called poll() again only after {elapsed(seconds)}"
        since = round(last.ts_ms - 1000 * seconds)
        known = window.known_readings
        away = [r.ts_ms for r in window.readings if (r.get("last-poll-seconds-ago") or 0) >= most]
        back = [r.ts_ms for r in known if (r.get("time-between-poll-max") or 0) >= 1000 * most]
        at_ms = next(ms for ms in (*back[:1], *away[-1:], last.ts_ms) if ms >= window.start_ms or not away)
    if gone:
        text += f", and the client sent no heartbeat for {elapsed(w.last('last-heartbeat-seconds-ago')[0])}"
    else:
        text += f"; max.poll.interval.ms is {elapsed(most)}{'' if configured is not None else ' by default'}"
    beyond = seconds >= most and configured is not None
    return [Fact.of("metric", last, text, beyond or gone, since=since, given=answered_at(window, at_ms))]


def _unless_away(window: ClientWindow, seconds: float, text: str) -> list[Fact]:
    last = window.readings[-1]
    given = coordinator_answers(window, last.ts_ms)
    return [Fact.of("metric", last, text, since=round(last.ts_ms - 1000 * seconds), given=given)]


def _circles(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    locks_expire, seconds = outlasting_locks(w, limits)[0], lasted(w)[0]
    if not locks_expire and not circling(w, limits)[0]:
        return []
    often, away = f"in {elapsed(seconds)}", f"up to {elapsed(seconds_away(w)[0])} passed between polls"
    if locks_expire:
        refused = count_of(w.grown("acknowledgements-error-total")[0], "acknowledgement")
        text = f"brokers refused {refused} {often}, because the consumer's locks on records had expired; {away}"
    else:
        joined, lag = w.grown("rebalance-total")[0], count_of(w.grown(lags(w))[0], "record")
        text = f"the consumer joined its group {joined:.0f} times {often}; {away}, and its lag grew by {lag}"
    return _unless_away(window, seconds, text)


def _silence(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    seconds = float(seconds_since(w)[0])
    if silent(w, limits)[0]:
        most = number_or_none(interval(w)[0])
        text = f"the application has not called poll() for {elapsed(seconds)}; max.poll.interval.ms is "
        text += elapsed(most) if most else f"{elapsed(limits.assumed_poll_interval_seconds)} by default"
        return _unless_away(window, seconds, text)
    if not unseen(w, limits)[0]:
        return []
    text = f"the consumer fetched nothing for {elapsed(lasted(w)[0])}, and does not report when it polls"
    facts = _unless_away(window, lasted(w)[0], text)
    return [] if facts[0].settled and seconds < WAITED_SECONDS else facts


def _outside(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    """Return a fact if the application has been outside poll() for longer than ever before."""
    spell = outside(window)
    if spell is None or not silent(w, limits)[0] or interval(w)[0] > limits.assumed_poll_interval_seconds:
        return []
    if spell.seconds < max(limits.outside_seconds, limits.outside_margin * spell.longest, spell.needed):
        return []
    text = (
        f"the application has been outside poll() for {elapsed(spell.seconds)}; its client still sends heartbeats, but "
        f"no fetches; the longest earlier time between two polls was {elapsed(spell.longest)}"
    )
    return _unless_away(window, spell.seconds, text)


def _logged(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    if not (expired := moments(window, POLL_EXPIRED)):
        return []
    first, last = expired[0], expired[-1]
    logged = captured(first, "limitMs") / 1000
    most = number_or_none(interval(w)[0]) or logged or limits.assumed_poll_interval_seconds
    text = f"the client left its group, because its application had not called poll() in time: {quoted(last.text)}"
    since, direct = round(first.ts_ms - 1000 * most), not idle(w, limits)[0]
    return [Fact.of("log", last, text, direct, since=since, given=unless_away(window, expired))]


def _refused_commits(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    refused = events(window, COMMIT_REFUSED)
    # If this consumer polled in time, other members caused the rebalance.
    w = window.table
    if not refused or idle(w, limits)[0] or seconds_away(w)[0] < interval(w)[0]:
        return []
    text = f"a commit was refused: {quoted(refused[-1].text)}"
    return [Fact.of("log", refused[-1], text, since=refused[0], given=unless_away(window, refused))]


def _dumped(window: ClientWindow, w: Windows, limits: Thresholds) -> tuple[Mapping[str, str], list[Fact]]:
    """Return (detail, facts) about polling threads that hang outside poll(), or that have ended."""
    if idle(w, limits)[0]:
        return {}, []
    dumps = (*window.earlier_dumps, *window.dumps)
    newest_first = [(dump.ts_ms, thread) for dump in reversed(dumps) for thread in dump.threads]
    pollers = {t.name: ts_ms for ts_ms, t in newest_first if t.polls or not t.of_kafka or in_container(t)}
    polling = {thread.name for _, thread in newest_first if thread.polls}

    def ours(stay: Held) -> bool:
        own = polls_for(stay.thread, window.client.client_id)
        stand = {other.thread.name for other in stays if other.dump is stay.dump and other.seen[1:]}
        fetches = [ts_ms for ts_ms, _ in reported(window.readings, "fetch-total") if ts_ms > stay.since_ms]
        shown = w.reported("last-poll-seconds-ago")[0] or len(fetches) >= MIN_READINGS
        others = not shown and window.client.client_id != "" and not polling <= stand
        polled = stay.thread.name in pollers and pollers[stay.thread.name] <= stay.since_ms
        return polled and own is not False and (own or not others) and not has_polled(window, stay.since_ms)

    stays = held(dumps, lambda _, thread: None if thread.polls or idles(thread) else thread.frames)
    last_poll = next((at for reading in window.readings[::-1] if (at := polled_ms(reading)) is not None), None)
    detail, facts = _standing(window, filter(ours, stays), limits, "outside poll(), ", last_poll)
    locked = [(d, t) for d in window.dumps for t in d.threads if t.name in d.deadlocked and t.name in pollers]
    own = {t.name: polls_for(t, window.client.client_id) for _, t in locked}
    facts += [deadlock(d, t, "polling thread", own[t.name] is True) for d, t in locked if own[t.name] is not False]
    return ({"cause": "handler-hangs", **detail}, facts) if facts else _ended(window, w, pollers.keys(), limits)


def _standing(
    window: ClientWindow, stays: Iterable[Held], limits: Thresholds, where: str = "", last_poll_ms: int | None = None
) -> tuple[Mapping[str, str], list[Fact]]:
    detail: dict[str, str] = {}
    facts: list[Fact] = []
    for stay in stays:
        thread, dump = stay.thread, stay.dump
        for_good = thread.state != "TIMED_WAITING" and waits(thread)
        if dump in window.dumps and stay.seconds >= (limits.waits_seconds if for_good else limits.same_frames_seconds):
            frame, apart = innermost(thread), elapsed(stay.seconds)
            detail = {"thread": thread.name, "frame": frame}
            text = f"'{thread.name}' is in {frame}, {where}and was at the same place {apart} before"
            since = stay.since_ms if last_poll_ms is None else min(stay.since_ms, last_poll_ms)
            given = inside_the_client(window, thread, dump.ts_ms)
            facts.append(Fact.of("thread-dump", dump, text, since=since, given=given))
    return detail, facts


def _ended(
    window: ClientWindow, w: Windows, pollers: Set[str], limits: Thresholds
) -> tuple[Mapping[str, str], list[Fact]]:
    if not silent(w, limits)[0]:
        return {}, []
    seconds, last = float(seconds_since(w)[0]), window.readings[-1]
    polled_ms = round(last.ts_ms - 1000 * seconds)
    died = [
        event
        for event in events(window, DIED)
        if event.captures.get("died") in pollers or abs(event.ts_ms - polled_ms) <= SAME_END_MS
    ]
    facts = [Fact.of("log", event, quoted(event.text)) for event in died[:1]]
    if window.dumps and not any(thread.polls for thread in window.dumps[-1].threads):
        newest = window.dumps[-1]
        gone = sorted(pollers - {thread.name for thread in newest.threads})
        if gone and newest.threads and newest.ts_ms > polled_ms:
            text = f"the polling thread '{gone[0]}' no longer exists"
            facts.append(Fact.of("thread-dump", newest, text, since=polled_ms))
    if not facts:
        return {}, []
    text = f"the application has not called poll() for {elapsed(seconds)}"
    facts.append(Fact.of("metric", last, text, since=polled_ms))
    named = {"thread": thread} if died and (thread := died[0].captures.get("died")) else {}
    return {"cause": "poll-loop-ended", **named}, facts


def silence(window: ClientWindow, thresholds: Thresholds) -> Verdict | None:
    """Judge a client that stopped sending samples. Return None if the missing samples show nothing about its polls.

    librdkafka delivers its statistics only inside poll(), so the end of the statistics may mean missing polls.
    """
    if window.departed_ms is None:
        return None
    if pushes(window) and not (reports_in_poll(window.client.library) or window.readings[-1].get(CLOSES)):
        return Verdict(ID, "unknown", reason=SILENT)
    if not reports_only_in_poll(window):
        return None
    ended, w = statistics_ended(window), window.table
    expired = _logged(window, w, thresholds)
    if ended is None:
        return conclude(ID, expired, {"cause": "handler-hangs"}, ENDED)
    before = places(window.earlier_dumps)

    def anew(_: ThreadDump, thread: Thread) -> Hashable:
        return thread.frames if in_foreign_code(thread) and (thread.name, thread.frames) not in before else None

    stays = held(window.dumps, anew, threads=lambda dump: dump.others)
    long = [stay for stay in stays if stay.seconds >= thresholds.same_frames_seconds]
    stuck, threads = _standing(window, [stay for stay in long if stay.thread.name == long[0].thread.name], thresholds)
    lag, last = number_or_none(w.last(lags(w))[0]), window.readings[-1:]
    queued = sum(topic.metrics.get("queue-records") or 0.0 for reading in last for topic in reading.topics)
    goes_on = where_they_were(window)
    if not (expired or threads) and (goes_on or not (lag or queued)):
        return conclude(ID, [], doubts=[replace(ended, text=f"{ended.text}; {UNREPORTED if goes_on else CLOSED}")])
    detail = {
        "cause": "handler-hangs",
        **stuck,
        "partitions": number_or_none(w.last("assigned-partitions")[0]),
        "lag": lag,
        "seconds_since_poll": round((ended.ts_ms - ended.since_ms) / 1000, 1),
    }
    ended = replace(ended, given=coordinator_answers(window, ended.ts_ms))
    return conclude(ID, [ended, *threads, *expired], detail)


def _cause(window: ClientWindow, w: Windows, limits: Thresholds) -> str:
    still_away = w.last("last-poll-seconds-ago")[0]
    most = number_or_none(interval(w)[0]) or limits.assumed_poll_interval_seconds
    if events(window, HELD) or left(w, limits)[0] or still_away >= limits.suspect_share * most:
        return "handler-hangs"
    if outlasting_locks(w, limits)[0] and not too_long(w, limits)[0]:
        return "locks-expire"
    if w.grown("rebalance-total")[0] >= limits.min_rebalances_repeats:
        return "rejoins"
    return "poll-interval-exceeded"


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """Return True if the application polls throughout the window.

    A single poll is not enough: a consumer that repeatedly loses its place in the group also polls after each new join.
    """
    w = window.table
    away_now = w.max("last-poll-seconds-ago")[0]
    allowed = number_or_none(interval(w)[0]) or thresholds.assumed_poll_interval_seconds
    most = min((window.end_ms - window.start_ms) / 2000, thresholds.suspect_share * allowed)
    rises = w.rises("records-consumed-total")[0] >= w.samples[0] - 1 >= MIN_READINGS - 1
    goes_on = rises if np.isnan(away_now) else away_now < most
    stalls = (too_long(w, thresholds) | circling(w, thresholds) | outlasting_locks(w, thresholds))[0]
    return bool(goes_on) and not stalls and not events(window, POLL_EXPIRED, COMMIT_REFUSED)


MODE = LiveMode(
    **FILE.facts(Thresholds()), judge=judge, gate=GATE, recovered=recovered, silence=silence, of_group=listed
)
