"""`make test`: all layers in order, from the fastest to the slowest, each with its time.

    python -m tests.stages [STAGE…]

A stage that fails shows the end of its output and does not keep the next ones from running. All output is in
.cache/test/. At the end come the tests that failed, the summaries of pytest, and their sum.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "test"
LIMIT_SECONDS = 1500
TAIL_LINES = 60


@dataclass(frozen=True)
class Stage:
    """Commands that run one after the other; `needs`: a program without which the stage is skipped, and its package."""

    commands: Sequence[Sequence[str]]
    needs: tuple[str, str] | None = None


def _tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _pytest(layer: str, needs: tuple[str, str] | None = None) -> Stage:
    return Stage([[sys.executable, "-m", "pytest", "--quiet", "--no-header", "--durations=5", f"tests/{layer}"]], needs)


STAGES: Mapping[str, Stage] = {
    "lint": Stage([[_tool("ruff"), "format", "--check", "."], [_tool("ruff"), "check", "."]]),
    "types": Stage([[_tool("mypy")]]),
    "generated": Stage([[_tool("kafka-health"), "generate", "--check"]]),
    "laws": _pytest("laws"),
    "unit": _pytest("unit"),
    "rules": _pytest("rules", needs=("promtool", "prometheus")),
    "spark": _pytest("spark"),
    "kafka": _pytest("kafka"),
    "e2e": _pytest("e2e"),
}


def run(names: Sequence[str]) -> int:
    """Run the stages; the number of those that failed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    failed, broken, summaries, began = [], [], [], time.monotonic()
    for name in names:
        stage = STAGES[name]
        if stage.needs and shutil.which(stage.needs[0]) is None:
            print(f"{name:<10} skipped: {stage.needs[0]} is missing (apt-get install {stage.needs[1]})", flush=True)
            continue
        print(f"{name:<10} ", end="", flush=True)
        start, log = time.monotonic(), LOGS / f"{name}.log"
        good = _passes(stage, log)
        print(f"{'passed' if good else 'FAILED'}  {time.monotonic() - start:6.1f} s", flush=True)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        if not good:
            failed.append(name)
            print("\n".join(f"  {line}" for line in lines[-TAIL_LINES:]), f"  (all of it: {log})", sep="\n")
        if stage.commands[0][1:3] == ["-m", "pytest"] and lines:
            broken += [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
            summaries.append(f"{name:<10} {lines[-1]}")
    seconds = time.monotonic() - began
    print(f"{'total':<10} {'FAILED' if failed else 'passed'}  {seconds:6.1f} s  {' '.join(failed)}".rstrip())
    print(*broken, *summaries, sep="\n")
    if summaries:
        print(f"==== {_sum(summaries)} in {seconds:.2f}s ====")
    return len(failed)


def _sum(summaries: Sequence[str]) -> str:
    counts: Counter[str] = Counter()
    for summary in summaries:
        for number, word in re.findall(r"(\d+) (failed|passed|skipped|errors?|xfailed|xpassed|warnings?)", summary):
            counts[word.rstrip("s")] += int(number)
    return ", ".join(f"{number} {word}" for word, number in counts.items())


def _passes(stage: Stage, log: Path) -> bool:
    """Run its commands until one fails. What a stage leaves running, or runs for too long, is killed."""
    deadline = time.monotonic() + LIMIT_SECONDS
    with log.open("w", encoding="utf-8") as output:
        for command in stage.commands:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code = process.wait(max(1.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                output.write(f"\nkilled after {LIMIT_SECONDS} s\n")
                code = 1
            finally:
                _kill(process)
            if code != 0:
                return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
    process.wait()


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in STAGES]
    if unknown:
        sys.exit(f"unknown stages: {', '.join(unknown)}; known are {', '.join(STAGES)}")
    try:
        sys.exit(min(run(sys.argv[1:] or list(STAGES)), 1))
    except KeyboardInterrupt:
        sys.exit(130)
