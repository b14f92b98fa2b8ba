"""`make bench`: measure what the complete monitor costs, and compare it with targets and with Kafka Streams.

python -m tests.bench [NAME…] [--quick] [--records N] [--clients N] [--every S] [--days N] [--of DIR]
                      [--before COMMIT]

Without names, all measurements and the older benchmarks (bench_*.py) run, which takes two hours on two cores. Results
go to .cache/bench/NAME.json, and to results.json and RESULTS.md in tests/bench. A run with --quick only tests the
benchmark itself, and writes .cache/bench/quick/RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from kafka.errors import KafkaError

from clienthealth.model.errors import HealthError
from deploy.demo.processes import forget, spawn
from tests.bench import page
from tests.bench.measurements import Scope
from tests.bench.results import ROOT, Kept, conditions, save
from tests.support.ending import run

NAMES = (
    "backlog_canonical",
    "backlog_formats",
    "backlog_logs",
    "decode",
    "batch_cost",
    "small_batches",
    "step",
    "idle",
    "start",
    "onset",
    "live",
    "scale",
    "growth",
    "scaling",
    "fleet",
    "storm",
    "diagnose",
    "pushes",
    "watched",
    "year",
)
OTHERS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py")))
STOP_SECONDS = 150.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"measurements to run: {', '.join((*NAMES, *OTHERS))}")
    parser.add_argument("--quick", action="store_true", help="measure with a tenth of the records and for short times")
    parser.add_argument("--records", type=int, metavar="N", help="number of records in a backlog")
    parser.add_argument("--clients", type=int, metavar="N", help="number of clients in a history or live fleet")
    parser.add_argument("--every", type=int, metavar="S", help="report interval (s) of the clients in a live fleet")
    parser.add_argument("--days", type=int, metavar="N", help="number of days in a history")
    parser.add_argument("--of", type=Path, metavar="DIR", help="folder with a monitor's checkpoints and history")
    parser.add_argument("--before", metavar="COMMIT", help="measure that commit's monitor, too (backlog_canonical)")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in (*NAMES, *OTHERS)]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known names: {', '.join((*NAMES, *OTHERS))}")
    if len(asked.names) == 1 and asked.names[0] in NAMES:
        scope = Scope(asked.quick, asked.records, asked.clients, asked.days, asked.of, asked.before, asked.every)
        return _measure(asked.names[0], scope)
    given = {name: getattr(asked, name) for name in ("records", "clients", "days", "of", "before", "every")}
    options = ["--quick"] if asked.quick else []
    options += [text for name, value in given.items() if value for text in (f"--{name}", str(value))]
    failed = [name for name in asked.names or (*NAMES, *OTHERS) if _program(name, options) != 0]
    print(f"failed: {', '.join(failed)}" if failed else "all done", flush=True)
    return min(1, len(failed))


def _measure(name: str, scope: Scope) -> int:
    module = importlib.import_module(f"tests.bench.measurements.{name}")
    load, began = os.getloadavg()[0], time.monotonic()
    print(f"{name}: {module.TITLE} (load {load:.2f})", flush=True)
    try:
        result = module.measure(scope)
    except (HealthError, KafkaError, KafkaException, TimeoutError) as error:
        print(f"{name}: failed: {error}", flush=True)
        return 1
    if name == "live" and scope.clients:
        result = page.merged(name, result, scope.quick)
    kept = Kept(name, result, conditions(load, time.monotonic() - began))
    save(kept, scope.quick)
    written = page.update(_titles(), scope.quick)
    print("\n".join(page.lines(kept)), f"→ {written.relative_to(ROOT)}", sep="\n", flush=True)
    return 0


def _titles() -> dict[str, str]:
    return {name: importlib.import_module(f"tests.bench.measurements.{name}").TITLE for name in NAMES}


def _program(name: str, options: Sequence[str]) -> int:
    module = ["tests.bench", name, *options] if name in NAMES else [f"tests.bench.{name}"]
    print(f"== {name}", flush=True)
    process = spawn([sys.executable, "-m", *module], cwd=ROOT)
    try:
        return process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    finally:
        forget(process.pid)


if __name__ == "__main__":
    run(main)
