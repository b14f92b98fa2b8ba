"""Collect facts that change verdicts on attached data.

Find failures for which words in an attached text are the only evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from clienthealth.diagnose.attachments.opening import CUT, EXPLAINED, Input
from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client
from clienthealth.model.readings import LogEvent, ThreadDump
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import listing, quoted
from clienthealth.modes import MIN_READINGS, Look, Mode, catalogue, modes
from clienthealth.modes._evidence import Fact, conclude, has_frame
from clienthealth.monitor import departures
from clienthealth.monitor.adjust import Attached, Context
from clienthealth.monitor.attribution import ProcessLog
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.ends import has_ended
from clienthealth.read.logs.self_descriptions import BY_NAME as SELF_DESCRIBED

#: Beginnings of `Input.what` for data that a person may have copied. If a person copied the data, a client may have
#: gone on after the last copied line.
PASTED = ("metrics (", "log", "JSON document")
#: A client counts as sampled until the end of its process's data if little time passes between the client's last sample
#: and this end. Maximum time: LATE_MS (ms), plus LATE_INTERVALS times the median interval between the client's samples.
LATE_INTERVALS, LATE_MS = 1.5, 2_000
#: Metrics with times at most APART_MS apart belong to one sample.
APART_MS = 500
#: Inputs with more than MOST_LINES lines in total are a whole log, in which single errors are normal.
MOST_LINES = 500
NO_CLOCK = "the time at which the client's metrics were read is unknown"


def contexts(bucket: Bucket, clients: Iterable[Client], inputs: Sequence[Input]) -> dict[Client, Context]:
    """Return the `Context` of each client: facts by which `adjust` may change the client's verdicts."""
    logs, rows = bucket.logs, bucket.state.readings
    all_clients, names = bucket.state.all_clients, bucket.state.names
    numbers = {client.identity: number for number, client in enumerate(all_clients)}
    # If an input has no times, the time between two of its dumps is unknown.
    timeless = _topics(inputs, lambda attached: not attached.timed or attached.start_ms is None)
    untimed = _topics(inputs, lambda attached: not attached.timed)
    undated = undated_topics(inputs)
    pasted = _topics(inputs, lambda attached: attached.what.startswith(PASTED))
    places = set(zip(rows.client.tolist(), rows.topic.tolist(), strict=True))
    unclocked = {all_clients[number].identity for number, topic in places if names[topic] in timeless}
    known = {}
    for client in clients:
        process = client.process
        events, dumps = _log_of(logs.get(process), client)
        number = numbers.get(client.identity)
        times = [] if number is None else rows.ts[rows.client == number].tolist()
        readings = () if number is None else departures.departure(bucket, number).readings
        until_ms = _until(bucket, process, inputs)
        look = Look(
            ClientWindow(client, 0, 0, readings, logs=events, dumps=dumps),
            measured=number is not None and len(times) >= MIN_READINGS and _reach(bucket, number, times, until_ms),
            untimed=any(dump.source is not None and dump.source.topic in timeless for dump in dumps),
            vanished=any(one.emptied >= MIN_READINGS for one in inputs if one.process == process),
            until_ms=until_ms,
        )
        unread = _unread(process, inputs) or (NO_CLOCK if client.identity in unclocked else "")
        last_ms = times[-1] if times else 0
        known[client] = Context(attached=Attached(look, len(times), last_ms, unread, untimed, undated, pasted))
    return known


def _until(bucket: Bucket, process: tuple[str, str], inputs: Iterable[Input]) -> int:
    ends = [attached.end_ms or 0 for attached in inputs if attached.process == process and attached.clocked]
    ends += [int(bucket.state.clients.last[number]) for number in bucket.numbers.get(process, ())]
    return max(ends, default=0)


def _reach(bucket: Bucket, number: int, times: Sequence[int], until_ms: int) -> bool:
    """Return True if a client's samples go on until `until_ms` or the client's end."""
    # A collector may write the parts of one sample some milliseconds apart.
    gaps = np.diff(times)
    gaps = gaps[gaps > APART_MS]
    on_time = until_ms - times[-1] - LATE_MS <= LATE_INTERVALS * (float(np.median(gaps)) if len(gaps) else 0.0)
    return on_time or has_ended(bucket, bucket.state.all_clients[number], times[-1], True)


def suspected_by_text(verdict: Verdict, known: Context, inputs: Sequence[Input]) -> Verdict:
    """Return a `suspected` verdict if a short input has one of these signs, otherwise `verdict`.

    - at least `Meaning.enough` lines with the same `Meaning`, which points to the verdict's mode (`Meaning.suspects`)
    - in an input that states that something hangs: a thread in a frame of `Facts.places`, or a close() that has not
      ended

    Nothing is suspected if the client has samples, or if the inputs together have more than MOST_LINES lines.
    """
    attached, mode = known.attached, modes()[verdict.mode]
    if attached is None or attached.samples or verdict.unhealthy or sum(one.read for one in inputs) > MOST_LINES:
        return verdict
    explained, logs = _topics(inputs, lambda one: EXPLAINED in one.left_out), attached.look.window.logs
    over = [number for number, event in enumerate(logs, 1) if any(event in one for one in mode.lines if one.relief)]
    # If another program's logger wrote a line of the library, the line is only a quotation.
    loose, safe = catalogue().loose, catalogue().narrated
    written = [e for e in logs[max(over, default=0) :] if e.own or "." not in (e.logger or "") or e.signature in loose]
    left = [e for e in written if e.own or e.signature in safe or (e.source and e.source.topic) not in explained]
    # A text without spaces does not count, because a single word may be a heading, such as an error's name. Chinese
    # sentences have no spaces, so a text with characters outside ASCII always counts.
    stated = [event for event in left if " " in event.text or not event.text.isascii()]
    of_mode = [meaning for meaning in catalogue().meanings if mode.id in meaning.suspects]
    shown = {meaning: [event for event in stated if event in meaning] for meaning in of_mode}
    enough = {meaning: lines for meaning, lines in shown.items() if sum(e.repeats for e in lines) >= meaning.enough}
    last = [(one, lines[-1]) for one, lines in enough.items()]
    first = {event.text: one for one, event in reversed(last)}
    facts = [Fact.of("log", e, f"{one.says}: {quoted(e.text)}") for one, e in last if first[e.text] is one]
    causes = [one.suspects[mode.id] for one in enough]
    if not facts:
        facts, causes = _in_places(mode, attached.look.window, left), [mode.place_cause]
    if not facts:
        return verdict
    innocent = [one for one in mode.confusions if not one.causes or causes[0] in one.causes]
    left_open = tuple(f"{one.what} ({one.settled_by} would settle it)" for one in innocent)
    return replace(conclude(mode.id, facts, {"cause": causes[0] or None}), not_ruled_out=left_open, proofs=())


def _in_places(mode: Mode, window: ClientWindow, left: Sequence[LogEvent]) -> list[Fact]:
    """Return a fact for each waiting thread and each unfinished close in inputs that report a hang."""
    hangs = [(e, e.source.topic) for e in left if e.source is not None and e in SELF_DESCRIBED["hangs"]]
    said = {topic: quoted(e.text) for e, topic in hangs}
    endless = {topic for e, topic in hangs if "activity" not in e.captures}
    ended = [e.ts_ms for e in left if "ended" in e.captures or catalogue().by_id[e.signature].life == "closed"]
    shown: list[tuple[LogEvent | ThreadDump, str]] = [
        (dump, f"'{thread.name}' is in {place}")
        for dump in window.dumps
        for thread in dump.threads
        for place in mode.places
        if has_frame(thread, place)
    ]
    for event in left:
        lasts = "begun" in event.captures and event.ts_ms > max(ended, default=-1)
        if "frame" in event.captures or (lasts and event.source is not None and event.source.topic in endless):
            text = quoted(event.captures.get("frame", event.text))
            shown += [(event, f"{line.says}: {text}") for line in mode.lines if event in line]
    return [
        Fact.of(
            "log" if isinstance(where, LogEvent) else "thread-dump",
            where,
            f"{what}, and the text says: {said[where.source.topic]}",
        )
        for where, what in shown
        if where.source is not None and where.source.topic in said
    ]


def undated_topics(inputs: Iterable[Input]) -> frozenset[str]:
    """Return the names (`Input.topics`) of the inputs that lack dates or times."""
    return _topics(inputs, lambda attached: not attached.clocked)


def _topics(inputs: Iterable[Input], chosen: Callable[[Input], bool]) -> frozenset[str]:
    return frozenset(topic for attached in inputs if chosen(attached) for topic in attached.topics)


def _log_of(log: ProcessLog | None, client: Client) -> tuple[tuple[LogEvent, ...], tuple[ThreadDump, ...]]:
    if log is None or not log.entries:
        return (), ()
    first, last = log.entries[0].ts_ms, log.entries[-1].ts_ms
    events, dumps, *_ = log.within(first, last + 1).about(client)
    return events, dumps


def _unread(process: tuple[str, str], inputs: Sequence[Input]) -> str:
    """Return why evidence on the process could not be read; '' if all was read."""
    doubted = [attached for attached in inputs if attached.unread and attached.process in (None, process)]
    cut = [f"{attached.name} ({CUT})" for attached in doubted if not attached.unread.keys() - {CUT}]
    parts = [
        f"{attached.name} ({', '.join(f'{count:,} ' * (count > 1) + why for why, count in attached.unread.items())})"
        for attached in doubted
        if attached.unread.keys() - {CUT}
    ]
    what = "part of the evidence could not be read" if parts else "part of the evidence may be cut off"
    return f"{what}: {listing([*parts, *cut])}" if doubted else ""
