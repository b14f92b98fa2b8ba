"""The documented failure modes, one folder each. The folder's name, with hyphens, is the mode's id.

The id is also a value of metric labels, the runbook's name, and an argument on the command line.

A window is the data of one client from one span of time. A mode's gate evaluates metrics of many windows at once. The
mode's judge examines a window if the gate suspects it, or if the window has a thread dump or one of the mode's log
events (`lines`, `reads`). The judge describes the evidence in words.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools, Column, Floats, Ints
from clienthealth.measure.packed import GroupReading
from clienthealth.measure.view import MIN_READINGS as MIN_READINGS
from clienthealth.measure.view import Windows, per_rows
from clienthealth.model.errors import CatalogueError
from clienthealth.model.verdicts import Verdict
from clienthealth.modes._evidence import Fact
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

T = TypeVar("T", bound=Checked)

FEW = f"fewer than {MIN_READINGS} readings"
#: An array with one text per window; '' for a window without a text.
Texts = NDArray[np.object_]


@dataclass(frozen=True)
class Gate(Generic[T]):
    """A mode's two conditions on metrics, evaluated for many windows at once.

    `blind`     returns one text per window: why metrics do not suffice for a verdict; '' if metrics suffice
    `suspects`  returns one flag per window: True if the judge must examine the window because of its metrics
    """

    blind: Callable[[Windows, T], Texts]
    suspects: Callable[[Windows, T], Bools]

    def reasons(self, w: Windows, thresholds: T) -> Texts:
        """Return one text per window: why metrics do not suffice for a verdict; '' if metrics suffice.

        A window with fewer than `MIN_READINGS` samples has the text `FEW`.
        """

        def made() -> Texts:
            texts = self.blind(w, thresholds)
            texts[w.samples < MIN_READINGS] = FEW
            return texts

        return w.once((self.blind, thresholds), made)

    def suspected(self, w: Windows, thresholds: T) -> Bools:
        """Return one flag per window: True if the judge must examine the window because of its metrics."""
        return w.once((self.suspects, thresholds), lambda: self.suspects(w, thresholds))

    def reason(self, w: Windows, thresholds: T) -> str | None:
        """Return why the metrics of the single window `w` do not suffice for a verdict; None if they suffice."""
        text: str = self.reasons(w, thresholds)[0]
        return text or None


@dataclass(frozen=True)
class Explanation:
    """What a verdict means for its reader.

    `summary`  one sentence: what is wrong with the client
    `cause`    one sentence: why the failure happens; '' if unknown
    `first`    steps that come before the steps in `remedy`; '' for none
    """

    title: str
    summary: str
    cause: str
    first: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class FailureMode(Facts, Generic[T]):
    """A failure mode: the facts of its `mode.toml`, and its rules.

    `id`            hyphenated; the folder's name has underscores instead
    `thresholds`    every number that the rules use, with its reason and bounds
    `judge`         returns the verdict on a window
    `lines`         the log events that show the beginning or the end of the failure
    `doubt`         returns why a post-mortem cannot rule the mode out; '' if the mode is ruled out
    `worth_a_dump`  yields reasons to take a thread dump, if a client's last two samples show symptoms but not the cause
    `explicable`    returns True if a failure of another mode may be the cause of this mode's verdict

    `reads` has the log events that the judge uses, including events of other modes.
    """

    #: True if the mode can be judged only after a client's last sample.
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
        """The ids of log patterns that show the failure."""
        return frozenset().union(*(meaning.ids for meaning in self.lines if not meaning.relief))

    @property
    def advice(self) -> str:
        """The advice if the failure's cause and the client library are unknown."""
        return f"{self.first} {self.action}".lstrip()

    def explanation(self, verdict: Verdict, library: str | None) -> Explanation:
        """Return what a verdict means for a client. `library`: the name of the client's library, None if unknown."""
        cause = self.cause(verdict) or Cause("")
        remedy = cause.advice_for(library or "", verdict.detail) or self.action
        if cause.lasts and (until_then := of_library(self.until_then, library or "")):
            remedy = f"{remedy} {until_then}"
        if self.caution and verdict.status != "confirmed":
            remedy = self.caution
        dumped = any(fact.kind == "thread-dump" for fact in verdict.evidence)
        return Explanation(
            title=cause.title or self.title,
            summary=cause.summary or self.summary,
            cause=cause.why(verdict.detail),
            first="" if dumped else self.first,
            remedy=remedy,
        )

    def cause(self, verdict: Verdict) -> Cause | None:
        """Return the cause that a verdict names; None if the verdict names none."""
        return next((cause for cause in self.causes if cause.id == (verdict.detail.get("cause") or "")), None)

    def with_thresholds(self, changes: Mapping[str, float]) -> Self:
        """Return the mode with changed thresholds. Raises SettingsError if a value is out of its bounds."""
        return replace(self, thresholds=replace(self.thresholds, **changes)) if changes else self


@dataclass(frozen=True, kw_only=True)
class LiveMode(FailureMode[T]):
    """A mode that is judged while the client still reports.

    `gate`       conditions on metrics, which decide whether the judge must examine a window
    `recovered`  returns True if the newest window shows that the fault is over. Without `recovered`, the fault is over
                 as soon as a window has no evidence of it
    `silence`    returns the verdict on a client that sends no more samples; None without evidence. Without `silence`,
                 missing samples are never evidence
    `of_group`   takes the samples of a consumer group; returns facts, and a text to show if there are no facts. Without
                 `of_group`, groups are not judged
    """

    absence: ClassVar[bool] = False

    gate: Gate[T]
    recovered: Callable[[ClientWindow, T], bool] | None = None
    silence: Callable[[ClientWindow, T], Verdict | None] | None = None
    of_group: Callable[[Sequence[GroupReading]], tuple[list[Fact], str]] | None = None


@dataclass(frozen=True, kw_only=True)
class AbsenceMode(FailureMode[T]):
    """A mode that can be judged only after the client has stopped reporting."""

    absence: ClassVar[bool] = True

    doubt: Callable[[Look], str] = lambda look: ""


Mode = LiveMode[Any] | AbsenceMode[Any]


def first_reason(size: int, *cases: tuple[str, Bools]) -> Texts:
    """Return for each window the text of the first case that applies; '' if no case applies."""
    reasons = np.full(size, "", np.object_)
    for text, applies in reversed(cases):
        reasons[applies] = text
    return reasons


def flagged(w: Windows, positions: Ints) -> Bools:
    """Return one flag per window, True for the windows with the indexes `positions`."""
    return np.bincount(positions, minlength=len(w)) > 0


@per_rows
def lags(w: Windows) -> Column:
    """Return a consumer's lag (records) at each sample: the sum over its partitions, but at least `records-lag-max`."""
    return Column(np.fmax(w.summed("records-lag"), w.col("records-lag-max")))


@per_rows
def _times(w: Windows) -> Column:
    return Column(w.ts.astype(np.float64), True)


def lasted(w: Windows) -> Floats:
    """Return, for each window, the time (s) from its first sample to its last; NaN without samples."""
    return w.grown(_times(w)) / 1000


@cache
def modes() -> Mapping[str, Mode]:
    """Return all failure modes by id, in alphabetical order. Raises CatalogueError for a mistake in a `mode.toml`."""
    folders = sorted(folder.name for folder in files(__name__).iterdir() if (folder / "mode.toml").is_file())
    rules = (importlib.import_module(f"{__name__}.{folder}.rules") for folder in folders)
    by_id: dict[str, Mode] = {module.MODE.id: module.MODE for module in rules}
    for mode in by_id.values():
        if unknown := mode.explains - by_id.keys():
            raise CatalogueError(
                f"mode.toml of {mode.id}: the key `explains` contains {min(unknown)}, which is not a mode"
            )
    return by_id


@cache
def catalogue() -> Catalogue:
    """Return all log events: those of failure modes, those of known issues, and those of `self_descriptions.py`.

    Raises CatalogueError if the key `suspects` of a log event contains a mode or a cause that does not exist.
    """
    found = Catalogue([*(line for mode in modes().values() for line in mode.lines), *SELF_DESCRIPTIONS, *TROUBLES])
    causes = {(mode.id, cause) for mode in modes().values() for cause in ("", *(cause.id for cause in mode.causes))}
    if unknown := {suspected for meaning in found.meanings for suspected in meaning.suspects.items()} - causes:
        raise CatalogueError(
            f"the key `suspects` of a log event contains an unknown mode or cause: {' = '.join(min(unknown))}"
        )
    return found
