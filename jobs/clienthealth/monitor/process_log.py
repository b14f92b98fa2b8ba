"""Log events and thread dumps of a bucket: which are kept, which client they concern, and which windows they touch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from clienthealth.measure.client_window import LEAD_MS
from clienthealth.measure.packed import LogEntry, Who
from clienthealth.model.clients import Kind
from clienthealth.model.metrics import CONFIG_OPTIONS
from clienthealth.model.readings import LogEvent, ThreadDump
from clienthealth.modes import catalogue
from clienthealth.modes._polls import reports_in_poll
from clienthealth.monitor import ownership
from clienthealth.monitor.ownership import ProcessKey
from clienthealth.monitor.state import BucketState, Life, mark
from clienthealth.read.logs.bursts import sample_key
from clienthealth.read.logs.dumps import DUMP_LINE, clients_of, rejoin
from clienthealth.read.logs.fields import PRODUCER_THREAD
from clienthealth.read.logs.self_descriptions import CONFIG_LOGGED, options_logged
from clienthealth.settings import MonitorSettings

#: Lines that speak of a client's beginning and end are kept while its process is heard of, and so long after them.
LIFECYCLE_MS = 900_000
#: Dumps of a process that are kept when no window holds them any more: a thread may still stand where they found it.
EARLIER_DUMPS = 4
#: Two dumps of a process are compared over a week (ms); a longer time is a clock that was wrong.
COMPARED_MS = 7 * 86_400_000
#: A dump that is older than a client's first reading by more than this is of the process before.
BEFORE_MS = 60_000
#: Of each signature the first is kept and so many of the last: clients of one name can come and go within minutes.
LAST_KEPT = 16


@cache
def _kinds() -> Mapping[str, Kind]:
    return {name: meaning.kind for name, meaning in catalogue().by_id.items() if meaning.kind}


@cache
def _lifecycle_lines() -> frozenset[str]:
    return CONFIG_LOGGED | ownership.telling()


@cache
def _of_processes() -> frozenset[str]:
    return frozenset(name for name, meaning in catalogue().by_id.items() if meaning.process)


def take(state: BucketState, entries: Sequence[LogEntry], settings: MonitorSettings) -> tuple[list[LogEntry], int]:
    """Enter events and dumps into the state, each sample of a storm once; what is new, and how many came too late."""
    if not entries:
        return [], 0
    closed = horizons(state, {entry.process for entry in entries}, settings)
    window, slide = 1000 * settings.window_seconds, 1000 * settings.slide_seconds
    by_sample = {_sample(entry): entry for entry in state.log_entries}
    new, late = [], 0
    for entry in entries:
        sample = _sample(entry)
        if entry.ts_ms // slide * slide + window <= closed[entry.process]:
            late += 1
        elif sample in by_sample:
            by_sample[sample].repeats += entry.repeats
        else:
            by_sample[sample] = entry
            new.append(entry)
    state.log_entries = sorted([*state.log_entries, *new], key=lambda entry: entry.ts_ms)
    if any(entry.dump is not None for entry in new):
        silenced = {who.process for who in state.whos if reports_in_poll(who.library)}
        _keep_pollers(state.log_entries, {id(entry) for entry in new}, silenced)
    for entry in new:
        state.told.remember(entry.process, None, entry.ts_ms)
        _remember(state, entry)
    return new, late


def _sample(entry: LogEntry) -> tuple[object, ...]:
    if entry.event is not None:
        return (*entry.process, sample_key(entry.event))
    assert entry.dump is not None
    return (*entry.process, entry.dump.ts_ms, entry.dump.source)


def _keep_pollers(entries: Iterable[LogEntry], new: Set[int], silenced: Set[ProcessKey]) -> None:
    """Leave in new dumps, of the threads that touch no client, those that an earlier dump found inside poll().

    Which these are, the earlier dumps tell: what touches no client is there because it once polled. `silenced`:
    processes whose clients fall silent where nobody polls, and whose poll() a dump does not show.
    """
    pollers: dict[tuple[ProcessKey, str | None], set[str]] = defaultdict(set)
    for entry in entries:
        if entry.dump is not None:
            known, threads = pollers[entry.process, entry.instance], entry.dump.threads
            if id(entry) in new:
                threads = tuple(thread for thread in threads if thread.of_kafka or thread.name in known)
                others = (*entry.dump.threads, *entry.dump.others) if entry.process in silenced else ()
                others = tuple(thread for thread in others if thread not in threads)
                entry.dump = replace(entry.dump, threads=threads, others=others)
            known.update(thread.name for thread in threads if thread.polls or not thread.of_kafka)


def _remember(state: BucketState, entry: LogEntry) -> None:
    """Keep a line that speaks of the beginning or the end of a client: of each signature the first and the last ones.

    Lines that name no client are kept under no name.
    """
    event = entry.event
    if event is None or event.signature not in _lifecycle_lines():
        return
    client_id = event.client_id or event.captures.get("client", "")
    key = (*entry.process, client_id)
    kept = state.lifecycle.get(key) or []
    same = [position for position, (_, other) in enumerate(kept) if other.signature == event.signature]
    if len(same) > LAST_KEPT:
        del kept[same[1]]
    kept.append((entry.instance or "", event))
    state.lifecycle.remember(key, kept, event.ts_ms)


def horizons(
    state: BucketState, processes: Iterable[ProcessKey], settings: MonitorSettings
) -> Mapping[ProcessKey, float]:
    """The time up to which the windows of each process's log are closed, by its own clock."""
    last: dict[ProcessKey, int] = {}
    for entry in state.log_entries:
        last[entry.process] = entry.ts_ms  # in order of time

    def closed(process: ProcessKey) -> float:
        if newest := last.get(process):
            return min(newest, state.time_ms or newest) - 1000.0 * settings.watermark_seconds
        ended_ms = state.ended.get(mark(process))
        return float("-inf") if ended_ms is None else ended_ms + 1000.0 * settings.window_seconds

    return {process: closed(process) for process in processes}


def evict(state: BucketState, settings: MonitorSettings, length_ms: int) -> Set[ProcessKey]:
    """Drop what no window needs any more, and return the processes that report or log.

    `length_ms`: of the longest window.
    """
    by_process: dict[ProcessKey, list[LogEntry]] = defaultdict(list)
    for entry in state.log_entries:
        by_process[entry.process].append(entry)
    reporting = {who.process for who in state.whos}
    living, kept = set(reporting), []
    for process, entries in by_process.items():
        closed = _passed(state, entries, settings)
        needed = [entry for entry in entries if entry.ts_ms + length_ms > closed]
        kept += needed
        if needed:
            living.add(process)
        else:
            state.end(process, entries[-1].ts_ms)
        if process in living or state.time_ms - entries[-1].ts_ms <= LIFECYCLE_MS:
            passed = [entry for entry in entries if entry.ts_ms + length_ms <= closed]
            kept += [entry for entry in _with_whole_dumps(passed) if entry.dump is not None][-EARLIER_DUMPS:]
    state.log_entries = sorted(kept, key=lambda entry: entry.ts_ms)
    return living


def lifecycle_lines(state: BucketState, who: Who, alone: bool) -> list[tuple[str, LogEvent]]:
    """The kept lines that speak of the beginning and end of clients of this name, with the instances that they name.

    What names no client is of the only one of its kind in the process (`alone`), or of all where it speaks of the
    process.
    """
    lines = (state.lifecycle.get((*who.process, who.client_id)) if who.client_id else None) or []
    if nameless := state.lifecycle.get((*who.process, "")):
        lines = [*lines, *(s for s in nameless if (alone and _is_of(s[1], who)) or s[1].signature in _of_processes())]
    return sorted(lines, key=lambda said: said[1].ts_ms)


def _is_of(event: LogEvent, who: Who) -> bool:
    return _kinds().get(event.signature, who.kind) == who.kind


def logged_options(state: BucketState, who: Who, alone: bool) -> dict[str, str]:
    """The options that a client logged when it was started last."""
    said = [(i, event) for i, event in lifecycle_lines(state, who, alone) if event.signature in CONFIG_LOGGED]
    own = any(instance == who.instance for instance, _ in said)
    options: dict[str, str] = {}
    for instance, event in said:
        if instance == who.instance or not own:
            options |= options_logged(event.captures)
    return {name: options[name] for name in CONFIG_OPTIONS if name in options}


def _passed(state: BucketState, entries: Sequence[LogEntry], settings: MonitorSettings) -> float:
    # A process that says nothing more still grows older by the clock of all.
    last = max(entry.ts_ms for entry in entries)
    silent = state.time_ms - last - 1000 * settings.watermark_seconds
    clock = state.time_ms if silent > 0 else min(last, state.time_ms or last)
    return clock - 1000.0 * settings.watermark_seconds


@dataclass(frozen=True)
class ProcessLog:
    """The log entries of a process in order of time, and its clients.

    reporting  its clients that report metrics
    former     its clients with an open incident that report no more
    lives      when its clients were there: those that report, and those that did until lately
    named      names of its clients, by kind, in all its lines and dumps, also of those that do not report
    topics     by topic, the names of the clients in the lines about it
    earlier    its dumps before the window that `entries` are of, the newest EARLIER_DUMPS
    lead       its events of the LEAD_MS before that window
    instances  the processes at this place that all of its lines and dumps name
    """

    process: ProcessKey
    entries: Sequence[LogEntry]
    reporting: Sequence[Who]
    former: Sequence[Who] = ()
    lives: Sequence[Life] = ()
    named: Mapping[str, Set[str]] = field(default_factory=dict)
    topics: Mapping[str, Set[str]] = field(default_factory=dict)
    earlier: Sequence[LogEntry] = ()
    lead: Sequence[LogEntry] = ()
    instances: Set[str | None] = frozenset()

    def within(self, start_ms: int, end_ms: int) -> ProcessLog:
        """Its entries in a window [start, end)."""
        inside = [entry for entry in self.entries if start_ms <= entry.ts_ms < end_ms]
        since_ms = start_ms - COMPARED_MS
        earlier = [entry for entry in self.entries if since_ms < entry.ts_ms < start_ms and entry.dump is not None]
        lead = [entry for entry in self.entries if start_ms - LEAD_MS <= entry.ts_ms < start_ms and entry.event]
        return replace(self, entries=inside, earlier=earlier[-EARLIER_DUMPS:], lead=lead)

    def about(
        self, who: Who
    ) -> tuple[tuple[LogEvent, ...], tuple[ThreadDump, ...], tuple[ThreadDump, ...], tuple[LogEvent, ...]]:
        """The events that concern a client, by its name or without one, the dumps of its process, and those before.

        Not those of other processes at the same place. What can be of another client of its name as well names none.
        """
        events, dumps = self._about(self.entries, who)
        begun = min((life.first_ms for life in self.lives if life.who.identity == who.identity), default=0.0)
        earlier = [
            entry.dump
            for entry in self.earlier
            if entry.dump is not None
            and entry.ts_ms > begun - BEFORE_MS
            and self._owner(entry, who, who.client_id) == "mine"
        ]
        return tuple(events), tuple(dumps), tuple(earlier), tuple(self._about(self.lead, who)[0])

    def _about(self, entries: Iterable[LogEntry], who: Who) -> tuple[list[LogEvent], list[ThreadDump]]:
        events, dumps = [], []
        for entry in entries:
            event = entry.event
            if event is not None and not self._concerns(event, who):
                continue
            name = who.client_id if event is None or event.client_id is not None else None
            whose = self._owner(entry, who, name)
            if whose == "another's":
                continue
            if event is not None:
                named = whose == "mine" or event.client_id is None
                if not named or entry.repeats != 1:
                    event = replace(event, client_id=event.client_id if named else None, repeats=entry.repeats)
                events.append(replace(event, own=False) if self._is_shared(event, who) else event)
            elif entry.dump is not None and whose == "mine":
                dumps.append(entry.dump)
        return events, dumps

    def _owner(self, entry: LogEntry, who: Who, name: str | None) -> ownership.Owner:
        """Whose an entry is: where the log names the instance of a client, what names another one is not of it."""
        if entry.instance and entry.instance != who.instance and who.instance in self.instances:
            return "another's"
        return ownership.owner(entry.instance, entry.ts_ms, who, self.lives, name)

    def unreporting_clients(self) -> list[Who]:
        """Clients that are logged about but do not report; the process itself stands for one without a name."""
        clients: dict[Who, None] = {}
        for instance, client_id, kind in self.named_clients():
            if self._named_by(instance, client_id, kind, self.reporting):
                continue
            former = self._named_by(instance, client_id, kind, self.former)
            clients.update(dict.fromkeys(former))
            if not former:
                service, host = self.process
                name = client_id or self._only(kind) or ""
                clients[Who(service, host, instance or host, name, kind)] = None
        return list(clients)

    def reports_as(self, who: Who) -> Who | None:
        """The client that reports under the name of one that only its log speaks of; None where none or several do."""
        clients = self._named_by(who.instance, who.client_id, who.kind, self.reporting)
        return clients[0] if len(clients) == 1 and clients[0].identity != who.identity else None

    def _named_by(self, instance: str | None, client_id: str | None, kind: str, clients: Iterable[Who]) -> list[Who]:
        """The clients that such a name can mean in a line of a process."""
        known = any(life.who.instance == instance for life in self.lives)
        return [
            client
            for client in clients
            if client_id in (None, client.client_id)
            and client.kind == kind
            and (client.instance == instance or not (known or (instance and client.instance in self.instances)))
        ]

    def _only(self, kind: str) -> str | None:
        """The name of the process's only client of a kind."""
        names = self.named.get(kind, ())
        return next(iter(names)) if len(names) == 1 else None

    def only(self, kind: Kind, instance: str) -> Who | None:
        """The only client of a kind, as it reports or did; where it never did, as one of process `instance`."""
        clients = [who for who in (*self.reporting, *self.former) if who.kind == kind and who.client_id]
        name = self._only(kind)
        if clients or not name:
            return clients[0] if len(clients) == 1 else None
        return Who(*self.process, instance, name, kind)

    def _concerns(self, event: LogEvent, who: Who) -> bool:
        """Does an event name the client, or no client and its kind?

        Of several clients that do not report, a line that names none is of none: no metrics would tell which it means.
        """
        if not _is_of(event, who) or event.client_id is not None:
            return _is_of(event, who) and event.client_id == who.client_id
        clients_of_topic = self._clients_of_topic(event, who.kind)
        if clients_of_topic:
            return who.client_id in clients_of_topic
        single = not who.client_id or self._only(who.kind) == who.client_id
        reports = any(who.identity == other.identity for other in self.reporting)
        return single or reports or event.signature in _of_processes()

    def _is_shared(self, event: LogEvent, who: Who) -> bool:
        """True if a line names no client, and the process reports several that it can be of: it is of one of them."""
        if event.client_id is not None or event.signature in _of_processes() or self._clients_of_topic(event, who.kind):
            return False
        return sum(other.kind == who.kind and other.instance == who.instance for other in self.reporting) > 1

    def _clients_of_topic(self, event: LogEvent, kind: str) -> Set[str]:
        """The clients of a kind that the log names together with the event's topic."""
        return self.topics.get(event.captures.get("topic", ""), frozenset()) & self.named.get(kind, frozenset())

    def named_clients(self) -> Iterator[tuple[str | None, str | None, Kind]]:
        for entry in self.entries:
            if entry.event is not None:
                kind = _kinds().get(entry.event.signature) or kind_named(entry.event)
                if kind:
                    nameless = entry.event.client_id is None
                    for client_id in (nameless and self._clients_of_topic(entry.event, kind)) or (
                        entry.event.client_id,
                    ):
                        yield entry.instance, client_id, kind
            elif entry.dump is not None:
                for client_id, of_kind in clients_of(entry.dump):
                    yield entry.instance, client_id, of_kind


def kind_named(event: LogEvent) -> Kind | None:
    """The kind of client that a line names which either kind can log."""
    return event.kind or kind_of(event.text, event.thread) or None


def kind_of(message: str | None, thread: str | None) -> Kind | Literal[""]:
    """The kind of client that a line names, '' where it does not tell it."""
    if "[Producer clientId=" in (message or "") or (thread or "").startswith(PRODUCER_THREAD):
        return "producer"
    return "consumer" if "[Consumer clientId=" in (message or "") else ""


def process_logs(state: BucketState) -> dict[ProcessKey, ProcessLog]:
    """The log of each process of the bucket."""
    entries: dict[ProcessKey, list[LogEntry]] = defaultdict(list)
    for entry in state.log_entries:
        entries[entry.process].append(entry)
    reporting: dict[ProcessKey, list[Who]] = defaultdict(list)
    if entries:
        for who in state.whos:
            if who.process in entries:
                reporting[who.process].append(who)
    remembered: dict[ProcessKey, list[tuple[str, LogEvent]]] = defaultdict(list)
    for (service, host, client_id), lines in state.lifecycle.items() if entries else ():
        remembered[service, host] += [(client_id, event) for _, event in lines]
    lives = ownership.lives(state, entries)
    former: dict[ProcessKey, list[Who]] = defaultdict(list)
    for _, who in state.former.items():
        former[who.process].append(who)
    logs = {}
    for process, whole in entries.items():
        entered = _with_whole_dumps(whole)
        topics: dict[str, set[str]] = defaultdict(set)
        for event in (entry.event for entry in entered):
            if event is not None and event.client_id and "topic" in event.captures:
                topics[event.captures["topic"]].add(event.client_id)
        of_process = ProcessLog(process, entered, reporting[process], former[process], lives.get(process, ()))
        instances = {entry.instance for entry in entered}
        named = _names(of_process, remembered[process])
        logs[process] = replace(of_process, named=named, topics=topics, instances=instances)
    return logs


def _with_whole_dumps(entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """Entries of a process, in order of time; dumps that came line by line are joined again."""
    lines = [entry for entry in entries if entry.event is not None and entry.event.signature == DUMP_LINE]
    if not lines:
        return entries
    joined = rejoin(entry.event for entry in lines if entry.event is not None)
    whole = [LogEntry(*lines[0].process, lines[0].instance, dump=dump) for dump in joined]
    others = [entry for entry in entries if entry.event is None or entry.event.signature != DUMP_LINE]
    return sorted([*others, *whole], key=lambda entry: entry.ts_ms)


def _names(log: ProcessLog, remembered: Iterable[tuple[str, LogEvent]]) -> dict[str, set[str]]:
    """By kind the names of a process's clients: those that report, and those in its log, also in earlier lines."""
    named: dict[str, set[str]] = defaultdict(set)
    for who in (*log.reporting, *log.former):
        named[who.kind].add(who.client_id)
    for _, client_id, kind in log.named_clients():
        if client_id:
            named[kind].add(client_id)
    for client_id, event in remembered:
        if client_id and (logged_kind := _kinds().get(event.signature)):
            named[logged_kind].add(client_id)
    return named


def starts(times: Iterable[int], slide_ms: int, length_ms: int) -> set[int]:
    """The begins of all windows that hold one of these times."""
    return {time // slide_ms * slide_ms - back * slide_ms for time in times for back in range(length_ms // slide_ms)}
