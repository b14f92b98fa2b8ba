"""The documented failure modes: one file each, whose name (with hyphens) is the mode's id everywhere.

The id is the metric label, the name of the runbook, the argument on the command line. The files of this folder are
found by themselves: there is no list to keep. Nothing here imports pyspark when it is imported.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from clienthealth.records import ClientWindow, EvidenceKind, Kind, Verdict

if TYPE_CHECKING:
    from pyspark.sql import Column

    from clienthealth.windows import WindowColumns

#: With fewer readings in a window a mode cannot be judged by metrics.
MIN_READINGS = 3


class Judge(Protocol):
    """The judgement of a mode: pure, with the clock passed in."""

    def __call__(self, window: ClientWindow, now_ms: int, thresholds: Any) -> Verdict: ...


@dataclass(frozen=True)
class FailureMode:
    """All that merely restates a failure mode: its catalogue entry, alert, dashboard row and help are made from this.

    id             hyphenated; the file's name has underscores instead
    title          a few words, for headings
    summary        one sentence that ends with a period: what is wrong with the client (the alert's summary)
    impact         one sentence: what it costs
    action         one sentence: what to do now
    kinds          the kinds of client that it can befall; others are not judged
    evidence       the kinds of evidence that it can have
    thresholds     a frozen dataclass instance: every number that the judgement uses, with its reason as field metadata
    confused_with  what only looks like it, and how it is told apart
    judge          window, now_ms, thresholds → Verdict
    suspects       columns of a window, thresholds → boolean column; true whenever `judge` is neither ok nor unknown
    blind          columns of a window, thresholds → string column: why the mode cannot be judged, null where it can
    absence        the mode speaks of clients that are gone: judged when a session ends, not while it lasts
    """

    id: str
    title: str
    summary: str
    impact: str
    action: str
    kinds: frozenset[Kind]
    evidence: tuple[EvidenceKind, ...]
    thresholds: Any
    confused_with: tuple[str, ...]
    judge: Judge
    suspects: Callable[[WindowColumns, Any], Column]
    blind: Callable[[WindowColumns, Any], Column]
    absence: bool = False


def threshold(default: Any, reason: str) -> Any:
    """A field of a thresholds dataclass: its default value and the reason for it."""
    return dataclasses.field(default=default, metadata={"reason": reason})


@cache
def modes() -> Mapping[str, FailureMode]:
    """All failure modes by id, in alphabetical order."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        mode = getattr(importlib.import_module(f"{__name__}.{module.name}"), "MODE", None)
        if mode is not None:
            if mode.id != module.name.replace("_", "-"):
                raise ValueError(f"mode {mode.id} must live in modes/{mode.id.replace('-', '_')}.py")
            found[mode.id] = mode
    return dict(sorted(found.items()))
