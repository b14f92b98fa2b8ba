"""What is concluded of a client: the verdict of a failure mode, and the evidence that it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from clienthealth.model.readings import Source

Status = Literal["ok", "unknown", "suspected", "confirmed"]
EvidenceKind = Literal["metric", "log", "thread-dump", "absence"]
#: How a client is on the whole. `partial`: nothing was found, and not every mode could be judged.
Standing = Literal["ok", "partial", "unknown", "suspected", "confirmed"]

#: From harmless to certain; of two judgements of one moment the later in this order holds.
STATUS_ORDER: tuple[Status, ...] = ("unknown", "ok", "suspected", "confirmed")
#: Those that say that something is wrong.
UNHEALTHY: tuple[Status, ...] = ("suspected", "confirmed")


def standing(statuses: Iterable[Status]) -> Standing:
    """How a client is, of which the modes say this: `ok` only where every mode was judged, `unknown` where none was."""
    of_modes = frozenset(statuses)
    if of_modes.isdisjoint(UNHEALTHY):
        return "ok" if of_modes == {"ok"} else "partial" if "ok" in of_modes else "unknown"
    return "confirmed" if "confirmed" in of_modes else "suspected"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a verdict rests on, in words a tired person understands, with numbers and units."""

    kind: EvidenceKind
    ts_ms: int
    text: str
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Trouble that no failure mode is about, counted by the client's own lines. It changes no verdict.

    what        its id (`logs/also_seen.py`)
    lines       how many, from `first_ms` to `last_ms`
    text        the first of them, and the input record that it was read from
    of_process  the lines name no client, and can be of several of the process
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
    """What was counted of a fault, by the half minute in which it happened: windows overlap, and count it once.

    name       in `detail`, where the sum stands: at least so many
    kind       what it was counted in; two kinds see the same, so that the greater sum holds
    slots      by begin of the half minute (epoch ms)
    settled    the sum of those before `settled_ms`, which no window reaches any more
    """

    name: str
    kind: EvidenceKind
    slots: Mapping[int, float]
    settled: float = 0.0
    settled_ms: int = 0

    @property
    def total(self) -> float:
        """The sum."""
        return self.settled + sum(self.slots.values())


class Proof(NamedTuple):
    """What one fact of a verdict proves.

    direct        it proves the failure by itself
    circumstance  what it needs for that (`modes/circumstances.py`), '' where nothing; holds: does it, None: not known
    why           it holds, or is not known
    """

    kind: EvidenceKind
    direct: bool
    circumstance: str = ""
    holds: bool | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one mode on one client. `since_ms`: onset. `reason`: why it is `unknown`.

    `counts`: what the sums in `detail` are made of. `adjusted`: names of the adjustments (`monitor/adjust.py`) that
    changed it after the judge, in their order. `ruled_out`: innocent explanations that data refutes, each with what
    refutes it; `not_ruled_out`: those that nothing refutes, each with what would settle it. `proofs`: of its
    facts, for the adjustment that finds these two.
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
        """Does it say that something is wrong."""
        return self.status in UNHEALTHY
