"""Merge two entries of the state that describe the same client under two instance names.

A redeployed metrics agent may change a client's instance. If a new entry's counters continue those of an old entry,
both entries are one client, because the counters of a new process begin at zero.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clienthealth.measure.columns import Floats, Ints
from clienthealth.model.clients import Client
from clienthealth.model.metrics import CLIENT_METRICS
from clienthealth.model.values import grouped
from clienthealth.modes import modes
from clienthealth.monitor import readings
from clienthealth.monitor.attribution import ProcessLog
from clienthealth.monitor.bucket import INTERVALS, Bucket
from clienthealth.monitor.incidents import Transition
from clienthealth.monitor.process_log import OVERDUE, START_MS, is_start
from clienthealth.monitor.state import BucketState

#: A client that has reported for less than NEW_MS is new. Only a new client can continue another client.
NEW_MS = 120_000
#: `FASTER`: limit for the growth rate of counters in the gap between old and new samples, as a multiple of the rate
#: before the gap.
#: `LONGER`: minimum time for which the old client must have reported, as a multiple of the gap's duration.
FASTER, LONGER = 3.0, 3.0


def join(state: BucketState, closed: Ints) -> tuple[Ints, list[str], list[Transition]]:
    """For each client that now reports under another instance, merge its old entry into its new entry.

    Return (`closed` without the old entries, keys of the old entries' clients, changes of incidents).

    `closed`: for each client, the time (epoch ms) up to which the client's windows are closed to new data.
    """
    pairs = list(_pairs(state))
    keys: list[str] = []
    changes: list[Transition] = []
    for old, new in pairs:
        before, now = state.all_clients[old], state.all_clients[new]
        for incident in [*state.incidents.of_client(before.key).values()]:
            changes += state.incidents.moved(incident, now)
        keys.append(before.key)
        state.end(state.all_clients[old].identity, int(state.clients.last[old]))
        state.readings.client[state.readings.client == old] = new
        clients = state.clients
        clients.first[new], clients.minute[new] = clients.first[old], clients.minute[old]
        clients.values[new] = np.where(np.isnan(clients.values[new]), clients.values[old], clients.values[new])
    if pairs:
        gone = [old for old, _ in pairs]
        readings.forget(state, gone)
        state.readings, state.parts = readings.in_order(state.readings, state.parts, state.names)
        closed = np.delete(closed, [old for old in gone if old < len(closed)])
    return closed, keys, changes


def assign(bucket: Bucket) -> list[Transition]:
    """Move open incidents to the clients to which they belong. Return the changes of incidents.

    An incident without a client id moves to the only client of its process and kind. If a client is known only from the
    log, its incident moves to the reporting client with the same client id.
    """
    state = bucket.state
    names = {(ref.process, ref.client_id, ref.kind) for ref in state.all_clients} if state.former else set()
    spoken_of: dict[tuple[str, str | None], Client] = {
        (ref.key, ref.kind): ref for _, ref in state.former.items() if (ref.process, ref.client_id, ref.kind) in names
    }
    open_ = [incident for incident in state.incidents.all if not incident.client.client_id]
    for incident in state.incidents.all if spoken_of else ():
        # An incident's instance may be wrong only if all evidence comes from logs and dumps.
        by_log = {evidence.kind for evidence in incident.verdict.evidence} <= {"log", "thread-dump"}
        about_end = incident.departed_ms or modes()[incident.verdict.mode].absence
        if (incident.client.key, incident.client.kind) in spoken_of and by_log and not about_end:
            open_.append(incident)
    changes: list[Transition] = []
    for incident in open_:
        client, process = incident.client, incident.client.process
        reporting = [state.all_clients[number] for number in bucket.numbers.get(process, ())]
        log = bucket.logs.get(process) or ProcessLog(process, (), reporting, lives=bucket.lives[process])
        if ref := spoken_of.get((client.key, client.kind)):
            meant = log.reports_as(ref)
        else:
            meant = log.only(client.kind, client.instance) if client.kind else None
        if meant is not None:
            changes += state.incidents.moved(incident, meant)
    return changes


def _pairs(state: BucketState) -> Iterator[tuple[int, int]]:
    """Yield (index of a client that stopped reporting, index of the client that continues it)."""
    clients = state.clients
    silent = np.flatnonzero(state.time_ms - clients.last_seen > OVERDUE * clients.every)
    new = np.flatnonzero(clients.last - clients.first < NEW_MS) if len(silent) else silent

    def name(number: int) -> tuple[str | None, ...]:
        client = state.all_clients[number]
        return (*client.process, client.client_id, client.kind)

    begun = grouped(new.tolist(), name)
    for old in silent.tolist() if begun else ():
        later = [number for number in begun[name(old)] if clients.first[number] > clients.last[old]]
        instance = state.all_clients[old].instance
        successors = [number for number in later if state.all_clients[number].instance != instance]
        if len(successors) == 1 and _goes_on(state, old, successors[0]):
            yield old, successors[0]


def _goes_on(state: BucketState, old: int, new: int) -> bool:
    clients, client = state.clients, state.all_clients[old]
    last, first = int(clients.last[old]), int(clients.first[new])
    gap = first - last
    if gap > INTERVALS * clients.every[old] or (last - clients.first[old]) < LONGER * gap:
        return False
    lines = state.lifecycle.get((*client.process, client.client_id)) or ()
    if any(is_start(event) and last < event.ts_ms < first + START_MS for _, event in lines):
        return False
    before, after = _totals(state, old), _totals(state, new)
    if len(before) < 2 or not len(after):
        return False
    (earlier, ended), began = before[-2:], after[0]
    grown, known = ended - earlier, ~np.isnan(ended) & ~np.isnan(earlier) & ~np.isnan(began)
    seconds = last - int(state.readings.ts[state.rows(old)][-2])
    most = ended + FASTER * grown * max(1.0, gap / max(1, seconds))
    fits = (began >= ended) & (began <= most)
    return int((known & (ended > 0)).sum()) > 1 and bool(fits[known].all())


def _totals(state: BucketState, number: int) -> Floats:
    """Return a client's counters, one row per sample. A client that reports deltas has no rows."""
    rows = state.rows(number)
    names = CLIENT_METRICS[state.all_clients[number].kind or ""]
    columns = [at for at, name in enumerate(names) if name.endswith("-total")]
    totals: Floats = state.readings.values[rows][:, columns]
    return totals[:0] if (state.readings.delta[rows] > 0).any() else totals
