"""`kafka-health export jvm|groups|prometheus`: what feeds the monitor, and what shows its results."""

from __future__ import annotations

import argparse
import importlib
import sys

HELP = "export metrics of JVMs and consumer groups to Kafka, and client health to Prometheus"

EXPORTERS = {
    "jvm": ("clienthealth_exporters.jvm", "read JVM clients through Jolokia: metrics and thread dumps"),
    "groups": ("clienthealth_exporters.group_offsets", "read the committed offsets of all consumer groups"),
    "prometheus": ("clienthealth_exporters.prometheus", "serve client health to Prometheus, with a status page"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """One sub-command per exporter; only the one that is called is imported."""
    parsers = parser.add_subparsers(dest="exporter", metavar="EXPORTER", required=True)
    for name, (module, text) in EXPORTERS.items():
        sub = parsers.add_parser(name, help=text, description=text)
        # After the exporter's name is where people write it.
        sub.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        if name in sys.argv:
            importlib.import_module(module).configure(sub)


def run(args: argparse.Namespace) -> int:
    """Run the exporter."""
    from clienthealth.cli._logging import to_stderr
    from clienthealth.settings import load

    to_stderr()
    code: int = importlib.import_module(EXPORTERS[args.exporter][0]).run(args, load(args.config))
    return code
