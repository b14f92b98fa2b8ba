"""What a producer's silence says: librdkafka hands out its statistics in poll(), pushes come from the I/O thread."""

from __future__ import annotations

from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import elapsed, quoted, size
from clienthealth.modes._evidence import Fact, conclude, events, number_or_none, used_bytes
from clienthealth.modes._polls import CLOSED, CLOSES, ENDED, lived, pushes, pushes_on, reports_in_poll, told_in_poll
from clienthealth.modes.producer_callback_deadlock.lines import EXHAUSTED, ID
from clienthealth.modes.producer_callback_deadlock.rules import Thresholds, sentence
from clienthealth.modes.producer_not_closed.lines import CLOSED as CLOSED_PRODUCER
from clienthealth.modes.producer_not_closed.lines import CLOSING, DIED
from clienthealth.windows.client_window import ClientWindow


def silence(window: ClientWindow, thresholds: Thresholds) -> Verdict | None:
    """librdkafka hands out statistics in poll(): they end where nobody calls it, though the process goes on."""
    if window.departed_ms is None:
        return None
    if pushes(window) and not reports_in_poll(window.client.library):
        return _pushes_no_more(window, window.departed_ms)
    if not told_in_poll(window):
        return None
    sign = lived(window)
    if sign is None:
        return Verdict(ID, "unknown", reason=ENDED)
    w = window.table
    queued, limit = (number_or_none(w.last(name)[0]) for name in ("queue-records", "queue-records-limit"))
    away = elapsed((sign.ts_ms - window.departed_ms) / 1000)
    text = f"its statistics, which come in poll(), ended {away} before {sign.text}"
    ended = Fact("absence", window.departed_ms, sign.ts_ms, text, source=sign.source)
    full = [
        Fact("log", e.ts_ms, e.ts_ms, f"its queue is full: {quoted(sentence(e.text))}", True, e.source)
        for e in events(window, EXHAUSTED)
        if e.ts_ms > window.departed_ms
    ]
    if not full and not (queued and limit and queued >= thresholds.silent_queue_ratio * limit):
        closed = Fact("absence", window.departed_ms, sign.ts_ms, f"{text}: {CLOSED}", source=sign.source)
        return conclude(ID, [], doubts=[closed])
    return conclude(ID, [ended, *full[:1], *full[-1:]], {"cause": "poll-not-called", "queued_records": queued})


def _pushes_no_more(window: ClientWindow, departed_ms: int) -> Verdict | None:
    """A client pushes on the I/O thread: what its last readings and its neighbours say of a silence without a close."""
    before, last = window.readings[-2:] if window.readings[1:] else (window.readings[-1], window.readings[-1])
    if last.get(CLOSES) or events(window, CLOSING, CLOSED_PRODUCER, DIED):
        return None
    used, sent = used_bytes(last), last.get("record-send-total")
    if not used and sent == before.get("record-send-total"):
        return None
    sign = lived(window)
    if sign is None:
        return Verdict(ID, "unknown", reason=SILENT)
    filled = (used or 0.0) - (used_bytes(before) or 0.0)
    if not pushes_on(window) or sent is None or sent != before.get("record-send-total") or filled <= 0:
        return Verdict(ID, "unknown", reason=f"{SILENT}; {sign.text} came since")
    seconds = (last.ts_ms - before.ts_ms) / 1000
    text = f"its buffer filled by {size(filled)} in {elapsed(seconds)}, to {size(used or 0.0)}, and nothing was sent"
    away = (sign.ts_ms - departed_ms) / 1000
    silent = f"it pushes on its I/O thread, and pushed no more; {elapsed(away)} later came {sign.text}"
    facts = [
        Fact("metric", before.ts_ms, last.ts_ms, text, source=last.source),
        Fact("absence", departed_ms, sign.ts_ms, silent, source=sign.source),
    ]
    return conclude(ID, facts, {"cause": None}, independent=False)


SILENT = (
    "it pushes no more, and its last push did not say that it closes: its process has ended, or its I/O thread, which "
    "pushes, is stuck; a thread dump or its log tells which"
)
