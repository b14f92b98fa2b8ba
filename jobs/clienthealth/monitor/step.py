"""Process one batch for one bucket of processes, in plain Python, for Spark and `kafka-health watch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from clienthealth.measure.packed import Chunk
from clienthealth.monitor import (
    client_verdicts,
    departures,
    groups,
    intake,
    minutes,
    process_log,
    readings,
    recovery,
    renamed,
)
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.client_verdicts import Record
from clienthealth.monitor.incidents import Transition
from clienthealth.monitor.minutes import Row
from clienthealth.monitor.state import BucketState, ProcessKey
from clienthealth.settings import Settings


@dataclass
class Published:
    """The result of `step` for one bucket and one batch.

    `records` are for the topic `client-health`; `minutes` are rows of the history.

    `changes`   changes of incidents
    `late`      number of samples and log events that arrived after their windows had been closed
    `left_out`  number of clients, samples and events left out, by the name of the limit
    `clients`   number of clients and groups in the state
    `skewed`    number of clients with a wrong clock
    """

    records: list[Record] = field(default_factory=list)
    changes: list[Transition] = field(default_factory=list)
    minutes: list[Row] = field(default_factory=list)
    late: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    clients: int = 0
    skewed: int = 0

    def add(self, judged: tuple[Sequence[Record], Sequence[Transition]]) -> None:
        self.records += judged[0]
        self.changes += judged[1]

    def end(self, changes: Sequence[Transition]) -> None:
        """Add changes of incidents. For each closed or moved incident, add a tombstone for the client's record."""
        ended = [change.client.key for change in changes if change.change in ("closed", "moved")]
        self.add(([(key, None) for key in ended], changes))


def step(state: BucketState, chunks: Sequence[Chunk], settings: Settings, now_ms: int) -> Published:
    """Process a batch for one bucket, and change `state` in place. `now_ms`: this machine's clock (epoch ms)."""
    published = Published()
    closed = readings.horizons(state, settings.monitor)
    outage_ms = state.outage_ms
    before_ms, state.time_ms = state.time_ms, intake.clock(state, chunks, now_ms)
    intake.idle(state, any(chunk.clocks for chunk in chunks), now_ms)
    intake.discount_outage(state, chunks, before_ms)
    taken = intake.take(state, chunks, settings.monitor, now_ms)
    published.late, published.left_out = taken.late, taken.left_out
    readings.renew_clients(state)
    closed, no_more, moved = renamed.join(state, closed)
    published.add(([(key, None) for key in no_more], moved))
    bucket = Bucket(state, settings)
    published.end(renamed.assign(bucket))
    new = [*taken.log_entries, *client_verdicts.overdue(bucket, before_ms)]
    if new or state.readings.fresh.any():
        published.add(client_verdicts.judge(bucket, new, closed, now_ms))
    gone = departures.departed(bucket)
    for number in gone:
        published.add(departures.judge(bucket, number))
    published.end(recovery.expired(bucket, departures.keep(bucket)))
    for number in departures.due_in_outage(bucket, min(outage_ms, state.outage_ms)):
        published.add(departures.judge(bucket, number, all_silent=True))
    published.records += departures.reminders(bucket, before_ms)
    published.minutes = minutes.finished(bucket, gone, published.changes, now_ms)
    of_groups, rows = groups.take(state, taken.chunks, settings)
    published.records += of_groups
    published.minutes += rows
    _let_go(bucket, gone, published)
    published.skewed = int((readings.skew_seconds(state, now_ms) != 0).sum())
    published.clients = len(state.all_clients) + len(state.groups)
    return published


def _let_go(bucket: Bucket, gone: Sequence[int], published: Published) -> None:
    state, settings, grid = bucket.state, bucket.settings, bucket.grid
    longest = int(grid.length.max()) if len(grid.length) else 1000 * settings.monitor.window_seconds
    process_log.evict(state, settings.monitor, longest, living := set(bucket.numbers))
    readings.evict(state, settings.monitor, grid)
    process_log.remember_gone(state, gone)
    for number in gone:
        state.end(state.all_clients[number].identity, int(state.clients.last[number]))
    readings.forget(state, gone)
    readings.compact(state)
    if too_many := forget(state, settings, living):
        published.left_out["events"] += too_many


def forget(state: BucketState, settings: Settings, living: Set[ProcessKey]) -> int:
    """Delete old or excess entries of the state's `Memory` fields.

    `living`: processes that report or log. If there are more clients than `[monitor] max_clients`, the log lines about
    the start and end of some clients are deleted. Returns the number of these clients.
    """
    now_ms, clients = state.time_ms, intake.share(settings.monitor.max_clients, settings.monitor)
    state.has_log_data.evict(now_ms, 0, living=living)
    too_many = state.lifecycle.evict(now_ms, process_log.LIFECYCLE_MS, limit=clients, living=living)
    # Limit the entries of each process, because a process may use very many client ids (for example, one per thread).
    state.also_seen.evict(now_ms, 3_600_000, each=200)
    # 15 minutes after an incident was closed, the history has the rows of all its minutes.
    state.over.evict(now_ms, 900_000)
    state.gone.evict(now_ms, 900_000)
    state.groups.evict(now_ms, 1000 * settings.lag.window_seconds)
    # `shared` has spans in which no client sent data. Delete a span when every client has sent data after the span.
    state.shared.evict(int(state.clients.last_seen.min(initial=now_ms)), 0)
    state.reported_once.evict(now_ms, limit=intake.share(intake.REPORTED_ONCE, settings.monitor))
    state.ended.evict(now_ms, limit=clients)
    for key, client in [*state.former.items()]:
        if not state.incidents.of_client(client.key):
            state.former.forget(key)
    return len(too_many)
