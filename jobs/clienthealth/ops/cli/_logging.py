"""Our own log lines on standard error, the same for every long-running command."""

from __future__ import annotations

import logging
import re
import time

from clienthealth.platform import secrecy

#: A Kafka client that cannot connect says so four times a second.
REPEAT_SECONDS = 60.0


def to_stderr(level: int = logging.INFO) -> None:
    """One line per event, in UTC; of what the Kafka library says again and again, one a minute."""
    lines = _Redacted("%(asctime)s %(levelname)-5s %(name)s - %(message)s")
    lines.converter = time.gmtime
    logging.basicConfig(level=level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(lines)
        handler.addFilter(_Repeated("kafka"))
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.WARNING)


class _Redacted(logging.Formatter):
    """Lines, tracebacks within them, without the secrets that a library may have put there."""

    def format(self, record: logging.LogRecord) -> str:
        return secrecy.redacted(super().format(record))


class _Repeated(logging.Filter):
    """Holds back lines of a library that differ from an earlier one in numbers alone."""

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
