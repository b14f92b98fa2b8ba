"""Write the commands' log lines and progress to standard error."""

from __future__ import annotations

import logging
import re
import time
from types import TracebackType
from typing import TextIO

from clienthealth.platform import secrecy

REPEAT_SECONDS = 60.0
FIRST_SECONDS, EVERY_SECONDS = 1.0, 0.2
_ERASE = "\r\x1b[K"


def to_stderr(level: int = logging.INFO) -> None:
    """Log to standard error, with times in UTC. A line that kafka-python repeats appears at most once a minute."""
    lines = _Redacted("%(asctime)s %(levelname)-5s %(name)s - %(message)s")
    lines.converter = time.gmtime
    logging.basicConfig(level=level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(lines)
        handler.addFilter(_Repeated("kafka"))
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.WARNING)


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return secrecy.redacted(super().format(record))


class _Repeated(logging.Filter):
    """Drop a library's log line if the same line, perhaps with other numbers, was logged less than a minute ago."""

    def __init__(self, library: str) -> None:
        super().__init__()
        self._of_library = logging.Filter(library)
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._of_library.filter(record):
            return True
        text = re.sub(r"\d+", "", record.getMessage())
        last_logged = self._logged.get(text)
        if last_logged is not None and record.created - last_logged < REPEAT_SECONDS:
            return False
        self._logged = {message: at for message, at in self._logged.items() if record.created - at < REPEAT_SECONDS}
        self._logged[text] = record.created
        return True


class Bar:
    """A progress bar, which appears only if the work takes longer than a second."""

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
        """Show that `done` of `size` bytes of the input `name` have been read. `size`: None if unknown."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due, self._shown = now + EVERY_SECONDS, True
        total = f" of {size / 1e6:,.0f} MB, {min(1.0, done / size):.0%}" if size else " MB"
        shown = "".join(c if c.isprintable() else "?" for c in name)[-40:]
        self._stream.write(f"{_ERASE}reading {shown}: {done / 1e6:,.0f}{total}")
        self._stream.flush()
