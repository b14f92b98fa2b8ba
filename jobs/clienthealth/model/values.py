"""Small readings of JSON values, used by all formats. None of them raises, whatever they are given."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

K = TypeVar("K")
T = TypeVar("T")

#: Kafka is younger than this (2010-01-01): an earlier time is a unit mistaken or a clock never set.
EARLIEST_MS = 1_262_304_000_000
#: The largest time that Spark's timestamps and JavaScript's dates both hold comfortably (year 9999).
LATEST_MS = 253_402_300_799_999
#: Reporting intervals outside of this (1 s to 1 h) are not believed.
MIN_INTERVAL_MS, MAX_INTERVAL_MS = 1_000, 3_600_000
#: Integers and infinity can be larger. It stands for a minimum of nothing, as older Java clients report it.
_LARGEST = sys.float_info.max
_NUMBERS = frozenset({float, int})
#: Characters: four times the longest name of a topic. What is longer names nothing.
MAX_NAME = 1_000
#: Numbers of partitions have 32 bits in Kafka's protocol.
MIN_INT, MAX_INT = -(2**31), 2**31 - 1

_NOTHING: Mapping[str, Any] = {}


def measurement(value: Any) -> float | None:
    """A measured value: a JSON number, or None where the client reports that it does not know.

    NaN and infinities (averages of nothing), and everything negative: -1 (never polled), -1001 (no offset).
    """
    # No bool: its type is neither. The upper bound keeps out infinity, and integers that no float can hold.
    if type(value) is float:
        return value if 0 <= value < _LARGEST else None
    return float(value) if type(value) is int and 0 <= value < _LARGEST else None


def number(value: Any) -> float | None:
    """The same of a number that may be written as text."""
    if type(value) is str:
        if "_" in value or not value.isascii():
            return None
        try:
            return measurement(float(value))
        except ValueError:
            return None
    return measurement(value)


def option(value: str | None) -> float | None:
    """The number that an option of a client is; None where it is no whole one of 31 bits."""
    known = number(value) if value is not None and len(value) <= MAX_NAME else None
    return known if known is not None and known <= MAX_INT and known.is_integer() else None


def all_known(values: Sequence[Any]) -> bool:
    """Is each a measurement (see there)?"""
    if not _NUMBERS.issuperset(map(type, values)):
        return False
    try:
        # Of a NaN the sum is none that compares, and then `min` would say nothing.
        return sum(values) < _LARGEST and min(values, default=0) >= 0
    except OverflowError:
        return False


def integer(value: Any) -> int | None:
    """A 32-bit integer, perhaps written as text."""
    if type(value) is str:
        digits = value.strip()
        if not digits.isascii() or not digits.removeprefix("-").isdigit() or len(digits) > 11:
            return None
        value = int(digits)
    elif type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and MIN_INT <= value <= MAX_INT else None


def text(value: Any) -> str | None:
    """A text, or a finite number or boolean as JSON writes it. None for all else."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if (type(value) is float or type(value) is int) and abs(value) <= _LARGEST:
        return str(value)
    return None


def present(value: Any) -> str | None:
    """The text (see there) without blanks around it, None where nothing remains."""
    if type(value) is str:
        return value.strip() or None
    as_text = text(value)
    return (as_text.strip() or None) if as_text is not None else None


def mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object; empty where it is none."""
    return value if type(value) is dict else _NOTHING


def measured(metrics: Any, names: Iterable[str]) -> dict[str, float]:
    """Of a JSON object the known values (see there) of these names."""
    document = mapping(metrics)
    return {name: value for name in names if (value := measurement(document.get(name))) is not None}


def millis(value: float | None) -> int | None:
    """A time in milliseconds as integer, None where it is absurd."""
    return int(value + 0.5) if value is not None and EARLIEST_MS <= value <= LATEST_MS else None


def epoch(value: float | None) -> int | None:
    """A time since 1970 in s, ms, µs or ns, told apart by its size, as epoch milliseconds."""
    if value is None:
        return None
    scale = 1e3 if value < 1e11 else 1.0 if value < 1e14 else 1e-3 if value < 1e17 else 1e-6
    return millis(value * scale)


def interval(reported_ms: float | None, usual: int) -> int:
    """How often a client reports, in ms: as it says where that can be believed, else as usual."""
    return int(reported_ms) if reported_ms is not None and MIN_INTERVAL_MS <= reported_ms <= MAX_INTERVAL_MS else usual


#: The host in a URL, unless it is the machine itself; the port in a URL.
_URL_HOST = re.compile(r"^(?:[a-z]+://)?+(?:[^/@]*@)?+(?!localhost\b|127\.|0\.0\.0\.0|\[::1\])(\[[^\]]*\]|[^/:?\[]+)")
_URL_PORT = re.compile(r"^(?:[a-z]+://)?[^/]*?:(\d+)(?:[/?]|$)")


@lru_cache(maxsize=4096)
def host_and_instance(url: str | None, host: str | None) -> tuple[str | None, str | None]:
    """Host and instance of the process behind an agent's URL; `host`: where the URL means its own machine."""
    in_url, port = _URL_HOST.search(url or ""), _URL_PORT.search(url or "")
    where = in_url[1] if in_url else host
    parts = [part for part in (where, port[1] if port else None) if part]
    return where, ":".join(parts) or None


def grouped(items: Iterable[T], key: Callable[[T], K]) -> defaultdict[K, list[T]]:
    """Items by key, each group in their order; what has none is an empty group."""
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
