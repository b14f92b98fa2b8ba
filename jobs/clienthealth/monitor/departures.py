"""Clients that stopped reporting: what their silence means.

A client has departed when it was not heard of for three of its reporting intervals, `[absence] min_gap_seconds` at
least, by the clock of all. It is judged by its last reading and by what was logged of its end; then it is forgotten.
Its open incidents stay until something proves that it has ended (`ends.has_ended`), or for `[absence] shown_seconds`: a
process that hangs pushes no metrics, and an agent can fail alone.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Ints
from clienthealth.model.clients import Client
from clienthealth.model.health_record import Written, encoded, seen_json, verdicts_json, worst
from clienthealth.model.metrics import CLIENT_METRICS, TERMINATING
from clienthealth.model.readings import Reading
from clienthealth.model.verdicts import Seen, Verdict
from clienthealth.modes import modes
from clienthealth.monitor import ends, intake
from clienthealth.monitor.adjust import Context, adjust
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.client_verdicts import Record, shown
from clienthealth.monitor.incidents import Departure, OpenIncident, Transition
from clienthealth.monitor.process_log import OVERDUE
from clienthealth.monitor.readings import EVER_MS
from clienthealth.monitor.state import UNDELIVERED, BucketState
from clienthealth.monitor.window_verdicts import judge_windows, silenced
from clienthealth.settings import Settings

#: What a client that has gone may have lost, in the detail of its verdict; what kept it from delivering says it then.
LOST = ("lost_records", "lost_bytes")
#: No batch is that long in coming while anything arrives.
SHARED_MS = 60_000


#: Nothing arrives from anybody: a client is said to be gone after so many of its intervals and so long (ms).
UNHEARD_INTERVALS, UNHEARD_MS = 2, 30_000
#: While nothing arrives, the steps of a monitor that is awake lie no further apart (ms): it slept for the rest.
AWAKE_MS = 20_000


def idle(state: BucketState, arrived: bool, now_ms: int) -> int:
    """Add the time since the step before, by this machine's clock, to what waits; return for how long nothing had come.

    Of a longer time AWAKE_MS count: a batch may take long, and nobody can report to a machine that sleeps.
    """
    passed = min(max(0, now_ms - state.stepped_ms), AWAKE_MS) if state.stepped_ms else 0
    before, state.stepped_ms = state.idle_ms, now_ms
    state.idle_ms = 0 if arrived else before + passed
    state.waited_ms += passed if state.waiting else 0
    return min(before, state.idle_ms)


def unheard(bucket: Bucket, before_ms: int) -> tuple[list[Record], list[Transition]]:
    """The records of clients of which nothing is heard, as of nobody; whether they have ended nobody can say.

    What is known of them stays: once anything arrives again, each has as much time as before to be heard of. Only what
    they logged of their end opens an incident. `before_ms`: for how long nothing had arrived at the step before.
    """
    state = bucket.state
    if not state.idle_ms:
        return [], []
    silent = np.maximum(0, state.time_ms - state.clients.heard)
    # For how long nothing may arrive from anybody until each client is said to be gone.
    after = np.maximum(UNHEARD_MS, UNHEARD_INTERVALS * state.clients.every + UNHEARD_MS - silent)
    numbers = np.flatnonzero((after > before_ms) & (after <= state.idle_ms))
    return _of_all([_judged(bucket, number, all_silent=True) for number in numbers.tolist()])


def _of_all(clients: Sequence[tuple[Record, list[Transition]]]) -> tuple[list[Record], list[Transition]]:
    return [record for record, _ in clients], [change for _, changes in clients for change in changes]


def forgive(state: BucketState, before_ms: int) -> None:
    """Count a silence that all share against nobody: input was lost, or the monitor stood still.

    Where the clock of all, `before_ms` until now, moves on by more than anybody is silent between two readings, each
    has as much time as before to be heard of again.
    """
    jump = state.time_ms - before_ms
    if not before_ms or jump <= SHARED_MS:
        return
    state.shared.remember((before_ms, state.time_ms), None, state.time_ms)
    state.incidents.forgive(jump)


def departed(bucket: Bucket) -> Ints:
    """The numbers of the clients that have departed."""
    state = bucket.state
    if not len(state.clients):
        return np.empty(0, np.int64)
    last_heard = state.clients.heard
    silent = state.time_ms - last_heard
    usual = OVERDUE * state.clients.every
    for begin, end in state.shared:
        silent -= np.where(end - begin > usual, np.maximum(0, end - np.maximum(begin, last_heard)), 0)
    return np.flatnonzero(silent >= bucket.gaps + 1000 * bucket.settings.absence.watermark_seconds)


def judge(bucket: Bucket, gone: Ints) -> tuple[list[Record], list[Transition]]:
    """The records of clients that have departed, and how incidents changed."""
    return _of_all([_judged(bucket, number) for number in gone.tolist()])


def _judged(bucket: Bucket, number: int, all_silent: bool = False) -> tuple[Record, list[Transition]]:
    """The record of a client that is silent, and how incidents changed. `all_silent`: as everybody is."""
    state, settings = bucket.state, bucket.settings
    seen = departure(bucket, number)
    departed_ms, key = int(state.clients.last[number]), seen.client.key
    offset = int(state.clients.heard[number]) - departed_ms
    silent: list[Verdict] = []
    changes: list[Transition] = []
    known = Context(all_silent=True) if all_silent else Context(incidents=state.incidents.verdicts(key))
    verdicts = adjust("moment", judge_windows([seen], settings.modes, absence=True), known)
    if not all_silent:
        silent = silenced(silence(bucket, number, seen), settings.modes)
        changes += _left_open(bucket, number, seen, verdicts, silent, offset)
    changes += state.incidents.judged(seen.client, verdicts, departed_ms, offset)
    visible = shown([*verdicts, *silent], state.incidents, key)
    also = bucket.also_seen(state.whos[number])
    return (key, _record(seen.client, visible, seen.start_ms, departed_ms, settings, also)), changes


def _left_open(
    bucket: Bucket, number: int, seen: ClientWindow, of_end: Sequence[Verdict], silent: Sequence[Verdict], offset: int
) -> list[Transition]:
    """What becomes of the incidents that a departed client has beside those about its end (`of_end`).

    They are over if it is known to have ended. `silent`: what its silence says while its process lives.
    """
    state, who, key = bucket.state, bucket.state.whos[number], seen.client.key
    departed_ms = int(state.clients.last[number])
    lived_ms = max([sign.ts_ms for sign in seen.alive] + [seen.spoke_ms or 0])
    alone = not any(life.at(departed_ms) for life in ends.namesakes(bucket, who))
    over = (
        bool(seen.readings and seen.readings[-1].get(TERMINATING))
        or any(verdict.status == "confirmed" for verdict in of_end)
        or ends.has_ended(bucket, who, departed_ms, alone)
    )
    changes: list[Transition] = []
    if lived_ms and not over:
        # It reports no metrics any more, but its process lives: what that says goes on to be of this client.
        changes += state.incidents.judged(seen.client, silent, lived_ms, offset)
    about_its_end = {verdict.mode for verdict in of_end}
    left = [mode for mode in state.incidents.of_client(key) if mode not in about_its_end]
    for mode in left:
        explained = [v for v in of_end if v.mode in modes()[mode].explains and v.status == "unknown"]
        lost = {name: bounds for v in explained for name, bounds in v.detail.items() if name in LOST}
        gone = Departure(departed_ms, max(departed_ms, lived_ms), offset, alone)
        state.incidents.departed(key, mode, gone, lost)
        if over:
            changes += state.incidents.ended(key, mode, departed_ms)
    state.former.forget(who.names)
    if left and not over:
        state.former.remember(who.names, who, state.time_ms)
    return changes


def _record(
    client: Client,
    verdicts: Sequence[Verdict],
    start_ms: int,
    departed_ms: int,
    settings: Settings,
    also_seen: Sequence[Seen] = (),
) -> bytes:
    """What is published of a client that has gone."""
    record = Written(
        window_start=start_ms,
        # Not before the last window in which the client was still there.
        window_end=departed_ms + settings.monitor.window_seconds * 1000,
        client=encoded(client),
        samples=1,
        indicators={},
        verdicts=verdicts_json(verdicts),
        worst=worst(verdicts),
        last_seen=departed_ms,
        departed=True,
        also_seen=list(map(seen_json, also_seen)),
    )
    return record.encode()


#: The open incidents of a client that has gone are published again so often, at most.
REMINDED_MS = 300_000


def reminders(state: BucketState, before_ms: int, settings: Settings) -> list[Record]:
    """The records of clients that have gone and whose end, or other incidents, are still shown.

    `before_ms`: the clock of all until now. They come sooner than exporters forget a silent client.
    """
    every_ms = min(REMINDED_MS, 1000 * settings.prometheus.ttl_seconds // 2)
    if before_ms // every_ms == state.time_ms // every_ms:
        return []
    living = {who.key for who in state.whos}
    of_client: dict[str, list[OpenIncident]] = {}
    for incident in state.incidents.all:
        gone = modes()[incident.verdict.mode].absence or incident.departed_ms
        if gone and incident.client.key not in living:
            of_client.setdefault(incident.client.key, []).append(incident)
    records: list[Record] = []
    for key, open_ in sorted(of_client.items()):
        heard_ms = max(incident.heard_ms or incident.seen_ms for incident in open_)
        verdicts = [incident.verdict for incident in open_]
        records.append((key, _record(open_[0].client, verdicts, heard_ms, heard_ms, settings)))
    return records


def departure(bucket: Bucket, number: int) -> ClientWindow:
    """The window of a client's end: its last readings, and the lines that speak of its beginning and end."""
    state = bucket.state
    who, clients = state.whos[number], state.clients
    first, last = int(clients.first[number]), int(clients.last[number])
    lo, hi = np.searchsorted(state.readings.who, [number, number + 1])
    since = max(first, last - int(bucket.grid.length[number]))
    readings = tuple(map(bucket.reading, range(lo + int(np.sum(state.readings.ts[lo:hi] < since)), hi)))
    if who.kind == "producer":
        # What one of the last readings does not report of UNDELIVERED is taken from the reading before it.
        newest: dict[str, float] = {}
        completed = []
        for reading in readings:
            if reading is readings[-1]:
                left = zip(UNDELIVERED, clients.values[number].tolist(), strict=True)
                newest = {name: value for name, value in left if value == value}
            whole = {**newest, **reading.metrics}
            newest = {name: whole[name] for name in UNDELIVERED if name in whole}
            metrics = {name: whole[name] for name in CLIENT_METRICS["producer"] if name in whole}
            completed.append(Reading(reading.ts_ms, metrics, reading.topics, reading.source))
        readings = tuple(completed)
    gap = float(bucket.gaps[number])
    logs, spoke = ends.last_words(bucket, ends.Silence(who, first, last, int(clients.every[number]), gap))
    return ClientWindow(
        who,
        start_ms=first,
        end_ms=int(last + gap),
        readings=readings,
        logs=logs,
        config=bucket.config(number),
        departed_ms=last,
        spoke_ms=max((entry.ts_ms for entry in spoke), default=None),
        alive=ends.signs_of_life(bucket, number, spoke) or ends.pushed_beside(bucket, number, readings),
    )


def keep(bucket: Bucket) -> Set[str]:
    """Whatever a process says keeps the incidents open of its clients that do not report.

    Its other clients do so for one whose silence is the fault: any other can have ended while its process goes on.
    Returns the keys of those that have ended; of more than there may be clients, those that are silent for longest too.
    """
    state = bucket.state
    monitor, former = bucket.settings.monitor, dict(state.former.items())
    too_many = state.former.evict(state.time_ms, limit=intake.share(monitor.max_clients, monitor))
    ended = {former[key].key for key in too_many}
    for _, who in state.former.items():
        key = who.key
        departed = next((one for one in state.incidents.of_client(key).values() if one.departed_ms), None)
        if departed is not None and ends.has_ended(bucket, who, departed.departed_ms, departed.alone):
            ended.add(key)
            continue
        for number in ends.that_were_beside(bucket, who, key):
            last, heard = int(state.clients.last[number]), int(state.clients.heard[number])
            state.incidents.heard(key, last, heard - last)
        for entry in bucket.log_entries[who.process]:
            if ends.is_by_process(bucket, entry, who, departed.departed_ms if departed else 0):
                state.incidents.heard(key, entry.ts_ms, max(0, state.time_ms - entry.ts_ms))
    return ended


def silence(bucket: Bucket, number: int, seen: ClientWindow) -> ClientWindow:
    """`seen`, a client's end, with all that its process logged and dumped since, whatever that speaks of."""
    who = bucket.state.whos[number]
    log = bucket.logs.get(who.process)
    if log is None or seen.departed_ms is None:
        return seen
    events, dumps, earlier, lead = log.within(seen.departed_ms, EVER_MS).about(who)
    return replace(seen, logs=events, dumps=dumps, earlier_dumps=earlier, earlier_logs=lead)
