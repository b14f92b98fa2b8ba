"""The documented failure modes: one folder (or file) each, whose name, with hyphens, is the mode's id everywhere.

The id is the metric label, the name of the runbook, the argument on the command line. Modes are found by themselves:
there is no list to keep. All that is said of a mode stands in its folder.

Each condition on metrics is stated once, as a function of arrays of windows. The gate evaluates it for the windows of
all clients. A window that it suspects goes to the judge, which evaluates the same function for this window and words
the evidence.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from clienthealth.logs.also_seen import TROUBLES
from clienthealth.logs.self_descriptions import SELF_DESCRIPTIONS
from clienthealth.logs.wordings import Catalogue, Meaning
from clienthealth.model.clients import Kind
from clienthealth.model.verdicts import EvidenceKind, Verdict
from clienthealth.modes._causes import Cause
from clienthealth.modes._once import Look, unmeasured
from clienthealth.modes._two_readings import TwoReadings
from clienthealth.settings.fields import Checked, setting
from clienthealth.windows.client_window import ClientWindow
from clienthealth.windows.columns import Bools
from clienthealth.windows.view import MIN_READINGS, Windows

__all__ = [
    "FEW",
    "MIN_READINGS",
    "AbsenceMode",
    "Alerting",
    "Cause",
    "FailureMode",
    "Gate",
    "LiveMode",
    "Look",
    "Mode",
    "Texts",
    "TwoReadings",
    "catalogue",
    "first_reason",
    "modes",
    "threshold",
]

#: The thresholds of a mode: a frozen dataclass of its own.
T = TypeVar("T", bound=Checked)

FEW = f"fewer than {MIN_READINGS} readings"
#: A field of a class of thresholds: its default, the reason for it, its bounds.
threshold = setting
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
class Alerting:
    """The alert of a mode in one status. `hold`: how long the status lasts first, as Prometheus has it; '': at once.

    severity: critical pages, warning opens a ticket, info is routed to nobody.
    """

    severity: Literal["critical", "warning", "info"]
    hold: str = ""


@dataclass(frozen=True)
class Told:
    """What a verdict means for the person who reads it. `cause`: why ('': nobody knows); `first`: before the remedy."""

    title: str
    summary: str
    cause: str
    first: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class FailureMode(Generic[T]):
    """All that merely restates a failure mode: its catalogue entry, alert, dashboard row and help are made from this.

    id             hyphenated; the file's name has underscores instead
    title          a few words, for headings
    summary        one sentence that ends with a period: what is wrong with the client (the alert's summary)
    impact         one sentence: what it costs
    first          one sentence: what to do before the action, which would undo it; '' where there is nothing
    action         one sentence: what to do now
    caution        what to do instead as long as it is only suspected, where the action cannot be undone
    kinds          the kinds of client that it can befall; others are not judged
    evidence       the kinds of evidence that it can have
    thresholds     every number that the judgement uses, with its reason and bounds
    confused_with  what only looks like it, and how it is told apart
    causes         what it can come of, as `detail.cause` says
    judge          window, thresholds → Verdict
    lines          what log lines say of it, or of its end
    reads          the lines that the judge looks at, of whatever mode they are
    loses          it is found only where records are lost, also where nobody counted them: `detail.lost_records` and
                   `lost_bytes` tell at least and at most, where known
    doubt          all that there is of a client that is looked at once → why the mode cannot be called absent, '' where
                   it can
    sums           names in `detail` of what is counted over the whole incident (`Verdict.counts`): at least so many
    peaks          names in `detail` of which the greatest over the incident holds
    momentary      names in `detail` that hold only as long as the newest window says them
    needs_times    why lines that nobody has timed cannot prove it, '' where they can
    worth_a_dump   two readings, thresholds → what in them only a thread dump could explain, in words
    explains       modes whose symptoms it shows too: while it is found, they are not found of the same client
    explicable     verdict → may another mode explain it?
    logs_on        its process logs as long as it lasts: one that logs no more has gone
    confirmed      its alert once it is confirmed: the job has weighed the evidence, so nothing more is waited for
    suspected      its alert while it is suspected: indirect evidence often clears by itself within a minute or two
    panels         further panels of its dashboard: names of functions of dashboards/panels/measurements
    """

    #: Does it speak of clients that are gone? Then it is judged when a session ends, not while it lasts.
    absence: ClassVar[bool]

    id: str
    title: str
    summary: str
    impact: str
    action: str
    kinds: frozenset[Kind]
    evidence: tuple[EvidenceKind, ...]
    thresholds: T
    confused_with: tuple[str, ...]
    judge: Callable[[ClientWindow, T], Verdict]
    causes: tuple[Cause, ...] = ()
    caution: str = ""
    first: str = ""
    lines: tuple[Meaning, ...] = ()
    reads: tuple[Meaning, ...] = ()
    explains: frozenset[str] = frozenset()
    explicable: Callable[[Verdict], bool] = lambda verdict: True
    loses: bool = False
    sums: frozenset[str] = frozenset()
    peaks: frozenset[str] = frozenset()
    momentary: frozenset[str] = frozenset()
    doubt: Callable[[Look], str] = unmeasured
    needs_times: str = ""
    logs_on: bool = False
    worth_a_dump: Callable[[TwoReadings, T], Iterable[str]] = lambda readings, thresholds: ()
    confirmed: Alerting = Alerting("critical")
    suspected: Alerting = Alerting("warning", "2m")
    panels: tuple[str, ...] = ()

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
        cause = self.cause(verdict) or Cause("", "")
        if self.caution and verdict.status != "confirmed":
            remedy = self.caution
        else:
            remedy = cause.advice_for(library or "") or self.action
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
    by_id = {}
    for module in pkgutil.iter_modules(__path__):
        mode = getattr(importlib.import_module(f"{__name__}.{module.name}"), "MODE", None)
        if mode is not None:
            if mode.id != module.name.replace("_", "-"):
                raise ValueError(f"mode {mode.id} must live in modes/{mode.id.replace('-', '_')}")
            by_id[mode.id] = mode
    return dict(sorted(by_id.items()))


@cache
def catalogue() -> Catalogue:
    """Every log line that a mode knows, those in which clients say what they are, and those of trouble that no mode is
    about; compiled once per process.
    """
    return Catalogue([*(line for mode in modes().values() for line in mode.lines), *SELF_DESCRIPTIONS, *TROUBLES])
