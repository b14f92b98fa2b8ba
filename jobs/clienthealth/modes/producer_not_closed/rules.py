"""A producer's process ended with records still in its buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.producer import used_ratios
from clienthealth.model.readings import LogEvent, Reading
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, percent, quoted, size
from clienthealth.modes import AbsenceMode, Limits, mode_file
from clienthealth.modes._evidence import Circumstance, Fact, conclude, events, number_or_none, used_bytes, version
from clienthealth.modes._looks import Look
from clienthealth.modes._polls import CLOSES, pushes, pushes_on, reports_only_in_poll
from clienthealth.modes.circumstances import io_thread_works

FILE = mode_file(__file__)
ID = FILE.id
STARTED, PRODUCER_CONFIG, CLOSING = map(FILE.reads, ("started", "self-descriptions.producer-config", "closing"))
CLOSED, FORCED = map(FILE.reads, ("closed", "forced"))
#: CLOSED_INSIDE: a callback called close(), which then does not wait for records.
CLOSED_INSIDE, ABORTED = map(FILE.reads, ("producer-callback-deadlock.closed-inside", "aborted"))
TERMINATING, UNCLOSED, DIED = map(FILE.reads, ("terminating", "unclosed", "died"))

#: Libraries that close producers at exit without a log line.
CLOSES_UNLOGGED = ("kafka-python",)
#: First version of the Java client that names its client id in its log lines.
NAMED_SINCE = (1,)


class Thresholds(Limits, of=FILE):
    """Limits that decide whether undelivered records are a fault."""

    confirm_bytes: int
    confirm_ratio: float
    closing_seconds: float
    confirm_records: int


@dataclass(frozen=True, slots=True)
class _Pending:
    """The undelivered records at one sample; `bytes` and `records` are None if unknown."""

    reading: Reading | None = None
    bytes: float | None = None
    records: float | None = None
    ratio: float = 0.0

    @property
    def known(self) -> bool:
        return self.bytes is not None or self.records is not None

    @property
    def none_left(self) -> bool:
        return self.known and not self.some_left

    @property
    def some_left(self) -> bool:
        return bool(self.bytes or self.records)

    def large(self, limits: Thresholds) -> bool:
        by_bytes = (self.bytes or 0) >= limits.confirm_bytes and self.ratio >= limits.confirm_ratio
        return by_bytes or (self.records or 0) >= limits.confirm_records

    def loss(self) -> dict[str, Any]:
        """Return lost bytes and records as [0, maximum], because the loss is not certain."""
        most = {"lost_bytes": self.bytes, "lost_records": self.records}
        return {name: [0, round(value)] for name, value in most.items() if value is not None}

    def facts(self) -> list[Fact]:
        if self.reading is None or not self.some_left:
            return []
        return [Fact.of("metric", self.reading, f"the producer still had {self} to deliver at its last sample")]

    def __str__(self) -> str:
        parts = [count_of(self.records, "record")] if self.records is not None else []
        if self.bytes is not None:
            parts.append(f"{size(self.bytes)} ({percent(self.ratio)} of the buffer)")
        return " or ".join(parts)


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Return this failure mode's verdict on a window. `background` in mode.toml explains the rules."""
    terminating, died = events(window, TERMINATING), events(window, DIED)
    if window.departed_ms is None:
        return Verdict(ID, "unknown", reason="the client still reports")
    if window.spoke_ms is not None:
        return Verdict(ID, "unknown", reason=LOGS_ON)
    if terminating:
        return _terminated(terminating[-1])
    if window.alive and reports_only_in_poll(window):
        return Verdict(ID, "unknown", reason=BESIDE)
    pending = _pending(window)
    # A line on dropped records proves more than a line on a forced close.
    forced = next(iter(events(window, ABORTED) or events(window, FORCED)), None)
    waited = forced is not None and (forced in ABORTED or _waited(window))
    inside = events(window, CLOSED_INSIDE)
    if forced and (waited or (inside and not pending.none_left)):
        given = AT_ONCE if inside else _io_works(window, forced, pending, thresholds)
        fact = Fact.of("log", forced, f"the client logged {quoted(forced.text)}", waited, given=given)
        return conclude(ID, [fact, *pending.facts()], {"cause": "forced-close", **pending.loss()})
    if events(window, CLOSING, CLOSED) and not forced:
        return _begun(window, pending, thresholds)
    unclosed = [Fact.of("log", e, quoted(e.text)) for e in events(window, UNCLOSED)[-1:]]
    if window.readings and window.readings[-1].get(CLOSES) and not (forced or unclosed or died):
        return _closing_at_the_end(pending)
    if not pending.known:
        blind = f"the process ended ({quoted(died[-1].text)}), and {BLIND}" if died else BLIND
        return conclude(ID, unclosed, {"cause": "exit-without-close"}, otherwise=blind)
    if pending.none_left and not unclosed:
        if inside or (died and window.table.rose("record-send-total")[0]):
            return Verdict(ID, "unknown", reason=CLOSED_SENDING if inside else DIED_SENDING)
        return Verdict(ID, "ok", detail={"note": "all records were delivered at the producer's last sample"})
    if reports_only_in_poll(window) and not died:
        return Verdict(ID, "unknown", reason=FLUSHED.format(pending), detail=pending.loss())
    return _missed(window, pending, forced, unclosed, thresholds)


def explicable(verdict: Verdict) -> bool:
    """Return True if another failure, which kept the records in the buffer, may explain their loss.

    If a log line reports that the producer ended without close(), no other failure explains the loss.
    """
    unclosed = verdict.detail.get("cause") == "exit-without-close"
    return verdict.unhealthy and not (unclosed and any(fact.kind == "log" for fact in verdict.evidence))


def _closing_at_the_end(pending: _Pending) -> Verdict:
    if not pending.known:
        return Verdict(ID, "unknown", reason=f"close() sent the producer's last push, and {BLIND}")
    if pending.none_left:
        return Verdict(ID, "ok", detail={"note": "close() sent the producer's last push, and no record was left"})
    return Verdict(ID, "unknown", reason=LEAVING.format(pending), detail=pending.loss())


def _begun(window: ClientWindow, pending: _Pending, limits: Thresholds) -> Verdict:
    cause = {"cause": "killed", **pending.loss()}
    if events(window, CLOSED):
        return conclude(ID, [], cause)
    begun = events(window, CLOSING)[-1]
    left = [used for r in window.readings if r.ts_ms >= begun.ts_ms and (used := used_bytes(r)) is not None]
    waited = (window.readings[-1].ts_ms - begun.ts_ms) / 1000 if pending.some_left else 0.0
    if (len(left) > 1 and 0 < left[-1] < left[0]) or 0 < waited < limits.closing_seconds:
        return Verdict(ID, "unknown", reason=DELIVERING, detail=pending.loss())
    if waited < limits.closing_seconds:
        return conclude(ID, [], cause)
    text = (
        f"{elapsed(waited)} after close() began, the producer still had {pending} to deliver; no log line shows that "
        "close() finished"
    )
    return conclude(ID, [Fact.of("metric", window.readings[-1], text, since=begun)], cause)


def _missed(
    window: ClientWindow, pending: _Pending, forced: LogEvent | None, unclosed: list[Fact], limits: Thresholds
) -> Verdict:
    nameless = (version(window) or NAMED_SINCE) < NAMED_SINCE
    is_logged = bool(events(window, STARTED, PRODUCER_CONFIG, CLOSING, CLOSED, FORCED, ABORTED)) and not nameless
    died, pushed, large = events(window, DIED), pushes(window), pending.large(limits)
    ended, may_live = bool(died or forced or unclosed), pushed and _may_live_on(window)
    innocent = (
        (NEIGHBOURS, pushed and window.alive and not ended),
        (CUT_OFF, may_live and not (ended or large)),
        (NAMELESS if nameless else UNREAD, not (is_logged or died or unclosed or large)),
        (ENDS, not (window.outlived or ended or large)),
    )
    if reason := next((reason for reason, applies in innocent if applies), ""):
        return Verdict(ID, "unknown", reason=reason, detail=pending.loss())
    facts = [*pending.facts(), *unclosed]
    if forced:
        facts.append(Fact.of("log", forced, "the producer's close() had a timeout of 0 s", given=AT_ONCE))
    elif died:
        facts.append(Fact.of("log", died[-1], quoted(died[-1].text)))
    elif is_logged and window.client.library not in CLOSES_UNLOGGED and not may_live and large:
        gone = window.departed_ms or window.end_ms
        text = "the client's data ended here; its log shows its start, but no close()"
        text += "; its last push did not come from close() either" if pushed else ""
        facts.append(Fact("absence", gone, gone, text))
    cause = "forced-close" if forced else "killed" if died else "exit-without-close"
    return conclude(ID, facts, {"cause": cause, **pending.loss()})


def _may_live_on(window: ClientWindow) -> bool:
    if not pushes_on(window):
        return True
    sent = [reading.get("record-send-total") for reading in window.readings[-2:]]
    return len(sent) < 2 or None in sent or sent[0] != sent[1]


def _pending(window: ClientWindow) -> _Pending:
    """Return the undelivered records at the last sample.

    If the log shows a forced close, return the undelivered records at the last sample before the close.
    """
    ends = events(window, CLOSING, FORCED, ABORTED) if events(window, FORCED, ABORTED) else []
    before = [reading for reading in window.readings if not ends or reading.ts_ms <= ends[0].ts_ms] or window.readings
    if not before:
        return _Pending()
    reading, ratio = before[-1], number_or_none(used_ratios(window.table).values[len(before) - 1])
    sent, acknowledged = reading.get("record-send-total"), reading.get("record-ack-total")
    records = reading.get("queue-records")
    if sent is not None and acknowledged is not None:
        records = max(0.0, sent - acknowledged - (reading.get("record-error-total") or 0.0))
    return _Pending(reading, used_bytes(reading), records, ratio or 0.0)


def _terminated(event: LogEvent) -> Verdict:
    numbers = {name: int(event.captures[name]) for name in ("records", "bytes") if name in event.captures}
    left = count_of(float(numbers["records"]), "record") if "records" in numbers else "records"
    text = f"the producer ended with {left} still in its queue or in flight: {quoted(event.text)}"
    lost = {f"lost_{name}": [0, number] for name, number in numbers.items()}
    return conclude(ID, [Fact.of("log", event, text, True)], {"cause": "exit-without-close", **lost})


def _io_works(window: ClientWindow, forced: LogEvent, pending: _Pending, limits: Thresholds) -> Circumstance | None:
    """Return whether the I/O thread worked during a long close(); None if this does not matter for the verdict."""
    short = any(0 <= forced.ts_ms - event.ts_ms < 1000 * limits.closing_seconds for event in events(window, CLOSING))
    return None if forced in ABORTED or short or pending.large(limits) else io_thread_works(window, forced.ts_ms)


def _waited(window: ClientWindow) -> bool:
    """Return True if the log shows a forced close() with a timeout above 0."""
    limits = [e.captures.get("timeout") for e in events(window, FORCED, CLOSING)]
    return any(limit is not None and float(limit.rstrip(".") or 0) > 0 for limit in limits)


AT_ONCE = Circumstance(True, "close() did not wait", "io-thread-works")
LOGS_ON = "the producer no longer reports, but its process still logs: nothing shows that the producer has ended"
BESIDE = (
    "the producer no longer reports, but other clients of its process do; perhaps the application no longer calls "
    "poll()"
)
NEIGHBOURS = (
    "the producer had undelivered records at its last push, but other clients at its address still push: either its "
    "I/O thread is stuck, or only this producer was closed"
)
DELIVERING = "close() was still delivering records at the last sample, and no log line shows that close() finished"
LEAVING = (
    "close() sent the producer's last push with {} undelivered; no log line shows whether close() waited for delivery"
)
FLUSHED = (
    "the producer still had {} to deliver at its last sample; a final flush() may have delivered them, because "
    "librdkafka's statistics end before a final flush()"
)
CUT_OFF = (
    "the producer had few undelivered records at its last push, and perhaps it still runs: a broken connection or a "
    "high load can also stop the pushes"
)
BLIND = "the client did not report how many records were undelivered"
NAMELESS = (
    "the producer had few undelivered records at its last sample, and clients before 1.0 do not log their client id "
    "when they close"
)
CLOSED_SENDING = (
    "all records were delivered at the producer's last sample, but a callback called close(), and close() in a "
    "callback waits for no record"
)
DIED_SENDING = "all records were delivered at the producer's last sample, but its process was killed while sending"
ENDS = (
    "the producer had few undelivered records at its last sample, which is normal, and all data ends right after this "
    "sample"
)
UNREAD = "the producer had few undelivered records at its last sample, and no log line shows its start or its close"


def doubt(look: Look) -> str:
    """Return why `diagnose` cannot rule the failure mode out; '' if the mode is ruled out."""
    if not look.measured and look.window.logs and look.window.logs[-1] in CLOSING:
        return "the producer's close() began, but the data ends before close() completes"
    return ""


MODE = AbsenceMode(**FILE.facts(Thresholds()), judge=judge, explicable=explicable, doubt=doubt)
