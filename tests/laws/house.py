"""Count files, statements, long functions and imports, to keep the code simple."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence, Set

from clienthealth.monitor.adjust import ADJUSTMENTS
from deploy.reference.rooms import PACKAGES, floors, modules, tree, uses

Function = ast.FunctionDef | ast.AsyncFunctionDef


def product() -> list[str]:
    return [name for name in modules() if name.startswith(PACKAGES)]


def statements(module: str) -> int:
    lines = modules()[module].read_text(encoding="utf-8").splitlines()
    skipped: set[int] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            skipped.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    numbered = enumerate(lines, 1)
    return sum(1 for at, line in numbered if line.strip() and not line.strip().startswith("#") and at not in skipped)


def functions(module: str) -> Iterator[Function]:
    return (node for node in ast.walk(tree(module)) if isinstance(node, Function))


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return sum(name not in ("self", "cls") for name in names)


def called_once(module: str) -> list[str]:
    private = [f.name for f in functions(module) if f.name.startswith("_") and not f.name.startswith("__")]
    named = Counter(
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute | ast.Name)
    )
    return [name for name in private if named[name] == 1]


def changing_status(module: str) -> bool:
    calls = (node for node in ast.walk(tree(module)) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func).endswith("replace") and _named(call, "status") for call in calls)


def _named(call: ast.Call, argument: str) -> bool:
    return any(keyword.arg == argument for keyword in call.keywords)


def catching_everything(module: str) -> bool:
    handlers = (node for node in ast.walk(tree(module)) if isinstance(node, ast.ExceptHandler))
    return any(handler.type is not None and ast.unparse(handler.type) == "Exception" for handler in handlers)


def classes(module: str, members: Set[str]) -> int:
    of_classes = (node.body for node in ast.walk(tree(module)) if isinstance(node, ast.ClassDef))
    return sum(members <= {_name(node) for node in body} for body in of_classes)


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, Function) else ast.unparse(getattr(node, "target", ast.Constant("")))


def mechanisms() -> Sequence[tuple[str, int, str]]:
    def within(*packages: str) -> list[str]:
        return [name for name in product() if name.startswith(tuple(f"clienthealth.{p}." for p in packages))]

    judging = within("monitor", "modes", "measure", "diagnose")
    times = [name for name in within("read") if "datetime(" in modules()[name].read_text(encoding="utf-8")]
    return [
        ("adjustments of a verdict, in one list", len(ADJUSTMENTS), "one list"),
        ("modules that change a status: adjust, incidents", sum(map(changing_status, judging)), "2"),
        ("modules of monitor that isolate a fault", sum(map(catching_everything, within("monitor"))), "1"),
        ("classes of monitor that keep and evict", sum(classes(name, {"evict"}) for name in within("monitor")), "1"),
        ("types of a client in model", sum(classes(name, {"client_id", "instance"}) for name in within("model")), "2"),
        ("modules of read that compute a time", len(times), "1"),
    ]


def figures() -> Sequence[tuple[str, int, str]]:
    names = product()
    all_functions = [function for name in names for function in functions(name)]
    lengths = [length(function) for function in all_functions]
    return [
        ("files of jobs and exporters", len(names), "≤ 250"),
        ("statements", sum(map(statements, names)), "≤ 24,500"),
        ("functions longer than 40 lines", sum(lines > 40 for lines in lengths), "≤ 15"),
        ("functions longer than 60 lines", sum(lines > 60 for lines in lengths), "0"),
        ("longest function, lines", max(lengths), "60"),
        ("functions with 7 parameters or more", sum(parameters(f) >= 7 for f in all_functions), "≤ 8"),
        ("private functions that are called once", sum(len(called_once(name)) for name in names), "≤ 450"),
        ("rooms", len(uses()), "about 17"),
        ("floors", len(floors()), "≤ 11"),
        ("arrows between rooms", sum(map(len, uses().values())), "≤ 90"),
        *mechanisms(),
    ]


if __name__ == "__main__":
    for name, count, aim in figures():
        sys.stdout.write(f"{name:<48} {count:>8,}   aim {aim}\n")
