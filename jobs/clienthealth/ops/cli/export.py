"""`kafka-health export jvm|groups|prometheus`: run an exporter, which feeds the monitor or shows its results."""

from __future__ import annotations

import argparse
import importlib


def run(args: argparse.Namespace) -> int:
    """Run the exporter that `args.action` names, and return its exit code."""
    from clienthealth.configuration import load
    from clienthealth.ops.cli._stderr import to_stderr

    to_stderr()
    code: int = importlib.import_module(f"clienthealth_exporters.{args.action}.exporter").run(args, load(args.config))
    return code
