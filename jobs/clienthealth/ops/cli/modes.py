"""`kafka-health modes` lists the failure modes; `kafka-health explain MODE` prints everything about one mode."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping
from typing import Any

from clienthealth.configuration import load
from clienthealth.model.errors import InputError
from clienthealth.modes import Mode, modes
from clienthealth.platform.html_page import templates
from clienthealth.settings.fields import keys

COLUMNS = 80


def run_modes(args: argparse.Namespace) -> int:
    """Print every failure mode with its one-sentence description."""
    all_modes = list(modes().values())
    print(json.dumps([entry(mode) for mode in all_modes], indent=2) if args.json else table(all_modes))
    return 0


def entry(mode: Mode) -> dict[str, object]:
    """Return the short description of a failure mode as a dict for JSON, without thresholds and background."""
    return {
        "id": mode.id,
        "title": mode.title,
        "summary": mode.summary,
        "kinds": sorted(mode.kinds),
        "evidence": list(mode.evidence),
        "absence": mode.absence,
    }


def table(all_modes: list[Mode]) -> str:
    """Format failure modes as text: for each mode its id, the kinds of client and the one-sentence description."""
    blocks = []
    for mode in all_modes:
        kinds = ", ".join(sorted(mode.kinds))
        text = textwrap.fill(mode.summary, COLUMNS, initial_indent="  ", subsequent_indent="  ")
        blocks.append(f"{mode.id}  ({kinds})\n{text}")
    return "\n\n".join([*blocks, "Everything about a mode: kafka-health explain MODE"])


def run_explain(args: argparse.Namespace) -> int:
    """Print everything about the failure mode `args.mode`. Raises InputError if `args.mode` is no failure mode."""
    if (mode := modes().get(args.mode)) is None:
        raise InputError(f"there is no failure mode '{args.mode}'; known modes: {', '.join(modes())}")
    explained = explanation(mode, load(args.config).modes.get(mode.id, {}))
    print(json.dumps(explained, indent=2, ensure_ascii=False) if args.json else text(explained))
    return 0


def explanation(mode: Mode, overrides: Mapping[str, float]) -> dict[str, Any]:
    """Return everything about a failure mode as a dict for JSON, with the thresholds in force.

    `overrides`: maps each threshold that the settings change to its new value.
    """
    return {
        **entry(mode),
        "impact": mode.impact,
        "action": mode.advice,
        "confused_with": [confusion.looks_like for confusion in mode.confusions],
        "thresholds": [
            {
                "name": key.name,
                "value": overrides.get(key.name, key.default),
                "default": key.default,
                "bounds": key.range,
                "reason": key.reason,
            }
            for key in keys(type(mode.thresholds)).values()
        ],
        "log_lines": [wording.id for line in mode.reads for wording in line.wordings],
        "symptoms": [wording.id for line in mode.lines for wording in line.wordings if line not in mode.reads],
        "background": [" ".join(part.split()) for part in mode.background.split("\n\n")],
    }


def text(explained: Mapping[str, Any]) -> str:
    """Format the result of `explanation` as plain text, 80 columns wide."""
    return templates("clienthealth.ops.cli").get_template("explain.txt.j2").render(explained)
