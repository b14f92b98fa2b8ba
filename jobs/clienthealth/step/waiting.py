"""Lines of a process are judged only up to the time that its metrics have reached.

After a standstill both topics are worked off, and neither need be as far as the other. A line that is read minutes
before the readings of its time would be judged by those of another time, or taken for a client that reports nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from clienthealth.settings import MonitorSettings
from clienthealth.step.limits import share
from clienthealth.step.ownership import ProcessKey
from clienthealth.step.state import BucketState
from clienthealth.windows.packed import LogEntry

#: So far (ms) may a process's newest line be ahead of metrics that are read without delay.
AHEAD_MS = 60_000
#: No line waits longer than this while the monitor runs, by this machine's clock.
LONGEST_MS = 600_000


def due(
    state: BucketState, entries: Sequence[LogEntry], readings_arrived: bool, now_ms: int, settings: MonitorSettings
) -> list[LogEntry]:
    """What of the new entries, and of those that wait, is judged now; the others wait in the state.

    `readings_arrived`: from anybody. A batch without any has caught up with the metrics: nothing waits any more. What
    is ahead of this machine's clock waits for nothing, nor does the log of a process that is known to report nothing.
    """
    every = [*state.waiting, *entries]
    state.waiting = []
    waited_ms, state.waited_ms = state.waited_ms, 0
    all_near = all(entry.ts_ms <= state.time_ms + AHEAD_MS for entry in every)
    if all_near or not readings_arrived or waited_ms >= LONGEST_MS:
        return every
    by_process: dict[ProcessKey, list[LogEntry]] = defaultdict(list)
    for entry in every:
        by_process[entry.process].append(entry)
    reached = _reached(state)
    now: list[LogEntry] = []
    for process, of_process in by_process.items():
        until = max(state.time_ms, reached.get(process, 0))
        lags = any(until + AHEAD_MS < entry.ts_ms <= now_ms for entry in of_process)
        if not lags or (process in state.told and process not in reached):
            now += of_process
        else:
            now += [entry for entry in of_process if not until < entry.ts_ms <= now_ms]
            state.waiting += [entry for entry in of_process if until < entry.ts_ms <= now_ms]
    if len(state.waiting) > share(settings.max_events, settings):
        now, state.waiting = every, []
    state.waited_ms = waited_ms if state.waiting else 0
    return now


def _reached(state: BucketState) -> dict[ProcessKey, int]:
    """The newest reading of each process, by its own clock."""
    newest = np.zeros(len(state.whos), np.int64)
    np.maximum.at(newest, state.readings.who, state.readings.ts)
    reached: dict[ProcessKey, int] = {}
    for who, ts_ms in zip(state.whos, newest.tolist(), strict=True):
        reached[who.process] = max(ts_ms, reached.get(who.process, 0))
    return reached
