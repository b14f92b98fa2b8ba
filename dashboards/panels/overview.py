"""The dashboard to open first: unhealthy clients, firing alerts, and the age of the data."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.configuration.installation import KEPT, listed, runbooks
from clienthealth.settings import LinkSettings
from dashboards import look
from dashboards.look import CRITICAL, WARNING
from dashboards.page import Page, Section
from dashboards.panel import AGE, CLOCK, NONE, Panel, Query, alert_list, chart, number, rows, words
from dashboards.panels import verdicts
from dashboards.panels.monitor import STALE_SECONDS, age_of_newest
from dashboards.scope import (
    BY_CLIENT,
    CLIENT_VARIABLES,
    NAMED_KEPT,
    OF_CLIENT,
    OF_KEPT,
    OF_SERVICE,
    WORST,
    to_client,
    to_installation,
    to_service,
    worst,
)

_LEGEND = """\
**Kafka clients, judged every few seconds from their metrics, logs and thread dumps.** \
Blue is healthy, yellow suspected, dark red confirmed; grey is not known. Read from left to right: do clients report, \
does any of them fail, is the monitor itself up to date. Choose a service above, click a row for the client and its \
evidence; *Kafka clients* at the top leads to producers, consumers, each failure mode, the review and the monitor."""
_WATCHDOG = "KafkaClientHealthWatchdog"
_NAMED = f'alertname=~"KafkaClient.+", alertname!="{_WATCHDOG}"'
_FIRING = f'ALERTS{{alertstate="firing", {_NAMED}, {OF_KEPT}, service=~"$service|"}}'
_HEARTBEAT = f'ALERTS{{alertstate="firing", alertname="{_WATCHDOG}"}}'
_BY_SERVICE = listed((*KEPT, "service"))
_PRESENT, _UNHEALTHY = "service:kafka_client_present:count", "service:kafka_client_unhealthy:count"
_ROWS = 500


def page(links: LinkSettings) -> Page:
    where = runbooks(links, "${status_page}")
    return Page(
        name="overview",
        title="Kafka clients: overview",
        description="Which Kafka clients are unhealthy, since when and why.",
        variables=CLIENT_VARIABLES,
        sections=(
            Section("Now", (_legend(), *_strip(), _installations(), _alerts(), verdicts.unhealthy(10, runbooks=where))),
            Section("Over time", (verdicts.failures(20), _by_mode(), _by_service())),
            Section("Services", (_services(),), collapsed=True),
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
            "Number of reporting clients of the chosen services. It is bad if you run more clients than the panel "
            "shows: the rest are not monitored. What to do: check that each client's reporter or agent writes to the "
            "monitor's input topic. Alerts: if reports stop, KafkaClientHealthInputSilent fires for a topic, "
            "KafkaClientServiceSilent for a service, KafkaClientFleetServicesSilent for many services, "
            "KafkaClientFleetSilent for nearly all clients.",
            f"sum({_PRESENT}{{{OF_SERVICE}}})",
            "none",
            nothing="no clients",
        ),
        verdicts.confirmed(3),
        verdicts.suspected(4),
        verdicts.unknown(5),
        number(
            6,
            "Alerts firing",
            "Firing alerts of this monitor, without KafkaClientHealthWatchdog, which always fires. If "
            "KafkaClientHealthWatchdog does not fire, Prometheus has not loaded our rules, and no number is shown. "
            "What to do: follow the runbook of each alert in the list below.",
            f"(count({_FIRING}) or vector(0))\nand on ()\n{_HEARTBEAT}",
            "none",
            above={1: WARNING},
            nothing="no rules loaded",
        ),
        number(
            7,
            "Age of what you see",
            "Age of the newest data on this page. High is bad: everything shown is old, and a page without failures "
            "proves nothing. What to do: open the dashboard 'Kafka clients: monitor health'. Alert: "
            "KafkaClientHealthStale.",
            age_of_newest(),
            AGE,
            above={STALE_SECONDS: CRITICAL},
            nothing="exporter is silent",
        ),
    )


def _alerts() -> Panel:
    return alert_list(
        11,
        "Alerts",
        "Pending and firing alerts of this monitor, from every data source from which Grafana may read alerts. "
        "Empty is good. What to do: open the runbook to which the alert links.",
        width=10,
        height=7,
    )


def _by_mode() -> Panel:
    return chart(
        21,
        "Unhealthy clients by failure mode",
        "Clients of the chosen services with a suspected or confirmed failure, by mode. Any failing client is bad. If "
        "many clients fail at once, the failures have a common cause: a broker, a release, a topic. Alerts: each "
        "failure mode's alert, unless KafkaClientFleetUnhealthy or KafkaClientFleetSuspected holds the alert back.",
        [verdicts.by_mode()],
        "none",
        stacked=True,
        nothing=NONE,
        colours=look.mode_colours(),
    )


def _by_service() -> Panel:
    return chart(
        22,
        "Unhealthy clients by service",
        f"Clients with a suspected or confirmed failure, for the {WORST} worst services. Any failing client is bad. "
        "What to do: choose the service at the top of the page. Alerts: KafkaClientErrorBudgetBurn fires if failures "
        "last, KafkaClientServiceWorse if more clients fail while an older alert is open.",
        [
            Query(
                worst(f"sum by ({_BY_SERVICE}) ({_UNHEALTHY}{{{OF_SERVICE}}}) > 0", _BY_SERVICE, zeros=True),
                f"{{{{service}}}} {NAMED_KEPT}",
            )
        ],
        "none",
        stacked=True,
        nothing=NONE,
        links=to_service(),
    )


def _clients() -> Panel:
    seen = f"kafka_client_last_seen_timestamp_seconds{{{OF_CLIENT}}}"
    return rows(
        30,
        "Clients",
        f"The {_ROWS} clients with the oldest data, their library and version, and the time of their last data. "
        "Choose a service to see only its clients. Old versions lack metrics that some verdicts need. Alert: "
        "KafkaClientHealthInputSilent fires if an input topic receives no data.",
        {
            "last data": (
                f"bottomk({_ROWS}, max by ({BY_CLIENT}) ({seen})) * 1000\n"
                f"* on ({BY_CLIENT}) group_right ()\n"
                f"max by ({BY_CLIENT}, kind, library, version) (kafka_client_info{{{OF_CLIENT}}})",
                "dateTimeFromNow",
            )
        },
        hidden=("host",),
        nothing="no clients",
        height=12,
        links=to_client("overview", "__data.fields"),
    )


def _installations() -> Panel:
    by = f" by ({listed(KEPT)})"
    reporting = f"sum{by} ({_PRESENT}{{{OF_SERVICE}}})"
    return rows(
        12,
        "Clusters and environments",
        "Clients of the chosen services by cluster and environment, the worst first. If clients fail in only one "
        'cluster, the cause is the brokers or the load of that cluster, not the release. The column "bugs" counts '
        "clients with a version that has known bugs; the exporter's page /fleet lists these versions. Click a row for "
        "the overview of that cluster and environment. Alerts: each failure mode's alert.",
        {
            "confirmed": (f"{verdicts.failing('confirmed', by)}\nor\n0 * {reporting}", "none"),
            "suspected": (f"{verdicts.failing('suspected', by)}\nor\n0 * {reporting}", "none"),
            "not judged": (verdicts.clients("unknown", by), "none"),
            "bugs": (f"sum{by} (kafka_client_service_known_bug_clients{{{OF_SERVICE}}})", "none"),
            "reporting": (reporting, "none"),
        },
        above={"confirmed": {1: CRITICAL}, "suspected": {1: WARNING}},
        largest="confirmed",
        nothing="no clients",
        width=14,
        height=7,
        links=to_installation(),
    )


def _services() -> Panel:
    by = f" by ({_BY_SERVICE})"

    def largest(measured: str) -> str:
        return f"max{by} (kafka_client_service_{measured}_max{{{OF_SERVICE}}})"

    return rows(
        31,
        "Services",
        "Number of each service's clients by status, and the service's worst value of each measurement. The table "
        "includes clients that other panels leave out because of the setting client_series. Clients that have gone are "
        "listed on the status page, under Fleet. What to do: click a service for its clients. Alerts: "
        "KafkaClientServiceSilent fires if few or no clients report, KafkaClientServiceNotJudged if no client of a "
        "service is judged, KafkaClientFleetNotJudged if a third of all clients is not judged.",
        {
            "confirmed": (verdicts.clients("confirmed", by), "none"),
            "suspected": (verdicts.clients("suspected", by), "none"),
            "not judged": (verdicts.clients("unknown", by), "none"),
            "partly": (verdicts.clients("partial", by), "none"),
            "ok": (verdicts.clients("ok", by), "none"),
            "buffer": (largest("producer_buffer_used_ratio"), "percentunit"),
            "callbacks": (largest("producer_callback_seconds"), "s"),
            "I/O thread": (largest("producer_io_thread_busy_ratio"), "percentunit"),
            "queue": (largest("consumer_queue_used_ratio"), "percentunit"),
            "poll age": (largest("consumer_last_poll_age_seconds"), CLOCK),
        },
        above={"confirmed": {1: CRITICAL}, "suspected": {1: WARNING}},
        largest="confirmed",
        nothing="no clients",
        height=12,
        links=to_service("__data.fields"),
    )
