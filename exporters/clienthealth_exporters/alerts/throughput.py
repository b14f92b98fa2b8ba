"""Producers that send nothing where they usually do: against their own hours, as no limit fits all services."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.settings.links import dashboard_uid
from clienthealth_exporters.alerts.owners import owned
from clienthealth_exporters.alerts.rule import Alert, Links, Recording, by

SENT = "service:kafka_client_record_send:rate"
BUSIEST = "service:kafka_client_record_send:max15m"
IDLE = "service:kafka_client_record_send:idle"
#: Two hours around this moment a day, a week and two weeks ago. Clocks that are changed move an hour of the day by one.
_BEFORE = ("23h", "6d23h", "13d23h")


def sent_recordings() -> Sequence[Recording]:
    """What the producers of each service send, the most that they sent within a quarter of an hour, and who is idle.

    Of those that are it is the most of the last four days.
    """
    each = by("shard", "service")
    busy = "\n+\n".join(f"((min_over_time({BUSIEST}[2h] offset {ago}) > bool 0) or 0 * {SENT})" for ago in _BEFORE)
    return [
        Recording(SENT, f"sum {by('service')} (\n  max {each} (kafka_client_service_producer_record_send_rate)\n)"),
        Recording(BUSIEST, f"max_over_time({SENT}[15m])"),
        Recording(IDLE, f"max_over_time({BUSIEST}[4d]) > 0\nand\n{SENT} == 0\nand\n(\n{busy}\n) >= 2"),
    ]


def sent_alerts(links: Links) -> Sequence[Alert]:
    """A ticket for a service that is there and sends nothing at an hour at which it always does."""
    return [
        Alert(
            name="KafkaClientNothingSent",
            severity="warning",
            expr=owned(f"{IDLE} > 0", "service"),
            hold="15m",
            summary="The producers of a service send nothing, at an hour at which they usually do.",
            description=(
                "Service {{ $labels.service }} sent up to {{ $value | humanize }} records a second in the last four "
                "days. Its producers report, nothing is known to be wrong with them, and they have sent nothing for a "
                "quarter of an hour. What to do: see whether what feeds them still does: its input, its database, the "
                "traffic in front of it, a switch. "
                f"State: {links.status_page}/?q={{{{ $labels.service | urlquery }}}}"
            ),
            runbook="nothing-sent",
            dashboard=dashboard_uid("producers"),
            dashboard_labels=("service",),
            why=(
                "In two of the same hours of yesterday, last week and the week before it never was idle for 15 min:\n"
                "nights, weekends, and jobs by the hour or the day open no ticket, nor does the first week. Who is\n"
                "scaled to zero has no such series, and after four days it is how things are."
            ),
        )
    ]
