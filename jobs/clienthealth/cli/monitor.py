"""`kafka-health monitor`: the streaming job."""

from __future__ import annotations

import argparse

HELP = "read client metrics and logs, judge them, publish health, incidents and history"


def configure(parser: argparse.ArgumentParser) -> None:
    """No options of its own: everything is in the settings."""


def run(args: argparse.Namespace) -> int:
    """Run until it is told to stop."""
    from clienthealth.cli._logging import to_stderr
    from clienthealth.settings import load
    from clienthealth.streaming.monitor import run as run_monitor
    from clienthealth.streaming.session import session

    settings = load(args.config)
    to_stderr()
    run_monitor(session("kafka-client-health", settings), settings)
    return 0
