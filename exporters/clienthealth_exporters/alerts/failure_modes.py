"""Alerts on the failure modes: a confirmed one pages, a suspected one opens a ticket. Made from the modes themselves.

Prometheus does not judge again: the job has judged and published a verdict, and the rules read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clienthealth.modes import Mode
from clienthealth.settings.links import dashboard_uid
from clienthealth_exporters.alerts.owners import owned
from clienthealth_exporters.alerts.rule import CLIENT, Alert, Links, Recording, by, on, queried

#: A verdict has been held back long enough by the job; a suspicion may clear by itself (an outage that ends).
SUSPECTED_HOLD = "2m"
#: What a process says is its client's as soon as that reports, within a minute usually: until then nobody is told, so
#: that one failure is one page.
NAMELESS_HOLD = "2m"
#: Clients that fail, with their owners: the alerts read it, each its own mode and status.
FAILING = "client:kafka_client_failure_mode:owned"
#: A gap is no recovery: while an exporter is started again its series are absent, and an alert would be resolved and
#: fire again, a page each time. Longer than it takes until ExporterDown holds back what speaks of clients. And indirect
#: evidence comes and goes.
KEEP = "5m"


def alert_name(mode: str) -> str:
    """KafkaClient and the mode's id in camel case."""
    return "KafkaClient" + "".join(word.capitalize() for word in mode.split("-"))


def failure_mode_alerts(modes: Iterable[Mode], links: Links) -> Sequence[Alert]:
    """Two alerts per mode."""
    return [alert for mode in modes for alert in (_alert(mode, "confirmed", links), _alert(mode, "suspected", links))]


def _alert(mode: Mode, status: str, links: Links) -> Alert:
    series = f'kafka_client_failure_mode_since_timestamp_seconds{{mode="{mode.id}",LABELS}}'
    since = (
        queried(series, "service", "instance", "client_id")
        + " since {{ . | first | value | humanizeTimestamp }}{{ end }}"
    )
    who = "{{ $labels.client_id }} of {{ $labels.service }} on {{ $labels.instance }}"
    certainty = "" if status == "confirmed" else ", on indirect evidence"
    harm = mode.impact if status == "confirmed" else f"Harm, if it is so: {_lower(mode.impact)}"
    return Alert(
        name=alert_name(mode.id),
        severity="critical" if status == "confirmed" else "warning",
        expr=_named_or_lasting(mode) if status == "confirmed" else _with_status(mode, status),
        summary=mode.summary if status == "confirmed" else f"Suspected, not proven: {_lower(mode.summary)}",
        description=(f"{who}: {status}{since}{certainty}. {harm} What to do: {mode.advice} Evidence: {links.client()}"),
        runbook=mode.id,
        dashboard=dashboard_uid(f"mode-{mode.id}"),
        why=(
            "The job has weighed the evidence over a window of readings: no further wait, but for a client's name."
            if status == "confirmed"
            else "Indirect evidence often clears by itself within a minute or two, as an outage that ends."
        ),
        hold="" if status == "confirmed" else SUSPECTED_HOLD,
        keep=KEEP,
        labels={"status": status},
    )


def failing() -> Recording:
    """Every client in each failure mode that is suspected or confirmed."""
    labels = (*CLIENT, "mode", "status")
    series = f'max {by(*labels)} (kafka_client_failure_mode{{status=~"confirmed|suspected"}}) == 1'
    return Recording(FAILING, owned(series, *labels))


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _with_status(mode: Mode, status: str, only: str = "", offset: str = "") -> str:
    """The clients that have a status in a mode. `only`: a further matcher; `offset`: so long ago."""
    return f'{FAILING}{{mode="{mode.id}", status="{status}"{only}}}{offset} == 1'


def _named_or_lasting(mode: Mode) -> str:
    nameless = ', client_id=""'
    parts = (
        _with_status(mode, "confirmed", ', client_id!=""'),
        "or",
        _with_status(mode, "confirmed", nameless),
        f"and {on(*CLIENT, 'mode')}",
        _with_status(mode, "confirmed", nameless, f" offset {NAMELESS_HOLD}"),
    )
    return "\n".join(parts)
