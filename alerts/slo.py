"""Burn rate of the error budget: the share of client-minutes, per service, in which a client had a failure mode.

Client-minutes and not requests: a service with one client still has 1,440 of them a day. As in the weekly review, a
client that nothing can be said of (`unknown` in every mode) or that has gone counts in neither sum. Windows and factors
are those of the SRE workbook with the fourth of kubernetes-mixin; a rule fires when both its windows burn the budget
`factor` times too fast, and stops soon after the short one has recovered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alerts.rule import CLIENT, Alert, Links, Recording, dashboard_uid

_BY = f"by ({', '.join(CLIENT)})"
JUDGED = "service:kafka_client_judged:count"
UNHEALTHY = "service:kafka_client_unhealthy:count"


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
    """Name of the recorded share of unhealthy client-minutes over a window."""
    return f"service:kafka_client_unhealthy:ratio{window}"


def recordings() -> Sequence[Recording]:
    """Clients judged and unhealthy now, and the share of unhealthy client-minutes over each window."""
    status = 'kafka_client_failure_mode{status=~"ok|suspected|confirmed"}'
    ill = 'kafka_client_failure_mode{status=~"suspected|confirmed"}'
    there = f"and on ({', '.join(CLIENT)}) (\n    max {_BY} (kafka_client_up) == 1\n  )"
    windows = sorted({w for burn in BURNS for w in (burn.short, burn.long)}, key=_minutes)
    return [
        Recording(JUDGED, f"count by (service) (\n  max {_BY} ({status}) == 1\n  {there}\n)"),
        Recording(UNHEALTHY, f"sum by (service) (\n  max {_BY} ({ill})\n  {there}\n)"),
        *(
            Recording(ratio(w), f"sum_over_time({UNHEALTHY}[{w}])\n/\n(sum_over_time({JUDGED}[{w}]) > 0)")
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
            f"{{{{ $value | humanizePercentage }}}} of the client-minutes of {{{{ $labels.service }}}} in the last "
            f"{burn.long} were unhealthy; {target * 100:.6g} % should be healthy, and this is more than "
            f"{burn.factor:g} times the pace that is allowed. What to do: look which clients of the service "
            "are ill and why. "
            f"State: {links.status_page}/?q={{{{ $labels.service | urlquery }}}}"
        ),
        runbook="error-budget",
        dashboard=dashboard_uid("review"),
        shown=("service",),
        why=f"{burn.factor:g} times the allowed share of unhealthy client-minutes, over {burn.long} and {burn.short}.",
        labels={"long": burn.long, "short": burn.short},
    )


def _minutes(window: str) -> int:
    return int(window[:-1]) * {"m": 1, "h": 60, "d": 1440}[window[-1]]
