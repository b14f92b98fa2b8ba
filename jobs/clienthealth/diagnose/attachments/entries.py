"""Split a log into entries, and yield the entries about Kafka.

An entry about Kafka contains a text that `_scanner` finds: a fixed part of a log pattern, or a text that is typical of
thread dumps or of clients' metrics. Only lines near a text that `_scanner` finds are parsed. The lines of each writer
(pod, program) are collected separately.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from clienthealth.diagnose.attachments.text import Layout, plain, utf8
from clienthealth.modes import catalogue
from clienthealth.read.logs.bursts import SAMPLING_MS
from clienthealth.read.logs.dump_formats import LITERALS as DUMP_LITERALS
from clienthealth.read.logs.times import Stamp, Times

#: Numbers of bytes that are parsed around a text that `_scanner` finds: `BACK` before the text, `AHEAD` after the text.
BACK, AHEAD = 1 << 14, 1 << 16
#: Maximum size (bytes) of an entry. If an entry is larger, the next line begins a new entry.
MAX_PART = 1 << 22
MAX_ENTRY_LINES, MAX_DUMP = 500, 1 << 26
#: A time zone's offset is n × QUARTER_MS (± ZONE_EXACT_MS). n is an integer from -MOST_QUARTERS to MOST_QUARTERS.
QUARTER_MS, MOST_QUARTERS, ZONE_EXACT_MS = 900_000, 56, 60_000
_REMEMBERED = 20_000

_ABOVE = 200

_STAMP_ONLY = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*")
_CONTINUED = re.compile(
    rb"(?! {1,4}(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b)(?:[\s})\]]|$|Caused by: |Suppressed: |"
    rb"\.\.\. |at |[\w.$]{1,300}(?:Exception|Error|Throwable)\b|Traceback |\"|Locked |"
    # Stack frames as Go prints them, and stack frames as gdb prints them, except gdb's first frame (#0).
    rb"created by \S{1,300}\.|[\w.@/-]{1,500}\.(?:go|s|c):\d{1,6}(?: \+0x|\s*$)|#[1-9]\d{0,3} {1,4}[\w<:~*{?]|"
    rb"[\w.~%/[\]\x80-\xff-]{1,300}+(?:\(\*?[^\s()]{1,300}\)[\w.~%/[\]-]{0,200}+){0,3}\([{}_, ]{0,9}(?:\)|0x|\.\.\.))"
)
_IN_DUMP = re.compile(
    rb"JNI global|Threads class |_java_thread_list|0x[0-9a-f]+|Found |Full thread dump |Thread |Current thread|"
    rb"[0-9][A-Z]{2,5}|NULL\b|=====|-----|Name: |State: |Total blocked|Stack trace|Process \d|Python v|"
    rb"Java.{1,40}stack info"
)
_LEVELLED = re.compile(rb"(?!\s*(?:at |Caused by|Suppressed))[^\n]{0,60}?\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_JSON_TIME = re.compile(rb'"(?:@?time(?:stamp)?|ts|asctime|date)" ?: ?"?([^",}]{10,40})')
_TITLE = b"Full thread dump "

_DUMPS = tuple(text.encode() for text in DUMP_LITERALS)
METRICS = (
    b'"txmsgs"',
    b'\\"txmsgs\\"',
    b'"mbean"',
    b"'producer-metrics'",
    b"'consumer-metrics'",
    b"'consumer-fetch-manager-metrics'",
)
_LOGS = tuple(text.encode() for text in catalogue().literals)


@cache
def _scanner() -> Scanner:
    return Scanner((*_LOGS, *_DUMPS, *METRICS))


@dataclass
class Entry:
    """A record found in a log.

    `line`     number of the entry's first line, from 0 at the file's first line
    `ts_ms`    the entry's own time (epoch ms), else the shipper's time, else the time of a line nearby; None if unknown
    `value`    the entry's text, without the prefix that a shipper puts before each line
    `stamp`    the entry's own time, and its position in `value`; None if the time is unknown or the entry is a dump
    `key`      the pod, container or program that wrote the entry; '' for a log with one writer
    `dump`     True if the entry may contain a thread dump
    `repeats`  number of equal entries that this one stands for
    `numbers`  number of each line in the entry, from 0 at the file's first line
    """

    line: int
    ts_ms: int | None
    value: bytes
    stamp: Stamp | None = None
    key: str = ""
    dump: bool = False
    repeats: int = 1
    numbers: Sequence[int] = ()


@dataclass
class _Open:
    line: int
    stamp: Stamp | None
    ts_ms: int | None
    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    relevant: bool = False
    dump: bool = False
    size: int = 0


class Splitter:
    """Splits a file, which is passed in blocks, and yields the entries about Kafka.

    `lines`: number of lines read so far. `first_ms`, `last_ms`: earliest and latest time found in these lines.
    `telling`: number of parsed lines with a text that `_scanner` finds. `glued`: how many of these parsed lines contain
    a log level, but do not begin an entry. If the number `glued` is large, the log's layout is probably unknown.

    The first of several equal one-line entries (same writer, text and tenth of a second) is yielded. Later equal
    entries are only counted. One further entry, with the count as `repeats`, is then yielded in their place.
    """

    def __init__(self, layout: Layout) -> None:
        self.prefixes, self.times = layout.shipped, layout.times
        self.lines = self.telling = self.glued = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self._many = len(self.prefixes.keys) > 1
        self._shipped = Times.all()
        self._open: dict[bytes, _Open] = {}
        self._parts: dict[bytes, tuple[bytes, bytes]] = {}
        self._time_of: dict[bytes, int] = {}
        self._zones: dict[bytes, int] = {}
        #: Entries already yielded; `repeats` counts their later repetitions.
        self._left_out: dict[bytes | tuple[bytes, bytes, int], Entry] = {}
        self._stamped = False
        self._tail = b""
        self._hot = 0

    @property
    def zone_ms(self) -> int | None:
        """Time (ms) to add to the file's local times to get UTC; None if the zone is unknown, or if zones differ."""
        zones = set(self._zones.values())
        return zones.pop() if len(zones) == 1 else None

    def take(self, block: bytes) -> Iterator[Entry]:
        """Yield the entries that end in this block of whole lines."""
        block = plain(block)
        if not self.lines:
            # Undated lines above the first dated line get the time of that line.
            next(filter(None, map(self._dated, block.split(b"\n", _ABOVE)[:_ABOVE])), None)
        hits = _scanner().find(block)
        done = 0
        for begin, end in _spans(block, hits, self._hot):
            if begin <= done:
                if done == 0 and not self._hot:
                    # The first entry may begin in the previous block.
                    yield from self._apart(self._tail, 0, len(self._tail), (), self.lines - self._tail.count(b"\n"))
                begin = done
            else:
                yield from self.close()
            yield from self._apart(block, begin, end, hits, self.lines + block.count(b"\n", 0, begin))
            done = end
        self._hot = max(0, max(hits[-1] + AHEAD if hits else 0, self._hot) - len(block))
        if done < len(block) or not self._hot:
            yield from self.close()
            self._hot = 0
            self._look_at_end(block)
        self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
        begin = max(0, len(block) - BACK)
        self._tail = block[block.find(b"\n", begin) + 1 if begin else 0 :] if not self._hot else b""

    def close(self) -> Iterator[Entry]:
        """Yield the entries that were held back because a later line might continue or repeat them.

        Call this function at the end of the file, and before each part of the file that is skipped.
        """
        for key, (part, time) in list(self._parts.items()):
            yield from self._line(part, key, time, self.lines, True)
        self._parts.clear()
        for key in list(self._open):
            yield from self._closed(key)
        yield from self._repeated()

    def _repeated(self) -> Iterator[Entry]:
        for left_out in self._left_out.values():
            if left_out.repeats:
                yield replace(left_out)
                left_out.repeats = 0

    def _look_at_end(self, block: bytes) -> None:
        """Remember the newest time at the block's end, for undated lines in later blocks."""
        for line in reversed(block.removesuffix(b"\n").rsplit(b"\n", 5)[-5:]):
            if self._dated(line) is not None:
                break
        if self.first_ms is None or not self.lines:
            first = self._dated(block[: block.find(b"\n")])
            self.first_ms = first if self.first_ms is None or (first is not None and not self.lines) else self.first_ms

    def _dated(self, line: bytes) -> int | None:
        stripped, key, time, _ = self.prefixes.parted(line)
        return self._time(self.times.stamp(stripped), time, key)

    def _apart(self, block: bytes, begin: int, end: int, hits: Sequence[int], number: int) -> Iterator[Entry]:
        """Yield the entries in `block[begin:end]`. `hits`: the indices in `block` of texts that `_scanner` found."""
        next_hit, at = bisect_left(hits, begin), begin
        for line in block[begin:end].removesuffix(b"\n").split(b"\n"):
            at += len(line) + 1
            hit, next_hit = next_hit, bisect_left(hits, at, next_hit)
            relevant = next_hit > hit
            if relevant and self._is_left_out(line):
                if self._open:
                    yield from self._closed(self.prefixes.parted(line).key)
                number += 1
                continue
            stripped, key, time, part = self.prefixes.parted(line)
            before = self._parts.pop(key, None) if self._parts else None
            if before is not None:
                stripped, time, relevant = before[0] + stripped, before[1], True
            if part:
                self._parts[key] = stripped[:MAX_PART], time
            else:
                yield from self._line(stripped, key, time, number, relevant)
                if relevant and self._stamped:
                    entry = self._open[key]
                    if len(entry.lines) == 1:
                        yield from self._remember(line, self._entry(key, entry))
            number += 1

    def _is_left_out(self, key: bytes | tuple[bytes, bytes, int]) -> bool:
        if (known := self._left_out.get(key)) is None:
            return False
        known.repeats += 1
        return True

    def _remember(self, key: bytes | tuple[bytes, bytes, int], entry: Entry) -> Iterator[Entry]:
        if len(self._left_out) >= _REMEMBERED:
            yield from self._repeated()
            self._left_out.clear()
        self._left_out[key] = replace(entry, repeats=0)

    def _line(self, line: bytes, key: bytes, time: bytes, number: int, relevant: bool) -> Iterator[Entry]:
        stamp = self.times.stamp(line)
        if line.startswith(b'{"') and not time and (json_time := _JSON_TIME.search(line)):
            time = json_time[1]
        self._stamped = stamp is not None
        entry = self._open.get(key)
        if entry is not None and _TITLE in line and not entry.dump:
            if len(entry.lines) == 1 and _STAMP_ONLY.fullmatch(entry.lines[0]):
                entry.dump, stamp = True, None
            else:
                yield from self._closed(key)
                entry = None
        begins = entry is None or stamp is not None or not _continues(line, entry) or _is_long(entry, line)
        if entry is None or begins:
            yield from self._closed(key)
            entry = self._open[key] = _Open(number, stamp, self._time(stamp, time, key))
        entry.lines.append(line)
        entry.numbers.append(number)
        entry.size += len(line) + 1
        if relevant:
            self.telling += 1
            self.glued += not begins and not entry.dump and _LEVELLED.match(line) is not None
            entry.relevant = True
            entry.dump = entry.dump or any(literal in line for literal in _DUMPS)

    def _closed(self, key: bytes) -> Iterator[Entry]:
        entry = self._open.pop(key, None)
        if entry is None or not entry.relevant:
            return
        finished = self._entry(key, entry)
        if not entry.dump and len(entry.lines) == 1 and entry.stamp is not None and entry.ts_ms is not None:
            same = key, entry.lines[0][entry.stamp.end :], entry.ts_ms // SAMPLING_MS
            if self._is_left_out(same):
                return
            yield from self._remember(same, finished)
        yield finished

    def _entry(self, key: bytes, entry: _Open) -> Entry:
        text, writer = utf8(b"\n".join(entry.lines)), utf8(key).decode() if self._many else ""
        stamp = None if entry.dump else entry.stamp
        return Entry(entry.line, entry.ts_ms, text, stamp, writer, entry.dump, numbers=entry.numbers[:])

    def _time(self, stamp: Stamp | None, shipped: bytes, key: bytes) -> int | None:
        """Return a line's own time, else the shipper's time, else the time of the writer's previous line."""
        own = stamp.ts_ms if stamp is not None else None
        if shipped:
            sent = self._shipped.stamp(shipped)
            sent_ms = sent.ts_ms if sent is not None else None
            if own is None:
                own = sent_ms
            elif sent_ms is not None and shipped[:1].isdigit():
                # The shipper's time has a zone. The difference between the shipper's time and the line's own time is
                # the offset of the line's zone.
                quarters = round((sent_ms - own) / QUARTER_MS)
                exact = abs(sent_ms - own - quarters * QUARTER_MS) <= ZONE_EXACT_MS and abs(quarters) <= MOST_QUARTERS
                # If the difference is not a possible offset of a zone, the shipper was late. The line's own time then
                # counts as UTC.
                own += self._zones.setdefault(key, quarters * QUARTER_MS if exact else 0)
        if own is None:
            return self._time_of.get(key, self.last_ms)
        self._time_of[key] = own
        self.first_ms = own if self.first_ms is None else min(self.first_ms, own)
        self.last_ms = own if self.last_ms is None else max(self.last_ms, own)
        return own


def _continues(line: bytes, entry: _Open) -> bool:
    if any(text.strip().startswith(b'{"') and text.strip().endswith(b"}") for text in (entry.lines[0], line)):
        return False
    return _CONTINUED.match(line) is not None or (entry.dump and _IN_DUMP.match(line) is not None)


def _is_long(entry: _Open, line: bytes) -> bool:
    if entry.dump:
        return entry.size > MAX_DUMP
    return (len(entry.lines) >= MAX_ENTRY_LINES and line[:1] not in (b"\t", b" ", b"")) or entry.size > MAX_PART


def _spans(block: bytes, hits: Sequence[int], hot: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of each part of the block that is near one of `hits`. Each part consists of whole lines."""
    spans: list[tuple[int, int]] = [(0, hot)] if hot else []
    for hit in hits:
        begin, end = max(0, hit - BACK), hit + AHEAD
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((begin, end))
    done = 0
    for begin, end in spans:
        first = block.rfind(b"\n", 0, begin) + 1
        last = block.find(b"\n", end) + 1 or len(block)
        if last > max(first, done):
            yield max(first, done), last
        done = max(done, last)


_STRIDE = 4
_LEAST = 2 * _STRIDE - 1
_FACTOR = np.uint32(2_654_435_761)
_SHIFT = np.uint32(16)
#: Frequent characters in logs, the most frequent first. `Scanner` avoids frequent characters.
_FREQUENT = b" eatinosrlcd.:-0123m=/[]u,p"


class Scanner:
    """Finds many texts in a block of bytes, faster than a regular expression.

    The block is divided into words of four bytes, and numpy compares only whole words. A text of at least seven bytes
    contains a whole word at any position in the block. Each text of fewer than seven bytes slows the search, so there
    should be few short texts.
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._short: list[bytes] = []
        self._table = np.zeros(1 << 16, bool)
        self._by_piece: dict[int, list[tuple[bytes, int]]] = {}
        for text in dict.fromkeys(texts):
            if len(text) < _LEAST:
                self._short.append(text)
                continue
            common = [len(_FREQUENT) - _FREQUENT.find(letter) if letter in _FREQUENT else 0 for letter in text]
            begin = min(range(len(text) - _LEAST + 1), key=lambda at: sum(common[at : at + _LEAST]))
            for at in range(begin, begin + _STRIDE):
                piece = np.frombuffer(text[at : at + _STRIDE], np.uint32)
                self._by_piece.setdefault(int(piece[0]), []).append((text, at))
                self._table[piece * _FACTOR >> _SHIFT] = True

    def find(self, block: bytes) -> list[int]:
        """Return the indices where the scanner's texts begin in the block, sorted and without duplicates."""
        words = np.frombuffer(block, np.uint32, len(block) // _STRIDE)
        maybe = np.flatnonzero(self._table[words * _FACTOR >> _SHIFT])
        begins = set()
        for position, word in zip(maybe.tolist(), words[maybe].tolist(), strict=True):
            for text, at in self._by_piece.get(word, ()):
                begin = position * _STRIDE - at
                if begin >= 0 and block.startswith(text, begin):
                    begins.add(begin)
        for text in self._short:
            begins.update(match.start() for match in re.finditer(re.escape(text), block))
        return sorted(begins)
