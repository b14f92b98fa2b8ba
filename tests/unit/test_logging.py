"""What a library says again and again does not drown what we say."""

from __future__ import annotations

import logging

from clienthealth.cli._logging import _Repeated


def line(name: str, text: str, at: float) -> logging.LogRecord:
    record = logging.LogRecord(name, logging.ERROR, "", 0, text, None, None)
    record.created = at
    return record


def test_a_repeated_line_of_the_library_comes_once_a_minute() -> None:
    shown = _Repeated("kafka").filter
    assert shown(line("kafka.net.manager", "failed (backoff 0.10 secs)", 0.0))
    assert not shown(line("kafka.net.manager", "failed (backoff 0.35 secs)", 0.4))
    assert shown(line("kafka.net.manager", "something else", 0.5))
    assert not shown(line("kafka.net.manager", "failed (backoff 1.00 secs)", 59.9))
    assert shown(line("kafka.net.manager", "failed (backoff 1.00 secs)", 60.0))


def test_our_own_lines_always_come() -> None:
    shown = _Repeated("kafka").filter
    assert all(shown(line("clienthealth_exporters.groups.exporter", "cannot be read", 0)) for _ in range(3))
