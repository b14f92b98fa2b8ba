"""Who is unhealthy: the dashboard to open first."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.look import CRITICAL, WARNING
from dashboards.page import Page, Section
from dashboards.panel import Panel, Query, alert_list, chart, number, rows, words
from dashboards.panels import verdicts
from dashboards.panels.monitor import STALE_SECONDS
from dashboards.scope import BY_CLIENT, CLIENT_VARIABLES, OF_CLIENT, to_client, to_service

_LEGEND = """\
**Kafka clients, judged every few seconds from their metrics, logs and thread dumps.** \
Blue is healthy, yellow suspected, dark red confirmed; grey is not known. Read from left to right: are clients heard \
of, is any of them ill, is the monitor itself up to date. Choose a service above, click a row for the client and its \
evidence; *Kafka clients* at the top leads to producers, consumers, each failure mode, the review and the monitor."""
_FIRING = 'ALERTS{alertstate="firing", alertname=~"KafkaClient.+", service=~"$service|"}'
_HEARTBEAT = 'ALERTS{alertstate="firing", alertname="KafkaClientHealthWatchdog"}'
_ILL = f'max by ({BY_CLIENT}, mode) (kafka_client_failure_mode{{status=~"suspected|confirmed", {OF_CLIENT}}})'


def page() -> Page:
    """The dashboard."""
    return Page(
        name="overview",
        title="Kafka clients: overview",
        description="Which Kafka clients are unhealthy, since when and why.",
        variables=CLIENT_VARIABLES,
        sections=(
            Section("Now", (_legend(), *_strip(), verdicts.unhealthy(10, width=16), _alerts())),
            Section("Over time", (verdicts.history(20), _by_mode(), _by_service())),
            Section("Clients", (_clients(),), collapsed=True),
        ),
    )


def _legend() -> Panel:
    return words(1, "Legend", "How to read this dashboard, and where to go from here.", _LEGEND, height=3)


def _strip() -> Sequence[Panel]:
    return (
        number(
            2,
            "Reporting",
            "Clients that are heard of. Fewer than you run is bad: the others are not watched. What to do: "
            "see that their reporter or agent writes to the input topic. Alert when a topic goes silent: "
            "KafkaClientHealthInputSilent.",
            f"sum(kafka_client_up{{{OF_CLIENT}}})",
            "none",
            nothing="no clients",
        ),
        verdicts.confirmed(3),
        verdicts.suspected(4),
        verdicts.unknown(5),
        number(
            6,
            "Alerts firing",
            "Alerts of this product that fire now, the heartbeat not counted. Without the heartbeat there "
            "is no number: then Prometheus has not loaded our rules. What to do: follow the runbook of "
            "each. See the list below.",
            f"count({_FIRING}) - count({_HEARTBEAT})",
            "none",
            above={1: WARNING},
            nothing="no rules loaded",
        ),
        number(
            7,
            "Age of what you see",
            "Time since the moment that the newest record speaks of. High is bad: all that is shown is old, "
            "and a quiet page means nothing. What to do: open Monitor health. Alert: KafkaClientHealthStale.",
            "time() - max(kafka_client_health_exporter_newest_record_timestamp_seconds)",
            "s",
            above={STALE_SECONDS: CRITICAL},
            nothing="exporter is silent",
        ),
    )


def _alerts() -> Panel:
    return alert_list(
        11,
        "Alerts",
        "Alerts of this product that are pending or firing. Empty is good. What to do: open the runbook "
        "that each links to. It lists the alerts of every data source that Grafana may read alerts from.",
    )


def _by_mode() -> Panel:
    return chart(
        21,
        "Unhealthy clients by failure mode",
        "Clients with a suspected or confirmed failure, by mode. Any is bad; many at the same moment point "
        "to something that they share: a broker, a release, a topic. Alert: the mode's.",
        [Query(f"sum by (mode) ({_ILL})", "{{mode}}")],
        "none",
        stacked=True,
    )


def _by_service() -> Panel:
    return chart(
        22,
        "Unhealthy clients by service",
        "Clients with a suspected or confirmed failure, by service. Any is bad. What to do: choose the "
        "service above. Alert: KafkaClientErrorBudgetBurn when it lasts.",
        [Query(f"sum by (service) (max by ({BY_CLIENT}) ({_ILL})) > 0", "{{service}}")],
        "none",
        stacked=True,
        links=to_service(),
    )


def _clients() -> Panel:
    return rows(
        30,
        "Clients",
        "Every client that is known, its library and version, and when it was last heard of. A client "
        "missing here is not watched. Old versions lack metrics that some verdicts need. "
        "Alert when an input topic goes silent: KafkaClientHealthInputSilent.",
        {
            "last heard of": (
                f"max by ({BY_CLIENT}) (kafka_client_last_seen_timestamp_seconds{{{OF_CLIENT}}}) * 1000\n"
                f"* on ({BY_CLIENT}) group_right ()\n"
                f"max by ({BY_CLIENT}, kind, library, version) (kafka_client_info{{{OF_CLIENT}}})",
                "dateTimeFromNow",
            )
        },
        nothing="no clients",
        height=12,
        links=to_client("overview", "__data.fields"),
    )
