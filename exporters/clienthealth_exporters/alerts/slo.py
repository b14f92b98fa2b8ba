"""Burn rate of the error budget: the share of client-minutes, per service, with a confirmed failure mode.

Client-minutes and not requests: a service with one client still has 1,440 of them a day. As in the weekly review, a
client that nothing can be said of (`unknown` in every mode) or that has gone counts in neither sum, and one in which
nothing was found counts as healthy by the modes that were judged (`partial`). The review counts
suspected minutes as unhealthy; a page is for what is sure, so that the alerts count confirmed ones alone. The counts
are the exporter's own, which are right whatever series it leaves out. Windows and factors are those of the SRE
workbook, with the fourth of kubernetes-mixin. A rule fires when both its windows burn the budget `factor` times too
fast; of several the fastest speaks. It pages where the last minutes burn and nobody was paged for the service
meanwhile: who was has seen it, and what is over wakes nobody. Else it opens a ticket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clienthealth.settings.links import dashboard_uid
from clienthealth_exporters.alerts.owners import owned
from clienthealth_exporters.alerts.rule import Alert, Links, Recording, by, on, queried

JUDGED = "service:kafka_client_judged:count"
UNHEALTHY = "service:kafka_client_unhealthy:count"
CONFIRMED = "service:kafka_client_confirmed:count"
PRESENT = "service:kafka_client_present:count"
BUDGET = "service:kafka_client_unhealthy:allowed_ratio"
PAGED = "service:kafka_client_paged:count"


@dataclass(frozen=True)
class Burn:
    """A pair of windows. `factor`: how many times faster than allowed the budget burns. `pages`: or a ticket always."""

    long: str
    short: str
    factor: float
    hold: str
    pages: bool = False

    @property
    def burns(self) -> str:
        """The budget burns too fast over both windows."""
        limit = f"{self.factor:g} * {BUDGET}"
        return f"{ratio(self.long)} > {limit}\nand\n{ratio(self.short)} > {limit}"


BURNS = (
    Burn("1h", "5m", 14.4, "2m", pages=True),
    Burn("6h", "30m", 6, "15m", pages=True),
    Burn("1d", "2h", 3, "1h"),
    Burn("3d", "6h", 1, "3h"),
)
#: What burns now has burnt in these minutes.
NOW = BURNS[0].short


def ratio(window: str) -> str:
    """Name of the recorded share of client-minutes with a confirmed failure over a window."""
    return f"service:kafka_client_confirmed:ratio{window}"


def clients(statuses: str, *labels: str) -> str:
    """How many clients are so, by installation and `labels`. Replicas say the same, shards each their part."""
    each = by("shard", "service", "status")
    return f'sum {by(*labels)} (\n  max {each} (kafka_client_service_clients{{status=~"{statuses}"}})\n)'


def counts() -> Sequence[Recording]:
    """Clients judged, unhealthy, confirmed and there now, by service."""
    return [
        Recording(JUDGED, clients("ok|partial|suspected|confirmed", "service")),
        Recording(UNHEALTHY, clients("suspected|confirmed", "service")),
        Recording(CONFIRMED, clients("confirmed", "service")),
        Recording(PRESENT, clients("ok|partial|unknown|suspected|confirmed", "service")),
    ]


def recordings(target: float) -> Sequence[Recording]:
    """The share of confirmed client-minutes over windows, that which is allowed, and whom a page is open for.

    `target`: share of healthy client-minutes, below 1, of services whose owner has set none.
    """
    windows = sorted({w for burn in BURNS for w in (burn.short, burn.long)}, key=_minutes)
    paging = 'ALERTS{alertstate="firing",severity="critical",mode!=""}'
    return [
        *(
            Recording(ratio(w), f"sum_over_time({CONFIRMED}[{w}])\n/\n(sum_over_time({JUDGED}[{w}]) > 0)")
            for w in windows
        ),
        Recording(
            BUDGET,
            f"1 - max {by('service')} (kafka_client_service_slo_target_ratio)\n"
            f"or {on('service')}\n"
            f"{1 - target:.6g} + 0 * {ratio(windows[-1])}",
        ),
        Recording(PAGED, f"count {by('service')} ({paging})"),
    ]


def burn_alerts(links: Links) -> Sequence[Alert]:
    """A ticket per pair of windows, and a page of the fast ones."""
    alerts: list[Alert] = []
    for place, burn in enumerate(BURNS):
        faster = "".join(f"\nunless (\n{other.burns}\n)" for other in BURNS[:place])
        unseen = f"{burn.burns}{faster}{_now(burn)}\nunless {on('service')}\n{_paged(burn)}"
        seen = f"\nunless (\n{burn.burns}{_now(burn)}\nunless {on('service')}\n{_paged(burn)}\n)"
        if burn.pages:
            alerts.append(_alert(burn, links, "critical", unseen))
        alerts.append(_alert(burn, links, "warning", f"{burn.burns}{faster}{seen if burn.pages else ''}"))
    return alerts


def _now(burn: Burn) -> str:
    return "" if burn.short == NOW else f"\nand\n{ratio(NOW)} > {burn.factor:g} * {BUDGET}"


def _paged(burn: Burn) -> str:
    return f"last_over_time({PAGED}[{burn.short}]) > 0"


def _alert(burn: Burn, links: Links, severity: str, expr: str) -> Alert:
    wanted = queried(f"1 - {BUDGET}{{LABELS}}", "service") + "{{ . | first | value | humanizePercentage }}{{ end }}"
    who = {
        "critical": "Nobody was paged for it meanwhile, and it goes on.",
        "warning": "It is over, or was paged for already."
        if burn.pages
        else "Slowly, so that it can wait for the day.",
    }
    return Alert(
        name="KafkaClientErrorBudgetBurn",
        severity=severity,
        expr=f"{owned(ratio(burn.long), 'service')}\nand {on('service')} (\n{expr}\n)",
        hold=burn.hold,
        summary="The clients of a service use up their error budget too fast.",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the judged client-minutes of {{{{ $labels.service }}}} in the "
            f"last {burn.long} had a confirmed failure; {wanted} should be healthy, and this is more than "
            f"{f'{burn.factor:g} times ' if burn.factor > 1 else ''}the pace that is allowed. Suspected ones do not "
            f"count here, but in the review. {who[severity]} What to do: look which clients of the service are ill and "
            f"why. State: {links.status_page}/?q={{{{ $labels.service | urlquery }}}}"
        ),
        runbook="error-budget",
        dashboard=dashboard_uid("review"),
        dashboard_labels=("service",),
        why=(
            f"{burn.factor:g} times the allowed share of confirmed client-minutes, over {burn.long} and {burn.short}.\n"
            f"{who[severity]}"
        ),
        labels={"long": burn.long, "short": burn.short},
    )


def _minutes(window: str) -> int:
    return int(window[:-1]) * {"m": 1, "h": 60, "d": 1440}[window[-1]]
