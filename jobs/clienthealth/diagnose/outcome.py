"""Derive the exit code of a whole diagnosis, and its JSON lines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clienthealth.diagnose.attachments.opening import Input
from clienthealth.model.clients import Client
from clienthealth.model.health_record import client_json, seen_json, verdict_json
from clienthealth.model.verdicts import Seen, Verdict
from clienthealth.modes.advisories import advised

HEALTHY, UNHEALTHY, UNREADABLE, NOT_JUDGED = 0, 1, 2, 3
EXIT_CODES = (
    "Exit code: 0 every client is judged by every failure mode of its kind, and healthy; 1 at least one failure is "
    "suspected or confirmed; 2 input unreadable or wrong usage; 3 nothing was found, but not all could be judged."
)


def exit_code(clients: Sequence[tuple[Client, Sequence[Verdict]]], inputs: Sequence[Input] = ()) -> int:
    """Return 0 only if every client was judged by every mode of its kind and is healthy.

    2 if there is no client because no input could be read.
    """
    if not clients and any(attached.unread for attached in inputs) and not any(attached.read for attached in inputs):
        return UNREADABLE
    if any(verdict.unhealthy for _, verdicts in clients for verdict in verdicts):
        return UNHEALTHY
    judged = [bool(verdicts) and all(verdict.status == "ok" for verdict in verdicts) for _, verdicts in clients]
    return HEALTHY if judged and all(judged) else NOT_JUDGED


def json_lines(
    clients: Sequence[tuple[Client, Sequence[Verdict]]],
    inputs: Sequence[Input],
    also_seen: Mapping[Client, Sequence[Seen]] | None = None,
    of_instance: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """Yield one JSON object per client.

    Keys: `client`, `verdicts`, `also_seen` (known issues), `inputs` about its process, `skipped`, and `version`
    with the known bugs of its library's version. `of_instance`: more fields, by instance of its process. A client or
    process with nothing but known issues has no verdicts.
    """
    also_seen = also_seen or {}
    judged = {client for client, _ in clients}
    skipped = [_input(attached) for attached in inputs if not attached.used]
    for client, verdicts in [*clients, *((client, ()) for client in also_seen if client not in judged)]:
        of_process = [
            attached
            for attached in inputs
            if attached.used and attached.process in (None, (client.service, client.host))
        ]
        yield json.dumps(
            {
                "client": client_json(client),
                "verdicts": [verdict_json(verdict) for verdict in verdicts],
                "also_seen": list(map(seen_json, also_seen.get(client, ()))),
                "version": advised(client.library, client.version, client.kind).as_json(),
                "inputs": [_input(attached) for attached in of_process],
                "skipped": skipped,
                **(of_instance or {}).get(client.instance, {}),
            }
        )


def _input(attached: Input) -> dict[str, Any]:
    fields = {
        name: value
        for name, value in dataclasses.asdict(dataclasses.replace(attached, topics=frozenset())).items()
        if name not in ("process", "topics", "named", "speaks", "local", "zone_ms", "emptied")
    }
    return fields | {"left_out": dict(attached.left_out), "unread": dict(attached.unread)}
