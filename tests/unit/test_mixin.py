"""The Jsonnet mixin contains all rules and dashboards, and `_config` changes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import promql_parser as promql
import pytest
import yaml

from dashboards.build import boards
from tests.support.alert_rules import ROOT
from tests.support.dashboard_reading import expressions, parsed
from tests.support.known_metrics import known_labels
from tests.support.promql import nodes

jsonnet = pytest.importorskip("_gojsonnet")
MIXIN = ROOT / "deploy/mixin/mixin.libsonnet"
RULES = [path for path in sorted((ROOT / "alerts/rules").glob("*.yml")) if path.with_suffix(".yml.j2").exists()]
SELECTOR = 'team="streaming"'
WIKI = "https://wiki.example.org/kafka"


@cache
def mixin(config: str = "{}") -> dict[str, Any]:
    snippet = f"""
        local mixin = (import '{MIXIN}') + {{ _config+:: {config} }};
        {{ alerts: mixin.prometheusAlerts, rules: mixin.prometheusRules, dashboards: mixin.grafanaDashboards }}
    """
    made: dict[str, Any] = json.loads(jsonnet.evaluate_snippet("mixin", snippet))
    return made


@cache
def changed() -> dict[str, Any]:
    return mixin(f"{{ selector: '{SELECTOR}', runbookBase: '{WIKI}' }}")


def rules(groups: Iterable[Mapping[str, Any]]) -> list[str]:
    each = [(group["name"], group.get("interval"), rule) for group in groups for rule in group["rules"]]
    return sorted(json.dumps(one, sort_keys=True) for one in each)


def groups(made: dict[str, Any]) -> list[Any]:
    return [*made["alerts"]["groups"], *made["rules"]["groups"]]


def scraped(tree: Any) -> list[Any]:
    found = [node for node in nodes(tree) if isinstance(node, promql.VectorSelector) and node.name]
    return [node for node in found if (node.name or "").startswith("kafka_") and ":" not in str(node.name)]


def test_it_holds_every_rule_and_every_dashboard_as_generated() -> None:
    generated = [group for path in RULES for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    assert rules(groups(mixin())) == rules(generated)
    assert mixin()["dashboards"] == {f"kafka-client-health-{name}.json": board for name, board in boards().items()}


def test_alerts_and_recordings_are_apart() -> None:
    for kind, key in (("alerts", "alert"), ("rules", "record")):
        assert all(key in rule for group in mixin()[kind]["groups"] for rule in group["rules"])


@pytest.mark.long
def test_the_selector_is_in_every_query_of_scraped_series_and_in_no_other() -> None:
    count = 0
    for rule in [rule for group in groups(changed()) for rule in group["rules"]]:
        tree = promql.parse(rule["expr"])
        count += len(scraped(tree))
        assert all(SELECTOR in str(node) for node in scraped(tree)), rule["expr"]
        others = {str(n) for n in nodes(tree) if isinstance(n, promql.VectorSelector)} - set(map(str, scraped(tree)))
        assert not [one for one in others if SELECTOR in one]
    assert count > 50
    for board in changed()["dashboards"].values():
        for where, expr in expressions(board):
            assert all(SELECTOR in str(node) for node in scraped(parsed(board, expr))), where


def test_the_runbooks_are_where_they_are_said_to_be() -> None:
    text = json.dumps(changed())
    assert "127.0.0.1:9309/runbooks" not in text and "${status_page}/runbooks" not in text
    assert text.count(f"{WIKI}/") > 20


def test_no_name_of_a_scraped_series_is_missed() -> None:
    own = {name for name in known_labels() if ":" not in name and name not in ("up", "ALERTS")}
    assert {name for name in own if not name.startswith("kafka_")} == set()
