"""Read the committed Prometheus rules for tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
RULE_FILES = sorted((ROOT / "alerts/rules").glob("*.yml"))
TEST_FILES = sorted((ROOT / "alerts/tests").glob("*.yml"))


@dataclass(frozen=True)
class Rule:
    name: str
    expr: str
    hold: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    def __str__(self) -> str:
        return " ".join((self.name, *self.labels.values()))

    @property
    def condition(self) -> str:
        """Return the alert's PromQL condition. The condition of a paging alert is in a recording rule."""
        recorded = re.fullmatch(r"(\S+:paging)\{.*\}", self.expr)
        if recorded is None:
            return self.expr
        inner = re.fullmatch(r'label_replace\(\n\(\n(.*)\n\)\n, "quiet", .*', recordings()[recorded[1]], re.DOTALL)
        assert inner is not None, self
        return inner[1]


def alerts() -> list[Rule]:
    return [rule for rule in every_alert() if 'quiet="yes"' not in rule.expr]


def every_alert() -> list[Rule]:
    return [
        Rule(rule["alert"], rule["expr"], rule.get("for", ""), rule["labels"], rule["annotations"])
        for rule in _rules()
        if "alert" in rule
    ]


def recordings() -> dict[str, str]:
    return {rule["record"]: rule["expr"] for rule in _rules() if "record" in rule}


def read(text: str) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


def seldom(rules: str) -> str:
    """Remove the evaluation intervals of the rules, so that promtool uses the interval of the test."""
    return re.sub(r"^    interval: .*\n", "", rules, flags=re.MULTILINE)


@cache
def _rules() -> list[dict[str, Any]]:
    groups = [group for path in RULE_FILES for group in read(path.read_text("utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"]]
