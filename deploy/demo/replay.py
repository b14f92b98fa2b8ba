"""Send recordings to the input topics, with their times shifted to the present."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from clienthealth.model.errors import InputError
from clienthealth.platform.kafka import producer
from clienthealth.read.recordings import Recorded, read
from clienthealth.settings import Settings

EPOCH = rb"(?<![\w.+-])(?:\d{10}\.\d+|\d{10}(?:\d{3}|\d{6}|\d{9})?)(?![\w.]|-\d)"
DATE = rb"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?"
ANY = re.compile(rb"(?P<epoch>%s)|(?P<date>%s)" % (EPOCH, DATE))
#: JSON fields that may contain a record's own time, in order of preference.
OWN = tuple(
    re.compile(rb'"%s"\s*:\s*"?(?P<time>%s|%s)' % (name, EPOCH, DATE))
    for name in (b"ts_ms", b"timeUnixNano", b"epochSecond", b"@timestamp", b"timestamp", b"time", b"asctime", b"ts")
)
LINE = re.compile(rb"(?:\[|%%\d\|)?(?P<time>%s|%s)" % (DATE, EPOCH))
#: A sample in Prometheus' text format (`name{labels} value time`) or InfluxDB's (`name,tag=value… field=value… time`).
SAMPLE = re.compile(rb"^[A-Za-z_:][\w:]*(?:(?:\{[^\n]*\})? \S+|,[^\n]*=[^\n]*) (?P<time>%s)\s*$" % EPOCH, re.MULTILINE)
PARTS = re.compile(rb"(\d{4}-\d{2}-\d{2})([T ])(\d{2}:\d{2}:\d{2})([.,]?)(\d*)(.*)")
#: A number or date counts as a time if it differs from the record's own time by at most NEAR_MS.
NEAR_MS = 86_400_000


def replay(settings: Settings, paths: Sequence[Path], speed: float, undecided_stream: str, keep_time: bool) -> None:
    """Publish recorded records in the order of their times, `speed` times as fast as recorded.

    `undecided_stream`: "metrics" or "logs", the content that is assumed if a file's name does not show the content.
    `keep_time`: True if the times in the records stay as they are.

    Raises InputError if `paths` cannot be read, or if `speed` is not positive.
    """
    if speed <= 0:
        raise InputError("--speed must be greater than 0")
    records = read(paths)
    undecided = {r.file for r in records if r.stream == "any"}
    if undecided and not undecided_stream:
        raise InputError(f"give --stream metrics or --stream logs for these files: {', '.join(sorted(undecided))}")
    timed = in_order(records)
    start, end = timed[0][0], timed[-1][0]
    began = time.time()
    # Shift all times so that the last record's time is the time at which the last record is sent.
    shift_ms = 0 if keep_time else int(began * 1000) - start - int((end - start) * (1 - 1 / speed))
    topics = {"metrics": settings.topics.metrics[0], "logs": settings.topics.logs[0]}
    sink = producer(settings)
    try:
        for count, (ts_ms, record) in enumerate(timed, 1):
            due = began + (ts_ms - start) / 1000 / speed
            time.sleep(max(0.0, due - time.time()))
            stream = undecided_stream if record.stream == "any" else record.stream
            identity = {"service": record.service, "host": record.instance, "instance": record.instance}
            headers = [(name, value.encode()) for name, value in identity.items()]
            sink.send(topics[stream], value=moved(record.value, shift_ms), headers=headers)
            if count % 100 == 0 and sys.stderr.isatty():
                print(f"\r{count} of {len(timed)} records", end="", file=sys.stderr)
        sink.flush()
    finally:
        sink.close()
    print(f"played {len(timed)} records in {time.time() - began:.0f} s")


def in_order(records: list[Recorded]) -> list[tuple[int, Recorded]]:
    """Return (epoch ms, record), sorted by time.

    A record without a time gets the time of the record before it.
    """
    timed = []
    last: int | None = None
    for record in records:
        own_time = time_of(record.value)
        last = own_time if own_time is not None else last
        timed.append((last, record))
    first = min((ts for ts, _ in timed if ts is not None), default=0)
    return sorted(((first if ts is None else ts, record) for ts, record in timed), key=lambda pair: pair[0])


def time_of(value: bytes) -> int | None:
    """Return the record's own time as epoch ms, None if the record has no time. A date without a zone is read as
    UTC."""
    match = LINE.match(value) or next(
        (candidate for pattern in (*OWN, SAMPLE) if (candidate := pattern.search(value))), None
    )
    return None if match is None else _millis(match["time"])


def moved(value: bytes, shift_ms: int) -> bytes:
    """Return the record with its times shifted by `shift_ms`.

    Each time keeps its format and precision.
    """
    own = time_of(value)
    if own is None:
        return value

    def replaced(match: re.Match[bytes]) -> bytes:
        millis = _millis(match[0])
        if millis is None or abs(millis - own) > NEAR_MS:
            return match[0]
        return _epoch(match[0], shift_ms) if match["epoch"] else _date(match[0], shift_ms)

    return ANY.sub(replaced, value)


def _millis(text: bytes) -> int | None:
    """Return a number or date as epoch ms, None for an impossible date (2026-02-30)."""
    if b"-" not in text:
        return int(Decimal(text.decode()).scaleb(13 - _digits(text)))
    try:
        moment = datetime.fromisoformat(text.decode())
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _digits(epoch: bytes) -> int:
    return len(epoch.partition(b".")[0])


def _epoch(text: bytes, shift_ms: int) -> bytes:
    number = Decimal(text.decode())
    return str((number + Decimal(shift_ms).scaleb(_digits(text) - 13)).quantize(number)).encode()


def _date(text: bytes, shift_ms: int) -> bytes:
    match = PARTS.fullmatch(text)
    assert match is not None
    day, between, clock, point, fraction, zone = (part.decode() for part in match.groups())
    shift = timedelta(milliseconds=shift_ms) if fraction else timedelta(seconds=round(shift_ms / 1000))
    moment = datetime.fromisoformat(f"{day}T{clock}{point}{fraction[:6]}") + shift
    digits = f"{moment.microsecond:06d}"[: len(fraction)] + fraction[6:]
    return f"{moment:%Y-%m-%d}{between}{moment:%H:%M:%S}{point}{digits}{zone}".encode()
