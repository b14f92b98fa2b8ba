"""Settings as text: what is in force, written as the TOML that says the same. Secrets stay out of it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from clienthealth.configuration import placed
from clienthealth.platform import secrecy
from clienthealth.settings import Settings


def in_force(settings: Settings, changed_only: bool = False) -> str:
    """The settings as TOML that says the same, without secrets; thresholds of modes only where they are set."""
    lines: list[str] = []
    built_in = placed(Settings())
    for section in dataclasses.fields(settings):
        if section.name == "modes":
            continue
        values, defaults = vars(getattr(settings, section.name)), vars(getattr(built_in, section.name))
        shown = {name: _public(value) for name, value in values.items() if not changed_only or value != defaults[name]}
        if shown:
            lines += [f"[{section.name}]", *(f"{key} = {toml(value)}" for key, value in shown.items()), ""]
    for mode, thresholds in settings.modes.items():
        lines += [f"[modes.{mode}]", *(f"{key} = {toml(value)}" for key, value in thresholds.items()), ""]
    return "\n".join(lines)


def _public(value: Any) -> Any:
    if isinstance(value, str):
        return secrecy.redacted(value)
    if isinstance(value, tuple):
        return tuple(map(_public, value))
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        return secrecy.shown(value)
    return value


def toml(value: Any) -> str:
    """A value of a setting as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A JSON string is one of TOML, but for a character that JSON need not escape.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + " }" if value else "{}"
    return str(value)
