"""Client trouble that no failure mode is about: told and counted by the client's own lines, never judged, never paged.

Each has its wordings by library, a sentence, and what to do, here and nowhere else. Two of them, authentication and
TLS, are also why modes happen: those modes read the same lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from clienthealth.logs.also_seen._trouble import Trouble
from clienthealth.logs.also_seen.access import AUTHENTICATION, AUTHORISATION, BROKERS_DOWN, TLS, UNKNOWN_CONFIGURATION
from clienthealth.logs.also_seen.lives import COORDINATOR, OUT_OF_MEMORY, REBALANCES
from clienthealth.logs.also_seen.records import FENCED, RECORD_TOO_LARGE, SCHEMA_REGISTRY, SERIALISATION

__all__ = ["AUTHENTICATION", "BROKERS_DOWN", "BY_ID", "REBALANCES", "TLS", "TROUBLES", "Trouble"]

#: All of them, the gravest first.
TROUBLES = (
    OUT_OF_MEMORY,
    FENCED,
    BROKERS_DOWN,
    AUTHENTICATION,
    TLS,
    AUTHORISATION,
    RECORD_TOO_LARGE,
    SERIALISATION,
    SCHEMA_REGISTRY,
    COORDINATOR,
    REBALANCES,
    UNKNOWN_CONFIGURATION,
)
BY_ID: Mapping[str, Trouble] = {trouble.id: trouble for trouble in TROUBLES}
