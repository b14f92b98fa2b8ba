"""A campaign: an undisturbed run of the input, then the same input while one fault after the other strikes."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clienthealth.errors import HealthError
from tests.chaos import compare
from tests.chaos.application import Application
from tests.chaos.faults import AFTER, BEFORE, Kind, Scene, strayed
from tests.chaos.load import SECONDS, Published, fleet_client, slices
from tests.chaos.world import Cluster, Run

#: Whose clock jumps.
STRAY = fleet_client(15)
START_SECONDS, RECOVERY_SECONDS, TOLD_SECONDS = 400.0, 400.0, 120.0
SOON_SECONDS = 30.0
#: So many slices are an undisturbed batch.
TOGETHER = 4
#: What has been read is written to the history every 20 s, with a batch.
NUDGE_SECONDS = 2.0


@dataclass
class Outcome:
    """What became of a fault. `recovery`: seconds from its end until all was worked off and shown again."""

    number: int
    kind: str
    lasted: float
    recovery: float = 0.0
    restarts: int = 0
    hidden: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Is all that was told the same."""
        return not self.differences


class Campaign:
    """Faults in their order over an input; `say` is told each outcome in one line.

    `hurried`: both monitors start at the same time, which is quicker for few faults.
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        faults: Sequence[Kind],
        seed: int,
        say: Callable[[str], None],
        hurried: bool = False,
    ) -> None:
        self._cluster, self._folder, self._faults, self._seed, self._say = cluster, folder, faults, seed, say
        # One slice more than faults, in which what is left of the last one ends.
        length = 1000 * SECONDS * (len(faults) + 1)
        self._slices = slices(seed, len(faults) + 1, (int(time.time() * 1000) - length) // 60_000 * 60_000 - 300_000)
        self._hurried = hurried
        self._sent: dict[int, list[Published]] = {}
        #: Of the faults so far.
        self.outcomes: list[Outcome] = []

    @property
    def begin_ms(self) -> int:
        """The time at which the input begins, epoch ms."""
        return self._slices[0].begin_ms

    def run(self) -> list[Outcome]:
        """All of it. Raises HealthError where the undisturbed run already fails."""
        with (
            Run(self._cluster, "calm", self._folder / "calm") as calm,
            Run(self._cluster, "tried", self._folder / "tried") as tried,
        ):
            if self._hurried:
                tried.monitor.release()
            began = time.monotonic()
            self._undisturbed(calm)
            self._say(f"the undisturbed run of {len(self._slices)} slices took {time.monotonic() - began:.0f} s")
            tried.monitor.release()
            tried.exporter.release()
            with Application(tried.settings, self._folder) as application:
                self._tried(tried, calm, application)
                self.outcomes[-1].differences += application.end()
            return self.outcomes

    def _undisturbed(self, calm: Run) -> None:
        calm.monitor.release()
        for number, part in enumerate(self._slices):
            kind = self._faults[number] if number < len(self._faults) else None
            kept = part.records
            if kind is not None and kind.hides:
                lost = {id(record) for record in part.between(BEFORE, AFTER)}
                kept = tuple(record for record in kept if id(record) not in lost)
            self._sent[number] = list(kept)
            if part is self._slices[-1]:
                self._at_leisure(calm, part.portions(0))
                break
            calm.publish(kept)
            if number % TOGETHER == TOGETHER - 1:
                calm.flushed()
                calm.wait("not worked off", calm.worked_off, START_SECONDS)
        for number in self._sent:
            self._told_all(calm, number)
        calm.monitor.stop()
        wrong = [*compare.strangers(calm, self._slices), *self._incomplete(calm)]
        if wrong:
            raise HealthError(f"the undisturbed run tells what it should not: {'; '.join(wrong)}")

    def _incomplete(self, calm: Run) -> Iterator[str]:
        for number, part in enumerate(self._slices):
            yield from compare.accounts(calm, self._sent[number], part.begin_ms, part.end_ms)

    def _tried(self, run: Run, calm: Run, application: Application) -> None:
        for number, kind in enumerate(self._faults):
            outcome = self._one(run, application, number, kind)
            self._check(run, calm, outcome, number)
            self.outcomes.append(outcome)
            self._say(line(outcome, len(self._faults)))
        self._at_leisure(run, self._slices[-1].portions(0))
        for outcome in self.outcomes:
            part = self._slices[outcome.number]
            found = compare.verdicts(run, calm, part.begin_ms, part.end_ms, self._strays(outcome.number), True)
            if new := [difference for difference in found if difference not in outcome.differences]:
                outcome.differences += new
                self._say(line(outcome, len(self._faults)))

    def _strays(self, number: int) -> set[str]:
        """The clients whose clock is wrong, or was in the slice before."""
        return {STRAY} if any(kind.strays for kind in self._faults[max(0, number - 1) : number + 1]) else set()

    def _one(self, run: Run, application: Application, number: int, kind: Kind) -> Outcome:
        part, chosen = self._slices[number], random.Random(f"{self._seed} {number} {kind.name}")
        outcome = Outcome(number, kind.name, 0.0, hidden=len(part.records) - len(self._sent[number]))
        skew_ms = strayed(kind, chosen)
        seconds = chosen.uniform(*kind.seconds)
        delay = chosen.uniform(0.0, 2.0)
        run.publish(part.between(0, BEFORE))
        run.flushed()
        if kind.calm or not number:
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
            run.wait("the application does not go on", lambda: application.goes_on(counts), TOLD_SECONDS)
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
        """Publish each when the one before is worked off."""
        for portion in portions:
            run.publish(portion)
            run.flushed()
            run.wait("not worked off", run.worked_off, RECOVERY_SECONDS)

    def _recovered(self, run: Run) -> None:
        run.wait("not worked off", run.worked_off, RECOVERY_SECONDS)
        run.wait("not shown", lambda: not compare.shown(run), TOLD_SECONDS)

    def _told_all(self, run: Run, number: int) -> None:
        """Wait until what was read of a slice is in the history: that is for the batch after 20 s."""
        part, sent = self._slices[number], len(self._sent[number])
        deadline = time.monotonic() + TOLD_SECONDS
        while compare.counted(run, part.begin_ms, part.end_ms)[0] < sent and time.monotonic() < deadline:
            run.nudge()
            time.sleep(NUDGE_SECONDS)

    def _check(self, run: Run, calm: Run, outcome: Outcome, number: int) -> None:
        part, strays = self._slices[number], self._strays(number)
        self._told_all(run, number)
        begin_ms, end_ms = part.begin_ms - compare.FINAL_MS, part.end_ms - compare.FINAL_MS
        outcome.differences += compare.minutes(run, calm, begin_ms, end_ms, strays)
        outcome.differences += compare.verdicts(run, calm, part.begin_ms, end_ms, strays, False)
        if outcome.hidden:
            outcome.differences += compare.hidden(run, part.begin_ms + 1000 * BEFORE, part.begin_ms + 1000 * AFTER)
        outcome.differences += compare.strangers(run, self._slices)
        outcome.differences += compare.accounts(run, self._sent[number], part.begin_ms, part.end_ms)


def _soon(ready: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SOON_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def _skewed(records: Sequence[Published], skew_ms: int) -> Iterator[Published]:
    """Records, those of one client with a wrong time."""
    for record in records:
        if skew_ms and record.who == STRAY:
            document = json.loads(record.value)
            document["ts"] += skew_ms
            yield dataclasses.replace(record, value=json.dumps(document).encode())
        else:
            yield record


def line(outcome: Outcome, count: int) -> str:
    """An outcome for the terminal."""
    what = "ok" if outcome.passed else f"{len(outcome.differences)} differences"
    restarts = f", {outcome.restarts} restarts" if outcome.restarts else ""
    text = f"{outcome.number + 1:>3} of {count}  {outcome.kind:<20} {outcome.lasted:5.1f} s"
    text += f"  recovered in {outcome.recovery:5.1f} s{restarts}  {what}"
    return "\n".join([text, *(f"      {difference.splitlines()[0]}" for difference in outcome.differences[:12])])
