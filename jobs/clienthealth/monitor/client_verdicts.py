"""Judge clients with new samples or log entries: change the clients' incidents, and return the clients' records.

The gate of a failure mode tests all windows at once. The judge of the failure mode then examines the windows that the
gate selects, and the windows with dumps or log lines about the failure mode.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import numpy as np

from clienthealth.measure.client import client_indicators
from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools, Ints
from clienthealth.measure.packed import LogEntry
from clienthealth.measure.view import MIN_READINGS, Windows
from clienthealth.model.clients import Client
from clienthealth.model.health_record import Written, encoded, seen_json, verdicts_json, worst
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import Seen, Verdict
from clienthealth.modes import LiveMode, Mode, modes
from clienthealth.monitor import recovery
from clienthealth.monitor.adjust import CLOSE_MS, LONGEST_MS, Context, Reporting, adjust
from clienthealth.monitor.attribution import NO_LOG, ProcessLog, WindowLog, contradicted
from clienthealth.monitor.bucket import Bucket, Span
from clienthealth.monitor.incidents import Incidents, Transition
from clienthealth.monitor.process_log import time_of
from clienthealth.monitor.readings import NEVER_MS, SHIFT, USUAL_INTERVAL_MS, skew_seconds, skew_words
from clienthealth.monitor.state import ProcessKey
from clienthealth.monitor.window_verdicts import gate, in_force, live_modes, merged, verdict

#: Key and value of a record on the topic `client-health`; None deletes the record.
Record = tuple[str, bytes | None]
WindowAt = Callable[[int], ClientWindow]
#: For each client: (end of a window in epoch ms, verdicts of all modes), in order of time.
OverTime = list[tuple[Client, list[tuple[int, list[Verdict]]]]]
NONE: Mapping[str, Any] = {}


class Content(NamedTuple):
    """The verdicts and known issues of a client's record, as JSON.

    `worst`     the worst status of the verdicts
    `checksum`  checksum of verdicts and known issues; never 0, because a stored 0 means that the record must be
                published
    """

    verdicts: msgspec.Raw
    worst: str
    also_seen: list[dict[str, Any]]
    checksum: int

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], issues: Sequence[Seen] = ()) -> Content:
        content, also_seen = verdicts_json(verdicts), list(map(seen_json, issues))
        return cls(content, worst(verdicts), also_seen, crc32(msgspec.json.encode(also_seen), crc32(content)) or 1)

    def record(
        self,
        client: Client,
        window: tuple[int, int],
        samples: int,
        last_seen: int,
        indicators: Mapping[str, Any] = NONE,
        config: Mapping[str, str] = NONE,
        departed: bool = False,
    ) -> Record:
        """Return the client's record, ready to publish.

        `window`: start and end (epoch ms). Other arguments: fields of `Written`.
        """
        written = Written(
            window_start=window[0],
            window_end=window[1],
            client=encoded(client),
            samples=samples,
            indicators=indicators,
            verdicts=self.verdicts,
            worst=self.worst,
            last_seen=last_seen,
            departed=departed,
            config=config,
            also_seen=self.also_seen,
        )
        return client.key, written.encode()


@lru_cache(maxsize=10_000)
def _unsuspected(live: tuple[str, ...], reasons: tuple[str, ...], issues: tuple[Seen, ...] = ()) -> Content:
    """Return the content of a record without a suspected failure.

    `reasons`: for each mode in `live`, the reason for the verdict `unknown`; '' for the verdict `ok`.
    """
    return Content.of([_by_gate(mode, reason) for mode, reason in zip(live, reasons, strict=True)], issues)


@cache
def _read_by(mode: str) -> frozenset[str]:
    return frozenset().union(*(meaning.ids for meaning in (*modes()[mode].reads, *modes()[mode].lines)))


@cache
def _by_gate(mode: str, reason: str) -> Verdict:
    return Verdict(mode, "unknown", reason=reason) if reason else Verdict(mode, "ok")


@dataclass(frozen=True)
class Touched:
    """The windows with new data, for clients of one kind, sorted by client and start.

    `client`    for each window, the index of its client in `state.all_clients`
    `lo`, `hi`  for each window, its rows [lo, hi) in the table of samples
    `logs`      maps the index of a window to the log entries in this window
    """

    client: Ints
    start: Ints
    end: Ints
    lo: Ints
    hi: Ints
    logs: Mapping[int, WindowLog]

    def span(self, at: int) -> Span:
        """Return the window with this index."""
        return Span(int(self.start[at]), int(self.end[at]), int(self.lo[at]), int(self.hi[at]))

    def at(self, chosen: Ints) -> Touched:
        positions = enumerate(chosen.tolist()) if self.logs else ()
        logs = {at: self.logs[position] for at, position in positions if position in self.logs}
        client, start, end, lo, hi = (
            column[chosen] for column in (self.client, self.start, self.end, self.lo, self.hi)
        )
        return Touched(client, start, end, lo, hi, logs)


class Reporter(NamedTuple):
    """A client with new data in its windows.

    `number`        index of the client in `state.all_clients`
    `begin`, `end`  indices [begin, end) of the client's windows in `Gated.touched`
    `newest`        index of the newest window with enough samples; if all windows have too few samples, index of the
                    newest window
    `seen`          time of the client's newest sample, by its own clock (epoch ms)
    `suspected`     True if any of the client's windows must be judged
    """

    number: int
    begin: int
    end: int
    newest: int
    seen: int
    suspected: bool


@dataclass(frozen=True)
class Gated:
    """What the gates found in the windows with new data, for clients of one kind.

    `windows`  the samples of the windows with new data, as arrays
    `live`     the modes that a client of this kind can have
    `gates`    for each mode of `live`, the result (flags, reasons) of the function `gate` for `windows`
    `clients`  the fields of `Reporter`, as arrays with one element per client
    """

    touched: Touched
    windows: Windows
    live: Sequence[LiveMode[Any]]
    gates: Sequence[tuple[Bools, Sequence[str]]]
    clients: tuple[Ints, Ints, Ints, Ints, Ints, Bools]


def judge(bucket: Bucket, new: Sequence[LogEntry], horizon: Ints, now_ms: int) -> tuple[list[Record], list[Transition]]:
    """Return the records of clients with new data, and the changes of incidents.

    `new`: the new log entries. `horizon`: for each client, the time (epoch ms) up to which its windows are closed.
    `now_ms`: the monitor's clock (epoch ms).
    """
    return _Judgement(bucket, now_ms).judge(new, horizon)


def overdue(bucket: Bucket, before_ms: int) -> list[LogEntry]:
    """Return the log entries that stop waiting in this step, because no further sample arrived.

    An entry waits for a sample for at most LONGEST_MS (30 s), because a failed client may log, exit, and send no
    further sample. `before_ms`: the watermark of the previous step.
    """
    clients, now_ms, entries = bucket.state.clients, bucket.state.time_ms, dict[int, LogEntry]()
    # `earliest` is more than a reporting interval before the client's last sample. So a line before `earliest` (by the
    # client's clock) no longer waits: a sample after this line has arrived.
    earliest = clients.last - clients.every - CLOSE_MS
    wait_ms = LONGEST_MS + clients.last_seen - clients.last
    silent = (earliest < now_ms - wait_ms).tolist()
    for process, log in bucket.logs.items() if before_ms and any(silent) else ():
        for number in filter(silent.__getitem__, bucket.numbers.get(process, ())):
            begin, end = max(earliest[number], before_ms - wait_ms[number]), now_ms - wait_ms[number]
            over = slice(*(bisect_left(log.entries, at, key=time_of) for at in (begin, end)))
            entries |= {id(entry): entry for entry in log.entries[over]}
    return [*entries.values()]


def verdicts_over_time(bucket: Bucket, now_ms: int) -> OverTime:
    """Return all clients, also healthy ones, with their verdicts in order of time."""
    collected: OverTime = []
    _Judgement(bucket, now_ms, collected).judge(bucket.state.log_entries, np.empty(0, np.int64))
    return collected


class OfWindow(NamedTuple):
    """The verdicts on one window [start, end) of a client (epoch ms)."""

    start: int
    end: int
    verdicts: list[Verdict]


class _Judgement:
    def __init__(self, bucket: Bucket, now_ms: int, collected: OverTime | None = None) -> None:
        """Prepare to judge a bucket. If `collected` is given, it gets the verdicts, and no incident changes."""
        self.collected = collected
        self.bucket, self.state, self.settings, self.now_ms = bucket, bucket.state, bucket.settings, now_ms
        self.incidents: Incidents = self.state.incidents
        self.records: list[Record] = []
        self.changes: list[Transition] = []
        self.modes = in_force(self.settings.modes)
        self.skew = skew_seconds(self.state, now_ms).tolist()
        #: Log lines that samples contradict: maps (client, start of a window) to the ids of the lines' patterns.
        self.refuted: dict[tuple[int, int], frozenset[str]] = {}

    def judge(self, new: Sequence[LogEntry], horizon: Ints) -> tuple[list[Record], list[Transition]]:
        fresh = grouped(new, lambda entry: entry.process)
        client, start = self._touched(fresh, horizon)
        end = start + self.bucket.grid.length[client] if len(client) else start
        lo, hi = self.bucket.span(client, start, end)
        window_logs = self._window_logs(client, start, end)
        some = hi > lo
        some[list(window_logs)] = True
        for kind, of_kind in self.bucket.of_kinds.items():
            if len(chosen := np.flatnonzero(some & of_kind[client])):
                self._clients(self._gated(kind, Touched(client, start, end, lo, hi, window_logs).at(chosen)))
        for process, entries in fresh.items():
            self._judge_unreporting(self.bucket.logs[process], entries)
        return self.records, self.changes

    def _touched(self, fresh: Mapping[ProcessKey, list[LogEntry]], horizon: Ints) -> tuple[Ints, Ints]:
        """Return (clients, starts) of the open windows with new data, sorted by client, then by start."""
        new, grid = self.state.readings, self.bucket.grid
        back = self.settings.monitor.window_seconds // self.settings.monitor.slide_seconds
        client, ts = new.client[new.fresh > 0], new.ts[new.fresh > 0]
        slide = grid.slide[client]
        touched = [(client << SHIFT) | np.maximum(ts // slide * slide - n * slide, 0) for n in range(back)]
        for process, entries in fresh.items():
            times = [entry.ts_ms for entry in entries]
            for number in self.bucket.numbers.get(process, ()):
                begins = window_starts(times, int(grid.slide[number]), int(grid.length[number]))
                touched.append(np.array([(number << SHIFT) | max(begin, 0) for begin in begins], np.int64))
        keys = np.unique(np.concatenate(touched))
        client, start = keys >> SHIFT, keys & ((1 << SHIFT) - 1)
        closed = np.full(len(self.state.all_clients), NEVER_MS)
        closed[: len(horizon)] = horizon
        still_open = start + grid.length[client] > closed[client] if len(client) else np.zeros(0, bool)
        return client[still_open], start[still_open]

    def _window_logs(self, client: Ints, start: Ints, end: Ints) -> dict[int, WindowLog]:
        """Map each window's index to its log data, without lines that the client's metrics contradict."""
        if not (logs := self.bucket.logs):
            return {}
        window_logs: dict[int, WindowLog] = {}
        inside: dict[tuple[ProcessKey, int, int], ProcessLog] = {}
        logging = {number for process in logs for number in self.bucket.numbers.get(process, ())}
        windows = zip(client.tolist(), start.tolist(), end.tolist(), strict=True)
        for position, (number, begin, until) in enumerate(windows):
            if number not in logging:
                continue
            ref = self.state.all_clients[number]
            key = (ref.process, begin, until)
            if key not in inside:
                inside[key] = logs[ref.process].within(begin, until)
            log = inside[key].about(ref) if inside[key].entries else NO_LOG
            if log.logs or log.dumps:
                wrong = contradicted(ref, partial(self.bucket.known, number), self.bucket.config(number), log.logs)
                window_logs[position] = log._replace(logs=tuple(event for event in log.logs if event not in wrong))
                if wrong:
                    self.refuted[number, begin] = frozenset(event.signature for event in wrong)
        return window_logs

    def _gated(self, kind: str, touched: Touched) -> Gated:
        count, live = len(touched.client), live_modes(kind, self.settings.modes)
        w = self.bucket.windows(kind, touched.client, touched.lo, touched.hi)
        gates = [gate(mode, w) for mode in live]
        suspect = np.zeros(count, bool)
        for suspected, _ in gates:
            suspect |= suspected
        for at, log in touched.logs.items():
            signatures = self._signatures(touched, at)
            suspect[at] |= bool(log.dumps) or any(not signatures.isdisjoint(_read_by(mode.id)) for mode in live)
        end = np.flatnonzero(np.append(touched.client[1:] != touched.client[:-1], True)) + 1
        begin = np.append(0, end[:-1])
        number = touched.client[begin]
        rank = np.where(w.samples >= MIN_READINGS, 1 << 40, 0) + np.arange(count)
        newest = np.maximum.reduceat(rank, begin) & ((1 << 40) - 1)
        hi = touched.hi[end - 1]
        seen = np.where(hi > touched.lo[end - 1], self.state.readings.ts[hi - 1], self.state.clients.last[number])
        suspected = np.logical_or.reduceat(suspect, begin)
        return Gated(touched, w, live, gates, (number, begin, end, newest, seen, suspected))

    def _signatures(self, touched: Touched, at: int) -> frozenset[str]:
        """Return the ids of the log patterns of all lines in a window, including contradicted lines."""
        contradicted = self.refuted.get((int(touched.client[at]), int(touched.start[at])), frozenset())
        return contradicted.union(event.signature for event in touched.logs.get(at, NO_LOG).logs)

    def _clients(self, gated: Gated) -> None:
        """Judge the windows. Publish a client's record when its content changes, and every `publish_seconds`."""
        clients, ids = self.state.clients, tuple(mode.id for mode in gated.live)
        number, _, _, newest, seen, _ = gated.clients
        reporters = list(map(Reporter, *(column.tolist() for column in gated.clients)))
        content = [self._content(gated, ids, reporter) for reporter in reporters]
        checksums = np.array([of_client.checksum for of_client in content], np.int64)
        passed = seen - clients.published_ms[number] + clients.every[number] // 4
        due = (passed < 0) | (passed >= 1000 * self.settings.monitor.publish_seconds)
        chosen = np.flatnonzero(due | (clients.published[number] != checksums))
        clients.published_ms[number[chosen]], clients.published[number[chosen]] = seen[chosen], checksums[chosen]
        windows = gated.windows.at(newest[chosen])
        measured = client_indicators(windows, self.settings.lag)
        spans = zip(*(one[newest[chosen]].tolist() for one in (gated.touched.start, gated.touched.end)), strict=True)
        for at, span, samples, figures in zip(chosen.tolist(), spans, windows.samples.tolist(), measured, strict=True):
            client = reporters[at]
            if off_seconds := self.skew[client.number]:
                figures["clock"] = {"skew_seconds": off_seconds, "text": skew_words(off_seconds)}
            ref, config = self.state.all_clients[client.number], self.bucket.config(client.number)
            self.records.append(content[at].record(ref, span, samples, client.seen, figures, config))

    def _content(self, gated: Gated, ids: tuple[str, ...], reporter: Reporter) -> Content:
        """Return the content of a client's record.

        The windows are judged only if a gate suspects a window, an incident is open, or verdicts are collected.
        """
        client = self.state.all_clients[reporter.number]
        issues = self.bucket.also_seen(client)
        if self.collected is not None or reporter.suspected or self.incidents.of_client(client.key):
            return Content.of(self._judged(gated, client, reporter), issues)
        return _unsuspected(ids, tuple(reasons[reporter.newest] for _, reasons in gated.gates), tuple(issues))

    def _judged(self, gated: Gated, client: Client, reporter: Reporter) -> list[Verdict]:
        clients, number, touched = self.state.clients, reporter.number, gated.touched
        every, last, last_seen = int(clients.every[number]), int(clients.last[number]), int(clients.last_seen[number])
        seldom = self.collected is not None or every > USUAL_INTERVAL_MS
        known = self._known(client, None if seldom else Reporting(every, last, self.state.time_ms - last_seen))

        @cache
        def window(at: int) -> ClientWindow:
            log, table = touched.logs.get(at, NO_LOG), partial(gated.windows.alone, at)
            return self.bucket.window(client, number, touched.span(at), log, table)

        judged: list[OfWindow] = []
        for at in range(reporter.begin, reporter.end):
            span, log, verdicts = touched.span(at), touched.logs.get(at, NO_LOG), []
            beside = replace(known, contradicted=wrong) if (wrong := self.refuted.get((number, span.start))) else known
            signatures = self._signatures(touched, at)
            for mode, (suspected, reasons) in zip(gated.live, gated.gates, strict=True):
                if suspected[at] or log.dumps or not signatures.isdisjoint(_read_by(mode.id)):
                    verdicts.append(verdict(mode, window(at), beside))
                else:
                    verdicts.append(_by_gate(mode.id, reasons[at]))
            judged.append(OfWindow(span.start, span.end, verdicts))
        return self._entered(client, judged, reporter.seen, last_seen - last, lambda at: window(reporter.begin + at))

    def _known(self, client: Client, reports: Reporting | None = None) -> Context:
        """Return a client's starts and incidents.

        `reports`: how the client reports; None if no verdict has to wait for a sample.
        """
        starts = (s for s in self.bucket.starts.get(client.process, ()) if s.client_id == client.client_id)
        own = [start.ts_ms for start in starts if start.instance in ("", client.instance)]
        return Context(starts=own, reporting=reports, incidents=self.incidents.verdicts(client.key))

    def _entered(
        self, client: Client, judged: Sequence[OfWindow], seen: int, offset: int, window_at: WindowAt
    ) -> list[Verdict]:
        """Update a client's incidents from its verdicts, and return the verdicts to publish.

        `seen`: time of the client's newest data (epoch ms); `offset`: watermark minus the client's clock (ms).
        """
        if self.collected is not None:
            self.collected.append((client, list(overlapped(judged))))
            return self.collected[-1][1][-1][1]
        for incident in [*self.incidents.of_client(client.key).values()]:
            if self.modes[incident.verdict.mode].absence and seen > incident.seen_ms:
                logged = any(fact.kind == "log" for fact in incident.verdict.evidence)
                self.changes.append(self.incidents.close(incident, "closed" if logged else "withdrawn", seen))
        verdicts: list[Verdict] = []
        first = min(1, len(judged) - 1)
        for number, (end, verdicts) in enumerate(overlapped(judged), first):
            verdicts = adjust("moment", verdicts, Context(incidents=self.incidents.verdicts(client.key)))
            newest, before = partial(window_at, number), partial(window_at, max(0, number - 1))
            recovery.refresh(self.incidents, client.key, verdicts, newest, end)
            over = recovery.is_over(self.incidents, client.key, newest, before, self.modes, end)
            self.changes += self.incidents.judged(client, verdicts, end, offset, over)
            self.changes += recovery.without_explained(self.incidents, client.key, end)
        return shown(verdicts, self.incidents, client.key)

    def _judge_unreporting(self, log: ProcessLog, new: Sequence[LogEntry]) -> None:
        slide, length = 1000 * self.settings.monitor.slide_seconds, 1000 * self.settings.monitor.window_seconds
        windows: dict[Client, list[ClientWindow]] = defaultdict(list)
        for start in sorted(window_starts((entry.ts_ms for entry in new), slide, length)):
            inside = log.within(start, start + length)
            for client in inside.unreporting_clients():
                # A window may have no data about the client: if a line without a client id fits several clients, the
                # line is attributed to none of them.
                if any((about := inside.about(client))[:2]):
                    windows[client].append(self.bucket.window(client, None, Span(start, start + length), about))
        for client, of_client in windows.items():
            of_kind = [mode for mode in self.modes.values() if client.kind in mode.kinds]
            known = self._known(client)
            judged = [
                OfWindow(w.start_ms, w.end_ms, [self._verdict_by_log(mode, w, known) for mode in of_kind])
                for w in of_client
            ]
            newest = of_client[-1]
            last = max([*(event.ts_ms for event in newest.logs), *(dump.ts_ms for dump in newest.dumps)])
            offset = max(0, self.state.time_ms - last)
            visible = self._entered(newest.client, judged, last, offset, of_client.__getitem__)
            self.incidents.sign_of_life(newest.client.key, last, offset)
            if client.client_id and client.names not in self.state.former and self.incidents.of_client(client.key):
                self.state.former.remember(client.names, client, self.state.time_ms)
            (indicators,) = client_indicators(newest.table, self.settings.lag)
            also = self.bucket.also_seen(client, {kind: len(names) for kind, names in log.named.items()})
            window = newest.start_ms, newest.end_ms
            self.records.append(Content.of(visible, also).record(client, window, 0, last, indicators))

    def _verdict_by_log(self, mode: Mode, window: ClientWindow, known: Context) -> Verdict:
        """Judge a client without metrics by its log. The last line counts as the client's end."""
        if mode.absence:
            window = replace(window, departed_ms=max((event.ts_ms for event in window.logs), default=window.end_ms))
        return verdict(mode, window, known)


def window_starts(times: Iterable[int], slide_ms: int, length_ms: int) -> set[int]:
    """Return the start times of all windows that contain at least one of `times` (epoch ms).

    A window lasts for `length_ms` and starts at a multiple of `slide_ms`.
    """
    return {time // slide_ms * slide_ms - back * slide_ms for time in times for back in range(length_ms // slide_ms)}


def overlapped(judged: Sequence[OfWindow]) -> Iterator[tuple[int, list[Verdict]]]:
    """Yield (end of the window, verdicts) for the windows of one client (`judged`), in order of time.

    Each verdict is merged with the verdict on the previous window, because windows overlap. If there are several
    windows, nothing is yielded for the first window: its verdicts are only merged with the verdicts on the second
    window.
    """
    for at in range(min(1, len(judged) - 1), len(judged)):
        last, by_mode = judged[at], defaultdict[str, list[Verdict]](list)
        for window in judged[max(0, at - 1) : at + 1]:
            # Merge only windows that overlap. If they do not overlap, the client was silent between them.
            if window.end > last.start:
                for of_window in window.verdicts:
                    by_mode[of_window.mode].append(of_window)
        yield last.end, [merged(by_mode[mode]) for mode in sorted(by_mode)]


def shown(verdicts: Sequence[Verdict], incidents: Incidents, key: str) -> list[Verdict]:
    """Apply the adjustments of stage "shown", and return the verdicts to publish. `incidents` must be current."""
    return adjust("shown", verdicts, Context(incidents=incidents.verdicts(key)))
