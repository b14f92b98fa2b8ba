"""The dashboard "weekly review": healthy client-minutes, the error budget, and the failures that spent it."""

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
    return f"sum{by} (sum_over_time({series}{{{OF_SERVICE}}}{_EACH_MINUTE}))"


def _unhealthy_share(by: str = "") -> str:
    return f"{_minutes(UNHEALTHY, by)} / ({_minutes(JUDGED, by)} > 0)"


def page() -> Page:
    return Page(
        name="review",
        title="Kafka clients: weekly review",
        description="The share of the observed time in which clients were healthy, and what spent the error budget.",
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
            "Share of the client-minutes in the chosen time range that were healthy (no failure suspected or "
            "confirmed). A share below the value in the panel 'Target' is bad. What to do: see which service and "
            "failure mode spent the error budget. Alert: KafkaClientErrorBudgetBurn counts only confirmed failures.",
            f"1 - ({_unhealthy_share()})",
            "percentunit",
            nothing="nothing observed",
            width=6,
        ),
        number(
            2,
            "Target",
            "The share of healthy client-minutes that each service should reach. `kafka-health dashboards push` takes "
            "this target from slo_target, in the section [review] of the settings. Alert: KafkaClientErrorBudgetBurn.",
            "vector($slo_target)",
            "percentunit",
            width=6,
        ),
        number(
            3,
            "Error budget spent",
            "Unhealthy client-minutes (failure suspected or confirmed) as a share of the unhealthy client-minutes that "
            "the target allows. At 100 % the error budget is spent. What to do when the error budget is spent: work on "
            "reliability before features. Alert: KafkaClientErrorBudgetBurn counts only confirmed failures.",
            f"({_unhealthy_share()}) / (1 - $slo_target)",
            "percentunit",
            above={1: CRITICAL},
            nothing="nothing observed",
            width=6,
        ),
        number(
            4,
            "Unhealthy client-minutes",
            "Number of client-minutes with a suspected or confirmed failure. High is bad. What to do: see the panel "
            "'Unhealthy clients by failure mode'. Alert: KafkaClientErrorBudgetBurn.",
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
        "For each service: the share of healthy client-minutes, the spent share of the error budget, the unhealthy "
        "client-minutes (failure suspected or confirmed), and the observed client-minutes. If more than 100 % of the "
        "budget is spent, the service misses its objective. What to do: click a service for its clients. Alert: "
        "KafkaClientErrorBudgetBurn.",
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
        "Pace at which confirmed failures spend the error budget. At a pace of 1, the budget lasts exactly for its "
        f"period. A pace that stays above {slow:g} is bad. At a pace above {fast:g}, the alert pages somebody within "
        "an hour. What to do: see which failure mode spends the budget. Alert: KafkaClientErrorBudgetBurn.",
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
        "Clients with a suspected or confirmed failure, by failure mode. A client with two failures is counted "
        "under both modes. Any failure is bad, because it spends the error budget. What to do: follow the runbook of "
        "the most frequent failure mode. Alert: each failure mode's alert.",
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
        "Clients that are judged (dashed), clients with a suspected or confirmed failure, and clients with a "
        "confirmed failure. A falling number of judged clients is bad, too: nothing monitors the other clients. "
        "Alert: KafkaClientErrorBudgetBurn.",
        [
            Query(
                worst(f"sum by ({by}) ({series}{{{OF_SERVICE}}})", by, WORST // 3),
                f"{name} {NAMED_KEPT}",
                dashed=series == JUDGED,
            )
            for name, series in (("judged", JUDGED), ("suspected or confirmed", UNHEALTHY), ("confirmed", CONFIRMED))
        ],
        "none",
        colours={"judged": GOOD, "suspected or confirmed": WARNING, "confirmed": CRITICAL},
    )
