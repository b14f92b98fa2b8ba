"""How far the reading of long input is: one line on standard error that writes itself anew."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

FIRST_SECONDS, EVERY_SECONDS = 1.0, 0.2
_ERASE = "\r\x1b[K"


class Bar:
    """Called as often as something was read. Nothing is shown of what takes less than a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._due = time.monotonic() + FIRST_SECONDS
        self._shown = False

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            self._stream.write(_ERASE)
            self._stream.flush()

    def __call__(self, name: str, done: int, size: int | None) -> None:
        """`done` bytes of an input have been read; `size`: of how many, None where that is not known."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due, self._shown = now + EVERY_SECONDS, True
        total = f" of {size / 1e6:,.0f} MB, {min(1.0, done / size):.0%}" if size else " MB"
        shown = "".join(c if c.isprintable() else "?" for c in name)[-40:]
        self._stream.write(f"{_ERASE}reading {shown}: {done / 1e6:,.0f}{total}")
        self._stream.flush()
