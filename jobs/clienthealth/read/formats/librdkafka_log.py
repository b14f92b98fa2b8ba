"""Lines that librdkafka writes to standard error: `%severity|seconds|facility|handle| [thrd:name]: text`."""

from __future__ import annotations

import re

from clienthealth.model.telemetry import LogLine
from clienthealth.read.formats import Format

_BEGINNING = re.compile(r"%\d\|\d{1,12}\.\d{1,9}\|\w{1,40}\|", re.ASCII)


FORMAT = Format(
    "librdkafka_log",
    "logs",
    3,
    lambda record: record.text.startswith("%") and _BEGINNING.match(record.text) is not None,
    lambda record: [LogLine(message=record.text)],
)
