"""Verdicts of failure modes on clients, and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

from clienthealth.model.readings import Source

Status = Literal["ok", "unknown", "suspected", "confirmed"]
EvidenceKind = Literal["metric", "log", "thread-dump", "absence"]
#: `partial`: no failure was found, but some modes could not be judged.
Standing = Literal["ok", "partial", "unknown", "suspected", "confirmed"]

#: All statuses in ascending rank. Of several statuses, the highest is shown.
STATUS_ORDER: tuple[Status, ...] = ("unknown", "ok", "suspected", "confirmed")
UNHEALTHY: tuple[Status, ...] = ("suspected", "confirmed")


def standing(statuses: Iterable[Status]) -> Standing:
    """Return a client's overall state from the statuses of its failure modes.

    With a failure, the state is the status of the worst failure. Without a failure, the state is `ok` if all modes are
    ok, `partial` if some modes are ok, and `unknown` if no mode is ok.
    """
    of_modes = frozenset(statuses)
    if of_modes.isdisjoint(UNHEALTHY):
        return "ok" if of_modes == {"ok"} else "partial" if "ok" in of_modes else "unknown"
    return "confirmed" if "confirmed" in of_modes else "suspected"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact behind a verdict, at `ts_ms` (epoch ms). `text`: a sentence with numbers and units.

    `source`: the input record that shows the fact, None if unknown.
    """

    kind: EvidenceKind
    ts_ms: int
    text: str
    source: Source | None = None


class Seen(msgspec.Struct, frozen=True, omit_defaults=True, rename={"first_ms": "first", "last_ms": "last"}):
    """A known issue in the log lines of a client or of its process. Known issues are not failure modes.

    `what`        id of the issue (`read/logs/also_seen.py`)
    `lines`       number of lines that show the issue, from `first_ms` to `last_ms` (epoch ms)
    `text`        the first line that shows the issue; `source` is the input record of this line
    `of_process`  True if the lines name no client: several clients of the process may have written them
    """

    what: str
    lines: int
    first_ms: int
    last_ms: int
    text: str
    source: Source | None
    of_process: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """The number of effects of a fault (such as lost records) in each half minute.

    `name`        the key under which `Verdict.detail` has the value of `total`. The true number of effects may be
                  larger than `total`
    `kind`        kind of the evidence; if two kinds of evidence count the same effects, the larger number is used
    `slots`       maps the start of a half minute (epoch ms) to the number of effects in it
    `settled`     number of effects before `settled_ms`; this number no longer changes
    `settled_ms`  the time (epoch ms) from which `slots` counts the effects
    """

    name: str
    kind: EvidenceKind
    slots: Mapping[int, float]
    settled: float = 0.0
    settled_ms: int = 0

    @property
    def total(self) -> float:
        """The number of effects: `settled` plus the sum of `slots`."""
        return self.settled + sum(self.slots.values())


class Proof(NamedTuple):
    """What one fact (piece of evidence) of a verdict proves.

    `kind`          kind of the evidence
    `direct`        True if the fact proves the failure by itself
    `circumstance`  name of the circumstance that must hold for the proof (`modes/circumstances.py`), '' if none
    `holds`         True if the circumstance holds, False if it does not, None if unknown
    `why`           the reason for the value of `holds`, in words
    """

    kind: EvidenceKind
    direct: bool
    circumstance: str = ""
    holds: bool | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one failure mode on one client. `since_ms`: the failure's onset (epoch ms).

    `reason`: why the status is `unknown`. `counts`: numbers of effects in each half minute; `detail` has their sums.
    `adjusted`: names of the adjustments (`monitor/adjust.py`) that changed this verdict, in order. `ruled_out`:
    innocent explanations that data refutes, with the refutation. `not_ruled_out`: innocent explanations that may be
    true, each with the data that would show whether it is true. `proofs`: what each piece of evidence proves.
    """

    mode: str
    status: Status
    since_ms: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None
    counts: tuple[Count, ...] = ()
    adjusted: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    not_ruled_out: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()

    @property
    def unhealthy(self) -> bool:
        """True if the verdict reports a failure."""
        return self.status in UNHEALTHY
