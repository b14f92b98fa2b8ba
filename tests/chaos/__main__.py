"""`make chaos`: cause one fault after another in the real stack, and compare its results with calculated results.

    python -m tests.chaos [--faults N] [--seed N] [--only KIND,…] [--resume]
    python -m tests.chaos --flood NAME,… [--share PART]

Each fault strikes during its own six minutes of input. The history of the fault's six minutes must equal the results
that `calculated.py` calculates without Spark and Kafka. Only records that the fault provably lost may be missing.

The exit code is 0 if all faults pass, 1 if a fault shows a difference, and 2 if the campaign itself failed. A campaign
with all kinds and fifty faults writes tests/chaos/RESULTS.md; other campaigns write .cache/chaos/RESULTS.md. `--resume`
repeats only the faults that have not passed. With `--flood`, the monitor gets excessive input instead of faults
(`floods.py`).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from clienthealth.model.errors import HealthError
from tests.chaos import disks, faults, floods, page
from tests.chaos.campaign import Campaign
from tests.chaos.outcomes import Outcome, Outcomes
from tests.chaos.world import gated
from tests.support.ending import run

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "chaos"
FAULTS = 50


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", type=int, default=FAULTS, metavar="N", help=f"number of faults (default: {FAULTS})")
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="number that determines the faults and their times (default: 1)",
    )
    parser.add_argument(
        "--only", default="", metavar="KIND,…", help=f"use only these kinds of faults: {', '.join(faults.KINDS)}"
    )
    parser.add_argument("--resume", action="store_true", help="repeat only the faults that have not passed")
    parser.add_argument(
        "--flood", default="", metavar="NAME,…", help=f"run these floods instead of faults: {', '.join(floods.FLOODS)}"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="PART",
        help="size of a flood, as a share of the full size (default: 1)",
    )
    asked = parser.parse_args(arguments)
    if asked.flood:
        return _flooded(asked.flood.split(","), asked.share)
    only = [name for name in asked.only.split(",") if name]
    if unknown := [name for name in only if name not in faults.KINDS]:
        parser.error(f"unknown kinds: {', '.join(unknown)}; known kinds: {', '.join(faults.KINDS)}")
    why = None if disks.inside() else disks.unavailable()
    skipped = {name: why for name, kind in faults.KINDS.items() if kind.disk and why is not None}
    for name, reason in skipped.items():
        say(f"skipped: {name}: {reason}")
    chosen = faults.campaign(asked.seed, asked.faults, only, skipped)
    FOLDER.mkdir(parents=True, exist_ok=True)
    outcomes = Outcomes(FOLDER / "outcomes.json", asked.seed, chosen)
    try:
        if asked.resume:
            outcomes.resume()
        if todo := outcomes.todo(chosen):
            say(f"{len(todo)} faults, seed {asked.seed}: {' '.join(fault.kind.name for fault in todo)}")
            _tried(todo, outcomes, asked.seed)
    except (HealthError, KafkaException) as error:
        say(f"the campaign failed: {error}")
        return 2
    whole = not only and len(chosen) >= FAULTS
    written = (ROOT / "tests" / "chaos" if whole else FOLDER) / "RESULTS.md"
    text = page.text(outcomes, len(chosen), skipped, asked.seed, floods.kept(FOLDER))
    written.write_text(text, encoding="utf-8")
    passed = sum(outcome.passed for outcome in outcomes.all)
    say(f"{passed} of {len(chosen)}  → {written.relative_to(ROOT)}")
    return int(passed < len(chosen))


def _flooded(names: Sequence[str], share: float) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name in names:
        try:
            flood = floods.run(name, share, FOLDER)
        except HealthError as error:
            say(f"{name}: the flood failed: {error}")
            return 2
        say("\n".join([name, *(f"  {line}" for line in flood.lines), *(f"  WRONG {line}" for line in flood.wrong)]))
        wrong += len(flood.wrong)
    return int(wrong > 0)


def _tried(todo: Sequence[faults.Fault], outcomes: Outcomes, seed: int) -> None:
    began, before = time.monotonic(), outcomes.seconds

    def keep(outcome: Outcome) -> None:
        outcomes.seconds = before + time.monotonic() - began
        outcomes.keep(outcome)

    with tempfile.TemporaryDirectory(prefix="kafka-health-chaos-") as folder:
        try:
            with gated(Path(folder) / "broker") as cluster:
                Campaign(cluster, Path(folder), todo, seed, say, keep).run()
        finally:
            for log in Path(folder).glob("**/*.log"):
                shutil.copy(log, FOLDER / "-".join(log.relative_to(folder).parts))


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    disks.enter()
    run(main)
