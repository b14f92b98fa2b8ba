"""The values from which measurements are worrying: one table for alerts, dashboards and the status page."""

from __future__ import annotations

from dataclasses import dataclass

from clienthealth.settings.fields import setting


@dataclass(frozen=True)
class Limits:
    """Shares are 0 to 1, times are seconds; counts are of clients, never of one client's actions."""

    buffer_used_ratio: float = setting(0.8, "a producer with less than a fifth of its buffer left has little to absorb")
    buffer_full_ratio: float = setting(0.95, "practically full: the next large batch has to wait")
    buffer_seconds_to_full: float = setting(600, "ten minutes are enough to look before send() begins to block")
    callback_seconds: float = setting(0.05, "at 50 ms a record the one I/O thread delivers 20 records a second")
    io_thread_busy_ratio: float = setting(
        0.5, "healthy I/O threads were busy 0.02–0.07 of the time, slow callbacks 0.8"
    )
    queue_used_ratio: float = setting(0.9, "the topic's handler does not keep up with what was fetched for it")
    retention_used_ratio: float = setting(0.8, "a fifth of the retained log is left before unread records are deleted")
    retention_lost_ratio: float = setting(0.95, "the oldest unread records are about to be deleted")
    retention_gain_ratio: float = setting(
        0.01, "a group catches up if in an hour it reads more than is added, by a hundredth of the retained records"
    )
    fleet_confirmed_ratio: float = setting(0.05, "one client in twenty at once is no coincidence: they share a cause")
    fleet_confirmed_clients: float = setting(20, "fewer clients have pages of their own, which have more detail")
    fleet_suspected_ratio: float = setting(0.1, "suspicions come and go: one in ten at once is no coincidence")
    fleet_one_service_ratio: float = setting(
        0.9, "nine in ten failing clients are of one service: the page of that service names it"
    )
    worse_clients: float = setting(5, "so many further clients do not fail by chance at the time of a known failure")
    storm_minutes: float = setting(10, "failures with a common cause appear within some batches and scrapes")
    storm_services: float = setting(10, "so many services that begin to fail at once share a cause")
    storm_clients: float = setting(100, "so many clients that begin to fail at once share a cause, too")
    fleet_silent_ratio: float = setting(
        0.1, "less than a tenth of the fleet is left: no deployment stops so much at once"
    )
    silent_ratio: float = setting(0.2, "autoscalers remove some clients within an hour, hardly four in five")
    unjudged_ratio: float = setting(0.33, "that a third of a fleet lacks the data to be judged is not intended")
    silent_clients: float = setting(20, "if some clients remain and fewer are missing, a deployment became smaller")


LIMITS = Limits()


@dataclass(frozen=True)
class Burn:
    """A pair of windows, and the speed (`factor`) at which the error budget must not burn in both.

    `pages`: True if the alert may page, False if it only opens a ticket.
    """

    long: str
    short: str
    factor: float
    hold: str
    pages: bool = False


#: The windows of the SRE workbook; the fourth pair is that of kubernetes-mixin. alerts/rules/slo.yml.j2 uses them.
BURNS = (
    Burn("1h", "5m", 14.4, "2m", pages=True),
    Burn("6h", "30m", 6, "15m", pages=True),
    Burn("1d", "2h", 3, "1h"),
    Burn("3d", "6h", 1, "3h"),
)
