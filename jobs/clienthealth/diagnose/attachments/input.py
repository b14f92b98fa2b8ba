"""What a person attached, one by one: what it turned out to be, and what of it counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

#: Why the end of a text is doubted.
CUT = "its last line does not end"


@dataclass
class Input:
    """One file, part of an archive, or standard input.

    name       as the person knows it: `support.zip/logs/app.log`, `-`
    what       what it is, for people: `log`, `thread dump (jcmd)`, `metrics`, `no evidence`
    read       lines (of metrics: records) that it has
    used       those of them that a judgement can rest on
    start_ms   time of the first thing used in it, epoch ms; None where it says no time
    end_ms     and of the last
    dated      False where its times are those of a clock, of a day that nothing says
    named      its times are those in its name: a clock, with or without the day; '' where they are not
    timed      False where times are made up: only the order is known, and no duration is claimed
    left_out   why the rest does not count → how many lines; what is none of Kafka's is not named
    unread     why evidence could not be read → how many lines: whoever it speaks of cannot be called healthy
    process    whose it is: service and place of the clients that it speaks of; None where that is not known
    topics     the names under which evidence refers to it (`Source.topic`)
    speaks     it names a Kafka client, or a class of its library, whether that counts or not
    """

    name: str
    what: str = ""
    read: int = 0
    used: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    dated: bool = True
    named: Literal["", "clock", "day"] = ""
    timed: bool = True
    left_out: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    process: tuple[str, str] | None = None
    topics: frozenset[str] = frozenset()
    speaks: bool = False

    @property
    def clocked(self) -> bool:
        """Does it say itself when what it tells was?"""
        return self.timed and self.dated and (self.start_ms is not None or not self.used)
