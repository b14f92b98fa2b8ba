"""`kafka-health diagnose PATH…`: post-mortem of whatever people attach to a ticket."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

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
    from clienthealth.diagnose.outcome import exit_code, json_lines
    from clienthealth.diagnose.report import show
    from clienthealth.model.errors import InputError
    from clienthealth.ops.cli._stderr import Bar

    with Bar(sys.stderr) as bar:
        result = examine(args.paths, load(args.config), sys.stdin.buffer, bar if sys.stderr.isatty() else None)
    if args.json:
        for line in json_lines(result.clients, result.inputs, result.also_seen):
            print(line)
    else:
        print(show(result.clients, result.inputs, result.dumps, args.verbose, result.also_seen))
    if args.html is not None:
        from clienthealth.diagnose.report import html_report

        page = html_report(result.clients, result.inputs, result.dumps, result.also_seen)
        try:
            args.html.write_bytes(page.encode("utf-8", "replace"))
        except OSError as error:
            raise InputError(f"{os.fspath(args.html)}: cannot be written: {error.strerror}") from error
    return exit_code(result.clients, result.inputs)
