"""Never a false all-clear: `ok` stays only where there is evidence of health, else the verdict is `unknown`.

A stream judges a client again half a minute later; a post-mortem is read once. So here a thread dump that shows
nothing wrong is no health: two of them, ten seconds apart, are. And whoever evidence speaks of that could not be read
is not called healthy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from clienthealth.diagnose.input import Input
from clienthealth.logs.thread_names import NETWORK_THREAD
from clienthealth.model.clients import Client
from clienthealth.model.readings import LogEvent, Thread, ThreadDump
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import FEW, MIN_READINGS, modes
from clienthealth.modes.consumer_shutdown_loop.lines import ID as LOOP
from clienthealth.modes.producer_callback_deadlock.lines import ID as DEADLOCK
from clienthealth.modes.producer_not_closed.lines import ID as NOT_CLOSED
from clienthealth.modes.send_blocked_on_metadata.lines import ID as METADATA
from clienthealth.step import process_log
from clienthealth.step.bucket import Bucket
from clienthealth.windows.packed import TOPIC, WHO, Who

#: Dumps so far apart show whether a thread goes on; people count to ten by hand.
APART_MS = 9_000
_CALLBACK = ("onCompletion", "completeFutureAndFireCallbacks", "RecordBatch.done")
_IO_LOOP, _LOOKUP = "producer.internals.Sender.run", "ClientUtils$.channelToOffsetManager"
_NO_SECOND = "but no dump ten seconds later"
NOT_MEASURED = "neither a thread dump nor a log shows that it is absent, and there are too few metrics"
#: A recorder writes as long as its client lives; metrics in these end when somebody stops to look.
PASTED = ("metrics (", "log", "JSON document")
LOOKED_AT = "records wait in its buffer, but nobody says that it ended: the metrics are of a moment at which it lived"
NO_PAUSE = "the same line again and again, but without times nobody can say whether it paused in between"
NO_CLOCK = "nobody says when its metrics were read"
VerdictsByKey = dict[str, tuple[Client, list[Verdict]]]


def honest(bucket: Bucket, verdicts_by_key: VerdictsByKey, inputs: Sequence[Input]) -> VerdictsByKey:
    """The verdicts without those `ok` that nothing speaks for."""
    logs = process_log.process_logs(bucket.state)
    readings = {who.identity: int(np.sum(bucket.state.rows[:, WHO] == n)) for n, who in enumerate(bucket.state.whos)}
    unclocked = _read_at_no_time(bucket, inputs)
    honest_verdicts: VerdictsByKey = {}
    for key, (client, verdicts) in verdicts_by_key.items():
        process = client.service, client.host
        events, dumps = _log_of(logs.get(process), client)
        untimed = _untimed(dumps, inputs)
        count = readings.get(_who(client).identity, 0)
        doubt = _Doubt(count >= MIN_READINGS, events, dumps, untimed, client)
        unread = _unread(process, inputs) or (NO_CLOCK if _who(client).identity in unclocked else "")
        honest_verdicts[key] = (
            client,
            [_doubted(_gone(_clocked(verdict, inputs), count, inputs), doubt, unread) for verdict in verdicts],
        )
    return honest_verdicts


def _clocked(verdict: Verdict, inputs: Sequence[Input]) -> Verdict:
    """The verdict; unknown where it says that something went on without a pause, of lines that nobody has timed."""
    untimed = {topic for attached in inputs if not attached.timed for topic in attached.topics}
    lines = [fact.source.topic in untimed for fact in verdict.evidence if fact.kind == "log" and fact.source]
    if verdict.mode != LOOP or not verdict.unhealthy or not lines or len(lines) < len(verdict.evidence):
        return verdict
    return dataclasses.replace(verdict, status="unknown", reason=NO_PAUSE, evidence=()) if all(lines) else verdict


def _gone(verdict: Verdict, readings: int, inputs: Sequence[Input]) -> Verdict:
    """The verdict; unknown where a client is thought to have gone as somebody stopped to look at its metrics."""
    if verdict.mode != NOT_CLOSED or not verdict.unhealthy or {fact.kind for fact in verdict.evidence} != {"metric"}:
        return verdict
    pasted = {topic for attached in inputs if attached.what.startswith(PASTED) for topic in attached.topics}
    topics = {fact.source.topic for fact in verdict.evidence if fact.source is not None}
    looked_at = bool(topics) and topics <= pasted
    if readings >= MIN_READINGS and not looked_at:
        return verdict
    return dataclasses.replace(verdict, status="unknown", reason=LOOKED_AT, evidence=())


def _doubted(verdict: Verdict, doubt: _Doubt, unread: str) -> Verdict:
    """The verdict, `ok` only without a doubt; where too few readings are the reason, what is there says it better."""
    if verdict.unhealthy or (verdict.status == "unknown" and verdict.reason != FEW):
        return verdict
    reason = doubt.of(verdict.mode) or (unread if verdict.status == "ok" else "")
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
    rows, names = bucket.state.rows, bucket.state.names
    places = {(int(who), int(topic)) for who, topic in np.unique(rows[:, [WHO, TOPIC]], axis=0).tolist()}
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


@dataclasses.dataclass(frozen=True)
class _Doubt:
    """What speaks for a client's health. `measured`: its metrics do."""

    measured: bool
    events: Sequence[LogEvent]
    dumps: Sequence[ThreadDump]
    untimed: bool
    client: Client

    def of(self, mode: str) -> str:
        """Why the mode cannot be called absent; '' where it can."""
        if mode == LOOP and (reason := self._unfinished()):
            return reason
        if self.measured:
            return ""
        if mode == DEADLOCK:
            return self._twice(*self._io_thread())
        if mode == METADATA:
            seen, what = self._io_thread()
            return self._twice(seen, what if not seen else "no caller of send() waits for metadata")
        if mode == LOOP:
            return "" if self._closed() else self._twice(*self._lookup())
        if mode == NOT_CLOSED and self.events and self.events[-1].signature == "producer-closing":
            return "its close had begun, and the records end before it completed"
        return "" if modes()[mode].absence else NOT_MEASURED

    def _io_thread(self) -> tuple[list[ThreadDump], str]:
        """The dumps that show the client's I/O thread at work, and what they show."""
        healthy, inside, shown = [], 0, 0
        for dump in self.dumps:
            mine = [thread for thread in dump.threads if self._is_io_thread(thread)]
            shown += bool(mine)
            if any(_has(thread, *_CALLBACK) for thread in mine):
                inside += 1
            elif any(_has(thread, _IO_LOOP) for thread in mine):
                healthy.append(dump)
        if inside:
            return [self.dumps[-1]], "the I/O thread is inside a callback"
        if healthy:
            return healthy, "a healthy I/O thread"
        if shown:
            return [], "the dump shows the I/O thread, but not all of its stack"
        return [], "no dump shows the producer's I/O thread" if self.dumps else "neither metrics nor a thread dump"

    def _is_io_thread(self, thread: Thread) -> bool:
        if not thread.name.startswith(NETWORK_THREAD):
            return False
        owner = thread.name.partition(" | ")[2]
        return owner == self.client.client_id or not (owner and self.client.client_id)

    def _lookup(self) -> tuple[list[ThreadDump], str]:
        looking = [t.name for dump in self.dumps for t in dump.threads if _has(t, _LOOKUP)]
        if looking:
            return [self.dumps[-1]], f"thread '{looking[0]}' looks for its offset manager"
        return list(self.dumps), "no thread loops" if self.dumps else "neither metrics nor a thread dump"

    def _twice(self, seen: Sequence[ThreadDump], what: str) -> str:
        if not seen:
            return what
        if len(seen) > 1 and self.untimed:
            return f"{what} in {len(seen)} dumps, but nobody says how far they are apart"
        if seen[-1].ts_ms - seen[0].ts_ms < APART_MS:
            return f"{what}, {_NO_SECOND}"
        return ""

    def _closed(self) -> bool:
        return any(event.signature == "connector-shutdown-completed" for event in self.events)

    def _unfinished(self) -> str:
        """A shutdown, or a search for the offset manager, whose end the records do not show."""
        marks = [e for e in self.events if e.signature.startswith(("connector-", "offset-manager-"))]
        last = marks[-1].signature if marks else ""
        if last == "connector-shutting-down":
            return "the connector began to shut down, and the records end before it has"
        if last.startswith("offset-manager-") and not self.measured:
            return "a search for the offset manager failed, and the records do not show how it ended"
        return ""


def _has(thread: Thread, *parts: str) -> bool:
    return any(part in frame for frame in thread.frames for part in parts)
