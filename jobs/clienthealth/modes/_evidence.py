"""Functions for all judges: find evidence in a window, and make a verdict from this evidence.

A judge collects facts. `conclude` makes the verdict from the judge's facts, by the same rule for all modes:

- With one direct fact the verdict is `confirmed`.
- With indirect facts of one kind of evidence the verdict is `suspected`.
- With indirect facts of two kinds of evidence the verdict is `confirmed`.

If a fact may have an innocent explanation, its field `given` is the circumstance that excludes the explanation. If the
circumstance does not hold, the fact proves nothing. If no data decides whether the circumstance holds, the fact cannot
confirm a failure.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import LogEvent, Reading, Sign, Source, Thread, ThreadDump
from clienthealth.model.values import EARLIEST_MS
from clienthealth.model.values import option as option_of
from clienthealth.model.verdicts import Count, Evidence, EvidenceKind, Proof, Verdict
from clienthealth.model.wording import listing, quoted
from clienthealth.modes.advisories import Number, libraries
from clienthealth.read.logs.fields import JVM_FRAMES
from clienthealth.read.logs.wordings import Meaning

#: Effects of a failure are counted in time slots of this length (ms).
SLOT_MS = 30_000
#: Log lines at most this time (ms) apart count as one occurrence, because one exception may be logged twice.
SAME_MOMENT_MS = 1000
#: A metadata-age above NEVER_SECONDS is the time since 1970, which means that metadata never came.
NEVER_SECONDS = 1e8


@dataclass(frozen=True, slots=True)
class Circumstance:
    """A condition that excludes an innocent explanation of a fact.

    `holds`  True if data shows the condition, False if data shows the opposite, None if no data decides
    `text`   a clause: why the condition holds or does not hold, or what is unknown
    `name`   the id of the circumstance; '' without an id
    """

    holds: bool | None
    text: str = ""
    name: str = ""


#: A line that may be about another client cannot confirm a failure.
ANOTHERS = Circumstance(None, "a log line about another client", "own-lines")
NOTHING_NEEDED = Circumstance(True)
#: Minimum time (ms) between two dumps that show whether a thread moves.
APART_MS = 9_000
UNAGED = Circumstance(False, "only a second dump, ten seconds later, would show how long the goroutine waits")
Dated = LogEvent | Reading | ThreadDump | Sign


@dataclass(frozen=True, slots=True)
class Fact:
    """One observation in a window of a client's data.

    `since_ms`  when the observed state began, epoch ms
    `ts_ms`     when the state was last observed, epoch ms
    `text`      a clause that describes the observation
    `direct`    True if the fact alone confirms the failure
    `source`    the input record that shows the observation
    `given`     the circumstance that excludes the fact's innocent explanation; None if the fact has no such explanation
    """

    kind: EvidenceKind
    since_ms: int
    ts_ms: int
    text: str
    direct: bool = False
    source: Source | None = None
    given: Circumstance | None = None

    @classmethod
    def of(
        cls,
        kind: EvidenceKind,
        shown: Dated,
        text: str,
        direct: bool = False,
        *,
        since: Dated | int | None = None,
        given: Circumstance | None = None,
    ) -> Fact:
        """Return a fact from the input `shown`: a line, a dump, a sample or a sign of life.

        `since`: when the observed state began, as epoch ms or an input; by default the time of `shown`.
        """
        begun = since if isinstance(since, int) else (since or shown).ts_ms
        if given is None and isinstance(shown, LogEvent) and not shown.own:
            given = ANOTHERS
        return cls(kind, begun, shown.ts_ms, text, direct, shown.source, given)

    @property
    def proof(self) -> Proof:
        """The fact's entry in `Verdict.proofs`."""
        given = self.given or NOTHING_NEEDED
        return Proof(self.kind, self.direct, given.name, given.holds, given.text)

    @property
    def refuted(self) -> bool:
        """True if data shows that the circumstance `given` does not hold, so the fact proves nothing."""
        return self.given is not None and self.given.holds is False

    @property
    def settled(self) -> bool:
        """True if the fact has no innocent explanation, or if data excludes the explanation."""
        return self.given is None or self.given.holds is True


def conclude(
    mode: str,
    facts: Sequence[Fact],
    detail: Mapping[str, Any] | None = None,
    otherwise: str | None = None,
    doubts: Sequence[Fact] = (),
) -> Verdict:
    """Return the verdict that the facts support.

    `detail`: values for the verdict's detail; None values are left out. `doubts`: facts that prove nothing; with only
    doubts, the verdict is `unknown`. `otherwise` is used if there are neither facts nor doubts. None means the verdict
    `ok`; a text means the verdict `unknown`, and is the reason for this verdict.
    """
    doubts = [
        replace(doubt, text=f"{doubt.text}; but {doubt.given.text}") if doubt.refuted and doubt.given else doubt
        for doubt in (*doubts, *(fact for fact in facts if fact.refuted))
    ]
    facts = [fact for fact in facts if not fact.refuted]
    if not facts and doubts:
        evidence = tuple(Evidence(fact.kind, fact.ts_ms, fact.text, fact.source) for fact in doubts)
        return Verdict(mode, "unknown", reason=doubts[-1].text, evidence=evidence)
    if not facts:
        return Verdict(mode, "ok") if otherwise is None else Verdict(mode, "unknown", reason=otherwise)
    kinds = {fact.kind for fact in facts if fact.given != ANOTHERS}
    confirmed = any(fact.settled for fact in facts if fact.direct or len(kinds) > 1)
    return Verdict(
        mode=mode,
        status="confirmed" if confirmed else "suspected",
        # A corrupt sample can claim that a wait began thousands of years ago.
        since_ms=max(EARLIEST_MS, min(fact.since_ms for fact in facts)),
        detail={key: value for key, value in (detail or {}).items() if value is not None},
        evidence=tuple(
            Evidence(fact.kind, fact.ts_ms, fact.text, fact.source)
            for fact in sorted((*facts, *doubts), key=lambda f: f.ts_ms)
        ),
        proofs=tuple(dict.fromkeys(fact.proof for fact in facts)),
    )


def with_counts(verdict: Verdict, *counts: Count) -> Verdict:
    """Set the counts of a verdict that reports a failure. Return a verdict without a failure unchanged."""
    some = tuple(count for count in counts if count.slots)
    return replace(verdict, counts=some) if verdict.unhealthy else verdict


#: Pairs of a time (epoch ms) and the number of occurrences at that time.
Happened = Sequence[tuple[int, float]]


def counted(window: ClientWindow, name: str, kind: EvidenceKind, happened: Happened) -> Count:
    """Count the occurrences in each half minute of a window. `name`: key in `Verdict.detail`.

    The window's first second is left out, because the previous window may have counted it.
    """
    slots: dict[int, float] = defaultdict(float)
    for ts_ms, so_many in happened:
        if ts_ms >= window.start_ms + SAME_MOMENT_MS:
            slots[ts_ms // SLOT_MS * SLOT_MS] += so_many
    return Count(name, kind, dict(slots))


def number_of(*happened: Happened) -> int | None:
    """Add up each count of the same occurrences, and return the largest sum; None if every sum is 0."""
    return round(max(sum(so_many for _, so_many in of_kind) for of_kind in happened)) or None


def reported(readings: Sequence[Reading], name: str) -> list[tuple[int, float]]:
    """Return (epoch ms, value) of each sample that has the metric."""
    return [(reading.ts_ms, value) for reading in readings if (value := reading.get(name)) is not None]


def increases(window: ClientWindow, name: str, first_row: int = 0) -> Happened:
    """Return (epoch ms of the later sample, amount) for each rise of a counter between two samples.

    `first_row`: index of the first sample that is used.
    """
    pairs = itertools.pairwise(reported(window.readings[first_row:], name))
    return [(ts, after - before) for (_, before), (ts, after) in pairs if after > before]


@dataclass(frozen=True, slots=True)
class Run:
    """Samples of one client that all have a value of the same metric, in order of time."""

    readings: tuple[Reading, ...]

    @property
    def first(self) -> Reading:
        return self.readings[0]

    @property
    def last(self) -> Reading:
        return self.readings[-1]

    @property
    def seconds(self) -> float:
        """The time from the first sample to the last."""
        return spanned(self.readings)

    def values(self, name: str) -> list[float]:
        return [value for _, value in reported(self.readings, name)]


def run(window: ClientWindow, name: str, first: int = 0, last: int | None = None) -> Run:
    """Return the samples from row `first` to row `last` (None: last row) that have the metric `name`."""
    end = None if last is None else last + 1
    return Run(tuple(reading for reading in window.readings[first:end] if reading.get(name) is not None))


def values(window: ClientWindow, name: str) -> list[float]:
    return run(window, name).values(name)


def rose_around(window: ClientWindow, name: str, ts_ms: int, before_ms: int = 0) -> bool | None:
    """Return True if a counter rose around `ts_ms`; None if unknown.

    Use only samples with the counter. Compare the last of these samples up to `ts_ms − before_ms` with the first one
    after `ts_ms`. If one of the two samples is missing, the result is unknown.
    """
    earlier = [r for r in window.readings if r.ts_ms <= ts_ms - before_ms and r.get(name) is not None]
    later = [r for r in window.readings if r.ts_ms > ts_ms and r.get(name) is not None]
    return later[0].metrics[name] > earlier[-1].metrics[name] if earlier and later else None


def used_bytes(reading: Reading) -> float | None:
    """Return the used bytes of a producer's buffer; None if the client does not report them."""
    total, available = reading.get("buffer-total-bytes"), reading.get("buffer-available-bytes")
    return None if total is None or available is None else max(0.0, total - available)


def number_or_none(value: float) -> float | None:
    """Return `value`, or None if `value` is NaN, which means unknown in arrays."""
    return None if math.isnan(value) else float(value)


def option(window: ClientWindow, name: str) -> float | None:
    """Return a numeric option that the client reports or logged at its start; None if unknown."""
    return option_of(window.config.get(name))


def events(window: ClientWindow, *meanings: Meaning) -> list[LogEvent]:
    """Return the window's log lines that match a pattern of any log event in `meanings`, in order of time."""
    return [event for event in window.logs if any(event in meaning for meaning in meanings)]


def stated(window: ClientWindow, meaning: Meaning) -> list[Fact]:
    """Select the line of the log event `meaning` that states the longest wait, and return a fact on this line.

    Without a line that can be used, return []. The capture `minutes` has the wait that a line states. A line with the
    capture `begun` reports the beginning of a stop or flush. Such a line is used only if the line also has the capture
    `lasts`, because then the stop or flush did not end. A line with the capture `ended` reports the end of a stop or
    flush, and is never used.

    A line that shows a goroutine without stating a wait is evidence only in two cases: the line is repeated, or a line
    at least APART_MS (9 s) earlier shows the same goroutine in the same frame.
    """
    said = [e for e in events(window, meaning) if "lasts" in e.captures or not {"begun", "ended"} & {*e.captures}]
    if not said:
        return []
    event = max(said, key=lambda e: (captured(e, "minutes"), "goroutine" not in e.captures, e.ts_ms))
    same = [e for e in said if all(e.captures.get(n) == event.captures.get(n) for n in ("goroutine", "frame"))]
    stays = event.ts_ms - min(e.ts_ms for e in same) >= APART_MS or any(e.repeats > 1 for e in same)
    unaged = "goroutine" in event.captures and not captured(event, "minutes") and not stays
    text = f"{meaning.says}: {quoted(event.captures.get('frame', event.text))}"
    since = round(min(e.ts_ms - 60_000 * captured(e, "minutes") for e in same))
    return [Fact.of("log", event, text, since=since, given=UNAGED if unaged else None)]


def deadlock(dump: ThreadDump, thread: Thread, role: str, direct: bool) -> Fact:
    """Return the fact that the JVM reports a deadlock of `thread`. `role`: for example "I/O thread"."""
    others = listing(f"'{name}'" for name in dump.deadlocked if name != thread.name)
    text = f"the JVM reports a deadlock of the {role} '{thread.name}' with {others}, in {innermost(thread)}"
    return Fact.of("thread-dump", dump, text, direct)


def failures(window: ClientWindow, *meanings: Meaning) -> list[LogEvent]:
    """Return this client's log lines on failed sends (`meanings`).

    A line without a client id is left out if `record-error-total` did not rise around it.
    """
    lines = events(window, *meanings)
    return [e for e in lines if e.client_id or rose_around(window, "record-error-total", e.ts_ms, 1000) is not False]


def moments(window: ClientWindow, *meanings: Meaning) -> list[LogEvent]:
    """Return one event per occurrence. Events at most 1 s after a returned event are left out."""
    separate: list[LogEvent] = []
    for event in events(window, *meanings):
        if not separate or event.ts_ms - separate[-1].ts_ms > SAME_MOMENT_MS:
            separate.append(event)
    return separate


def occurrences(window: ClientWindow, meaning: Meaning) -> Happened:
    """Return (time in epoch ms, number of occurrences) for lines of the log event `meaning`.

    If all log lines of the window have the same time, each line of the event counts `repeats` times. Otherwise, each
    line of the event counts once, except that a line at most 1 s after a counted line does not count.
    """
    undated = len({event.ts_ms for event in window.logs}) == 1
    if not undated:
        return [(e.ts_ms, 1) for e in moments(window, meaning)]
    lines: dict[str, list[tuple[int, int]]] = {}
    for e in events(window, meaning):
        lines.setdefault(e.signature, []).append((e.ts_ms, e.repeats))
    return max(lines.values(), key=lambda one: sum(n for _, n in one), default=[])


def captured(event: LogEvent, name: str) -> float:
    """Return the number that the log pattern captured as `name`; 0 if it is missing."""
    return float(event.captures.get(name) or 0)


def spanned(dated: Sequence[Dated]) -> float:
    """Return the time (s) from the first to the last element of `dated`; 0 if `dated` is empty."""
    return (dated[-1].ts_ms - dated[0].ts_ms) / 1000 if dated else 0.0


def has_frame(thread: Thread, *parts: str) -> bool:
    return all(any(part in frame for frame in thread.frames) for part in parts)


def innermost(thread: Thread) -> str:
    """Return, as Class.method, the innermost frame outside the JVM's own classes.

    If all frames belong to the JVM's own classes, return the innermost frame; '' for a thread without frames.
    """
    own = (frame for frame in thread.frames if not frame.startswith(JVM_FRAMES))
    return ".".join(next(own, thread.frames[0] if thread.frames else "").split(".")[-2:])


def version(window: ClientWindow) -> Number | None:
    """Return the Kafka release of a Java client as numbers, such as (3, 9, 1); None if unknown.

    An unknown patch number is 0: a vendor's build (3.9.1.redhat-1, 7.9.1-ccs) counts as Kafka 3.9.0.
    """
    number = libraries()["java"].number(window.client.version or "")
    return number and tuple(0.0 if part == math.inf else part for part in number)
