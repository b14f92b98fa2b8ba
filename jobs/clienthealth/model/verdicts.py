"""What is concluded of a client: the verdict of a failure mode, and the evidence that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clienthealth.model.readings import Source

Status = Literal["ok", "unknown", "suspected", "confirmed"]
EvidenceKind = Literal["metric", "log", "thread-dump", "absence"]

#: From harmless to certain; of two judgements of one moment the later in this order holds.
STATUS_ORDER: tuple[Status, ...] = ("unknown", "ok", "suspected", "confirmed")
#: Those that say that something is wrong.
UNHEALTHY: tuple[Status, ...] = ("suspected", "confirmed")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a verdict rests on, in words a tired person understands, with numbers and units."""

    kind: EvidenceKind
    ts_ms: int
    text: str
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one mode on one client. `since_ms`: onset. `reason`: why it is `unknown`."""

    mode: str
    status: Status
    since_ms: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None

    @property
    def unhealthy(self) -> bool:
        """Does it say that something is wrong."""
        return self.status in UNHEALTHY
