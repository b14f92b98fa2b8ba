"""Read the incidents in a weekly review's review.json, and convert them to annotations for Grafana."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from clienthealth.model.errors import InputError
from dashboards.scope import TAG


@dataclass(frozen=True)
class Incident:
    """An incident of a review. Times are epoch milliseconds; `stop_ms` is None while the incident is open."""

    service: str
    instance: str
    client_id: str
    mode: str
    start_ms: int
    stop_ms: int | None

    @property
    def identity(self) -> str:
        return f"{self.service}|{self.instance}|{self.client_id}|{self.mode}|{self.start_ms}"

    def annotation(self) -> dict[str, Any]:
        still = "" if self.stop_ms is not None else " (still open)"
        return {
            "time_from": self.start_ms,
            "time_to": self.start_ms if self.stop_ms is None else self.stop_ms,
            "text": f"{self.mode}: {self.client_id} of {self.service} on {self.instance}{still}",
            "tags": [TAG, self.mode, self.identity],
        }


def incidents(path: Path) -> list[Incident]:
    """Return the incidents that a review.json lists.

    A review.json lists only the longest incidents of each theme (failure mode, cause and topic).

    Raises InputError if the file cannot be read or is no review.json.
    """
    try:
        review = json.loads(path.read_text(encoding="utf-8"))
        return [_incident(listed) for theme in review["themes"] for listed in theme["listed"]]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a review.json that `kafka-health review` wrote: {error!r}") from error


def _incident(listed: Mapping[str, Any]) -> Incident:
    stop = listed["stop"]
    return Incident(
        service=listed["service"],
        instance=listed["instance"],
        client_id=listed["client_id"],
        mode=listed["mode"],
        start_ms=_ms(listed["start"]),
        stop_ms=None if stop is None else _ms(stop),
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
