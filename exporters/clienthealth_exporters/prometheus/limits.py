"""Thresholds for measurements, shared by alerts, dashboards and the status page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clienthealth.model.tables import table
from clienthealth.settings.fields import DEFAULT, Section, Stated

_FILE = Path(__file__).with_suffix(".toml")


class Limits(Stated, of=Section(_FILE.name, table(_FILE))):
    """The thresholds in limits.toml.

    `…_ratio` is a share from 0 to 1, `…_clients` is a number of clients, and `…_services` is a number of services.
    """

    buffer_used_ratio: float = DEFAULT
    buffer_full_ratio: float = DEFAULT
    buffer_seconds_to_full: float = DEFAULT
    callback_seconds: float = DEFAULT
    io_thread_busy_ratio: float = DEFAULT
    queue_used_ratio: float = DEFAULT
    retention_used_ratio: float = DEFAULT
    retention_lost_ratio: float = DEFAULT
    retention_gain_ratio: float = DEFAULT
    fleet_confirmed_ratio: float = DEFAULT
    fleet_confirmed_clients: float = DEFAULT
    fleet_suspected_ratio: float = DEFAULT
    fleet_one_service_ratio: float = DEFAULT
    worse_clients: float = DEFAULT
    storm_minutes: float = DEFAULT
    storm_services: float = DEFAULT
    storm_clients: float = DEFAULT
    fleet_silent_ratio: float = DEFAULT
    silent_ratio: float = DEFAULT
    unjudged_ratio: float = DEFAULT
    silent_clients: float = DEFAULT


LIMITS = Limits()


@dataclass(frozen=True)
class Burn:
    """A burn-rate alert, which fires if the error budget burns too fast in each of two time windows.

    `long`, `short`: lengths of the two windows, which end now. `factor`: the highest allowed burn rate. At the burn
    rate 1, the error budget lasts exactly for the SLO's period. `hold`: the time in the field `for` of the alert.
    `pages`: False if the alert opens a ticket.
    """

    long: str
    short: str
    factor: float
    hold: str
    pages: bool = False


#: The windows 1d and 2h come from kubernetes-mixin, the other windows from Google's SRE workbook.
BURNS = (
    Burn("1h", "5m", 14.4, "2m", pages=True),
    Burn("6h", "30m", 6, "15m", pages=True),
    Burn("1d", "2h", 3, "1h"),
    Burn("3d", "6h", 1, "3h"),
)
