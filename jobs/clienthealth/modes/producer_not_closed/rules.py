"""A producer's process ended with records still in its buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.producer import used_ratios
from clienthealth.model.readings import LogEvent, Reading
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, percent, quoted, size
from clienthealth.modes import AbsenceMode, Limits, mode_file
from clienthealth.modes._evidence import Fact, conclude, events, used_bytes, version
from clienthealth.modes._looks import Look
from clienthealth.modes._polls import CLOSES, pushes, pushes_on, told_in_poll

FILE = mode_file(__file__)
ID = FILE.id
STARTED = FILE.reads("started")
PRODUCER_CONFIG = FILE.reads("self-descriptions.producer-config")
CLOSING = FILE.reads("closing")
CLOSED = FILE.reads("closed")
FORCED = FILE.reads("forced")
#: Logged for a close() inside a callback, which does not wait: it gives up all records behind the current one.
CLOSED_INSIDE = FILE.reads("producer-callback-deadlock.closed-inside")
ABORTED = FILE.reads("aborted")
TERMINATING = FILE.reads("terminating")
UNCLOSED = FILE.reads("unclosed")
DIED = FILE.reads("died")

#: Libraries that close producers at exit without a log line, because their logger prints nothing by then.
CLOSES_UNTOLD = ("kafka-python",)
#: From this version on, log lines of the Java client begin with the client id.
NAMED_SINCE = (1,)


class Thresholds(Limits, of=FILE):
    """Limits above which undelivered records are more than a producer under load always has in flight."""

    confirm_bytes: int
    confirm_ratio: float
    closing_seconds: float
    confirm_records: int


@dataclass(frozen=True, slots=True)
class _Pending:
    """The undelivered records at the last sample."""

    bytes: float | None
    records: float | None
    ratio: float

    @property
    def nothing(self) -> bool:
        return not self.bytes and not self.records

    def large(self, limits: Thresholds) -> bool:
        by_bytes = (self.bytes or 0) >= limits.confirm_bytes and self.ratio >= limits.confirm_ratio
        return by_bytes or (self.records or 0) >= limits.confirm_records

    def __str__(self) -> str:
        parts = [count_of(self.records, "record")] if self.records is not None else []
        if self.bytes is not None:
            parts.append(f"{size(self.bytes)} ({percent(self.ratio)} of the buffer)")
        return " or ".join(parts)


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Judge by the rules in `background` of mode.toml. Without `departed_ms` the client still exists: unknown."""
    if window.departed_ms is None:
        return Verdict(ID, "unknown", reason="the client still reports")
    if window.spoke_ms is not None:
        return Verdict(ID, "unknown", reason=SPEAKS)
    if window.alive and told_in_poll(window) and not events(window, TERMINATING):
        return Verdict(ID, "unknown", reason=BESIDE)
    readings = _before_the_end(window)
    pending = _pending(window, readings) if readings else None
    terminating = events(window, TERMINATING)
    if terminating:
        return _terminated(terminating[-1])
    # The line that says most: records were given up; else: the close was forced.
    forced = next(iter(events(window, ABORTED) or events(window, FORCED)), None)
    waited = forced is not None and (forced in ABORTED or _waited(window))
    inside = events(window, CLOSED_INSIDE)
    if forced and (waited or (inside and not (pending and pending.nothing))):
        fact = Fact.of("log", forced, f"the client logged {quoted(forced.text)}", waited)
        return conclude(ID, [fact, *_left(window, pending)], {"cause": "forced-close", **_loss(pending)})
    if events(window, CLOSING, CLOSED) and not forced:
        unfinished = _unfinished(window, pending, thresholds)
        if _delivering(window) or (not unfinished and _amid_close(window, pending)):
            return Verdict(ID, "unknown", reason=DELIVERING, detail=_loss(pending))
        return conclude(ID, unfinished, {"cause": "killed", **_loss(pending)})
    unclosed = [Fact.of("log", e, quoted(e.text)) for e in events(window, UNCLOSED)[-1:]]
    if readings and readings[-1].get(CLOSES) and not (forced or unclosed or events(window, DIED)):
        return _closing_at_the_end(pending)
    if pending is None:
        died = events(window, DIED)[-1:]
        blind = f"the process ended ({quoted(died[0].text)}), and {BLIND}" if died else BLIND
        return conclude(ID, unclosed, {"cause": "exit-without-close"}, otherwise=blind)
    if pending.nothing and not unclosed:
        if inside or (events(window, DIED) and window.table.rose("record-send-total")[0]):
            return Verdict(ID, "unknown", reason=CLOSED_SENDING if inside else DIED_SENDING)
        return Verdict(ID, "ok", detail={"note": "it had nothing left to deliver at its last sample"})
    if told_in_poll(window) and not events(window, DIED):
        return Verdict(ID, "unknown", reason=FLUSHED.format(pending), detail=_loss(pending))
    return _missed(window, pending, forced, unclosed, thresholds)


def explicable(verdict: Verdict) -> bool:
    """True if a mode that kept records in the buffer may explain the loss; no mode explains a missing close()."""
    unclosed = verdict.detail.get("cause") == "exit-without-close"
    return verdict.unhealthy and not (unclosed and any(fact.kind == "log" for fact in verdict.evidence))


def _closing_at_the_end(pending: _Pending | None) -> Verdict:
    """Return the verdict on a last push with `terminating`: close() sends this push before it delivers the rest."""
    if pending is None:
        return Verdict(ID, "unknown", reason=f"its last push announced a close, and {BLIND}")
    if pending.nothing:
        return Verdict(ID, "ok", detail={"note": "its last push announced a close, with nothing left to deliver"})
    return Verdict(ID, "unknown", reason=f"{LEAVING} {pending} to deliver", detail=_loss(pending))


def _delivering(window: ClientWindow) -> bool:
    """True if, at the client's last sign of life, a close() was still delivering and its end is unknown."""
    begun = events(window, CLOSING)
    if not begun or events(window, CLOSED):
        return False
    left = [value for r in window.readings if r.ts_ms >= begun[-1].ts_ms and (value := used_bytes(r)) is not None]
    return len(left) > 1 and 0 < left[-1] < left[0]


def _amid_close(window: ClientWindow, pending: _Pending | None) -> bool:
    """True if the last sign of life lies between the start and the end of close(), with records to deliver."""
    if pending is None or pending.nothing or events(window, CLOSED):
        return False
    return window.readings[-1].ts_ms > events(window, CLOSING)[-1].ts_ms


def _unfinished(window: ClientWindow, pending: _Pending | None, limits: Thresholds) -> list[Fact]:
    """Return facts on a close() that had not returned at the last sign of life, with records to deliver."""
    begun, last = events(window, CLOSING), window.readings[-1] if window.readings else None
    if events(window, CLOSED) or not begun or last is None or pending is None:
        return []
    waited = (last.ts_ms - begun[-1].ts_ms) / 1000
    if pending.nothing or waited < limits.closing_seconds:
        return []
    text = (
        f"{elapsed(waited)} after close() began it still had to deliver {pending}, and no line shows that it finished"
    )
    return [Fact.of("metric", last, text, since=begun[-1])]


def _missed(
    window: ClientWindow, pending: _Pending, forced: LogEvent | None, unclosed: list[Fact], limits: Thresholds
) -> Verdict:
    """Judge a client that is gone with records to deliver, without a close that waited for them."""
    nameless = (version(window) or NAMED_SINCE) < NAMED_SINCE
    is_logged = bool(events(window, STARTED, PRODUCER_CONFIG, CLOSING, CLOSED, FORCED, ABORTED)) and not nameless
    died = events(window, DIED)
    pushed = pushes(window)
    if pushed and window.alive and not (died or forced or unclosed):
        return Verdict(ID, "unknown", reason=NEIGHBOURS, detail=_loss(pending))
    may_live = pushed and _may_live_on(window)
    if may_live and not (died or forced or unclosed or pending.large(limits)):
        return Verdict(ID, "unknown", reason=CUT_OFF, detail=_loss(pending))
    if not is_logged and not died and not unclosed and not pending.large(limits):
        return Verdict(ID, "unknown", reason=NAMELESS if nameless else UNREAD, detail=_loss(pending))
    if not window.outlived and not (died or forced or unclosed or pending.large(limits)):
        return Verdict(ID, "unknown", reason=ENDS, detail=_loss(pending))
    facts = [*_left(window, pending), *unclosed]
    if forced:
        facts.append(Fact.of("log", forced, "its close() waited 0 s"))
    elif died:
        facts.append(Fact.of("log", died[-1], quoted(died[-1].text)))
    elif is_logged and window.client.library not in CLOSES_UNTOLD and not may_live and pending.large(limits):
        gone = window.departed_ms or window.end_ms
        text = "no data came since, and its log, which shows its start, shows no close"
        text += ", nor had its last push" if pushed else ""
        facts.append(Fact("absence", gone, gone, text))
    cause = "forced-close" if forced else "killed" if died else "exit-without-close"
    return conclude(ID, facts, {"cause": cause, **_loss(pending)})


def _may_live_on(window: ClientWindow) -> bool:
    """True if the client may live although it pushes nothing: its version is old, or it is too busy to push."""
    if not pushes_on(window):
        return True
    sent = [reading.get("record-send-total") for reading in window.readings[-2:]]
    return len(sent) < 2 or None in sent or sent[0] != sent[1]


def _pending(window: ClientWindow, readings: Sequence[Reading]) -> _Pending | None:
    """Return the undelivered records at the last of `readings`, which are the first samples of the window."""
    reading, ratio = readings[-1], used_ratios(window.table).values[len(readings) - 1]
    used = used_bytes(reading)
    sent, acknowledged = reading.get("record-send-total"), reading.get("record-ack-total")
    records = reading.get("queue-records")
    if sent is not None and acknowledged is not None:
        records = max(0.0, sent - acknowledged - (reading.get("record-error-total") or 0.0))
    if used is None and records is None:
        return None
    return _Pending(used, records, 0.0 if np.isnan(ratio) else float(ratio))


def _left(window: ClientWindow, pending: _Pending | None) -> list[Fact]:
    if pending is None or pending.nothing:
        return []
    last = _before_the_end(window)[-1]
    text = f"at its last sample it still had to deliver {pending}"
    return [Fact.of("metric", last, text)]


def _loss(pending: _Pending | None) -> dict[str, Any]:
    """Return least and most records lost. The least is 0: all may have been delivered after the last sample."""
    if pending is None:
        return {}
    loss: dict[str, Any] = {}
    if pending.bytes is not None:
        loss["lost_bytes"] = [0, round(pending.bytes)]
    if pending.records is not None:
        loss["lost_records"] = [0, round(pending.records)]
    return loss


def _terminated(event: LogEvent) -> Verdict:
    """Judge librdkafka's termination line; records in flight may have arrived, as all 5,895 did after flush(10 ms)."""
    records, in_bytes = (int(event.captures.get(name, 0)) for name in ("records", "bytes"))
    left = count_of(float(records), "record")
    text = f"librdkafka logged that it ended with {left} still in its queue or under way"
    lost = {"cause": "exit-without-close", "lost_records": [0, records], "lost_bytes": [0, in_bytes]}
    return conclude(ID, [Fact.of("log", event, text, True)], lost)


def _before_the_end(window: ClientWindow) -> Sequence[Reading]:
    """Return the samples before the client began to close. Later ones may mislead: a forced close drops the buffer."""
    ends = events(window, CLOSING, FORCED, ABORTED) if events(window, FORCED, ABORTED) else []
    before = [reading for reading in window.readings if not ends or reading.ts_ms <= ends[0].ts_ms]
    return before or window.readings


def _waited(window: ClientWindow) -> bool:
    """True if a forced close waited before it gave up. With a time limit of 0 the client logs a forced close anyway."""
    limits = [e.captures.get("timeout") for e in events(window, FORCED, CLOSING)]
    return any(limit is not None and float(limit.rstrip(".") or 0) > 0 for limit in limits)


SPEAKS = "it reports no more, but its process goes on logging: nothing shows that it has ended"
BESIDE = "it reports no more, but others of its process do: its application may have stopped calling poll()"
NEIGHBOURS = (
    "it had something to deliver when it pushed last, and pushes no more, but others from its address do: its I/O "
    "thread, which pushes, may be stuck, or it was closed alone"
)
DELIVERING = "close() was still delivering at the last sample, and no line shows that it finished"
LEAVING = "its last push announced a close, and no line of its log shows whether close() waited; it had"
FLUSHED = (
    "at its last sample it still had to deliver {}, which a last flush() may have done: librdkafka's statistics end "
    "before that, and it logs nothing of an end in order, or of a kill"
)
CUT_OFF = (
    "it had a little to deliver at its last push, and missing pushes prove no end: clients before 4.1.2 stop "
    "pushing for good when the connection breaks during a push, and busy ones find no room for a push"
)
BLIND = "the client did not report what it still had to deliver"
NAMELESS = "it had a little to deliver at its last sample, and clients before 1.0 do not name themselves at their close"
CLOSED_SENDING = (
    "it had nothing left to deliver at its last sample, but a callback closed it, which waits for no record"
)
DIED_SENDING = "it had nothing left to deliver at its last sample, but its process was killed while it was sending"
ENDS = "it had a little to deliver at its last sample, as a producer at work has, and all that was read ends there"
UNREAD = "it had a little to deliver at its last sample, and no line of its log was read that would show a close"


def doubt(look: Look) -> str:
    """Return why the mode cannot be ruled out: a close began and its end is not visible. '' in all other cases."""
    if not look.measured and look.window.logs and look.window.logs[-1] in CLOSING:
        return "its close had begun, and the records end before it completed"
    return ""


MODE = AbsenceMode(**FILE.facts(), thresholds=Thresholds(), judge=judge, explicable=explicable, doubt=doubt)
