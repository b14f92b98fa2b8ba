"""`make test`: all layers in order, from the fastest to the slowest, each with its time.

Some run at the same time: each by itself leaves half of two cores idle. What is not begun waits for others (`after`).

    python -m tests.stages [STAGE…]

A stage that fails shows the end of its output and does not keep the next ones from running. All output is in
.cache/test/. At the end come the tests that failed, the summaries of pytest, and their sum.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.processes import give_way

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "test"
LIMIT_SECONDS = 2400
TAIL_LINES = 60
#: What needs no servers fills what others leave idle, and does not keep clients from failing in time.
GIVES_WAY = 10


@dataclass(frozen=True)
class Stage:
    """Commands that run one after the other, once the stages `after` have ended.

    `needs`: a program without which the stage is skipped, and its package; `nice`: how much it gives way to those that
    run at the same time.
    """

    commands: Sequence[Sequence[str]]
    after: Sequence[str] = ()
    needs: tuple[str, str] | None = None
    nice: int = 0


def _tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _pytest(
    layer: str,
    after: Sequence[str] = (),
    needs: tuple[str, str] | None = None,
    workers: int = 0,
    share: str = "worksteal",
    nice: int = 0,
) -> Stage:
    """`workers`: processes that share the tests, test by test, by files whose tests share
    servers (`loadfile`), or by what is marked to share something (`loadgroup`)."""
    spread = ["-p", "xdist.plugin", "-n", str(workers), "--dist", share, "--no-loadscope-reorder"] if workers else []
    options = ["--quiet", "--no-header", "--durations=5", *spread]
    return Stage([[sys.executable, "-m", "pytest", *options, f"tests/{layer}"]], after, needs, nice)


#: Without servers first; then the heaviest beside what gives way; then the demo, whose clients are to fail in time,
#: beside one that computes; at last those that wait most.
STAGES: Mapping[str, Stage] = {
    "lint": Stage([[_tool("ruff"), "format", "--check", "."], [_tool("ruff"), "check", "."]]),
    "types": Stage([[_tool("mypy")]]),
    "generated": Stage([[_tool("kafka-health"), "generate", "--check"]]),
    "laws": _pytest("laws", workers=2, share="loadgroup"),
    "unit": _pytest("unit", ("laws",), workers=2, nice=GIVES_WAY),
    "rules": _pytest("rules", ("laws",), needs=("promtool", "prometheus"), nice=GIVES_WAY),
    "cluster": _pytest("cluster", ("lint", "types", "generated")),
    "e2e": _pytest("e2e", ("cluster",), workers=2, share="loadfile"),
    "spark": _pytest("spark", ("cluster",)),
    "kafka": _pytest("kafka", ("spark",), workers=3, share="loadfile"),
}


@dataclass(frozen=True)
class Result:
    """What became of a stage. `seconds`: how long it took; `lines`: what it wrote."""

    name: str
    passed: bool
    seconds: float
    lines: Sequence[str]

    @property
    def summary(self) -> str | None:
        """The last line of pytest, though a JVM ends later and has the last word; None for other commands."""
        by_pytest = STAGES[self.name].commands[0][1:3] == ["-m", "pytest"]
        told = [line for line in self.lines if re.search(r"^=*\s*\d+ .* in \d+\.\d+s", line)]
        return [*self.lines, *told][-1] if by_pytest and self.lines else None


async def run(names: Sequence[str]) -> int:
    """Run the stages; the number of those that failed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"what the stages write grows in {LOGS}", flush=True)
    began = time.monotonic()
    started: dict[str, asyncio.Task[Result | None]] = {}
    async with asyncio.TaskGroup() as tasks:
        for name in (name for name in STAGES if name in names):
            before = [started[other] for other in STAGES[name].after if other in started]
            started[name] = tasks.create_task(_result(name, before))
    results = [result for task in started.values() if (result := task.result())]
    seconds = time.monotonic() - began
    failed = [result.name for result in results if not result.passed]
    print(f"{'total':<10} {'FAILED' if failed else 'passed'}  {seconds:6.1f} s  {' '.join(failed)}".rstrip())
    broken = [line for result in results for line in result.lines if line.startswith(("FAILED ", "ERROR "))]
    summaries = [f"{result.name:<10} {result.summary}" for result in results if result.summary]
    if summaries:
        print(*broken, *summaries, f"==== {_sum(summaries)} in {seconds:.2f}s ====", sep="\n")
    return len(failed)


async def _result(name: str, before: Sequence[asyncio.Task[Result | None]]) -> Result | None:
    """Run a stage once those before it have ended, and tell its end; None where it was skipped."""
    for task in before:
        await task
    stage, log = STAGES[name], LOGS / f"{name}.log"
    if stage.needs and shutil.which(stage.needs[0]) is None:
        print(f"{name:<10} skipped: {stage.needs[0]} is missing (apt-get install {stage.needs[1]})", flush=True)
        return None
    start = time.monotonic()
    passed = await _passes(stage, log)
    seconds = time.monotonic() - start
    print(f"{name:<10} {'passed' if passed else 'FAILED'}  {seconds:6.1f} s", flush=True)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if not passed:
        print("\n".join(f"  {line}" for line in lines[-TAIL_LINES:]), f"  (all of it: {log})", sep="\n", flush=True)
    return Result(name, passed, seconds, lines)


def _sum(summaries: Sequence[str]) -> str:
    counts: Counter[str] = Counter()
    for summary in summaries:
        for number, word in re.findall(r"(\d+) (failed|passed|skipped|errors?|xfailed|xpassed|warnings?)", summary):
            counts[word.rstrip("s")] += int(number)
    return ", ".join(f"{number} {word}" for word, number in counts.items())


async def _passes(stage: Stage, log: Path) -> bool:
    """Run its commands until one fails. What a stage leaves running, or runs for too long, is killed."""
    deadline = time.monotonic() + LIMIT_SECONDS
    with log.open("w", encoding="utf-8") as output:
        for command in stage.commands:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            if stage.nice:
                os.setpriority(os.PRIO_PGRP, process.pid, stage.nice)
                give_way(process.pid, stage.nice)
            try:
                code = await asyncio.wait_for(process.wait(), max(1.0, deadline - time.monotonic()))
            except TimeoutError:
                output.write(f"\nkilled after {LIMIT_SECONDS} s\n")
                code = 1
            finally:
                _kill(process.pid)
            if code != 0:
                return False
    return True


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in STAGES]
    if unknown:
        sys.exit(f"unknown stages: {', '.join(unknown)}; known are {', '.join(STAGES)}")
    try:
        sys.exit(min(asyncio.run(run(sys.argv[1:] or list(STAGES))), 1))
    except KeyboardInterrupt:
        sys.exit(130)
