"""One record of the topic `client-health`, read with distrust: numbers may be text, NaN or missing."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clienthealth.errors import InputError
from clienthealth.health import verdict_from_json
from clienthealth.records import STATUS_ORDER, Client, Status, Verdict

_CLIENT_FIELDS = tuple(field.name for field in dataclasses.fields(Client))
_MAX_OFFSET = 2**63


class RecordError(InputError):
    """The record is no state of a client; the text says in which way."""


@dataclass(frozen=True, slots=True)
class HealthRecord:
    """The newest state of a client. Times in epoch milliseconds; absent indicators are unknown.

    `seen_ms`: when the client was last heard of. A window that still runs ends in the future: the time at which its
    record was written counts then.
    """

    client: Client
    window_start: int
    window_end: int
    seen_ms: int
    departed: bool
    samples: int
    worst: Status
    verdicts: tuple[Verdict, ...]
    indicators: Mapping[str, Any]

    def value(self, *path: str) -> float | None:
        """An indicator by its path, None where it is unknown."""
        found: Any = self.indicators
        for name in path:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return number(found)

    def text(self, *path: str) -> str | None:
        """An indicator that is a word, None where it is unknown."""
        found: Any = self.indicators
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else None

    def rows(self, name: str) -> Iterator[Mapping[str, Any]]:
        """The entries of a list of indicators (`lag`, `queues`) that name a topic."""
        found = self.indicators.get(name)
        for row in found if isinstance(found, list) else ():
            if isinstance(row, Mapping) and isinstance(row.get("topic"), str):
                yield row


def number(value: Any) -> float | None:
    """A finite number, None for anything else: NaN and infinity mean unknown."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MAX_OFFSET:
        return None
    return value if math.isfinite(value) else None


def amount(value: Any) -> float | None:
    """A number that cannot be negative (a lag, an offset, an age), None for anything else."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def read(value: bytes, written_ms: int = -1) -> HealthRecord:
    """The record. `written_ms`: Kafka's timestamp of it, negative where there is none. Raises RecordError."""
    try:
        row = document(value)
        client = Client(**{name: row["client"].get(name) for name in _CLIENT_FIELDS})
        verdicts = tuple(verdict_from_json(verdict) for verdict in row.get("verdicts") or ())
        _checked(client, verdicts)
        indicators = row.get("indicators") or {}
        window_end = row["window_end"]
        if not isinstance(indicators, Mapping) or amount(window_end) is None:
            raise TypeError("indicators or window_end")
        worst = row.get("worst")
        at_latest = min(int(window_end), written_ms) if written_ms > 0 else int(window_end)
        return HealthRecord(
            client=dataclasses.replace(
                client, service=client.service or "", host=client.host or "", client_id=client.client_id or ""
            ),
            window_start=int(amount(row.get("window_start")) or window_end),
            window_end=int(window_end),
            seen_ms=int(amount(row.get("last_seen")) or at_latest),
            departed=row.get("departed") is True,
            samples=int(amount(row.get("samples")) or 0),
            worst=worst if worst in STATUS_ORDER else "unknown",
            verdicts=verdicts,
            indicators=indicators,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordError(f"{type(error).__name__}: {error}") from error


def document(value: bytes) -> Any:
    """The JSON of a record; what JSON does not know (NaN, Infinity) becomes null."""
    return json.loads(value, parse_constant=lambda _: None)


def _checked(client: Client, verdicts: tuple[Verdict, ...]) -> None:
    names = [getattr(client, name) for name in _CLIENT_FIELDS]
    if not all(name is None or isinstance(name, str) for name in names) or not client.instance:
        raise TypeError("client")
    for verdict in verdicts:
        if not isinstance(verdict.mode, str) or verdict.status not in STATUS_ORDER:
            raise TypeError("verdicts")
        if not isinstance(verdict.detail, Mapping):
            raise TypeError("verdicts: detail")
