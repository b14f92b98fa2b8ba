"""A fault in the step for one client: it is published, the client is forgotten, and its bucket goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.step.state import BucketState
from clienthealth.windows.columns import Ints
from clienthealth.windows.packed import LogEntry, Who

log = logging.getLogger(__name__)
T = TypeVar("T")

REASON = "step-failed"
MAX_REASON = 300


@dataclass(frozen=True)
class Fault:
    """A client for which the step failed. `source`: its newest input record, None where none is known."""

    client: Client
    reason: str
    source: Source | None


class Faults:
    """What failed in a step. Clients are named by their number in the state."""

    def __init__(self, state: BucketState, client_of: Callable[[Who], Client]) -> None:
        self._state, self._client_of = state, client_of
        self._by_number: dict[int, Fault] = {}
        self._others: list[Fault] = []

    @property
    def all(self) -> list[Fault]:
        """Each client once."""
        return [*self._by_number.values(), *self._others]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the clients that failed."""
        return list(self._by_number)

    def spared(self, clients: Ints) -> Ints:
        """Those of the clients that have not failed."""
        return clients[~np.isin(clients, self.numbers)] if self._by_number else clients

    def add(self, number: int, mistake: Exception) -> None:
        """Enter a client; the first mistake counts."""
        client = self._client_of(self._state.whos[number])
        log_once(mistake)
        self._by_number.setdefault(number, Fault(client, reason(mistake), self._state.newest(number)))

    def of_process(self, entries: Sequence[LogEntry], mistake: Exception) -> None:
        """Enter a process whose new lines or dumps cannot be judged, and forget all its log entries."""
        last = entries[-1]
        source = (last.event or last.dump).source  # type: ignore[union-attr]
        client = Client(last.service, last.host, last.instance or last.host, "", None)
        self.other(client, mistake, source)
        self._state.log_entries = [entry for entry in self._state.log_entries if entry.process != last.process]

    def other(self, client: Client, mistake: Exception, source: Source | None) -> None:
        """Enter one that has no number: a process, a consumer group."""
        log_once(mistake)
        self._others.append(Fault(client, reason(mistake), source))

    def apart(self, clients: Ints, work: Callable[[Ints], T]) -> Iterator[T]:
        """What `work` gives for all of these clients at once; where it fails, for each half, down to those at fault.

        `work` changes nothing that lasts.
        """
        try:
            result = work(clients)
        except Exception as mistake:  # noqa: BLE001 - whatever it is, it costs the client and not the bucket
            if len(clients) == 1:
                self.add(int(clients[0]), mistake)
                return
            half = len(clients) // 2
            yield from self.apart(clients[:half], work)
            yield from self.apart(clients[half:], work)
            return
        yield result


@lru_cache(maxsize=100)
def _first(kind: str, file: str, line: int) -> list[bool]:
    return [True]


def log_once(mistake: Exception) -> None:
    """Log a fault with its traceback, once for each place that it comes from."""
    trace = mistake.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    new = _first(
        type(mistake).__name__, trace.tb_frame.f_code.co_filename if trace else "", trace.tb_lineno if trace else 0
    )
    if new:
        new.clear()
        log.error("a client cannot be judged: %s", mistake, exc_info=mistake)


def reason(mistake: Exception) -> str:
    """Why a client went to the rejects."""
    return f"{REASON}: {type(mistake).__name__}: {mistake}"[:MAX_REASON]
