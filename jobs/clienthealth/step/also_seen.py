"""Trouble that no failure mode is about: counted as its lines come, published with the client, written to the history.

A run is what is remembered of the lines of one trouble of one client: a few numbers and the first line. It costs what a
client has of trouble, whatever its log says else, and is forgotten an hour after its last line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from clienthealth.logs.also_seen import BY_ID, Trouble
from clienthealth.model.verdicts import Seen
from clienthealth.modes import catalogue
from clienthealth.step.process_log import kind_named
from clienthealth.step.state import BucketState, Run
from clienthealth.windows.packed import LogEntry, Who

#: For so long after its last line trouble is told.
TOLD_MS = 3_600_000
#: Of one process so many runs are kept, the newest: client ids can be made up for each thread.
MOST_RUNS = 200


@cache
def _troubles() -> Mapping[str, Trouble]:
    return {name: meaning for name, meaning in catalogue().by_id.items() if isinstance(meaning, Trouble)}


def take(state: BucketState, entries: Iterable[LogEntry]) -> None:
    """Count the lines of trouble."""
    troubles = _troubles()
    telling = [entry for entry in entries if entry.event is not None and entry.event.signature in troubles]
    for entry in sorted(telling, key=lambda entry: entry.ts_ms):
        event = entry.event
        assert event is not None
        trouble = troubles[event.signature]
        runs = state.also_seen.setdefault(entry.process, [])
        whose = entry.instance or "", event.client_id or "", trouble.kind or kind_named(event) or ""
        run = next((r for r in runs if (r.instance, r.client_id, r.kind) == whose and r.what == trouble.id), None)
        if run is not None and not is_told(run) and event.ts_ms - run.last_ms > 1000 * trouble.apart_seconds:
            runs.remove(run)
            run = None
        if run is None:
            run = Run(*whose, trouble.id, 0, event.ts_ms, event.ts_ms, event.text, event.source, 0)
            runs.append(run)
            if len(runs) > MOST_RUNS:
                runs.remove(min(runs, key=lambda run: run.last_ms))
        run.lines += entry.repeats
        run.unwritten += entry.repeats
        run.last_ms = max(run.last_ms, event.ts_ms)


def is_told(run: Run) -> bool:
    """Are there enough lines of it to be told? What another release counted may be unknown to this one."""
    trouble = BY_ID.get(run.what)
    return trouble is not None and run.lines >= trouble.least


def evict(state: BucketState) -> None:
    """Forget what is not told any more."""
    for process, runs in list(state.also_seen.items()):
        state.also_seen[process] = kept = [run for run in runs if state.time_ms - run.last_ms <= TOLD_MS]
        if not kept:
            del state.also_seen[process]


def seen(state: BucketState, who: Who, kinds: Mapping[str, int]) -> list[Seen]:
    """The trouble of a client. `kinds`: how many clients of each kind its process has.

    Lines that name no client are of the only one that they can be of; of several, each is told of them.
    """
    by_what: dict[tuple[str, bool], Seen] = {}
    for run in state.also_seen.get(who.process, ()):
        if is_told(run) and _concerns(state, run, who):
            one = _seen(run, kinds)
            other = by_what.get((one.what, one.of_process))
            by_what[one.what, one.of_process] = one if other is None else _together(one, other)
    return list(by_what.values())


def of_nobody(state: BucketState, clients: Sequence[Who]) -> list[tuple[Who, Seen]]:
    """The trouble that is of none of these clients, or of several, with the client or process that the lines name."""
    left = []
    for process, runs in state.also_seen.items():
        beside = [who for who in clients if who.process == process]
        for run in filter(is_told, runs):
            concerned = [who for who in beside if _concerns(state, run, who)]
            if not concerned or (len(concerned) > 1 and not run.client_id):
                named = Who(*process, run.instance or process[1], run.client_id, run.kind)
                left.append((named, _seen(run, {"": len(concerned)})))
    return left


def unwritten(state: BucketState, process: tuple[str, str], client_id: str, kind: str) -> list[dict[str, object]]:
    """What was counted of a client, or of nobody by name, since it was written to the history last."""
    counts: dict[str, int] = {}
    for run in state.also_seen.get(process, ()):
        if run.unwritten and is_told(run) and run.client_id in ("", client_id) and run.kind in ("", kind):
            counts[run.what] = counts.get(run.what, 0) + run.unwritten
            run.unwritten = 0
    return [{"what": what, "lines": lines} for what, lines in sorted(counts.items())]


def _concerns(state: BucketState, run: Run, who: Who) -> bool:
    if run.client_id not in ("", who.client_id) or run.kind not in ("", who.kind):
        return False
    if run.instance in ("", who.instance):
        return True
    return not any(other.process == who.process and other.instance == run.instance for other in state.whos)


def _together(one: Seen, other: Seen) -> Seen:
    """Both as one, with the line that came first."""
    first = min(one, other, key=lambda seen: seen.first_ms)
    return replace(first, lines=one.lines + other.lines, last_ms=max(one.last_ms, other.last_ms))


def _seen(run: Run, kinds: Mapping[str, int]) -> Seen:
    several = not run.client_id and sum(n for kind, n in kinds.items() if run.kind in ("", kind) or not kind) > 1
    return Seen(run.what, run.lines, run.first_ms, run.last_ms, run.text, run.source, several)
