"""Count the log lines that show known issues (`Trouble`). A record lists known issues beside the verdicts.

A `Run` keeps an issue's first log line and a few numbers, so memory grows only with the number of issues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal

from msgspec.structs import replace

from clienthealth.measure.packed import LogEntry
from clienthealth.model.clients import Client, Kind
from clienthealth.model.readings import LogEvent
from clienthealth.model.verdicts import Seen
from clienthealth.modes import catalogue
from clienthealth.monitor.attribution import kind_named, without_copies
from clienthealth.monitor.state import BucketState, Run
from clienthealth.read.logs.also_seen import BY_ID, Trouble, lint
from clienthealth.read.logs.self_descriptions import CONFIG_LOGGED, options_logged


@cache
def _troubles() -> Mapping[str, Trouble]:
    ids = {wording.id: wording.also for wording in catalogue().wordings if wording.also}
    own = {name: meaning for name, meaning in catalogue().by_id.items() if isinstance(meaning, Trouble)}
    return own | {name: BY_ID[trouble] for name, trouble in ids.items()}


def take(state: BucketState, entries: Iterable[LogEntry]) -> None:
    telling: list[tuple[LogEntry, LogEvent, Trouble, Kind | Literal[""], str]] = []
    for entry in without_copies(entries):
        event = entry.event
        if event is not None and (trouble := _troubles().get(event.signature)):
            telling.append((entry, event, trouble, trouble.kind or kind_named(event) or "", event.text))
        if event is not None and event.signature in CONFIG_LOGGED:
            of_kind = catalogue().by_id[event.signature].kind
            wrong = lint(options_logged(event.captures), of_kind)
            telling += [(entry, event, trouble, of_kind or "", text) for trouble, text in wrong]
    for entry, event, trouble, kind, text in sorted(telling, key=lambda reported: reported[0].ts_ms):
        named = entry.instance or "", event.client_id or "", kind, trouble.id
        key = (*entry.process, *named)
        run = state.also_seen.get(key)
        if run is None or (not is_reported(run) and event.ts_ms - run.last_ms > 1000 * trouble.apart_seconds):
            run = Run(*named, 0, event.ts_ms, event.ts_ms, text, event.source, 0)
        run.lines += entry.repeats
        run.unwritten += entry.repeats
        minute = event.ts_ms // 60_000 * 60_000
        run.minutes[minute] = run.minutes.get(minute, 0) + entry.repeats
        if len(run.minutes) > MINUTES:
            del run.minutes[min(run.minutes)]
        run.last_ms = max(run.last_ms, event.ts_ms)
        state.also_seen.remember(key, run, run.last_ms)


MINUTES = 60
#: In a whole log, an issue is reported after `Trouble.least` lines. In an excerpt, one line is enough if
#: `Trouble.least` is below EVERYDAY_LINES.
EVERYDAY_LINES = 8


def is_reported(run: Run, excerpt: bool = False) -> bool:
    """Return True if `run` has enough log lines to report its known issue.

    `excerpt`  True if a person picked the lines from a log, so that fewer lines are enough
    """
    trouble = BY_ID.get(run.what)
    return trouble is not None and (run.lines >= trouble.least or (excerpt and trouble.least < EVERYDAY_LINES))


def by_process(state: BucketState, excerpt: bool = False) -> Mapping[tuple[str, str], Sequence[Run]]:
    """Return, by process (service, host), the known issues to report.

    `excerpt`: see `is_reported`.
    """
    runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for key, run in state.also_seen.items():
        if is_reported(run, excerpt):
            runs[key[:2]].append(run)
    return runs


def seen(state: BucketState, runs: Sequence[Run], client: Client, kinds: Mapping[str | None, int]) -> list[Seen]:
    """Return a client's known issues.

    `runs`   the runs of log lines (`Run`) about known issues in the log of the client's process
    `kinds`  maps a kind of client (None: unknown) to the number of such clients in the process

    A line without a client id counts for every client that the line may be about. If a line may be about several
    clients, `Seen.of_process` is True.
    """
    by_what: dict[tuple[str, bool], Seen] = {}
    for run in runs:
        if _concerns(state, run, client):
            one = _seen(run, kinds)
            if other := by_what.get((one.what, one.of_process)):
                first = min(one, other, key=lambda seen: seen.first_ms)
                one = replace(first, lines=one.lines + other.lines, last_ms=max(one.last_ms, other.last_ms))
            by_what[one.what, one.of_process] = one
    return list(by_what.values())


def unattributed(
    runs_of: Mapping[tuple[str, str], Sequence[Run]], state: BucketState, clients: Sequence[Client]
) -> list[tuple[Client, Seen]]:
    """Return the known issues that cannot be attributed to one of `clients`, each with a made-up client.

    Either no client fits the log lines, or several clients fit them. The made-up client has the client id that the
    lines name, or ''. `runs_of`: the issues by process (service, host).
    """
    left = []
    for process, runs in runs_of.items():
        beside = [client for client in clients if client.process == process]
        for run in runs:
            concerned = [client for client in beside if _concerns(state, run, client)]
            if not concerned or (len(concerned) > 1 and not run.client_id):
                named = Client(*process, run.instance or process[1], run.client_id, run.kind or None)
                left.append((named, _seen(run, {"": len(concerned)})))
    return left


def unwritten(runs: Sequence[Run], client_id: str, kind: str, until_ms: float) -> list[dict[str, object]]:
    """Return, for each known issue of a client, the number of log lines that the history does not have yet.

    Rows are {"what": id of the issue, "lines": number}. Lines from minutes after `until_ms` (epoch ms) do not count,
    because a later call returns these minutes.
    """
    counts: dict[str, int] = {}
    for run in runs:
        if run.unwritten and run.client_id in ("", client_id) and run.kind in ("", kind):
            later = {minute: lines for minute, lines in run.minutes.items() if minute > until_ms}
            if due := run.unwritten - sum(later.values()):
                counts[run.what] = counts.get(run.what, 0) + due
                run.unwritten, run.minutes = run.unwritten - due, later
    return [{"what": what, "lines": lines} for what, lines in sorted(counts.items())]


def _concerns(state: BucketState, run: Run, client: Client) -> bool:
    if run.client_id not in ("", client.client_id) or run.kind not in ("", client.kind):
        return False
    if run.instance in ("", client.instance):
        return True
    return not any(other.process == client.process and other.instance == run.instance for other in state.all_clients)


def _seen(run: Run, kinds: Mapping[str | None, int]) -> Seen:
    several = not run.client_id and sum(n for kind, n in kinds.items() if run.kind in ("", kind) or not kind) > 1
    return Seen(run.what, run.lines, run.first_ms, run.last_ms, run.text, run.source, several)
