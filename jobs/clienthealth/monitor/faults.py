"""Isolate errors: if a process's data makes a step fail, only the data of this process is rejected.

Bisection finds each faulty process: a process with data that makes the step fail even without the data of other
processes. The bucket is then processed without the data of the processes that were found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from traceback import extract_tb
from typing import TypeVar

import msgspec

from clienthealth.measure.packed import Chunk, decode, encode
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.monitor import readings
from clienthealth.monitor.incidents import Incidents
from clienthealth.monitor.intake import only
from clienthealth.monitor.state import BucketState, load, save

log = logging.getLogger(__name__)
T = TypeVar("T")

REASON = "step-failed"
MAX_REASON = 300
#: The unit of isolation: a process (service, host), or a consumer group.
Home = tuple[str, str]
#: Each call of `run` decodes its input again, because a failed call may have changed it.
Packed = tuple[bytes | bytearray, Sequence[bytes]]
Run = Callable[[BucketState, list[Chunk]], T]


@dataclass(frozen=True)
class Fault:
    """A process that was left out of a step, because its data raised an error.

    `client`  the process's client with the newest data; its client id is '' if the process has several clients
    `reason`  the error as text, for the topic of rejects
    `source`  the newest input record of the process; None if unknown
    """

    client: Client
    reason: str
    source: Source | None


def isolated(
    state: bytes | bytearray, chunks: Sequence[bytes], buckets: int, run: Run[T]
) -> tuple[T | None, list[Fault]]:
    """Call `run` with a bucket's state and chunks. If the call fails, call `run` again without the faulty processes.

    Returns (result of `run`, one Fault per process that was left out). If no single process causes the error, the
    result is None, and the only Fault names no process. `buckets`: the total number of buckets. Raises StateError if
    `state` is no valid state (see `load`).
    """
    packed: Packed = state, chunks
    whole = _unpacked(packed, buckets)
    try:
        return run(*whole), []
    except Exception as mistake:  # noqa: BLE001 - any error may cost only its process, not the bucket
        log_once(mistake)
        try:
            return _without_faulty(packed, buckets, run, mistake)
        except Exception as unattributed:  # noqa: BLE001 - the bucket loses this batch, and goes on with the next
            log_once(unattributed)
            return None, [Fault(Client("", "", "", "", None), reason(unattributed), None)]


def _without_faulty(packed: Packed, buckets: int, run: Run[T], mistake: Exception) -> tuple[T, list[Fault]]:
    # If `run` fails even without any process's data, no single process is the cause.
    run(*_part(packed, buckets, frozenset()))
    homes = list(dict.fromkeys(_homes(*_unpacked(packed, buckets))))
    faulty = dict(_faulty(packed, buckets, homes, run, mistake))
    kept: set[Home] = set()
    for home in faulty:
        try:
            run(*_part(packed, buckets, frozenset(), {home}))
            kept.add(home)
        except Exception as of_incidents:  # noqa: BLE001 - one of the process's incidents is at fault
            log_once(of_incidents)
    result = run(*_part(packed, buckets, {*homes} - faulty.keys(), kept))
    return result, [_fault(home, *_part(packed, buckets, {home}), mistake) for home, mistake in faulty.items()]


def _faulty(
    packed: Packed, buckets: int, homes: Sequence[Home], run: Run[T], mistake: Exception
) -> Iterator[tuple[Home, Exception]]:
    """Yield (process, error) for each process with data that makes `run` fail even without other processes' data."""
    if len(homes) == 1:
        yield homes[0], mistake
        return
    half = len(homes) // 2
    for some in (homes[:half], homes[half:]):
        state, chunks = _part(packed, buckets, {*some})
        part: Packed = save(state, buckets), list(map(encode, chunks))
        try:
            run(state, chunks)
        except Exception as of_some:  # noqa: BLE001 - any error can be that of a faulty process
            log_once(of_some)
            yield from _faulty(part, buckets, some, run, of_some)


def _unpacked(packed: Packed, buckets: int) -> tuple[BucketState, list[Chunk]]:
    state, chunks = packed
    return load(state, buckets), list(map(decode, chunks))


def _part(
    packed: Packed, buckets: int, homes: Set[Home], incidents: Set[Home] = frozenset()
) -> tuple[BucketState, list[Chunk]]:
    """Return a part of the state and of the chunks.

    `homes`      the processes of which the part has all data
    `incidents`  further processes, of which the part has only the open incidents
    """
    state, chunks = _unpacked(packed, buckets)
    readings.forget(state, [number for number, client in enumerate(state.all_clients) if client.home not in homes])
    state.log_entries = [entry for entry in state.log_entries if entry.process in homes]
    state.waiting = [entry for entry in state.waiting if entry.process in homes]
    for memory in state.by_process:
        memory.only(homes)
    state.incidents = Incidents(i for i in state.incidents.all if i.client.home in homes | incidents)
    chunks = [only(chunk, lambda client: client.home in homes) for chunk in chunks]
    for chunk in chunks:
        chunk.log_entries = [entry for entry in chunk.log_entries if entry.process in homes]
    return state, chunks


def _homes(state: BucketState, chunks: Sequence[Chunk]) -> Iterator[Home]:
    parts: list[BucketState | Chunk] = [state, *chunks]
    for part in parts:
        yield from (client.home for client in part.all_clients)
        yield from (entry.process for entry in part.log_entries)
    yield from (group.client.home for chunk in chunks for group in chunk.groups)
    yield from (entry.process for entry in state.waiting)
    yield from (key[:2] for memory in state.by_process for key in memory)
    yield from (incident.client.home for incident in state.incidents.all)


def _fault(home: Home, state: BucketState, chunks: Sequence[Chunk], mistake: Exception) -> Fault:
    parts: list[BucketState | Chunk] = [state, *chunks]
    inputs: list[tuple[int, Client, Source | None]] = [(0, Client(*home, home[1], "", None), None)]
    for part in parts:
        table = part.readings
        if len(table):
            at = int(table.ts.argmax())
            where = Source(part.names[table.topic[at]], int(table.partition[at]), int(table.offset[at]))
            inputs.append((int(table.ts[at]), part.all_clients[table.client[at]], where))
        for entry in part.log_entries[-1:]:
            record = entry.event or entry.dump
            client = Client(entry.service, entry.host, entry.instance or entry.host, "", None)
            inputs.append((entry.ts_ms, client, record.source if record else None))
    inputs += [(group.ts_ms, group.client, group.source) for chunk in chunks for group in chunk.groups]
    _, client, source = max(inputs, key=lambda one: one[0])
    if len({client.identity for part in parts for client in part.all_clients}) > 1:
        client = msgspec.structs.replace(client, client_id="")
    return Fault(client, reason(mistake), source)


_logged: set[tuple[object, ...]] = set()


def log_once(mistake: Exception) -> None:
    """Log an error with its traceback, once per place in the code."""
    raised = extract_tb(mistake.__traceback__)[-1:]
    place = type(mistake).__name__, *((frame.filename, frame.lineno) for frame in raised)
    if place not in _logged:
        _logged.add(place)
        log.error("a process cannot be judged: %s", mistake, exc_info=mistake)


def reason(mistake: Exception) -> str:
    """Return the error as text for the topic of rejects, cut to MAX_REASON characters."""
    return f"{REASON}: {type(mistake).__name__}: {mistake}"[:MAX_REASON]
