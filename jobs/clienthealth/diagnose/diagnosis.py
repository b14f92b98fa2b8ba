"""Judge recorded data (post-mortem) with the code of the running monitor.

Every client seems to disappear at a recording's end, so missing data confirms nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from clienthealth.diagnose.attachments.opening import CUT, Input
from clienthealth.diagnose.known import contexts, suspected_by_text, undated_topics
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.packed import Chunk, LogEntry, client_of, encode, process_of
from clienthealth.measure.packer import Packer
from clienthealth.model.clients import Client
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import DumpedThread, RawRecord
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import STATUS_ORDER, Seen, Verdict
from clienthealth.modes import MIN_READINGS, LiveMode, catalogue, modes
from clienthealth.modes._evidence import conclude
from clienthealth.monitor import also_seen, client_verdicts, departures, process_log, readings
from clienthealth.monitor.adjust import adjust
from clienthealth.monitor.attribution import kind_of
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.faults import isolated
from clienthealth.monitor.state import BucketState, save
from clienthealth.monitor.window_verdicts import judge_windows, merged, stale_verdicts
from clienthealth.read.decode import Decoded, decode_any, decode_logs, decode_metrics, decode_parsed
from clienthealth.read.logs.events import events_and_dumps
from clienthealth.read.logs.self_descriptions import BY_NAME as SELF_DESCRIBED
from clienthealth.read.recordings import Recorded
from clienthealth.settings import Settings

_Logged = TypeVar("_Logged", LogEvent | None, ThreadDump | None)
NOTHING_KNOWN = "without any known words of a Kafka client"
#: Reasons for the rejection of records that contain no evidence.
HARMLESS = ("empty", "unknown-format", "no-metrics", "missing-timestamp")
#: A local time that is read as UTC may be AHEAD_MS in the future, because time zones are at most 14 hours ahead of UTC.
AHEAD_MS = 14 * 3_600_000
#: A stop or flush counts as unfinished if the log goes on for at least UNFINISHED_MS (ms) after the stop or flush has
#: begun, and no line in the rest of the log reports that the stop or flush has ended.
#: Equal events show one continuous wait if each event comes at most NEXT_MS (ms) after the previous event.
UNFINISHED_MS, NEXT_MS = 30_000, 300_000


class _Tally:
    """Counts, for each input, the records that were used, left out, or not readable."""

    def __init__(self, given: list[Input] | None) -> None:
        self._given = given is not None
        self._inputs = [] if given is None else given
        self._by_topic: dict[str, Input] = {}

    def all(self) -> list[Input]:
        """Return all inputs. An unused input gets the reason NOTHING_KNOWN if no other reason is known."""
        for attached in self._inputs:
            if attached.read and not (attached.used or attached.left_out or attached.unread.keys() - {CUT}):
                attached.left_out = {NOTHING_KNOWN: attached.read}
        return self._inputs

    def add(self, record: Recorded, source: Source, decoded: Decoded) -> None:
        attached = self._input(record, source.topic)
        times = [s.ts_ms for s in decoded.snapshots if s.ts_ms] + [li.ts_ms for li in decoded.lines if li.ts_ms]
        attached.used += record.repeats if times else 0
        attached.emptied = attached.emptied + 1 if attached.used and "no-metrics" in decoded.errors else 0
        if times and record.timed == "own":
            attached.span(*times)
        for snapshot in decoded.snapshots:
            if (snapshot.client.service, snapshot.client.host) != (record.service, record.instance):
                attached.process = None
        for error in decoded.errors:
            why = error.partition(":")[0]
            (attached.leave_out if why in HARMLESS else attached.cannot_read)(why)
        if not self._given:
            attached.read += 1
            attached.what = attached.what or (decoded.format or "").replace("_", " ")

    def _input(self, record: Recorded, topic: str) -> Input:
        if topic not in self._by_topic:
            entered = next((attached for attached in reversed(self._inputs) if topic in attached.topics), None)
            if entered is None:
                entered = Input(record.file, process=(record.service, record.instance), topics=frozenset({topic}))
                self._inputs.append(entered)
            self._by_topic[topic] = entered
        return self._by_topic[topic]


def diagnose(records: Iterable[Recorded], settings: Settings, inputs: list[Input] | None = None) -> Diagnosis:
    """Judge all clients in the records.

    `inputs`: a list that is filled while `records` is read; None to make one Input per file.
    """
    packer, tally = Packer(1), _Tally(inputs)
    recognised, rejected = Counter[str](), Counter[str]()
    dumps: dict[Source, list[DumpedThread]] = {}
    now_ms = int(time.time() * 1000) + AHEAD_MS
    decoders = {"any": decode_any, "metrics": decode_metrics, "logs": decode_logs}
    before: dict[tuple[str, str], _Before] = {}
    named: dict[Place, set[tuple[str, str, str]]] = {}
    for record in records:
        raw = raw_record(record)
        decode = decoders[record.stream] if record.content is None else partial(decode_parsed, record.content)
        decoded = decode(raw, settings, now_ms)
        file = record.instance, record.file
        before[file] = pack(decoded, raw.source, packer, record.repeats, before.get(file, NO_LINE))
        for client in (client_of(snapshot.client) for snapshot in decoded.snapshots if snapshot.client.kind != "group"):
            named.setdefault((record.service, record.instance), set()).add((*client.process, client.instance))
        if threads := [thread for line in decoded.lines for dump in line.dumps for thread in dump.threads]:
            dumps[raw.source] = threads
        tally.add(record, raw.source, decoded)
        if decoded.snapshots or decoded.lines:
            recognised[decoded.format or ""] += 1
        rejected.update({error.partition(":")[0] for error in decoded.errors})
    # If the metrics of a process have only one (service, host, instance), the process's log entries get these names.
    places = {place: next(iter(names)) for place, names in named.items() if len(names) == 1}
    chunks = list(packer.chunks().values())
    entries = [entry for chunk in chunks for entry in chunk.log_entries]
    note_waits(entries, {topic: one.end_ms or 0 for one in tally.all() for topic in one.topics})
    _without_hosts(entries, {place for place, names in named.items() if {name[:2] for name in names} == {place}})
    for entry in (entry for entry in entries if entry.process in places):
        entry.service, entry.host, entry.instance = places[entry.process]
    inputs = tally.all()
    for attached in inputs:
        if attached.process in places:
            attached.process = places[attached.process][:2]
    _to_utc(inputs, chunks)

    def run(_: BucketState, chunks: Sequence[Chunk]) -> _Examined:
        return _examined(chunks, settings, inputs)

    examined, faults = isolated(save(BucketState(), 1), list(map(encode, chunks)), 1, run)
    rejected.update(fault.reason.partition(":")[0] for fault in faults)
    clients, seen = examined or ([], {})
    return Diagnosis(clients, inputs, dumps, seen, recognised, rejected)


def note_waits(log_entries: Sequence[LogEntry], log_ends: Mapping[str, int]) -> None:
    """Add durations to the `captures` of log events.

    The capture `lasts` is for a stop or flush that counts as unfinished (see UNFINISHED_MS): the seconds from the
    beginning of the stop or flush to the log's end. The capture `minutes` is for lines that raise a suspicion
    (`Meaning.suspects`): the minutes since the first line of the same wait (see NEXT_MS).

    `log_ends`: maps a log's name (`Source.topic`) to the time (epoch ms) at which the log ends.
    """
    known, waits = catalogue().by_id, dict[object, tuple[int, int]]()
    dated = sorted(((e, e.event) for e in log_entries if e.event is not None), key=lambda pair: pair[1].ts_ms)
    closed = [pattern for pattern, meaning in known.items() if meaning.life == "closed"]
    ends = [event.ts_ms for _, event in dated if "ended" in event.captures or event.signature in closed]
    often = Counter(event.signature for _, event in dated if "begun" in event.captures)
    for entry, event in dated:
        noted: dict[str, str] = {}
        if "begun" in event.captures and often[event.signature] < MIN_READINGS and event.source is not None:
            until = log_ends.get(event.source.topic, 0)
            if until - event.ts_ms >= UNFINISHED_MS and not any(event.ts_ms <= end <= until for end in ends):
                noted["lasts"] = str((until - event.ts_ms) / 1000)
        elif event.signature in known and known[event.signature].suspects:
            key = entry.process, event.signature, event.client_id
            first, last = waits.get(key, (event.ts_ms, event.ts_ms))
            waits[key] = first if event.ts_ms - last <= NEXT_MS else event.ts_ms, event.ts_ms
            noted["minutes"] = str((event.ts_ms - waits[key][0]) / 60_000)
        entry.event = dataclasses.replace(event, captures={**event.captures, **noted}) if noted else event


def _without_hosts(entries: Sequence[LogEntry], measured: Set[Place]) -> None:
    """If metrics or log entries of an instance have no host, replace the host in the instance's other log entries.

    The new host is the instance id, as in data without a host. If the other log entries name several hosts, the hosts
    stay.
    """
    written = grouped({(entry.instance, entry.process) for entry in entries}, lambda pair: pair[0])
    nameless = {process for instance, of in written.items() for _, process in of if process[1] == instance}
    hosts = {place: {of for _, of in written.get(place[1], ())} - {place} for place in measured | nameless}
    joined = {others.pop(): place for place, others in hosts.items() if len(others) == 1}
    for entry in entries:
        entry.service, entry.host = joined.get(entry.process, entry.process)


def _to_utc(inputs: Sequence[Input], chunks: Sequence[Chunk]) -> None:
    """Convert local times to UTC for processes with exactly one known time zone."""
    zoned = {(one.process, one.zone_ms) for one in inputs if one.zone_ms is not None and one.process is not None}
    zones = grouped(zoned, lambda zone: zone[0])
    known: dict[tuple[str, str] | None, int] = {process: its[0][1] for process, its in zones.items() if len(its) == 1}
    local = [attached for attached in inputs if attached.local and known.get(attached.process)]
    shifts = {topic: known[attached.process] for attached in local for topic in attached.topics}
    for attached in local:
        attached.shift(known[attached.process])
    for entry in (entry for chunk in chunks for entry in chunk.log_entries if shifts):
        entry.event, entry.dump = _shifted(entry.event, shifts), _shifted(entry.dump, shifts)


def _shifted(logged: _Logged, shifts: Mapping[str, int]) -> _Logged:
    shift = shifts.get(logged.source.topic, 0) if logged is not None and logged.source is not None else 0
    return dataclasses.replace(logged, ts_ms=logged.ts_ms + shift) if logged is not None and shift else logged


_Examined = tuple[list[tuple[Client, list[Verdict]]], dict[Client, list[Seen]]]


def _examined(chunks: Sequence[Chunk], settings: Settings, inputs: Sequence[Input]) -> _Examined:
    bucket = bucket_of(chunks, settings)
    by_key = judged(bucket, undated_topics(inputs))
    add_ends(bucket, by_key)
    by_key = settled(bucket, by_key | of_groups(chunks), inputs)
    clients = [
        (client, sorted(verdicts, key=lambda v: v.mode))
        for client, verdicts in by_key.values()
        if client.client_id or _adds_failure(client, verdicts, by_key.values())
    ]
    clients.sort(key=lambda item: item[0].key)
    logs = bucket.log_entries
    clients = [(_with_version(client, logs.get(client.process, ())), verdicts) for client, verdicts in clients]
    excerpt = sum(attached.read for attached in inputs) <= EXCERPT_LINES
    return clients, _also_seen(bucket.state, [client for client, _ in clients], excerpt)


def of_groups(chunks: Iterable[Chunk]) -> dict[str, tuple[Client, list[Verdict]]]:
    """Judge the consumer groups in `chunks`. Return a map from each group's `client_key` to (group, verdicts)."""
    by_group = grouped((reading for chunk in chunks for reading in chunk.groups), lambda reading: reading.client)
    judges = {m.id: m.of_group for m in modes().values() if isinstance(m, LiveMode) and m.of_group is not None}
    found = {of: [(mode, judge(samples)) for mode, judge in judges.items()] for of, samples in by_group.items()}
    verdicts = {of: [conclude(m, facts, otherwise=why) for m, (facts, why) in judged] for of, judged in found.items()}
    return {client_key(of): (of, every) for of, every in verdicts.items()}


def _with_version(client: Client, log_entries: Iterable[LogEntry]) -> Client:
    """Return the client, with the version of the Java library if the log names exactly one version."""
    if client.version or client.library not in (None, "", "java") or client.kind not in ("producer", "consumer"):
        return client
    events = (entry.event for entry in log_entries if entry.event is not None)
    logged = {event.captures["version"] for event in events if event in SELF_DESCRIBED["version"]}
    return client if len(logged) != 1 else msgspec.structs.replace(client, library="java", version=logged.pop())


#: Inputs with at most this many lines in total count as an excerpt of a log.
EXCERPT_LINES = 60


def _also_seen(state: BucketState, clients: Sequence[Client], excerpt: bool) -> dict[Client, list[Seen]]:
    by_client: dict[Client, list[Seen]] = {}
    runs = also_seen.by_process(state, excerpt)
    for client in clients:
        one_of = Counter[str | None](other.kind for other in clients if other.process == client.process)
        of_client = also_seen.seen(state, runs.get(client.process, ()), client, one_of)
        if named := [seen for seen in of_client if not seen.of_process]:
            by_client[client] = named
    for named_client, seen in also_seen.unattributed(runs, state, clients):
        by_client.setdefault(named_client, []).append(seen)
    return by_client


def _adds_failure(
    client: Client, verdicts: Sequence[Verdict], judged_clients: Iterable[tuple[Client, list[Verdict]]]
) -> bool:
    """Return True if `client`, which has no id, has a failure that none of its neighbours has.

    Neighbours are clients of the same service, host and kind that have an id. Without neighbours, also return True.
    """
    place = client.service, client.host, client.kind
    beside = [of for one, of in judged_clients if one.client_id and (one.service, one.host, one.kind) == place]
    found = {verdict.mode for of_named in beside for verdict in of_named if verdict.unhealthy}
    return not beside or any(verdict.unhealthy and verdict.mode not in found for verdict in verdicts)


def raw_record(record: Recorded) -> RawRecord:
    """Return a file's record as if it came from a topic. Headers of the result name the process."""
    process = record.instance.encode()
    source = Source(f"{record.instance}/{record.file}", 0, record.offset)
    headers = {"service": record.service.encode(), "host": process, "instance": process}
    return RawRecord(record.value, source, record.ts_ms, None, headers)


class _Before(NamedTuple):
    """The client and time (epoch ms) of the previous log line; '' and 0 if unknown."""

    client_id: str
    kind: str
    ts_ms: int


NO_LINE = _Before("", "", 0)
#: An exception that names no client belongs to the client of the previous line, if at most JUST_BEFORE_MS lie between
#: the line and the exception.
JUST_BEFORE_MS = 1_000
#: (service, instance) of a file, for its records that name no process.
Place = tuple[str, str]


def pack(decoded: Decoded, source: Source, packer: Packer, repeats: int = 1, before: _Before = NO_LINE) -> _Before:
    """Add a record's content to a packer, and return the client of the record's last line.

    `repeats`: number of equal records, including this one. `before`: the client of the previous record's last line. If
    the record contains no line, return `before`.
    """
    for snapshot in decoded.snapshots:
        packer.snapshot(snapshot, client_of(snapshot.client), source)
    for line in decoded.lines:
        process = process_of(line.client)
        events, dumps = events_and_dumps(line, source, catalogue(), attached=True)
        for event in events:
            near = before.client_id and before.kind and 0 <= event.ts_ms - before.ts_ms <= JUST_BEFORE_MS
            unnamed = event.client_id is None and line.stack
            if unnamed and near and catalogue().by_id[event.signature].kind in (None, before.kind):
                event = dataclasses.replace(event, client_id=before.client_id)
            packer.log_entry(process, event=event, repeats=repeats)
        for dump in dumps:
            packer.log_entry(process, dump=dump)
        before = _Before(line.client.client_id or "", kind_of(line.message, line.thread), line.ts_ms or 0)
    return before


def bucket_of(chunks: Iterable[Chunk], settings: Settings) -> Bucket:
    """Return a bucket (the monitor's state for some clients) with the data in `chunks`."""
    state, chunks = BucketState(), list(chunks)
    readings.take(state, chunks, settings.monitor, {})
    entries = [entry for chunk in chunks for entry in chunk.log_entries]
    process_log.take(state, entries, settings.monitor)
    also_seen.take(state, entries)
    readings.renew_clients(state)
    return Bucket(state, settings, whole=True)


def judged(bucket: Bucket, undated: frozenset[str] = frozenset()) -> dict[str, tuple[Client, list[Verdict]]]:
    """Map the `client_key` of each client to (client, verdicts), with one verdict per failure mode.

    If a mode had several incidents, its verdict describes the worst of them. `undated`: names (`Input.topics`) of the
    inputs that lack dates or times.
    """
    by_key: dict[str, tuple[Client, list[Verdict]]] = {}
    for client, over_time in client_verdicts.verdicts_over_time(bucket, 0):
        by_mode = grouped((verdict for _, verdicts in over_time for verdict in verdicts), lambda verdict: verdict.mode)
        by_key[client_key(client)] = client, [_worst(verdicts, undated) for _, verdicts in sorted(by_mode.items())]
    return by_key


#: Evidence that is more than ANOTHER_MS apart belongs to different incidents. A shorter limit could divide a failure
#: that lasts a night, if only a log of the evening and a thread dump of the next morning show this failure.
ANOTHER_MS = 12 * 3_600_000


def _worst(verdicts: Sequence[Verdict], undated: frozenset[str]) -> Verdict:
    """Return the verdict on a mode's worst incident, or on the newest of equally bad incidents."""
    apart: list[list[Verdict]] = []
    for verdict in verdicts:
        if not verdict.unhealthy or any(fact.source and fact.source.topic in undated for fact in verdict.evidence):
            continue
        before = max((fact.ts_ms for fact in apart[-1][-1].evidence), default=0) if apart else 0
        if not apart or (verdict.since_ms or 0) > before + ANOTHER_MS:
            apart.append([])
        apart[-1].append(verdict)
    # A failure with undated evidence may be part of any incident. If there is such a failure, merge all incidents.
    if len(apart) < 2 or sum(map(len, apart)) < sum(verdict.unhealthy for verdict in verdicts):
        return merged(verdicts)
    worst = max(map(merged, apart), key=lambda found: (STATUS_ORDER.index(found.status), found.since_ms or 0))
    return dataclasses.replace(worst, detail={**worst.detail, "incidents": len(apart)})


def settled(
    bucket: Bucket, by_key: Mapping[str, tuple[Client, list[Verdict]]], inputs: Sequence[Input]
) -> dict[str, tuple[Client, list[Verdict]]]:
    """Apply `adjust` and `suspected_by_text` to the verdicts in `by_key`, and return the result.

    `suspected_by_text` adds failures for which words in an attached text are the only evidence. A failure that has
    other evidence can explain an added failure. An added failure cannot explain any failure.
    """
    known = contexts(bucket, [client for client, _ in by_key.values()], inputs)
    done: dict[str, tuple[Client, list[Verdict]]] = {}
    for key, (client, verdicts) in by_key.items():
        adjusted = adjust("moment", verdicts, known[client])
        found = [verdict for verdict in adjusted if verdict.unhealthy]
        suspected = [suspected_by_text(verdict, known[client], inputs) for verdict in adjusted]
        left = [one if one in adjusted else adjust("moment", [*found, one], known[client])[-1] for one in suspected]
        done[key] = client, adjust("shown", left, known[client])
    return done


def add_ends(
    bucket: Bucket, by_key: dict[str, tuple[Client, list[Verdict]]], ended: frozenset[str] | None = None
) -> None:
    """Add verdicts on the ends of clients, and on clients that stopped reporting, to `by_key`.

    Only a client's samples after its last gap are judged. `ended`: instance ids of the ended processes; None to treat
    every process as ended.
    """
    state = bucket.state
    for number, ref in enumerate(state.all_clients):
        if ended is not None and ref.instance not in ended:
            continue
        times = state.readings.ts[state.readings.client == number]
        breaks = np.flatnonzero(np.diff(times) > bucket.gaps[number])
        if len(breaks):
            state.clients.first[number] = times[breaks[-1] + 1]
        window = departures.departure(bucket, number)
        window = dataclasses.replace(window, outlived=ended is not None or _outlived(bucket, number))
        ends = judge_windows([window], bucket.settings.modes, absence=True)
        client, verdicts = by_key.get(client_key(window.client), (window.client, []))
        by_mode = {verdict.mode: verdict for verdict in verdicts}
        for silent in silence(bucket, number, window):
            before = by_mode.get(silent.mode)
            by_mode[silent.mode] = silent if before is None or not before.unhealthy else merged([before, silent])
        by_key[client_key(client)] = client, [*by_mode.values(), *ends]


def _outlived(bucket: Bucket, number: int) -> bool:
    """Return True if the client stopped reporting long before the bucket's newest data."""
    return bool(bucket.newest_ms - bucket.state.clients.last[number] > bucket.quiet[number])


def silence(bucket: Bucket, number: int, window: ClientWindow) -> list[Verdict]:
    """Return verdicts on a client that stopped reporting long before the newest data; else [].

    `window`: the client's last window.
    """
    if not _outlived(bucket, number):
        return []
    return stale_verdicts(departures.silence(bucket, number, window), bucket.settings.modes)


def client_key(client: Client) -> str:
    """Return `Client.key` with kind and host, because several clients may share a `Client.key`."""
    return f"{client.kind}|{client.host}|{client.key}"
