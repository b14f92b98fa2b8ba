"""Record and judge real clients in random circumstances: `make lab ARGS="--seed 101 --cases 60"`.

The seed determines each case. Recordings stay in .cache/lab/SEED. Monitor and `diagnose` judge the files in a case's
folder `seen`; `case.json` and `truth.jsonl` contain what really happened.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.cases import drawn
from tests.lab.judge import STREAMED, judge, summaries, tables
from tests.lab.programs import compiled
from tests.lab.run import record

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.md")
#: The smallest seed with results that are kept. Smaller seeds are for the development of the lab.
FIRST_KEPT = 100


def main() -> None:
    parser = argparse.ArgumentParser(prog="make lab", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="number that determines the cases (default: 1)")
    parser.add_argument("--cases", type=int, default=60, help="number of cases (default: 60)")
    parser.add_argument("--jobs", type=int, default=6, help="number of cases that run at once (default: 6)")
    parser.add_argument("--only", default="", metavar="NAME,…", help="use only mechanisms with a NAME in their names")
    parser.add_argument(
        "--family", default="", metavar="NAME,…", help="use only client families with a NAME in their names"
    )
    parser.add_argument("--number", default="", metavar="N,…", help="run only the cases with these numbers")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for recordings (default: .cache/lab/SEED)")
    parser.add_argument("--judge-only", type=Path, metavar="FOLDER", help="only judge the recordings in FOLDER again")
    parser.add_argument("--go-on", action="store_true", help="record only the cases that are not recorded yet")
    parser.add_argument("--list", action="store_true", help="print the cases without running them")
    arguments = parser.parse_args()
    only, families = ([part for part in text.split(",") if part] for text in (arguments.only, arguments.family))
    cases = drawn(arguments.seed, arguments.cases, only, families)
    numbers = {int(part) for part in arguments.number.split(",") if part}
    cases = [case for case in cases if not numbers or case.number in numbers]
    if arguments.list:
        print("\n".join(f"{case.name}: {case.seen}" for case in cases))
        return
    out = arguments.judge_only or arguments.out or ROOT / ".cache" / "lab" / str(arguments.seed)
    out = out.resolve()
    if arguments.judge_only is None:
        for case in cases:
            if case.family.java:
                compiled(case.family)
        left = [case for case in cases if not (arguments.go_on and (out / case.name / "case.json").exists())]
        record(left, out, arguments.jobs, lambda text: print(text, file=sys.stderr, flush=True))
    folders = sorted(file.parent for file in out.glob("*/case.json"))
    folders = [folder for folder in folders if not numbers or int(folder.name[:3]) in numbers]
    report, matrix = judge(folders, min(2, os.cpu_count() or 1), 1 if numbers else STREAMED)
    print("\n".join([*report, "", *tables(matrix)]))
    if arguments.seed >= FIRST_KEPT and arguments.judge_only is None and not (only or families or numbers):
        _keep(arguments.seed, summaries(matrix))


def _keep(seed: int, rows: Sequence[str]) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with RESULTS.open("a", encoding="utf-8") as results:
        for row in rows:
            results.write(f"| {seed} | {datetime.now(UTC):%Y-%m-%d} | {commit.stdout.strip()} | {row}\n")


if __name__ == "__main__":
    main()
