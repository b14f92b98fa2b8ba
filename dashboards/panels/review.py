"""The numbers of the weekly review, live: healthy client-minutes, the error budget, and what spent it.

Definitions are those of the review: suspected or confirmed clients are unhealthy; unknown or gone clients are in
neither sum. `alerts/rules` record the series, one sample a minute. The pace of spending is that of the alerts, which
count only confirmed failures.
"""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.configuration.installation import KEPT, listed
from clienthealth_exporters.prometheus.limits import BURNS
from dashboards.look import CRITICAL, GOOD, WARNING, mode_colours
from dashboards.page import Page, Section
from dashboards.panel import NONE, Panel, Query, chart, number, rows
from dashboards.panels import verdicts
from dashboards.scope import NAMED_KEPT, OF_SERVICE, WORST, to_service, worst

_BY_SERVICE = listed((*KEPT, "service"))
_EACH_MINUTE = "[$__range:1m]"
JUDGED = "service:kafka_client_judged:count"
UNHEALTHY = "service:kafka_client_unhealthy:count"
CONFIRMED = "service:kafka_client_confirmed:count"


def _minutes(series: str, by: str = "") -> str:
    """Return a query for the client-minutes in the time shown."""
    return f"sum{by} (sum_over_time({series}{{{OF_SERVICE}}}{_EACH_MINUTE}))"


def _unhealthy_share(by: str = "") -> str:
    return f"{_minutes(UNHEALTHY, by)} / ({_minutes(JUDGED, by)} > 0)"


def page() -> Page:
    """Return the dashboard."""
    return Page(
        name="review",
        title="Kafka clients: weekly review",
        description="How much of the observed time clients were healthy, and what the error budget was spent on.",
        variables=("service", "slo_target"),
        since="now-7d",
        refresh="",
        sections=(
            Section("The objective", (*_strip(), _services())),
            Section("Over time", (_burn(), _by_mode(), _healthy())),
        ),
    )


def _strip() -> Sequence[Panel]:
    return (
        number(
            1,
            "Healthy client-minutes",
            "Share of the observed client-minutes that were healthy, in the range that is shown: neither suspected nor "
            "confirmed. Low is bad. Compare with the target beside it. What to do: see which service and mode spent "
            "the budget. Alert: KafkaClientErrorBudgetBurn, which counts only confirmed failures.",
            f"1 - ({_unhealthy_share()})",
            "percentunit",
            nothing="nothing observed",
            width=6,
        ),
        number(
            2,
            "Target",
            "The share of healthy client-minutes that each service should reach: [review] slo_target of the "
            "settings. `kafka-health dashboards` writes it into the dashboard. Alert: KafkaClientErrorBudgetBurn.",
            "vector($slo_target)",
            "percentunit",
            width=6,
        ),
        number(
            3,
            "Error budget spent",
            "Unhealthy client-minutes, suspected or confirmed, as a share of those that the target allows. At 1 the "
            "budget is spent. What to do then: reliability before features, as the review's actions say. Alert: "
            "KafkaClientErrorBudgetBurn, which counts only confirmed failures and so fires later.",
            f"({_unhealthy_share()}) / (1 - $slo_target)",
            "percentunit",
            above={1: CRITICAL},
            nothing="nothing observed",
            width=6,
        ),
        number(
            4,
            "Unhealthy client-minutes",
            "Sum of the minutes in which clients were suspected or confirmed. High is bad. What to do: see the "
            "modes below. Alert: KafkaClientErrorBudgetBurn.",
            _minutes(UNHEALTHY),
            "short",
            nothing="nothing observed",
            width=6,
        ),
    )


def _services() -> Panel:
    by = f" by ({_BY_SERVICE})"
    return rows(
        10,
        "Services",
        "The objective of each service: observed and unhealthy (suspected or confirmed) client-minutes, and the share "
        "of its budget that is spent. A share above 1 means that the budget is overspent. What to do: click a service "
        "for its clients. Alert: KafkaClientErrorBudgetBurn.",
        {
            "healthy": (f"1 - ({_unhealthy_share(by)})", "percentunit"),
            "budget spent": (f"({_unhealthy_share(by)}) / (1 - $slo_target)", "percentunit"),
            "unhealthy client-minutes": (_minutes(UNHEALTHY, by), "short"),
            "observed client-minutes": (_minutes(JUDGED, by), "short"),
        },
        above={"budget spent": {1: CRITICAL}},
        largest="budget spent",
        nothing="nothing observed",
        links=to_service("__data.fields"),
    )


def _burn() -> Panel:
    pace = [
        Query(
            worst(
                f"service:kafka_client_confirmed:ratio{burn.long}{{{OF_SERVICE}}} / (1 - $slo_target)",
                _BY_SERVICE,
                WORST // len(BURNS),
            ),
            f"{{{{service}}}} {NAMED_KEPT} over {burn.long}",
        )
        for burn in BURNS
    ]
    fast, slow = BURNS[0].factor, BURNS[-1].factor
    return chart(
        20,
        "Pace at which the budget burns",
        f"Pace at which confirmed failures spend the budget; at a pace of 1 it is spent exactly. Above {slow:g} is bad "
        f"if it lasts, above {fast:g} pages within the hour. What to do: see which mode burns it. Alert: "
        "KafkaClientErrorBudgetBurn.",
        pace,
        "none",
        above={slow: WARNING, fast: CRITICAL},
        width=24,
        links=to_service(),
    )


def _by_mode() -> Panel:
    return chart(
        21,
        "Unhealthy clients by failure mode",
        "Clients with a suspected or confirmed failure, which spend the budget, by mode; a client with two failures "
        "counts in both. "
        "Any is bad. What to do: follow the runbook of the mode with most clients. Alert: the mode's.",
        [verdicts.by_mode()],
        "none",
        stacked=True,
        nothing=NONE,
        colours=mode_colours(),
    )


def _healthy() -> Panel:
    by = listed(KEPT)
    return chart(
        22,
        "Observed and unhealthy clients",
        "Clients that are judged, clients with a suspected or confirmed failure, and clients with a confirmed "
        "failure. A fall of judged clients is bad, too, because the others are not monitored. Alert: "
        "KafkaClientErrorBudgetBurn.",
        [
            Query(
                worst(f"sum by ({by}) ({series}{{{OF_SERVICE}}})", by, WORST // 3),
                f"{name} {NAMED_KEPT}",
                limit=series == JUDGED,
            )
            for name, series in (("judged", JUDGED), ("suspected or confirmed", UNHEALTHY), ("confirmed", CONFIRMED))
        ],
        "none",
        colours={"judged": GOOD, "suspected or confirmed": WARNING, "confirmed": CRITICAL},
    )
