"""The records on `client-health`: the state of a client as JSON, under its key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from clienthealth.health import SCHEMA, verdict_json, worst
from clienthealth.incidents import Incidents
from clienthealth.records import Verdict

RECORD = "key string, value string"


def with_incidents(verdicts: Iterable[Verdict], incidents: Incidents, key: str) -> list[Verdict]:
    """Verdicts, with what is known of an open incident (its onset, all its evidence) in place of the window's word."""
    known = incidents.of(key)
    shown = [known[v.mode].verdict if v.mode in known else v for v in verdicts]
    return shown + [i.verdict for mode, i in known.items() if mode not in {v.mode for v in shown}]


def state_json(state: Mapping[str, Any], verdicts: list[Verdict], **more: Any) -> str:
    """The value of a record on `client-health`."""
    return json.dumps(
        {"schema": SCHEMA, **state, **more, "verdicts": [verdict_json(v) for v in verdicts], "worst": worst(verdicts)}
    )
