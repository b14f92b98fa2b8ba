"""The clients of a bucket of which something new is known: windows → gate → judge → incidents → records.

What the gates let pass is judged with numpy over all windows at once; only a window that a gate suspects, or that
something was said in, is made of objects and goes to the judges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from clienthealth.incidents import Incidents, Transition
from clienthealth.indicators.client import client_indicators
from clienthealth.judging import explained, gate, in_force, live_modes, merged, verdict
from clienthealth.model.clients import Client
from clienthealth.model.health_record import Written, verdicts_json, worst
from clienthealth.model.readings import ClientWindow
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import LiveMode, Mode
from clienthealth.step import process_log, recovery, skew
from clienthealth.step.bucket import Attended, Bucket, Card, card, client_of
from clienthealth.step.readings import SHIFT, Ints
from clienthealth.step.state import HEARD, LAST
from clienthealth.windows.packed import (
    FRESH,
    TS,
    WHO,
    Said,
    Who,
)
from clienthealth.windows.view import MIN_READINGS, Floats, Windows

#: Key and value of a record on `client-health`; without a value the client is forgotten.
Record = tuple[str, bytes | None]


@lru_cache(maxsize=10_000)
def _unsuspected(live: tuple[str, ...], reasons: tuple[str, ...]) -> tuple[msgspec.Raw, str]:
    """The verdicts of a client that no gate suspects, as JSON, and the worst status among them."""
    verdicts = [
        Verdict(mode, "unknown", reason=reason) if reason else Verdict(mode, "ok")
        for mode, reason in zip(live, reasons, strict=True)
    ]
    return _verdicts(verdicts)


def _verdicts(verdicts: Sequence[Verdict]) -> tuple[msgspec.Raw, str]:
    return verdicts_json(verdicts), worst(verdicts)


@dataclass(frozen=True)
class Touched:
    """The windows that something new belongs to, by client and begin, with their rows; all windows of one kind.

    said: what was said in them, by position
    """

    client: Ints
    start: Ints
    end: Ints
    lo: Ints
    hi: Ints
    said: Mapping[int, Attended]

    def at(self, chosen: Ints) -> Touched:
        """Some of them, in this order."""
        places = enumerate(chosen.tolist()) if self.said else ()
        said = {at: self.said[place] for at, place in places if place in self.said}
        return Touched(
            self.client[chosen], self.start[chosen], self.end[chosen], self.lo[chosen], self.hi[chosen], said
        )


@dataclass(frozen=True)
class Asked:
    """What the gates and the measurements say of windows of one kind.

    gates    by mode that is judged: must a judge see the window, and why it is unknown; reasons: these by window
    And for each client: its number, its windows [begin, end), the newest of them with readings enough, when it was
    heard of last by its own clock (epoch ms), whether any window must be judged, and its indicators.
    """

    touched: Touched
    live: Sequence[LiveMode[Any]]
    gates: Sequence[tuple[NDArray[np.bool_], Sequence[str]]]
    reasons: Sequence[tuple[str, ...]]
    number: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    newest: Sequence[int]
    samples: Sequence[int]
    seen: Sequence[int]
    suspected: Sequence[bool]
    measured: Sequence[Mapping[str, object]]


def judge(bucket: Bucket, new: Sequence[Said], horizon: Floats, now_ms: int) -> tuple[list[Record], list[Transition]]:
    """The records of all clients of which something is new, and how incidents changed.

    `new`: what was said newly. `horizon`: up to where the windows of each client were closed before (epoch ms).
    """
    return _Judgement(bucket, now_ms).of(new, horizon)


def steps_of_all(bucket: Bucket, now_ms: int) -> list[tuple[Client, list[tuple[int, list[Verdict]]]]]:
    """All clients with their verdicts, step by step, also where all is well; nothing is entered into the book."""
    judgement = _Collected(bucket, now_ms)
    judgement.of(bucket.state.said, np.empty(0))
    return judgement.steps


class _Judgement:
    def __init__(self, bucket: Bucket, now_ms: int) -> None:
        self.bucket, self.state, self.settings, self.now_ms = bucket, bucket.state, bucket.settings, now_ms
        self.incidents: Incidents = self.state.incidents
        self.records: list[Record] = []
        self.changes: list[Transition] = []
        self.modes = in_force(self.settings.modes)
        self.skew = skew.seconds(self.state, now_ms).tolist()
        self._numbers: dict[process_log.Process, list[int]] = defaultdict(list)

    def of(self, new: Sequence[Said], horizon: Floats) -> tuple[list[Record], list[Transition]]:
        said = process_log.heard(self.state)
        fresh: dict[process_log.Process, list[Said]] = defaultdict(list)
        for thing in new:
            fresh[thing.process].append(thing)
        if said:
            for number, who in enumerate(self.state.whos):
                self._numbers[who.process].append(number)
        client, start = self._touched(fresh, horizon)
        end = start + self.bucket.grid.length[client] if len(client) else start
        lo, hi = self.bucket.span(client, start, end)
        attended = self._attended(said, client, start, end)
        some = hi > lo
        some[list(attended)] = True
        kinds = np.array([who.kind for who in self.state.whos])
        for kind in np.unique(kinds[client[some]]).tolist() if len(client) else ():
            mine = np.flatnonzero(some & (kinds[client] == kind))
            self._kind(kind, Touched(client, start, end, lo, hi, attended).at(mine))
        lost = {thing.process for thing in new} - {thing.process for thing in self.state.said}
        for process, things in fresh.items():
            if process in lost:
                continue
            try:
                self._spoken_of(said[process], things)
            except Exception as mistake:  # noqa: BLE001 - a fault for one process costs what it said, not the bucket
                self.bucket.faults.of_process(things, mistake)
        return self.records, self.changes

    def _needs_steps(self, key: str, suspected: bool) -> bool:
        """Must the client's windows be judged step by step, or do the gates say all?"""
        return suspected or bool(self.incidents.of(key))

    def _touched(self, fresh: Mapping[process_log.Process, list[Said]], horizon: Floats) -> tuple[Ints, Ints]:
        """Windows, sorted by client and begin, that a new reading or something newly said belongs to."""
        rows, grid = self.state.rows, self.bucket.grid
        back = self.settings.monitor.window_seconds // self.settings.monitor.slide_seconds
        new = rows[rows[:, FRESH] > 0]
        client, ts = new[:, WHO].astype(np.int64), new[:, TS].astype(np.int64)
        slide = grid.slide[client]
        found = [(client << SHIFT) | np.maximum(ts // slide * slide - n * slide, 0) for n in range(back)]
        for process, things in fresh.items():
            times = [thing.ts_ms for thing in things]
            for number in self._numbers.get(process, ()):
                begins = process_log.starts(times, int(grid.slide[number]), int(grid.length[number]))
                found.append(np.array([(number << SHIFT) | max(begin, 0) for begin in begins], np.int64))
        keys = np.unique(np.concatenate(found))
        client, start = keys >> SHIFT, keys & ((1 << SHIFT) - 1)
        closed = np.full(len(self.state.whos), -np.inf)
        closed[: len(horizon)] = horizon
        still_open = start + grid.length[client] > closed[client] if len(client) else np.zeros(0, bool)
        return client[still_open], start[still_open]

    def _attended(
        self, said: Mapping[process_log.Process, process_log.Heard], client: Ints, start: Ints, end: Ints
    ) -> dict[int, Attended]:
        """What was said of clients in their windows, by the window's position."""
        if not said:
            return {}
        found: dict[int, Attended] = {}
        inside: dict[tuple[process_log.Process, int, int], process_log.Heard] = {}
        speaking = {number for process in said for number in self._numbers.get(process, ())}
        faulty: set[process_log.Process] = set()
        windows = zip(client.tolist(), start.tolist(), end.tolist(), strict=True)
        for position, (number, begin, until) in enumerate(windows):
            if number not in speaking or (who := self.state.whos[number]).process in faulty:
                continue
            key = (who.process, begin, until)
            try:
                if key not in inside:
                    inside[key] = said[who.process].within(begin, until)
                events, dumps = inside[key].about(who)
            except Exception as mistake:  # noqa: BLE001 - what a process said is of no use; its clients are judged
                self.bucket.faults.of_process(said[who.process].things, mistake)
                faulty.add(who.process)
                continue
            if events or dumps:
                found[position] = events, dumps
        return {at: told for at, told in found.items() if self.state.whos[int(client[at])].process not in faulty}

    def _kind(self, kind: str, touched: Touched) -> None:
        """Judge the windows of all clients of one kind, and make their records."""
        faults = self.bucket.faults

        def asked(clients: Ints) -> Asked:
            return self._asked(kind, touched.at(np.flatnonzero(np.isin(touched.client, clients))))

        for found in faults.apart(np.unique(touched.client), asked):
            ids = tuple(mode.id for mode in found.live)
            for at, number in enumerate(found.number):
                try:
                    self._client(found, ids, at, number)
                except Exception as mistake:  # noqa: BLE001 - a fault for one client does not cost the bucket
                    faults.add(number, mistake)

    def _asked(self, kind: str, touched: Touched) -> Asked:
        count, live = len(touched.client), live_modes(kind, self.settings.modes)
        w = self.bucket.windows(kind, touched.client, touched.lo, touched.hi)
        gates = [gate(mode, w) for mode in live]
        suspect = np.zeros(count, bool)
        for suspected, _ in gates:
            suspect |= suspected
        suspect[list(touched.said)] = True
        end = np.flatnonzero(np.append(touched.client[1:] != touched.client[:-1], True)) + 1
        begin = np.append(0, end[:-1])
        number = touched.client[begin]
        rank = np.where(w.samples >= MIN_READINGS, 1 << 40, 0) + np.arange(count)
        newest = np.maximum.reduceat(rank, begin) & ((1 << 40) - 1)
        hi = touched.hi[end - 1]
        seen = np.where(hi > touched.lo[end - 1], self.bucket.rows[hi - 1, TS], self.state.clients[number, LAST])
        return Asked(
            touched,
            live,
            gates,
            list(zip(*(texts for _, texts in gates), strict=True)) if gates else [()] * count,
            number.tolist(),
            begin.tolist(),
            end.tolist(),
            newest.tolist(),
            w.samples[newest].tolist(),
            seen.astype(np.int64).tolist(),
            np.logical_or.reduceat(suspect, begin).tolist(),
            client_indicators(w.at(newest), self.settings.lag),
        )

    def _client(self, asked: Asked, ids: tuple[str, ...], at: int, number: int) -> None:
        """Judge the windows of a client, the `at`th that was asked about, and make its record. `ids`: of its modes."""
        of, newest, seen = card(self.state.whos[number]), asked.newest[at], asked.seen[at]
        if self._needs_steps(of.key, asked.suspected[at]):
            verdicts = _verdicts(self._judged(asked, at, number, seen))
        else:
            verdicts = _unsuspected(ids, asked.reasons[newest])
        start, end = int(asked.touched.start[newest]), int(asked.touched.end[newest])
        self._publish(of, start, end, asked.samples[at], asked.measured[at], *verdicts, seen, self.skew[number])

    def _publish(
        self,
        client: Card,
        start: int,
        end: int,
        samples: int,
        indicators: Mapping[str, object],
        verdicts: msgspec.Raw,
        worst: str,
        last_seen: int,
        off_seconds: float = 0.0,
    ) -> None:
        if off_seconds:
            clock = {"skew_seconds": off_seconds, "text": skew.words(off_seconds)}
            indicators = {**indicators, "clock": clock}
        record = Written(
            window_start=start,
            window_end=end,
            client=client.json,
            samples=samples,
            indicators=indicators,
            verdicts=verdicts,
            worst=worst,
            last_seen=last_seen,
        )
        self.records.append((client.key, record.encode()))

    def _judged(self, asked: Asked, place: int, number: int, seen: int) -> list[Verdict]:
        """The verdicts on a client's newest step, after all its steps have been entered into the book."""
        who, touched = self.state.whos[number], asked.touched
        judged: list[tuple[int, list[Verdict]]] = []
        for at in range(asked.begin[place], asked.end[place]):
            start, end = int(touched.start[at]), int(touched.end[at])
            window: ClientWindow | None = None
            verdicts = []
            for mode, (suspected, reasons) in zip(asked.live, asked.gates, strict=True):
                if at in touched.said or suspected[at]:
                    if window is None:
                        lo, hi = int(touched.lo[at]), int(touched.hi[at])
                        window = self.bucket.window(who, number, start, end, lo, hi, touched.said.get(at, ((), ())))
                    verdicts.append(verdict(mode, window))
                elif reasons[at]:
                    verdicts.append(Verdict(mode.id, "unknown", reason=reasons[at]))
                else:
                    verdicts.append(Verdict(mode.id, "ok"))
            judged.append((end, verdicts))
        offset = int(self.state.clients[number, HEARD] - self.state.clients[number, LAST])

        def window_at(step: int) -> ClientWindow:
            at = asked.begin[place] + step
            start, end, lo, hi = (int(column[at]) for column in (touched.start, touched.end, touched.lo, touched.hi))
            return self.bucket.window(who, number, start, end, lo, hi, touched.said.get(at, ((), ())))

        return self._entered(client_of(who), judged, seen, offset, window_at)

    def _entered(
        self,
        client: Client,
        judged: Sequence[tuple[int, list[Verdict]]],
        seen: int,
        offset: int,
        window_at: Callable[[int], ClientWindow],
    ) -> list[Verdict]:
        """Enter a client's steps into the book; what is to be shown of it. `window_at`: the window of a judgement."""
        for mode in self.modes.values():
            if mode.absence:
                self.changes += self.incidents.returned(client.key, mode.id, seen)
        verdicts: list[Verdict] = []
        first = min(1, len(judged) - 1)
        for number, (end, verdicts) in enumerate(steps(judged), first):
            known = {mode: incident.verdict.status for mode, incident in self.incidents.of(client.key).items()}
            verdicts = explained(verdicts, known)
            newest = cache(partial(window_at, number))
            recovery.refresh(self.incidents, client.key, verdicts, newest, end)
            over = recovery.is_over(self.incidents, client.key, newest, self.modes, end)
            self.changes += self.incidents.judged(client, verdicts, end, offset, over)
            self.changes += recovery.without_explained(self.incidents, client.key, end)
        return with_incidents(verdicts, self.incidents, client.key)

    def _spoken_of(self, heard: process_log.Heard, new: Sequence[Said]) -> None:
        """Clients that do not report but that the process spoke of: judged by what was said alone."""
        slide, length = 1000 * self.settings.monitor.slide_seconds, 1000 * self.settings.monitor.window_seconds
        windows: dict[Who, list[ClientWindow]] = defaultdict(list)
        for start in sorted(process_log.starts((thing.ts_ms for thing in new), slide, length)):
            inside = heard.within(start, start + length)
            for who in inside.spoken_of():
                window = self.bucket.window(who, None, start, start + length, 0, 0, inside.about(who))
                windows[who].append(window)
        for who, mine in windows.items():
            of_kind = [mode for mode in self.modes.values() if who.kind in mode.kinds]
            judged = [(w.end_ms, [self._spoken(mode, w) for mode in of_kind]) for w in mine]
            newest = mine[-1]
            last = max([*(event.ts_ms for event in newest.logs), *(dump.ts_ms for dump in newest.dumps)])
            offset = max(0, self.state.time_ms - last)
            shown = self._entered(newest.client, judged, last, offset, mine.__getitem__)
            self.incidents.heard(newest.client.key, last, offset)
            if who.client_id and who not in self.state.former and self.incidents.of(newest.client.key):
                self.state.former.append(who)
            (indicators,) = client_indicators(Windows.of(newest), self.settings.lag)
            self._publish(card(who), newest.start_ms, newest.end_ms, 0, indicators, *_verdicts(shown), last)

    def _spoken(self, mode: Mode, window: ClientWindow) -> Verdict:
        """The verdict by what was said alone: a client may well say that it has ended, if it reports nothing."""
        if mode.absence:
            window = replace(window, departed_ms=max((event.ts_ms for event in window.logs), default=window.end_ms))
        return verdict(mode, window)


class _Collected(_Judgement):
    """Collects the steps of all clients instead of entering them into the book."""

    def __init__(self, bucket: Bucket, now_ms: int) -> None:
        super().__init__(bucket, now_ms)
        self.steps: list[tuple[Client, list[tuple[int, list[Verdict]]]]] = []

    def _needs_steps(self, key: str, suspected: bool) -> bool:
        return True

    def _entered(
        self,
        client: Client,
        judged: Sequence[tuple[int, list[Verdict]]],
        seen: int,
        offset: int,
        window_at: Callable[[int], ClientWindow],
    ) -> list[Verdict]:
        self.steps.append((client, list(steps(judged))))
        return self.steps[-1][1][-1][1]


def steps(judged: Sequence[tuple[int, list[Verdict]]]) -> Iterator[tuple[int, list[Verdict]]]:
    """A client's verdicts by window → its verdicts in order of time.

    Windows overlap, so a step is a window and the one before it. Usually a batch holds just these two; one that works
    off a backlog holds many, and what was over in the first of them must not weigh on the last.
    """
    for last in range(min(1, len(judged) - 1), len(judged)):
        by_mode: dict[str, list[Verdict]] = {}
        for _, verdicts in judged[max(0, last - 1) : last + 1]:
            for found in verdicts:
                by_mode.setdefault(found.mode, []).append(found)
        yield judged[last][0], [merged(by_mode[mode]) for mode in sorted(by_mode)]


def with_incidents(verdicts: Sequence[Verdict], incidents: Incidents, key: str) -> list[Verdict]:
    """Verdicts, with what is known of an open incident (its onset, all its evidence) in place of the window's word."""
    known = incidents.of(key)
    shown = [known[v.mode].verdict if v.mode in known else v for v in verdicts]
    return shown + [i.verdict for mode, i in known.items() if mode not in {v.mode for v in shown}]
