"""Looks at everything that a healthy installation needs, and says in sentences what is wrong and how to mend it.

A check is a function of the settings that yields findings; it never raises for what it examines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from clienthealth.settings import Settings

#: `skipped`: not configured, or not possible because of an earlier failure.
State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True)
class Finding:
    """What a check found: about what, how it is, and a sentence that says so (and what to do)."""

    about: str
    state: State
    text: str


Check = Callable[[Settings], Iterator[Finding]]


def checks() -> tuple[Check, ...]:
    """All checks, in the order of dependence: this machine, Kafka, the monitor, what shows the results."""
    from clienthealth.doctor import brokers, codecs, limits, machine, owned, servers, stores

    return (
        *(machine.java_works, machine.jars_present, stores.places_work),
        *(codecs.codecs_present, brokers.kafka_works, limits.limits, owned.owners_known, servers.servers),
    )
