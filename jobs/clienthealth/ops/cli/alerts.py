"""`kafka-health alerts`: the rules of Prometheus and the routes of Alertmanager for this installation."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

HELP = "write the alert rules and Alertmanager's files, with the addresses and labels of your settings"


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, and whether anybody is to be woken yet."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--dry-run", action="store_true", help="lower every severity to info, which is routed to nobody"
    )


def run(args: argparse.Namespace) -> int:
    """Write the files and name them."""
    from clienthealth.configuration import load

    build = importlib.import_module("clienthealth_exporters.alerts.build")
    print(*build.write(args.out, load(args.config), args.dry_run), sep="\n")
    return 0
