"""Find the metrics in a PromQL expression, and the labels of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser as promql


def metrics(expr: str) -> set[str]:
    return {node.name or "" for node in nodes(promql.parse(expr)) if isinstance(node, promql.VectorSelector)}


def surviving(expr: str, labels: Mapping[str, tuple[str, ...]]) -> set[str]:
    return _surviving(promql.parse(expr), labels)


def compares(expr: str) -> bool:
    """Return whether an alert's expression has a comparison or `absent`."""
    comparisons = {"==", "!=", "<", ">", "<=", ">="}
    for node in nodes(promql.parse(expr)):
        if isinstance(node, promql.BinaryExpr) and str(node.op) in comparisons:
            return True
        if isinstance(node, promql.Call) and node.func.name == "absent":
            return True
    return False


def _children(node: Any) -> list[Any]:
    match node:
        case promql.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql.AggregateExpr() | promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return [node.expr]
        case promql.MatrixSelector():
            return [node.vector_selector]
        case promql.Call():
            return list(node.args)
    return []


def nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from nodes(child)


def _surviving(node: Any, labels: Mapping[str, tuple[str, ...]]) -> set[str]:
    match node:
        case promql.VectorSelector():
            return {*labels.get(node.name or "", ()), "job", "instance"}
        case promql.AggregateExpr() if str(node.op) in ("topk", "bottomk"):
            return _surviving(node.expr, labels)
        case promql.AggregateExpr():
            if node.modifier is None:
                return set()
            named = set(node.modifier.labels)
            inner = _surviving(node.expr, labels)
            return inner & named if node.modifier.type == promql.AggModifierType.By else inner - named
        case promql.BinaryExpr():
            return _of_both(node, labels)
        case promql.Call() if node.func.name in ("absent", "vector", "time"):
            return set()
        case promql.NumberLiteral() | promql.StringLiteral():
            return set()
    return set().union(*(_surviving(child, labels) for child in _children(node)))


def _of_both(node: Any, labels: Mapping[str, tuple[str, ...]]) -> set[str]:
    left, right = _surviving(node.lhs, labels), _surviving(node.rhs, labels)
    if str(node.op) in ("and", "unless"):
        return left
    if str(node.op) == "or":
        return left & right
    scalars = (promql.NumberLiteral, promql.Call)
    if isinstance(node.rhs, promql.NumberLiteral):
        return left
    if isinstance(node.lhs, scalars) and not left:
        return right
    modifier = node.modifier
    if modifier is None or modifier.matching is None:
        return left
    if modifier.card == promql.VectorMatchCardinality.ManyToOne:
        return left
    if modifier.card == promql.VectorMatchCardinality.OneToMany:
        return right
    named = set(modifier.matching.labels)
    return left & named if modifier.matching.type == promql.LabelModifierType.Include else left - named
