"""Run the stages of `make check`, `make test` and `make test-all`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.contained import Outcome

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "test"
LIMIT_SECONDS = 2400
TAIL_LINES = 60
#: Niceness (lowers the CPU priority) of the stages `unit` and `rules`, which run beside the demo.
GIVES_WAY = 10
OVER = 1.5
CHECK, TEST, ALL = "check", "test", "test-all"
SUITES = (CHECK, TEST, ALL)
SHORT = ("-m", "not long")
README = ROOT / "tests" / "README.md"
SUMMARY = re.compile(r"^=*\s*\d+ .* in \d+\.\d+s")
TABLE = re.compile(r"(<!-- stages -->\n).*(<!-- /stages -->)", re.DOTALL)


@dataclass(frozen=True)
class Stage:
    """A stage of the tests. `budgets` has the planned CPU seconds of each suite.

    `needs` is (required program, its Debian package). Without the program, the stage is skipped.
    """

    about: str
    commands: Sequence[Sequence[str]]
    budgets: Mapping[str, int]
    after: Sequence[str] = ()
    needs: tuple[str, str] | None = None
    nice: int = 0
    workers: int = 1

    @property
    def by_pytest(self) -> bool:
        return self.commands[0][1:3] == [*_PYTEST]

    def chosen(self, suite: str, claims: Path | None = None) -> Sequence[Sequence[str]]:
        short = SHORT if self.by_pytest and suite != ALL else ()
        shared = ("--claims", str(claims)) if claims else ()
        return [[*command, *short, *shared] for command in self.commands]


_PYTEST = ("-m", "pytest")


def _tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _budgets(check: int = 0, test: int = 0, all_: int = 0) -> Mapping[str, int]:
    return {suite: budget for suite, budget in zip(SUITES, (check, test, all_), strict=True) if budget}


def _layer(
    name: str,
    about: str,
    budgets: Mapping[str, int],
    after: Sequence[str] = (),
    needs: tuple[str, str] | None = None,
    workers: int = 1,
    nice: int = 0,
) -> Stage:
    command = [sys.executable, *_PYTEST, "--quiet", "--no-header", "--durations=5", f"tests/{name}"]
    return Stage(about, [command], budgets, after, needs, nice, workers)


STAGES: Mapping[str, Stage] = {
    "lint": Stage(
        "format and lint of the code",
        [[_tool("ruff"), "format", "--check", "."], [_tool("ruff"), "check", "."]],
        _budgets(1, 1, 1),
    ),
    "types": Stage("mypy, strict", [[_tool("mypy")]], _budgets(30, 30, 30)),
    "generated": Stage(
        "whether generated text is up to date with the code (`kafka-health generate`)",
        [[_tool("kafka-health"), "generate", "--check"]],
        _budgets(5, 5, 5),
    ),
    "laws": _layer(
        "laws",
        "rules for imports, errors, failure modes and pages of all parts; verdicts on recordings and hand-made data",
        _budgets(60, 60, 60),
    ),
    "unit": _layer(
        "unit",
        "one part at a time, with values calculated by hand",
        _budgets(150, 150, 520),
        workers=2,
        nice=GIVES_WAY,
    ),
    "rules": _layer(
        "rules",
        "alerts and their routing, tested with promtool and amtool",
        _budgets(0, 45, 900),
        needs=("promtool", "prometheus"),
        nice=GIVES_WAY,
        workers=2,
    ),
    "cluster": _layer(
        "cluster",
        "the monitor on a Spark cluster, and jars without the internet",
        _budgets(all_=200),
        ("lint", "types", "laws", "unit", "rules"),
    ),
    "e2e": _layer(
        "e2e",
        "the demo, Prometheus, Grafana, Alertmanager and a browser",
        _budgets(0, 120, 850),
        ("cluster",),
        workers=2,
    ),
    "spark": _layer("spark", "the query, its state, the history and the review", _budgets(0, 100, 250), ("cluster",)),
    "kafka": _layer("kafka", "programs against a real broker", _budgets(0, 70, 1150), ("spark",), workers=3),
}


@dataclass(frozen=True)
class Result:
    name: str
    passed: bool
    seconds: float
    cpu_seconds: float
    logs: Sequence[Sequence[str]]

    @property
    def summaries(self) -> Sequence[str]:
        logs = self.logs if STAGES[self.name].by_pytest else ()
        return [[*lines, *(line for line in lines if SUMMARY.search(line))][-1] for lines in logs if lines]


async def run(suite: str, names: Sequence[str]) -> int:
    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"the stages write their output to {LOGS}", flush=True)
    began, before = time.monotonic(), _untracked()
    started: dict[str, asyncio.Task[Result | None]] = {}
    async with asyncio.TaskGroup() as tasks:
        for name in (name for name in STAGES if name in names):
            earlier = [started[other] for other in STAGES[name].after if other in started]
            started[name] = tasks.create_task(_result(suite, name, earlier))
    results = [result for task in started.values() if (result := task.result())]
    failed = [result.name for result in results if not result.passed]
    if left := _untracked() - before:
        print(f"checkout   FAILED  the run left {', '.join(sorted(left))}")
        failed.append("checkout")
    _tell_end(suite, results, failed, time.monotonic() - began)
    return len(failed)


def _tell_end(suite: str, results: Sequence[Result], failed: Sequence[str], seconds: float) -> None:
    cpu = sum(result.cpu_seconds for result in results)
    how = "FAILED" if failed else "passed"
    print(f"{'total':<10} {how}  {seconds:6.1f} s {cpu:7.1f} s CPU  {' '.join(failed)}".rstrip())
    for result in results:
        budget = STAGES[result.name].budgets.get(suite, 0)
        if budget and result.cpu_seconds > OVER * budget:
            print(f"{result.name} took {result.cpu_seconds:.0f} s of CPU, and is to take {budget} s in `make {suite}`")
    logs = [log for result in results for log in result.logs]
    broken = [line for log in logs for line in log if line.startswith(("FAILED ", "ERROR "))]
    summaries = [f"{result.name:<10} {summary}" for result in results for summary in result.summaries]
    if summaries:
        print(*broken, *summaries, f"==== {_sum(summaries)} in {seconds:.2f}s ====", sep="\n")


async def _result(suite: str, name: str, before: Sequence[asyncio.Task[Result | None]]) -> Result | None:
    for task in before:
        await task
    stage = STAGES[name]
    if stage.needs and shutil.which(stage.needs[0]) is None:
        print(f"{name:<10} skipped: {stage.needs[0]} is missing (apt-get install {stage.needs[1]})", flush=True)
        return None
    start = time.monotonic()
    paths = [LOGS / f"{name}{f'-{number}' if number else ''}.log" for number in range(stage.workers)]
    claims = LOGS / "claims" / name
    shutil.rmtree(claims, ignore_errors=True)
    commands = stage.chosen(suite, claims if stage.workers > 1 else None)
    async with asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(_outcomes(commands, stage.nice, path)) for path in paths]
    outcomes = [outcome for worker in workers for outcome in worker.result()]
    seconds, cpu = time.monotonic() - start, sum(outcome.cpu_seconds for outcome in outcomes)
    passed = not any(outcome.code for outcome in outcomes)
    print(f"{name:<10} {'passed' if passed else 'FAILED'}  {seconds:6.1f} s {cpu:7.1f} s CPU", flush=True)
    for command in (command for outcome in outcomes for command in outcome.left):
        print(f"  it left this running, which was killed: {command[:200]}", flush=True)
    logs = [path.read_text(encoding="utf-8", errors="replace").splitlines() for path in paths]
    for path, worker, lines in zip(paths, workers, logs, strict=True):
        if any(outcome.code for outcome in worker.result()):
            print(*(f"  {line}" for line in lines[-TAIL_LINES:]), f"  (all of it: {path})", sep="\n", flush=True)
    return Result(name, passed, seconds, cpu, logs)


def _sum(summaries: Sequence[str]) -> str:
    counts: Counter[str] = Counter()
    for summary in summaries:
        for number, word in re.findall(r"(\d+) (failed|passed|skipped|errors?|xfailed|xpassed|warnings?)", summary):
            counts[word.rstrip("s")] += int(number)
    return ", ".join(f"{number} {word}" for word, number in counts.items())


async def _outcomes(commands: Sequence[Sequence[str]], nice: int, log: Path) -> Sequence[Outcome]:
    outcomes: list[Outcome] = []
    # Without bytecode files, each of hundreds of programs would compile all its modules again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    deadline = time.monotonic() + LIMIT_SECONDS
    with log.open("w", encoding="utf-8") as output:
        for command in commands:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.contained", str(nice), *command),
                cwd=ROOT,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
            try:
                outcomes.append(await _outcome(process, max(1.0, deadline - time.monotonic())))
            except TimeoutError:
                output.write(f"\nkilled after {LIMIT_SECONDS} s\n")
                outcomes.append(await asyncio.shield(_ended(process)))
            except asyncio.CancelledError:
                await asyncio.shield(_ended(process))
                raise
            if outcomes[-1].code != 0:
                break
    return outcomes


async def _outcome(process: asyncio.subprocess.Process, seconds: float) -> Outcome:
    assert process.stdout is not None
    output = await asyncio.wait_for(process.stdout.read(), seconds)
    await process.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return Outcome(**json.loads(output)) if output else Outcome(1, 0.0)


async def _ended(process: asyncio.subprocess.Process) -> Outcome:
    assert process.stdin is not None
    process.stdin.close()
    return await _outcome(process, LIMIT_SECONDS)


def _untracked() -> set[str]:
    command = ["git", "status", "--porcelain", "--untracked-files=normal"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return set()
    return {line[3:] for line in done.stdout.splitlines() if line.startswith("??")}


def table() -> str:
    lines = ["| stage | what it tests | `make check` | `make test` | `make test-all` |", "|---|---|---|---|---|"]
    for name, stage in STAGES.items():
        cells = (f"{stage.budgets[suite]} s" if suite in stage.budgets else "–" for suite in SUITES)
        lines.append(f"| {name} | {stage.about} | {' | '.join(cells)} |")
    sums = (f"{sum(stage.budgets.get(suite, 0) for stage in STAGES.values())} s" for suite in SUITES)
    lines.append(f"| all | | {' | '.join(sums)} |")
    lines += ["", "Each of these modules has tests marked `long`, so only `make test-all` runs it completely:", ""]
    for name in STAGES:
        files = sorted((ROOT / "tests" / name).glob("test_*.py"))
        if long := [
            path.stem for path in files if re.search(r"mark\.long|long_after\(", path.read_text(encoding="utf-8"))
        ]:
            lines.append(f"- {name}: {', '.join(f'`{stem}`' for stem in long)}")
    return "\n".join(lines) + "\n"


def _main(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--table"]:
        README.write_text(TABLE.sub(rf"\g<1>{table()}\g<2>", README.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    suite, names = (arguments[0], arguments[1:]) if arguments and arguments[0] in SUITES else (TEST, arguments)
    suite_stages = [name for name, stage in STAGES.items() if suite in stage.budgets]
    if unknown := [name for name in names if name not in suite_stages]:
        sys.exit(f"`make {suite}` has no stages {', '.join(unknown)}; it has {', '.join(suite_stages)}")
    try:
        return min(asyncio.run(_until_ended(suite, names or suite_stages)), 1)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


async def _until_ended(suite: str, names: Sequence[str]) -> int:
    """Run stages until they end. SIGTERM and SIGHUP cancel the stages, as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await run(suite, names)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
