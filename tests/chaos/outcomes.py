"""Store the outcomes of faults, so that a campaign can be resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from clienthealth.model.errors import InputError
from tests.bench.results import conditions
from tests.chaos.faults import Fault


@dataclass
class Outcome:
    """The outcome of a fault. `recovery` is the time (s) from the fault's end to the monitor's recovery.

    `hidden` is the number of records that the fault deleted before the monitor read them.
    """

    number: int
    kind: str
    lasted: float = 0.0
    recovery: float = 0.0
    restarts: int = 0
    hidden: int = 0
    differences: list[str] = field(default_factory=list)
    final: bool = False
    again: int = 0

    @property
    def passed(self) -> bool:
        return not self.differences

    @property
    def line(self) -> str:
        what = "ok" if self.passed else f"{len(self.differences)} differences"
        restarts = f", {self.restarts} restarts" if self.restarts else ""
        text = f"{self.number + 1:>3}  {self.kind:<20} {self.lasted:5.1f} s"
        text += f"  recovered in {self.recovery:5.1f} s{restarts}  {what}"
        return "\n".join([text, *(f"      {difference.splitlines()[0]}" for difference in self.differences[:12])])


class Outcomes:
    def __init__(self, file: Path, seed: int, faults: Sequence[Fault]) -> None:
        self._file = file
        self._campaign = {"seed": seed, "kinds": [fault.kind.name for fault in faults]}
        self._of: dict[int, Outcome] = {}
        self.seconds, self.load = 0.0, os.getloadavg()[0]
        self.conditions: dict[str, str] = {}

    def resume(self) -> None:
        if not self._file.exists():
            return
        document = json.loads(self._file.read_text(encoding="utf-8"))
        if document["campaign"] != self._campaign:
            raise InputError(f"{self._file} belongs to a campaign with other faults: leave out --resume to start again")
        self._of = {one["number"]: Outcome(**one) for one in document["outcomes"]}
        self.seconds, self.load, self.conditions = document["seconds"], document["load"], document["conditions"]

    def todo(self, faults: Sequence[Fault]) -> list[Fault]:
        done = {number for number, outcome in self._of.items() if outcome.final and outcome.passed}
        return [fault for fault in faults if fault.number not in done]

    def keep(self, outcome: Outcome) -> None:
        before = self._of.get(outcome.number)
        if before is not None and before is not outcome:
            outcome.again = before.again + (not before.passed)
        self._of[outcome.number] = outcome
        self.conditions = conditions(self.load, self.seconds)
        document = {"seconds": self.seconds, "load": self.load, "conditions": self.conditions}
        whole = {"campaign": self._campaign, **document, "outcomes": [asdict(one) for one in self.all]}
        self._file.write_text(json.dumps(whole, indent=1), encoding="utf-8")

    @property
    def all(self) -> list[Outcome]:
        return [self._of[number] for number in sorted(self._of)]
