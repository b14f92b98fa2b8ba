"""Prepare the report's content for each client: one `Story` each, the worst first, for terminal and HTML page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from clienthealth.diagnose.attachments.opening import CUT, Input
from clienthealth.diagnose.frames import Frames, frames_of, threads_of
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread
from clienthealth.model.verdicts import STATUS_ORDER, Evidence, Seen, Verdict
from clienthealth.model.wording import UNTIMED, duration, moment_of
from clienthealth.modes import Mode, modes
from clienthealth.modes.advisories import advised
from clienthealth.monitor.adjust import BY_NAME
from clienthealth.read.logs.also_seen import BY_ID

_TWICE = "twice, ten seconds apart, into one file"
JAVA_DUMPS = f"jcmd PID Thread.print, {_TWICE}"
PYTHON_DUMPS = f"py-spy dump --pid PID, {_TWICE}"
#: How to take thread dumps, by library. librdkafka is C and runs in programs of many languages; the Go libraries are
#: named after their projects.
NATIVE_DUMPS = f"all threads of the program (py-spy dump --pid PID, gdb -p PID, kill -QUIT PID of Go), {_TWICE}"
GO_DUMPS = "all goroutines (curl …/debug/pprof/goroutine?debug=2, or kill -QUIT PID, which ends the program)"
ANY_DUMPS = f"all threads of the process (jcmd PID Thread.print of Java, py-spy dump --pid PID of Python), {_TWICE}"
MORE_THAN_DUMPS = "the client's log at INFO and its metrics over five minutes: the thread dumps are there"
_DUMPS = {
    "java": JAVA_DUMPS,
    "scala": JAVA_DUMPS,
    "python": PYTHON_DUMPS,
    "aiokafka": PYTHON_DUMPS,
    "rdkafka": NATIVE_DUMPS,
    "confluent": NATIVE_DUMPS,
}
_DUMPS |= {"sarama": GO_DUMPS, "franz": GO_DUMPS, "kafka-go": GO_DUMPS, "kgo": GO_DUMPS}


def next_command(client: Client | None, dumps: int = 0) -> str:
    """Return the one command whose output would settle the open question. `dumps`: number of existing thread dumps."""
    if dumps > 1:
        return MORE_THAN_DUMPS
    name = (client.library or "").lower() if client is not None else ""
    return next((dump for library, dump in _DUMPS.items() if library in name), ANY_DUMPS)


Word = Literal["confirmed", "suspected", "unknown", "ok"]
#: Number of facts shown per verdict.
MOST_FACTS = 6
#: Number of known issues' titles in a headline.
MOST_TITLES = 3
#: Keys of `detail` that are not shown again, because the sentence on the cause usually contains them.
_IN_CAUSE = ("cause", "culprit", "victims", "topic", "bootstrap", "partition", "broker", "note")
_NUMBER, _DURATION = re.compile(r"\d[\d.,]*"), re.compile(r" for (\d{1,9}(?:\.\d)?) s\b")
#: The number at a fact's beginning, with the words around it: "at least 2 sends", "1 send".
_AT_FIRST, _ONE_OR_MORE = re.compile(r"(?:at least )?(\d[\d,]{0,12}) "), re.compile(r"^(?:at least )?0 ([a-z]+?)s? ")
NOTHING = "nothing here speaks of a Kafka client"
SILENT = "a Kafka client is named here, and nothing that it says tells of a failure mode, nor that there is none"


@dataclass(frozen=True)
class ShownFact:
    """A decisive fact as one line: time (`time unknown` if there is none), kind, words, place, frames."""

    time: str
    kind: str
    text: str
    where: str
    frames: tuple[Frames, ...]


@dataclass(frozen=True)
class Finding:
    """A verdict that something is wrong, in words."""

    mode: str
    status: Word
    title: str
    since: str
    summary: str
    facts: tuple[ShownFact, ...]
    cause: str
    detail: tuple[tuple[str, str], ...]
    ruled_out: tuple[str, ...]
    not_ruled_out: tuple[str, ...]
    remedy: str


@dataclass(frozen=True)
class Also:
    """A known issue outside the modes: how often and when, what it is, its first log line and place, what to do.

    hint: True if nothing shows that the issue has harmed the client
    """

    title: str
    count: str
    sentence: str
    text: str
    where: str
    action: str
    hint: bool = False


@dataclass(frozen=True)
class Story:
    """A client's part of the report: findings, healthy modes, modes that cannot be judged, and what to send next.

    status    that of the worst finding; without findings `ok` only if every mode of its kind was judged
    headline  the status in a word or two, with the number of judged modes if that is not all
    adjusted  modes whose verdict was changed after the judge, each with the adjustments and their reasons
    version   the known bugs of its version: first a summary, then one each, and whether it concerns a finding
    """

    status: Word
    headline: str
    name: str
    about: str
    findings: tuple[Finding, ...]
    healthy: tuple[str, ...]
    unknown: tuple[tuple[str, str], ...]
    next: str
    adjusted: tuple[tuple[str, str], ...] = ()
    also: tuple[Also, ...] = ()
    version: tuple[tuple[str, bool], ...] = ()


#: Known issues by client, including clients without other data.
AlsoSeen = Mapping[Client, Sequence[Seen]]


def stories(
    clients: Sequence[tuple[Client, Sequence[Verdict]]],
    inputs: Sequence[Input] = (),
    dumps: Mapping[Source, Sequence[DumpedThread]] | None = None,
    also_seen: AlsoSeen | None = None,
) -> list[Story]:
    """Return the stories of all clients, the worst first."""
    untimed = frozenset(topic for attached in inputs if not attached.clocked for topic in attached.topics)
    also_seen = also_seen or {}
    judged = {client for client, _ in clients}
    unjudged: list[tuple[Client, Sequence[Verdict]]] = [(client, ()) for client in also_seen if client not in judged]
    every = [*clients, *unjudged]
    namesakes = Counter((client.service, client.client_id, client.kind) for client, _ in every)
    all_stories = [
        _with_trouble(
            _story(
                client, verdicts, untimed, dumps or {}, namesakes[client.service, client.client_id, client.kind] > 1
            ),
            tuple(also(seen, untimed) for seen in sorted(also_seen.get(client, ()), key=lambda s: _GRAVITY(s.what))),
        )
        for client, verdicts in every
    ]
    return sorted(all_stories, key=lambda story: (-_RANK[story.status], story.name))


def _with_trouble(story: Story, trouble: tuple[Also, ...]) -> Story:
    """Return the story with its known issues, which become the headline if no mode can be judged."""
    headline = story.headline
    grave = [one.title for one in trouble if not one.hint]
    if grave and story.status == "unknown" and not story.healthy:
        titles = ", ".join(list(dict.fromkeys(grave))[:MOST_TITLES])
        headline = titles[0].upper() + titles[1:]
    return replace(story, also=trouble, headline=headline)


def also(seen: Seen, untimed: frozenset[str] = frozenset()) -> Also:
    """Return the words for a known issue outside the modes."""
    trouble = BY_ID[seen.what]
    first = UNTIMED if seen.source is not None and seen.source.topic in untimed else moment_of(seen.first_ms)
    count = first
    if seen.lines > 1:
        last = moment_of(seen.last_ms)
        until = "" if first in (UNTIMED, last) else f" to {last[11:] if first[:10] == last[:10] else last}"
        count = f"{seen.lines:,} lines, {first.removesuffix(' UTC') if until else first}{until}"
    where = f"{PurePosixPath(seen.source.topic).name}:{seen.source.offset + 1}" if seen.source is not None else ""
    action = f"{trouble.action} {trouble.source}".rstrip()
    text = seen.text.strip().split("\n", 1)[0]
    return Also(trouble.says, count, trouble.sentence, text, where, action, trouble.hint)


_GRAVITY = list(BY_ID).index


def version_lines(client: Client, found: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield the known bugs of a client's version: a summary, then one each, and whether it concerns a finding."""
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


_HEADLINES: Mapping[Word, str] = {
    "confirmed": "Confirmed",
    "suspected": "Suspected",
    "unknown": "Cannot judge",
    "ok": "OK",
}
_RANK: Mapping[str, int] = {"ok": 0, "unknown": 1, "suspected": 2, "confirmed": 3}


def _story(
    client: Client,
    verdicts: Sequence[Verdict],
    untimed: frozenset[str],
    dumps: Mapping[Source, Sequence[DumpedThread]],
    has_namesakes: bool = False,
) -> Story:
    ill = sorted((v for v in verdicts if v.unhealthy), key=lambda v: -STATUS_ORDER.index(v.status))
    healthy = tuple(v.mode for v in verdicts if v.status == "ok")
    unknown = tuple((v.mode, v.reason or "no evidence") for v in verdicts if v.status == "unknown")
    status: Word = ill[0].status if ill else "ok" if healthy and not unknown else "unknown"
    headline = _HEADLINES[status]
    if status == "unknown" and healthy:
        headline = f"Nothing found; {len(healthy)} of {len(healthy) + len(unknown)} judged"
    # Without a dump, the code that causes a proved finding is still unknown, and a restart would remove the traces.
    unseen = not dumps and any(modes()[v.mode].explanation(v, client.library).first for v in ill)
    software = " ".join(filter(None, (client.library, client.version)))
    where = client.instance if has_namesakes else client.service
    about = ", ".join(filter(None, (where, client.kind or "client", client.group, software)))
    return Story(
        status=status,
        headline=headline,
        name=client.client_id or "(process)",
        about=about,
        findings=tuple(_finding(client, verdict, untimed, dumps) for verdict in ill),
        healthy=healthy,
        unknown=unknown,
        next=next_command(client, len(dumps)) if status in ("suspected", "unknown") or unseen else "",
        adjusted=tuple(
            (verdict.mode, "; ".join(f"{name}: {BY_NAME[name].why}" for name in verdict.adjusted if name in BY_NAME))
            for verdict in verdicts
            if verdict.adjusted
        ),
        version=tuple(version_lines(client, [verdict.mode for verdict in ill])),
    )


def _finding(
    client: Client, verdict: Verdict, untimed: frozenset[str], dumps: Mapping[Source, Sequence[DumpedThread]]
) -> Finding:
    mode = modes()[verdict.mode]
    explained = mode.explanation(verdict, client.library)
    topics = {fact.source.topic for fact in verdict.evidence if fact.source is not None}
    return Finding(
        mode=mode.id,
        status=verdict.status,
        title=explained.title,
        since=UNTIMED if topics and topics <= untimed else moment_of(verdict.since_ms),
        summary=explained.summary,
        facts=tuple(_fact(fact, untimed, dumps) for fact in _decisive(verdict.evidence)[:MOST_FACTS]),
        cause=explained.cause,
        detail=tuple(
            (n.removesuffix("_seconds").replace("_", " "), _of_all(n, v, mode))
            for n, v in verdict.detail.items()
            # If there is no sentence for a cause, the cause itself is shown.
            if n not in _IN_CAUSE or (n != "note" and not explained.cause and v != "unknown")
        ),
        ruled_out=verdict.ruled_out,
        not_ruled_out=verdict.not_ruled_out,
        remedy=explained.remedy if dumps else f"{explained.first} {explained.remedy}".lstrip(),
    )


def _decisive(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return the facts without those that differ only in numbers.

    Of such facts the longest stays, else the greatest, else the newest.
    """
    kept: dict[tuple[str, str], Evidence] = {}
    for fact in evidence:
        same = fact.kind, _ONE_OR_MORE.sub(r"0 \1 ", _NUMBER.sub("0", fact.text))
        if same not in kept or _weight(fact) >= _weight(kept[same]):
            kept[same] = fact
    said = [(fact.kind, fact.text) for fact in kept.values()]
    # A fact is omitted if another one contains it and more.
    more = {
        (kind, text)
        for kind, text in said
        for of, longer in said
        if of == kind and longer.startswith(text) and longer != text
    }
    return sorted((f for f in kept.values() if (f.kind, f.text) not in more), key=lambda fact: fact.ts_ms)


def _weight(fact: Evidence) -> tuple[float, float]:
    lasted, number = _DURATION.search(fact.text), _AT_FIRST.match(fact.text)
    return float(lasted[1]) if lasted else 0.0, float(number[1].replace(",", "")) if number else 0.0


def _fact(fact: Evidence, untimed: frozenset[str], dumps: Mapping[Source, Sequence[DumpedThread]]) -> ShownFact:
    source = fact.source
    time = UNTIMED if source is not None and source.topic in untimed else moment_of(fact.ts_ms)
    return ShownFact(time, fact.kind.replace("-", " "), fact.text, _where(fact, dumps), tuple(frames_of(fact, dumps)))


def _where(fact: Evidence, dumps: Mapping[Source, Sequence[DumpedThread]]) -> str:
    """Return file and line of a fact; for a thread in a dump the line where that thread begins."""
    if fact.source is None:
        return ""
    lines = [thread.line for thread in threads_of(fact, dumps)]
    return f"{PurePosixPath(fact.source.topic).name}:{(lines[0] if lines else fact.source.offset) + 1}"


def _of_all(name: str, value: Any, mode: Mode) -> str:
    """Return a number of the whole incident in words: a sum is a lower bound (at least), a peak an upper one."""
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
    """Return an input's kind, the used part, its time range, and what was left out and why."""
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
    parts += [f"NOT READABLE: {count:,} {why}" for why, count in attached.unread.items() if why != CUT]
    return "; ".join(parts)


def together(inputs: Sequence[Input]) -> str:
    """Return the kind, used part and time range of several inputs of one kind that were read completely."""
    counted = replace(inputs[0], read=sum(i.read for i in inputs), used=sum(i.used for i in inputs))
    starts = [i.start_ms for i in inputs if i.start_ms is not None]
    ends = [i.end_ms for i in inputs if i.end_ms is not None]
    timed = replace(counted, start_ms=min(starts, default=None), end_ms=max(ends, default=None))
    return f"{len(inputs)} × {input_line(timed)}"


def _range(attached: Input) -> str:
    if not attached.timed:
        return "time unknown, order kept"
    if attached.start_ms is None:
        return UNTIMED
    start, end = moment_of(attached.start_ms), moment_of(attached.end_ms)
    if not attached.dated:
        return f"{start[11:19]} to {end[11:19]}, on an unknown day"
    if attached.end_ms is None or start == end:
        return start
    same_day = start[:10] == end[:10]
    return f"{start.removesuffix(' UTC')} to {end[11:] if same_day else end}"


def nothing_judged(inputs: Sequence[Input]) -> tuple[str, str]:
    """Return why no client was found, and the next command."""
    unread = [attached.name for attached in inputs if attached.unread.keys() - {CUT}]
    used = sum(attached.used for attached in inputs)
    why = f"{used:,} lines of Kafka clients, and no failure mode of theirs can be judged by them" if used else NOTHING
    if not used and any(attached.speaks for attached in inputs):
        why = SILENT
    why = f"{why}; {', '.join(unread[:3])} could not be read" if unread else why
    return why, ANY_DUMPS
