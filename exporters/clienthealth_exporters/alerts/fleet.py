"""Many clients at once: a fleet that fails or falls silent as one, services that hardly anybody is left of."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.settings.links import dashboard_uid
from clienthealth_exporters.alerts.owners import owned
from clienthealth_exporters.alerts.rule import Alert, Links, Recording, by, on, queried
from clienthealth_exporters.alerts.slo import CONFIRMED, JUDGED, PRESENT, UNHEALTHY
from clienthealth_exporters.prometheus.limits import LIMITS

ALL_PRESENT = "cluster:kafka_client_present:count"
STRUCK = "service:kafka_client_confirmed:struck"
STRUCK_SUSPECTED = "service:kafka_client_unhealthy:struck"
SILENT = "service:kafka_client_silent:count"
BEFORE_SILENCE = "service:kafka_client_before_silence:count"
ALL_BEFORE_SILENCE = "cluster:kafka_client_before_silence:count"
#: A deployment stops a service for minutes; one that comes and goes, as a job by the hour, was not there for long.
SILENT_HOLD = "10m"
#: A fleet is not deployed all at once; its departures are known a minute after it fell silent.
FLEET_SILENT_HOLD = "5m"
#: A suspicion may clear by itself, that of many as that of one.
SUSPECTED_HOLD = "2m"
KEEP = "5m"
#: Who was there for so many of the five-minute steps of the time before is missed.
_SETTLED = {"1h": 6, "6h": 36}
#: Silence is what somebody says who hears: an exporter that is there, all of whose shards are.
_HEARD = (
    f"and {on()}\nmax {by()} (kafka_client_health_exporter_up) == 1\n"
    f'unless {on()}\nALERTS{{alertname="KafkaClientHealthExporterDown",alertstate="firing"}}'
)


def storms() -> Sequence[Recording]:
    """The services that began to fail together, as long as they fail."""
    return [
        Recording(STRUCK, _struck(CONFIRMED, STRUCK)),
        Recording(STRUCK_SUSPECTED, _struck(UNHEALTHY, STRUCK_SUSPECTED)),
    ]


def _struck(failing: str, name: str) -> str:
    before = f"last_over_time({failing}[1h] offset {LIMITS.storm_minutes:g}m)"
    new = f"{failing} > 0\nunless\n{before} > 0"
    more = f"{failing} - ({before} or 0 * {failing})"
    return (
        f"(\n{failing} > 0\n>\n({before} or 0 * {failing})\n)\n"
        f"and {on()} (\n"
        f"count {by()} (\n{new}\n) >= {LIMITS.storm_services:g}\n"
        f"or\n"
        f"sum {by()} ({more} > 0) >= {LIMITS.storm_clients:g}\n"
        f")\n"
        f"or\n"
        f"last_over_time({name}[15m])\n"
        f"and\n"
        f"max_over_time({failing}[5m]) > 0"
    )


def _all(count: str) -> str:
    return f"sum {by()} ({count})"


def _many(failing: str, struck: str, share: float) -> str:
    """A share and a number of clients fail, or those still do that began to together, whatever their share."""
    ratio = f"{_all(failing)}\n/\n({_all(JUDGED)} > 0)"
    return (
        f"(\n{ratio}\n) > {share:g}\n"
        f"and\n{_all(failing)} >= {LIMITS.fleet_confirmed_clients:g}\n"
        f"or\n"
        f"(\n{ratio}\n)\n"
        f"and (\n"
        f"count {by()} ({struck}) >= {LIMITS.storm_services / 2:g}\n"
        f"or\n"
        f"sum {by()} ({failing} and {struck}) >= {LIMITS.storm_clients / 2:g}\n"
        f")"
    )


def fleet_alerts(links: Links) -> Sequence[Alert]:
    """One page for a failure that many share, one ticket for a suspicion; they hold back those of single clients."""
    return [
        _fleet(
            links,
            name="KafkaClientFleetUnhealthy",
            status="confirmed",
            severity="critical",
            expr=_many(CONFIRMED, STRUCK, LIMITS.fleet_confirmed_ratio),
            summary="Many clients fail at once: look for what they share before looking at any of them.",
            state="have a confirmed failure",
            hold="",
        ),
        _fleet(
            links,
            name="KafkaClientFleetSuspected",
            status="suspected",
            severity="warning",
            expr=_many(UNHEALTHY, STRUCK_SUSPECTED, LIMITS.fleet_suspected_ratio),
            summary="Many clients are suspected at once, none of them may be ill: look for what they share.",
            state="have a failure, on indirect evidence mostly",
            hold=SUSPECTED_HOLD,
        ),
    ]


def _fleet(
    links: Links, *, name: str, status: str, severity: str, expr: str, summary: str, state: str, hold: str
) -> Alert:
    count = queried(f'sum(max by (shard, service) (kafka_client_service_clients{{status="{status}",LABELS}}))')
    return Alert(
        name=name,
        severity=severity,
        expr=expr,
        hold=hold,
        keep=KEEP,
        summary=summary,
        description=(
            f"{count}{{{{ . | first | value | humanize }}}} clients, {{{{ end }}}}"
            f"{{{{ $value | humanizePercentage }}}} of all that are judged, {state}. The alerts on single "
            "clients are held back meanwhile. What to do: look for a common cause, which is a broker, the network, a "
            f"release, a topic or a credential that they share. Who: {links.status_page}/?status={status}"
        ),
        runbook="fleet-unhealthy",
        dashboard=dashboard_uid("overview"),
        dashboard_labels=(),
        why=(
            "A share and a number: a small fleet has its single alerts, and a few chronic cases among many are none.\n"
            "Or so many services, or clients, that began within minutes, until half of them is well.\n"
            "In the group of the single alerts: it is there when they are, and holds them back."
        ),
        limits=(
            "fleet_confirmed_ratio" if status == "confirmed" else "fleet_suspected_ratio",
            "fleet_confirmed_clients",
            "storm_minutes",
            "storm_services",
            "storm_clients",
        ),
    )


def silences() -> Sequence[Recording]:
    """How many clients there were before hardly any was left, by service and by fleet, while that hour lasts; how many
    a service had that is silent now.
    """
    return [
        Recording(ALL_PRESENT, _all(PRESENT)),
        Recording(BEFORE_SILENCE, _before(PRESENT, LIMITS.silent_ratio, "6h")),
        Recording(ALL_BEFORE_SILENCE, _before(ALL_PRESENT, LIMITS.fleet_silent_ratio, "1h")),
        Recording(SILENT, _silent_services()),
    ]


def _before(present: str, share: float, settled: str) -> str:
    usual = f"avg_over_time({present}[1h:5m])"
    return (
        f"{usual}\n"
        f"unless\n{present} >= {share:g} * {usual} > 0\n"
        f"and\ncount_over_time(({present} > 0)[{settled}:5m]) >= {_SETTLED[settled]}"
    )


def _left(present: str, before: str, share: float) -> str:
    return f"max_over_time({before}[1d])\nunless\n{present} >= {share:g} * max_over_time({before}[1d]) > 0"


def _silent_services() -> str:
    return (
        f"{_left(PRESENT, BEFORE_SILENCE, LIMITS.silent_ratio)}\n"
        f"unless (\n"
        f"max_over_time({BEFORE_SILENCE}[1d]) - {PRESENT} < {LIMITS.silent_clients:g}\nand\n{PRESENT} > 0\n"
        f")\n"
        f"{_HEARD}"
    )


def silent_alerts(links: Links) -> Sequence[Alert]:
    """Services of which hardly a client is left; many of them; a whole fleet."""
    now = queried(f"{PRESENT}{{LABELS}}", "service") + "{{ . | first | value | humanize }}{{ else }}none{{ end }}"
    now_all = queried(f"{ALL_PRESENT}{{LABELS}}") + "{{ . | first | value | humanize }}{{ else }}none{{ end }}"
    return [
        Alert(
            name="KafkaClientServiceSilent",
            severity="warning",
            expr=owned(f"{SILENT} > 0", "service"),
            hold=SILENT_HOLD,
            summary="Hardly a client of a service reports any more, or none.",
            description=(
                f"Service {{{{ $labels.service }}}} had {{{{ $value | humanize }}}} clients and has {now} now: it was "
                "stopped, or it is no longer watched. What to do: see whether its processes run; if they do, whether "
                "their reporter or agent still writes. "
                f"State: {links.status_page}/?q={{{{ $labels.service | urlquery }}}}"
            ),
            runbook="service-silent",
            dashboard=dashboard_uid("overview"),
            dashboard_labels=("service",),
            why=(
                "Gone or never heard of again, within an hour, after most of six hours with clients: a job that comes\n"
                "and goes opens no ticket. For a day, as nobody knows whether it was meant. With a blind monitor they\n"
                "are unknown and count as there, and where an exporter is away, nothing is said."
            ),
            limits=("silent_ratio", "silent_clients"),
        ),
        Alert(
            name="KafkaClientFleetServicesSilent",
            severity="warning",
            expr=f"count {by()} ({SILENT}) >= {LIMITS.storm_services:g}",
            hold=SILENT_HOLD,
            summary="Many services report nothing any more.",
            description=(
                "{{ $value }} services have fallen silent. What to do: look for what they share: an agent or a "
                f"collector that was removed, a network, a change of their image. Who: {links.status_page}/"
            ),
            runbook="service-silent",
            dashboard=dashboard_uid("overview"),
            dashboard_labels=(),
            why="In the group of the single tickets, which it holds back: one for all.",
            limits=("storm_services",),
        ),
        Alert(
            name="KafkaClientFleetSilent",
            severity="critical",
            expr=f"{_left(ALL_PRESENT, ALL_BEFORE_SILENCE, LIMITS.fleet_silent_ratio)}\n{_HEARD}",
            hold=FLEET_SILENT_HOLD,
            summary="Nearly all clients have fallen silent: they are down, or nobody watches them.",
            description=(
                f"There were {{{{ $value | humanize }}}} clients, and {now_all} report now. Consumer groups are read "
                "from the brokers and do not count. What to do: see whether the applications run; if they do, look at "
                "what their reports pass: agents, collectors, the network, the input topics and their credentials. "
                f"State: {links.status_page}/"
            ),
            runbook="service-silent",
            dashboard=dashboard_uid("overview"),
            dashboard_labels=(),
            why=(
                "Less than a tenth of those an hour before, who were there for half of it: no deployment does that.\n"
                "For a day; then it is how things are."
            ),
            limits=("fleet_silent_ratio",),
        ),
    ]
