"""Verdicts of failure modes on clients, and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from clienthealth.model.readings import Source

Status = Literal["ok", "unknown", "suspected", "confirmed"]
EvidenceKind = Literal["metric", "log", "thread-dump", "absence"]
#: Overall state of a client. `partial`: nothing was found, but not every mode could be judged.
Standing = Literal["ok", "partial", "unknown", "suspected", "confirmed"]

#: From harmless to certain; of two verdicts of one moment the later in this order holds.
STATUS_ORDER: tuple[Status, ...] = ("unknown", "ok", "suspected", "confirmed")
#: Statuses of a failure.
UNHEALTHY: tuple[Status, ...] = ("suspected", "confirmed")


def standing(statuses: Iterable[Status]) -> Standing:
    """Return a client's state from its modes' statuses: `ok` only if every mode was judged, `unknown` if none was."""
    of_modes = frozenset(statuses)
    if of_modes.isdisjoint(UNHEALTHY):
        return "ok" if of_modes == {"ok"} else "partial" if "ok" in of_modes else "unknown"
    return "confirmed" if "confirmed" in of_modes else "suspected"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact behind a verdict, in words a tired person understands, with numbers and units."""

    kind: EvidenceKind
    ts_ms: int
    text: str
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A known issue that no failure mode covers, counted by the client's own lines. It changes no verdict.

    what        its id (`logs/also_seen.py`)
    lines       how many, from `first_ms` to `last_ms`
    text        the first of them, and its input record
    of_process  the lines name no client, and may come from several of the process
    """

    what: str
    lines: int
    first_ms: int
    last_ms: int
    text: str
    source: Source | None = None
    of_process: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """The count of an effect of a fault by half minutes: windows overlap, and count it once.

    name       key in `detail` of the sum, a lower bound
    kind       its source; two sources see the same effect, so the greater sum holds
    slots      by begin of the half minute (epoch ms)
    settled    the sum before `settled_ms`, which no window reaches any more
    """

    name: str
    kind: EvidenceKind
    slots: Mapping[int, float]
    settled: float = 0.0
    settled_ms: int = 0

    @property
    def total(self) -> float:
        """Return the sum."""
        return self.settled + sum(self.slots.values())


class Proof(NamedTuple):
    """What one fact of a verdict proves.

    direct        it proves the failure by itself
    circumstance  the circumstance that it requires (`modes/circumstances.py`), '' if none; holds: None: unknown
    why           it holds, or is unknown
    """

    kind: EvidenceKind
    direct: bool
    circumstance: str = ""
    holds: bool | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one mode on one client. `since_ms`: onset. `reason`: why it is `unknown`.

    `counts`: the parts of the sums in `detail`. `adjusted`: names of the adjustments (`monitor/adjust.py`) that changed
    it after the judge, in their order. `ruled_out`: innocent explanations that data refutes, each with its refutation;
    `not_ruled_out`: the others, each with what would settle it. `proofs`: of its facts, for the adjustment that finds
    these two.
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
        """True if it reports a failure."""
        return self.status in UNHEALTHY
