"""The content of a review as plain values. The page, the text and the JSON are made from these values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from clienthealth.review.actions import Action
from clienthealth.review.period import MINUTE, Period, utc
from clienthealth.review.slo import Range, ServiceSlo

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
SCHEMA = 1
TIME = "%Y-%m-%dT%H:%M:%SZ"
#: A page needed no action if the page lasted at most BRIEF, and no record can have been lost.
BRIEF = 10 * MINUTE
QUESTIONS = ("What happened?", "Whose is it?", "What to do?")


@dataclass(frozen=True)
class Incident:
    """A failure mode on one client, from onset to end. Durations are in seconds.

    `found`: when the monitor first reported the failure. `sure`: when the failure was confirmed, None if never. `stop`:
    the end; None if the incident was still open at the period's end. `seconds`: duration inside the period. `detect`:
    from `start` to `found`. `clear`: from `found` to `stop`, at least 0; None if `stop` is None.
    """

    service: str
    instance: str
    client_id: str
    mode: str
    host: str
    library: str
    version: str
    start: datetime
    found: datetime
    sure: datetime | None
    stop: datetime | None
    seconds: int
    detect: int
    clear: int | None
    lost_records: Range | None
    lost_bytes: Range | None
    evidence: tuple[str, ...]
    link: str


@dataclass(frozen=True)
class Theme:
    """Incidents with the same mode, cause and culprit topic.

    `seconds`: total duration of incidents inside the period. `detect`: median seconds from an incident's onset to its
    detection. `clear`: median seconds from detection to end. `lost_records`, `lost_bytes`: (minimum, maximum) of the
    loss; None if there was no loss, or if the loss is unknown.
    """

    mode: str
    title: str
    cause: str
    topic: str
    incidents: int
    confirmed: int
    open: int
    clients: int
    services: tuple[str, ...]
    start: datetime
    stop: datetime | None
    seconds: int
    detect: float
    clear: float | None
    lost_records: Range | None
    lost_bytes: Range | None
    listed: tuple[Incident, ...]
    action: str
    runbook: str

    @property
    def loses(self) -> bool:
        """True if one of the theme's incidents lost records, or may have lost records."""
        return self.lost_records is not None or self.lost_bytes is not None

    @property
    def more(self) -> int:
        """The number of the theme's incidents that are not listed."""
        return self.incidents - len(self.listed)


@dataclass(frozen=True)
class Page:
    """A page (an alert that calls a person) for a failure mode on clients of a service.

    `service`: '' if the page is for many services. `stop`: the end; None if the page was still firing at the period's
    end. `loses`: True if records may have been lost. `night`: for a page at night, the date on which the night ends;
    None by day.
    """

    service: str
    mode: str
    start: datetime
    stop: datetime | None
    clients: int
    loses: bool
    night: date | None

    @property
    def needed_nobody(self) -> bool:
        """True if nobody had to act: the page ended within ten minutes (BRIEF), and no record can have been lost."""
        return not self.loses and self.stop is not None and self.stop - self.start <= BRIEF


@dataclass(frozen=True)
class Alert:
    """The alert for one mode and severity in the period. An episode is a time in which the alert fires for one client.

    `count`    number of episodes
    `flaps`    number of episodes with a flapping incident (see `incident_rows.FLAP_SECONDS`)
    `seconds`  firing time of all episodes inside the period, added up
    `clear`    the median time (s) for which an alert fired; None if no episode has ended
    """

    mode: str
    severity: str
    count: int
    clients: int
    flaps: int
    seconds: int
    clear: float | None

    @property
    def repeats(self) -> int:
        """The number of episodes after each client's first episode."""
        return self.count - self.clients


@dataclass(frozen=True)
class ClientRow:
    """A client in a ranking.

    `what`, `value`: name and value of the measurement by which the client is ranked. `topic`: the measured
    topic; '' if the client as a whole is measured. `seconds`: the lag in seconds, if the client is ranked by lag.
    """

    service: str
    instance: str
    client_id: str
    what: str
    value: float
    topic: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class TopicRow:
    """A topic in a ranking.

    `what`, `value`: name and value of the measurement by which the topic is ranked. `clients`: number of clients for
    which the value was measured on the topic.
    """

    topic: str
    what: str
    value: float
    clients: int


@dataclass(frozen=True)
class FleetRow:
    """A client id of a service. `instances`: number of the service's processes that use the client id."""

    service: str
    client_id: str
    kind: str
    instances: int


@dataclass(frozen=True)
class Upgrade:
    """The versions of a library that a service used in the previous period (`before`), and in this period (`now`)."""

    service: str
    library: str
    before: tuple[str, ...]
    now: tuple[str, ...]


@dataclass(frozen=True)
class KnownBugs:
    """Clients of one kind and library version in a service. The version has bugs that cause or imitate failure modes.

    `clients`: number of clients. `bugs`: ids of the bugs. `upgrade_to`: next release without known bugs, or ''.
    """

    service: str
    library: str
    version: str
    clients: int
    bugs: tuple[str, ...]
    upgrade_to: str


@dataclass(frozen=True)
class Fleet:
    """New and vanished client ids of the fleet, library upgrades, and versions with known bugs.

    `new`, `vanished` and `upgrades` have at most 20 entries. `new_count`, `vanished_count`: numbers of all new and of
    all vanished client ids.
    """

    new: tuple[FleetRow, ...] = ()
    new_count: int = 0
    vanished: tuple[FleetRow, ...] = ()
    vanished_count: int = 0
    upgrades: tuple[Upgrade, ...] = ()
    known_bugs: tuple[KnownBugs, ...] = ()


@dataclass(frozen=True)
class Capacity:
    """How full the buffers of a service are.

    `p95`           for each period, oldest first: 95th percentile of the peak buffer use in a client-minute (1: full)
    `slope`         change of the percentile per period; None if too few periods have a percentile
    `periods_left`  number of periods until the percentile is 1 (full); None if the percentile does not rise, or is
                    unknown
    """

    service: str
    p95: tuple[float | None, ...]
    slope: float | None
    periods_left: float | None


@dataclass(frozen=True)
class LagTrend:
    """The lag of a consumer group over the review's period.

    `records`, `seconds`: the greatest lag, in records and in seconds. `slope`: growth (records per day), by regression.
    """

    service: str
    group: str
    topic: str
    records: int
    seconds: float | None
    slope: float


@dataclass(frozen=True)
class ModeChange:
    """How many incidents and unhealthy client-minutes a failure mode had in this period, and in the previous period.

    The fields for the previous period end with `_before`.
    """

    mode: str
    title: str
    incidents: int
    incidents_before: int
    minutes: int
    minutes_before: int

    @property
    def seen(self) -> bool:
        """True if the mode has an incident or an unhealthy minute in this or the previous period."""
        return any((self.incidents, self.incidents_before, self.minutes, self.minutes_before))


@dataclass(frozen=True)
class AlsoSeen:
    """A known issue of a service.

    `lines`, `lines_before`: number of log lines that show the issue, in this period and in the previous period.
    """

    what: str
    service: str
    lines: int
    clients: int
    lines_before: int


@dataclass(frozen=True)
class InputQuality:
    """The records from a source topic: how many were read, rejected, and late. `late`: None if not counted."""

    source_topic: str
    records: int
    rejected: int
    late: int | None


@dataclass(frozen=True)
class WrongClock:
    """A client with a wrong clock. `skew_seconds`: the clock's greatest deviation, positive if the clock was ahead."""

    service: str
    instance: str
    client_id: str
    skew_seconds: float
    minutes: int

    @property
    def words(self) -> str:
        """The clock's deviation in words, such as `ahead by 90 s`."""
        return f"{'ahead' if self.skew_seconds > 0 else 'behind'} by {abs(self.skew_seconds):.0f} s"


@dataclass(frozen=True)
class Quality:
    """How reliable the review is.

    `gaps`     periods in which the monitor read no data
    `unknown`  client-minutes that could not be judged
    `judged`   client-minutes that were judged
    `clocks`   clients with a wrong clock, the worst first
    """

    minutes: int
    gaps: tuple[Period, ...]
    inputs: tuple[InputQuality, ...]
    unknown: int
    judged: int
    clocks: tuple[WrongClock, ...] = ()

    @property
    def gap_minutes(self) -> int:
        """Number of minutes in which the monitor read no data."""
        return sum(gap.minutes for gap in self.gaps)

    @property
    def watched(self) -> int:
        """Number of minutes in which the monitor read data."""
        return self.minutes - self.gap_minutes


@dataclass(frozen=True)
class Distribution:
    """How many minutes had a value in each range (`classes`), in this (`now`) and the previous period (`before`)."""

    classes: tuple[str, ...]
    now: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True)
class Review:
    """The whole content of a review.

    `cluster`, `environment`     '' if the settings name none
    `needless_pages_target`      maximum number of needless pages in the period (the noise budget)
    `pages`                      alerts that called a person; None if alerts in this environment only open tickets
    `night_hours`                hours (UTC) at which a night begins and ends
    `periods`                    the periods that trends compare, oldest first
    `withdrawn`                  number of withdrawn incidents
    `cleared_count`              number of suspicions that ended unconfirmed
    `never_fired`                (mode, severity) of each alert that did not fire
    `top_clients`, `top_topics`  for each criterion (such as lag): clients or topics, the worst first
    `slot_minutes`               length of a slot: the chart of the error budgets has one point per slot
    `not_computed`               (part of the review, why this part is missing)
    """

    period: Period
    target: float
    lost_records_target: int
    overall: ServiceSlo
    services: Sequence[ServiceSlo]
    periods: Sequence[Period]
    actions: Sequence[Action]
    actions_file: str
    themes: Sequence[Theme]
    withdrawn: int
    alerts: Sequence[Alert]
    never_fired: Sequence[tuple[str, str]]
    cleared: Sequence[Incident]
    cleared_count: int
    top_clients: Mapping[str, Sequence[ClientRow]]
    top_topics: Mapping[str, Sequence[TopicRow]]
    fleet: Fleet
    capacity: Sequence[Capacity]
    lag_trends: Sequence[LagTrend]
    changes: Sequence[ModeChange]
    quality: Quality
    buffers: Distribution
    lags: Distribution
    slot_minutes: int
    not_computed: Sequence[tuple[str, str]]
    headline: Sequence[str] = ()
    cluster: str = ""
    environment: str = ""
    pages: Sequence[Page] | None = ()
    night_hours: tuple[int, int] = (22, 7)
    needless_pages_target: int = 2
    also_seen: Sequence[AlsoSeen] = ()

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Each question of QUESTIONS with its answer, a sentence of the headline."""
        return list(zip(QUESTIONS, self.headline, strict=True))


def of_row(kind: type[T], row: Mapping[str, Any], **values: Any) -> T:
    """Make a part of a review from a query's row. A field takes the value of the column with the same name.

    A null text becomes '', and epoch seconds become a time. A loss (minimum, maximum) is made from two columns, with
    the suffixes `_0` and `_1`. `values`: the fields that are not in the row.
    """
    for field in dataclasses.fields(kind):
        name, value = field.name, row.get(field.name)
        if name in values:
            continue
        if str(field.type).startswith("Range"):
            values[name] = None if row[f"{name}_0"] is None else (row[f"{name}_0"], row[f"{name}_1"])
        elif field.type == "str":
            values[name] = value or ""
        elif name in row:
            if value is not None and str(field.type).startswith("datetime"):
                value = utc(value)
            values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def as_json(review: Review) -> dict[str, Any]:
    """Return the review as a JSON object, with unrounded ratios."""
    quality = review.quality
    own: dict[str, Any] = {
        "period": {"label": review.period.label, **_period(review.period)},
        "overall": review.overall.as_json(),
        "services": [service.as_json() for service in review.services],
        "periods": list(map(_period, review.periods)),
    }
    fields = {field.name: getattr(review, field.name) for field in dataclasses.fields(review)}
    plain: dict[str, Any] = msgspec.to_builtins(fields | own)
    plain["quality"] |= {"gaps": list(map(_period, quality.gaps)), "watched": quality.watched}
    plain["quality"] |= {"gap_minutes": quality.gap_minutes}
    return {"schema": SCHEMA, **plain}


def _period(period: Period) -> dict[str, Any]:
    return {"from": f"{period.start:{TIME}}", "to": f"{period.end:{TIME}}", "minutes": period.minutes}
