"""Generate the Helm chart's version, values schema, and alert routing."""

from __future__ import annotations

import json
import re
import tomllib
import typing
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from clienthealth.configuration.owners import Owners
from clienthealth.modes import modes
from clienthealth.platform import locations
from clienthealth.settings import Settings
from clienthealth.settings.fields import keys
from clienthealth_exporters.alerts.build import FILES, routes_of

CHART = "deploy/helm/kafka-client-health"
_OF_KUBERNETES = frozenset({"resources"})
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
Schema = dict[str, Any]


def generate() -> dict[str, str]:
    root = locations.checkout()
    chart = (root / CHART / "Chart.yaml").read_text(encoding="utf-8")
    chart = re.sub(r"^(version|appVersion): .*$", rf"\1: {project()['version']}", chart, flags=re.MULTILINE)
    values = yaml.safe_load((root / CHART / "values.yaml").read_text(encoding="utf-8"))
    return {
        f"{CHART}/Chart.yaml": chart,
        f"{CHART}/values.schema.json": json.dumps(schema(values), indent=1, ensure_ascii=False) + "\n",
        f"{CHART}/files/alertmanager.json": json.dumps(routing(), separators=(",", ":")) + "\n",
    }


def project() -> Mapping[str, Any]:
    """Return the project's metadata in pyproject.toml: name, version, licence, URLs."""
    text = (locations.checkout() / "pyproject.toml").read_text(encoding="utf-8")
    described: Mapping[str, Any] = tomllib.loads(text)["project"]
    return described


def routing() -> Schema:
    """Return the routes and inhibitions of alertmanager.yml as an AlertmanagerConfig (Prometheus Operator)."""
    text = (FILES / "alertmanager.yml").read_text(encoding="utf-8")
    config = yaml.safe_load(routes_of(Owners(), text))
    rules = [
        {
            "sourceMatch": [*map(_matcher, rule["source_matchers"])],
            "targetMatch": [*map(_matcher, rule["target_matchers"])],
            "equal": rule["equal"],
        }
        for rule in config["inhibit_rules"]
    ]
    return {"route": _route(config["route"]), "inhibitRules": rules}


def _route(route: Schema) -> Schema:
    camel = {re.sub("_(.)", lambda match: match[1].upper(), key): value for key, value in route.items() if value}
    if "matchers" in camel:
        camel["matchers"] = [*map(_matcher, camel["matchers"])]
    if "routes" in camel:
        camel["routes"] = [*map(_route, camel["routes"])]
    return camel


def _matcher(text: str) -> Schema:
    match = re.fullmatch(r'(\w+)(=~|!~|!=|=)(".*")', text)
    if not match:
        raise ValueError(f"alertmanager.yml: {text} is no matcher")
    return {"name": match[1], "matchType": match[2], "value": json.loads(match[3])}


def schema(values: dict[str, Any]) -> Schema:
    """Return the JSON schema for the chart's values. `values`: the content of values.yaml."""
    document = _of_default("", values)
    document["properties"]["config"] = _closed(_settings())
    # Helm adds `global` if the chart is part of another chart.
    document["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **document}


def _closed(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _of_default(name: str, default: Any) -> Schema:
    """Return the schema of a value with this default. Integers are counts or ports, so the minimum is 1."""
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
    sections = {n: _section(kind) for n, kind in typing.get_type_hints(Settings).items() if n != "modes"}
    return {**sections, "modes": _closed({mode.id: _section(type(mode.thresholds)) for mode in modes().values()})}


def _section(section: type) -> Schema:
    # JSON schema cannot express that one setting limits another.
    return _closed(
        {name: {**msgspec.json.schema(key.checked), "description": key.reason} for name, key in keys(section).items()}
    )
