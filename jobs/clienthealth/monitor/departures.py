"""Judge clients that stopped reporting.

A client has departed after three reporting intervals without data (at least `[absence] min_gap_seconds`), plus
`[absence] watermark_seconds`. The client's open incidents stay until data shows that it recovered or ended, at most for
`[absence] shown_seconds`. Missing data does not prove that a client ended, because a process may hang, or its metrics
agent may fail.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client
from clienthealth.model.metrics import CLIENT_METRICS, TERMINATING, UNDELIVERED
from clienthealth.model.readings import Reading
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import modes
from clienthealth.monitor import ends, intake
from clienthealth.monitor.adjust import Context, adjust
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.client_verdicts import Content, Record, shown
from clienthealth.monitor.incidents import Departure, Transition
from clienthealth.monitor.process_log import OVERDUE
from clienthealth.monitor.readings import EVER_MS
from clienthealth.monitor.window_verdicts import judge_windows, stale_verdicts
from clienthealth.settings import Settings

LOST = ("lost_records", "lost_bytes")
#: If no client reports, a client is gone after a silence (ms) of OUTAGE_INTERVALS × reporting interval + OUTAGE_MS.
OUTAGE_INTERVALS, OUTAGE_MS = 2, 30_000


def due_in_outage(bucket: Bucket, before_ms: int) -> list[int]:
    """Return the clients (positions in `state.all_clients`) that must be judged as silent now.

    Returns [] while clients report. `before_ms`: the time without reports (`state.outage_ms`) at the previous step.
    """
    state = bucket.state
    if not state.outage_ms:
        return []
    silent = np.maximum(0, state.outage_begin_ms - state.clients.last_seen)
    after = np.maximum(OUTAGE_MS, OUTAGE_INTERVALS * state.clients.every + OUTAGE_MS - silent)
    numbers = np.flatnonzero((after > before_ms) & (after <= state.outage_ms))
    state.clients.published[numbers] = 0
    due: list[int] = numbers.tolist()
    return due


def departed(bucket: Bucket) -> list[int]:
    """Return the clients (positions in `state.all_clients`) that have departed.

    Times in which no client sent data (`state.shared`) do not count as silence.
    """
    state = bucket.state
    last_seen = state.clients.last_seen
    silent = state.time_ms - last_seen
    usual = OVERDUE * state.clients.every
    for begin, end in (*state.shared, (state.outage_begin_ms, state.time_ms)):
        silent -= np.where(end - begin > usual, np.maximum(0, end - np.maximum(begin, last_seen)), 0)
    gone: list[int] = np.flatnonzero(silent >= bucket.gaps + 1000 * bucket.settings.absence.watermark_seconds).tolist()
    return gone


def judge(bucket: Bucket, number: int, all_silent: bool = False) -> tuple[list[Record], list[Transition]]:
    """Judge a client that sends no data. Return (list with the client's record, changes of the client's incidents).

    `number`: the client's position in `state.all_clients`. `all_silent`: True if no client reports.
    """
    state, settings = bucket.state, bucket.settings
    seen = departure(bucket, number)
    departed_ms, key = int(state.clients.last[number]), seen.client.key
    offset = int(state.clients.last_seen[number]) - departed_ms
    silent: list[Verdict] = []
    changes: list[Transition] = []
    known = Context(all_silent=True) if all_silent else Context(incidents=state.incidents.verdicts(key))
    verdicts = adjust("moment", judge_windows([seen], settings.modes, absence=True), known)
    if not all_silent:
        silent = stale_verdicts(silence(bucket, number, seen), settings.modes)
        changes += _left_open(bucket, number, seen, verdicts, silent, offset)
    changes += state.incidents.judged(seen.client, verdicts, departed_ms, offset)
    visible = shown([*verdicts, *silent], state.incidents, key)
    content = Content.of(visible, bucket.also_seen(state.all_clients[number]))
    return [_record(seen.client, content, seen.start_ms, departed_ms, settings)], changes


def _left_open(
    bucket: Bucket, number: int, seen: ClientWindow, of_end: Sequence[Verdict], silent: Sequence[Verdict], offset: int
) -> list[Transition]:
    """Update a departed client's open incidents, and return the changes.

    `silent`: verdicts on missing data; used only if the process still lives.
    """
    state, client, key = bucket.state, bucket.state.all_clients[number], seen.client.key
    departed_ms = int(state.clients.last[number])
    lived_ms = max([sign.ts_ms for sign in seen.alive] + [seen.spoke_ms or 0])
    alone = not any(life.at(departed_ms) for life in ends.namesakes(bucket, client))
    confirmed = any(verdict.status == "confirmed" for verdict in of_end)
    terminating = bool(seen.readings and seen.readings[-1].get(TERMINATING))
    over = terminating or confirmed or ends.has_ended(bucket, client, departed_ms, alone)
    changes: list[Transition] = []
    if lived_ms and not over:
        changes += state.incidents.judged(seen.client, silent, lived_ms, offset)
    about_its_end = {verdict.mode for verdict in of_end}
    left = [one for mode, one in state.incidents.of_client(key).items() if mode not in about_its_end]
    for incident in left:
        causes = modes()[incident.verdict.mode].explains
        explained = [v for v in of_end if v.mode in causes and v.status == "unknown"]
        lost = {name: bounds for v in explained for name, bounds in v.detail.items() if name in LOST}
        gone = Departure(departed_ms, max(departed_ms, lived_ms), offset, alone)
        noted = state.incidents.departed(incident, gone, lost)
        if over:
            changes.append(state.incidents.close(noted, "closed", departed_ms))
    state.former.forget(client.names)
    if left and not over:
        state.former.remember(client.names, client, state.time_ms)
    return changes


def _record(client: Client, content: Content, start_ms: int, departed_ms: int, settings: Settings) -> Record:
    window = start_ms, departed_ms + settings.monitor.window_seconds * 1000
    return content.record(client, window, 1, departed_ms, departed=True)


REMINDED_MS = 300_000


def reminders(bucket: Bucket, before_ms: int) -> list[Record]:
    """Return records that repeat the state of departed clients with open incidents.

    Exporters drop clients without new records. The records are due every REMINDED_MS (five minutes), or every
    `[prometheus] ttl_seconds` / 2, whichever is shorter. `before_ms`: the watermark before this step.
    """
    state, settings = bucket.state, bucket.settings
    every_ms = min(REMINDED_MS, 1000 * settings.prometheus.ttl_seconds // 2)
    if before_ms // every_ms == state.time_ms // every_ms:
        return []
    living = {client.key for client in state.all_clients}
    gone = (i for i in state.incidents.all if i.departed_ms or modes()[i.verdict.mode].absence)
    of_client = grouped((i for i in gone if i.client.key not in living), lambda incident: incident.client.key)
    records: list[Record] = []
    for _, open_ in sorted(of_client.items()):
        heard_ms = max(incident.heard_ms or incident.seen_ms for incident in open_)
        content = Content.of([incident.verdict for incident in open_])
        records.append(_record(open_[0].client, content, heard_ms, heard_ms, settings))
    return records


def departure(bucket: Bucket, number: int) -> ClientWindow:
    """Return the window of a client's end: last samples, and log lines about its start and end."""
    state = bucket.state
    client, clients = state.all_clients[number], state.clients
    first, last = int(clients.first[number]), int(clients.last[number])
    rows, since = state.rows(number), max(first, last - int(bucket.grid.length[number]))
    earlier = int(np.sum(state.readings.ts[rows] < since))
    readings = tuple(map(bucket.reading, range(rows.start + earlier, rows.stop)))
    if client.kind == "producer":
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
    logs, later = ends.shutdown_lines(bucket, ends.Silence(client, first, last, int(clients.every[number]), gap))
    return ClientWindow(
        client,
        start_ms=first,
        end_ms=int(last + gap),
        readings=readings,
        logs=logs,
        config=bucket.config(number),
        departed_ms=last,
        spoke_ms=max((entry.ts_ms for entry in later), default=None),
        alive=ends.signs_of_life(bucket, number, later) or ends.pushed_beside(bucket, number, readings),
    )


def keep(bucket: Bucket) -> Set[str]:
    """Keep a silent client's incidents open while its process sends other data.

    Returns the keys of clients that have ended, or that exceed this bucket's share of `max_clients`. The caller closes
    the incidents of clients with a returned key.
    """
    state = bucket.state
    monitor, former = bucket.settings.monitor, dict(state.former.items())
    too_many = state.former.evict(state.time_ms, limit=intake.share(monitor.max_clients, monitor))
    ended = {former[key].key for key in too_many}
    for _, client in state.former.items():
        key = client.key
        departed = next((one for one in state.incidents.of_client(key).values() if one.departed_ms), None)
        if departed is not None and ends.has_ended(bucket, client, departed.departed_ms, departed.alone):
            ended.add(key)
            continue
        for number in ends.clients_beside(bucket, client, key):
            last, last_seen = int(state.clients.last[number]), int(state.clients.last_seen[number])
            state.incidents.sign_of_life(key, last, last_seen - last)
        for entry in bucket.log_entries[client.process]:
            if ends.is_by_process(bucket, entry, client, departed.departed_ms if departed else 0):
                state.incidents.sign_of_life(key, entry.ts_ms, max(0, state.time_ms - entry.ts_ms))
    return ended


def silence(bucket: Bucket, number: int, seen: ClientWindow) -> ClientWindow:
    """Return a copy of `seen`, with all log events and dumps since the client's last sample.

    `seen`: the client's last window, with no log lines except those about the client's start and end.
    """
    client = bucket.state.all_clients[number]
    log = bucket.logs.get(client.process)
    if log is None or seen.departed_ms is None:
        return seen
    return replace(seen, **log.within(seen.departed_ms, EVER_MS).about(client)._asdict())
