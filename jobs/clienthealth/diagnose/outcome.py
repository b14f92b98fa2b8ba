"""Hold the result of a diagnosis, and make its exit code and its JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from clienthealth.diagnose.attachments.opening import Input
from clienthealth.model.clients import Client
from clienthealth.model.health_record import client_json, seen_json, verdict_json
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread
from clienthealth.model.verdicts import Seen, Verdict
from clienthealth.modes.advisories import advised

HEALTHY, UNHEALTHY, UNREADABLE, NOT_JUDGED = 0, 1, 2, 3
EXIT_CODES = (
    "Exit codes: 0 if every failure mode was judged and every client is healthy; 1 if at least one failure is "
    "suspected or confirmed; 2 for wrong usage or unreadable input; 3 if no failure was found, but at least one client "
    "or failure mode could not be judged."
)


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`: verdicts by client, and the data from which they were made.

    `clients`     each judged client with its verdicts
    `inputs`      one entry per attached file, part of an archive, or standard input
    `dumps`       maps the position (`Source`) of each record with thread dumps to the threads in these dumps
    `also_seen`   known issues by client, also of clients that were not judged
    `recognised`  number of readable records by format
    `rejected`    number of unreadable records by reason
    """

    clients: Sequence[tuple[Client, Sequence[Verdict]]] = ()
    inputs: Sequence[Input] = ()
    dumps: Mapping[Source, Sequence[DumpedThread]] = field(default_factory=dict)
    also_seen: Mapping[Client, Sequence[Seen]] = field(default_factory=dict)
    recognised: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def every(self) -> list[tuple[Client, Sequence[Verdict]]]:
        """All clients with their verdicts. Clients that have only known issues come last, without verdicts."""
        judged = {client for client, _ in self.clients}
        return [*self.clients, *((client, ()) for client in self.also_seen if client not in judged)]


def exit_code(diagnosis: Diagnosis) -> int:
    """Return the exit code that EXIT_CODES describes."""
    clients, inputs = diagnosis.clients, diagnosis.inputs
    if not clients and any(attached.unread for attached in inputs) and not any(attached.read for attached in inputs):
        return UNREADABLE
    if any(verdict.unhealthy for _, verdicts in clients for verdict in verdicts):
        return UNHEALTHY
    judged = [bool(verdicts) and all(verdict.status == "ok" for verdict in verdicts) for _, verdicts in clients]
    return HEALTHY if judged and all(judged) else NOT_JUDGED


def json_lines(
    diagnosis: Diagnosis, of_instance: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> Iterator[str]:
    """Yield one JSON object per client.

    In each object, `inputs` lists the used inputs that belong to the client's process or to no known process, and
    `skipped` lists all unused inputs.
    `of_instance`: maps a client's instance id to further fields of the client's object.
    """
    used = [attached for attached in diagnosis.inputs if attached.used]
    skipped = [_input(attached) for attached in diagnosis.inputs if not attached.used]
    for client, verdicts in diagnosis.every:
        yield json.dumps(
            {
                "client": client_json(client),
                "verdicts": list(map(verdict_json, verdicts)),
                "also_seen": list(map(seen_json, diagnosis.also_seen.get(client, ()))),
                "version": advised(client.library, client.version, client.kind).as_json(),
                "inputs": [_input(attached) for attached in used if attached.process in (None, client.process)],
                "skipped": skipped,
                **of_instance.get(client.instance, {}),
            }
        )


_SHOWN = ("name", "what", "read", "used", "start_ms", "end_ms", "dated", "timed", "left_out", "unread")


def _input(attached: Input) -> dict[str, Any]:
    return {name: getattr(attached, name) for name in _SHOWN}
