"""Recognise log lines that show no fault, but state the client's version, name or configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from clienthealth.model.tables import table
from clienthealth.platform.secrecy import is_secret, shown
from clienthealth.read.logs.wordings import Meaning, meanings

BY_NAME = meanings(table(Path(__file__).with_suffix(".toml")), Meaning, "logs/self_descriptions.toml: ")
SELF_DESCRIPTIONS = tuple(BY_NAME.values())
CONFIG_LOGGED = frozenset().union(*(line.ids for name, line in BY_NAME.items() if name.endswith("-config")))


MOST_OPTIONS, LONGEST_OPTION = 120, 200
_OPTION = re.compile(r"^[ \t]+([a-z][a-z0-9._]{0,80}) = (\S[^\n]*)$", re.MULTILINE)


def options_in(text: str) -> dict[str, str]:
    """Return a dictionary of at most 120 options, from indented lines `name = value`.

    Unset options (`null`, `[]`), secrets, and values of more than 200 characters are left out.
    """
    options = {name: value.strip() for name, value in _OPTION.findall(text) if not is_secret(name)}
    kept = {
        name: value for name, value in options.items() if value not in ("null", "[]") and len(value) <= LONGEST_OPTION
    }
    return dict([*shown(kept).items()][:MOST_OPTIONS])


def options_logged(captures: Mapping[str, str]) -> dict[str, str]:
    """Return the captures of a log pattern as client options; the keys are Kafka's names of the options.

    Example: a capture `requestTimeoutMs` becomes `request.timeout.ms`. Captures `address` and `client` are left out.
    """
    return {
        "".join(f".{c.lower()}" if c.isupper() else c for c in name): text
        for name, text in captures.items()
        if name not in ("address", "client")
    }
