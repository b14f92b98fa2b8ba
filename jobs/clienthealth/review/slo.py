"""Compute how well objectives were met: healthy share of the observed time, remaining error budget, records lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from clienthealth.configuration.owners import OWNER_LABELS, Owner, Owners

NOBODY = Owners()
State = Literal["within budget", "nearly spent", "overspent", "no data"]
LossState = Literal["met", "missed", "not known", "no data"]
Decision = Literal["ship", "freeze", "no data"]

NEARLY = 0.75
#: Number of periods that `trend` and `long_budget` cover, including the reviewed period.
PERIODS = 4
#: A range of numbers: (minimum, maximum). The maximum is None if unknown.
Range = tuple[int, int | None]


@dataclass(frozen=True)
class Loss:
    """Records lost in a period, and whether the objective for lost records was met (`state`).

    `records`: minimum and maximum number of lost records. The maximum is None if not all lost records were counted. If
    the objective lies between minimum and maximum, the state is `not known`.
    """

    records: Range = (0, 0)
    state: LossState = "no data"

    @property
    def none(self) -> bool:
        """True if it is certain that no record was lost."""
        return self.records == (0, 0)

    @property
    def met(self) -> bool:
        """False if the objective was missed or may have been missed."""
        return self.state in ("met", "no data")

    def as_json(self) -> dict[str, Any]:
        """Return the loss for the review's JSON; `at_most` is null if the maximum is unknown."""
        return {"at_least": self.records[0], "at_most": self.records[1], "state": self.state}


def of_service(records: Range, target: int, observed: bool) -> Loss:
    """Return a service's lost records, with the state of its loss objective.

    `target`: maximum number of lost records. `observed`: True if any client of the service was judged.
    """
    low, high = records
    if records == (0, 0) and not observed:
        return Loss(records, "no data")
    return Loss(records, "missed" if low > target else "not known" if high is None or high > target else "met")


def of_all(services: Iterable[Loss]) -> Loss:
    """Return the loss of all services together. The state is the worst of the services' states."""
    losses = list(services)
    states = {loss.state for loss in losses}
    order: tuple[LossState, ...] = ("missed", "not known", "met")
    return Loss(add(loss.records for loss in losses), next((s for s in order if s in states), "no data"))


def add(ranges: Iterable[Range]) -> Range:
    """Return the sum of ranges. The sum's maximum is None if the maximum of any range is None."""
    every = list(ranges)
    known = [high for _, high in every if high is not None]
    return sum(low for low, _ in every), sum(known) if len(known) == len(every) else None


@dataclass(frozen=True)
class Minutes:
    """The number of client-minutes by status. The docstring of `clienthealth.review` defines the statuses."""

    ok: int = 0
    partial: int = 0
    suspected: int = 0
    confirmed: int = 0
    unknown: int = 0

    def __add__(self, other: Minutes) -> Minutes:
        return Minutes(**{status: count + getattr(other, status) for status, count in vars(self).items()})

    @property
    def unhealthy(self) -> int:
        """The number of client-minutes with a suspected or confirmed failure."""
        return self.suspected + self.confirmed

    @property
    def healthy(self) -> int:
        """The number of client-minutes in which no failure was found, even if some modes could not be judged."""
        return self.ok + self.partial

    @property
    def observed(self) -> int:
        """The number of client-minutes that were judged."""
        return self.healthy + self.unhealthy

    @property
    def sli(self) -> float | None:
        """The share of observed client-minutes that were healthy; None if nothing was observed."""
        return self.healthy / self.observed if self.observed else None


def total(many: Iterable[Minutes]) -> Minutes:
    """Add up client-minutes by status."""
    return sum(many, Minutes())


@dataclass(frozen=True)
class Budget:
    """The error budget for `minutes` (client-minutes). `target`: the healthy share to reach, 0 to 1."""

    minutes: Minutes
    target: float

    @property
    def size(self) -> float:
        """The unhealthy client-minutes that the target allows."""
        # Without rounding, a healthy share equal to the target could overspend the budget by a rounding error.
        return round((1 - self.target) * self.minutes.observed, 6)

    @property
    def spent(self) -> float | None:
        """The share of the budget that is spent (1: the whole budget); None if nothing was observed."""
        return self.minutes.unhealthy / self.size if self.size else None

    @property
    def left(self) -> float:
        """The unspent client-minutes of the budget; negative if the budget is overspent."""
        return self.size - self.minutes.unhealthy

    @property
    def state(self) -> State:
        """The budget's state in words."""
        if self.spent is None:
            return "no data"
        return "overspent" if self.spent > 1 else "nearly spent" if self.spent >= NEARLY else "within budget"

    def as_json(self) -> dict[str, Any]:
        """Return the budget for the review's JSON, in client-minutes and as a ratio."""
        return {"size": self.size, "spent_ratio": self.spent, "left": self.left}


@dataclass(frozen=True)
class ServiceSlo:
    """How well a service met its objective, in the reviewed period and in each of the last four periods (PERIODS).

    `service`  '' for all services together
    `slots`    client-minutes by slot; the slots divide the reviewed period equally
    `periods`  client-minutes in each of the last four periods, oldest first
    `lost`     loss of records in the reviewed period
    `owner`    None if unknown
    """

    service: str
    clients: int
    target: float
    periods: Sequence[Minutes]
    slots: Mapping[int, Minutes] = field(default_factory=dict)
    lost: Loss = field(default_factory=Loss)
    owner: Owner | None = None

    @property
    def minutes(self) -> Minutes:
        """The client-minutes of the reviewed period."""
        return self.periods[-1]

    @property
    def budget(self) -> Budget:
        """The error budget of the reviewed period."""
        return Budget(self.minutes, self.target)

    @property
    def long_budget(self) -> Budget:
        """The error budget of all `periods` together."""
        return Budget(total(self.periods), self.target)

    @property
    def decision(self) -> Decision:
        """The decision of the error budget policy.

        `freeze` if `long_budget` is overspent, `no data` if nothing was observed, else `ship`.
        """
        state = self.long_budget.state
        return "freeze" if state == "overspent" else "no data" if state == "no data" else "ship"

    @property
    def trend(self) -> list[float | None]:
        """The SLI (healthy share of the observed client-minutes) of each period, oldest first."""
        return [minutes.sli for minutes in self.periods]

    @property
    def change(self) -> float | None:
        """The SLI of the reviewed period minus the SLI of all earlier periods together; None if either is unknown."""
        before = total(self.periods[:-1]).sli
        now = self.minutes.sli
        return None if before is None or now is None else now - before

    def as_json(self) -> dict[str, Any]:
        """Return all numbers of the objective for the review's JSON; unknown numbers are null."""
        return {
            "service": self.service,
            "owner": None if self.owner is None else dict(zip(OWNER_LABELS, self.owner.labels, strict=True)),
            "clients": self.clients,
            "target": self.target,
            "sli": self.minutes.sli,
            "state": self.budget.state,
            "client_minutes": {
                name: getattr(self.minutes, name)
                for name in ("observed", "healthy", "partial", "suspected", "confirmed", "unhealthy", "unknown")
            },
            "lost_records": self.lost.as_json(),
            "budget": self.budget.as_json(),
            "long_budget": {**self.long_budget.as_json(), "state": self.long_budget.state},
            "decision": self.decision,
            "trend": self.trend,
            "change": self.change,
        }


def objectives(
    rows: Iterable[Mapping[str, Any]],
    clients: Mapping[str, int],
    target: float,
    lost: Mapping[str, Range],
    lost_target: int,
    owners: Owners = NOBODY,
) -> tuple[ServiceSlo, list[ServiceSlo]]:
    """Return how well objectives were met: by all services together, and by each service, the worst service first.

    `rows`         the rows of `client_minutes.statuses`: numbers of client-minutes
    `clients`      number of clients by service
    `target`       the target of all services together, and of each service without a target of its own
    `lost`         number of records lost in the reviewed period (minimum, maximum), by service
    `lost_target`  how many records each service may lose
    `owners`       owners of services; an owner may set a target for its services
    """
    periods: dict[str, list[Minutes]] = defaultdict(lambda: [Minutes()] * PERIODS)
    slots: dict[str, dict[int, Minutes]] = defaultdict(lambda: defaultdict(Minutes))
    for row in rows:
        one, service = Minutes(**{row["status"]: row["count"]}), row["service"] or ""
        periods[service][row["period"]] += one
        if row["slot"] >= 0:
            slots[service][row["slot"]] += one
    services = []
    for name in {**periods, **lost}:
        owner, of_periods, of_slots = owners.owner_of(name), periods[name], dict(sorted(slots[name].items()))
        its_target = target if owner is None or owner.slo_target is None else owner.slo_target
        loss = of_service(lost.get(name, (0, 0)), lost_target, bool(of_periods[-1].observed))
        services.append(ServiceSlo(name, clients.get(name, 0), its_target, of_periods, of_slots, loss, owner))
    services.sort(key=lambda s: (-(s.budget.spent or 0), -s.minutes.unhealthy, s.lost.met, s.service))
    return together(services, target), services


def together(services: Sequence[ServiceSlo], target: float) -> ServiceSlo:
    """Return how well several services or clusters together met the objective `target`."""
    slots: dict[int, Minutes] = defaultdict(Minutes)
    for slot, minutes in chain.from_iterable(service.slots.items() for service in services):
        slots[slot] += minutes
    return ServiceSlo(
        "",
        sum(service.clients for service in services),
        target,
        [total(service.periods[n] for service in services) for n in range(PERIODS)],
        dict(sorted(slots.items())),
        of_all(service.lost for service in services),
    )
