"""The code of this checkout as data: its modules, their syntax trees and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from clienthealth.platform import checkout

ROOT = checkout.root()
#: Where modules are; `jobs` and `exporters` are no part of their names.
FOLDERS = ("jobs/clienthealth", "exporters/clienthealth_exporters", "dashboards", "deploy")


@cache
def modules() -> Mapping[str, Path]:
    """Dotted name → file of every module that is used in production, in the demo or to generate files."""
    return {_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] in ("jobs", "exporters") else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(module: str) -> ast.Module:
    """Its syntax tree."""
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str, at_start: bool = False) -> Sequence[str]:
    """Dotted names that it imports; `from a import b` gives `a.b` too, and that alone where it is a module.

    `at_start`: only when it is imported itself.
    """
    return [*_imports(module, at_start)]


def _imports(module: str, at_start: bool) -> Iterator[str]:
    package = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in _statements(tree(module), at_start):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                source = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], source]).rstrip(".")
            named = [f"{source}.{alias.name}" for alias in node.names]
            if not all(name in modules() for name in named):
                yield source  # else only modules of the package are meant, and not what the package says itself
            yield from named


def _statements(node: ast.AST, at_start: bool) -> Iterator[ast.AST]:
    """All statements. `at_start`: those that run at import: no bodies of functions, nothing for the type checker."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not (at_start and (for_types or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))):
            yield child
            yield from _statements(child, at_start)
