"""The documented failure modes: one file each, whose name (with hyphens) is the mode's id everywhere.

The id is the metric label, the name of the runbook, the argument on the command line. The files of this folder are
found by themselves: there is no list to keep.

Each condition on metrics is stated once, as a function of arrays of windows: the gate asks it of the windows of all
clients, and what passes goes to the judge, which asks the same function of one window and finds the words.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clienthealth.model.clients import Kind
from clienthealth.model.readings import ClientWindow
from clienthealth.model.verdicts import EvidenceKind, Verdict
from clienthealth.settings.fields import Checked, setting
from clienthealth.windows.columns import Bools
from clienthealth.windows.view import MIN_READINGS, Windows

__all__ = ["FEW", "MIN_READINGS", "FailureMode", "Gate", "Judge", "Texts", "first_reason", "modes", "threshold"]

FEW = f"fewer than {MIN_READINGS} readings"
#: A field of a class of thresholds: its default, the reason for it, its bounds.
threshold = setting
#: One text per window; empty where it does not apply.
Texts = NDArray[np.object_]


class Judge(Protocol):
    """The judgement of a mode: pure, with the clock passed in."""

    def __call__(self, window: ClientWindow, now_ms: int, thresholds: Any) -> Verdict: ...


@dataclass(frozen=True)
class Gate:
    """What the metrics of many windows say of a mode: which must be judged, and which cannot be.

    blind     windows, thresholds → why the mode cannot be judged by metrics, '' where it can; the judge asks it too
    suspects  windows, thresholds → must it be judged: true wherever `judge` is neither ok nor unknown on metrics alone;
              None where metrics cannot show the mode at all
    """

    blind: Callable[[Windows, Any], Texts]
    suspects: Callable[[Windows, Any], Bools] | None = None

    def reasons(self, w: Windows, thresholds: Any) -> Texts:
        """Why the mode cannot be judged by metrics: too few readings, or what `blind` says; '' where it can."""
        found = self.blind(w, thresholds)
        found[w.samples < MIN_READINGS] = FEW
        return found

    def reason(self, w: Windows, thresholds: Any) -> str | None:
        """`reasons` of one window, as a verdict has it."""
        found: str = self.reasons(w, thresholds)[0]
        return found or None

    def suspected(self, w: Windows, thresholds: Any) -> Bools:
        """Which windows a judge must see for their metrics."""
        return np.zeros(len(w), np.bool_) if self.suspects is None else self.suspects(w, thresholds)


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
    gate           the same conditions over many windows; None where the mode speaks of clients that are gone
    recovered      window, thresholds → does the newest window of a client show that the fault is over? None where
                   it is enough that nothing speaks of it any more
    relief         signatures of lines that speak of the mode's end; all others of the mode are symptoms
    loses          it is found only where records are lost, also where nobody counted them: `detail.lost_records` and
                   `lost_bytes` tell at least and at most, where known
    explains       modes whose symptoms it shows too: while it is found, they are not found of the same client
    """

    id: str
    title: str
    summary: str
    impact: str
    action: str
    kinds: frozenset[Kind]
    evidence: tuple[EvidenceKind, ...]
    thresholds: Checked
    confused_with: tuple[str, ...]
    judge: Judge
    gate: Gate | None
    recovered: Callable[[ClientWindow, Any], bool] | None = None
    relief: frozenset[str] = frozenset()
    explains: frozenset[str] = frozenset()
    loses: bool = False

    @property
    def absence(self) -> bool:
        """Does it speak of clients that are gone? Then it is judged when a session ends, not while it lasts."""
        return self.gate is None


def first_reason(size: int, *cases: tuple[str, Bools]) -> Texts:
    """For each of so many windows the first text that applies, '' where none does."""
    found = np.full(size, "", np.object_)
    for text, applies in reversed(cases):
        found[applies] = text
    return found


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
