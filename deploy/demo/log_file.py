"""Follow a log file that grows and is rotated."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 1 << 20
MAX_STACK_CHARS = 20_000

_LINE = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ([A-Z]+) +\[(.*?)\] (\S+) - (.*)")


@dataclass
class LogEvent:
    """A log line with its stack trace. `size`: length of the stack trace in bytes."""

    ts_ms: int
    level: str
    thread: str
    logger: str
    message: str
    stack: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, line: bytes) -> None:
        """Append a line to the stack trace, up to a maximum size."""
        if self.size < MAX_STACK_CHARS:
            self.stack.append(line.decode(errors="replace").rstrip("\r\n"))
            self.size += len(line)


class LogFile:
    """Follow a log file. After each rotation, go on with the new file of the same name.

    `limit`: maximum number of events per logger, level and second. Further events are left out.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self.behind = False
        self._open: BinaryIO | None = None
        self._empty_reads = 0
        self._rest = b""
        self._event: LogEvent | None = None
        self._second = b""
        self._count: Counter[tuple[bytes, bytes]] = Counter()

    def events(self) -> Iterator[LogEvent]:
        """Read at most 1 MiB, and yield the complete events.

        An event is complete when the next event begins, or after two reads without data.
        """
        chunk = self._read()
        self.behind = len(chunk) == CHUNK_BYTES
        self._empty_reads = 0 if chunk else self._empty_reads + 1
        if not chunk:
            if self._empty_reads > 1:  # At the first empty read, a stack trace may be half written.
                yield from self._complete()
            return
        lines = (self._rest + chunk).splitlines(keepends=True)
        self._rest = lines.pop() if not lines[-1].endswith(b"\n") else b""
        for line in lines:
            head = _LINE.match(line)
            if head is None:
                if self._event is not None:
                    self._event.add(line)
                continue
            yield from self._complete()
            at, level, thread, logger, message = head.groups()
            if at[:19] != self._second:
                yield from self._left_out()
                self._second = at[:19]
            self._count[logger, level] += 1
            if self._count[logger, level] <= self._limit:
                self._event = LogEvent(
                    _epoch_ms(at), level.decode(), _text(thread), _text(logger), _text(message.rstrip(b"\r"))
                )

    def close(self) -> Iterator[LogEvent]:
        yield from self._complete()
        yield from self._left_out()
        if self._open is not None:
            self._open.close()
            self._open = None

    def _complete(self) -> Iterator[LogEvent]:
        if self._event is not None:
            yield self._event
            self._event = None

    def _left_out(self) -> Iterator[LogEvent]:
        for (logger, level), count in self._count.items():
            if count > self._limit:
                text = f"left out {count - self._limit} of {count} lines of {_text(logger)} in one second"
                at = _epoch_ms(self._second + b",999")
                yield LogEvent(at, level.decode(), "shipper", __name__, text)
        self._count.clear()

    def _read(self) -> bytes:
        if self._open is None:
            try:
                self._open = self._path.open("rb")
            except FileNotFoundError:
                return b""
        chunk = self._open.read(CHUNK_BYTES)
        if not chunk and self._replaced():
            self._open.close()
            self._open = None
            self._rest = b""
        return chunk

    def _replaced(self) -> bool:
        assert self._open is not None
        try:
            return os.fstat(self._open.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:
            return False


def _epoch_ms(at: bytes) -> int:
    return int(datetime.fromisoformat(at.decode().replace(",", ".")).replace(tzinfo=UTC).timestamp() * 1000)


def _text(part: bytes) -> str:
    return part.decode(errors="replace")
