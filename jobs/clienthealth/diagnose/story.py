"""Prepare the content of the report of `diagnose`: one `Story` per client, the worst first."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from clienthealth.diagnose.attachments.opening import CUT, Input
from clienthealth.diagnose.frames import Frames, frames_of, threads_of
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.tables import table
from clienthealth.model.verdicts import STATUS_ORDER, Evidence, Seen, Status, Verdict
from clienthealth.model.wording import UNTIMED, clock, duration, moment_of
from clienthealth.modes import Explanation, Mode, modes
from clienthealth.modes.advisories import advised
from clienthealth.monitor.adjust import BY_NAME
from clienthealth.read.logs.also_seen import BY_ID, Trouble

_DUMPS = table(Path(__file__).with_suffix(".toml"))
MORE_THAN_DUMPS = "the inputs already have dumps; add the client's log (level INFO) and five minutes of its metrics"


def next_command(library: str, dumps: int) -> str:
    """Return, in words, what to send next so that a verdict becomes certain. `dumps`: number of records with dumps."""
    if dumps > 1:
        return MORE_THAN_DUMPS
    of_library = (one["dump"] for one in _DUMPS["library"] if any(word in library.lower() for word in one["words"]))
    return str(next(of_library, _DUMPS["any"]))


MOST_FACTS = 6
MOST_TITLES = 3
#: Keys of `Verdict.detail` with values that `Explanation.cause` usually contains.
_IN_CAUSE = ("cause", "culprit", "victims", "topic", "bootstrap", "partition", "broker", "note")
_NUMBER, _DURATION = re.compile(r"\d[\d.,]*"), re.compile(r" for (\d{1,9}(?:\.\d)?) s\b")
#: `_AT_FIRST` finds a number at the beginning of a fact. `_ONE_OR_MORE` is for a fact in which 0 has replaced each
#: number. If such a fact begins with 0, `_ONE_OR_MORE` captures the noun after the 0, but not the noun's plural s.
_AT_FIRST, _ONE_OR_MORE = re.compile(r"(?:at least )?(\d[\d,]{0,12}) "), re.compile(r"^(?:at least )?0 ([a-z]+?)s? ")
NOTHING = "no input is about a Kafka client"
SILENT = "the inputs name a Kafka client, but neither show nor rule out any failure mode"


@dataclass(frozen=True)
class ShownFact:
    """A decisive fact as one line. `where`: the file and the line of an input that show the fact."""

    time: str
    kind: str
    text: str
    where: str
    frames: tuple[Frames, ...]


@dataclass(frozen=True)
class Finding:
    """A `suspected` or `confirmed` verdict, in words.

    `since`: when the failure began. `facts`: the decisive facts, at most 6 (MOST_FACTS). `detail`: (name, value) of
    each shown key of `Verdict.detail`. `remedy`: what to do.
    """

    verdict: Verdict
    explained: Explanation
    since: str
    facts: tuple[ShownFact, ...]
    detail: tuple[tuple[str, str], ...]
    remedy: str


@dataclass(frozen=True)
class Also:
    """A known issue in the report. `count`: text that says how often and when the issue occurred."""

    known: Trouble
    count: str
    text: str
    where: str
    action: str


@dataclass(frozen=True)
class Story:
    """A client's part of the report, in words. `next`: what to send next.

    `status`    the status of the worst finding. Without findings, `ok` if every mode was judged, else `unknown`
    `headline`  the status in words. For `unknown`: the number of judged modes, or titles of known issues
    `adjusted`  (failure mode, reason) for each verdict that a rule of `monitor/adjust.py` changed
    `version`   known bugs of the client's version, as `version_lines` yields them
    """

    status: Status
    headline: str
    name: str
    about: str
    findings: tuple[Finding, ...]
    healthy: tuple[str, ...]
    unknown: tuple[tuple[str, str], ...]
    next: str
    adjusted: tuple[tuple[str, str], ...]
    also: tuple[Also, ...]
    version: tuple[tuple[str, bool], ...]


_GRAVITY = list(BY_ID).index


def stories(diagnosis: Diagnosis) -> list[Story]:
    """Return one `Story` per client, the worst first."""
    teller = _Teller(diagnosis)
    all_stories = [teller.story(client, verdicts) for client, verdicts in diagnosis.every]
    return sorted(all_stories, key=lambda story: (-_ORDER.index(story.status), story.name))


def version_lines(client: Client, found: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield (text, flag): a summary of the known bugs of the client's version, then each bug.

    The flag is True for the summary, and for each bug that causes or looks like a failure mode in `found`. Without
    known bugs, yield nothing.
    """
    advice = advised(client.library, client.version, client.kind)
    if not advice.known:
        return
    upgrade = f"; upgrade to {advice.upgrade_to} or newer" if advice.upgrade_to else ""
    bugs = f"known bugs cause a failure or look like one ({', '.join(advice.bugs)})" if advice.bugs else "it is too old"
    yield f"{client.library} {client.version}: {bugs}{upgrade}.", True
    for one, source in advice.known:
        explained = (("causes", one.causes), ("looks like", one.mimics))
        modes_of = "; ".join(f"{what} {', '.join(ids)}" for what, ids in explained if ids)
        text = f"{one.bug}: {one.says}{f' ({modes_of})' if modes_of else ''} {source}"
        yield text, bool({*one.causes, *one.mimics} & {*found})


_HEADLINES = {"unknown": "Cannot judge", "ok": "OK"}
_ORDER = ("ok", "unknown", "suspected", "confirmed")


class _Teller:
    def __init__(self, diagnosis: Diagnosis) -> None:
        self.dumps, self.also_seen = diagnosis.dumps, diagnosis.also_seen
        self.untimed = frozenset(topic for one in diagnosis.inputs if not one.clocked for topic in one.topics)
        self.namesakes = Counter(map(self._name, (client for client, _ in diagnosis.every)))

    def _name(self, client: Client) -> tuple[str, str | None, str | None]:
        return client.service, client.client_id, client.kind

    def story(self, client: Client, verdicts: Sequence[Verdict]) -> Story:
        ill = sorted((v for v in verdicts if v.unhealthy), key=lambda v: -STATUS_ORDER.index(v.status))
        healthy = tuple(v.mode for v in verdicts if v.status == "ok")
        unknown = tuple((v.mode, v.reason or "no evidence") for v in verdicts if v.status == "unknown")
        status: Status = ill[0].status if ill else "ok" if healthy and not unknown else "unknown"
        seen = sorted(self.also_seen.get(client, ()), key=lambda issue: _GRAVITY(issue.what))
        also = tuple(map(self._also, seen))
        headline = _HEADLINES.get(status, status.capitalize())
        grave = dict.fromkeys(one.known.says for one in also if not one.known.hint)
        if status == "unknown" and healthy:
            headline = f"Nothing found in {len(healthy)} of {len(healthy) + len(unknown)} failure modes"
        elif status == "unknown" and grave:
            titles = ", ".join(list(grave)[:MOST_TITLES])
            headline = titles[0].upper() + titles[1:]
        # Only a dump shows which code caused the finding. A restart removes this evidence, so ask for a dump first.
        unseen = not self.dumps and any(modes()[v.mode].explanation(v, client.library).first for v in ill)
        software = " ".join(filter(None, (client.library, client.version)))
        where = client.instance if self.namesakes[self._name(client)] > 1 else client.service
        ask = status in ("suspected", "unknown") or unseen
        return Story(
            status=status,
            headline=headline,
            name=client.client_id or "(process)",
            about=", ".join(filter(None, (where, client.kind or "client", client.group, software))),
            findings=tuple(self._finding(client, verdict) for verdict in ill),
            healthy=healthy,
            unknown=unknown,
            next=next_command(client.library or "", len(self.dumps)) if ask else "",
            adjusted=tuple(
                (v.mode, "; ".join(f"{name}: {BY_NAME[name].why}" for name in v.adjusted if name in BY_NAME))
                for v in verdicts
                if v.adjusted
            ),
            also=also,
            version=tuple(version_lines(client, [verdict.mode for verdict in ill])),
        )

    def _also(self, seen: Seen) -> Also:
        trouble, count = BY_ID[seen.what], self._time(seen.source, seen.first_ms)
        if seen.lines > 1:
            count = f"{seen.lines:,} lines, {count if count == UNTIMED else _span(seen.first_ms, seen.last_ms)}"
        text = seen.text.strip().split("\n", 1)[0]
        return Also(trouble, count, text, _place(seen.source), f"{trouble.action} {trouble.source}".rstrip())

    def _finding(self, client: Client, verdict: Verdict) -> Finding:
        mode = modes()[verdict.mode]
        explained = mode.explanation(verdict, client.library)
        topics = {fact.source.topic for fact in verdict.evidence if fact.source is not None}
        return Finding(
            verdict,
            explained,
            since=UNTIMED if topics and topics <= self.untimed else moment_of(verdict.since_ms),
            facts=tuple(map(self._fact, _decisive(verdict.evidence)[:MOST_FACTS])),
            detail=tuple(
                (n.removesuffix("_seconds").replace("_", " "), _of_all(n, v, mode))
                for n, v in verdict.detail.items()
                if n not in _IN_CAUSE or (n != "note" and not explained.cause and v != "unknown")
            ),
            remedy=explained.remedy if self.dumps else f"{explained.first} {explained.remedy}".lstrip(),
        )

    def _fact(self, fact: Evidence) -> ShownFact:
        # `fact.source` is the position of the dump's first line, not of the thread's first line.
        lines = [thread.line for thread in threads_of(fact, self.dumps)]
        where, frames = _place(fact.source, *lines[:1]), frames_of(fact, self.dumps)
        return ShownFact(self._time(fact.source, fact.ts_ms), fact.kind.replace("-", " "), fact.text, where, frames)

    def _time(self, source: Source | None, ts_ms: int) -> str:
        return UNTIMED if source is not None and source.topic in self.untimed else moment_of(ts_ms)


def _place(source: Source | None, line: int | None = None) -> str:
    if source is None:
        return ""
    return f"{PurePosixPath(source.topic).name}:{(source.offset if line is None else line) + 1}"


def _decisive(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return the facts in order of time.

    If several facts differ only in numbers, return only the fact with the longest duration. Among facts without a
    duration, return the fact with the greatest number at its beginning. If a fact's text is the beginning of another
    fact's text, return only the other fact.
    """
    kept: dict[tuple[str, str], Evidence] = {}
    for fact in evidence:
        same = fact.kind, _ONE_OR_MORE.sub(r"0 \1 ", _NUMBER.sub("0", fact.text))
        if same not in kept or _weight(fact) >= _weight(kept[same]):
            kept[same] = fact
    texts = [(fact.kind, fact.text) for fact in kept.values()]
    more = {
        (kind, text)
        for kind, text in texts
        for of, longer in texts
        if of == kind and longer.startswith(text) and longer != text
    }
    return sorted((f for f in kept.values() if (f.kind, f.text) not in more), key=lambda fact: fact.ts_ms)


def _weight(fact: Evidence) -> tuple[float, float]:
    lasted, number = _DURATION.search(fact.text), _AT_FIRST.match(fact.text)
    return float(lasted[1]) if lasted else 0.0, float(number[1].replace(",", "")) if number else 0.0


def _of_all(name: str, value: Any, mode: Mode) -> str:
    most = name in mode.peaks and isinstance(value, int)
    return f"{'at least ' if name in mode.sums else 'up to ' if most else ''}{_value(name, value)}"


def _value(name: str, value: Any) -> str:
    if name.endswith("ratio") and isinstance(value, int | float):
        return f"{value:.0%}"
    if name.endswith("_seconds") and isinstance(value, int | float):
        return duration(value) if value >= 120 else f"{value:g} s"
    if isinstance(value, list) and len(value) == 2 and all(isinstance(number, int) for number in value):
        return f"{value[0]:,}" if value[0] == value[1] else f"{value[0]:,} to {value[1]:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def input_line(attached: Input) -> str:
    """Return one line about an input: the kind, number of lines, time range, and what was left out."""
    parts = [attached.what or "not known"]
    if attached.used or attached.read:
        unit = "readings" if attached.what == "metrics.jsonl" else "records" if "JSON doc" in attached.what else "lines"
        of_what = "readings out of" if attached.what.startswith("metrics (") else "of"
        parts.append(f"{attached.used:,} {of_what} {attached.read:,} {unit} used")
    if attached.used:
        parts.append(_range(attached))
    left_out = "NOT USED" if attached.read and not attached.used else "left out"
    parts += [
        "left out" if why in ("no evidence", "empty") else f"{left_out}: {count:,} {why}"
        for why, count in attached.left_out.items()
    ]
    parts += [f"perhaps cut: {why}" for why in attached.unread if why == CUT]
    parts += [f"NOT READABLE: {f'{n:,} ' * (n > 1)}{why}" for why, n in attached.unread.items() if why != CUT]
    return "; ".join(parts)


def together(inputs: Sequence[Input]) -> str:
    """Return one line about several inputs of one kind."""
    whole = replace(inputs[0], read=sum(i.read for i in inputs), used=sum(i.used for i in inputs))
    whole.span(*(i.start_ms for i in inputs), *(i.end_ms for i in inputs))
    return f"{len(inputs)} × {input_line(whole)}"


def _range(attached: Input) -> str:
    if not attached.timed:
        return "time unknown, order kept"
    if attached.start_ms is None:
        return UNTIMED
    if not attached.dated:
        return f"{clock(attached.start_ms)} to {clock(attached.end_ms)}, on an unknown day"
    return _span(attached.start_ms, attached.end_ms)


def _span(first_ms: int, last_ms: int | None) -> str:
    first, last = moment_of(first_ms), moment_of(last_ms)
    if last_ms is None or first == last:
        return first
    return f"{first.removesuffix(' UTC')} to {last[11:] if first[:10] == last[:10] else last}"


def nothing_judged(inputs: Sequence[Input]) -> tuple[str, str]:
    """Return (the reason why no client could be judged, how to take thread dumps)."""
    unread = [attached.name for attached in inputs if attached.unread.keys() - {CUT}]
    used = sum(attached.used for attached in inputs)
    why = f"{used:,} lines of Kafka clients do not suffice to judge any failure mode" if used else NOTHING
    if not used and any(attached.names_client for attached in inputs):
        why = SILENT
    why = f"{why}; {', '.join(unread[:3])} could not be read" if unread else why
    return why, _DUMPS["any"]
