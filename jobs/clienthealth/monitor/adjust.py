"""The ordered list of adjustments, which can change a verdict after the failure mode's judge has made it.

A judge sees one window of one client. An adjustment knows more, such as the client's open incidents and the time of
the client's start. An adjustment changes nothing if the facts that it needs are missing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools
from clienthealth.measure.view import Windows, per_windows
from clienthealth.model.verdicts import STATUS_ORDER, EvidenceKind, Proof, Status, Verdict
from clienthealth.modes import FEW, MIN_READINGS, FailureMode, Look, modes
from clienthealth.modes._evidence import ANOTHERS, Circumstance
from clienthealth.modes.circumstances import CIRCUMSTANCES
from clienthealth.modes.facts import Confusion

#: "window": the verdict on one window; "moment": verdicts merged over windows; "shown": published verdicts.
Stage = Literal["window", "moment", "shown"]


@dataclass(frozen=True, slots=True)
class Reporting:
    """How a client reports. `every_ms`: the interval of its samples.

    `last_ms`: time of its newest sample by its own clock (epoch ms). `silent_ms`: time without data.
    """

    every_ms: int
    last_ms: int
    silent_ms: int


@dataclass(frozen=True, slots=True)
class Attached:
    """What `diagnose` or `watch` knows about a client and about the command's inputs.

    `look`     the `Look` from which `FailureMode.doubt` decides whether a mode is ruled out
    `last_ms`  time of the client's newest sample; 0 without samples
    `unread`   reason why evidence that may be about the client could not be read; '' if all evidence was read
    `untimed`  names of inputs without times: their made-up times show the order, but no durations
    `undated`  names of inputs with lines that have no time of their own
    `pasted`   names of inputs that are pasted texts, in which the end of a log may be missing
    """

    look: Look
    samples: int = 0
    last_ms: int = 0
    unread: str = ""
    untimed: frozenset[str] = frozenset()
    undated: frozenset[str] = frozenset()
    pasted: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What adjustments know beside the verdict itself. A field's default value stands for missing knowledge.

    `mode`          the failure mode, with its thresholds in force
    `window`        the window that was judged
    `starts`        times (epoch ms) of the client's starts, according to its log
    `contradicted`  ids of log patterns. Each pattern matches a log line in the window, and the client's samples
                    contradict this line
    `reporting`     the client's `Reporting`; None if no verdict has to wait for a sample
    `incidents`     verdicts of the client's open incidents, by mode
    `all_silent`    True if no client reports
    `attached`      what `diagnose` or `watch` knows; None in the monitor
    `verdicts`      all verdicts that are adjusted together, set by `adjust` in stage "moment"
    """

    mode: FailureMode[Any] | None = None
    window: ClientWindow | None = None
    starts: Sequence[int] = ()
    contradicted: frozenset[str] = frozenset()
    reporting: Reporting | None = None
    incidents: Mapping[str, Verdict] = dataclasses.field(default_factory=dict)
    all_silent: bool = False
    attached: Attached | None = None
    verdicts: Sequence[Verdict] = ()


Change = Callable[[Verdict, Context], Verdict]


def adjust(stage: Stage, verdicts: Sequence[Verdict], context: Context) -> list[Verdict]:
    """Apply the adjustments of a stage to all verdicts, one adjustment after the other.

    In stage "shown", a mode that has an open incident but no verdict first gets the verdict `unknown`.
    """
    adjusted = list(verdicts)
    if stage == "shown":
        known = {verdict.mode for verdict in adjusted}
        adjusted += [Verdict(mode, "unknown") for mode in context.incidents if mode not in known]
    beside = replace(context, verdicts=adjusted) if stage == "moment" else context
    for adjustment in _BY_STAGE[stage]:
        adjusted = [adjustment.apply(verdict, beside) for verdict in adjusted]
        if stage == "moment" and adjusted != beside.verdicts:
            beside = replace(context, verdicts=adjusted)
    return adjusted


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A rule that may change verdicts: one entry of the list ADJUSTMENTS.

    `change`  the rule's function: takes (verdict, context), and returns the adjusted verdict, or the same verdict
              object if nothing changes
    `why`     reason for the adjustment

    The docstring of `change` states why the adjustment is at its place in the list.
    """

    name: str
    stage: Stage
    change: Change
    why: str

    def apply(self, verdict: Verdict, context: Context) -> Verdict:
        """Return the adjusted verdict. If status, onset or reason changed, `Verdict.adjusted` names this adjustment."""
        after = self.change(verdict, context)
        if (after.status, after.since_ms, after.reason) == (verdict.status, verdict.since_ms, verdict.reason):
            return after
        return replace(after, adjusted=(*verdict.adjusted, self.name))


ADJUSTMENTS: list[Adjustment] = []


def _adjustment(stage: Stage, why: str) -> Callable[[Change], Change]:
    """Return a decorator that adds a function to the list of adjustments, in the order of this file."""

    def entered(change: Change) -> Change:
        ADJUSTMENTS.append(Adjustment(change.__name__.strip("_").replace("_", "-"), stage, change, why))
        return change

    return entered


REPEATS = "all samples are identical, even in metrics that always grow: a gateway or collector re-sends one sample"
REFUTED = (
    "log lines report this failure, but the client's metrics contradict them; perhaps the lines are about another time "
    "or client"
)
AWAITING_METRICS = "log lines report this failure; the client's next metrics will confirm or contradict them"
BY_EVIDENCE: Mapping[EvidenceKind, str] = {
    "metric": "by its metrics",
    "log": "by its log",
    "thread-dump": "by a thread dump",
    "absence": "by its silence",
}
#: A metric that keeps growing in a running Java client, by kind of client.
_CLOCKS = {"producer": "metadata-age", "consumer": "last-poll-seconds-ago"}
#: Time (s) after which identical samples count as re-sent.
_REPEATED_SECONDS = 15.0
#: A sample at most CLOSE_MS before or after a log line neither supports nor contradicts the line.
CLOSE_MS = 1_000
#: Maximum time (ms) for which the verdict on a log line waits for samples.
LONGEST_MS = 30_000


@per_windows
def repeats(w: Windows) -> Bools:
    """Return True for windows in which no metric changed, not even the metric that always grows (`_CLOCKS`).

    A gateway may keep sending the last sample of a client that is gone.
    """
    clock = _CLOCKS.get(w.kind or "")
    if clock is None:
        return np.zeros(len(w), np.bool_)
    still: Bools = (w.samples >= MIN_READINGS) & (w.count(clock) == w.samples)
    still &= (w.first("select-total") == w.last("select-total")) & (w.first(clock) == w.last(clock))
    for at in np.flatnonzero(still).tolist():
        lo, hi = w.lo[at], w.hi[at]
        same = (w.values[lo:hi] == w.values[lo]) | np.isnan(w.values[lo])
        still[at] = w.ts[hi - 1] - w.ts[lo] >= 1000 * _REPEATED_SECONDS and bool(same.all())
    return still


@_adjustment("window", "If a collector re-sends the last sample of a gone client, this client would look stuck.")
def _repeated_samples(verdict: Verdict, context: Context) -> Verdict:
    """Judge a window of repeated samples by its log alone.

    Runs first, because later adjustments use the verdict by the log.
    """
    mode, window = context.mode, context.window
    if mode is None or window is None or mode.absence or not repeats(window.table)[0]:
        return verdict
    by_log = mode.judge(replace(window, readings=()), mode.thresholds)
    return by_log if by_log.unhealthy or by_log.evidence else Verdict(verdict.mode, "unknown", reason=REPEATS)


@_adjustment("window", "A failure is only suspected until data refutes every innocent explanation.")
def _alibis(verdict: Verdict, context: Context) -> Verdict:
    """Lower the status of a failure that may have an innocent explanation. Runs before statuses are compared."""
    mode, window = context.mode, context.window
    if mode is None or window is None or not verdict.proofs:
        return verdict
    newest_ms, cause = max(fact.ts_ms for fact in verdict.evidence), verdict.detail.get("cause")
    ruled_out, left = [], []
    for confusion in mode.confusions:
        if confusion.causes and cause not in confusion.causes:
            continue
        known = _refuted(confusion, verdict.proofs)
        if known.holds is None and confusion.unless:
            known = CIRCUMSTANCES[confusion.unless](window, newest_ms)
        if known.holds is False:
            reason = f"it may be {confusion.what}: {known.text}"
            return Verdict(verdict.mode, "unknown", reason=reason, evidence=verdict.evidence)
        if known.holds:
            ruled_out.append(f"{confusion.what} ({known.text})")
        else:
            left.append(f"{confusion.what} ({confusion.settled_by} would settle it)")
    if all(proof.circumstance == ANOTHERS.name for proof in verdict.proofs):
        left.append(ANOTHERS.text)
    status: Status = "suspected" if left else verdict.status
    return replace(verdict, status=status, ruled_out=tuple(ruled_out), not_ruled_out=tuple(left), proofs=())


def _refuted(confusion: Confusion, proofs: Sequence[Proof]) -> Circumstance:
    """Return a `Circumstance` that states whether a proof excludes `confusion`.

    `holds` of the result is True if a proof excludes `confusion`, else None (unknown). A line that may be about another
    client excludes nothing.
    """
    for proof in proofs:
        needed = proof.circumstance != "" and proof.circumstance == confusion.unless
        if needed and proof.holds:
            return Circumstance(True, proof.why)
        fits = proof.direct or proof.kind in confusion.refuted_by
        if fits and (proof.holds or not needed) and proof.circumstance != ANOTHERS.name:
            return Circumstance(True, BY_EVIDENCE[proof.kind])
    return Circumstance(None)


@_adjustment("window", "A failure cannot have begun before its client was started.")
def _not_before_start(verdict: Verdict, context: Context) -> Verdict:
    """Replace an onset that is before the client's start by this start. Runs before verdicts are merged."""
    if verdict.since_ms is None or not verdict.evidence:
        return verdict
    newest_ms = max(fact.ts_ms for fact in verdict.evidence)
    since_ms = max([verdict.since_ms, *(start for start in context.starts if start <= newest_ms)])
    return replace(verdict, since_ms=since_ms) if since_ms > verdict.since_ms else verdict


@_adjustment(
    "window", "Log lines that report the failure make `ok` doubtful, even if the client's samples contradict them."
)
def _contradicted_lines(verdict: Verdict, context: Context) -> Verdict:
    """Change `ok` to `unknown` if samples contradict lines that report the failure.

    The judge did not see the lines that samples contradict.
    """
    lines = context.mode.lines if context.mode and context.contradicted else ()
    if verdict.status != "ok" or not any(meaning.ids & context.contradicted for meaning in lines):
        return verdict
    return Verdict(verdict.mode, "unknown", reason=REFUTED)


@_adjustment("window", "Log lines alone would open an incident that the client's next sample may contradict.")
def _await_samples(verdict: Verdict, context: Context) -> Verdict:
    """If only log lines show a new failure, set the verdict to `unknown` until the client's next sample.

    The verdict stays `unknown` for at most LONGEST_MS. Runs last, after adjustments that remove evidence.
    """
    reporting = context.reporting
    if reporting is None or not verdict.unhealthy or verdict.mode in context.incidents:
        return verdict
    if any(fact.kind != "log" for fact in verdict.evidence):
        return verdict
    # Let the wait begin at the window's first line that has the same log pattern as the evidence. If the wait began at
    # the evidence, each further line would prolong the wait.
    shown, logs = {fact.ts_ms for fact in verdict.evidence}, context.window.logs if context.window else ()
    alike = {event.signature for event in logs if event.ts_ms in shown}
    first = min([*shown, *(event.ts_ms for event in logs if event.signature in alike)])
    arrived = first + reporting.every_ms + CLOSE_MS < reporting.last_ms
    if arrived or reporting.silent_ms + reporting.last_ms - first > LONGEST_MS:
        return verdict
    return Verdict(verdict.mode, "unknown", reason=AWAITING_METRICS, evidence=verdict.evidence)


ALL_SILENT = "no client reports: perhaps the collectors of metrics or their topic have stopped"
#: A failure counts as open at the end of a recording if at most LASTING_MS passed from its newest evidence to the
#: client's newest sample.
LASTING_MS = 90_000


def explains(mode: str, status: Status, verdict: Verdict) -> bool:
    """Return True if a failure of this mode and status explains the symptoms in the verdict."""
    if verdict.mode not in modes()[mode].explains or STATUS_ORDER.index(status) < STATUS_ORDER.index(verdict.status):
        return False
    return modes()[verdict.mode].explicable(verdict)


def _lasts(verdict: Verdict, context: Context) -> bool:
    last_ms = context.attached.last_ms if context.attached else 0
    return max((fact.ts_ms for fact in verdict.evidence), default=0) > last_ms - LASTING_MS


@_adjustment("moment", "If all clients are silent at once, the collectors of metrics or their topic have stopped.")
def _all_silent(verdict: Verdict, context: Context) -> Verdict:
    """Set a verdict without log evidence to `unknown` if no client reports.

    Runs first, because later adjustments of this stage read the verdict.
    """
    if not context.all_silent or any(fact.kind == "log" for fact in verdict.evidence):
        return verdict
    return Verdict(verdict.mode, "unknown", reason=ALL_SILENT)


@_adjustment("moment", "A recording can end before its process, so missing data alone gives at most a suspicion.")
def _recorded_end(verdict: Verdict, context: Context) -> Verdict:
    """Change the status of a verdict on a client's end from `confirmed` to `suspected`.

    Runs before `explained`, which compares statuses.
    """
    if context.attached is None or verdict.status != "confirmed" or not modes()[verdict.mode].absence:
        return verdict
    return replace(verdict, status="suspected")


@_adjustment("moment", "The evidence of a client's end belongs to the failure that explains this end.")
def _evidence_of_end(verdict: Verdict, context: Context) -> Verdict:
    """Add the evidence of a client's end to the failure that explains the end. Runs before `explained`."""
    if context.attached is None or not verdict.unhealthy or not _lasts(verdict, context):
        return verdict
    gone = (other for other in context.verdicts if other.unhealthy and modes()[other.mode].absence)
    ends = [fact for other in gone if explains(verdict.mode, verdict.status, other) for fact in other.evidence]
    if not ends:
        return verdict
    return replace(verdict, evidence=tuple(sorted((*verdict.evidence, *ends), key=lambda fact: fact.ts_ms)))


@_adjustment("moment", "One failure gets one verdict: the symptoms of a known failure are not a second failure.")
def _explained(verdict: Verdict, context: Context) -> Verdict:
    """Withdraw a failure that another failure explains. Runs last, because remaining failures open incidents."""
    if verdict.status == "unknown":
        return verdict
    present = {mode: incident.status for mode, incident in context.incidents.items()}
    at_end = context.attached is not None and modes()[verdict.mode].absence
    for other in context.verdicts:
        if other.unhealthy and present.get(other.mode) != "confirmed" and (not at_end or _lasts(other, context)):
            present[other.mode] = other.status
    by = next((mode for mode, status in sorted(present.items()) if explains(mode, status, verdict)), None)
    if by is None:
        return verdict
    return Verdict(verdict.mode, "unknown", reason=f"{by} explains the evidence of this failure", detail=verdict.detail)


LOOKED_AT = "records wait in the buffer, but the producer was running when its metrics were read: its end is not proven"


@_adjustment(
    "shown", "An incident lasts longer than one window, so the incident has the earliest onset and all evidence."
)
def _open_incident(verdict: Verdict, context: Context) -> Verdict:
    """Replace the verdict by the open incident's verdict. Runs first, so that later adjustments see the new verdict."""
    return context.incidents.get(verdict.mode, verdict)


def _topics(verdict: Verdict, kind: str = "") -> list[str]:
    return [fact.source.topic for fact in verdict.evidence if fact.source is not None and kind in ("", fact.kind)]


@_adjustment("shown", "Log lines without times cannot prove a failure that is defined by a duration.")
def _untimed_lines(verdict: Verdict, context: Context) -> Verdict:
    """Set a verdict that rests only on untimed lines to `unknown`.

    Runs before `unproven-ok`. If a verdict is `unknown`, `unproven-ok` keeps the verdict's reason.
    """
    mode, attached = modes()[verdict.mode], context.attached
    cause = mode.cause(verdict)
    reason = "" if cause and cause.timeless else mode.needs_times
    lines = _topics(verdict, "log")
    if not reason or attached is None or not verdict.unhealthy or not lines or len(lines) < len(verdict.evidence):
        return verdict
    if not attached.untimed.issuperset(lines):
        return verdict
    return replace(verdict, status="unknown", reason=reason, evidence=())


@_adjustment("shown", "Copied metrics end when the person stops copying, not when the client ends.")
def _stopped_looking(verdict: Verdict, context: Context) -> Verdict:
    """Set a verdict on a client's end to `unknown` if only copied samples, or only few samples, show the end.

    Runs before `unproven-ok`. If a verdict is `unknown`, `unproven-ok` keeps the verdict's reason.
    """
    attached, kinds = context.attached, {fact.kind for fact in verdict.evidence}
    if attached is None or not verdict.unhealthy or not modes()[verdict.mode].absence:
        return verdict
    if not kinds <= {"metric", "absence"}:
        return verdict
    topics = _topics(verdict, "metric")
    pasted = bool(topics) and attached.pasted.issuperset(topics)
    if (attached.samples >= MIN_READINGS or "absence" in kinds) and not pasted:
        return verdict
    return replace(verdict, status="unknown", reason=LOOKED_AT, evidence=())


@_adjustment("shown", "`ok` is proven only if evidence rules this mode out, and if all evidence could be read.")
def _unproven_ok(verdict: Verdict, context: Context) -> Verdict:
    """Change `ok` to `unknown` if the mode is not ruled out. Runs after all other adjustments that change a status."""
    attached = context.attached
    if attached is None or verdict.unhealthy or (verdict.status == "unknown" and verdict.reason != FEW):
        return verdict
    doubt = modes()[verdict.mode].doubt(attached.look) or (attached.unread if verdict.status == "ok" else "")
    return replace(verdict, status="unknown", reason=doubt) if doubt else verdict


@_adjustment("shown", "An onset computed from made-up times would be wrong.")
def _undated_onset(verdict: Verdict, context: Context) -> Verdict:
    """Take an onset from dated evidence only. Runs after all adjustments that remove evidence."""
    attached = context.attached
    sourced = [fact for fact in verdict.evidence if fact.source is not None]
    if attached is None or not sourced or verdict.since_ms is None:
        return verdict
    dated = [fact.ts_ms for fact in sourced if fact.source and fact.source.topic not in attached.undated]
    if not dated:
        return replace(verdict, since_ms=None)
    made_up = bool(attached.undated) and verdict.since_ms < min(dated) - APART_MS // 2
    return replace(verdict, since_ms=min(dated)) if made_up else verdict


#: `diagnose` makes up times for undated records: ten days (APART_MS) before the dated data of the same process.
APART_MS = 10 * 86_400_000

BY_NAME: Mapping[str, Adjustment] = {adjustment.name: adjustment for adjustment in ADJUSTMENTS}
_BY_STAGE: Mapping[Any, tuple[Adjustment, ...]] = {
    stage: tuple(a for a in ADJUSTMENTS if a.stage == stage) for stage in ("window", "moment", "shown")
}
