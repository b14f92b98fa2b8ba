"""Check the size and imports of modules, and their access to files, network and processes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping

import pytest

from deploy.reference.rooms import ROOT, imports, modules, tree, uses

OUTSIDE = {
    *("socket", "ssl", "http.server", "http.client", "urllib.request", "smtplib", "subprocess", "tempfile", "gzip"),
    *("kafka", "delta.tables", "niquests", "grafana_client.api"),
}
CALLS = {
    *("open", "urlopen", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "iterdir"),
    *("glob", "rglob", "readStream", "writeStream"),
}
PLACES = (
    *("clienthealth.spark.topics", "clienthealth.spark.history"),
    *("clienthealth.ops.cli", "clienthealth.ops.doctor", "clienthealth.platform"),
)
APART = ("clienthealth_exporters", "dashboards", "deploy")
EXCUSED = {
    "clienthealth.ops.initialise": "writes the file of settings, and asks the cluster",
    "clienthealth.model.subscription": "asks the brokers to ask their clients",
    "clienthealth.read.recordings": "reads the files that people attach",
    "clienthealth.diagnose.attachments.archives": "unpacks the archives among them",
    "clienthealth.diagnose.attachments.opening": "finds them",
    "clienthealth.model.tables": "reads the package's own files: metrics, log lines, modes, options",
    "clienthealth.modes": "finds the modes, each by its file",
    "clienthealth.spark.files": "reads and writes beside the checkpoint, and reports on object stores",
    "clienthealth.spark.query": "starts the query, which is what makes a stream run",
    "clienthealth.review.actions": "reads actions.toml, which people keep beside the reports",
    "clienthealth.review.mail": "sends the report",
    "clienthealth.diagnose.watch.session": "writes what was read, where it is asked for",
    "clienthealth.diagnose.watch.attach": "brings an agent into a process of this machine, and takes it out again",
    "clienthealth.diagnose.watch.python_process": "reads the stacks of a process of this machine, and what it serves",
    "clienthealth.review.render": "writes the report, beside its own style sheet",
}
#: FLOORS: each line of this table names packages. A package may import only packages in earlier lines of the table.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("model",),
    ("settings",),
    ("platform",),
    ("read",),
    ("measure",),
    ("modes",),
    ("monitor", "configuration"),
    ("spark",),
    ("review",),
    ("exporters.publish", "exporters.python_client", "exporters.prometheus"),
    ("exporters.jvm", "exporters.groups", "exporters.alerts"),
    ("diagnose",),
    ("ops",),
)
SPARK = ("pyspark", "delta", "pandas", "pyarrow", "py4j")
WITH_SPARK = ("clienthealth.spark", "clienthealth.review")
HOT_PATH = tuple(f"clienthealth.{room}" for room in ("read", "measure", "modes", "monitor", "diagnose"))
EVERY = sorted(modules())


def lines(module: str) -> int:
    return len(modules()[module].read_text(encoding="utf-8").splitlines())


def test_modules_are_small() -> None:
    assert {module: lines(module) for module in EVERY if lines(module) > 500} == {}


def test_there_is_no_import_cycle() -> None:
    graph = {module: sorted(set(imports(module, at_start=True)) & modules().keys() - {module}) for module in EVERY}
    assert list(_cycles(graph)) == []


def _cycles(graph: Mapping[str, list[str]]) -> Iterator[str]:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> Iterator[str]:
        if module in path:
            yield " → ".join((*path[path.index(module) :], module))
        elif module not in done:
            for imported in graph[module]:
                yield from visit(imported, (*path, module))
            done.add(module)

    for module in graph:
        yield from visit(module, ())


def test_a_cycle_would_be_found() -> None:
    assert list(_cycles({"a": ["b"], "b": ["c"], "c": ["b"]})) == ["b → c → b"]


def test_every_room_uses_only_rooms_before_it() -> None:
    assert {name for floor in FLOORS for name in floor} == uses().keys()
    assert upwards(FLOORS, uses()) == []


def upwards(floors: Iterable[Iterable[str]], used: Mapping[str, Iterable[str]]) -> list[str]:
    floor = {name: number for number, names in enumerate(floors) for name in names}
    return [f"{name} → {other}" for name in used for other in sorted(used[name]) if floor[other] >= floor[name]]


def test_an_arrow_upwards_or_to_the_side_would_be_found() -> None:
    assert upwards([["a"], ["b", "c"]], {"a": ["c"], "b": ["a"], "c": ["b"]}) == ["a → c", "c → b"]


def touches(module: str) -> set[str]:
    named = {name for name in imports(module) if name in OUTSIDE}
    called = {
        getattr(node.func, "attr", getattr(node.func, "id", ""))
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call)
    }
    read = {node.attr for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute)}
    return named | CALLS & (called | (read & {"readStream", "writeStream"}))


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_the_outside_is_touched_in_sources_sinks_and_exporters_only() -> None:
    touched = {module: touches(module) for module in EVERY if not within(module, (*PLACES, *APART))}
    assert {module: how for module, how in touched.items() if how and module not in EXCUSED} == {}


@pytest.mark.parametrize("module", EXCUSED)
def test_every_excuse_is_needed(module: str) -> None:
    assert touches(module)


def test_sources_and_sinks_judge_nothing() -> None:
    above = (*HOT_PATH, "clienthealth.spark.query", "clienthealth.spark.batch")
    # The history returns incidents, so it imports their module.
    allowed = ("clienthealth.monitor.incidents",)
    for module in (m for m in EVERY if within(m, PLACES[:2])):
        assert [n for n in imports(module) if within(n, above) and not within(n, allowed)] == [], module


def test_spark_is_imported_in_its_packages_only() -> None:
    for module in (m for m in EVERY if not within(m, WITH_SPARK)):
        assert [name for name in imports(module) if within(name, SPARK)] == [], module


def test_what_knows_of_kafka_clients_knows_nothing_of_spark() -> None:
    packages = {package: [m for m in EVERY if within(m, (package,))] for package in HOT_PATH}
    assert all(packages.values())
    for module in (m for of in packages.values() for m in of):
        assert [name for name in imports(module) if within(name, WITH_SPARK)] == [], module


def test_only_what_needs_spark_imports_it_at_start() -> None:
    seen: set[str] = set()
    for module in (m for m in EVERY if not within(m, WITH_SPARK)):
        todo: list[tuple[str, tuple[str, ...]]] = [(module, (module,))]
        while todo:
            current, path = todo.pop()
            for name in imports(current, at_start=True):
                assert not within(name, SPARK), " → ".join((*path, name))
                if name in modules() and name not in seen:
                    seen.add(name)
                    todo.append((name, (*path, name)))


def test_a_post_mortem_needs_neither_spark_nor_java() -> None:
    program = f"""
import sys
for name in {SPARK}:
    sys.modules[name] = None
from clienthealth.ops.cli import main
main(["diagnose", "--json", "tests/recordings/evidence/2_deadlock_client39"])
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("PATH", "JAVA_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert '"status": "confirmed"' in done.stdout


def test_the_package_never_imports_what_is_not_installed_with_it() -> None:
    for module in EVERY:
        if within(module, ("clienthealth", "clienthealth_exporters")):
            assert [n for n in imports(module) if within(n, ("dashboards", "deploy", "tests"))] == [], module
