"""The documented failure modes: one folder each, whose name, with hyphens, is the mode's id everywhere.

The id is the metric label, the name of the runbook, the argument on the command line. Modes are found by themselves:
there is no list to keep. All that is said of a mode stands in its folder.

Each condition on metrics is stated once, as a function of arrays of windows. The gate evaluates it for the windows of
all clients. A window that it suspects goes to the judge, which evaluates the same function for this window and words
the evidence.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools
from clienthealth.measure.view import MIN_READINGS as MIN_READINGS
from clienthealth.measure.view import Windows
from clienthealth.model.errors import CatalogueError
from clienthealth.model.verdicts import Verdict
from clienthealth.modes._looks import Look as Look
from clienthealth.modes._looks import TwoReadings as TwoReadings
from clienthealth.modes._looks import unmeasured
from clienthealth.modes.facts import Cause, Facts, of_library
from clienthealth.modes.facts import Limits as Limits
from clienthealth.modes.facts import mode_file as mode_file
from clienthealth.read.logs.also_seen import TROUBLES
from clienthealth.read.logs.self_descriptions import SELF_DESCRIPTIONS
from clienthealth.read.logs.wordings import Catalogue, Meaning
from clienthealth.settings.fields import Checked

#: The thresholds of a mode: a frozen dataclass of its own.
T = TypeVar("T", bound=Checked)

FEW = f"fewer than {MIN_READINGS} readings"
#: One text per window; empty where it does not apply.
Texts = NDArray[np.object_]


@dataclass(frozen=True)
class Gate(Generic[T]):
    """What the metrics of many windows say of a mode: which must be judged, and which cannot be.

    blind     windows, thresholds → why the mode cannot be judged by metrics, '' where it can; the judge asks it too
    suspects  windows, thresholds → must it be judged: true wherever `judge` is neither ok nor unknown on metrics alone
    """

    blind: Callable[[Windows, T], Texts]
    suspects: Callable[[Windows, T], Bools]

    def reasons(self, w: Windows, thresholds: T) -> Texts:
        """Why the mode cannot be judged by metrics: too few readings, or what `blind` says; '' where it can."""
        texts = self.blind(w, thresholds)
        texts[w.samples < MIN_READINGS] = FEW
        return texts

    def reason(self, w: Windows, thresholds: T) -> str | None:
        """`reasons` of one window, as a verdict has it."""
        text: str = self.reasons(w, thresholds)[0]
        return text or None


@dataclass(frozen=True)
class Told:
    """What a verdict means for the person who reads it. `cause`: why ('': nobody knows); `first`: before the remedy."""

    title: str
    summary: str
    cause: str
    first: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class FailureMode(Facts, Generic[T]):
    """A failure mode: what its file says, and its rules. Its catalogue entry, alert, dashboard and help are made of it.

    id             hyphenated; the folder's name has underscores instead
    thresholds     every number that the judgement uses, with its reason and bounds
    judge          window, thresholds → Verdict
    lines          what log lines say of it, or of its end
    reads          the lines that the judge looks at, of whatever mode they are
    doubt          all that there is of a client that is looked at once → why the mode cannot be called absent, '' where
                   it can
    worth_a_dump   two readings, thresholds → what in them only a thread dump could explain, in words
    explicable     verdict → may another mode explain it?
    """

    #: Does it speak of clients that are gone? Then it is judged when a session ends, not while it lasts.
    absence: ClassVar[bool]

    id: str
    thresholds: T
    judge: Callable[[ClientWindow, T], Verdict]
    lines: tuple[Meaning, ...]
    reads: tuple[Meaning, ...]
    explicable: Callable[[Verdict], bool] = lambda verdict: True
    doubt: Callable[[Look], str] = unmeasured
    worth_a_dump: Callable[[TwoReadings, T], Iterable[str]] = lambda readings, thresholds: ()

    @property
    def symptoms(self) -> frozenset[str]:
        """Ids of the wordings that speak of the mode and not of its end: they keep its incident open."""
        return frozenset().union(*(meaning.ids for meaning in self.lines if not meaning.relief))

    @property
    def advice(self) -> str:
        """What to do, where nothing is known of the cause or the library."""
        return f"{self.first} {self.action}".lstrip()

    def told(self, verdict: Verdict, library: str | None) -> Told:
        """What a verdict means where this library runs.

        What cannot be undone (ending the process) is advised only where the verdict is confirmed; what is to be done
        before that, only where no dump has shown it.
        """
        cause = self.cause(verdict) or Cause("")
        remedy = cause.advice_for(library or "", verdict.detail) or self.action
        if cause.lasts and (until_then := of_library(self.until_then, library or "")):
            remedy = f"{remedy} {until_then}"
        if self.caution and verdict.status != "confirmed":
            remedy = self.caution
        dumped = any(fact.kind == "thread-dump" for fact in verdict.evidence)
        return Told(
            title=cause.title or self.title,
            summary=cause.summary or self.summary,
            cause=cause.why(verdict.detail),
            first="" if dumped else self.first,
            remedy=remedy,
        )

    def cause(self, verdict: Verdict) -> Cause | None:
        """Why what the verdict says happens; None where nobody knows."""
        name = str(verdict.detail.get("cause") or "")
        return next((cause for cause in self.causes if cause.id == name), None)

    def with_thresholds(self, changes: Mapping[str, float]) -> Self:
        """The mode with other thresholds. Raises SettingsError where one is out of its bounds."""
        return replace(self, thresholds=replace(self.thresholds, **changes)) if changes else self


@dataclass(frozen=True, kw_only=True)
class LiveMode(FailureMode[T]):
    """A mode that befalls clients that report.

    gate       what its judge says of metrics, over many windows
    recovered  window, thresholds → does the newest window of a client show that the fault is over? None where it is
               enough that nothing speaks of it any more
    silence    window of its end with all that its process said since, thresholds → what it says that a client reports
               no more; None where that says nothing of the mode
    """

    absence: ClassVar[bool] = False

    gate: Gate[T]
    recovered: Callable[[ClientWindow, T], bool] | None = None
    silence: Callable[[ClientWindow, T], Verdict | None] | None = None


@dataclass(frozen=True, kw_only=True)
class AbsenceMode(FailureMode[T]):
    """A mode that shows when a client has gone."""

    absence: ClassVar[bool] = True

    doubt: Callable[[Look], str] = lambda look: ""


#: A mode, whatever its thresholds are.
Mode = LiveMode[Any] | AbsenceMode[Any]


def first_reason(size: int, *cases: tuple[str, Bools]) -> Texts:
    """For each of so many windows the first text that applies, '' where none does."""
    reasons = np.full(size, "", np.object_)
    for text, applies in reversed(cases):
        reasons[applies] = text
    return reasons


@cache
def modes() -> Mapping[str, Mode]:
    """All failure modes by id, in alphabetical order."""
    folders = sorted(folder.name for folder in files(__name__).iterdir() if (folder / "mode.toml").is_file())
    rules = (importlib.import_module(f"{__name__}.{folder}.rules") for folder in folders)
    by_id: dict[str, Mode] = {module.MODE.id: module.MODE for module in rules}
    for mode in by_id.values():
        if unknown := mode.explains - by_id.keys():
            raise CatalogueError(f"mode.toml of {mode.id}: it explains {min(unknown)}, and there is no such mode")
    return by_id


@cache
def catalogue() -> Catalogue:
    """Every log line that a mode knows, those in which clients say what they are, and those of trouble that no mode is
    about; compiled once per process.
    """
    return Catalogue([*(line for mode in modes().values() for line in mode.lines), *SELF_DESCRIPTIONS, *TROUBLES])
