"""Process one batch for one bucket: change the state, and return records, changes of incidents, rows of the history.

The step is plain Python. The streaming query runs the step with the state that Spark keeps; `diagnose` and `watch` run
the step without Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from clienthealth.measure.packed import Chunk
from clienthealth.measure.packer import SKEW_MS
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

#: Maximum time (ms) for which the watermark waits, in a backlog, for the task that is furthest behind. It bounds the
#: samples and log entries that the state keeps meanwhile.
HELD_MS = 900_000


@dataclass
class Published:
    """The result of a step: records of `client-health`, changes of incidents, and rows of the history (`minutes`).

    late      number of samples and events that came after their windows were closed
    left_out  maps the name of a limit to the number of clients, samples or events that it left out
    clients   number of clients and groups in the state
    skewed    number of clients with a wrong clock
    """

    records: list[Record] = field(default_factory=list)
    changes: list[Transition] = field(default_factory=list)
    minutes: list[Row] = field(default_factory=list)
    late: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    clients: int = 0
    skewed: int = 0

    def add(self, judged: tuple[Sequence[Record], Sequence[Transition]]) -> None:
        """Add (records, changes of incidents) to this result."""
        self.records += judged[0]
        self.changes += judged[1]


def step(state: BucketState, chunks: Sequence[Chunk], settings: Settings, now_ms: int) -> Published:
    """Process the decoded data of a batch for one bucket. The state is changed in place.

    `now_ms`: this machine's clock (epoch ms). The watermark is never ahead of `now_ms`.
    """
    published = Published()
    closed = readings.horizons(state, settings.monitor)
    before_ms, state.time_ms = state.time_ms, clock(state, chunks, now_ms)
    idle_ms = departures.idle(state, any(chunk.clocks for chunk in chunks), now_ms)
    departures.discount_outage(state, before_ms)
    taken = intake.take(state, chunks, settings.monitor, now_ms)
    published.late, published.left_out = taken.late, taken.left_out
    readings.renew_clients(state)
    closed, no_more, moved = renamed.join(state, closed)
    published.add(([(key, None) for key in no_more], moved))
    grid = readings.grid_of(state, settings.monitor)
    bucket = Bucket(state, settings, grid)
    new = [*taken.log_entries, *client_verdicts.overdue(bucket, before_ms)]
    if new or state.readings.fresh.any():
        published.add(client_verdicts.judge(bucket, new, closed, now_ms))
    gone = departures.departed(bucket)
    for number in gone:
        published.add(departures.judge(bucket, number))
    expired = recovery.expired(state, settings, departures.keep(bucket))
    published.add(([(change.client.key, None) for change in expired], expired))
    for number in departures.due_in_outage(bucket, idle_ms):
        published.add(departures.judge(bucket, number, all_silent=True))
    published.records += departures.reminders(state, before_ms, settings)
    minutes.remember(state, published.changes)
    published.minutes = minutes.finished(bucket, gone, now_ms)
    of_groups, rows = groups.take(state, taken.chunks, settings)
    published.records += of_groups
    published.minutes += rows
    _let_go(bucket, gone, published)
    published.skewed = int((readings.skew_seconds(state, now_ms) != 0).sum())
    readings.compact(state)
    published.clients = len(state.all_clients) + len(state.groups)
    return published


def _let_go(bucket: Bucket, gone: Sequence[int], published: Published) -> None:
    """Drop data that no window needs any more, and the departed clients.

    `gone`: indices of the departed clients. Data that is dropped because of a limit is counted in `published`.
    """
    state, settings, grid = bucket.state, bucket.settings, bucket.grid
    longest = int(grid.length.max()) if len(grid.length) else 1000 * settings.monitor.window_seconds
    process_log.evict(state, settings.monitor, longest, living := set(bucket.numbers))
    readings.evict(state, settings.monitor, grid)
    process_log.remember_gone(state, gone)
    for number in gone:
        state.end(state.all_clients[number].identity, int(state.clients.last[number]))
    readings.forget(state, gone)
    if too_many := forget(state, settings, living):
        published.left_out["events"] += too_many


def forget(state: BucketState, settings: Settings, living: Set[ProcessKey]) -> int:
    """Delete old or excess entries of the state's `Memory` fields.

    `living`: processes that report or log. Returns the number of clients that lost the lines on their start and end,
    because of the limit `max_clients`. The function `departures.keep` limits the field `former`: clients that no longer
    report and have an open incident.
    """
    now_ms, clients = state.time_ms, intake.share(settings.monitor.max_clients, settings.monitor)
    state.has_log_data.evict(now_ms, 0, living=living)
    # Lines on a client's start and end stay as long as its process has data, and 15 minutes longer.
    too_many = state.lifecycle.evict(now_ms, process_log.LIFECYCLE_MS, limit=clients, living=living)
    # Limit the number of entries per process, because a program may have a client id of its own in each thread.
    state.also_seen.evict(now_ms, 3_600_000, each=200)
    # Keep closed incidents for 15 minutes; by then the minutes in which they lasted are written. The number of closed
    # incidents has no limit.
    state.over.evict(now_ms, 900_000)
    state.gone.evict(now_ms, 900_000)
    # Forget groups without data for a whole lag window.
    state.groups.evict(now_ms, 1000 * settings.lag.window_seconds)
    # Keep each span in which no client sent data, until every client has sent data again.
    state.shared.evict(int(state.clients.last_seen.min(initial=now_ms)), 0)
    # Of the clients that were left out at their first report, remember only the newest: this bucket's share of two
    # million (REPORTED_ONCE).
    state.reported_once.evict(now_ms, limit=intake.share(intake.REPORTED_ONCE, settings.monitor))
    state.ended.evict(now_ms, limit=clients)
    for key, client in [*state.former.items()]:
        if not state.incidents.of_client(client.key):
            state.former.forget(key)
    return len(too_many)


def clock(state: BucketState, chunks: Sequence[Chunk], now_ms: int) -> int:
    """Return the watermark (epoch ms): the time up to which the topics are read, by the clocks of most clients.

    Each task that decoded a part of the batch reports the time up to which the task has read (`Packer`). The watermark
    is the median of these times, weighted by the tasks' numbers of clients. So a partition that has only one client,
    with a wrong clock, has no effect. The watermark never goes back, and is never ahead of `now_ms`. Tasks that read
    only logs may be far ahead, so their times enter the median only if no other task reports.

    A backlog may be read further in one partition than in another, and logs further than metrics. So the watermark then
    waits for the task that is furthest behind, but for at most HELD_MS, and not if the median is within SKEW_MS of
    `now_ms`.
    """
    reported = sorted(clock for chunk in chunks for clock in chunk.clocks)
    clocks = [clock for clock in reported if clock[1]] or reported
    if not clocks:
        return state.time_ms
    weights = np.cumsum([max(1, clients) for _, clients in clocks])
    middle = min(now_ms, clocks[int(np.searchsorted(weights, weights[-1] / 2))][0])
    waits_ms = min(HELD_MS, max(0, now_ms - middle - SKEW_MS))
    return max(state.time_ms, middle - waits_ms, min(middle, reported[0][0]))
