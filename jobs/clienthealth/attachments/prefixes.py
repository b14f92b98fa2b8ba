"""What container runtimes, orchestrators and syslog write before each line: learned from a file's lines, and taken off.

A prefix may say who wrote the line (lines of several writers are then told apart) and when. Up to three stand before
each other, as in a log of `docker compose logs --timestamps` that went through syslog.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_NANOS = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:?\d\d)"
_SYSLOG_TIME = rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})?"
#: Above this share of lines it is a prefix of all; the rest is what a tool says itself (`-- Logs begin at …`).
_SHARE = 0.8
_LAYERS = 3
_SAMPLE = 400

#: Name → how the prefix looks. Groups: `key` who wrote the line, `time` when, `part` P where the line goes on.
_KINDS: tuple[tuple[str, bytes], ...] = (
    ("CRI", rb"(?P<time>\S{20,40}) std(?:out|err) (?P<part>[FP]) "),
    ("kubectl", rb"\[(?P<key>(?:pod/)?[\w.-]{1,253}/[\w./-]{1,253})\] "),
    (
        "syslog (RFC 5424)",
        rb"(?:\d{1,5} )?<\d{1,3}>1 (?P<time>" + _ISO + rb"|-) (?P<key>\S{1,255} \S{1,48} \S{1,128}) \S{1,32} "
        rb"(?:-|(?:\[[^\]\n]{1,500}\])+) ?(?:\xef\xbb\xbf)?",
    ),
    (
        "syslog",
        rb"(?:<\d{1,3}>)?(?P<time>"
        + _SYSLOG_TIME
        + rb"|"
        + _ISO
        + rb") (?P<key>[\w.:-]{1,255} [^\s:\[\]]{1,64}(?:\[\d+\])?): ?",
    ),
    ("compose", rb"(?P<key>[A-Za-z0-9][\w.-]{0,100}) {0,60}\| ?"),
    ("timestamps", rb"(?P<time>" + _NANOS + rb")(?: |$)"),
    ("severity", rb"<\d{1,3}>(?=\S)"),
)
_TIMED_REST = re.compile(rb"[\[(<]?(?:\d{4}[-/.]\d\d|\d\d[-/:. ]|\d{10}|\{)")
#: What begins with a level has its time from the application as likely as from who shipped it.
_LEVELLED_REST = re.compile(rb"[A-Z]{4,5} ")
#: How the lines of a stack trace, or of a list of options, go on: an application writes no time before them.
_CONTINUED = re.compile(rb"\t|\}|[ ]+(?:at |\.\.\. \d|[\w.]+ = )|Caused by: |Suppressed: ")


class Stripped(NamedTuple):
    """A line without its prefix. `part`: it goes on in the next line."""

    line: bytes
    key: bytes = b""
    time: bytes = b""
    part: bool = False


class Prefixes:
    """The prefixes of a file's lines. `names`: what they are, outermost first; `keys`: who the sample speaks of."""

    def __init__(self, sample: Sequence[bytes]) -> None:
        self.names: list[str] = []
        self.keys: set[bytes] = set()
        self._patterns: list[re.Pattern[bytes]] = []
        lines = [line for line in sample[:_SAMPLE] if line.strip()]
        while len(self._patterns) < _LAYERS and (learned := _learned(lines, set(self.names))):
            name, pattern = learned
            self.names.append(name)
            self._patterns.append(pattern)
            rest = []
            for line in lines:
                if match := pattern.match(line):
                    if "key" in pattern.groupindex:
                        self.keys.add(match["key"])
                    if line[match.end() :].strip():
                        rest.append(line[match.end() :])
            lines = rest

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def strip(self, line: bytes) -> Stripped:
        """Take the prefixes off a line, as far as it has them."""
        keys, time, part, at = [], b"", False, 0
        for pattern in self._patterns:
            match = pattern.match(line, at)
            if match is None:
                continue
            at = match.end()
            groups = match.groupdict()
            if groups.get("key"):
                keys.append(groups["key"])
            time = groups.get("time") or time
            part = part or groups.get("part") == b"P"
        return Stripped(line[at:], b" ".join(keys), time, part)


def _learned(lines: Sequence[bytes], learned: set[str]) -> tuple[str, re.Pattern[bytes]] | None:
    for name, expression in _KINDS:
        if name in learned:
            continue
        pattern = re.compile(expression)
        matches = [match for line in lines if (match := pattern.match(line))]
        if not matches or len(matches) < _SHARE * len(lines):
            continue
        if name in ("timestamps", "syslog") and not _is_before_lines(name, matches):
            continue
        if name == "compose" and not _is_compose(matches):
            continue
        return name, pattern
    return None


def _is_before_lines(name: str, matches: Sequence[re.Match[bytes]]) -> bool:
    """Is the time one that a tool wrote before whole lines, and not how the application begins its own entries?"""
    rests = [match.string[match.end() :] for match in matches]
    if name == "syslog" and re.match(rb"[A-Z<]", matches[0].string):
        return True
    continued = sum(_CONTINUED.match(rest) is not None for rest in rests)
    timed = sum(_TIMED_REST.match(rest) is not None for rest in rests)
    if name == "syslog":
        timed += sum(_LEVELLED_REST.match(rest) is not None for rest in rests)
    # A journal says host and program of each line: few programs, whatever the lines say.
    few = name == "syslog" and len({match["key"] for match in matches}) <= max(3, len(matches) // 20)
    return bool(few or continued or timed * 2 > len(rests))


def _is_compose(matches: Sequence[re.Match[bytes]]) -> bool:
    """Few writers, whose names are padded to one width (or by one blank: `docker compose` of some versions)."""
    keys = {match["key"] for match in matches}
    levels = {b"INFO", b"WARN", b"ERROR", b"DEBUG", b"TRACE", b"FATAL"}
    bars = {match.group().find(b"|") for match in matches}
    return not keys & levels and len(keys) <= max(2, len(matches) // 3) and len(bars) <= max(1, len(keys))
