"""The code of this checkout as data: its modules, what they import, and its rooms in the order in which things flow.

Each room uses only those before it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from clienthealth.platform import locations

#: What is installed; its second level are the rooms.
PACKAGES = ("clienthealth", "clienthealth_exporters")
ROOT = locations.checkout()
#: Where modules are; `jobs` and `exporters` are no part of their names.
FOLDERS = ("jobs/clienthealth", "exporters/clienthealth_exporters", "dashboards", "deploy")


@cache
def modules() -> Mapping[str, Path]:
    """Dotted name → file of every module that is used in production, in the demo or to generate files."""
    by_name = {}
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[1:] if parts[0] in ("jobs", "exporters") else parts
        by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return by_name


@cache
def tree(module: str) -> ast.Module:
    """Its syntax tree."""
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str, at_start: bool = False) -> Sequence[str]:
    """Dotted names that it imports; `from a import b` gives `a.b` too, and that alone where it is a module.

    `at_start`: only when it is imported itself.
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
                named.append(source)  # else only modules of the package are meant, and not what the package says itself
            named += inside
    return named


def _statements(node: ast.AST, at_start: bool) -> Iterator[ast.AST]:
    """All statements. `at_start`: those that run at import: no bodies of functions, nothing for the type checker."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not (at_start and (for_types or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))):
            yield child
            yield from _statements(child, at_start)


def room(module: str) -> str:
    """The room that a module is in: `formats`, `exporters.jvm`."""
    package, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    return first if package == "clienthealth" else f"exporters.{first}"


@cache
def uses() -> Mapping[str, frozenset[str]]:
    """Room → the other rooms that its modules import, wherever in them."""
    inside = [module for module in modules() if module.startswith(PACKAGES) and module not in PACKAGES]
    used_by: dict[str, set[str]] = {room(module): set() for module in inside}
    for module in inside:
        named = (name for name in imports(module) if name in modules() and name not in PACKAGES)
        used_by[room(module)].update(room(name) for name in named if name.startswith(PACKAGES))
    return {name: frozenset(used - {name}) for name, used in used_by.items()}


def floors() -> list[list[str]]:
    """The rooms by what they stand on: each uses rooms of earlier floors only.

    Raises ValueError where two use each other.
    """
    left, done = dict(uses()), list[list[str]]()
    while left:
        floor = sorted(name for name, used in left.items() if not used & left.keys())
        if not floor:
            raise ValueError(f"these rooms use each other: {', '.join(sorted(left))}")
        done.append(floor)
        left = {name: used for name, used in left.items() if name not in floor}
    return done


def table() -> str:
    """The rooms from what knows nothing to what knows all: what is in each, and which others it uses."""
    order = [name for floor in floors() for name in floor]
    rows = []
    for name in order:
        package = "clienthealth" if "." not in name else "clienthealth_exporters"
        docstring = ast.get_docstring(tree(f"{package}.{name.rpartition('.')[2]}")) or ""
        about = docstring.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{name}` | {about} | {', '.join(n for n in order if n in uses()[name])} |")
    return "\n".join(["| room | what is in it | uses |", "|---|---|---|", *rows])
