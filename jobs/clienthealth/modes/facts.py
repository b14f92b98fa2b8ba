"""Read `mode.toml`, which contains all facts of a failure mode except its rules.

Each mode is a folder with `mode.toml` and `rules.py`. `rules.py` makes its thresholds and its `MODE` from `mode.toml`:

    FILE = mode_file(__file__)
    class Thresholds(Limits, of=FILE): ...
    MODE = LiveMode(**FILE.facts(Thresholds()), judge=judge, gate=GATE)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from clienthealth.model.clients import Kind
from clienthealth.model.errors import CatalogueError, SettingsError
from clienthealth.model.tables import converted, table
from clienthealth.model.verdicts import EvidenceKind
from clienthealth.read.logs.also_seen import BY_ID
from clienthealth.read.logs.self_descriptions import BY_NAME
from clienthealth.read.logs.wordings import Meaning, meanings
from clienthealth.settings.fields import Checked, Section


class Alerting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The alert for one status of a mode's verdict: suspected or confirmed.

    `severity`  `critical` calls a person, `warning` opens a ticket, `info` does neither
    `hold`      the time for which the status must last before the alert fires, such as `2m`; '' to fire at once
    """

    severity: Literal["critical", "warning", "info"]
    hold: Annotated[str, msgspec.Meta(pattern=r"^(?:[1-9]\d*[smhd])?$")] = ""


#: Defaults of a mode's alerts: `PAGE` for a confirmed failure, `TICKET` for a suspected failure.
PAGE, TICKET = Alerting("critical"), Alerting("warning", "2m")


class Cause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the possible causes of a failure.

    `sentence`  a sentence on why the failure happens; values of the verdict's detail replace the names in braces
    `vague`     a text that replaces `sentence` if the verdict's detail has no value for a name in braces
    `id`        the value of the verdict's `detail.cause`; '' if the mode has only one cause
    `title`     a text that replaces the mode's title if the mode's title is wrong for this cause
    `summary`   a text that replaces the mode's summary if the mode's summary is wrong for this cause
    `advice`    a text that replaces the mode's action. Values of the detail replace names in braces; a name without a
                value appears in capitals
    `lasts`     True if the remedy does not work at once, so that the mode's `until_then` is added to the advice
    `assumed`   True if a verdict names this cause without evidence. If another window has evidence of a different
                cause, the different cause replaces this cause
    `again`     the id of the cause that replaces this cause if the failure happened several times (a number in
                `Verdict.counts` exceeds 1)
    `timeless`  True if lines without a time can prove this cause, whatever `needs_times` of the mode says

    `advice_by_library` maps a part of a library's name to the advice that replaces `advice` for this library.
    """

    sentence: str
    vague: str = ""
    id: str = ""
    title: str = ""
    summary: str = ""
    advice: str = ""
    advice_by_library: Mapping[str, str] = {}
    lasts: bool = False
    assumed: bool = False
    again: str = ""
    timeless: bool = False

    def why(self, detail: Mapping[str, Any]) -> str:
        """Return `sentence` with the values of `detail`; `vague` if a value is missing."""
        values = {
            name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            for name, value in detail.items()
            if value not in (None, [], ())
        }
        try:
            return self.sentence.format_map(values)
        except KeyError:
            return self.vague

    def advice_for(self, library: str, detail: Mapping[str, Any]) -> str:
        """Return the cause's advice for this library, with values from `detail`; '' if the cause has no advice."""
        return (of_library(self.advice_by_library, library) or self.advice).format_map(_Filled(detail))


class Confusion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An innocent explanation of what looks like the failure.

    A confirmed verdict needs data that refutes each innocent explanation.

    `looks_like`  one sentence: the innocent explanation, a colon, and how it differs from the failure
    `refuted_by`  kinds of evidence that cannot exist if the explanation is true
    `unless`      the name of the circumstance (`circumstances.py`) that refutes the explanation; '' for none. If the
                  circumstance does not hold, the verdict is `unknown`
    `settled_by`  the data that would show whether the explanation is true
    `causes`      ids of the causes (`detail.cause`) to which the explanation applies; empty for all causes
    """

    looks_like: str
    settled_by: str
    refuted_by: tuple[EvidenceKind, ...] = ()
    unless: Literal["", "brokers-answer", "io-thread-works", "process-runs"] = ""
    causes: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The part of `looks_like` before the colon, for use within a sentence."""
        name = self.looks_like.partition(":")[0]
        return name[0].lower() + name[1:]


class _Filled(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return name.upper()


def of_library(texts: Mapping[str, str], library: str) -> str:
    """Return the text of the first key that the library's name contains; '' if the name contains no key.

    Keys are in lower case. The case of the library's name does not matter.
    """
    return next((text for part, text in texts.items() if part in library.lower()), "")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The keys of `mode.toml` except `thresholds`, `lines` and `lines_of_others`.

    `title`        the failure in a few words, for headings
    `summary`      one sentence: what is wrong with the client (the alert's summary)
    `effect`       what clients with the failure do, such as "losing records", for the title "3 clients losing records"
    `impact`       one sentence: what the failure costs
    `first`        one sentence: what to do before `action`, because `action` destroys evidence; '' for nothing
    `action`       one sentence: what to do now
    `caution`      what to do instead of an irreversible `action` while the failure is only suspected; '' for nothing
    `kinds`        the kinds of client that can have the failure; other kinds are not judged
    `evidence`     the kinds of evidence that can show the failure
    `background`   how the failure comes about, what proves it, and known gaps of the rules; printed by `explain`
    `causes`       a `Cause` for each possible cause; the verdict has the id of one cause in `detail.cause`
    `until_then`   advice for the time until `action` has taken effect: maps a part of a library's name to a sentence
    `loses`        True if the failure implies lost records; `detail.lost_records` is then [minimum, maximum]
    `sums`         the names in `detail` to sum over the whole incident (`Verdict.counts`). Each sum is a lower bound
    `peaks`        the names in `detail` for which the incident shows the maximum over its windows
    `momentary`    the names in `detail` that are shown only while the newest window has them
    `needs_times`  why lines without a time cannot prove the failure; '' if these lines can prove it
    `explains`     the ids of modes that are not reported at the same time, because this failure causes their symptoms
    `logs_on`      True if a process with the failure logs all the time. If the process stops logging, it has ended
    `confirmed`    the alert for a confirmed failure; by default, the alert fires at once
    `suspected`    the alert for a suspected failure, never critical; by default, the alert fires after two minutes
    `panels`       the names of the functions in dashboards/panels that draw the first panels of the mode's dashboard
    `places`       parts of those stack frames in which a thread waits during the failure. Healthy threads wait in the
                   same frames, so a dump counts only if the text before or after the dump says that something hangs
    `place_cause`  the failure's cause if a thread waits in one of `places`; '' for no cause
    """

    title: str
    summary: str
    effect: str
    impact: str
    action: str
    kinds: frozenset[Kind]
    evidence: tuple[EvidenceKind, ...]
    confusions: tuple[Confusion, ...]
    background: str
    first: str = ""
    caution: str = ""
    causes: tuple[Cause, ...] = ()
    until_then: Mapping[str, str] = dataclasses.field(default_factory=dict)
    explains: frozenset[str] = frozenset()
    loses: bool = False
    sums: frozenset[str] = frozenset()
    peaks: frozenset[str] = frozenset()
    momentary: frozenset[str] = frozenset()
    needs_times: str = ""
    logs_on: bool = False
    confirmed: Alerting = PAGE
    suspected: Alerting = TICKET
    panels: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    place_cause: str = ""


class ModeFile:
    """The `mode.toml` beside a mode's rules. Raises CatalogueError, with file and key, for a mistake in the file.

    `id`     the name of the mode's folder, with hyphens instead of underscores
    `lines`  the mode's log events by name, in the order of the file
    """

    def __init__(self, folder: Path) -> None:
        self.id = folder.name.replace("_", "-")
        self.where = f"modes/{folder.name}/mode.toml"
        keys = table(folder / "mode.toml")
        self.lines = meanings(keys.pop("lines", {}), Meaning, f"{self.where}: lines.")
        for wording in (wording for line in self.lines.values() for wording in line.wordings):
            if wording.also and wording.also not in BY_ID:
                raise CatalogueError(
                    f"{self.where}: the key `also` of wording {wording.id} contains {wording.also}, "
                    "which is not a known issue"
                )
        self._others = converted(keys.pop("lines_of_others", []), tuple[str, ...], f"{self.where}: lines_of_others")
        self.thresholds = Section(f"{self.where}: thresholds", keys.pop("thresholds", {}))
        known = [field.name for field in dataclasses.fields(Facts)]
        if unknown := keys.keys() - set(known):
            raise CatalogueError(f"{self.where}: there is no key {min(unknown)}; known keys: {', '.join(known)}")
        self._facts = converted(keys, Facts, self.where)
        self._reads: dict[Meaning, None] = {}

    def reads(self, name: str) -> Meaning:
        """Return the log event `name`, and remember that the judge uses the event.

        `name` is `NAME` (of this mode), `MODE.NAME`, `also-seen.ID` or `self-descriptions.NAME`. Raises CatalogueError
        if no log event has this name.
        """
        line = self._line(name)
        self._reads[line] = None
        return line

    def _line(self, name: str) -> Meaning:
        of, _, own = name.rpartition(".")
        lines: Mapping[str, Meaning] = _lines(of) if of else self.lines
        if own not in lines:
            raise CatalogueError(f"{self.where}: there is no log event {name}; known events: {', '.join(lines)}")
        return lines[own]

    def facts(self, thresholds: Limits) -> dict[str, Any]:
        """Return the content of `mode.toml` and the thresholds as fields of a FailureMode.

        Call this method after all calls of `reads`, because the result contains the log events that `reads` returned.
        """
        lines = (*self.lines.values(), *map(self._line, self._others))
        return {**vars(self._facts), "id": self.id, "lines": lines, "reads": (*self._reads,), "thresholds": thresholds}


@cache
def _read(folder: Path) -> ModeFile:
    return ModeFile(folder)


def mode_file(rules: str) -> ModeFile:
    """Return the `mode.toml` beside a mode's rules. `rules`: `__file__` of `rules.py`."""
    return _read(Path(rules).parent)


def _lines(of: str) -> Mapping[str, Meaning]:
    """Return, by name, the log events of a mode, of `also_seen.py` or of `self_descriptions.py`."""
    others: Mapping[str, Mapping[str, Meaning]] = {"also-seen": BY_ID, "self-descriptions": BY_NAME}
    return others[of] if of in others else _read(Path(__file__).parent / of.replace("-", "_")).lines


class Limits(Checked):
    """Base of each mode's `Thresholds`. The defaults come from the ModeFile that the subclass names with `of=`."""

    def __init_subclass__(cls, *, of: ModeFile) -> None:
        super().__init_subclass__(of.thresholds)
        try:
            cls()
        except SettingsError as error:
            raise CatalogueError(f"{of.thresholds.where}.{error}") from None
