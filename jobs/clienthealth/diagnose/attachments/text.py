"""From the bytes of a file to UTF-8 text in blocks of whole lines: encodings, colours, and lines wrapped in JSON.

A block ends with a line end; only the last one of a file may lack it. Nothing here holds more than a block and a line.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

BLOCK = 1 << 18
#: A longer line is cut: no line of a log is so long.
MAX_LINE = 1 << 23

#: Colours, cursor movements and titles of terminals.
ANSI = re.compile(
    rb"\x1b(?:\[[0-9;:?]{0,40}[ -/]?[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cDEHM])"
)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

Read = Callable[[int], bytes]


def encoding_of(head: bytes) -> tuple[str, int] | None:
    """The encoding of a text by how it begins, and the length of its byte order mark; None where it is no text."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    sample = head[:4096]
    if sample.count(0) > len(sample) // 4:
        # Of ASCII text in UTF-16 every other byte is zero.
        even, odd = sample[::2].count(0), sample[1::2].count(0)
        if odd > len(sample) // 3 and even < len(sample) // 16:
            return "utf-16-le", 0
        if even > len(sample) // 3 and odd < len(sample) // 16:
            return "utf-16-be", 0
    control = sum(sample.count(bytes((code,))) for code in (*range(0, 8), *range(14, 27), *range(28, 32)))
    return None if 0 in sample or control * 50 > len(sample) else ("utf-8", 0)


def blocks(read: Read, head: bytes, size: int = BLOCK) -> Iterator[bytes]:
    """The text of a file as UTF-8, in blocks of whole lines. `head`: what has been read of it already."""
    encoding, mark = encoding_of(head) or ("utf-8", 0)
    chunks = _chunks(read, head[mark:], size)
    if encoding != "utf-8":
        chunks = _transcoded(chunks, encoding)
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


def chained(begin: bytes, rest: Iterator[bytes], size: int = 1 << 18) -> Iterator[bytes]:
    """Blocks of whole lines."""
    at = 0
    while at < len(begin):
        end = begin.rfind(b"\n", at, at + size) + 1
        end = end or begin.find(b"\n", at + size) + 1 or len(begin)
        yield begin[at:end]
        at = end
    yield from rest


def _chunks(read: Read, head: bytes, size: int) -> Iterator[bytes]:
    for begin in range(0, len(head), size):
        yield head[begin : begin + size]
    while chunk := read(size):
        yield chunk


def _transcoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    if last := decoder.decode(b"", final=True):
        yield last.encode("utf-8", "replace")


def utf8(line: bytes) -> bytes:
    """The line as UTF-8: what is none is taken as Latin-1."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1").encode()
    return line


def plain(block: bytes) -> bytes:
    """The block without colours and carriage returns."""
    if b"\x1b" in block:
        block = ANSI.sub(b"", block)
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


Unwrap = Callable[[Iterator[bytes]], Iterator[bytes]]


def unwrapper(head: bytes) -> tuple[str, Unwrap] | None:
    """What wraps each line in an object of its own, and how the lines come out of it; None where nothing does."""
    first = plain(head).lstrip(b"\xef\xbb\xbf\n ").partition(b"\n")[0]
    if first.startswith(b"{"):
        wrapped = _json(first)
        if _docker(wrapped) is not None:
            return "docker json-file", lambda blocks: _unwrapped(blocks, _docker)
        if _journal(wrapped) is not None:
            return "journald JSON", lambda blocks: _unwrapped(blocks, _journal)
    if re.match(rb"(?:__CURSOR|__REALTIME_TIMESTAMP|_[A-Z_]+|[A-Z][A-Z_]+)=", first) and (
        b"\n__REALTIME_TIMESTAMP=" in b"\n" + head
    ):
        return "journald export", _exported
    return None


def _json(line: bytes) -> dict[str, object]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _unwrapped(blocks: Iterator[bytes], line_of: Callable[[dict[str, object]], bytes | None]) -> Iterator[bytes]:
    for block in blocks:
        lines = []
        for raw in block.split(b"\n"):
            # What cannot be unwrapped stays as it is: it will be named.
            lines.append((line_of(_json(raw)) if raw.startswith(b"{") else None) or raw)
        yield b"\n".join(lines)


def _docker(fields: dict[str, object]) -> bytes | None:
    log, time = fields.get("log"), fields.get("time")
    if not isinstance(log, str) or not isinstance(time, str) or "stream" not in fields:
        return None
    return f"{time} {log.rstrip()}".encode("utf-8", "replace")


def _journal(fields: dict[str, object]) -> bytes | None:
    message, stamp = fields.get("MESSAGE"), fields.get("__REALTIME_TIMESTAMP")
    if isinstance(message, list):
        message = bytes(n for n in message if isinstance(n, int) and 0 <= n < 256).decode("utf-8", "replace")
    if not isinstance(message, str) or not isinstance(stamp, str) or not stamp.isdigit():
        return None
    tag = fields.get("SYSLOG_IDENTIFIER") or fields.get("_COMM") or "-"
    return _as_syslog(
        int(stamp), str(fields.get("_HOSTNAME") or "-"), str(tag), str(fields.get("_PID") or "0"), message
    )


def _as_syslog(micros: int, host: str, tag: str, pid: str, message: str) -> bytes:
    """Each line of a message as journald itself prints it, so that all that follows reads only one layout."""
    at = datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="microseconds")
    before = f"{at} {host.replace(' ', '_')} {tag.replace(' ', '_')}[{pid}]: "
    return "\n".join(before + line for line in message.split("\n")).encode("utf-8", "replace")


def _exported(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """journald's export: fields by line, entries parted by an empty line, fields of several lines with their length."""
    rest, entry = b"", dict[str, object]()
    for block in blocks:
        rest += block
        lines: list[bytes] = []
        while True:
            end = rest.find(b"\n")
            if end < 0:
                break
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
        # An entry that its end is missing of ends in the middle of a line.
        yield last + (b"\n" if not rest else b"")
