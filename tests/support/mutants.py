"""Change product code at random places, and report which changes (mutants) the tests notice.

uv run --frozen --no-sync --with coverage python -m tests.support.mutants [--seed 44] [--count 60] [--whole]

The program works in a copy of the checkout, and applies one mutant at a time. For each mutant, the program runs tests
until a test fails. Tests that run the mutant's line come before tests that run other lines of the file. At the end, the
program runs all tests on the mutants that no test has noticed. `--whole` includes tests marked long. `--beside FOLDER`
changes only statements that are also in the checkout in FOLDER. Results go to .cache/mutants/; the next run continues
with these results.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "mutants"
LAYERS = ("tests/laws", "tests/unit", "tests/rules")
LIMIT_SECONDS = 3600
#: Number of tests that run first: the fastest tests of the changed line.
FIRST = 80
_SWAPS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_RUN = """
import json, sys, coverage, pytest
from pathlib import Path
seconds = {{}}
cover = coverage.Coverage(data_file={data!r}, source={source!r}, messages=False)
class Plugin:
    @pytest.hookimpl(tryfirst=True, wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        cover.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            cover.switch_context("")
    def pytest_runtest_logreport(self, report):
        seconds[report.nodeid] = seconds.get(report.nodeid, 0) + report.duration
cover.start()
code = pytest.main(sys.argv[1:], plugins=[Plugin()])
cover.stop(); cover.save()
Path({seconds!r}).write_text(json.dumps(seconds), encoding="utf-8")
sys.exit(code)
"""


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int
    begin: int
    end: int
    was: str
    now: str
    place: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.was} → {self.now}"


def mutants(root: Path = ROOT) -> Iterator[Mutant]:
    for folder in ("jobs", "exporters"):
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            lines = text.encode().split(b"\n")
            for function, statement in _statements(ast.parse(text), ""):
                nodes = [*_own(statement)]
                about = " ".join((function, type(statement).__name__, *map(ast.dump, _parts(statement))))
                for number, node in enumerate(nodes):
                    changed = _changed(node)
                    if changed is None or node.lineno != node.end_lineno:  # type: ignore[attr-defined]
                        continue
                    line, begin, end = node.lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
                    was = lines[line - 1][begin:end].decode(errors="replace")
                    # Python 3.11 reports wrong positions for some parts of f-strings.
                    if _is_written(was, node):
                        now = f"({ast.unparse(changed)})"
                        yield Mutant(str(path.relative_to(root)), line, begin, end, was, now, f"{about} {number}")


def _statements(node: ast.AST, function: str) -> Iterator[tuple[str, ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield function, child
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from _statements(child, child.name if named else function)  # type: ignore[attr-defined]


def _parts(statement: ast.stmt) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.match_case):
            yield from filter(None, (child.pattern, child.guard))
        elif isinstance(child, ast.ExceptHandler):
            yield from filter(None, (child.type,))
        elif not isinstance(child, ast.stmt):
            yield child


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    return (node for part in _parts(statement) for node in ast.walk(part))


def _is_written(was: str, node: ast.AST) -> bool:
    try:
        return ast.dump(ast.parse(f"({was})", mode="eval").body) == ast.dump(node)
    except SyntaxError:
        return False


def shared(here: Iterable[Mutant], there: Iterable[Mutant]) -> Mapping[str, Mutant]:
    known, others = _by_place(here), _by_place(there)
    paired, taken = {}, set[Mutant]()
    for place in sorted(known.keys() & others.keys()):
        if known[place] not in taken and others[place] not in taken:
            paired[place] = known[place]
            taken |= {known[place], others[place]}
    return paired


def _by_place(every: Iterable[Mutant]) -> Mapping[str, Mutant]:
    by_place: dict[str, list[Mutant]] = {}
    for mutant in every:
        by_place.setdefault(mutant.place, []).append(mutant)
    named = {}
    for place, same_place in by_place.items():
        if len(same_place) == 1:
            named[place] = same_place[0]
        by_file = Counter[str]()
        for mutant in same_place:
            by_file[mutant.path] += 1
            named[f"{place} {mutant.path} {by_file[mutant.path]}"] = mutant
    return named


def _changed(node: ast.AST) -> ast.AST | None:
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[op]) if type(op) in _SWAPS:
            other.ops = [_SWAPS[type(op)]()]  # type: ignore[list-item]
        case ast.BoolOp(op=op):
            other.op = _SWAPS[type(op)]()  # type: ignore[assignment]
        case ast.BinOp(op=op) if type(op) in _SWAPS and not _of_text(other):
            other.op = _SWAPS[type(op)]()  # type: ignore[assignment]
        case ast.UnaryOp(op=ast.Not()):
            return other.operand
        case ast.IfExp():
            other.body, other.orelse = other.orelse, other.body
        case ast.Constant(value=bool(value)):
            other.value = not value
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            other.value = value + 1
        case _:
            return None
    return other


def _of_text(node: ast.BinOp) -> bool:
    """Return whether `+` joins texts or lists. A `+` that joins is not changed, because every test would notice."""
    parts = (node.left, node.right)
    return any(isinstance(part, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(part) for part in parts)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def copied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / ".cache").mkdir()
    for path in (ROOT / ".cache").iterdir():
        if path.name not in ("decoded", "mutants", "test"):
            (folder / ".cache" / path.name).symlink_to(path)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


class Tried:
    def __init__(self, short: bool) -> None:
        self.name = "short" if short else "whole"
        self.folder = copied(KEPT / f"checkout-{self.name}")
        self._chosen = ("-m", "not long") if short else ()
        self._data, self._log, self._timed = (KEPT / f"coverage-{self.name}{end}" for end in ("", ".log", ".json"))
        self._python = str(self.folder / ".venv" / "bin" / "python")
        coverage = str(Path(find_spec("coverage").origin or "").parents[1])  # type: ignore[union-attr]
        # Write no bytecode: after two changes of a file in one second, Python would run the first change's bytecode.
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((*self._paths(), coverage)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._environment.pop("VIRTUAL_ENV", None)
        self.failing: set[str] = set()

    def _paths(self) -> list[str]:
        return [str(self.folder / part) for part in ("jobs", "exporters", "")]

    def known(self) -> Mapping[str, Mapping[int, Sequence[str]]]:
        from coverage import CoverageData  # type: ignore[import-not-found]

        if not self._data.exists():
            program = _RUN.format(data=str(self._data), source=self._paths()[:2], seconds=str(self._timed))
            done = self._run([self._python, "-c", program, "-q", "-p", "no:cacheprovider", *self._chosen, *LAYERS])
            self._log.write_text(done.stdout + done.stderr, encoding="utf-8")
        self.failing = _failing(self._log.read_text(encoding="utf-8"))
        seconds = json.loads(self._timed.read_text(encoding="utf-8"))
        if not seconds:
            raise SystemExit(
                f"No test was run: see {self._log} for the cause. Remove the cause and {self._data}, then start again."
            )
        data = CoverageData(str(self._data))
        data.read()
        by_file = {}
        for file in data.measured_files():
            by_file[str(Path(file).relative_to(self.folder))] = {
                line: sorted({*tests} - {""} - self.failing, key=lambda test: (seconds[test], test))
                for line, tests in data.contexts_by_lineno(file).items()
            }
        return by_file

    def notices(self, mutant: Mutant, tests: Sequence[str]) -> str | None:
        first, rest = tests[:FIRST], tests[FIRST:]
        with self._put([mutant]):
            try:
                return self._failure(first) or (self._failure(rest) if rest else None)
            except subprocess.TimeoutExpired:
                return "it goes on for ever"

    def fails_with(self, mutants: Sequence[Mutant]) -> list[str]:
        with self._put(mutants):
            done = self._run([self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *self._chosen, *LAYERS])
        return sorted(_failing(done.stdout) - self.failing)

    @contextmanager
    def _put(self, mutants: Sequence[Mutant]) -> Iterator[None]:
        before = {path: (path.read_bytes(), path.stat()) for path in {self.folder / one.path for one in mutants}}
        # Begin with the last mutant of a line, so that the positions of the other mutants stay valid.
        for mutant in sorted(mutants, key=lambda one: -one.begin):
            path = self.folder / mutant.path
            lines = path.read_bytes().split(b"\n")
            line = lines[mutant.line - 1]
            lines[mutant.line - 1] = line[: mutant.begin] + mutant.now.encode() + line[mutant.end :]
            path.write_bytes(b"\n".join(lines))
        try:
            yield
        finally:
            for path, (text, stat) in before.items():
                path.write_bytes(text)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def _failure(self, tests: Sequence[str]) -> str | None:
        names = KEPT / f"tests-{self.name}"
        names.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
        done = self._run([self._python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{names}"])
        return None if done.returncode == 0 else next(iter(_failing(done.stdout)), "no test could be collected")

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )


def _failing(output: str) -> set[str]:
    return set(re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", output, re.MULTILINE))


class Results:
    def __init__(self, file: Path) -> None:
        self._file = file
        rows = [json.loads(line) for line in file.open(encoding="utf-8")] if file.exists() else []
        self.noticed: dict[str, str | None] = {row["mutant"]: row["noticed"] for row in rows}

    def add(self, mutant: Mutant, noticed: str | None) -> None:
        self.noticed[str(mutant)] = noticed
        with self._file.open("a", encoding="utf-8") as output:
            output.write(json.dumps({"mutant": str(mutant), "noticed": noticed}) + "\n")
        sys.stdout.write(f"{mutant}\n    {noticed or 'NOT NOTICED'}\n")
        sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=44)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--whole", action="store_true", help="with what is marked long")
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="of what this other checkout has as well")
    options = parser.parse_args(arguments)
    chosen = _chosen(options.seed, options.count, options.beside)
    tried = Tried(short=not options.whole)
    results = Results(KEPT / f"{tried.name}-{options.seed}.jsonl")
    known = tried.known()
    for mutant in chosen:
        if str(mutant) not in results.noticed:
            tests_of_file = known.get(mutant.path, {})
            # Run all tests of the file: code that runs at import, or caches its result, affects each of them.
            tests = {
                test: None
                for tests_of_line in (tests_of_file.get(mutant.line, ()), *tests_of_file.values())
                for test in tests_of_line
            }
            results.add(mutant, tried.notices(mutant, [*tests]) if tests else None)
    left = [mutant for mutant in chosen if results.noticed[str(mutant)] is None]
    tests_of_left = tried.fails_with(left) if left else []
    for mutant in left:
        results.add(mutant, tried.notices(mutant, tests_of_left) if tests_of_left else None)
    noticed = sum(results.noticed[str(mutant)] is not None for mutant in chosen)
    sys.stdout.write(f"{noticed} of {len(chosen)} are noticed by {tried.name} laws, unit tests and rules\n")
    return 0


def _chosen(seed: int, count: int, beside: Path | None) -> Sequence[Mutant]:
    every = [*mutants()]
    if beside is not None:
        shared_mutants = shared(every, mutants(beside))
        sys.stdout.write(f"{len(shared_mutants)} of {len(every)} mutants are of both checkouts\n")
        every = [*shared_mutants.values()]
    return random.Random(seed).sample(every, count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
