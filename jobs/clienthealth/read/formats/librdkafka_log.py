"""librdkafka's own lines on standard error: `%severity|seconds|facility|handle| [thrd:name]: text`."""

from __future__ import annotations

import re

from clienthealth.model.telemetry import LogLine
from clienthealth.read.formats import Format, Record

_BEGINNING = re.compile(r"%\d\|\d{1,12}\.\d{1,9}\|\w{1,40}\|", re.ASCII)


def _recognise(record: Record) -> bool:
    return record.text.startswith("%") and _BEGINNING.match(record.text) is not None


FORMAT = Format("librdkafka_log", "logs", 3, _recognise, lambda record: [LogLine(message=record.text)])
