"""Judge producers that have the topic's metadata, but get no acknowledgements for the records that wait."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools, Floats, Ints, or_zero
from clienthealth.measure.producer import delivered, failed_since, stalls
from clienthealth.measure.view import Windows, per_windows
from clienthealth.model.readings import LogEvent
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, percent, quoted
from clienthealth.modes import MIN_READINGS, Gate, Limits, LiveMode, Texts, first_reason, lasted, mode_file
from clienthealth.modes._evidence import (
    Fact,
    Happened,
    captured,
    conclude,
    counted,
    events,
    increases,
    number_of,
    option,
    spanned,
    stated,
    with_counts,
)

FILE = mode_file(__file__)
ID = FILE.id
EXPIRED, REFUSED, UNDELIVERED, UNANSWERED = map(FILE.reads, ("expired", "refused", "undelivered", "unanswered"))
CONNECTION_FAILED_OF_AIOKAFKA, TIMED_OUT = map(FILE.reads, ("connection-failed-of-aiokafka", "timed-out"))
CONNECTION_FAILED = FILE.reads("send-blocked-on-metadata.connection-failed")
CONNECTION_FAILED_SOMEWHERE = FILE.reads("send-blocked-on-metadata.connection-failed-somewhere")
AUTHENTICATION, TLS = map(FILE.reads, ("also-seen.authentication", "also-seen.tls"))

TROUBLES = ("connection-close-total", "record-retry-total", "record-error-total")
#: If a client loses at least REFUSED_PER_SECOND connections per second, brokers refuse its connections. If requests
#: only time out, the client loses fewer connections per second.
REFUSED_PER_SECOND = 0.2
#: Parts of names of errors about too few replicas. Names are compared in lower case, by letters only.
REPLICAS = ("notenoughreplicas", "notenoughinsyncreplicas", "fewerinsyncreplicas")


_IN_PYTHON = re.compile(r"TopicPartition\(topic='(.+)', partition=(\d+)\)")
#: Default of `retries` in Java producers since Kafka 2.1.
ENDLESS = 2**31 - 1


class Thresholds(Limits, of=FILE):
    """Limits that decide whether records wait too long."""

    suspect_stalled_seconds: float
    delivery_timeout_share: float
    min_stalled_seconds: float
    confirm_stalled_seconds: float
    frozen_seconds: float
    min_select_growth: int
    expiries_apart_seconds: float
    min_failed_lines: int


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Return this failure mode's verdict on a window. `background` in mode.toml explains the rules."""
    w = window.table
    reason = GATE.reason(w, thresholds)
    facts = _measured(window, w, thresholds)
    stands_still = reason == BLIND_FROZEN
    # A client that delivers is not stalled, even if records fail at the end.
    delivers = reason in (None, FAILING) and not facts and _delivers(w, thresholds)
    if not stands_still:
        facts += _logged(window, bool(facts), delivers, thresholds)
    if not facts:
        return conclude(ID, facts, otherwise=reason)
    by_log, by_metric = _batches(events(window, EXPIRED)), _given_up(window, w, thresholds)
    detail = _detail(window, w, number_of(by_log, by_metric))
    return with_counts(
        conclude(ID, facts, detail),
        counted(window, "records_expired", "log", by_log),
        counted(window, "records_expired", "metric", by_metric),
    )


def _delivers(w: Windows, limits: Thresholds) -> bool:
    return bool(stalls(w).seconds[0] < limits.min_stalled_seconds and net(w)[0] > 0)


def grown_since(w: Windows, name: str, since: Ints) -> Floats:
    """Return, per window, how much a counter rose since the sample at row `since`; 0 if unknown."""
    column = w.column(name)
    lo = np.clip(since, w.lo, w.hi)
    return or_zero(column.last(lo, w.hi) - column.first(lo, w.hi))


def troubles(w: Windows, since: Ints) -> Mapping[str, Floats | Bools]:
    """Return the signs of a fault: a map from the description of each sign to one value per window.

    A window shows a sign if the value is above 0. Braces in a description stand for the value. `since`: for each
    window, the row of a sample. The growth of counters is measured from this sample on.
    """
    return {
        **{f"{name} rose by {{:,.0f}}": grown_since(w, name, since) for name in TROUBLES},
        "records fail": failed_since(w, since) & ~w.reported("record-error-total"),
        "requests without an answer: {:,.0f}": w.last("requests-in-flight"),
        "no connection is open": w.last("connection-count") == 0,
    }


def patience(w: Windows, windows: Ints, limits: Thresholds) -> Floats:
    """Return how long (s) records may wait without suspicion, for each window in `windows`."""
    share = limits.delivery_timeout_share * w.option("delivery.timeout.ms", windows) / 1000
    return np.maximum(limits.min_stalled_seconds, np.fmin(limits.suspect_stalled_seconds, share))


def stalled(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if records wait too long, and one of the `troubles` shows a fault."""
    since, seconds = stalls(w)
    suspected: Bools = (w.samples >= MIN_READINGS) & (seconds >= limits.min_stalled_seconds)
    some = np.flatnonzero(suspected)
    if len(some):
        # A failed record proves that delivery.timeout.ms has passed.
        long = (seconds[some] >= patience(w, some, limits)) | failed_since(w.at(some), since[some])
        signs = [sign > 0 for sign in troubles(w.at(some), since[some]).values()]
        suspected[some] = long & np.logical_or.reduce(signs)
    return suspected


@per_windows
def net(w: Windows) -> Floats:
    """Return the number of delivered records of each window; NaN if unknown.

    Without `record-ack-total`, the result is the number of attempts minus retries and failures. A record that fails
    before its first attempt lowers the result, although the record was not counted as an attempt. So a result of 0 does
    not prove that nothing was delivered.
    """
    acknowledged = w.reported("record-ack-total")
    grown: Floats = w.grown(delivered(w))
    failed = or_zero(w.grown("record-error-total"))
    return np.where(acknowledged, grown, grown - failed)


@per_windows
def refused(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if brokers refuse every record until it expires."""
    failed, retried = (or_zero(w.grown(name)) for name in ("record-error-total", "record-retry-total"))
    lasting = (w.samples >= MIN_READINGS) & (lasted(w) >= limits.suspect_stalled_seconds)
    return lasting & (failed > 0) & (retried >= failed) & (net(w) <= 0)


def frozen(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if select-total rose by less than `min_select_growth` in `frozen_seconds`."""
    recent = w.ts[w.rows] > (w.ts[w.last_row] - 1000 * limits.frozen_seconds)[w.window_of_row]
    before = w.reduced(np.fmax, np.where(recent, np.nan, w.col("select-total")[w.rows]))
    return w.last("select-total") - before < limits.min_select_growth


NO_WAIT, LIVING, STUCK = 0, 1, 2


@per_windows
def io_thread(w: Windows, limits: Thresholds) -> NDArray[np.int8]:
    """Return the I/O thread's state in each window: `NO_WAIT`, `LIVING` or `STUCK`.

    The state is `NO_WAIT` if no record waits too long in the window.
    """
    waits = stalled(w, limits)
    state = waits.astype(np.int8)
    if waits.any():
        state[waits] = np.where(frozen(w.at(waits), limits), STUCK, LIVING)
    return state


def suspects(w: Windows, thresholds: Thresholds) -> Bools:
    """Return one flag per window: True if records wait too long, or if brokers refuse all records.

    Records that wait while the I/O thread is stuck are left to the mode producer-callback-deadlock.
    """
    waits: Bools = io_thread(w, thresholds) == LIVING
    return waits | refused(w, thresholds)


BLIND_COUNTS = "the client does not report how many records it sent"
BLIND_WAITING = "the client does not report whether records wait"
FAILING = "records have failed, and no data shows that any record was delivered afterwards"
BLIND_FROZEN = "nothing is delivered, but the I/O thread is stuck: see producer-callback-deadlock"


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """Return one text per window: why metrics do not suffice for a verdict; '' if metrics suffice."""
    load = w.reported("buffer-available-bytes") | w.reported("queue-records") | w.reported("waiting-threads")
    since = stalls(w).since
    return first_reason(
        len(w),
        (BLIND_COUNTS, ~w.reported(delivered(w))),
        (BLIND_WAITING, ~load),
        (BLIND_FROZEN, io_thread(w, thresholds) == STUCK),
        (FAILING, (since >= 0) & (grown_since(w, "record-error-total", since) > 0)),
    )


GATE = Gate(blind, suspects)


def _measured(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    if not GATE.suspected(w, limits)[0]:
        return []
    if io_thread(w, limits)[0] != LIVING:
        return [_refusals(window, w)]
    since, seconds = stalls(w)
    first, last = window.readings[since[0]], window.readings[-1]
    signs = [words.format(sign[0]) for words, sign in troubles(w, since).items() if sign[0] > 0]
    text = f"nothing was delivered for {elapsed(seconds[0])} while records waited{_load(w)}: {', '.join(signs)}"
    direct = bool(grown_since(w, "record-error-total", since)[0] > 0 and seconds[0] >= limits.confirm_stalled_seconds)
    return [Fact.of("metric", last, text, direct, since=first)]


def _refusals(window: ClientWindow, w: Windows) -> Fact:
    first, last = window.readings[0], window.readings[-1]
    failed, retried = (float(w.grown(name)[0]) for name in ("record-error-total", "record-retry-total"))
    text = (
        f"the client sent {count_of(retried, 'record')} again and gave up {count_of(failed, 'record')} "
        f"in {elapsed(lasted(w)[0])}, and no data shows that any record was delivered"
    )
    return Fact.of("metric", last, text, since=first)


def _load(w: Windows) -> str:
    total, free, queued = (w.last(n)[0] for n in ("buffer-total-bytes", "buffer-available-bytes", "queue-records"))
    if not np.isnan(queued):
        return f" ({count_of(queued, 'record')})"
    return f" ({percent((total - free) / total)} of the buffer)" if total > 0 else ""


def _logged(window: ClientWindow, stalls_by_metrics: bool, delivers: bool, limits: Thresholds) -> list[Fact]:
    """Return facts from the log. Failed attempts alone only raise suspicion."""
    expired = events(window, EXPIRED)
    apart = spanned(expired) >= limits.expiries_apart_seconds
    shown = expired and (apart or stalls_by_metrics or not delivers)
    facts = [_expiries(expired, apart and not delivers)] if shown else []
    # Use lines of earlier windows, too: a window may end between two attempts.
    seen = replace(window, logs=window.known_logs)
    failed = sorted([*_refused(seen), *_unreachable(seen), *events(seen, TIMED_OUT, UNANSWERED)], key=lambda e: e.ts_ms)
    # Add the time (`waitMs`) for which records had already waited when the first line was logged.
    span = spanned(failed) + captured(failed[0], "waitMs") / 1000 if failed else 0.0
    lasting = max(span * (len(failed) >= limits.min_failed_lines), _tried_for(failed)) >= limits.suspect_stalled_seconds
    # Lines about timed-out requests suffice even if `span` is short: librdkafka times out requests only when records
    # expire.
    lasting |= sum(event.repeats for event in failed if "request" in event.captures) >= limits.min_failed_lines
    if failed and failed[-1].ts_ms >= window.start_ms and (facts or stalls_by_metrics or (lasting and not delivers)):
        text = f"{count_of(sum(e.repeats for e in failed), 'line')} in {elapsed(span)} like {quoted(failed[-1].text)}"
        facts.append(Fact.of("log", failed[-1], text, since=failed[0]))
    return facts if delivers else [*facts, *stated(window, UNDELIVERED)]


def _tried_for(refused: Sequence[LogEvent]) -> float:
    """Return a lower bound (s) of the time that a batch has waited; infinity if the client has made its last attempt.

    With the default of `retries`, a batch begins with `ENDLESS` attempts. So the difference between `ENDLESS` and the
    number of attempts left is the number of attempts made. Each attempt takes at least 0.1 s.
    """
    tried = max((captured(event, "waitMs") / 1000 for event in refused if "request" in event.captures), default=0.0)
    for left in (int(e.captures.get("left") or 0) for e in refused if e.captures.keys() & {"left", "final"}):
        if left == 0:
            return np.inf
        tried = max(tried, 0.1 * (ENDLESS - left) if left > ENDLESS // 2 else 0.0)
    return tried


def _batches(expired: Sequence[LogEvent]) -> Happened:
    """Return (time in epoch ms, number of records) for each batch that expired."""
    seen: set[tuple[str, ...]] = set()
    happened: list[tuple[int, float]] = []
    for event in expired:
        batch = tuple(event.captures.get(name, "") for name in ("partition", "records", "waitMs"))
        if not any(batch):
            happened.append((event.ts_ms, event.repeats))
        elif batch not in seen:
            seen.add(batch)
            happened.append((event.ts_ms, captured(event, "records") or 1))
    return happened


def _given_up(window: ClientWindow, w: Windows, limits: Thresholds) -> Happened:
    since, seconds = stalls(w)
    if not seconds[0] and not refused(w, limits)[0]:
        return []
    return increases(window, "record-error-total", int(since[0]) if seconds[0] else 0)


def _expiries(expired: Sequence[LogEvent], lasting: bool) -> Fact:
    last = expired[-1]
    waited = max(captured(event, "waitMs") for event in expired)
    text = f"records expired after waiting for {elapsed(waited / 1000)}" if waited else "records expired"
    return Fact.of("log", last, f"{text}: {quoted(last.text)}", lasting, since=expired[0].ts_ms - round(waited))


def _refused(window: ClientWindow) -> list[LogEvent]:
    return [
        e
        for e in events(window, REFUSED)
        if any(text in "".join(filter(str.isalpha, e.captures.get("error", ""))).lower() for text in REPLICAS)
    ]


def _unreachable(window: ClientWindow) -> list[LogEvent]:
    """Return the lines on failed connections to brokers that the client knows from metadata.

    If there are none, return the lines that do not show whether the broker is a bootstrap broker.
    """
    lines = events(window, CONNECTION_FAILED, CONNECTION_FAILED_OF_AIOKAFKA)
    failed = [e for e in lines if not e.captures.get("node", "-").startswith("-")]
    return failed or events(window, CONNECTION_FAILED_SOMEWHERE)


def _detail(window: ClientWindow, w: Windows, lost: int | None) -> dict[str, object]:
    since, seconds = stalls(w)
    waits = float(seconds[0])
    timeout = option(window, "delivery.timeout.ms")
    left = None if timeout is None or not waits or lost else max(0.0, timeout / 1000 - waits)
    named = [event.captures["partition"] for event in events(window, EXPIRED, REFUSED) if "partition" in event.captures]
    partition = _IN_PYTHON.sub(r"\1-\2", named[-1]) if named else None
    return {
        **_cause(window, w, since),
        "partition": partition,
        "topic": partition and partition.rpartition("-")[0],
        "records_expired": lost,
        "stalled_seconds": round(waits, 1) or None,
        "first_expiry_in_seconds": None if left is None else round(left, 1),
    }


def _cause(window: ClientWindow, w: Windows, since: Ints) -> dict[str, object]:
    """Return the verdict's detail: why acknowledgements are missing, and what to examine."""
    if _refused(window):
        return {"cause": "not-enough-replicas"}
    for cause, lines, names in (
        ("authentication", events(window, AUTHENTICATION, TLS), ("address", "reason")),
        ("unreachable-node", _unreachable(window), ("address", "node")),
        ("timeouts", events(window, TIMED_OUT, UNANSWERED), ("node",)),
    ):
        if lines:
            return {"cause": cause, **{name: lines[-1].captures.get(name) for name in names}}
    closed, retried = (grown_since(w, n, since)[0] for n in ("connection-close-total", "record-retry-total"))
    if closed >= REFUSED_PER_SECOND * max(1.0, stalls(w).seconds[0]):
        return {"cause": "unreachable-node"}
    return {"cause": "refused" if retried > 0 and not closed > 0 else "timeouts"}


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """Return True if several samples show deliveries, and either no record waits or the last delivery is recent.

    A delivery is recent if it is less than `min_stalled_seconds` before the last sample.
    """
    w = window.table
    return bool(w.rises(delivered(w))[0] > 1) and _delivers(w, thresholds)


MODE = LiveMode(**FILE.facts(Thresholds()), judge=judge, gate=GATE, recovered=recovered)
