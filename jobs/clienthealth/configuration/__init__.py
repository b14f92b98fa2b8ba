"""The settings in force, read from a TOML file and from the environment.

The file is `--config` or $KAFKA_HEALTH_CONFIG; the environment (`KAFKA_HEALTH_<SECTION>_<KEY>`) wins. A key that is not
known is an error in both. No error repeats a value: it may be a secret.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clienthealth.errors import SettingsError
from clienthealth.settings import Settings

PREFIX = "KAFKA_HEALTH_"
#: Variables with the prefix that are no settings: the file to read; where jars are kept and come from (jars.py).
NOT_SETTINGS = frozenset({"KAFKA_HEALTH_CONFIG", "KAFKA_HEALTH_CACHE", "KAFKA_HEALTH_MAVEN_URL"})


def load(path: str | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force: defaults, then the file, then the environment. Raises SettingsError."""
    chosen = path or environ.get(f"{PREFIX}CONFIG")
    tables: dict[str, dict[str, Any]] = {}
    if chosen:
        try:
            tables = tomllib.loads(Path(chosen).read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"{chosen}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise SettingsError(f"{chosen}: not UTF-8") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise SettingsError(f"{chosen}: not valid TOML{_place(error)}") from None
    sections = {f.name: f for f in dataclasses.fields(Settings)}
    for name, table in tables.items():
        if name not in sections:
            raise SettingsError(f"{chosen}: unknown section [{name}]; known are {', '.join(sections)}")
        if not isinstance(table, dict):
            raise SettingsError(f"{chosen}: {name} must be a section, written [{name}]")
    values: dict[str, dict[str, Any]] = {name: dict(table) for name, table in tables.items()}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        section, _, key = variable.removeprefix(PREFIX).lower().partition("_")
        if section not in sections or section == "modes":
            raise SettingsError(f"environment: {variable}: there is no section '{section}'")
        values.setdefault(section, {})[key] = _parse(section, key, text, variable)
    built: dict[str, Any] = {}
    for name, section_values in values.items():
        built[name] = _modes(section_values) if name == "modes" else _section(name, section_values, chosen)
    return Settings(**built)


def _types(section: str) -> dict[str, Any]:
    return typing.get_type_hints(typing.get_type_hints(Settings)[section])


def _parse(section: str, key: str, text: str, variable: str) -> Any:
    kind = _types(section).get(key)
    if kind is None:
        raise SettingsError(f"environment: {variable}: [{section}] has no key '{key}'")
    if typing.get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is str:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        raise SettingsError(f"environment: {variable} is not {_wanted(kind)} as TOML writes it") from None


def _place(error: Exception) -> str:
    """Where a file is wrong. What stands there is not repeated: it may be a secret."""
    found = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
    return f" (at {found[1]})" if found else ""


def _wanted(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin in (tuple, dict):
        return "a list of strings" if origin is tuple else f"a table of {typing.get_args(kind)[1].__name__}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}[kind]


def _section(name: str, values: Mapping[str, Any], path: str | None) -> Any:
    kinds = _types(name)
    where = path or "environment"
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in kinds:
            raise SettingsError(f"{where}: [{name}] has no key '{key}'; known are {', '.join(kinds)}")
        checked[key] = _checked(value, kinds[key], f"{where}: [{name}] {key}")
    return typing.get_type_hints(Settings)[name](**checked)


def _checked(value: Any, kind: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin is tuple and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if origin is dict and isinstance(value, dict):
        inner = typing.get_args(kind)[1]
        return {str(key): _checked(item, inner, f"{where}.{key}") for key, item in value.items()}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    raise SettingsError(f"{where} is not {_wanted(kind)}")


def _modes(tables: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    from clienthealth.modes import modes

    known = modes()
    for mode, overrides in tables.items():
        if mode not in known:
            raise SettingsError(f"[modes.{mode}]: unknown mode; known are {', '.join(known)}")
        if not isinstance(overrides, dict):
            raise SettingsError(f"modes.{mode} must be a section, written [modes.{mode}]")
        names = {f.name for f in dataclasses.fields(known[mode].thresholds)}
        for key, value in overrides.items():
            if key not in names:
                raise SettingsError(f"[modes.{mode}] has no threshold '{key}'; known are {', '.join(sorted(names))}")
            if type(value) not in (int, float):
                raise SettingsError(f"[modes.{mode}] {key} is not a number")
    return {mode: dict(overrides) for mode, overrides in tables.items()}
