"""Read the modules of this checkout, their imports, and their packages.

A package directly within `clienthealth` or `clienthealth_exporters` is called a *room*, such as `clienthealth.read`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from clienthealth.platform import locations

PACKAGES = ("clienthealth", "clienthealth_exporters")
ROOT = locations.checkout()
FOLDERS = ("jobs/clienthealth", "exporters/clienthealth_exporters", "dashboards", "deploy")


@cache
def modules() -> Mapping[str, Path]:
    """Return the file of every module of the product, demo and generators, by dotted name."""
    by_name = {}
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[1:] if parts[0] in ("jobs", "exporters") else parts
        by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return by_name


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str, at_start: bool = False) -> Sequence[str]:
    """Return the dotted names that a module imports.

    `at_start`: True to return only the imports that run when the module itself is imported.
    """
    named: list[str] = []
    package = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in _statements(tree(module), at_start):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                source = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], source]).rstrip(".")
            inside = [f"{source}.{alias.name}" for alias in node.names]
            if not all(name in modules() for name in inside):
                named.append(source)
            named += inside
    return named


def _statements(node: ast.AST, at_start: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not (at_start and (for_types or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))):
            yield child
            yield from _statements(child, at_start)


def room(module: str) -> str:
    """Return the name of the package (*room*) of a module, such as `exporters.jvm`."""
    package, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    return first if package == "clienthealth" else f"exporters.{first}"


@cache
def uses() -> Mapping[str, frozenset[str]]:
    inside = [module for module in modules() if module.startswith(PACKAGES) and module not in PACKAGES]
    used_by: dict[str, set[str]] = {room(module): set() for module in inside}
    for module in inside:
        named = (name for name in imports(module) if name in modules() and name not in PACKAGES)
        used_by[room(module)].update(room(name) for name in named if name.startswith(PACKAGES))
    return {name: frozenset(used - {name}) for name, used in used_by.items()}


def floors() -> list[list[str]]:
    """Return the packages in layers, so that each package imports only from earlier layers.

    Raises ValueError if packages import each other in a cycle.
    """
    left, done = dict(uses()), list[list[str]]()
    while left:
        floor = sorted(name for name, used in left.items() if not used & left.keys())
        if not floor:
            raise ValueError(f"these packages import each other: {', '.join(sorted(left))}")
        done.append(floor)
        left = {name: used for name, used in left.items() if name not in floor}
    return done


def rows() -> Iterator[str]:
    """Yield a Markdown table row for each package: name, content, imported packages."""
    order = [name for floor in floors() for name in floor]
    for name in order:
        package = "clienthealth" if "." not in name else "clienthealth_exporters"
        docstring = ast.get_docstring(tree(f"{package}.{name.rpartition('.')[2]}")) or ""
        about = docstring.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        yield f"`{name}` | {about} | {', '.join(n for n in order if n in uses()[name])}"
