"""`kafka-client-failures`: copy the benchmark's recordings without `truth.json`, and score a tool's answers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from kafka_client_failures import blind, cases, score


def main() -> int:
    parser = argparse.ArgumentParser(prog="kafka-client-failures", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("list", help="print each case's id, true failure mode and description")
    blinded = commands.add_parser("blind", help="copy each case's data to a folder, without name and truth.json")
    blinded.add_argument("folder", type=Path)
    scored = commands.add_parser("score", help="score a JSON file that maps each case id to a list of failure modes")
    scored.add_argument("answers", type=Path)
    chosen = parser.parse_args()
    lines = []
    if chosen.command == "list":
        lines = [f"{case.id}  {case.expected_mode or 'control':<26}  {case.name}: {case.notes}" for case in cases()]
    elif chosen.command == "blind":
        lines = [f"{chosen.folder}: {blind(chosen.folder)} cases"]
    else:
        result = score(json.loads(chosen.answers.read_text(encoding="utf-8")))
        lines = [result.text(), *(f"false accusation: {name} had no {mode}" for name, mode in result.wrong)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
