"""Run a chaos campaign: calculate the expected results, then cause one fault after another."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from clienthealth.model.errors import HealthError
from clienthealth.settings import Settings
from tests.chaos import compare
from tests.chaos.application import Application
from tests.chaos.calculated import Calculated, calculated
from tests.chaos.faults import AFTER, BEFORE, Fault, Scene, strayed
from tests.chaos.load import SECONDS, Published, fleet_client, slices
from tests.chaos.outcomes import Outcome
from tests.chaos.world import Cluster, Run, SchemaRegistry

STRAY = fleet_client(15)
START_SECONDS, RECOVERY_SECONDS, SHOWN_SECONDS = 400.0, 400.0, 300.0
SOON_SECONDS = 120.0
#: After ENDED further slices (36 minutes), the verdicts on a slice are compared a second time. Only the second
#: comparison includes the ends of incidents.
ENDED = 6
END = compare.FINAL_MS // 1000 + 60
NUDGE_SECONDS = 5.0


class Campaign:
    """A run with one fault in each slice (six minutes) of the input. A slice is checked only after the next fault."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        faults: Sequence[Fault],
        seed: int,
        say: Callable[[str], None],
        keep: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        self._cluster, self._folder, self._faults, self._seed = cluster, folder, faults, seed
        self._say, self._keep = say, keep
        numbers = [*(fault.number for fault in faults), faults[-1].number + 1]
        length = 1000 * SECONDS * len(numbers)
        self._slices = slices(seed, numbers, (int(time.time() * 1000) - length) // 60_000 * 60_000 - 300_000)
        self._sent = [self._kept(at) for at in range(len(self._slices))]

    @property
    def begin_ms(self) -> int:
        return self._slices[0].begin_ms

    def run(self) -> list[Outcome]:
        with SchemaRegistry() as registry, Run(self._cluster, registry, "tried", self._folder / "tried") as tried:
            calm = self._calculated(tried.settings)
            tried.monitor.release()
            tried.exporter.release()
            with Application(tried.settings, self._folder) as application:
                return self._tried(tried, calm, application)

    def _calculated(self, settings: Settings) -> Calculated:
        parts = [replace(part, records=tuple(sent)) for part, sent in zip(self._slices, self._sent, strict=True)]
        return calculated(parts, 0, settings, int(time.time() * 1000))

    def _kept(self, at: int) -> list[Published]:
        part = self._slices[at]
        if at == len(self._faults):
            return list(part.between(0, END))
        lost = part.between(BEFORE, AFTER) if self._faults[at].kind.hides else ()
        hidden = set(map(id, lost))
        return [record for record in part.records if id(record) not in hidden]

    def _tried(self, run: Run, calm: Calculated, application: Application) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for at, fault in enumerate(self._faults):
            outcome = self._one(run, application, at, fault)
            if outcomes:
                self._check(run, calm, outcomes[-1], at - 1)
            outcomes.append(outcome)
            if at >= ENDED:
                self._ended(run, calm, outcomes[at - ENDED], at - ENDED)
        self._at_leisure(run, self._slices[-1].portions(0, END))
        self._check(run, calm, outcomes[-1], len(outcomes) - 1)
        outcomes[-1].differences += application.end()
        for at in range(max(0, len(outcomes) - ENDED), len(outcomes)):
            self._ended(run, calm, outcomes[at], at)
        return outcomes

    def _strays(self, at: int) -> set[str]:
        return {STRAY} if any(fault.kind.strays for fault in self._faults[max(0, at - 1) : at + 1]) else set()

    def _one(self, run: Run, application: Application, at: int, fault: Fault) -> Outcome:
        part, kind = self._slices[at], fault.kind
        chosen = random.Random(f"{self._seed} {fault.number} {kind.name}")
        outcome = Outcome(fault.number, kind.name, hidden=len(part.records) - len(self._sent[at]))
        skew_ms = strayed(kind, chosen)
        seconds = chosen.uniform(*kind.seconds)
        delay = chosen.uniform(0.0, 2.0)
        run.publish(part.between(0, BEFORE))
        run.flushed()
        if kind.calm or not at:
            run.wait("not worked off", run.worked_off, START_SECONDS)
        time.sleep(delay)
        starts, began = run.monitor.starts, time.monotonic()
        over = began
        try:
            with kind.begin(Scene(run, part, chosen)):
                run.publish(_skewed(part.between(BEFORE, AFTER), skew_ms))
                time.sleep(seconds)
            over, counts = time.monotonic(), application.counts()
            first, *others = part.portions(AFTER)
            run.publish(first)
            run.flushed()
            self._recovered(run)
            outcome.recovery = time.monotonic() - over
            self._at_leisure(run, others)
            run.wait("the application does not go on", lambda: application.goes_on(counts), SHOWN_SECONDS)
        except HealthError as error:
            outcome.differences.append(f"not recovered: {error}")
            run.monitor.hold()
            run.monitor.release()
        if outcome.hidden and not _soon(lambda: run.metric("lost_records_total") == outcome.hidden):
            lost = run.metric("lost_records_total")
            outcome.differences.append(f"{lost or 0:.0f} records counted as lost, not {outcome.hidden}")
        outcome.lasted = over - began
        outcome.restarts = run.monitor.starts - starts
        return outcome

    def _at_leisure(self, run: Run, portions: Sequence[Sequence[Published]]) -> None:
        for portion in portions:
            run.publish(portion)
            run.flushed()
            run.wait("not worked off", run.worked_off, RECOVERY_SECONDS)

    def _recovered(self, run: Run) -> None:
        run.wait("not worked off", run.worked_off, RECOVERY_SECONDS)
        run.wait("not shown", lambda: not compare.shown(run), SHOWN_SECONDS)

    def _await_counts(self, run: Run, at: int) -> None:
        part, sent = self._slices[at], len(self._sent[at])
        deadline = time.monotonic() + SHOWN_SECONDS
        while compare.counted(run, part.begin_ms, part.end_ms)[0] < sent and time.monotonic() < deadline:
            run.nudge()
            time.sleep(NUDGE_SECONDS)

    def _check(self, run: Run, calm: Calculated, outcome: Outcome, at: int) -> None:
        part, strays = self._slices[at], self._strays(at)
        self._await_counts(run, at)
        begin_ms, end_ms = part.begin_ms - compare.FINAL_MS, part.end_ms - compare.FINAL_MS
        outcome.differences += compare.minutes(run.history, calm, begin_ms, end_ms, strays)
        outcome.differences += compare.verdicts(run.history, calm, part.begin_ms, end_ms, strays, False)
        if outcome.hidden:
            outcome.differences += compare.hidden(
                run.history, part.begin_ms + 1000 * BEFORE, part.begin_ms + 1000 * AFTER
            )
        outcome.differences += compare.strangers(run, self._slices)
        outcome.differences += compare.accounts(run, self._sent[at], part.begin_ms, part.end_ms)
        self._say(outcome.line)
        self._keep(outcome)

    def _ended(self, run: Run, calm: Calculated, outcome: Outcome, at: int) -> None:
        part = self._slices[at]
        strays = self._strays(at)
        differences = compare.verdicts(run.history, calm, part.begin_ms, part.end_ms, strays, True)
        if new := [difference for difference in differences if difference not in outcome.differences]:
            outcome.differences += new
            self._say(outcome.line)
        outcome.final = True
        self._keep(outcome)


def _soon(ready: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SOON_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def _skewed(records: Sequence[Published], skew_ms: int) -> Iterator[Published]:
    for record in records:
        if skew_ms and record.client == STRAY:
            document = json.loads(record.value)
            document["ts"] += skew_ms
            yield replace(record, value=json.dumps(document).encode())
        else:
            yield record
