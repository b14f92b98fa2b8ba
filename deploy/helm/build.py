"""What the Helm chart restates: the version, and the schema by which Helm refuses values before anything is installed.

The values of the chart have the types of their defaults in values.yaml; those under `config` are the settings.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
import typing
from typing import Any

import yaml

from clienthealth.modes import modes
from clienthealth.platform import checkout
from clienthealth.settings import Settings

CHART = "deploy/helm/kafka-client-health"
#: Of Kubernetes, which checks them itself.
_OF_KUBERNETES = frozenset({"resources"})
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
Schema = dict[str, Any]


def generate() -> dict[str, str]:
    """Chart.yaml with the version of the project, and values.schema.json."""
    root = checkout.root()
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    chart = (root / CHART / "Chart.yaml").read_text(encoding="utf-8")
    chart = re.sub(r"^(version|appVersion): .*$", rf"\1: {version}", chart, flags=re.MULTILINE)
    values = yaml.safe_load((root / CHART / "values.yaml").read_text(encoding="utf-8"))
    return {
        f"{CHART}/Chart.yaml": chart,
        f"{CHART}/values.schema.json": json.dumps(schema(values), indent=1, ensure_ascii=False) + "\n",
    }


def schema(values: dict[str, Any]) -> Schema:
    """The JSON schema of values with these defaults."""
    found = _of_default("", values)
    found["properties"]["config"] = _closed(_settings())
    # Helm passes these to every chart that is part of another.
    found["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **found}


def _closed(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _of_default(name: str, default: Any) -> Schema:
    """An empty map or list may hold anything; numbers are counts and ports."""
    if isinstance(default, dict):
        if not default or name in _OF_KUBERNETES:
            return {"type": "object"}
        return _closed({key: _of_default(key, value) for key, value in default.items()})
    if isinstance(default, list):
        return {"type": "array"}
    if type(default) is int:
        return {"type": ["integer", "null"], "minimum": 1}
    return {"type": _TYPES[type(default)]}


def _settings() -> dict[str, Schema]:
    kinds = typing.get_type_hints(Settings)
    sections = {
        section.name: _closed(_keys(kinds[section.name]))
        for section in dataclasses.fields(Settings)
        if section.name != "modes"
    }
    limits = {m.id: [limit.name for limit in dataclasses.fields(m.thresholds)] for m in modes().values()}
    sections["modes"] = _closed(
        {mode: _closed({name: {"type": "number"} for name in names}) for mode, names in limits.items()}
    )
    return sections


def _keys(section: Any) -> dict[str, Schema]:
    kinds = typing.get_type_hints(section)
    return {
        key.name: {**_of_type(kinds[key.name]), "description": key.metadata["reason"]}
        for key in dataclasses.fields(section)
    }


def _of_type(kind: Any) -> Schema:
    origin = typing.get_origin(kind)
    if origin is tuple:
        return {"type": "array", "items": _of_type(typing.get_args(kind)[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of_type(typing.get_args(kind)[1])}
    return {"type": _TYPES[kind]}
