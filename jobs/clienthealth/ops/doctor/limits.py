"""Checks of the monitor itself, if it runs: its limits, and what they have left out since it started."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from clienthealth.ops.doctor import Finding
from clienthealth.platform.self_monitoring.metrics import LIMITS, PREFIX
from clienthealth.settings import Settings

TIMEOUT_SECONDS = 5.0
ABOUT = "limits"


def limits(settings: Settings) -> Iterator[Finding]:
    """What bounds the monitor, and whether it is reached."""
    chosen = {limit: getattr(settings.monitor, f"max_{limit.replace('-', '_')}") for limit in LIMITS}
    at_most = ", ".join(f"{limit.replace('-', ' ')} {number:,}" for limit, number in chosen.items())
    if not settings.monitor.metrics_port:
        yield Finding(
            ABOUT, "skipped", f"At most: {at_most}. Its metrics are off ([monitor] metrics_port), so no counts."
        )
        return
    url = f"http://{settings.monitor.metrics_host}:{settings.monitor.metrics_port}/metrics"
    try:
        values = _read(url)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        why = getattr(reason, "strerror", None) or reason
        yield Finding(ABOUT, "skipped", f"At most: {at_most}. The monitor does not answer at {url}: {why}.")
        return
    clients = values.get(("state_rows", ""), 0)
    yield Finding(ABOUT, "ok", f"At most: {at_most}. The monitor keeps {clients:,.0f} clients now.")
    for limit in LIMITS:
        left_out = values.get(("left_out_total", limit), 0)
        if left_out:
            name = f"max_{limit.replace('-', '_')}"
            yield Finding(
                ABOUT,
                "warning",
                f"The limit on {limit.replace('-', ' ')} ({chosen[limit]:,}) has left out {left_out:,.0f} since the "
                f"monitor started. Find out who sends so much, or raise [monitor] {name}.",
            )
    skewed = values.get(("skewed_clients", ""), 0)
    if skewed:
        yield Finding(
            "clock",
            "warning",
            f"The clocks of {skewed:,.0f} clients are off by more than a minute: see kafka_client_clock_skew_seconds.",
        )


def _read(url: str) -> Mapping[tuple[str, str], float]:
    """Name without prefix, and limit if any → value."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        text = response.read().decode()
    return {
        (sample.name.removeprefix(f"{PREFIX}_"), sample.labels.get("limit", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
