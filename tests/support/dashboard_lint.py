"""Lint dashboards by the rules of Grafana's dashboard-linter and by rules of our own."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import promql_parser as promql
from grafana_foundation_sdk.models import common, units
from grafana_foundation_sdk.models.dashboard import Dashboard

from clienthealth.configuration.installation import KEPT, UID_LENGTH, UID_PREFIX
from clienthealth_exporters.prometheus.series import CLIENT, FAMILIES
from dashboards.look import BAND, CLEAR, FAILURES, NEUTRAL, PALETTE, UNKNOWN
from dashboards.page import plain
from tests.support.dashboard_reading import Board, expressions, label_values, panels, parsed, queries, substituted
from tests.support.known_metrics import counters, known_labels
from tests.support.promql import nodes, surviving

Rule = Callable[[Board], Iterator[str]]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANEL_TYPES = {"alertlist", "row", "stat", "state-timeline", "table", "text", "timeseries"}
WITHOUT_DATA = {"alertlist", "row", "text"}
OPTION_ENUMS: Mapping[str, Any] = {
    "colorMode": common.BigValueColorMode,
    "graphMode": common.BigValueGraphMode,
    "justifyMode": common.BigValueJustifyMode,
    "showValue": common.VisibilityMode,
    "textMode": common.BigValueTextMode,
}
ALERT_LABELS = ("alertname", "alertstate", "severity", "mode", "topic", "group", *KEPT, *CLIENT)
CLIENT_SERIES = frozenset(family.name for family in FAMILIES if family.scope == "client")
EVIDENCE = frozenset(family.name for family in FAMILIES if family.evidence)
GROUP_SERIES = frozenset(family.name for family in FAMILIES if family.scope == "group")


@dataclass(frozen=True)
class Finding:
    rule: str
    text: str


RULES: dict[str, Rule] = {}


def findings(board: Board) -> list[Finding]:
    return [Finding(name, text) for name, rule in RULES.items() for text in rule(board)]


@cache
def known_units() -> frozenset[str]:
    return frozenset(value for value in vars(units).values() if isinstance(value, str))


def rule(check: Rule) -> Rule:
    RULES[check.__name__.strip("_").replace("_", "-")] = check
    return check


def _parseable(board: Board) -> Iterator[tuple[str, str, Any]]:
    for where, expr in expressions(board):
        try:
            yield where, expr, parsed(board, expr)
        except ValueError:
            continue


def _selectors(board: Board) -> Iterator[tuple[str, Any]]:
    for where, _, tree in _parseable(board):
        for node in nodes(tree):
            if isinstance(node, promql.VectorSelector):
                yield where, node


@rule
def template_datasource(board: Board) -> Iterator[str]:
    first = board["templating"]["list"][0]
    if (first["name"], first["type"], first["query"]) != ("datasource", "datasource", "prometheus"):
        yield "the first variable is not `datasource`, of Prometheus"


@rule
def template_labels(board: Board) -> Iterator[str]:
    for variable in _query_variables(board):
        name = variable["name"]
        if variable.get("datasource") != DATASOURCE:
            yield f"{name}: not from the chosen data source"
        if not (variable.get("multi") and variable.get("includeAll") and variable.get("label")):
            yield f"{name}: not multi, not with All, or without a label"
        if variable.get("allValue") not in (".+", ".*"):
            yield f"{name}: All is not a pattern"


@rule
def template_label_promql(board: Board) -> Iterator[str]:
    for variable in _query_variables(board):
        selector, label = label_values(variable)
        for metric in _named(promql.parse(selector)):
            if label not in (*known_labels().get(metric, ()), "instance"):
                yield f"{variable['name']}: {metric} has no label {label}"


@rule
def template_loaded_once(board: Board) -> Iterator[str]:
    """Demand that a variable is loaded once, because each load queries all clients."""
    for variable in _query_variables(board):
        if variable.get("refresh") != 1:
            yield f"{variable['name']}: not loaded once, when the dashboard is opened"


@rule
def panel_datasource(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if panel["type"] not in WITHOUT_DATA and panel.get("datasource") != DATASOURCE:
            yield f"{panel.get('title')}: datasource {panel.get('datasource')}"


@rule
def panel_title_description(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if not panel.get("title") or (panel["type"] != "row" and not panel.get("description")):
            yield f"panel {panel.get('id')}: no title or no description"


@rule
def panel_units(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if panel["type"] in WITHOUT_DATA:
            continue
        named = [panel["fieldConfig"]["defaults"].get("unit")]
        named += [p["value"] for o in panel["fieldConfig"]["overrides"] for p in o["properties"] if p["id"] == "unit"]
        for unit in named:
            if unit not in known_units():
                yield f"{panel['title']}: unit {unit}"


@rule
def panel_no_targets(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if panel["type"] not in WITHOUT_DATA and not panel.get("targets"):
            yield f"{panel['title']}: no query"


@rule
def target_promql(board: Board) -> Iterator[str]:
    for where, expr in expressions(board):
        try:
            parsed(board, expr)
        except ValueError as error:
            yield f"{where}: {error}"


@rule
def target_datasource(board: Board) -> Iterator[str]:
    for title, target in queries(board):
        if target.get("datasource") != DATASOURCE:
            yield f"{title}: datasource {target.get('datasource')}"


@rule
def target_rate_interval(board: Board) -> Iterator[str]:
    for where, expr in queries(board):
        for window in re.findall(r"\[([^\]]+)\]", expr["expr"]):
            if not window.startswith(("$__rate_interval", "$__range")):
                yield f"{where}: fixed range [{window}]"


@rule
def target_scope(board: Board) -> Iterator[str]:
    variables = {v["name"] for v in board["templating"]["list"] if v["type"] in ("query", "textbox")}
    for where, node in _selectors(board):
        wanted = set(CLIENT) if node.name in CLIENT_SERIES else {"group"} if node.name in GROUP_SERIES else set()
        # `up` has only the labels of its scrape target.
        heartbeat = any(m.value == "KafkaClientHealthWatchdog" for m in node.matchers.matchers)
        wanted |= set() if node.name == "up" or (node.name == "ALERTS" and heartbeat) else set(KEPT)
        if node.name in CLIENT_SERIES | GROUP_SERIES and "topic" in known_labels()[node.name]:
            wanted.add("topic")
        if node.name and node.name.startswith(("service:", "kafka_client_service_")):
            wanted.add("service")
        if node.name in EVIDENCE and not {f"${name}" for name in CLIENT[1:]} & {
            m.value for m in node.matchers.matchers
        }:
            # Queries of evidence may show another client of the service, for comparison.
            wanted -= set(CLIENT[1:])
        matched = {m.value.removesuffix("|") for m in node.matchers.matchers}
        missing = {name for name in wanted & variables if f"${name}" not in matched}
        if missing and not where.startswith("variable "):
            yield f"{where}: {node.name} is not limited to {sorted(missing)}"


@rule
def target_counter_agg(board: Board) -> Iterator[str]:
    for where, _, tree in _parseable(board):
        used = Counter(str(n) for n in nodes(tree) if isinstance(n, promql.VectorSelector) and n.name in counters())
        rated = Counter(
            str(matrix.vector_selector)
            for call in nodes(tree)
            if isinstance(call, promql.Call) and call.func.name in ("rate", "irate", "increase")
            for matrix in call.args
            if isinstance(matrix, promql.MatrixSelector)
        )
        for selector in used - rated:
            yield f"{where}: counter without rate: {selector}"


@rule
def uneditable_dashboard(board: Board) -> Iterator[str]:
    if board.get("editable") is not False:
        yield "editable in the browser"


@rule
def uid(board: Board) -> Iterator[str]:
    value = board.get("uid", "")
    if not value.startswith(UID_PREFIX) or len(value) > UID_LENGTH:
        yield f"uid {value!r}"


@rule
def unique_ids(board: Board) -> Iterator[str]:
    for id_, count in Counter(panel.get("id") for panel in panels(board)).items():
        if count > 1 or not isinstance(id_, int) or id_ < 1:
            yield f"panel id {id_}, {count} times"


@rule
def grid(board: Board) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels(board):
        position = panel.get("gridPos", {})
        if any(type(position.get(key)) is not int for key in "xywh"):
            yield f"{panel.get('title')}: place {position}"
            continue
        if position["x"] < 0 or position["w"] < 1 or position["h"] < 1 or position["x"] + position["w"] > 24:
            yield f"{panel.get('title')}: beyond 24 columns"
        for cell in ((x, y) for x in range(position["x"], position["x"] + position["w"])
                     for y in range(position["y"], position["y"] + position["h"])):  # fmt: skip
            if cell in taken:
                yield f"{panel.get('title')}: on {taken[cell]}"
                break
            taken[cell] = panel.get("title", "?")


@rule
def panel_types(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if panel["type"] not in PANEL_TYPES:
            yield f"{panel.get('title')}: type {panel['type']}"


@rule
def panel_options(board: Board) -> Iterator[str]:
    for panel in panels(board):
        for option, allowed in OPTION_ENUMS.items():
            value = panel.get("options", {}).get(option)
            if value is not None and value not in [str(allowed_option) for allowed_option in allowed]:
                yield f"{panel.get('title')}: {option} {value}"


@rule
def variables_defined(board: Board) -> Iterator[str]:
    defined = {variable["name"] for variable in board["templating"]["list"]}
    # Grafana's own variables begin with two underscores.
    for name in set(re.findall(r"\$\{?([A-Za-z]\w*)", json.dumps(board))) - defined:
        yield f"${name} is not defined"


@rule
def regex_on_multi(board: Board) -> Iterator[str]:
    several = {v["name"] for v in board["templating"]["list"] if v.get("multi")}
    for where, node in _selectors(board):
        for matcher in node.matchers.matchers:
            name = matcher.value.removesuffix("|").removeprefix("$")
            if name in several and matcher.value.startswith("$") and str(matcher.op) != str(promql.MatchOp.Re):
                yield f"{where}: {matcher.name} is compared with several values by {matcher.op}"


@rule
def metrics_exist(board: Board) -> Iterator[str]:
    for where, expr, tree in _parseable(board):
        for metric in _named(tree) - known_labels().keys() - {"ALERTS"}:
            yield f"{where}: no metric {metric} in {expr}"


@rule
def legend_labels(board: Board) -> Iterator[str]:
    labels = {**known_labels(), "ALERTS": ALERT_LABELS}
    for title, target in queries(board):
        try:
            left = surviving(substituted(board, target["expr"]), labels)
        except ValueError:
            continue
        for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")):
            if label not in left:
                yield f"{title}: the legend names {label}, which the query has lost"


@rule
def thresholds_explicit(board: Board) -> Iterator[str]:
    """Demand explicit thresholds (Grafana's default is red above 80). Missing values must not look like an alarm."""
    for panel in panels(board):
        if panel["type"] in {"row", "text"}:
            continue
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
        if not steps or steps[0].get("value") is not None:
            yield f"{panel.get('title')}: no thresholds of its own"
            continue
        if steps[0]["color"] not in {CLEAR, NEUTRAL, "blue"}:
            yield f"{panel['title']}: no data would be {steps[0]['color']}"
        for step in steps[1:]:
            if type(step["value"]) not in (int, float):
                yield f"{panel['title']}: threshold {step['value']!r} is no number"


@rule
def colours(board: Board) -> Iterator[str]:
    for name in re.findall(r'"(?:color|fixedColor|iconColor)": "([^"]+)"', json.dumps(board)):
        if name not in {*PALETTE, NEUTRAL, UNKNOWN, BAND, CLEAR, *FAILURES}:
            yield f"colour {name}"


@rule
def no_value(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if panel["type"] not in WITHOUT_DATA and not panel["fieldConfig"]["defaults"].get("noValue"):
            yield f"{panel['title']}: no text for missing data"


@rule
def habits(board: Board) -> Iterator[str]:
    # Dashboards that cover days do not refresh, because their queries are expensive.
    refresh = "" if board["time"]["from"].endswith("d") else "1m"
    if (board.get("refresh"), board.get("timezone"), board.get("graphTooltip")) != (refresh, "browser", 1):
        yield "refresh, time zone or crosshair differ from the others"
    if not board.get("tags") or not board.get("links"):
        yield "no tag, or no link to the others"


@rule
def sdk_round_trip(board: Board) -> Iterator[str]:
    again = plain(Dashboard.from_json(json.loads(json.dumps(board))))
    yield from _differences(board, again, "dashboard")


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            if (key in before) != (key in after):
                yield f"{path}.{key}"
            else:
                yield from _differences(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}[{position}]")
    elif before != after:
        yield f"{path}: {before!r} != {after!r}"


def _query_variables(board: Board) -> list[Mapping[str, Any]]:
    return [variable for variable in board["templating"]["list"] if variable["type"] == "query"]


def _named(tree: Any) -> set[str]:
    names = set()
    for node in nodes(tree):
        if isinstance(node, promql.VectorSelector):
            names |= {node.name} if node.name else set()
            names |= {n for m in node.matchers.matchers if m.name == "__name__" for n in m.value.split("|")}
    return names
