"""What `mode.toml` says of a failure mode: everything about it but its rules.

Each mode is a folder with this file and `rules.py`, which makes its thresholds and its `MODE` of it:

    FILE = mode_file(__file__)
    class Thresholds(Limits, of=FILE): ...
    MODE = LiveMode(**FILE.facts(), thresholds=Thresholds(), judge=judge, gate=GATE)
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
from clienthealth.settings.fields import Checked, setting


class Alerting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The alert of a mode in one status. `hold`: how long the status lasts first, as Prometheus has it; '': at once.

    severity: critical pages, warning opens a ticket, info is routed to nobody.
    """

    severity: Literal["critical", "warning", "info"]
    hold: Annotated[str, msgspec.Meta(pattern=r"^(?:[1-9]\d*[smhd])?$")] = ""


#: The alerts of a mode that says nothing of them.
PAGE, TICKET = Alerting("critical"), Alerting("warning", "2m")


class Cause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the causes that a judge tells apart.

    sentence  why it happens; what stands in braces is taken from the detail
    vague     the same where the detail does not say all of it
    id        `detail.cause`; '' where the mode has only one
    title     instead of the mode's, where that would not be true of this cause
    summary   likewise
    advice    instead of the mode's action; what stands in braces is taken from the detail, else it stays in capitals
    lasts     it takes a while to mend: `until_then` of the mode goes with the advice
    assumed   it is named where nothing tells why: what another window of the same failure tells holds before it
    timeless  lines without a time prove it, whatever `needs_times` of the mode says

    advice_by_library: the advice where it differs, by a part of the library's name.
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
    timeless: bool = False

    def why(self, detail: Mapping[str, Any]) -> str:
        """Why it happened, '' where not enough is known to say it."""
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
        """What to do where this library runs, '' where it is the mode's action."""
        return (of_library(self.advice_by_library, library) or self.advice).format_map(_Filled(detail))


class Confusion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What only looks like the failure. A confirmed verdict needs each of them refuted by data.

    looks_like  what it is, a colon, and how it differs: one sentence
    refuted_by  kinds of evidence of the mode that cannot be had of it
    unless      the circumstance (`circumstances.py`) that refutes it where it holds, and where it does not is what
                happens instead; '' where none does
    settled_by  what would tell, where nothing at hand does
    causes      the causes (`detail.cause`) that it can be confused with; empty: all
    """

    looks_like: str
    settled_by: str
    refuted_by: tuple[EvidenceKind, ...] = ()
    unless: Literal["", "brokers-answer", "process-runs"] = ""
    causes: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What it is, as a sentence goes on."""
        name = self.looks_like.partition(":")[0]
        return name[0].lower() + name[1:]


class _Filled(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return name.upper()


def of_library(texts: Mapping[str, str], library: str) -> str:
    """The text for a library, by a part of its name; '' where there is none."""
    return next((text for part, text in texts.items() if part in library.lower()), "")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The keys of `mode.toml` beside its thresholds and its lines.

    title          a few words, for headings
    summary        one sentence that ends with a period: what is wrong with the client (the alert's summary)
    impact         one sentence: what it costs
    first          one sentence: what to do before the action, which would undo it; '' where there is nothing
    action         one sentence: what to do now
    caution        what to do instead as long as it is only suspected, where the action cannot be undone
    kinds          the kinds of client that it can befall; others are not judged
    evidence       the kinds of evidence that it can have
    confusions     what only looks like it
    background     how it comes about, what proves it, what the rules cannot see: for `explain`
    causes         what it can come of, as `detail.cause` says
    until_then     by a part of a library's name what to do until the cause is mended, where that takes a while
    loses          it is found only where records are lost, also where nothing counted them: `detail.lost_records` and
                   `lost_bytes` tell at least and at most, where known
    sums           names in `detail` of what is counted over the whole incident (`Verdict.counts`): at least so many
    peaks          names in `detail` of which the greatest over the incident holds
    momentary      names in `detail` that hold only as long as the newest window says them
    needs_times    why lines without a time cannot prove it, '' where they can
    explains       modes whose symptoms it shows too: while it is found, they are not found of the same client
    logs_on        its process logs as long as it lasts: one that logs no more has gone
    confirmed      its alert once it is confirmed: the job has weighed the evidence, so nothing more is waited for
    suspected      its alert while it is suspected: indirect evidence often clears by itself within a minute or two
    panels         further panels of its dashboard: names of functions of dashboards/panels/measurements
    """

    title: str
    summary: str
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


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number that the judgement uses. `reason`: why it is this one; a bound is a number or another threshold."""

    default: int | float
    reason: str
    at_least: int | float | str | None = None
    at_most: int | float | str | None = None


class ModeFile:
    """The `mode.toml` beside a mode's rules. Raises CatalogueError, with file and key, where it holds a mistake.

    id          the folder's name, with hyphens
    thresholds  by name
    lines       its log lines by name, in the order of the file
    """

    def __init__(self, folder: Path) -> None:
        self.id = folder.name.replace("_", "-")
        self.where = f"modes/{folder.name}/mode.toml"
        keys = table(folder / "mode.toml")
        self.lines = meanings(keys.pop("lines", {}), Meaning, f"{self.where}: lines.")
        for wording in (wording for line in self.lines.values() for wording in line.wordings):
            if wording.also and wording.also not in BY_ID:
                raise CatalogueError(f"{self.where}: wording {wording.id}, also: there is no trouble {wording.also}")
        self._others = converted(keys.pop("lines_of_others", []), tuple[str, ...], f"{self.where}: lines_of_others")
        self.thresholds = {
            name: converted(entry, Threshold, f"{self.where}: thresholds.{name}")
            for name, entry in keys.pop("thresholds", {}).items()
        }
        known = [field.name for field in dataclasses.fields(Facts)]
        if unknown := keys.keys() - set(known):
            raise CatalogueError(f"{self.where}: there is no key {min(unknown)}; known are {', '.join(known)}")
        self._facts = converted(keys, Facts, self.where)
        self._reads: dict[Meaning, None] = {}

    def reads(self, name: str) -> Meaning:
        """A line that the judge looks at: by its name here, or `MODE.NAME`, `also-seen.ID`, `self-descriptions.NAME`.

        What a judge has asked for is what `explain` lists.
        """
        line = self._line(name)
        self._reads[line] = None
        return line

    def _line(self, name: str) -> Meaning:
        of, _, own = name.rpartition(".")
        lines: Mapping[str, Meaning] = _lines(of) if of else self.lines
        if own not in lines:
            raise CatalogueError(f"{self.where}: there is no line {name}; known are {', '.join(lines)}")
        return lines[own]

    def facts(self) -> dict[str, Any]:
        """What the file says, as the fields of a FailureMode; to be asked for once the rules have named their lines."""
        others = map(self._line, self._others)
        return {**vars(self._facts), "id": self.id, "lines": (*self.lines.values(), *others), "reads": (*self._reads,)}


@cache
def _read(folder: Path) -> ModeFile:
    return ModeFile(folder)


def mode_file(rules: str) -> ModeFile:
    """The file beside a module, read once."""
    return _read(Path(rules).parent)


def _lines(of: str) -> Mapping[str, Meaning]:
    """The lines of another mode by name, those that no mode is about, those in which a client describes itself."""
    others: Mapping[str, Mapping[str, Meaning]] = {"also-seen": BY_ID, "self-descriptions": BY_NAME}
    return others[of] if of in others else _read(Path(__file__).parent / of.replace("-", "_")).lines


class Limits(Checked):
    """A mode's thresholds, as its rules use them: the names and types of those that its file describes."""

    def __init_subclass__(cls, *, of: ModeFile) -> None:
        names = cls.__annotations__
        if wrong := names.keys() ^ of.thresholds.keys():
            raise CatalogueError(f"{of.where}: thresholds.{min(wrong)} stands only in this file or only in rules.py")
        for name, limit in of.thresholds.items():
            for bound in (limit.at_least, limit.at_most):
                if isinstance(bound, str) and bound not in names:
                    raise CatalogueError(f"{of.where}: thresholds.{name} is bound by {bound}, which is no threshold")
            setattr(cls, name, setting(limit.default, limit.reason, at_least=limit.at_least, at_most=limit.at_most))
        dataclass(frozen=True)(cls)
        try:
            cls()
        except SettingsError as error:
            raise CatalogueError(f"{of.where}: thresholds.{error}") from None
