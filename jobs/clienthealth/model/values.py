"""Conversions of JSON values for all formats. No conversion raises an exception, whatever the value."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

K = TypeVar("K")
T = TypeVar("T")

#: 2010-01-01, before Kafka existed. An earlier time has a wrong unit, or comes from a clock that was not set.
EARLIEST_MS = 1_262_304_000_000
#: The largest time that Spark's timestamps and JavaScript's dates can hold (year 9999).
LATEST_MS = 253_402_300_799_999
MIN_INTERVAL_MS, MAX_INTERVAL_MS = 1_000, 3_600_000
#: The largest float, which older Java clients report as the minimum of a metric without values.
_LARGEST = sys.float_info.max
_NUMBERS = frozenset({float, int})
#: Maximum length of a name in characters: four times Kafka's longest topic name.
MAX_NAME = 1_000
MIN_INT, MAX_INT = -(2**31), 2**31 - 1

_NOTHING: Mapping[str, Any] = {}


def measurement(value: Any) -> float | None:
    """Return a measured value as float; None if it is not a JSON number, or means "unknown".

    NaN, infinity and negative numbers, such as -1001 (no offset), mean unknown.
    """
    # The check of the type excludes bool. The bound excludes infinity, and integers that are too large for a float.
    if type(value) is float:
        return value if 0 <= value < _LARGEST else None
    return float(value) if type(value) is int and 0 <= value < _LARGEST else None


def number(value: Any) -> float | None:
    """Convert a number, or a text that contains only a number, to float.

    Returns None for NaN, infinity and numbers below 0, and for every other value.
    """
    if type(value) is str:
        if "_" in value or not value.isascii():
            return None
        try:
            return measurement(float(value))
        except ValueError:
            return None
    return measurement(value)


def option(value: str | None) -> float | None:
    """Return a client option's value as a number; None unless it is an integer from 0 to 2³¹ − 1."""
    known = number(value) if value is not None and len(value) <= MAX_NAME else None
    return known if known is not None and known <= MAX_INT and known.is_integer() else None


def all_known(values: Sequence[Any]) -> bool:
    """Return True if all `values` are finite numbers ≥ 0, not booleans, and the sum of `values` fits a float."""
    if not _NUMBERS.issuperset(map(type, values)):
        return False
    try:
        # A NaN makes the sum NaN; `min` alone could miss it.
        return sum(values) < _LARGEST and min(values, default=0) >= 0
    except OverflowError:
        return False


def integer(value: Any, bits: int = 32) -> int | None:
    """Convert a whole number, or a text that contains only a whole number, to int.

    Returns None for anything else, and for numbers that need more than `bits` bits (with the sign).
    """
    if type(value) is str:
        digits = value.strip()
        if not digits.isascii() or not digits.removeprefix("-").isdigit() or len(digits) > 20:
            return None
        value = int(digits)
    elif type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1 else None


def text(value: Any) -> str | None:
    """Return a text unchanged, and a finite number or boolean as JSON text; None for anything else."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if (type(value) is float or type(value) is int) and abs(value) <= _LARGEST:
        return str(value)
    return None


def present(value: Any) -> str | None:
    """Return `value` as text without surrounding blanks; None if nothing remains."""
    return (text(value) or "").strip() or None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, else an empty object."""
    return value if type(value) is dict else _NOTHING


def measured(metrics: Any, names: Iterable[str]) -> dict[str, float]:
    """Return, by name, the metrics in `names` that have a finite value ≥ 0 in the JSON object `metrics`."""
    document = mapping(metrics)
    return {name: value for name in names if (value := measurement(document.get(name))) is not None}


def millis(value: float | None) -> int | None:
    """Round a time to whole epoch milliseconds; None if the year is not from 2010 to 9999."""
    return int(value + 0.5) if value is not None and EARLIEST_MS <= value <= LATEST_MS else None


def epoch(value: float | None) -> int | None:
    """Convert a time since 1970 in s, ms, µs or ns to epoch milliseconds; None if implausible.

    The size of the number shows its unit.
    """
    if value is None:
        return None
    scale = 1e3 if value < 1e11 else 1.0 if value < 1e14 else 1e-3 if value < 1e17 else 1e-6
    return millis(value * scale)


def interval(reported_ms: float | None, usual: int) -> int:
    """Return a client's reporting interval (ms), or `usual` if the interval is unknown, below 1 s or above 1 h."""
    return int(reported_ms) if reported_ms is not None and MIN_INTERVAL_MS <= reported_ms <= MAX_INTERVAL_MS else usual


#: _URL_HOST matches a URL's host, except loopback addresses.
_URL_HOST = re.compile(r"^(?:[a-z]+://)?+(?:[^/@]*@)?+(?!localhost\b|127\.|0\.0\.0\.0|\[::1\])(\[[^\]]*\]|[^/:?\[]+)")
_URL_PORT = re.compile(r"^(?:[a-z]+://)?[^/]*?:(\d+)(?:[/?]|$)")


@lru_cache(maxsize=4096)
def host_and_instance(url: str | None, host: str | None) -> tuple[str | None, str | None]:
    """Return (host, `host:port`) from the URL of a metrics endpoint. `host` replaces a missing or loopback address."""
    in_url, port = _URL_HOST.search(url or ""), _URL_PORT.search(url or "")
    where = in_url[1] if in_url else host
    parts = [part for part in (where, port[1] if port else None) if part]
    return where, ":".join(parts) or None


def grouped(items: Iterable[T], key: Callable[[T], K]) -> defaultdict[K, list[T]]:
    """Group items by key, in the order of `items`. Reading a key without items gives an empty group."""
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
