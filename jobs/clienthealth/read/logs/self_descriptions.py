"""Lines in which a client says what it is: its version, its name, how it is configured. They speak of no fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clienthealth.read.logs.wordings import Meaning, meanings, table

#: By their names in `self_descriptions.toml`.
BY_NAME = meanings(table(Path(__file__).with_suffix(".toml")), Meaning, "logs/self_descriptions.toml: ")
SELF_DESCRIPTIONS = tuple(BY_NAME.values())
#: The lines in which a client says how it is configured.
CONFIG_LOGGED = frozenset().union(*(line.ids for name, line in BY_NAME.items() if name.endswith("-config")))


def options_logged(captures: Mapping[str, str]) -> dict[str, str]:
    """The options that such a line captured, by their names: requestTimeoutMs is request.timeout.ms."""
    return {"".join(f".{c.lower()}" if c.isupper() else c for c in name): text for name, text in captures.items()}
