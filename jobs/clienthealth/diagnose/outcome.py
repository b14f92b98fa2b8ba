"""What the whole diagnosis comes to: the exit code, and the JSON lines."""

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
    """0 says that all is well: for that every client must have been judged by every mode of its kind, and be healthy.

    2 where there is no client because nothing of what was given could be read.
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
    """One object per client: `client`, `verdicts`, what was `also_seen` (trouble that no failure mode is about), the
    `inputs` that speak of its process, and what was `skipped`; `version`: what is known of its library's version;
    `of_instance`: more fields, by instance of its process.

    Of what nothing but trouble is known, the client or process, there are no verdicts.
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
        if name not in ("process", "topics", "named", "speaks")
    }
    return fields | {"left_out": dict(attached.left_out), "unread": dict(attached.unread)}
