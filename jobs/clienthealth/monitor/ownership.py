"""Whose a log line is: processes follow each other on a host, and stand side by side, with clients of the same name.

A line that names the instance of its process is that process's, where processes that report go by such names. Else its
time tells: it is of the client that was there then. What can be of several is of none by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from clienthealth.measure.packed import LogEntry, Who
from clienthealth.model.readings import LogEvent
from clienthealth.modes import catalogue
from clienthealth.monitor.state import BucketState, Life
from clienthealth.read.logs.self_descriptions import CONFIG_LOGGED
from clienthealth.read.logs.wordings import Life as LifeTold

#: Service and host: what tells processes apart whose clients need not name an instance.
ProcessKey = tuple[str, str]
Owner = Literal["mine", "another's", "anybody's"]
#: A client that has been silent for so many of its reporting intervals is late; a process that speaks then lives on.
OVERDUE = 1.5
#: The lines that a client logs at its start come within this time.
START_MS = 5_000
EVER = float("inf")


class Start(NamedTuple):
    """When a client of a process was started, by its log. `instance`: as the line names it, "" where it does not."""

    ts_ms: int
    instance: str
    client_id: str


class Silence(NamedTuple):
    """A client that is silent: its first and last reading (epoch ms), its interval, and how long it may be silent."""

    who: Who
    first_ms: float
    last_ms: float
    every_ms: float
    gap_ms: float

    @property
    def settled_ms(self) -> float:
        """What is logged of a start up to then is of its own: a client can report once, in the midst of its start."""
        return max(self.last_ms, self.first_ms + START_MS)


def lives(state: BucketState, processes: Iterable[ProcessKey] | None = None) -> Mapping[ProcessKey, Sequence[Life]]:
    """The clients of these processes (None: of all): those that report, and those that did until lately."""
    wanted = None if processes is None else set(processes)
    by_process: dict[ProcessKey, list[Life]] = defaultdict(list)
    if wanted is not None and not wanted:
        return by_process
    first = state.clients.first.tolist()
    of_all = [Life(who, first[number], EVER) for number, who in enumerate(state.whos)]
    of_all += [life for _, life in state.gone.items()]
    for life in of_all:
        if wanted is None or life.who.process in wanted:
            by_process[life.who.process].append(life)
    return by_process


@cache
def telling(*lives: LifeTold) -> frozenset[str]:
    """Signatures of the lines that tell this of a client's life; any of them where none is named."""
    told = catalogue().by_id.items()
    return frozenset(name for name, meaning in told if meaning.life and (not lives or meaning.life in lives))


def is_start(event: LogEvent) -> bool:
    """Does a line tell that a client is started?"""
    return event.signature in telling("begins") | CONFIG_LOGGED


def starts(state: BucketState) -> Mapping[ProcessKey, Sequence[Start]]:
    """When clients of each process were started, as far as that is in its log."""
    by_process: dict[ProcessKey, list[Start]] = defaultdict(list)
    for (service, host, client_id), lines in state.lifecycle.items():
        by_process[service, host] += [
            Start(event.ts_ms, instance, client_id) for instance, event in lines if is_start(event)
        ]
    return by_process


def remember(state: BucketState, numbers: Iterable[int]) -> None:
    """Clients that are about to be forgotten are known by their times for a while, where their process goes on."""
    numbers, clients = [*numbers], state.clients
    for number in numbers:
        who, until_ms = state.whos[number], float(clients.last[number] + OVERDUE * clients.every[number])
        state.gone.remember((*who.key, until_ms), Life(who, float(clients.first[number]), until_ms), state.time_ms)
    if state.gone:
        leaving = set(numbers)
        speak = {entry.process for entry in state.log_entries} | {key[:2] for key in state.lifecycle}
        state.gone.only(speak | {who.process for number, who in enumerate(state.whos) if number not in leaving})


def owner(instance: str | None, ts_ms: int, who: Who, lives: Sequence[Life], name: str | None) -> Owner:
    """Whose a line or dump is that may be of `who`, by the instance that it names and by its time.

    `name`: the client that it speaks of, None where it names none.
    """
    if instance and instance == who.instance:
        return "mine"
    others = [life for life in lives if life.who.instance != who.instance]
    if instance and any(life.who.instance == instance for life in others):
        return "another's"
    rivals = [life for life in others if life.who.client_id == name and _there(life, ts_ms)]
    if not rivals:
        return "mine"
    return (
        "anybody's" if any(life.who.identity == who.identity and _there(life, ts_ms) for life in lives) else "another's"
    )


def _there(life: Life, ts_ms: float) -> bool:
    return life.first_ms <= ts_ms <= life.until_ms


def last_words(
    said: Sequence[tuple[str, LogEvent]],
    entries: Sequence[LogEntry],
    starts: Sequence[Start],
    lives: Sequence[Life],
    silent: Silence,
) -> tuple[tuple[LogEvent, ...], Sequence[LogEntry]]:
    """What a client that is silent said of its beginning and end, and what its process said as one that goes on.

    said     lines about the beginning and end of clients of its name, with the instances that they name
    entries  the log of its process
    starts   when clients of its process were started
    lives    when clients of its process were there
    """
    logs = _of_its_end(said, lives, silent)
    ends = [event.ts_ms for event in logs if event.signature in telling("loses")]
    since = max([silent.last_ms, *ends]) + OVERDUE * silent.every_ms
    spoke = [
        entry
        for entry in entries
        if entry.ts_ms > since
        # A client that has ended can leave a process behind that goes on: only words of its own refute its end.
        and (not ends or (entry.event is not None and entry.event.client_id == silent.who.client_id))
        and goes_on(entry, starts, lives, silent)
    ]
    return logs, spoke


def goes_on(entry: LogEntry, starts: Sequence[Start], lives: Sequence[Life], silent: Silence) -> bool:
    """Does an entry tell that the process of a client which is silent lives: is it not of one that came after it?"""
    event, who = entry.event, silent.who
    name = event.client_id if event is not None else None
    if (event is not None and event.signature in telling() | CONFIG_LOGGED) or owner(
        entry.instance, entry.ts_ms, who, lives, name
    ) != "mine":
        return False
    own = bool(entry.instance) and entry.instance == who.instance
    others = [life for life in lives if life.who.instance != who.instance]
    if not own and name != who.client_id and any(_there(life, entry.ts_ms) for life in others):
        return False
    # Any start may be that of the next process; under a name of its own only a start of the same client is.
    later = [
        start.ts_ms
        for start in starts
        if start.ts_ms > silent.settled_ms and (not (own or name == who.client_id) or start.client_id == who.client_id)
    ]
    return entry.ts_ms < min(later, default=EVER)


def _of_its_end(said: Sequence[tuple[str, LogEvent]], lives: Sequence[Life], silent: Silence) -> tuple[LogEvent, ...]:
    """Of lines about the beginning and end of clients of its name those of this client, in order of time.

    What accuses it counts only after its last reading and before a later start; what excuses it counts wherever it may
    be its own.
    """
    who, last = silent.who, silent.last_ms
    own = any(instance == who.instance for instance, _ in said)
    foreign = {life.who.instance for life in lives} - {who.instance}
    begin, close, lose = telling("begins"), telling("closes", "closed"), telling("loses")
    own_lines = [
        (instance == who.instance, event)
        for instance, event in said
        if instance in ("", who.instance) or (not own and instance not in foreign)
    ]
    rivals = [life for life in lives if life.who.client_id == who.client_id and life.who.instance != who.instance]
    begins = [event.ts_ms for _, event in own_lines if event.signature in begin]
    begun = max((ts - START_MS for ts in begins if ts <= silent.settled_ms), default=None)
    later = min((ts for ts in begins if ts > silent.settled_ms), default=EVER)
    closes = [event.ts_ms for _, event in own_lines if event.signature in close and event.ts_ms >= (begun or 0)]
    # Where the next one of its name has closed, and nobody names instances, that line may be its own.
    unsure = any(ts >= later for ts in closes) and not any(ts < later for ts in closes)

    def alone(ts_ms: float) -> bool:
        return not any(_there(life, ts_ms) for life in rivals)

    # Where one of several of its name gave up, nobody knows which of them closed well.
    anybodys = any(e.signature in lose and e.ts_ms >= last and not (named or alone(e.ts_ms)) for named, e in own_lines)

    def counts(named: bool, event: LogEvent) -> bool:
        ts_ms, signature = event.ts_ms, event.signature
        if signature in begin:
            # In a log that may be of several no line is missed.
            return (begun or 0) <= ts_ms <= last and (named or (alone(last) and not unsure))
        if signature in close:
            since = silent.first_ms - silent.gap_ms if begun is None else begun
            return since <= ts_ms < later and (named or not anybodys)
        if signature in lose:
            since = last - OVERDUE * silent.every_ms
            return since <= ts_ms < later and (named or alone(ts_ms))
        # Who was killed reports no more: what was killed before its last reading was another process of its host.
        return last - START_MS <= ts_ms < later and (named or alone(ts_ms))

    return tuple(sorted((event for named, event in own_lines if counts(named, event)), key=lambda event: event.ts_ms))
