"""Mutations of product code, chosen by a seed: which do tests notice?

    uv run --frozen --no-sync --with coverage python -m tests.support.mutants [--seed 44] [--count 60] [--whole]

In a copy of the checkout laws and unit tests are run once, to know which test runs which line. Then each mutant is put
into its place, and the tests that run that line are run until one fails. `--whole`: with what is marked long.
Results are written to .cache/mutants/ as they come; a second run goes on where the first ended.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "mutants"
LAYERS = ("tests/laws", "tests/unit")
LIMIT_SECONDS = 3600
#: What an operator becomes.
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
import sys, coverage, pytest
cover = coverage.Coverage(data_file={data!r}, source={source!r}, messages=False)
class Plugin:
    @pytest.hookimpl(tryfirst=True, wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        cover.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            cover.switch_context("")
cover.start()
code = pytest.main(sys.argv[1:], plugins=[Plugin()])
cover.stop(); cover.save()
sys.exit(code)
"""


@dataclass(frozen=True)
class Mutant:
    """A piece of one line of a file, and what stands there instead."""

    path: str
    line: int
    begin: int
    end: int
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.was} → {self.now}"


def mutants(root: Path = ROOT) -> Iterator[Mutant]:
    """Every mutant of the product, in order."""
    for folder in ("jobs", "exporters"):
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            lines = text.encode().split(b"\n")
            for node in ast.walk(ast.parse(text)):
                changed = _changed(node)
                if changed is None or node.lineno != node.end_lineno:  # type: ignore[attr-defined]
                    continue
                line, begin, end = node.lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
                was = lines[line - 1][begin:end].decode()
                yield Mutant(str(path.relative_to(root)), line, begin, end, was, f"({ast.unparse(changed)})")


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
    """True if it joins texts or lists, of which a difference is no program."""
    parts = (node.left, node.right)
    return any(isinstance(part, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(part) for part in parts)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def copied(folder: Path) -> Path:
    """The checkout without what nobody tracks, and with its environment and jars."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / ".cache").mkdir()
    for path in (ROOT / ".cache").iterdir():
        if path.name not in ("decoded", "mutants", "test"):
            (folder / ".cache" / path.name).symlink_to(path)
    return folder


class Tried:
    """The tests of a copy of the checkout. `short`: without what is long."""

    def __init__(self, short: bool) -> None:
        self.name = "short" if short else "whole"
        self.folder = copied(KEPT / f"checkout-{self.name}")
        self._chosen = ("-m", "not long") if short else ()
        self._data, self._log = KEPT / f"coverage-{self.name}", KEPT / f"coverage-{self.name}.log"
        self._python = str(self.folder / ".venv" / "bin" / "python")
        coverage = str(Path(find_spec("coverage").origin or "").parents[1])  # type: ignore[union-attr]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join((*self._paths(), coverage))}
        self._environment.pop("VIRTUAL_ENV", None)

    def _paths(self) -> list[str]:
        return [str(self.folder / part) for part in ("jobs", "exporters", "")]

    def known(self) -> Mapping[str, Mapping[int, Sequence[str]]]:
        """File → line → the tests that run it and pass, in order of their names."""
        from coverage import CoverageData  # type: ignore[import-not-found]

        if not self._data.exists():
            program = _RUN.format(data=str(self._data), source=self._paths()[:2])
            done = self._run([self._python, "-c", program, "-q", "-p", "no:cacheprovider", *self._chosen, *LAYERS])
            self._log.write_text(done.stdout + done.stderr, encoding="utf-8")
        failing = set(re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", self._log.read_text("utf-8"), re.MULTILINE))
        data = CoverageData(str(self._data))
        data.read()
        of_files = {}
        for file in data.measured_files():
            of_lines = {
                line: sorted({*tests} - {""} - failing) for line, tests in data.contexts_by_lineno(file).items()
            }
            of_files[str(Path(file).relative_to(self.folder))] = of_lines
        return of_files

    def notices(self, mutant: Mutant, tests: Sequence[str]) -> str | None:
        """The test that fails, or why none could pass; None where all pass."""
        path = self.folder / mutant.path
        text = path.read_bytes()
        lines = text.split(b"\n")
        line = lines[mutant.line - 1]
        lines[mutant.line - 1] = line[: mutant.begin] + mutant.now.encode() + line[mutant.end :]
        path.write_bytes(b"\n".join(lines))
        try:
            names = KEPT / f"tests-{self.name}"
            names.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
            command = [self._python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{names}"]
            done = self._run(command)
        except subprocess.TimeoutExpired:
            return "it goes on for ever"
        finally:
            path.write_bytes(text)
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return None if done.returncode == 0 else (failed or ["no test could be collected"])[0][:200]

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


def main(arguments: Sequence[str]) -> int:
    """Try mutants; each is a line of the results as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=44)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--whole", action="store_true", help="with what is marked long")
    options = parser.parse_args(arguments)
    chosen = random.Random(options.seed).sample([*mutants()], options.count)
    tried = Tried(short=not options.whole)
    results = KEPT / f"{tried.name}-{options.seed}.jsonl"
    before = [json.loads(line) for line in results.open(encoding="utf-8")] if results.exists() else []
    known, by_name = tried.known(), {row["mutant"]: row["noticed"] for row in before}
    for mutant in chosen:
        if str(mutant) not in by_name:
            of_file = known.get(mutant.path, {})
            # What runs at the import alone is a matter of all that run anything of the file.
            tests = of_file.get(mutant.line) or sorted({test for of_line in of_file.values() for test in of_line})
            by_name[str(mutant)] = tried.notices(mutant, tests) if tests else None
            with results.open("a", encoding="utf-8") as output:
                output.write(json.dumps({"mutant": str(mutant), "noticed": by_name[str(mutant)]}) + "\n")
        sys.stdout.write(f"{mutant}\n    {by_name[str(mutant)] or 'NOT NOTICED'}\n")
        sys.stdout.flush()
    noticed = sum(by_name[str(mutant)] is not None for mutant in chosen)
    sys.stdout.write(f"{noticed} of {len(chosen)} are noticed by {tried.name} laws and unit tests\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
