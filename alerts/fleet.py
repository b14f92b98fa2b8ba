"""Alerts on many clients at once: a fleet that fails as one, a service of which nobody is left."""

from __future__ import annotations

from alerts.rule import Alert, Links, by, on, queried
from alerts.slo import PRESENT, clients
from clienthealth.settings.links import dashboard_uid
from clienthealth_exporters.prometheus.limits import LIMITS

#: A deployment stops a service for minutes; one that comes and goes, as a job by the hour, was not there for long.
SILENT_HOLD = "10m"


def fleet_alert(links: Links) -> Alert:
    """One page for a failure that many share; it holds back those of the single clients."""
    confirmed, judged = clients("confirmed"), clients("ok|suspected|confirmed")
    count = queried('sum(max by (shard, service) (kafka_client_service_clients{status="confirmed",LABELS}))')
    return Alert(
        name="KafkaClientFleetUnhealthy",
        severity="critical",
        expr=(
            f"(\n{confirmed}\n/\n({judged} > 0)\n) > {LIMITS.fleet_confirmed_ratio}\n"
            f"and\n{confirmed} >= {LIMITS.fleet_confirmed_clients:g}"
        ),
        keep="5m",
        summary="Many clients fail at once: look for what they share before looking at any of them.",
        description=(
            f"{count}{{{{ . | first | value | humanize }}}} clients, {{{{ end }}}}"
            "{{ $value | humanizePercentage }} of all that are judged, have a confirmed failure. The alerts on single "
            "clients are held back meanwhile. What to do: look for a common cause, which is a broker, the network, a "
            f"release, a topic or a credential that they share. Who: {links.status_page}/"
        ),
        runbook="fleet-unhealthy",
        dashboard=dashboard_uid("overview"),
        dashboard_labels=(),
        why=(
            "A share and a number: a small fleet has its single alerts, and a few chronic cases among many are none.\n"
            "In the group of the single alerts and without a hold: it is there when they are, and holds them back."
        ),
        limits=("fleet_confirmed_ratio", "fleet_confirmed_clients"),
    )


def silent_alert(links: Links) -> Alert:
    """A service of which no client is left."""
    return Alert(
        name="KafkaClientServiceSilent",
        severity="warning",
        expr=(
            f"avg_over_time(({PRESENT} > bool 0)[6h:1m]) > 0.5\n"
            f"unless {on('service')}\n{PRESENT} > 0\n"
            f"unless {on()} (\n"
            f"  max {by('shard')} (last_over_time(kafka_client_health_exporter_up[6h]))\n"
            f"  unless\n"
            f"  max {by('shard')} (kafka_client_health_exporter_up) == 1\n"
            f")"
        ),
        hold=SILENT_HOLD,
        summary="No client of a service reports any more.",
        description=(
            "Service {{ $labels.service }} had clients for most of the last six hours and has none now: it was "
            "stopped, or it is no longer watched. What to do: see whether its processes run; if they do, whether their "
            f"reporter or agent still writes. State: {links.status_page}/?q={{{{ $labels.service | urlquery }}}}"
        ),
        runbook="service-silent",
        dashboard=dashboard_uid("overview"),
        dashboard_labels=("service",),
        why=(
            "Gone or never heard of again; where the monitor is blind, clients are unknown and count as there, and\n"
            "where an exporter is, nothing is said.\n"
            "Most of six hours, so that a job that comes and goes opens no ticket each time."
        ),
    )
