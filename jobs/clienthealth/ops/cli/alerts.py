"""`kafka-health alerts`: write alert rules and Alertmanager's files, with the URLs and labels of an installation."""

from __future__ import annotations

import argparse
import importlib

from clienthealth.configuration import load


def run(args: argparse.Namespace) -> int:
    """Write the alert rules and Alertmanager's files, and print their paths."""
    build = importlib.import_module("clienthealth_exporters.alerts.build")
    print(*build.write(args.out, load(args.config), args.dry_run), sep="\n")
    return 0
