"""Measure `kafka-health diagnose` on a thread dump and on a recording, without Java."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench.lab import KAFKA_HEALTH
from tests.bench.measurements import Scope
from tests.bench.results import ROOT, Figure, Result

TITLE = "Duration of a diagnosis"
FOLDERS = ROOT / "tests" / "recordings" / "evidence"
DUMP = FOLDERS / "2_deadlock_client39" / "jstack-during1-210314.txt"
RUNS, DUMP_SECONDS, FOLDER_SECONDS, LIMIT_SECONDS = 10, 1.0, 2.0, 300
#: Accepted exit codes: 0 if all is well, 1 if something was found, 3 if something could not be judged.
ANSWERS = {0, 1, 3}


def measure(scope: Scope) -> Result:
    runs = 3 if scope.quick else RUNS
    dump = _median(DUMP, runs)
    folders = [_median(path, runs) for path in sorted(FOLDERS.iterdir()) if path.is_dir()]
    figures = [
        Figure("`kafka-health diagnose` of one thread dump: duration", dump, "s", DUMP_SECONDS),
        Figure("`kafka-health diagnose` of the slowest recorded folder: duration", max(folders), "s", FOLDER_SECONDS),
    ]
    how = (
        f"`kafka-health diagnose` runs {runs} times on each folder in `tests/recordings/evidence`, without Java. The "
        "median counts. The table *Figures with a target* has the median for one thread dump and for the slowest "
        "folder."
    )
    return Result(figures, how)


def _median(path: Path, runs: int) -> float:
    seconds = [_run(path) for _ in range(runs)]
    print(f"  {path.name}: " + " ".join(f"{wall:.2f}" for wall in seconds), flush=True)
    return statistics.median(seconds)


def _run(path: Path) -> float:
    with tempfile.TemporaryDirectory() as empty:
        environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": empty}
        began = time.perf_counter()
        command = [KAFKA_HEALTH, "diagnose", str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=LIMIT_SECONDS, check=False)
        seconds = time.perf_counter() - began
    if done.returncode not in ANSWERS:
        raise TimeoutError(f"diagnose {path} ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    return seconds
