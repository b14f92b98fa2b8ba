"""The packages of the product in the order in which things flow through them: each uses only those before it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache

from clienthealth.ops.reference.sources import imports, modules, tree

#: What is installed; its second level are the rooms.
PACKAGES = ("clienthealth", "clienthealth_exporters")


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
