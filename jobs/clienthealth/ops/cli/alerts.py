"""`kafka-health alerts`: write alert rules and Alertmanager's files, with an installation's addresses and labels."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from clienthealth.configuration import load


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options: the folder, and whether alerts may page yet."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--dry-run", action="store_true", help="lower every severity to info, so that no alert notifies anybody"
    )


def run(args: argparse.Namespace) -> int:
    """Write the files and print their paths."""
    build = importlib.import_module("clienthealth_exporters.alerts.build")
    print(*build.write(args.out, load(args.config), args.dry_run), sep="\n")
    return 0
