"""The committed dashboards obey every lint rule, and every rule finds a planted fault."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from dashboards.build import OUT, boards, generate, pages
from tests.support.alert_rules import ROOT
from tests.support.dashboard_lint import RULES, findings

BOARDS = boards()
each_board = pytest.mark.parametrize("name", BOARDS)
Change = Callable[[dict[str, Any]], object]


@each_board
def test_no_findings(name: str) -> None:
    assert findings(BOARDS[name]) == []


def test_committed_files_are_current_and_no_other() -> None:
    generated = generate()
    assert {f"{OUT}/{file.name}" for file in (ROOT / OUT).glob("*.json")} == generated.keys()
    for path, content in generated.items():
        assert (ROOT / path).read_text("utf-8") == content, f"{path}: run kafka-health generate"


def chart(board: dict[str, Any]) -> dict[str, Any]:
    (panel,) = (p for p in board["panels"] if p["title"] == "Buffer used")
    return dict_of(panel)


def dict_of(value: Any) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value


def stat(board: dict[str, Any]) -> dict[str, Any]:
    return dict_of(next(p for p in board["panels"] if p["type"] == "stat"))


def query(board: dict[str, Any]) -> dict[str, Any]:
    return dict_of(chart(board)["targets"][0])


def expr(text: str) -> Change:
    return lambda board: query(board).update(expr=text, legendFormat="")


def variable(board: dict[str, Any], name: str) -> dict[str, Any]:
    return dict_of(next(v for v in board["templating"]["list"] if v["name"] == name))


KEPT = 'cluster=~"$cluster", env=~"$env"'
SCOPE = f'{KEPT}, service=~"$service", host=~"$host", instance=~"$instance", client_id=~"$client_id"'
COUNTER = "kafka_client_producer_buffer_exhausted_records_total"
RATIO = "kafka_client_producer_buffer_used_ratio"

MUTANTS: dict[str, tuple[str, Change]] = {
    "unknown top-level field": ("sdk-round-trip", lambda b: b.update(refreshEvery="1m")),
    "gridPos.h is a string": ("grid", lambda b: chart(b)["gridPos"].update(h="8")),
    "unknown field-config default": ("sdk-round-trip", lambda b: chart(b)["fieldConfig"]["defaults"].update(unitt="s")),
    "threshold is a string": (
        "thresholds-explicit",
        lambda b: chart(b)["fieldConfig"]["defaults"]["thresholds"]["steps"][1].update(value="0.8"),
    ),
    "bad option": ("panel-options", lambda b: stat(b)["options"].update(colorMode="blink")),
    "no title": ("panel-title-description", lambda b: chart(b).pop("title")),
    "no description": ("panel-title-description", lambda b: chart(b).pop("description")),
    "PromQL syntax": ("target-promql", expr(f"max by (client_id ({RATIO})")),
    "unit": ("panel-units", lambda b: chart(b)["fieldConfig"]["defaults"].update(unit="percents")),
    "hard-coded datasource": ("panel-datasource", lambda b: chart(b)["datasource"].update(uid="P123")),
    "fixed rate": ("target-rate-interval", expr(f"rate({COUNTER}{{{SCOPE}}}[5m])")),
    "raw counter with matchers": ("target-counter-agg", expr(f"sum({COUNTER}{{{SCOPE}}})")),
    "raw counter": ("target-counter-agg", expr(f"sum({COUNTER})")),
    "undefined variable": ("variables-defined", expr(f'max({RATIO}{{client_id=~"$clint"}})')),
    "no such metric": ("metrics-exist", expr(f"max(kafka_client_producer_bufer_ratio{{{SCOPE}}})")),
    "= on a multi variable": ("regex-on-multi", expr(f"max({RATIO}{{{SCOPE.replace('=~', '=')}}})")),
    "same id twice": ("unique-ids", lambda b: chart(b).update(id=stat(b)["id"])),
    "beyond the grid": ("grid", lambda b: chart(b)["gridPos"].update(x=18)),
    "unknown panel type": ("panel-types", lambda b: chart(b).update(type="graph")),
    "no uid": ("uid", lambda b: b.pop("uid")),
    "uid too long": ("uid", lambda b: b.update(uid="kafka-client-health-" + "x" * 21)),
    "overlap": ("grid", lambda b: chart(b)["gridPos"].update(y=chart(b)["gridPos"]["y"] - 1)),
    "no id": ("unique-ids", lambda b: chart(b).pop("id")),
    "no query": ("panel-no-targets", lambda b: chart(b).update(targets=[])),
    "query of another data source": ("target-datasource", lambda b: query(b)["datasource"].update(type="loki")),
    "query ignores a variable": ("target-scope", expr(f'max({RATIO}{{service=~"$service"}})')),
    "legend names a lost label": ("legend-labels", lambda b: query(b).update(legendFormat="{{topic}}")),
    "counter rated twice, once raw": (
        "target-counter-agg",
        expr(f"sum(rate({COUNTER}{{{SCOPE}}}[$__rate_interval])) / sum({COUNTER}{{{SCOPE}}})"),
    ),
    "default thresholds": ("thresholds-explicit", lambda b: chart(b)["fieldConfig"]["defaults"].pop("thresholds")),
    "no data is red": (
        "thresholds-explicit",
        lambda b: stat(b)["fieldConfig"]["defaults"]["thresholds"]["steps"][0].update(color="dark-red"),
    ),
    "green": (
        "colours",
        lambda b: chart(b)["fieldConfig"]["defaults"]["thresholds"]["steps"][1].update(color="green"),
    ),
    "silent without data": ("no-value", lambda b: stat(b)["fieldConfig"]["defaults"].pop("noValue")),
    "editable": ("uneditable-dashboard", lambda b: b.update(editable=True)),
    "refreshed too often": ("habits", lambda b: b.update(refresh="5s")),
    "no link to the others": ("habits", lambda b: b.update(links=[])),
    "variable for one value": ("template-labels", lambda b: variable(b, "service").update(multi=False)),
    "All as a list": ("template-labels", lambda b: variable(b, "service").pop("allValue")),
    "variable never loaded": ("template-loaded-once", lambda b: variable(b, "service").update(refresh=0)),
    "variable loaded at each change of time": (
        "template-loaded-once",
        lambda b: variable(b, "service").update(refresh=2),
    ),
    "variable of a label that is not there": (
        "template-label-promql",
        lambda b: variable(b, "service")["query"].update(query="label_values(kafka_client_service_clients, topic)"),
    ),
    "no datasource variable": ("template-datasource", lambda b: b["templating"]["list"].pop(0)),
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_mutant_is_found(fault: str) -> None:
    expected, change = MUTANTS[fault]
    mutant = copy.deepcopy(BOARDS["producers"])
    change(mutant)
    assert mutant != BOARDS["producers"]
    assert list(RULES[expected](mutant))


def test_every_rule_has_a_mutant() -> None:
    assert RULES.keys() == {expected for expected, _ in MUTANTS.values()}


def test_same_dashboards_every_time() -> None:
    generated = generate()
    pages.cache_clear()
    assert generate() == generated
    for content in generated.values():
        assert content == json.dumps(json.loads(content), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
