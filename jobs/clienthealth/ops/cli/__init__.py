"""The command line: `kafka-health COMMAND`. `commands.toml` lists the commands, each with its module.

A module has `configure(parser)` and `run(args) -> exit code`; if several commands share it, these names end in
`_COMMAND`. A module is imported only when its command runs, so that a command without Spark starts at once and needs no
Spark.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from clienthealth.model.errors import DependencyError, HealthError
from clienthealth.model.tables import table
from clienthealth.platform.locations import of_checkout
from clienthealth.platform.secrecy import redacted

CONFIG = "settings in TOML (default: $KAFKA_HEALTH_CONFIG, else built-in)"
#: Commands for developers, described in CONTRIBUTING; the help for users leaves them out.
OF_THE_PROJECT = frozenset({"generate", "replay"})
#: Extra → the Python modules that it installs and that a command may fail to import.
EXTRAS = {
    "diagnose": ("numpy", "jinja2", "markupsafe", "kafka"),
    "exporters": ("prometheus_client", "markdown_it"),
    "mcp": ("mcp",),
    "spark": ("pyspark", "py4j", "delta", "pandas", "pyarrow"),
    "binary": ("google", "fastavro"),
}
#: Modules that `make setup` installs into a checkout and that no extra contains.
OF_A_CHECKOUT = frozenset({"grafana_client", "grafana_foundation_sdk", "hypothesis", "yaml", "confluent_kafka"})


#: Module → its commands with their help lines.
MODULES: Mapping[str, Mapping[str, str]] = table(Path(__file__).with_name("commands.toml"))


def commands() -> Mapping[str, str]:
    """Name and one-line help of every command."""
    return dict(sorted(command for of_module in MODULES.values() for command in of_module.items()))


def parser_for(name: str | None) -> argparse.ArgumentParser:
    """Return the parser. Only the module of command `name` is imported and configured."""
    parser = argparse.ArgumentParser(
        prog="kafka-health", description="Watches Kafka clients, judges their failure modes with evidence."
    )
    parser.add_argument("--version", action="version", version=f"kafka-health {version('kafka-client-health')}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_OfCommand)
    for command, text in commands().items():
        if command == name:
            sub = subparsers.add_parser(command, help=text, description=text)
            sub.add_argument("--config", metavar="FILE", help=CONFIG)
            module, of_module = next((name, helps) for name, helps in MODULES.items() if command in helps)
            imported = of_checkout(module) if "." in module else importlib.import_module(f"{__name__}.{module}")
            end = f"_{command}" if len(of_module) > 1 else ""
            getattr(imported, f"configure{end}")(sub)
            sub.set_defaults(run=getattr(imported, f"run{end}"))
        elif command not in OF_THE_PROJECT:
            subparsers.add_parser(command, help=text)
    return parser


def duration(text: str) -> float:
    """Parse an option's duration into seconds."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0 and not infinite")
    return seconds


class _OfCommand(argparse.ArgumentParser):
    """The parser of one command: errors about unknown options show this command's usage."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code: 130 on Ctrl-C; on an error the error's code, with its message alone."""
    args = list(sys.argv[1:] if argv is None else argv)
    sys.excepthook = _defect
    name = next((arg for arg in args if not arg.startswith("-")), None)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Output must not fail on foreign names, or on a terminal without full Unicode.
        sys.stdout.reconfigure(errors="replace")
    try:
        parsed = parser_for(name).parse_args(args)
        sys.exit(parsed.run(parsed))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except ModuleNotFoundError as error:
        module = (error.name or "").split(".")[0]
        if module in OF_A_CHECKOUT:
            why = "works in a checkout: run 'make setup' in it"
        elif extra := next((extra for extra, installed in EXTRAS.items() if module in installed), ""):
            why = f"needs the extra '{extra}': pip install 'kafka-client-health[{extra}]'"
        else:
            raise
        print(f"kafka-health: 'kafka-health {name}' {why}", file=sys.stderr)
        sys.exit(DependencyError.exit_code)
    except HealthError as error:
        print(f"kafka-health: {redacted(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)


def _defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback without secrets: an unexpected error is a defect of the product."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))
