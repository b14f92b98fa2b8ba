"""Burn rate of the error budget: the share of client-minutes, per service, with a confirmed failure mode.

Client-minutes and not requests: a service with one client still has 1,440 of them a day. As in the weekly review, a
client that nothing can be said of (`unknown` in every mode) or that has gone counts in neither sum. The review counts
suspected minutes as unhealthy; a page is for what is sure, so that the alerts count confirmed ones alone. The counts
are the exporter's own, which are right whatever series it leaves out. Windows and factors are those of the SRE
workbook, with the fourth of kubernetes-mixin. A rule fires when both its windows burn the budget `factor` times too
fast. It stops soon after the short one has recovered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alerts.rule import Alert, Links, Recording, by
from clienthealth.settings.links import dashboard_uid

JUDGED = "service:kafka_client_judged:count"
UNHEALTHY = "service:kafka_client_unhealthy:count"
CONFIRMED = "service:kafka_client_confirmed:count"
PRESENT = "service:kafka_client_present:count"


@dataclass(frozen=True)
class Burn:
    """A pair of windows. `factor`: how many times faster than allowed the budget burns."""

    long: str
    short: str
    factor: float
    severity: str
    hold: str


BURNS = (
    Burn("1h", "5m", 14.4, "critical", "2m"),
    Burn("6h", "30m", 6, "critical", "15m"),
    Burn("1d", "2h", 3, "warning", "1h"),
    Burn("3d", "6h", 1, "warning", "3h"),
)


def ratio(window: str) -> str:
    """Name of the recorded share of client-minutes with a confirmed failure over a window."""
    return f"service:kafka_client_confirmed:ratio{window}"


def clients(statuses: str, *labels: str) -> str:
    """How many clients are so, by installation and `labels`. Replicas say the same, shards each their part."""
    each = by("shard", "service", "status")
    return f'sum {by(*labels)} (\n  max {each} (kafka_client_service_clients{{status=~"{statuses}"}})\n)'


def recordings() -> Sequence[Recording]:
    """Clients judged, unhealthy, confirmed and there now, and the share of confirmed client-minutes over windows."""
    windows = sorted({w for burn in BURNS for w in (burn.short, burn.long)}, key=_minutes)
    return [
        Recording(JUDGED, clients("ok|suspected|confirmed", "service")),
        Recording(UNHEALTHY, clients("suspected|confirmed", "service")),
        Recording(CONFIRMED, clients("confirmed", "service")),
        Recording(PRESENT, clients("ok|unknown|suspected|confirmed", "service")),
        *(
            Recording(ratio(w), f"sum_over_time({CONFIRMED}[{w}])\n/\n(sum_over_time({JUDGED}[{w}]) > 0)")
            for w in windows
        ),
    ]


def burn_alerts(target: float, links: Links) -> Sequence[Alert]:
    """One alert per pair of windows. `target`: share of healthy client-minutes, below 1."""
    return [_alert(burn, target, links) for burn in BURNS]


def _alert(burn: Burn, target: float, links: Links) -> Alert:
    budget = 1 - target
    limit = f"{burn.factor:g} * {budget:.6g}"
    return Alert(
        name="KafkaClientErrorBudgetBurn",
        severity=burn.severity,
        expr=f"{ratio(burn.long)} > {limit}\nand\n{ratio(burn.short)} > {limit}",
        hold=burn.hold,
        summary="The clients of a service use up their error budget too fast.",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the judged client-minutes of {{{{ $labels.service }}}} in the "
            f"last {burn.long} had a confirmed failure; {target * 100:.6g} % should be healthy, and this is more than "
            f"{f'{burn.factor:g} times ' if burn.factor > 1 else ''}the pace that is allowed. Suspected ones do not "
            "count here, but in the review. What to do: look which clients of the service are ill and why. "
            f"State: {links.status_page}/?q={{{{ $labels.service | urlquery }}}}"
        ),
        runbook="error-budget",
        dashboard=dashboard_uid("review"),
        dashboard_labels=("service",),
        why=f"{burn.factor:g} times the allowed share of confirmed client-minutes, over {burn.long} and {burn.short}.",
        labels={"long": burn.long, "short": burn.short},
    )


def _minutes(window: str) -> int:
    return int(window[:-1]) * {"m": 1, "h": 60, "d": 1440}[window[-1]]
