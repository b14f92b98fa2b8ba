"""How long `kafka-health diagnose` takes on a recording, with and without a Java on the machine."""

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

TITLE = "Diagnosis of a recording"
RECORDING = "tests/recordings/evidence/2_deadlock_client39"
RUNS, TARGET_SECONDS, LIMIT_SECONDS = 10, 2.0, 300
#: `diagnose` says so by its exit code.
FOUND = 1


def measure(scope: Scope) -> Result:
    """Wall times of the whole command."""
    with tempfile.TemporaryDirectory() as empty:
        without = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": empty}
        answers = _run(without)[1] == FOUND
        environment = without if answers else dict(os.environ)
        runs = [_run(environment) for _ in range(3 if scope.quick else RUNS)]
    seconds = [wall for wall, _ in runs]
    print("  " + " ".join(f"{wall:.2f}" for wall in seconds), flush=True)
    median = statistics.median(seconds)
    figures = [
        Figure("diagnose, without Java", median, "s", TARGET_SECONDS)
        if answers
        else Figure("diagnose, with Java (without it does not answer)", median, "s", 0.0, note="needs Java"),
    ]
    how = f"Median of {len(runs)} runs of `kafka-health diagnose {RECORDING}`, the first included."
    notes = [f"fastest {min(seconds):.2f} s, slowest {max(seconds):.2f} s; exit codes {sorted({c for _, c in runs})}"]
    return Result(figures, how, notes=notes)


def _run(environment: dict[str, str]) -> tuple[float, int]:
    began = time.perf_counter()
    done = subprocess.run(
        [KAFKA_HEALTH, "diagnose", str(ROOT / Path(RECORDING))],
        env=environment,
        capture_output=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return time.perf_counter() - began, done.returncode
