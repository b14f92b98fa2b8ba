"""Find the client that a log line or a thread dump is about, by names and time.

Processes with clients of the same name may run on one host. A line that names a client's instance belongs to that
client. Any other line belongs to the only client that existed at the line's time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from clienthealth.measure.client_window import LEAD_MS
from clienthealth.measure.columns import Floats, Ints
from clienthealth.measure.packed import LogEntry
from clienthealth.model.clients import Client, Kind
from clienthealth.model.readings import LogEvent, ThreadDump
from clienthealth.model.values import grouped, option
from clienthealth.modes import catalogue
from clienthealth.monitor.adjust import CLOSE_MS
from clienthealth.monitor.process_log import EARLIER_DUMPS, EVER, lives, time_of, with_whole_dumps
from clienthealth.monitor.state import BucketState, Life, ProcessKey
from clienthealth.read.logs.dumps import clients_of
from clienthealth.read.logs.fields import KAFKA_PREFIX, PRODUCER_THREAD
from clienthealth.read.logs.self_descriptions import CONFIG_LOGGED, options_logged

#: Dumps more than COMPARED_MS apart are not compared, because the time of one dump must be wrong.
COMPARED_MS = 7 * 86_400_000
#: A dump more than BEFORE_MS older than a client's first sample is from an earlier process.
BEFORE_MS = 60_000
#: Maximum time (ms) from an error to the error's log line. Counters count an error when it occurs.
LOGGED_MS = 30_000
#: Samples less than AROUND_MS before or after a log line show whether the consumer polled in time when it logged.
#: A sample covers the last 30 to 60 s.
AROUND_MS = 35_000
#: A consumer polls in time if the time between polls stays below AWAY_SECONDS, or below half of max.poll.interval.ms.
AWAY_SECONDS = 5.0
#: The only library with metrics that count the errors in the library's log lines.
COUNTING_LIBRARY = "java"

#: If all libraries of a process match _NO_JVM, log lines that match _OF_JVM are from another program.
_NO_JVM = re.compile(r"rdkafka|kafka-python|aiokafka", re.ASCII)
_OF_JVM = re.compile(
    r"(?:clients\.(?:consumer|producer)|common\.errors)\.\w{1,100}Exception\b"
    r"|\bExpiring \d{1,9} record\(s\) for \S{1,300}:\d",
    re.ASCII,
)

Owner = Literal["mine", "another's", "anybody's"]
#: A function that takes a metric's name, and returns times (epoch ms, in order) and values of one client's samples.
Known = Callable[[str], tuple[Ints, Floats]]


class WindowLog(NamedTuple):
    """The log data of one window of a client: events about the client, and dumps of the client's process."""

    logs: tuple[LogEvent, ...] = ()
    dumps: tuple[ThreadDump, ...] = ()
    earlier_dumps: tuple[ThreadDump, ...] = ()
    earlier_logs: tuple[LogEvent, ...] = ()


NO_LOG = WindowLog()


@cache
def _kinds() -> Mapping[str, Kind]:
    return {name: meaning.kind for name, meaning in catalogue().by_id.items() if meaning.kind}


@cache
def _of_processes() -> frozenset[str]:
    return frozenset(name for name, meaning in catalogue().by_id.items() if meaning.process)


def owner(instance: str | None, ts_ms: int, client: Client, lives: Sequence[Life], name: str | None) -> Owner:
    """Decide whether a log line or dump belongs to `client`.

    Returns "mine", or "another's" if the line belongs to another client, or "anybody's" if several clients fit.
    `instance`, `name`: instance and client id that the line names, or None. `ts_ms`: the line's time (epoch ms).
    `lives`: the lifetimes of the process's clients.
    """
    if instance and instance == client.instance:
        return "mine"
    others = [life for life in lives if life.client.instance != client.instance]
    if instance and any(life.client.instance == instance for life in others):
        return "another's"
    rivals = [life for life in others if life.client.client_id == name and life.at(ts_ms)]
    if not rivals:
        return "mine"
    lived = any(life.client.identity == client.identity and life.at(ts_ms) for life in lives)
    return "anybody's" if lived else "another's"


def lifecycle_lines(state: BucketState, client: Client, alone: bool) -> list[tuple[str, LogEvent]]:
    """Return the log lines about a client's start or end as (instance or "", event), in order of time.

    Lines with the client's id may name another instance. Lines without an id are returned if they are about the whole
    process, or if `alone` is True (the process has no other client of the same kind).
    """
    named = (state.lifecycle.get((*client.process, client.client_id)) if client.client_id else None) or []
    nameless = state.lifecycle.get((*client.process, "")) or []
    of_client = (s for s in nameless if (alone and _is_of(s[1], client)) or s[1].signature in _of_processes())
    return sorted([*named, *of_client], key=lambda named: named[1].ts_ms)


def _is_of(event: LogEvent, client: Client) -> bool:
    return _kinds().get(event.signature, client.kind) == client.kind


def logged_options(state: BucketState, client: Client, alone: bool) -> dict[str, str]:
    """Return, by name, the options that a client logged at its last start.

    `alone`: True if the process has no other client of the same kind.
    """
    starts = [(i, event) for i, event in lifecycle_lines(state, client, alone) if event.signature in CONFIG_LOGGED]
    own = [(instance, event) for instance, event in starts if instance == client.instance]
    options: dict[str, str] = {}
    for _, event in own or starts:
        options |= options_logged(event.captures)
    return options


@dataclass(frozen=True)
class ProcessLog:
    """The log of a process, and the clients of the process.

    `entries`    the log entries in order of time. The result of `within` has only the entries of one window
    `reporting`  the clients that report metrics
    `former`     the clients that do not report metrics and have an open incident
    `lives`      the lifetimes of clients that report or recently stopped
    `named`      maps a kind to the ids of all clients of this kind that report or appear in the log
    `topics`     maps a topic to the ids of the clients that are named in lines about this topic
    `earlier`    the newest dumps before the window of `entries`, at most 4 (EARLIER_DUMPS)
    `lead`       the log events of the 30 s (LEAD_MS) before the window of `entries`
    `instances`  all instance ids in the lines and dumps of the process
    """

    process: ProcessKey
    entries: Sequence[LogEntry]
    reporting: Sequence[Client]
    former: Sequence[Client] = ()
    lives: Sequence[Life] = ()
    named: Mapping[str | None, Set[str]] = field(default_factory=dict)
    topics: Mapping[str, Set[str]] = field(default_factory=dict)
    earlier: Sequence[LogEntry] = ()
    lead: Sequence[LogEntry] = ()
    instances: Set[str | None] = frozenset()

    def within(self, start_ms: int, end_ms: int) -> ProcessLog:
        """Return the part of this log in the window [start, end)."""
        times = start_ms - COMPARED_MS + 1, start_ms - LEAD_MS, start_ms, end_ms
        first, lead, begin, end = (bisect_left(self.entries, at, key=time_of) for at in times)
        earlier = [entry for entry in self.entries[first:begin] if entry.dump is not None][-EARLIER_DUMPS:]
        led = [entry for entry in self.entries[lead:begin] if entry.event]
        return replace(self, entries=self.entries[begin:end], earlier=earlier, lead=led)

    def about(self, client: Client) -> WindowLog:
        """Return the events about a client, and the dumps of its process.

        An event is about the client if it names the client, or if it names no client and may come from the client.
        Other processes' data is left out.
        """
        begun = min((life.first_ms for life in self.lives if life.client.identity == client.identity), default=0.0)
        earlier = self._about((entry for entry in self.earlier if entry.ts_ms > begun - BEFORE_MS), client).dumps
        lead = self._about(self.lead, client).logs
        return self._about(self.entries, client)._replace(earlier_dumps=earlier, earlier_logs=lead)

    def _about(self, entries: Iterable[LogEntry], client: Client) -> WindowLog:
        events, dumps = [], []
        for entry in entries:
            event = entry.event
            if event is not None and not self._concerns(event, client):
                continue
            name = client.client_id if event is None or event.client_id is not None else None
            belongs = self._owner(entry, client, name)
            if belongs == "another's":
                continue
            if event is not None:
                named = belongs == "mine" or event.client_id is None
                if not named or entry.repeats != 1:
                    event = replace(event, client_id=event.client_id if named else None, repeats=entry.repeats)
                unnamed = event.client_id is None and event.signature not in _of_processes()
                if unnamed and not self._clients_of_topic(event, client.kind):
                    # A line that names no client may come from any client of the same kind and instance.
                    alike = [(one.kind, one.instance) for one in self.reporting].count((client.kind, client.instance))
                    event = replace(event, own=False) if alike > 1 else event
                events.append(event)
            elif entry.dump is not None and belongs == "mine":
                dumps.append(entry.dump)
        return WindowLog(tuple(events), tuple(dumps))

    def _owner(self, entry: LogEntry, client: Client, name: str | None) -> Owner:
        """Decide whether a log entry belongs to `client`, as the function `owner` does, with one exception.

        If the process's log names the instance of `client`, an entry that names a different instance is "another's".
        """
        if entry.instance and entry.instance != client.instance and client.instance in self.instances:
            return "another's"
        return owner(entry.instance, entry.ts_ms, client, self.lives, name)

    def unreporting_clients(self) -> list[Client]:
        """Return the clients that the log names and that report no metrics."""
        clients: dict[Client, None] = {}
        for instance, client_id, kind in self.named_clients():
            if self._named_by(instance, client_id, kind, self.reporting):
                continue
            named = Client(*self.process, instance or self.process[1], client_id or self._only(kind) or "", kind)
            clients |= dict.fromkeys(self._named_by(instance, client_id, kind, self.former) or [named])
        return list(clients)

    def reports_as(self, client: Client) -> Client | None:
        """Return the only reporting client that may be identical with `client`; None if there are several or none.

        `client` is known only from the log.
        """
        clients = self._named_by(client.instance, client.client_id, client.kind, self.reporting)
        return clients[0] if len(clients) == 1 and clients[0].identity != client.identity else None

    def _named_by(
        self, instance: str | None, client_id: str | None, kind: str | None, clients: Iterable[Client]
    ) -> list[Client]:
        """Return those of `clients` that a line with this instance, id and kind may be about."""
        known = any(life.client.instance == instance for life in self.lives)
        named = (client for client in clients if client.kind == kind and client_id in (None, client.client_id))
        others = self.instances if instance else ()
        return [c for c in named if c.instance == instance or not (known or c.instance in others)]

    def _only(self, kind: str | None) -> str | None:
        """Return the name of the only client of this kind; None if there are several or none."""
        names = [*self.named.get(kind, ())]
        return names[0] if len(names) == 1 else None

    def _of_several(self, kind: str | None) -> bool:
        """Return True if the log names several clients of this kind, and none of this kind reports metrics.

        Then a line without a name belongs to a nameless client of the process.
        """
        return len(self.named.get(kind, ())) > 1 and all(client.kind != kind for client in self.reporting)

    def only(self, kind: Kind, instance: str) -> Client | None:
        """Return the only client of this kind in the process; None if there are several or none.

        `instance`: used as the client's instance if the client is known only from the log.
        """
        clients = [client for client in (*self.reporting, *self.former) if client.kind == kind and client.client_id]
        name = self._only(kind)
        if clients or not name:
            return clients[0] if len(clients) == 1 else None
        return Client(*self.process, instance, name, kind)

    def _concerns(self, event: LogEvent, client: Client) -> bool:
        if not _is_of(event, client):
            return False
        if event.client_id is not None:
            return event.client_id == client.client_id
        if not (event.own or client.client_id or self._of_several(client.kind)) and any(self.named.values()):
            return False
        if clients_of_topic := self._clients_of_topic(event, client.kind):
            return client.client_id in clients_of_topic
        single = not client.client_id or self._only(client.kind) == client.client_id
        reports = any(client.identity == other.identity for other in self.reporting)
        return single or reports or event.signature in _of_processes()

    def _clients_of_topic(self, event: LogEvent, kind: str | None) -> Set[str]:
        """Return the names of clients of this kind that occur in lines about the event's topic."""
        return self.topics.get(event.captures.get("topic", ""), frozenset()) & self.named.get(kind, frozenset())

    def named_clients(self) -> Iterator[tuple[str | None, str | None, Kind]]:
        """Yield (instance, name, kind) of each client that appears in the log's lines or dumps."""
        quoted: list[tuple[str | None, str | None, Kind]] = []
        known = bool(self.reporting) or any(self.named.values())
        for entry in self.entries:
            event = entry.event
            if event is not None and (kind := _kinds().get(event.signature) or kind_named(event)):
                clients = (event.client_id is None and self._clients_of_topic(event, kind)) or (event.client_id,)
                named = [(entry.instance, client_id, kind) for client_id in clients]
                if event.client_id not in self.named.get(kind, ()) and not event.own:
                    quoted += named
                    continue
                known |= event.client_id is not None
                yield from named
            elif entry.dump is not None:
                for client_id, of_kind in clients_of(entry.dump):
                    known |= client_id is not None
                    yield entry.instance, client_id, of_kind
        for instance, client_id, kind in quoted:
            if not known or (client_id is None and (self._only(kind) or self._of_several(kind))):
                yield instance, client_id, kind


def kind_named(event: LogEvent) -> Kind | None:
    """Return the kind of client that logged the line; None if unknown."""
    return event.kind or kind_of(event.text, event.thread) or None


def kind_of(message: str | None, thread: str | None) -> Kind | Literal[""]:
    """Return the kind of client that a line names; '' if it names none."""
    if "[Producer clientId=" in (message or "") or (thread or "").startswith(PRODUCER_THREAD):
        return "producer"
    return "consumer" if "[Consumer clientId=" in (message or "") else ""


def process_logs(state: BucketState, numbers: Mapping[ProcessKey, Sequence[int]]) -> dict[ProcessKey, ProcessLog]:
    """Return the log of each process with log entries in the state.

    `numbers`: for each process, the indexes of its reporting clients in `state.all_clients`.
    """
    if not state.log_entries:
        return {}
    entries = grouped(state.log_entries, lambda entry: entry.process)
    there = lives(state, {process: numbers.get(process, ()) for process in entries})
    reporting = {process: [life.client for life in there[process] if life.until_ms == EVER] for process in entries}
    former = grouped((client for _, client in state.former.items()), lambda client: client.process)
    remembered = grouped(state.lifecycle.items(), lambda item: item[0][:2])
    logs: dict[ProcessKey, ProcessLog] = {}
    for process, whole in entries.items():
        entered = with_whole_dumps(whole)
        libraries = {client.library for client in reporting[process]}
        if libraries and all(_NO_JVM.search(library or "") for library in libraries):
            entered = [entry for entry in entered if not (entry.event and _OF_JVM.search(entry.event.text))]
        entered = without_copies(entered)
        topics: dict[str, set[str]] = defaultdict(set)
        for event in (entry.event for entry in entered):
            if event is not None and event.client_id and "topic" in event.captures:
                topics[event.captures["topic"]].add(event.client_id)
        instances = {entry.instance for entry in entered}
        named: dict[str | None, set[str]] = defaultdict(set)
        clients = reporting[process], former[process], there[process]
        log = logs[process] = ProcessLog(process, entered, *clients, named, topics, instances=instances)
        # Collect the names first, because `named_clients` reads `named`.
        for _, name, kind in list(log.named_clients()):
            if name:
                named[kind].add(name)
        for client in (*log.reporting, *log.former):
            named[client.kind].add(client.client_id)
        for (*_, client_id), lines in remembered[process]:
            for _, event in lines if client_id else ():
                if event.own and (logged_kind := _kinds().get(event.signature)):
                    named[logged_kind].add(client_id)
    return logs


def without_copies(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Return the entries, except those of loggers that copy lines of other programs.

    A copied line has other text before the client's name. If one line of a logger is a copy, the logger copies lines.
    """
    entries = list(entries)
    copying = {(entry.process, entry.event.logger) for entry in entries if entry.event and entry.event.copied}

    def own(process: ProcessKey, event: LogEvent) -> bool:
        begins = not event.logger and event.own and KAFKA_PREFIX.match(event.text)
        return (process, event.logger) not in copying or bool(begins)

    return [entry for entry in entries if entry.event is None or own(entry.process, entry.event)]


def contradicted(
    client: Client, known: Known, config: Mapping[str, str], events: Sequence[LogEvent]
) -> tuple[LogEvent, ...]:
    """Return the lines in `events` that the client's samples contradict; () if the client's library is not `java`.

    `known`: returns the client's samples of a metric. `config`: the client's options. If samples contradict a line
    without a client id, all lines without a client id that have the same log pattern and thread are returned, too.
    """

    def place(event: LogEvent) -> tuple[str, object]:
        return event.signature, (event.client_id is None and event.thread) or event.ts_ms

    counted = client.library == COUNTING_LIBRARY
    refuted = {place(event) for event in events if counted and _refuted(event, known, config)}
    return tuple(event for event in events if place(event) in refuted)


def _refuted(event: LogEvent, known: Known, config: Mapping[str, str]) -> bool:
    ts_ms, meaning = event.ts_ms, catalogue().by_id.get(event.signature)
    if meaning is None or not (meaning.counted or meaning.halted or meaning.away):
        return False
    if meaning.away:
        return _polled(ts_ms, known, config)
    times, values = known(meaning.counted or meaning.halted)
    after = values[np.searchsorted(times, ts_ms + CLOSE_MS, "right") :]
    if meaning.halted:
        return len(after) > 1 and bool(after[-1] > after[0])
    before = values[: np.searchsorted(times, ts_ms - LOGGED_MS, "right")]
    # If the counter of this error did not rise, the line is wrong. Without an earlier sample, the counter was 0.
    return bool(len(after)) and bool(after[0] == (before[-1] if len(before) else 0.0))


def _polled(ts_ms: int, known: Known, config: Mapping[str, str]) -> bool:
    seconds = (option(config.get("max.poll.interval.ms")) or 0) / 1000
    for name, unit in (("last-poll-seconds-ago", 1.0), ("time-between-poll-max", 0.001)):
        times, values = known(name)
        near = (times > ts_ms - AROUND_MS) & (times < ts_ms + AROUND_MS)
        both_sides = (times[near] <= ts_ms).any() and (times[near] > ts_ms).any()
        if not both_sides or values[near].max() * unit >= max(AWAY_SECONDS, seconds / 2):
            return False
    return True
