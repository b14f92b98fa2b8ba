"""Explain why the monitor's streaming query failed. If people can remove the cause, the message says how."""

from __future__ import annotations

import re
from pathlib import Path

from clienthealth.model.errors import DependencyError, HealthError, ServiceError, StateError
from clienthealth.model.tables import table
from clienthealth.settings import Settings

#: MOST: maximum number of characters that our message quotes from an unknown error.
MOST = 2000
ANOTHER = (
    "another monitor works on the checkpoint in {checkpoint}: stop one of the two monitors, or give each its own "
    "[monitor] checkpoint and history"
)
_FAILED = "the streaming query failed: "
_ANEW = "set [monitor] checkpoint to a new folder: the monitor then reads open incidents from the history"
_MEANINGS = table(Path(__file__).with_suffix(".toml"))["meaning"]
_MODULE = r"ModuleNotFoundError: No module named '([\w.]+)'"


def explained(message: str, settings: Settings) -> HealthError:
    """Return the exception for a failure that the JVM reports with `message`.

    The exception's exit code is 2 if a restart is useless.
    """
    state_error = re.search(r"StateError: ([^\n]+)", message)
    if state_error:
        return StateError(state_error[1])
    if missing := re.search(_MODULE, message):
        return DependencyError(
            f"the Python of an executor has no module '{missing[1]}': install this release of kafka-client-health "
            "there, with the extra 'spark' (deploy/cluster.md, spark-submit)"
        )
    checkpoint, history = settings.monitor.checkpoint, settings.monitor.history
    named = {"places": f"{checkpoint} or {history}", "servers": settings.kafka.bootstrap_servers}
    named |= {"checkpoint": checkpoint, "another": ANOTHER.format(checkpoint=checkpoint), "anew": _ANEW}
    for meaning in _MEANINGS:
        if re.search(meaning["signs"].replace("\n", ""), message):
            sentence = meaning["means"].format(**named)
            return StateError(sentence) if meaning.get("final") else ServiceError(f"{_FAILED}{sentence}")
    lines = [line for line in message.splitlines() if line and not line.startswith("\tat ")]
    return ServiceError(f"{_FAILED}{chr(10).join(lines)[:MOST]}")
