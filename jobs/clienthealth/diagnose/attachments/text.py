"""Turn a file's bytes into blocks of UTF-8 text, and find the envelope of its lines.

The envelope is what programs add to lines: an encoding, colours, JSON, and prefixes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from clienthealth.model.tables import table
from clienthealth.model.values import mapping
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.logs import lines
from clienthealth.read.logs.times import Times

BLOCK = 1 << 18
#: Maximum length of a line in bytes; a longer line is split.
MAX_LINE = 1 << 23

ANSI = re.compile(
    rb"\x1b(?:\[[0-9;:?]{0,40}[ -/]?[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cDEHM])"
)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

Read = Callable[[int], bytes]


def encoding_of(head: bytes) -> tuple[str, int] | None:
    """Return (encoding, length of the byte order mark); None if the file is no text."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    sample = head[:4096]
    if sample.count(0) > len(sample) // 4:
        # In ASCII text encoded as UTF-16, every other byte is zero.
        even, odd = sample[::2].count(0), sample[1::2].count(0)
        if odd > len(sample) // 3 and even < len(sample) // 16:
            return "utf-16-le", 0
        if even > len(sample) // 3 and odd < len(sample) // 16:
            return "utf-16-be", 0
    control = sum(sample.count(bytes((code,))) for code in (*range(0, 8), *range(14, 27), *range(28, 32)))
    return None if 0 in sample or control * 50 > len(sample) else ("utf-8", 0)


def blocks(read: Read, head: bytes, size: int = BLOCK) -> Iterator[bytes]:
    """Yield the text of a file as UTF-8, in blocks of whole lines. `head`: the part that was already read."""
    encoding, mark = encoding_of(head) or ("utf-8", 0)
    begin = (head[at : at + size] for at in range(mark, len(head), size))
    chunks: Iterator[bytes] = chain(begin, iter(lambda: read(size), b""))
    if encoding != "utf-8":
        decoded = codecs.iterdecode(chunks, encoding, "replace")
        chunks = (text.encode("utf-8", "replace") for text in decoded)
    rest = b""
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end == 0 and len(rest) < MAX_LINE:
            rest += chunk
            continue
        yield rest + chunk[:end]
        rest = chunk[end:]
    if rest:
        yield rest


def utf8(line: bytes) -> bytes:
    """Return the line as UTF-8. A line that is not valid UTF-8 is read as Latin-1."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1").encode()
    return line


def plain(block: bytes) -> bytes:
    r"""Return the block without colours, and with line ends `\n` instead of `\r\n`."""
    if b"\x1b" in block:
        block = ANSI.sub(b"", block)
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


Unwrap = Callable[[Iterator[bytes]], Iterator[bytes]]
Fields = Mapping[str, object]


def unwrapper(head: bytes) -> tuple[str, Unwrap] | None:
    """Return (kind of wrapper, function that unwraps the lines); None if the lines are not wrapped."""
    first = plain(head).lstrip(b"\xef\xbb\xbf\n ").partition(b"\n")[0]
    if first.startswith(b"{"):
        wrapped = mapping(parsed(first))
        for what, line_of in (("docker json-file", _docker), ("journald JSON", _journal)):
            if line_of(wrapped) is not None:
                return what, partial(_unwrapped, line_of)
    if re.match(rb"(?:__CURSOR|__REALTIME_TIMESTAMP|_[A-Z_]+|[A-Z][A-Z_]+)=", first) and (
        b"\n__REALTIME_TIMESTAMP=" in b"\n" + head
    ):
        return "journald export", _exported
    return None


def _unwrapped(line_of: Callable[[Fields], bytes | None], blocks: Iterator[bytes]) -> Iterator[bytes]:
    def line(raw: bytes) -> bytes:
        return (line_of(mapping(parsed(raw))) if raw.startswith(b"{") else None) or raw

    for block in blocks:
        yield b"\n".join(map(line, block.split(b"\n")))


def _docker(fields: Fields) -> bytes | None:
    log, time = fields.get("log"), fields.get("time")
    if not isinstance(log, str) or not isinstance(time, str) or "stream" not in fields:
        return None
    return f"{time} {log.rstrip()}".encode("utf-8", "replace")


def _journal(fields: Fields) -> bytes | None:
    message, stamp = fields.get("MESSAGE"), fields.get("__REALTIME_TIMESTAMP")
    if isinstance(message, list):
        message = bytes(n for n in message if isinstance(n, int) and 0 <= n < 256).decode("utf-8", "replace")
    if not isinstance(message, str) or not isinstance(stamp, str) or not stamp.isdigit():
        return None
    at = datetime.fromtimestamp(int(stamp) / 1e6, UTC).isoformat(timespec="microseconds")
    host, tag = fields.get("_HOSTNAME") or "-", fields.get("SYSLOG_IDENTIFIER") or fields.get("_COMM") or "-"
    before = f"{at} {str(host).replace(' ', '_')} {str(tag).replace(' ', '_')}[{fields.get('_PID') or 0}]: "
    return "\n".join(before + line for line in message.split("\n")).encode("utf-8", "replace")


def _exported(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Unwrap journald's export format, in which the length of a binary field precedes the value."""
    rest, entry = b"", dict[str, object]()
    for block in blocks:
        rest += block
        lines: list[bytes] = []
        while (end := rest.find(b"\n")) >= 0:
            line = rest[:end]
            name, equals, value = line.partition(b"=")
            if line and not equals:
                length = int.from_bytes(rest[end + 1 : end + 9], "little")
                if len(rest) < end + 10 + length:
                    break
                entry[line.decode("ascii", "replace")] = rest[end + 9 : end + 9 + length].decode("utf-8", "replace")
                rest = rest[end + 10 + length :]
                continue
            rest = rest[end + 1 :]
            if line:
                entry[name.decode("ascii", "replace")] = value.decode("utf-8", "replace")
            elif entry:
                lines.append(_journal(entry) or b"")
                entry = {}
        if lines:
            yield b"\n".join(lines) + b"\n"
    if entry and (last := _journal(entry)):
        # If the export is cut off, its last entry does not end with an empty line.
        yield last + (b"\n" if not rest else b"")


_FITS = 0.5
_SAMPLE = 2_000
#: A line that belongs to the entry above it, such as a frame or an exception.
_BELOW = re.compile(rb"\t|\s+(?:at |[\w.]+ = )|at |Caused by|Suppressed|[\w.$]{1,300}(?:Exception|Error)\b")


@dataclass
class Layout:
    """How a file's lines begin.

    `shipped`: the prefixes that shippers added; `times`: the forms of the time that follows the prefixes.
    """

    shipped: Prefixes
    times: Times

    @classmethod
    def learned(cls, sample: Sequence[bytes], file_ms: int | None) -> Layout:
        """Learn the layout from the file's first lines. `file_ms`: time of the file's last modification.

        An application's text may look like a prefix. The prefix stays in the lines if both conditions are met:

        - Without the prefix, fewer than half of the lines about Kafka can be parsed.
        - With the prefix, more lines about Kafka can be parsed than without the prefix.
        """
        layout = cls._with(Prefixes(sample[:_SAMPLE]), sample, file_ms)
        if not layout.shipped or (fit := layout._fit(sample)) >= _FITS:
            return layout
        bare = cls._with(Prefixes([]), sample, file_ms)
        return bare if bare._fit(sample) > fit else layout

    @classmethod
    def _with(cls, shipped: Prefixes, sample: Sequence[bytes], file_ms: int | None) -> Layout:
        stripped = [shipped.parted(line).line for line in sample[:_SAMPLE]]
        return cls(shipped, Times.learned(stripped, file_ms))

    def _fit(self, sample: Sequence[bytes]) -> float:
        """Return the share (0 to 1) of lines about Kafka that can be parsed."""
        speaking = understood = 0
        for line in sample[:_SAMPLE]:
            stripped, _, time, _ = self.shipped.parted(line)
            if b"afka" not in line or _BELOW.match(stripped):
                continue
            speaking += 1
            stamp = self.times.stamp(stripped)
            at = (stamp.begin, stamp.end) if stamp is not None else (0, 0)
            level = lines.entry(utf8(stripped).decode(), *at).line.level
            own_line = stamp is not None or (bool(time) and stripped[:1] not in (b" ", b"\t"))
            understood += own_line and (level is not None or not self.times.forms)
        return understood / speaking if speaking else 1.0

    def text(self, line: bytes) -> str:
        """Return a line without its prefix."""
        return utf8(self.shipped.parted(line).line).decode()

    def time_before(self, numbered: Mapping[int, bytes]) -> Callable[[int], int]:
        """Return a function from a line's number to the time (epoch ms) of the dated line above it.

        The function returns 0 if none of the 500 lines above is dated. `numbered`: maps line numbers to the lines of
        one pod or program, without prefixes.
        """
        times = replace(self.times, last=None, until=None)

        def before(at: int) -> int:
            for number in range(at - 1, max(-1, at - 501), -1):
                stamp = times.stamp(numbered[number]) if number in numbered else None
                if stamp is not None and stamp.ts_ms is not None:
                    return stamp.ts_ms
            return 0

        return before


#: Minimum share of lines with a prefix. The tool's own lines (`-- Logs begin at …`) have no prefix.
_PREFIX_SHARE = 0.8
_MOST_PREFIXES = 3
_PREFIX_SAMPLE = 400

_PREFIXES = {
    name: re.compile(pattern.encode(), re.VERBOSE)
    for name, pattern in table(Path(__file__).with_name("prefixes.toml")).items()
}
_TIMED_REST = re.compile(rb"[\[(<]?(?:\d{4}[-/.]\d\d|\d\d[-/:. ]|\d{10}|\{)")
_TIMED_OR_LEVELLED = re.compile(_TIMED_REST.pattern + rb"|[A-Z]{4,16}[ :]|[A-Z][a-z]{2}\.? [ \d]\d")
#: Further lines of a stack trace or a list, which have no time.
_GOES_ON = re.compile(rb"\t|\}|[ ]+(?:at |\.\.\. \d|[\w.]+ = )|Caused by: |Suppressed: ")
_BEGINS_OR_GOES_ON = re.compile(_TIMED_OR_LEVELLED.pattern + b"|" + _GOES_ON.pattern)


class Stripped(NamedTuple):
    """A line without its prefix. `key`: the pod or program that the prefix names; `time`: the time in the prefix.

    `part`: True if the line continues on the next line.
    """

    line: bytes
    key: bytes = b""
    time: bytes = b""
    part: bool = False


class Prefixes:
    """The prefixes of a file's lines.

    `names`: kinds of the prefixes, the outermost first. `keys`: the pods or programs that the prefixes name.
    """

    def __init__(self, sample: Sequence[bytes]) -> None:
        self.names: list[str] = []
        self.keys: set[bytes] = set()
        self._patterns: list[re.Pattern[bytes]] = []
        lines = [line for line in sample[:_PREFIX_SAMPLE] if line.strip()]
        while len(self._patterns) < _MOST_PREFIXES and (learned := _next_prefix(lines, set(self.names))):
            name, pattern = learned
            self.names.append(name)
            self._patterns.append(pattern)
            matches = [match for line in lines if (match := pattern.match(line))]
            self.keys.update(match["key"] for match in matches if "key" in pattern.groupindex)
            lines = [rest for rest in map(_rest, matches) if rest.strip()]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def parted(self, line: bytes) -> Stripped:
        """Return the line without its known prefixes. The prefixes give the fields `key`, `time` and `part`."""
        keys, time, part, at = [], b"", False, 0
        for pattern in self._patterns:
            if (match := pattern.match(line, at)) is None:
                continue
            at = match.end()
            groups = match.groupdict()
            if groups.get("key"):
                keys.append(groups["key"])
            time = groups.get("time") or time
            part = part or groups.get("part") == b"P"
        return Stripped(line[at:], b" ".join(keys), time, part)


def _next_prefix(lines: Sequence[bytes], learned: set[str]) -> tuple[str, re.Pattern[bytes]] | None:
    for name, pattern in _PREFIXES.items():
        matches = [match for line in lines if (match := pattern.match(line))] if name not in learned else []
        if matches and len(matches) >= _PREFIX_SHARE * len(lines) and _DOUBTFUL.get(name, bool)(matches):
            return name, pattern
    return None


def _rest(match: re.Match[bytes]) -> bytes:
    return match.string[match.end() :]


def _count(pattern: re.Pattern[bytes], matches: Sequence[re.Match[bytes]]) -> int:
    return sum(pattern.match(_rest(match)) is not None for match in matches)


def _is_syslog(matches: Sequence[re.Match[bytes]]) -> bool:
    few = len({match["key"] for match in matches}) <= max(3, len(matches) // 20)
    timed = 2 * _count(_TIMED_OR_LEVELLED, matches) > len(matches)
    return few or timed or bool(re.match(rb"[A-Z<]", matches[0].string)) or _count(_GOES_ON, matches) > 0


def _is_compose(matches: Sequence[re.Match[bytes]]) -> bool:
    """Return True if `docker compose` wrote the prefixes.

    `docker compose` pads all names in the prefixes to one width, or puts one blank after each name.
    """
    keys = {match["key"].upper() for match in matches}
    levels = {b"INFO", b"WARN", b"ERROR", b"DEBUG", b"TRACE", b"FATAL"}
    bars = {match.group().find(b"|") for match in matches}
    return not keys & levels and len(keys) <= max(2, len(matches) // 3) and len(bars) <= max(1, len(keys))


def _is_stern(matches: Sequence[re.Match[bytes]]) -> bool:
    few = len({match["key"] for match in matches}) <= max(2, len(matches) // 20)
    return few and 2 * _count(_BEGINS_OR_GOES_ON, matches) > len(matches)


def _is_counting(matches: Sequence[re.Match[bytes]]) -> bool:
    """Return True if the prefixes end with numbers that rise from line to line."""
    numbers = [int(re.findall(rb"\d+", match.group())[-1]) for match in matches]
    most = 1 if matches[0].group().endswith(b" ") else 1 << 30
    return len(numbers) > 1 and all(0 < high - low <= most for low, high in pairwise(numbers))


#: Functions that tell whether a tool wrote prefixes of a kind that an application may also write.
_DOUBTFUL: Mapping[str, Callable[[Sequence[re.Match[bytes]]], bool]] = {
    # A tool writes a time before every line. An application writes no time before the lines of a stack trace.
    "timestamps": lambda found: _count(_GOES_ON, found) > 0 or 2 * _count(_TIMED_REST, found) > len(found),
    "syslog": _is_syslog,
    "compose": _is_compose,
    "stern": _is_stern,
    "grep": lambda found: _is_counting([match for match in found if match["key"] == found[0]["key"]]),
    "line numbers": _is_counting,
}
