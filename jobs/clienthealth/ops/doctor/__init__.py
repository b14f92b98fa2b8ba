"""Check everything that a healthy installation needs, and describe each fault and its remedy.

A check reports each fault as a finding, and never raises an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from clienthealth.settings import Settings

#: `skipped`: the subject of the check is not configured, or an earlier failure prevents the check.
State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True)
class Finding:
    """The result of a check: its subject, its state, and a sentence on the result and the remedy."""

    about: str
    state: State
    text: str


Check = Callable[[Settings], Iterator[Finding]]


def checks() -> tuple[tuple[str, Check], ...]:
    """Return (announcement, check) for each check.

    The announcement is a text to print before a slow check starts; a quick check has ''.
    """
    from clienthealth.ops.doctor import brokers, machine, owned, servers

    quick = (
        *(machine.java_works, machine.jars_present, machine.codecs_present, brokers.kafka_works),
        *(servers.limits, owned.owners_known, servers.servers),
    )
    return (
        *(("", check) for check in quick),
        ("Starting Spark to test checkpoint, history and reviews. This takes a minute or more …", machine.places_work),
    )
