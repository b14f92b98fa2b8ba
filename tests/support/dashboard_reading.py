"""Read dashboards: panels, queries and the syntax trees of queries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import promql_parser as promql

Board = Mapping[str, Any]

BUILT_IN = {"__rate_interval": "4m", "__range": "3h", "__interval": "1m"}


def panels(board: Board) -> Iterator[dict[str, Any]]:
    for panel in board.get("panels", []):
        yield panel
        yield from panel.get("panels", [])


def queries(board: Board) -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in panels(board):
        for target in panel.get("targets", []):
            yield panel.get("title", "?"), target


def expressions(board: Board) -> Iterator[tuple[str, str]]:
    for title, target in queries(board):
        yield title, target["expr"]
    for annotation in board["annotations"]["list"]:
        if "expr" in annotation:
            yield f"annotation {annotation['name']}", annotation["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", label_values(variable)[0]


def label_values(variable: Mapping[str, Any]) -> tuple[str, str]:
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert match, f"variable {variable['name']} is no label_values(selector, label)"
    return match[1], match[2]


def parsed(board: Board, expr: str) -> Any:
    constants = {v["name"]: v["query"] for v in board["templating"]["list"] if v["type"] == "constant"}
    for name, value in (BUILT_IN | constants).items():
        expr = expr.replace(f"${name}", value)
    return _tree(expr)


_tree = cache(promql.parse)


def substituted(board: Board, expr: str) -> str:
    return str(parsed(board, expr))
