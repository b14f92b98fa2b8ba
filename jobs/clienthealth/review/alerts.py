"""The alerts of a review: from our own history, checked against Prometheus where it is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from clienthealth.errors import ServiceError
from clienthealth.modes import modes
from clienthealth.review import crosscheck, incident_rows
from clienthealth.review.model import Alert, MeasurementAlert
from clienthealth.review.period import Period


def fired(
    touching: DataFrame, period: Period, prometheus: str, labels: Mapping[str, str]
) -> tuple[list[Alert], list[MeasurementAlert], str]:
    """The alerts with what Prometheus says of them, its other alerts, and why it could not be asked.

    `labels`: those by which this installation's alerts are told from others in the same Prometheus.
    """
    rows = incident_rows.alerts(touching, period).orderBy("mode", "severity").collect()
    alerts = [Alert(**row.asDict()) for row in rows]
    if not prometheus:
        return alerts, [], "no Prometheus address was given ([review] prometheus_url or --prometheus)"
    try:
        seconds, others = crosscheck.firing(prometheus, period, labels)
    except ServiceError as error:
        return alerts, [], str(error)
    own = {(alert.mode, alert.severity) for alert in alerts}
    unseen = [Alert(*key, 0, 0, 0, 0, None) for key in sorted(set(seconds) - own)]
    return (
        [
            dataclasses.replace(alert, prometheus_seconds=seconds.get((alert.mode, alert.severity), 0))
            for alert in alerts + unseen
        ],
        others,
        "",
    )


def never(alerts: Sequence[Alert]) -> list[tuple[str, str]]:
    """Mode and severity of the alerts that did not fire."""
    fired = {(alert.mode, alert.severity) for alert in alerts if alert.count or alert.prometheus_seconds}
    declared = [(mode.id, its.severity) for mode in modes().values() for its in (mode.confirmed, mode.suspected)]
    return [alert for alert in dict.fromkeys(declared) if alert not in fired]
