"""Draw random cases from a seed: client family, cause of failure, log layout."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.lab.families import FAMILIES, Family
from tests.lab.layouts import LAYOUTS, WRAPPINGS
from tests.lab.mechanisms import LOOP, MECHANISMS, Mechanism
from tests.lab.seen import Seen
from tests.lab.world import PUSH_SECONDS

_NAMES = ("order-publisher", "billing", "p1", "stock.events-out", "producer-1", "consumer-billing-7", "audit_writer")
_THREADS = (
    "http-nio-8080-exec-",
    "worker-",
    "pool-3-thread-",
    "ForkJoinPool-1-worker-",
    "orders|",
    "vert.x-eventloop-thread-",
)
_WEATHER = ("", "", "", "", "cut", "swallow")


@dataclass(frozen=True)
class Case:
    """One recorded run of a program.

    The failure begins `onset` s after the program has begun to work, and the recording ends `after` s after the onset.
    `lasts` is the duration (s) of a fault that ends by itself. `weather` is an event at the brokers before the onset.
    """

    number: int
    family: Family
    mechanism: Mechanism
    options: Mapping[str, str]
    seen: Seen
    onset: float
    after: float
    lasts: float | None
    weather: tuple[str, float, float] = ("", 0.0, 0.0)

    @property
    def name(self) -> str:
        return f"{self.number:03}-{self.mechanism.name}-{self.family.name}"

    @property
    def client_id(self) -> str:
        return self.options[f"{self.mechanism.role[0]}.client.id"]

    @property
    def client_ids(self) -> Sequence[str]:
        return self._ids(int(self.options["clients"]))

    @property
    def troubled(self) -> Sequence[str]:
        inside = "trouble" in self.options
        return self._ids(int(self.options.get("trouble.clients", "1"))) if inside else self.client_ids

    def _ids(self, clients: int) -> Sequence[str]:
        names = self.family.ids.get(self.mechanism.role)
        if names is None:
            return (self.client_id, *(f"{self.client_id}-{number}" for number in range(1, clients)))
        every = [name.format(id=self.client_id, n=n, m=n + 1) for n in range(clients) for name in names]
        return list(dict.fromkeys(every))


def drawn(seed: int, cases: int, only: Sequence[str] = (), families: Sequence[str] = ()) -> list[Case]:
    """Draw cases, with two failures for each healthy control.

    `only`: parts of names. If `only` is not empty, each drawn mechanism has one of these parts in its name.
    `families`: the same for the names of families.
    """
    of = [one for one in FAMILIES.values() if not families or any(part in one.name for part in families)]
    named = [one for one in MECHANISMS.values() if not only or any(part in one.name for part in only)]
    wanted = [one for one in named if any(one.suits(family) for family in of)]
    dice = random.Random(seed)
    decks = {
        failing: _Deck(dice, [one for one in wanted if (one.mode is not None) == failing]) for failing in (True, False)
    }
    kinds = [failing for failing in (True, True, False) if decks[failing].all]
    return [_case(random.Random(f"{seed} {n}"), n, decks[kinds[n % len(kinds)]].next(), of) for n in range(cases)]


class _Deck:
    def __init__(self, dice: random.Random, mechanisms: Sequence[Mechanism]) -> None:
        self.all, self._dice = mechanisms, dice
        self._left: dict[str | None, list[Mechanism]] = {}
        self._modes: list[str | None] = []

    def next(self) -> Mechanism:
        if not self._modes:
            self._modes = sorted({one.mode for one in self.all}, key=str)
            self._dice.shuffle(self._modes)
        mode = self._modes.pop()
        if not self._left.get(mode):
            mechanisms_of_mode = [one for one in self.all if one.mode == mode for _ in range(int(one.weight))]
            self._dice.shuffle(mechanisms_of_mode)
            self._left[mode] = mechanisms_of_mode
        return self._left[mode].pop()


def _case(dice: random.Random, number: int, mechanism: Mechanism, families: Sequence[Family]) -> Case:
    suitable = [family for family in families if mechanism.suits(family)]
    family = dice.choices(suitable, [family.weight for family in suitable])[0]
    onset, after = dice.uniform(18, 35), dice.uniform(25, 85)
    lasts = dice.uniform(*mechanism.lasts) if mechanism.lasts else None
    weather = ("", 0.0, 0.0)
    if not mechanism.early and not mechanism.world:
        weather = (dice.choice(_WEATHER), dice.uniform(6, onset - 10), dice.uniform(2, 6))
    if mechanism.end and not mechanism.again:
        after = dice.uniform(25, 60) if mechanism.mode == LOOP else dice.uniform(15, 30)
    options = {name: _value(dice, value) for name, value in _options(dice, family, mechanism).items()}
    seen = _seen(dice, family, mechanism, onset + after)
    if seen.metrics == "micrometer":
        options["micrometer"] = "true"
    if seen.metrics == "pushes":
        # Pushed metrics name a client only by its client id, so the case's number makes the id unique.
        options[f"{mechanism.role[0]}.client.id"] += f"-{number}"
    return Case(number, family, mechanism, options, seen, onset, after, lasts, weather)


def _value(dice: random.Random, value: str) -> str:
    """For `a..b`, draw a number from a to b. For `a|b`, draw one of the values a and b."""
    low, between, high = value.partition("..")
    if between and low.isdigit():
        return str(dice.randint(int(low), int(high)))
    return dice.choice(value.split("|")) if "|" in value else value


def _options(dice: random.Random, family: Family, mechanism: Mechanism) -> dict[str, str]:
    role, name = mechanism.role, dice.choice(_NAMES)
    options: dict[str, str] = {
        "role": role,
        "clients": dice.choice(("1", "1", "2", "3")),
        "threads": dice.choice(("1", "2", "6")),
        "thread": dice.choice(_THREADS).replace("|", "-"),
        "rate": "5..25",
        "size": "100..2000",
        "every": "10..200",
        f"{role[0]}.client.id": name,
    }
    if role == "producer":
        request = dice.choice((4000, 8000, 15000))
        options |= {"p.request.timeout.ms": str(request), "p.max.block.ms": "3000|8000|20000", "p.linger.ms": "0..50"}
        if not family.java or family.numbers >= (2, 1):
            options["p.delivery.timeout.ms"] = str(request + dice.choice((3000, 10000)))
        else:
            options["p.retries"] = "0"
        options["p.buffer.memory"] = dice.choice(("200000", "1000000", "33554432"))
        options["sync"] = dice.choice(("false", "false", "true"))
    else:
        options |= {"c.auto.offset.reset": "earliest", "commit": "auto|sync|async", "handle.ms": "1..30"}
        options |= {"c.max.poll.records": "500|50|5"} if dice.random() < 0.5 else {}
    options |= mechanism.options
    if role == "producer" and (mechanism.end or int(_digits(options["p.linger.ms"])) > 1000):
        # With `sync`, the program would wait linger.ms for each record.
        options["sync"] = "false"
        options.pop("p.delivery.timeout.ms", None)
    return {**options, **family.options}


def _digits(text: str) -> str:
    return text.partition("..")[0]


def _seen(dice: random.Random, family: Family, mechanism: Mechanism, seconds: float) -> Seen:
    metrics = dice.choice(family.routes)
    interval = PUSH_SECONDS if metrics == "pushes" else dice.choice((1.0, 5.0, 5.0, 10.0, 10.0, 15.0, 30.0, 60.0))
    # Scala clients log directly to log4j 1.
    backends = ("reload4j",) if family.program == "Legacy" else ("reload4j", "logback", "log4j2", "jul")
    suitable = [name for name, one in LAYOUTS.items() if one.backend in backends and (family.java or one.python)]
    layout = dice.choice(suitable)
    wrapping = dice.choice(("none", "none", *WRAPPINGS))
    if LAYOUTS[layout].encoding == "UTF-16LE":
        wrapping = "none"
    dumps = dice.choice(((), (), (8.0,), (3.0, 23.0), (5.0, 15.0, 35.0), (2.0, 6.0), (-6.0, 12.0, 24.0, 36.0)))
    missing = dice.choice(("metrics", "log", "nothing", "nothing", "nothing", "nothing"))
    if missing == "metrics" and metrics != "none":
        metrics = "none"
    elif missing == "log" and metrics != "none":
        layout = "none"
    begins = dice.choice((0.0, 0.0, 0.0, dice.uniform(5, 30)))
    ends = dice.choice((0.0, 0.0, 0.0, dice.uniform(1, seconds / 2)))
    return Seen(metrics, interval, layout, wrapping, dumps, begins, ends, dice.random() < 0.4)


def described(case: Case) -> Mapping[str, Any]:
    mechanism, seen = case.mechanism, case.seen
    return {
        "mechanism": mechanism.name,
        "mode": mechanism.mode,
        "role": mechanism.role,
        "family": case.family.name,
        "options": dict(case.options),
        "onset": case.onset,
        "after": case.after,
        "lasts": case.lasts,
        "weather": case.weather,
        "troubled": list(case.troubled),
        "clients": list(case.client_ids),
        "seen": {name: getattr(seen, name) for name in seen.__dataclass_fields__},
    }
