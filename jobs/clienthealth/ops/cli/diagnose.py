"""`kafka-health diagnose PATH…`: post-mortem of whatever people attach to a ticket."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clienthealth.diagnose.diagnosis import Diagnosis

HELP = "judge whatever people attach: logs, thread dumps, metrics, recordings; files, folders, archives"


def configure(parser: argparse.ArgumentParser) -> None:
    """The paths to read, and whether a person or a machine reads the answer."""
    from clienthealth.diagnose.outcome import EXIT_CODES

    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder, file, archive, or - for stdin")
    parser.add_argument("--json", action="store_true", help="one JSON object per client and line")
    parser.add_argument("--verbose", action="store_true", help="all evidence, inputs and clients, however many")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write one self-contained page for a ticket")
    parser.epilog = EXIT_CODES


def run(args: argparse.Namespace) -> int:
    """Read, judge, print. Raises InputError where nothing can be read, or the page cannot be written."""
    from clienthealth.configuration import load
    from clienthealth.diagnose.examine import examine
    from clienthealth.diagnose.outcome import exit_code
    from clienthealth.ops.cli._stderr import Bar

    with Bar(sys.stderr) as bar:
        result = examine(args.paths, load(args.config), sys.stdin.buffer, bar if sys.stderr.isatty() else None)
    _print(result, args.json, args.verbose)
    if args.html is not None:
        _write_page(result, args.html)
    return exit_code(result.clients, result.inputs)


def _print(result: Diagnosis, as_json: bool, verbose: bool) -> None:
    # File names of other systems, and terminals that know less than Unicode, must not end the report.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    if as_json:
        from clienthealth.diagnose.outcome import json_lines

        for line in json_lines(result.clients, result.inputs, result.also_seen):
            print(line)
    else:
        from clienthealth.diagnose.report import show

        print(show(result.clients, result.inputs, result.dumps, verbose, result.also_seen))


def _write_page(result: Diagnosis, file: Path) -> None:
    from clienthealth.diagnose.html_report import html_report
    from clienthealth.model.errors import InputError

    try:
        file.write_bytes(
            html_report(result.clients, result.inputs, result.dumps, result.also_seen).encode("utf-8", "replace")
        )
    except OSError as error:
        raise InputError(f"{os.fspath(file)}: cannot be written: {error.strerror}") from error
