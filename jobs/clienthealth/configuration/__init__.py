"""Load the settings from a TOML file and from environment variables, and format them without secrets.

Environment variables (`KAFKA_HEALTH_<SECTION>_<KEY>`) override the file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from clienthealth.model.errors import SettingsError
from clienthealth.platform import secrecy
from clienthealth.platform.locations import absolute, written
from clienthealth.settings import Settings
from clienthealth.settings.fields import complaint, keys

_T = TypeVar("_T")
PREFIX = "KAFKA_HEALTH_"
NOT_SETTINGS = frozenset(f"{PREFIX}{name}" for name in ("CONFIG", "CACHE", "MAVEN_URL", "SERVICE", "INSTANCE"))


def load(path: str | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Load the settings from a file and from environment variables.

    `path`: the settings file; by default the file in $KAFKA_HEALTH_CONFIG. Raises SettingsError if the file or a value
    is wrong.
    """
    chosen = path or environ.get(f"{PREFIX}CONFIG")
    values = _tables(chosen) if chosen else {}
    variables: dict[tuple[str, str], str] = {}
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS:
            section, _, key = variable.removeprefix(PREFIX).lower().partition("_")
            values.setdefault(section, {})[key] = _parse(section, key, text, variable)
            variables[section, key] = variable

    def where(section: str, key: str = "") -> str:
        return f"environment: {variables[section, key]}" if (section, key) in variables else str(chosen)

    built: dict[str, Any] = {}
    for name, table in values.items():
        if name == "modes":
            from clienthealth.modes import modes

            for mode, overrides in table.items():
                if mode not in modes():
                    raise SettingsError(f"{chosen}: [modes.{mode}]: unknown mode; known modes: {', '.join(modes())}")
                if not isinstance(overrides, dict):
                    raise SettingsError(f"{chosen}: modes.{mode} must be a section, written [modes.{mode}]")
                fitted = _fitted(type(modes()[mode].thresholds), overrides, f"modes.{mode}", where)
                built.setdefault(name, {})[mode] = fitted
        else:
            fitted = _fitted(_SECTIONS[name], table, name, where)
            built[name] = _whole(_SECTIONS[name], fitted, f"{chosen or 'environment'}: [{name}] ")
    return placed(_whole(Settings, built, f"{chosen or 'environment'}: "))


def placed(settings: Settings, folder: str = "") -> Settings:
    """Return the settings with all locations of files and folders made absolute; empty locations stay empty.

    Locations are relative to `folder`, by default the current folder.
    """

    def there(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(there(v) for v in value)
        if isinstance(value, dict):
            return {name: there(v) for name, v in value.items()}
        return absolute(value, folder) if value else value

    sections = {}
    for name, kind in _SECTIONS.items():
        section = getattr(settings, name)
        located = [key for key, one in keys(kind).items() if one.form in ("place", "file")]
        sections[name] = dataclasses.replace(section, **{key: there(getattr(section, key)) for key in located})
    return dataclasses.replace(settings, **sections)


_SECTIONS = {name: kind for name, kind in typing.get_type_hints(Settings).items() if name != "modes"}


def _tables(path: str) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(written(path))
    except (ValueError, RecursionError) as error:
        # Show only the position of the error, because the error's text may quote a secret.
        at = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
        raise SettingsError(f"{path}: not valid TOML{f' {at[0]}' if at else ''}") from None
    for name, table in tables.items():
        if name not in (*_SECTIONS, "modes"):
            raise SettingsError(f"{path}: unknown section [{name}]; known sections: {', '.join((*_SECTIONS, 'modes'))}")
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {name} must be a section, written [{name}]")
    return tables


def _parse(section: str, name: str, text: str, variable: str) -> Any:
    if section not in _SECTIONS:
        raise SettingsError(f"environment: {variable}: there is no section '{section}'")
    key = keys(_SECTIONS[section]).get(name)
    if key is None:
        raise SettingsError(f"environment: {variable}: [{section}] has no key '{name}'")
    if typing.get_origin(key.kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if key.kind is str:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        raise SettingsError(f"environment: {variable}: [{section}] {name} must be {key.wanted}") from None


def _fitted(section: type, values: Mapping[str, Any], name: str, where: Callable[[str, str], str]) -> dict[str, Any]:
    """Convert a section's values to the types of their keys. Raises SettingsError if a key or value is wrong."""
    fields = keys(section)
    for key in values:
        if key not in fields:
            raise SettingsError(f"{where(name, key)}: [{name}] has no key '{key}'; known keys: {', '.join(fields)}")
    if wrong := complaint(section, values):
        key, words = wrong
        raise SettingsError(f"{where(name, key)}: [{name}] {key} {words}")
    return {key: fields[key].fitted(value) for key, value in values.items()}


def _whole(kind: Callable[..., _T], values: Mapping[str, Any], where: str) -> _T:
    try:
        return kind(**values)
    except SettingsError as error:
        raise SettingsError(f"{where}{error}") from None


def in_force(settings: Settings, changed_only: bool = False) -> str:
    """Format the settings as equivalent TOML without secrets.

    `changed_only`: True to leave out settings that have their default value.
    """
    built_in, tables = placed(Settings()), {f"modes.{mode}": table for mode, table in settings.modes.items()}
    shown: dict[str, Mapping[str, Any]] = {}
    for name in _SECTIONS:
        values, defaults = vars(getattr(settings, name)), vars(getattr(built_in, name))
        chosen = {key: value for key, value in values.items() if not changed_only or value != defaults[key]}
        shown[name] = {key: _public(value) for key, value in chosen.items()}
    lines: list[str] = []
    for name, table in (shown | tables).items():
        if table:
            lines += [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in table.items()), ""]
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
    """Format a setting's value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # TOML escapes the character U+007F (delete), but JSON does not.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + " }" if value else "{}"
    return str(value)
