"""What Prometheus has recorded of the alerts in the period, as a check on our own history."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from clienthealth.errors import ServiceError
from clienthealth.review.model import MeasurementAlert
from clienthealth.review.period import Period

TIMEOUT_SECONDS = 60
#: Rule groups without an interval of their own have Prometheus' global one; its default.
DEFAULT_INTERVAL = 60.0

Key = tuple[str, str, str]


def firing(
    url: str, period: Period, fixed: Mapping[str, str]
) -> tuple[dict[tuple[str, str], int], list[MeasurementAlert]]:
    """Firing seconds by (mode, severity), and the alerts that are not about a mode. Raises ServiceError.

    `fixed`: labels that the alerts have. The values of labels are quoted as JSON does it, as PromQL reads them.
    `ALERTS` has one sample per evaluation, so seconds = samples × the interval of the rule's group.
    """
    intervals = _intervals(url)
    chosen = "".join(f", {name}={json.dumps(value, ensure_ascii=False)}" for name, value in fixed.items())
    alerts = f'ALERTS{{alertstate="firing"{chosen}}}'
    span, at = f"{period.minutes}m", int(period.end.timestamp())
    labels = "by (alertname, severity, mode)"
    samples = _vector(url, f"sum {labels} (count_over_time({alerts}[{span}]))", at)
    shortest = int(min(intervals.values(), default=DEFAULT_INTERVAL))
    began = f"({alerts} unless {alerts} offset {shortest}s)[{span}:{shortest}s]"
    episodes = _vector(url, f"sum {labels} (count_over_time({began}))", at)
    modes: dict[tuple[str, str], int] = {}
    others = []
    for key, count in sorted(samples.items()):
        name, severity, mode = key
        seconds = round(count * intervals.get(name, DEFAULT_INTERVAL))
        if mode:
            modes[mode, severity] = modes.get((mode, severity), 0) + seconds
        else:
            others.append(MeasurementAlert(name, severity, round(episodes.get(key, 0)), seconds))
    return modes, others


def _intervals(url: str) -> dict[str, float]:
    """The evaluation interval of each alert, in seconds."""
    groups = _get(url, "/api/v1/rules", {"type": "alert"})["groups"]
    return {
        rule["name"]: float(group.get("interval") or DEFAULT_INTERVAL) for group in groups for rule in group["rules"]
    }


def _vector(url: str, query: str, at: int) -> dict[Key, float]:
    result = _get(url, "/api/v1/query", {"query": query, "time": str(at)})["result"]
    values = {}
    for series in result:
        labels = series["metric"]
        key = (labels.get("alertname", ""), labels.get("severity", ""), labels.get("mode", ""))
        values[key] = float(series["value"][1])
    return values


def _get(url: str, path: str, query: Mapping[str, str]) -> Any:
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ServiceError(f"Prometheus address '{url}' is not an http or https address")
    address = f"{url.rstrip('/')}{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:
            body = json.load(response)
    except urllib.error.HTTPError as error:
        raise ServiceError(f"Prometheus at {url} answered {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise ServiceError(f"Prometheus at {url} did not answer: {error}") from error
    if body.get("status") != "success":
        raise ServiceError(f"Prometheus at {url} refused the query: {body.get('error')}")
    return body["data"]
