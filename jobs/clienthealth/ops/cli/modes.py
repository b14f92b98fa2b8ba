"""`kafka-health modes`: the catalogue of failure modes."""

from __future__ import annotations

import argparse
import json
import textwrap

from clienthealth.modes import Mode, modes

HELP = "list the failure modes that are judged"

COLUMNS = 80


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--json", action="store_true", help="print a JSON array instead of text")


def run(args: argparse.Namespace) -> int:
    """Print every mode with one sentence each."""
    all_modes = list(modes().values())
    print(json.dumps([entry(mode) for mode in all_modes], indent=2) if args.json else table(all_modes))
    return 0


def entry(mode: Mode) -> dict[str, object]:
    """A mode's entry in the catalogue."""
    return {
        "id": mode.id,
        "title": mode.title,
        "summary": mode.summary,
        "kinds": sorted(mode.kinds),
        "evidence": list(mode.evidence),
        "absence": mode.absence,
    }


def table(all_modes: list[Mode]) -> str:
    """One block per mode: its id, whom it befalls, and its sentence."""
    blocks = []
    for mode in all_modes:
        kinds = ", ".join(sorted(mode.kinds))
        text = textwrap.fill(mode.summary, COLUMNS, initial_indent="  ", subsequent_indent="  ")
        blocks.append(f"{mode.id}  ({kinds})\n{text}")
    return "\n\n".join([*blocks, "Everything about one of them: kafka-health explain MODE"])
