"""Check that all exceptions form one tree, and that no exception is silently ignored."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator

import pytest

from clienthealth.model import errors
from deploy.reference.rooms import modules, tree

BUILT_IN = {
    *("ValueError", "TypeError", "RuntimeError", "NotImplementedError", "ModuleNotFoundError"),
    *("KeyboardInterrupt", "SystemExit", "StopIteration"),
}
PACKAGES = ("clienthealth", "clienthealth_exporters", "dashboards", "deploy")


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    names = {"BaseException", *(n for n in vars(builtins) if n.endswith(("Error", "Exception", "Warning")))}
    names |= {name for name in vars(errors) if name.endswith("Error")}
    for module in modules():
        for node in ast.walk(tree(module)):
            if (
                isinstance(node, ast.ClassDef)
                and {getattr(b, "id", getattr(b, "attr", "")) for b in node.bases} & names
            ):
                yield module, node


def test_there_is_one_tree() -> None:
    roots = {f"{module}.{node.name}" for module, node in classes() if ast.unparse(node.bases[0]) == "Exception"}
    assert roots == {"clienthealth.model.errors.HealthError"}


def test_the_tree_is_drawn_where_it_is_defined() -> None:
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, errors.HealthError):
            assert errors.__doc__ and name in errors.__doc__


def test_only_errors_of_the_tree_are_raised() -> None:
    ours = {node.name for _, node in classes()}
    raised = {
        (module, node.exc.func.id)
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    }
    assert {(module, name) for module, name in raised if name not in ours | BUILT_IN} == set()


def test_no_exception_is_swallowed() -> None:
    silent = [
        f"{module}:{handler.lineno}"
        for module in modules()
        for handler in ast.walk(tree(module))
        if isinstance(handler, ast.ExceptHandler) and all(isinstance(statement, ast.Pass) for statement in handler.body)
    ]
    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_warning_in_our_packages_is_an_error(package: str) -> None:
    warn = compile("import warnings; warnings.warn('old', DeprecationWarning)", f"{package}/new.py", "exec")
    with pytest.raises(DeprecationWarning):
        exec(warn, {"__name__": f"{package}.new"})


def test_a_warning_of_a_library_is_not() -> None:
    with warnings.catch_warnings(record=True):
        exec("import warnings; warnings.warn('old', DeprecationWarning)", {"__name__": "library"})
