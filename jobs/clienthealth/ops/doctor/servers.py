"""Check the HTTP servers: Prometheus, Grafana, and the monitor if the monitor runs."""

from __future__ import annotations

import email.utils
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from clienthealth.ops.doctor import Finding
from clienthealth.settings import Settings
from clienthealth.spark.self_monitoring import LIMITS, PREFIX

TIMEOUT_SECONDS = 10.0
MONITOR_SECONDS = 5.0
SKEW_SECONDS = 5.0
#: The alerts refer to these scrape jobs of deploy/prometheus.
JOBS = ("kafka-client-health", "kafka-client-health-monitor")


def servers(settings: Settings) -> Iterator[Finding]:
    """Check Prometheus ([review] prometheus_url) and Grafana ([links] dashboards) if their addresses are set."""
    for about, address, key, check in (
        ("prometheus", settings.review.prometheus_url, "[review] prometheus_url", _prometheus_answers),
        ("grafana", settings.links.dashboards, "[links] dashboards", _grafana_answers),
    ):
        if not address:
            yield Finding(about, "skipped", f"Not checked, because no address is set: set {key}, or give --{about}.")
            continue
        url = address.rstrip("/")
        try:
            yield from check(about, url)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
            yield Finding(about, "failed", f"{about.capitalize()} at {url} does not answer: {_reason(error)}.")


def _prometheus_answers(about: str, url: str) -> Iterator[Finding]:
    document, skew_seconds = _get(f"{url}/api/v1/targets?state=active")
    active = document["data"]["activeTargets"]
    targets = [(target["labels"].get("job"), target["health"], target.get("lastError")) for target in active]
    yield Finding(about, "ok", f"Prometheus at {url} answers.")
    yield from _skew(about, skew_seconds)
    for job in JOBS:
        of_job = [(health, error) for name, health, error in targets if name == job]
        down = [error for health, error in of_job if health != "up"]
        if not of_job:
            yield Finding(
                about, "failed", f"Prometheus has no target with the job '{job}', which the alerts need: add this job."
            )
        elif down:
            yield Finding(about, "failed", f"{len(down)} of {len(of_job)} targets of '{job}' do not answer: {down[0]}.")
        else:
            yield Finding(about, "ok", f"The scrape job '{job}' works.")


def _grafana_answers(about: str, url: str) -> Iterator[Finding]:
    document, skew_seconds = _get(f"{url}/api/health")
    version, database = document.get("version", "of unknown version"), document["database"]
    if database == "ok":
        yield Finding(about, "ok", f"Grafana {version} at {url} answers.")
    else:
        yield Finding(about, "failed", f"Grafana {version} at {url} answers, but its database is '{database}'.")
    yield from _skew(about, skew_seconds)


def _skew(about: str, skew: float | None) -> Iterator[Finding]:
    if skew is not None and abs(skew) > SKEW_SECONDS:
        direction = "ahead of" if skew > 0 else "behind"
        yield Finding(
            about,
            "warning",
            f"The server's clock is {abs(skew):.0f} s {direction} this machine's, so alerts show wrong times.",
        )


def _get(url: str) -> tuple[Any, float | None]:
    """Return (JSON document, seconds by which the server's clock is ahead of ours; None if the server sent no time)."""
    if not url.startswith(("http://", "https://")):
        raise ValueError("the address does not begin with http:// or https://")
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        date = response.headers.get("Date")
        skew = email.utils.parsedate_to_datetime(date).timestamp() - time.time() if date else None
        return json.load(response), skew


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    return f"{type(error).__name__}: {error}".strip()


def limits(settings: Settings) -> Iterator[Finding]:
    """Report the monitor's limits, the excess over each limit, and the number of clients with wrong clocks."""
    chosen = {limit: getattr(settings.monitor, f"max_{limit.replace('-', '_')}") for limit in LIMITS}
    at_most = ", ".join(f"{limit.replace('-', ' ')} {number:,}" for limit, number in chosen.items())
    if not settings.monitor.metrics_port:
        unknown = "This check cannot see whether clients, samples or events exceeded the limits"
        text = f"Limits: {at_most}. {unknown}, because [monitor] metrics_port is 0."
        yield Finding("limits", "skipped", text)
        return
    url = f"http://{settings.monitor.metrics_host}:{settings.monitor.metrics_port}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=MONITOR_SECONDS) as response:
            families = [*text_string_to_metric_families(response.read().decode())]
    except (OSError, http.client.HTTPException, ValueError) as error:
        text = f"Limits: {at_most}. The monitor does not answer at {url}: {_reason(error)}."
        yield Finding("limits", "skipped", text)
        return
    values = {
        (sample.name.removeprefix(f"{PREFIX}_"), sample.labels.get("limit", "")): sample.value
        for family in families
        for sample in family.samples
    }
    clients = values.get(("state_rows", ""), 0)
    yield Finding("limits", "ok", f"Limits: {at_most}. The monitor now keeps the state of {clients:,.0f} clients.")
    for limit in LIMITS:
        if left_out := values.get(("left_out_total", limit), 0):
            name = f"max_{limit.replace('-', '_')}"
            what = f"{left_out:,.0f} {limit.replace('-', ' ')} exceeded the limit ({chosen[limit]:,}) and were left out"
            remedy = f"Find out which clients cause the excess, or raise [monitor] {name}."
            yield Finding("limits", "warning", f"{what} since the monitor started. {remedy}")
    if skewed := values.get(("skewed_clients", ""), 0):
        text = f"The clocks of {skewed:,.0f} clients are off by more than a minute"
        yield Finding("clock", "warning", f"{text}: see kafka_client_clock_skew_seconds.")
