"""`kafka-health export jvm|groups|prometheus`: the programs that feed the monitor and show its results."""

from __future__ import annotations

import argparse
import importlib
import sys
from types import ModuleType

from clienthealth.ops.cli import CONFIG

EXPORTERS = {
    "jvm": "read JVM clients through Jolokia: metrics and thread dumps",
    "groups": "read the committed offsets of all consumer groups",
    "prometheus": "serve client health to Prometheus, with a status page",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add one sub-command per exporter; only the chosen exporter is imported."""
    parsers = parser.add_subparsers(dest="exporter", metavar="EXPORTER", required=True)
    for name, text in EXPORTERS.items():
        sub = parsers.add_parser(name, help=text, description=text)
        # Accept --config here too, because people write options after the exporter's name.
        sub.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=CONFIG)
        if name in sys.argv:
            _program(name).configure(sub)


def run(args: argparse.Namespace) -> int:
    """Run the exporter."""
    from clienthealth.configuration import load
    from clienthealth.ops.cli._stderr import to_stderr

    to_stderr()
    code: int = _program(args.exporter).run(args, load(args.config))
    return code


def _program(name: str) -> ModuleType:
    return importlib.import_module(f"clienthealth_exporters.{name}.exporter")
