"""Log events and thread dumps of a bucket: what is kept of them, whose they are, and which windows they touch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache

from clienthealth.logs.dump_clients import PRODUCER_THREAD, clients_of
from clienthealth.logs.dumps import DUMP_LINE, rejoin
from clienthealth.logs.sampling import sample_key
from clienthealth.logs.signatures import CONFIG_LOGGED, SIGNATURES, options_logged
from clienthealth.model.clients import Kind
from clienthealth.model.metrics import CONFIG_OPTIONS
from clienthealth.model.readings import LogEvent, ThreadDump
from clienthealth.modes import modes
from clienthealth.settings import MonitorSettings
from clienthealth.step.state import BucketState
from clienthealth.windows.packed import Said, Who

Process = tuple[str, str]

#: Lines that speak of a client's beginning and end are kept while its process is heard of, and so long after them.
LIFECYCLE_MS = 900_000


@cache
def _kinds() -> Mapping[str, Kind]:
    return {s.id: s.kind for s in SIGNATURES if s.kind}


@cache
def _lifecycle_lines() -> frozenset[str]:
    absent = {mode.id for mode in modes().values() if mode.absence}
    return frozenset(s.id for s in SIGNATURES if s.mode in absent) | {*CONFIG_LOGGED}


@cache
def _of_processes() -> frozenset[str]:
    return frozenset(s.id for s in SIGNATURES if s.process)


def take(state: BucketState, told: Sequence[Said], settings: MonitorSettings) -> tuple[list[Said], int]:
    """Enter events and dumps into the state, each sample of a storm once; what is new, and how many came too late."""
    if not told:
        return [], 0
    closed = horizons(state, {said.process for said in told}, settings)
    window, slide = 1000 * settings.window_seconds, 1000 * settings.slide_seconds
    known = {_sample(said): said for said in state.said}
    new, late = [], 0
    for said in told:
        sample = _sample(said)
        if said.ts_ms // slide * slide + window <= closed[said.process]:
            late += 1
        elif sample in known:
            known[sample].repeats += said.repeats
        else:
            known[sample] = said
            new.append(said)
    state.said = sorted([*state.said, *new], key=lambda said: said.ts_ms)
    for said in new:
        _remember(state, said)
    return new, late


def _sample(said: Said) -> tuple[object, ...]:
    if said.event is not None:
        return (*said.process, sample_key(said.event))
    assert said.dump is not None
    return (*said.process, said.dump.ts_ms, said.dump.source)


def _remember(state: BucketState, said: Said) -> None:
    """Keep a line that speaks of the beginning or the end of a client: of each signature the first and the last.

    Lines that name no client are kept under no name.
    """
    event = said.event
    if event is None or event.signature not in _lifecycle_lines():
        return
    client_id = event.client_id or event.captures.get("client", "")
    kept = state.lifecycle.setdefault((*said.process, client_id), [])
    same = [position for position, other in enumerate(kept) if other.signature == event.signature]
    if len(same) > 1:
        del kept[same[-1]]
    kept.append(event)


def newest(state: BucketState, process: Process) -> int:
    """The newest time that anything of a process has, by its own clock; 0 where nothing is known of it."""
    return max((said.ts_ms for said in state.said if said.process == process), default=0)


def horizons(state: BucketState, processes: Iterable[Process], settings: MonitorSettings) -> Mapping[Process, float]:
    """The time up to which the windows of what each process says are closed, by its own clock."""
    last: dict[Process, int] = {}
    for said in state.said:
        last[said.process] = said.ts_ms  # in order of time

    def closed(newest: int) -> float:
        return min(newest, state.time_ms or newest) - 1000.0 * settings.watermark_seconds if newest else float("-inf")

    return {process: closed(last.get(process, 0)) for process in processes}


def evict(state: BucketState, settings: MonitorSettings, length_ms: int) -> None:
    """Drop what no window needs any more. `length_ms`: of the longest window."""
    by_process: dict[Process, list[Said]] = defaultdict(list)
    for said in state.said:
        by_process[said.process].append(said)
    kept = []
    for things in by_process.values():
        closed = _passed(state, things, settings)
        kept += [said for said in things if said.ts_ms + length_ms > closed]
    state.said = sorted(kept, key=lambda said: said.ts_ms)
    living = {who.process for who in state.whos} | {said.process for said in kept}
    for key, events in list(state.lifecycle.items()):
        if key[:2] not in living and state.time_ms - events[-1].ts_ms > LIFECYCLE_MS:
            del state.lifecycle[key]


def lifecycle_events(state: BucketState, who: Who, alone: bool) -> list[LogEvent]:
    """The kept lines that speak of a client's beginning and end, in order of time.

    What names no client is of the only one of its kind in the process (`alone`), or of all where it speaks of the
    process.
    """
    mine = state.lifecycle.get((*who.process, who.client_id), []) if who.client_id else []
    nameless = state.lifecycle.get((*who.process, ""), [])
    if nameless:
        mine = [*mine, *(e for e in nameless if (alone and _is_of(e, who)) or e.signature in _of_processes())]
    return sorted(mine, key=lambda event: event.ts_ms)


def _is_of(event: LogEvent, who: Who) -> bool:
    return _kinds().get(event.signature, who.kind) == who.kind


def logged_options(state: BucketState, who: Who, alone: bool) -> dict[str, str]:
    """The options that a client logged when it was started last."""
    told: dict[str, str] = {}
    for event in lifecycle_events(state, who, alone):
        if event.signature in CONFIG_LOGGED:
            told |= options_logged(event.captures)
    return {name: told[name] for name in CONFIG_OPTIONS if name in told}


def _passed(state: BucketState, things: Sequence[Said], settings: MonitorSettings) -> float:
    # A process that says nothing more still grows older by the clock of all.
    last = max(said.ts_ms for said in things)
    silent = state.time_ms - last - 1000 * settings.watermark_seconds
    clock = state.time_ms if silent > 0 else min(last, state.time_ms or last)
    return clock - 1000.0 * settings.watermark_seconds


@dataclass(frozen=True)
class Heard:
    """What a process said, in order of time, the clients of it that report, and those that did.

    former  clients with an open incident that report no more
    named   the names, by kind, that all its lines and dumps give to clients, also to those that do not report
    topics  of which clients, by their names, its lines say something about a topic
    """

    process: Process
    things: Sequence[Said]
    reporting: Sequence[Who]
    former: Sequence[Who] = ()
    named: Mapping[str, Set[str]] = field(default_factory=dict)
    topics: Mapping[str, Set[str]] = field(default_factory=dict)

    def within(self, start_ms: int, end_ms: int) -> Heard:
        """What it said in a window [start, end), dumps that came line by line joined again."""
        inside = [said for said in self.things if start_ms <= said.ts_ms < end_ms]
        lines = [said.event for said in inside if said.event is not None and said.event.signature == DUMP_LINE]
        if lines:
            first = next(said for said in inside if said.event is lines[0])
            inside = [said for said in inside if said.event is None or said.event.signature != DUMP_LINE]
            inside += [Said(*self.process, first.instance, dump=dump) for dump in rejoin(lines)]
        return replace(self, things=sorted(inside, key=lambda said: said.ts_ms))

    def about(self, who: Who) -> tuple[tuple[LogEvent, ...], tuple[ThreadDump, ...]]:
        """Events that speak of a client, or of none by its name, and the dumps of its process."""
        instances = {client.instance for client in self.reporting}
        events, dumps = [], []
        for said in self.things:
            if said.instance is not None and said.instance != who.instance and said.instance in instances:
                continue  # it is of another process at the same place
            if said.dump is not None:
                dumps.append(said.dump)
            elif said.event is not None and self._speaks_of(said.event, who):
                events.append(said.event if said.repeats == 1 else replace(said.event, repeats=said.repeats))
        return tuple(events), tuple(dumps)

    def spoken_of(self) -> list[Who]:
        """Clients that do not report but are spoken of; the process itself stands for one that nobody knows."""
        found: dict[Who, None] = {}
        for instance, client_id, kind in self.naming():
            if _named_by(client_id, kind, self.reporting):
                continue
            known = _named_by(client_id, kind, self.former)
            found.update(dict.fromkeys(known))
            if not known:
                service, place = self.process
                name = client_id or self._only(kind) or ""
                found[Who(service, place, instance or place, name, kind)] = None
        return list(found)

    def _only(self, kind: str) -> str | None:
        """The name of the only client of a kind that the process speaks of."""
        names = self.named.get(kind, ())
        return next(iter(names)) if len(names) == 1 else None

    def only(self, kind: Kind, instance: str) -> Who | None:
        """The only client of a kind, as it reports or did; where it never did, as one of process `instance`."""
        known = [who for who in (*self.reporting, *self.former) if who.kind == kind and who.client_id]
        name = self._only(kind)
        if known or not name:
            return known[0] if len(known) == 1 else None
        return Who(*self.process, instance, name, kind)

    def _speaks_of(self, event: LogEvent, who: Who) -> bool:
        """Does an event name the client, or no client and its kind?

        Of several clients that do not report, a line that names none is of none: no metrics would tell which it means.
        """
        if not _is_of(event, who) or event.client_id is not None:
            return _is_of(event, who) and event.client_id == who.client_id
        concerned = self._concerned(event, who.kind)
        if concerned:
            return who.client_id in concerned
        single = not who.client_id or self._only(who.kind) == who.client_id
        reports = any(who.identity == other.identity for other in self.reporting)
        return single or reports or event.signature in _of_processes()

    def _concerned(self, event: LogEvent, kind: str) -> Set[str]:
        """The clients of a kind that said something about the topic that an event speaks of."""
        return self.topics.get(event.captures.get("topic", ""), frozenset()) & self.named.get(kind, frozenset())

    def naming(self) -> Iterator[tuple[str | None, str | None, Kind]]:
        for said in self.things:
            if said.event is not None:
                kind = _kinds().get(said.event.signature) or _kind_told(said.event)
                if kind:
                    nameless = said.event.client_id is None
                    for client_id in (nameless and self._concerned(said.event, kind)) or (said.event.client_id,):
                        yield said.instance, client_id, kind
            elif said.dump is not None:
                for client_id, of_kind in clients_of(said.dump):
                    yield said.instance, client_id, of_kind


def _kind_told(event: LogEvent) -> Kind | None:
    """The kind of client that a line names which either kind can log."""
    if "[Producer clientId=" in event.text or (event.thread or "").startswith(PRODUCER_THREAD):
        return "producer"
    return "consumer" if "[Consumer clientId=" in event.text else None


def _named_by(client_id: str | None, kind: Kind, clients: Iterable[Who]) -> list[Who]:
    """The clients that such a name can mean."""
    return [client for client in clients if client_id in (None, client.client_id) and client.kind == kind]


def heard(state: BucketState) -> dict[Process, Heard]:
    """What each process of the bucket said."""
    things: dict[Process, list[Said]] = defaultdict(list)
    for said in state.said:
        things[said.process].append(said)
    reporting: dict[Process, list[Who]] = defaultdict(list)
    if things:
        for who in state.whos:
            if who.process in things:
                reporting[who.process].append(who)
    remembered: dict[Process, list[tuple[str, LogEvent]]] = defaultdict(list)
    for (service, place, client_id), events in state.lifecycle.items() if things else ():
        remembered[service, place] += [(client_id, event) for event in events]
    former: dict[Process, list[Who]] = defaultdict(list)
    for who in state.former:
        former[who.process].append(who)
    found = {}
    for process, mine in things.items():
        topics: dict[str, set[str]] = defaultdict(set)
        for event in (thing.event for thing in mine):
            if event is not None and event.client_id and "topic" in event.captures:
                topics[event.captures["topic"]].add(event.client_id)
        of_process = Heard(process, mine, reporting[process], former[process])
        found[process] = replace(of_process, named=_names(of_process, remembered[process]), topics=topics)
    return found


def _names(heard: Heard, remembered: Iterable[tuple[str, LogEvent]]) -> dict[str, set[str]]:
    """By kind the names of the clients of a process: that report, and that it speaks or spoke of."""
    named: dict[str, set[str]] = defaultdict(set)
    for who in (*heard.reporting, *heard.former):
        named[who.kind].add(who.client_id)
    for _, client_id, kind in heard.naming():
        if client_id:
            named[kind].add(client_id)
    for client_id, event in remembered:
        if client_id and (spoken := _kinds().get(event.signature)):
            named[spoken].add(client_id)
    return named


def starts(times: Iterable[int], slide_ms: int, length_ms: int) -> set[int]:
    """The begins of all windows that hold one of these times."""
    return {time // slide_ms * slide_ms - back * slide_ms for time in times for back in range(length_ms // slide_ms)}
