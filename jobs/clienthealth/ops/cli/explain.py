"""`kafka-health explain MODE`: what a failure mode means, what it rests on, what only looks like it, what to do."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping
from typing import Any

from clienthealth.configuration import load
from clienthealth.model.errors import InputError
from clienthealth.modes import Mode, modes
from clienthealth.ops.cli.modes import COLUMNS, entry
from clienthealth.settings.fields import keys

HELP = "explain a failure mode: meaning, thresholds in force, evidence, what to do"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("mode", metavar="MODE", help="a failure mode as `kafka-health modes` lists it")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Print all that is known of a mode. Raises InputError where there is no such mode."""
    mode = modes().get(args.mode)
    if mode is None:
        raise InputError(f"there is no failure mode '{args.mode}'; known are {', '.join(modes())}")
    explained = explanation(mode, load(args.config).modes.get(mode.id, {}))
    print(json.dumps(explained, indent=2, ensure_ascii=False) if args.json else text(explained))
    return 0


def explanation(mode: Mode, overrides: Mapping[str, float]) -> dict[str, Any]:
    """All about a mode, with the thresholds that the settings put in force."""
    return {
        **entry(mode),
        "impact": mode.impact,
        "action": mode.advice,
        "confused_with": list(mode.confused_with),
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
        "symptoms": [
            wording.id for line in mode.lines for wording in line.wordings if line not in mode.reads and not line.relief
        ],
        "background": [" ".join(part.split()) for part in mode.background.split("\n\n")],
    }


def text(explained: Mapping[str, Any]) -> str:
    """The explanation for a person, 80 columns wide."""
    judged = "when the client has gone" if explained["absence"] else "while the client reports"
    lines = [
        explained["title"],
        "=" * len(explained["title"]),
        "",
        _paragraph(explained["summary"]),
        _paragraph(explained["impact"]),
    ]
    lines += ["", "What to do", _paragraph(explained["action"], "  ")]
    lines += ["", "How it comes about, and how it is recognised"]
    for part in explained["background"]:
        lines += [_paragraph(part, "  "), ""]
    lines += ["Not to be confused with", *(_paragraph(other, "  - ") for other in explained["confused_with"])]
    lines += ["", "Thresholds in force"]
    for limit in explained["thresholds"]:
        changed = "" if limit["value"] == limit["default"] else f" (set; the default is {limit['default']:g})"
        lines += [f"  {limit['name']} = {limit['value']:g}{changed}", _paragraph(limit["reason"], "      ")]
    lines += ["", "Evidence", _paragraph(f"{', '.join(explained['evidence'])}; judged {judged}", "  ")]
    if explained["log_lines"]:
        lines += ["", "Log lines that the judgement looks at", _paragraph(", ".join(explained["log_lines"]), "  ")]
    if explained["symptoms"]:
        lines += ["", "Further lines, which keep its incident open", _paragraph(", ".join(explained["symptoms"]), "  ")]
    lines += ["", _paragraph(f"Befalls: {', '.join(explained['kinds'])}. Id: {explained['id']}.")]
    return "\n".join(lines)


def _paragraph(words: str, indent: str = "") -> str:
    return textwrap.fill(
        words.replace("`", ""),
        COLUMNS,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
