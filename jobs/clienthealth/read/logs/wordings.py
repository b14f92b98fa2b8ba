r"""Log events of client libraries, and the log patterns that recognise them.

Hostile log text must not make a pattern slow. So every repetition in a pattern is bounded, or cannot match the text
that must follow the repetition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from operator import add
from typing import Any, Literal, TypeVar

import msgspec

from clienthealth.model.clients import Kind
from clienthealth.model.errors import CatalogueError
from clienthealth.model.readings import LogEvent
from clienthealth.model.tables import converted
from clienthealth.read.logs.dump_formats.threads import TABLES
from clienthealth.read.logs.dump_formats.threads import pattern as with_parts
from clienthealth.read.logs.reports import OF_PATTERN, judged

Life = Literal["begins", "closes", "closed", "loses", "is killed"]


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log line of a library, and the captures (group → text) of the log pattern."""

    line: str
    captures: Mapping[str, str] = {}


class Wording(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, dict=True):
    """A log pattern.

    `id`           hyphenated and unique; part of the monitor's state on disk (`LogEvent.signature`)
    `source`       maps a library to the versions and the source file that log the line; the key `any` stands for any
                   program
    `literal`      every match contains this text, or one of `or_literals`. The texts are searched for before the
                   pattern, because a search for a text is faster. Case matters
    `or_literals`  alternatives to `literal`. In `literal` and `or_literals`, `%name%` stands for a list of texts: the
                   table `searches` of shapes.toml has the lists
    `pattern`      regular expression, searched for in the message and the lines below it. Named groups become
                   `LogEvent.captures`; `%name%` stands for a part in shapes.toml
    `logger`       beginning of the logger's name; None for any logger. Loggers' names without a dot are not tested
    `also`         id of the known issue that a matching line shows besides the failure; '' if it shows none
    `reports`      '' or a label of the classifier (`judged`). A pattern with a label applies only to texts in which a
                   person reports a problem. In these texts, a sentence to which the classifier gives the label counts
                   as a match, too
    `examples`     lines that the pattern must match
    """

    id: str
    source: Mapping[str, str]
    literal: str = ""
    pattern: str = ""
    or_literals: tuple[str, ...] = ()
    logger: str | None = None
    also: str = ""
    reports: str = ""
    examples: tuple[Example, ...] = ()

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """Texts to search for first: every match contains at least one of them."""
        given = filter(None, (self.literal, *self.or_literals))
        return tuple(text for literal in given for text in TABLES["searches"].get(literal, [literal]))

    @property
    def narrated(self) -> bool:
        """True if the pattern counts only in texts in which a person reports a problem."""
        return bool(self.reports)

    @property
    def loose(self) -> bool:
        """True if the pattern may match lines of any program, not only those of known libraries."""
        return "any" in self.source


class Meaning(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, dict=True):
    """A log event: something that libraries log, each in its own words.

    `says`        what happened, in a few words
    `wordings`    the log patterns of the event
    `no_pattern`  maps libraries without a pattern ("sarama, kafkajs") to the reason
    `kind`        the kind of client that logs the event; None if several kinds log it
    `relief`      True if the event shows that a fault has ended
    `process`     True if the event is about all clients of the process
    `life`        the change in the client's life: `begins`, `closes` (begins to close), `closed`, `loses` (ends with
                  undelivered records) or `is killed` (the client's process is killed); None if the event shows no
                  change
    `counted`     name of a counter of the Java client, or ''. A line is ignored if the counter does not rise around the
                  time of the line
    `halted`      name of a counter of the Java client, or ''. A line is ignored if the counter rises after the line
    `away`        True if the event occurs only after max.poll.interval.ms without a poll()
    `unserved`    True if the event shows that the brokers or the group's coordinator do not serve the client
    `otherwise`   True if the event's patterns apply only to text that no other pattern matches
    `suspects`    the failure modes that the event suggests, each with the cause of the failure ('' if unknown). Only
                  events in attached texts suggest failures. A later line with an event that has `relief` cancels the
                  suggestion
    `enough`      the minimum number of lines for a suspicion in `suspects`
    """

    says: str
    wordings: tuple[Wording, ...] = ()
    no_pattern: Mapping[str, str] = {}
    kind: Kind | None = None
    relief: bool = False
    process: bool = False
    life: Life | None = None
    counted: str = ""
    halted: str = ""
    away: bool = False
    unserved: bool = False
    otherwise: bool = False
    suspects: Mapping[str, str] = {}
    enough: int = 1

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of the log patterns of this log event."""
        return frozenset(wording.id for wording in self.wordings)

    def __contains__(self, event: LogEvent) -> bool:
        return event.signature in self.ids


M = TypeVar("M", bound=Meaning)
_Find = Callable[[str], "re.Match[str] | None"]


def meanings(tables: Mapping[str, Any], kind: type[M], where: str) -> Mapping[str, M]:
    """Return the log events of a TOML file by name, one per table.

    `kind`: the class to create from each table. Raises CatalogueError for a table that describes no log event; the
    message begins with `where`.
    """
    for name, entry in tables.items():
        for wording in entry.get("wordings", ()):
            converted(wording, Wording, f"{where}{name}, wording {wording.get('id', 'without an id')}")
    return {name: converted(entry, kind, f"{where}{name}") for name, entry in tables.items()}


class Catalogue:
    """All log events with their compiled log patterns.

    Raises CatalogueError if two patterns have the same id, or if a pattern is invalid.

    `meanings`  the log events, in the order given, without duplicates
    `by_id`     maps the id of a log pattern to its log event
    `loose`     ids of the log patterns that may match lines of any program (`Wording.loose`)
    `narrated`  ids of the log patterns for a person's sentences (`Wording.narrated`)
    `reports`   maps a label of the classifier (`judged`) to the log pattern with this label (`Wording.reports`)
    `literals`  the literal texts of all patterns; every match contains at least one of them
    """

    def __init__(self, meanings: Iterable[Meaning]) -> None:
        self.meanings = tuple(dict.fromkeys(meanings))
        self.by_id: dict[str, Meaning] = {}
        self.loose, self.narrated = (
            frozenset(one.id for one in self.wordings if getattr(one, name)) for name in ("loose", "narrated")
        )
        self._fact = with_parts("%fact%")
        self.reports = {one.reports: one for one in reversed(self.wordings) if one.reports}
        compiled: dict[tuple[bool, bool, str], list[tuple[Wording, _Find, re.Pattern[str] | None]]] = {}
        for meaning in self.meanings:
            for wording in meaning.wordings:
                if wording.id in self.by_id:
                    raise CatalogueError(f"two log patterns have the id {wording.id}")
                self.by_id[wording.id] = meaning
                logger = None if wording.logger is None else _abbreviated(wording.logger)
                try:
                    find = _finder(with_parts(wording.pattern))
                except re.error as error:
                    raise CatalogueError(f"the log pattern {wording.id} cannot be compiled: {error}") from None
                for literal in wording.literals:
                    compiled.setdefault((wording.loose, meaning.otherwise, literal), []).append((wording, find, logger))
        self._by_literal = tuple(sorted(compiled.items(), key=lambda item: item[0][0]))
        self.literals = tuple(dict.fromkeys(literal for _, _, literal in compiled))
        frequency = Counter(chain.from_iterable(map(_pairs, self.literals)))
        self._by_pair: dict[str, list[int]] = {}
        for index, ((_, _, literal), _) in enumerate(self._by_literal):
            self._by_pair.setdefault(min(_pairs(literal), key=frequency.__getitem__), []).append(index)

    @property
    def wordings(self) -> tuple[Wording, ...]:
        """All log patterns."""
        return tuple(wording for meaning in self.meanings for wording in meaning.wordings)

    def _literals_in(self, text: str) -> Iterator[int]:
        """Yield the index in `_by_literal` of each literal that a text contains.

        To save time, a literal is searched for only if the text contains the literal's rarest pair of characters.
        """
        common = _pairs(text) & self._by_pair.keys()
        for index in sorted(chain.from_iterable(self._by_pair[pair] for pair in common)):
            if self._by_literal[index][0][2] in text:
                yield index

    def literals_in(self, text: str) -> Iterator[str]:
        """Yield the literals that a text contains."""
        return (self._by_literal[index][0][2] for index in self._literals_in(text))

    def matches(
        self, text: str, logger: str | None, with_loose: bool = True, narrated: float | None = None
    ) -> Iterator[tuple[Wording, re.Match[str]]]:
        """Yield (log pattern, match) for each pattern that matches a text and allows `logger`.

        `with_loose` adds patterns for lines of any program. If `narrated` (`LogLine.narrated`) is not None, patterns
        for a person's sentences are tried as well, and each sentence that the classifier finds is a match. In a
        goroutine dump, a pattern's match is the goroutine that has waited longest.
        """
        named = logger if logger and "." in logger else ""
        matched: set[Meaning] = set()
        of_mode = False
        # The lines below the first are a stack.
        sentences = [] if narrated is None else list(judged(text.partition("\n")[0]))
        doubtful = [one.sentence.span() for one in sentences if one.of_failure < OF_PATTERN]
        for index in self._literals_in(text):
            (loose, otherwise, _), candidates = self._by_literal[index]
            if (otherwise and matched) or (loose and (of_mode or not with_loose)):
                continue
            for wording, find, logged_by in candidates:
                if (wording.narrated and narrated is None) or (named and logged_by and not logged_by.match(named)):
                    continue
                meaning = self.by_id[wording.id]
                if (len(wording.literals) > 1 and meaning in matched) or not (match := find(text)):
                    continue
                if not (loose and any(begin <= match.start() < end for begin, end in doubtful)):
                    matched.add(meaning)
                    of_mode |= not loose and type(meaning) is Meaning
                    yield wording, match
        for one in sentences:
            wording = self.reports[one.label]
            new = self.by_id[wording.id] not in matched and one.counts(narrated or 0)
            if new and self._fact.match(one.sentence[0].strip()):
                yield wording, one.sentence


def _pairs(text: str) -> set[str]:
    """Return the pairs of neighbouring characters of a text."""
    return set(map(add, text, text[1:]))


def _finder(pattern: re.Pattern[str]) -> _Find:
    """Return a function that finds the first match of a pattern.

    If the pattern has a group `minutes`, the function finds the match with the most minutes instead.
    """
    if "minutes" not in pattern.groupindex:
        return pattern.search
    return lambda text: max(pattern.finditer(text), key=lambda match: int(match["minutes"] or 0), default=None)


def _abbreviated(logger: str) -> re.Pattern[str]:
    """Return a pattern for a logger's name and its short forms, such as `o.a.k.clients`."""
    *packages, last = logger.split(".")
    shortened = "".join(rf"{part[0]}(?:{part[1:]})?\." for part in packages[1:])
    return re.compile(
        rf"(?:{packages[0][0]}(?:{packages[0][1:]})?)?\.{shortened}"
        + (last if last[0].isupper() else rf"{last[0]}(?:{last[1:]})?\b"),
        re.ASCII,
    )
