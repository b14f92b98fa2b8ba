"""Never a false all-clear: `ok` stays only where there is evidence of health, else the verdict is `unknown`.

What speaks for health is each mode's own to say (`doubt`). Whoever evidence speaks of that could not be read is not
called healthy either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from clienthealth.attachments.input import Input
from clienthealth.model.clients import Client
from clienthealth.model.readings import LogEvent, ThreadDump
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import FEW, MIN_READINGS, Look, modes
from clienthealth.step import process_log
from clienthealth.step.bucket import Bucket
from clienthealth.windows.client_window import ClientWindow
from clienthealth.windows.packed import Who

#: A recorder writes as long as its client lives; metrics in these end when somebody stops to look.
PASTED = ("metrics (", "log", "JSON document")
LOOKED_AT = "records wait in its buffer, but nobody says that it ended: the metrics are of a moment at which it lived"
NO_CLOCK = "nobody says when its metrics were read"
VerdictsByKey = dict[str, tuple[Client, list[Verdict]]]


def honest(bucket: Bucket, verdicts_by_key: VerdictsByKey, inputs: Sequence[Input]) -> VerdictsByKey:
    """The verdicts without those `ok` that nothing speaks for."""
    logs = process_log.process_logs(bucket.state)
    readings = {who.identity: int(np.sum(bucket.state.readings.who == n)) for n, who in enumerate(bucket.state.whos)}
    unclocked = _read_at_no_time(bucket, inputs)
    honest_verdicts: VerdictsByKey = {}
    for key, (client, verdicts) in verdicts_by_key.items():
        process = client.service, client.host
        events, dumps = _log_of(logs.get(process), client)
        count = readings.get(_who(client).identity, 0)
        window = ClientWindow(client, 0, 0, logs=events, dumps=dumps)
        look = Look(window, count >= MIN_READINGS, _untimed(dumps, inputs))
        unread = _unread(process, inputs) or (NO_CLOCK if _who(client).identity in unclocked else "")
        honest_verdicts[key] = (
            client,
            [_doubted(_gone(_clocked(verdict, inputs), count, inputs), look, unread) for verdict in verdicts],
        )
    return honest_verdicts


def _clocked(verdict: Verdict, inputs: Sequence[Input]) -> Verdict:
    """The verdict; unknown where nobody has timed the lines that it rests on, and its mode needs that."""
    untimed = {topic for attached in inputs if not attached.timed for topic in attached.topics}
    lines = [fact.source.topic in untimed for fact in verdict.evidence if fact.kind == "log" and fact.source]
    reason = modes()[verdict.mode].needs_times
    if not reason or not verdict.unhealthy or not lines or len(lines) < len(verdict.evidence):
        return verdict
    return dataclasses.replace(verdict, status="unknown", reason=reason, evidence=()) if all(lines) else verdict


def _gone(verdict: Verdict, readings: int, inputs: Sequence[Input]) -> Verdict:
    """The verdict; unknown where a client is thought to have gone as somebody stopped to look at its metrics."""
    absent = modes()[verdict.mode].absence and verdict.unhealthy
    kinds = {fact.kind for fact in verdict.evidence}
    # Of a client that works its log says nothing: that it has no word of a close is no sign of an end.
    if not absent or not kinds <= {"metric", "absence"}:
        return verdict
    pasted = {topic for attached in inputs if attached.what.startswith(PASTED) for topic in attached.topics}
    topics = {fact.source.topic for fact in verdict.evidence if fact.kind == "metric" and fact.source is not None}
    looked_at = bool(topics) and topics <= pasted
    if (readings >= MIN_READINGS or "absence" in kinds) and not looked_at:
        return verdict
    return dataclasses.replace(verdict, status="unknown", reason=LOOKED_AT, evidence=())


def _doubted(verdict: Verdict, look: Look, unread: str) -> Verdict:
    """The verdict, `ok` only without a doubt; where too few readings are the reason, what is there says it better."""
    if verdict.unhealthy or (verdict.status == "unknown" and verdict.reason != FEW):
        return verdict
    reason = modes()[verdict.mode].doubt(look) or (unread if verdict.status == "ok" else "")
    return dataclasses.replace(verdict, status="unknown", reason=reason) if reason else verdict


def _who(client: Client) -> Who:
    return Who(client.service, client.host, client.instance, client.client_id, client.kind or "")


def _log_of(log: process_log.ProcessLog | None, client: Client) -> tuple[tuple[LogEvent, ...], tuple[ThreadDump, ...]]:
    """The log events that concern the client, and the dumps of its process, each joined again from its lines."""
    if log is None or not log.entries:
        return (), ()
    first, last = log.entries[0].ts_ms, log.entries[-1].ts_ms
    events, dumps, _ = log.within(first, last + 1).about(_who(client))
    return events, dumps


def _read_at_no_time(bucket: Bucket, inputs: Sequence[Input]) -> set[object]:
    """The clients whose metrics have no time: nothing can be judged to last in them."""
    untimed = {
        topic for attached in inputs if not attached.timed or attached.start_ms is None for topic in attached.topics
    }
    rows, names = bucket.state.readings, bucket.state.names
    places = set(zip(rows.who.tolist(), rows.topic.tolist(), strict=True))
    return {bucket.state.whos[who].identity for who, topic in places if names[topic] in untimed}


def _untimed(dumps: Sequence[ThreadDump], inputs: Sequence[Input]) -> bool:
    # The time of a file is good enough to say when, not to say how far two dumps are apart.
    topics = {
        topic for attached in inputs if not attached.timed or attached.start_ms is None for topic in attached.topics
    }
    return any(dump.source is not None and dump.source.topic in topics for dump in dumps)


def _unread(process: tuple[str, str], inputs: Sequence[Input]) -> str:
    """Why evidence that may speak of the process could not be read; '' where all was."""
    parts = [
        f"{attached.name} ({', '.join(f'{count:,} {why}' for why, count in attached.unread.items())})"
        for attached in inputs
        if attached.unread and attached.process in (None, process)
    ]
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"part of the evidence could not be read: {', '.join(parts[:3])}{more}" if parts else ""
