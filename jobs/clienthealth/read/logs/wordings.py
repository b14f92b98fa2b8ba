"""Log lines of client libraries: what a line means, and under each meaning the wordings of the libraries, as data.

Only what a library itself says counts: how an application words its own errors never does. They stand in TOML files:
`mode.toml` of each failure mode, `also_seen.toml` and `self_descriptions.toml` beside this one. `modes.catalogue` hands
them all to `logs.events`, compiled once per process.

Every repetition of a pattern is bounded or cannot overlap what follows it, so none backtracks catastrophically: log
text is hostile. Classes like `\\d` mean ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, TypeVar

import msgspec

from clienthealth.model.clients import Kind
from clienthealth.model.errors import CatalogueError
from clienthealth.model.readings import LogEvent
from clienthealth.model.tables import converted

Life = Literal["begins", "closes", "closed", "loses", "is killed"]


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line as the library writes it, and what the pattern captures of it."""

    line: str
    captures: Mapping[str, str] = {}


class Wording(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """One way to say it. What a line was recognised by: `LogEvent.signature` is its id, also in state on disk.

    id        hyphenated, unique
    said_by   by library where in its source it is worded, and since or until which version
    literal   a text that every match contains: a cheap test before the pattern (case matters)
    pattern   found in the message, or in the exception below it; its named groups become `LogEvent.captures`
    logger    how the logger's name begins; asked only where the record names a logger that can be a Java class
    also      of a mode's wording the trouble of `also_seen.toml` as which its lines are counted beside the verdicts
    examples  lines that it is for
    """

    id: str
    said_by: Mapping[str, str]
    literal: str
    pattern: str
    logger: str | None = None
    also: str = ""
    examples: tuple[Example, ...] = ()


class Meaning(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, dict=True):
    """What a line tells, in whatever words.

    says      in a few words
    wordings  how it is said
    unsaid    by libraries ("sarama, kafkajs") why they have no wording here, tempting ones too: not to be added
    kind      the kind of client that says it; None where several do
    relief    it speaks of a fault's end, not of the fault
    process   it speaks of the whole process, so of all its clients
    life      what it tells of a client's life: that it begins, begins to close or has closed, that it ends with work
              undone, or that its process is killed
    counted   a counter of the Java client that has risen when it says so ("": none)
    halted    a counter of the Java client that rises no more once it has said so ("": none)
    away      it says so where nobody has called poll() for max.poll.interval.ms
    unserved  it says so where its brokers, or its coordinator, do not serve the client
    """

    says: str
    wordings: tuple[Wording, ...] = ()
    unsaid: Mapping[str, str] = {}
    kind: Kind | None = None
    relief: bool = False
    process: bool = False
    life: Life | None = None
    counted: str = ""
    halted: str = ""
    away: bool = False
    unserved: bool = False

    @cached_property
    def ids(self) -> frozenset[str]:
        """Of its wordings."""
        return frozenset(wording.id for wording in self.wordings)

    def __contains__(self, event: LogEvent) -> bool:
        """Does the event say this?"""
        return event.signature in self.ids


M = TypeVar("M", bound=Meaning)


def meanings(tables: Mapping[str, Any], kind: type[M], where: str) -> Mapping[str, M]:
    """The meanings of a file by name, as they stand there. Raises CatalogueError, with the wording's id."""
    for name, entry in tables.items():
        for wording in entry.get("wordings", ()):
            converted(wording, Wording, f"{where}{name}, wording {wording.get('id', 'without an id')}")
    return {name: converted(entry, kind, f"{where}{name}") for name, entry in tables.items()}


class Catalogue:
    """All meanings, ready to search with; see `matches`.

    meanings  each once, in the order given
    by_id     the meaning of each wording, by the wording's id
    literals  one of them is in every text that matches
    """

    def __init__(self, meanings: Iterable[Meaning]) -> None:
        self.meanings = tuple(dict.fromkeys(meanings))
        self.by_id: dict[str, Meaning] = {}
        compiled: dict[str, list[tuple[Wording, re.Pattern[str], re.Pattern[str] | None]]] = {}
        for meaning in self.meanings:
            for wording in meaning.wordings:
                if wording.id in self.by_id:
                    raise CatalogueError(f"two wordings are called {wording.id}")
                self.by_id[wording.id] = meaning
                logger = None if wording.logger is None else _abbreviated(wording.logger)
                try:
                    pattern = re.compile(wording.pattern, re.ASCII)
                except re.error as error:
                    raise CatalogueError(f"the pattern of wording {wording.id} cannot be used: {error}") from None
                compiled.setdefault(wording.literal, []).append((wording, pattern, logger))
        self._by_literal = tuple(compiled.items())
        self.literals = tuple(compiled)

    @property
    def wordings(self) -> tuple[Wording, ...]:
        """Of all meanings."""
        return tuple(wording for meaning in self.meanings for wording in meaning.wordings)

    def matches(self, text: str, logger: str | None) -> Iterator[tuple[Wording, re.Match[str]]]:
        """The wordings that a text holds. A logger's name without dots can be anything, so it forbids none."""
        named = logger is not None and "." in logger
        for literal, candidates in self._by_literal:
            if literal in text:
                for wording, pattern, logged_by in candidates:
                    if logged_by is not None and named and not logged_by.match(logger or ""):
                        continue
                    if match := pattern.search(text):
                        yield wording, match


def _abbreviated(logger: str) -> re.Pattern[str]:
    """How a logger's name begins, its packages shortened to any length (`o.a.k.clients`).

    Spring Boot cuts a long name at its left: of the first package nothing may be left (`.apache.kafka.common.utils`).
    """
    *packages, last = logger.split(".")
    shortened = "".join(rf"{part[0]}(?:{part[1:]})?\." for part in packages[1:])
    return re.compile(
        rf"(?:{packages[0][0]}(?:{packages[0][1:]})?)?\.{shortened}"
        + (last if last[0].isupper() else rf"{last[0]}(?:{last[1:]})?\b"),
        re.ASCII,
    )
