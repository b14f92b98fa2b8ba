"""The command line: `kafka-health COMMAND`. `commands.toml` lists the commands, each with its module and options.

A command's module has a function `run(args)` (or `run_COMMAND`), which returns the exit code. A module is imported only
when its command runs: most commands do not need Spark.
"""

from __future__ import annotations

import argparse
import importlib
import io
import pkgutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import msgspec

from clienthealth.model.errors import DependencyError, HealthError
from clienthealth.model.tables import converted, table
from clienthealth.platform.locations import of_checkout
from clienthealth.platform.secrecy import redacted

CONFIG = "settings in TOML (default: $KAFKA_HEALTH_CONFIG, else built-in)"
#: Commands for developers, which the help for users leaves out.
OF_THE_PROJECT = frozenset({"generate", "replay"})
#: Maps each extra of the package kafka-client-health to the modules that the extra installs.
EXTRAS = {
    "diagnose": ("numpy", "jinja2", "markupsafe", "kafka"),
    "exporters": ("prometheus_client", "markdown_it"),
    "mcp": ("mcp",),
    "spark": ("pyspark", "py4j", "delta", "pandas", "pyarrow"),
    "binary": ("google", "fastavro"),
}
#: Modules that only `make setup` installs.
OF_A_CHECKOUT = frozenset({"grafana_client", "grafana_foundation_sdk", "hypothesis", "yaml", "confluent_kafka"})


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command of `commands.toml`. The comment at the head of `commands.toml` explains the fields."""

    help: str
    description: str = ""
    epilog: str = ""
    options: Mapping[str, str | dict[str, Any]] = {}
    action: str = ""
    actions: Mapping[str, Command] = {}

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the options and subcommands (`actions`) of this command to its parser."""
        parser.description = self.description or self.help
        parser.epilog = pkgutil.resolve_name(self.epilog) if self.epilog else None
        groups: dict[str, Any] = {"": parser}
        for name, stated in self.options.items():
            flag = {"action": "store_true", "help": stated or argparse.SUPPRESS}
            row: dict[str, Any] = flag if isinstance(stated, str) else {**stated}
            for key in ("type", "choices"):
                if isinstance(imported := row.get(key), str):
                    row[key] = pkgutil.resolve_name(imported if ":" in imported else f"builtins:{imported}")
            if (group := row.pop("group", "")) not in groups:
                groups[group] = parser.add_argument_group(group)
            groups[group].add_argument(name, **row)
        if self.actions:
            parsers = parser.add_subparsers(dest="action", metavar=self.action, required=True)
            for name, action in self.actions.items():
                sub = parsers.add_parser(name, help=action.help)
                # Users also write --config after an action: `export jvm --config FILE`.
                sub.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=CONFIG)
                action.configure(sub)


MODULES = converted(
    table(Path(__file__).with_name("commands.toml")), dict[str, dict[str, Command]], "ops/cli/commands.toml"
)


def commands() -> Mapping[str, Command]:
    """Return all commands, sorted by name."""
    return dict(sorted(command for of_module in MODULES.values() for command in of_module.items()))


def parser_for(name: str | None) -> argparse.ArgumentParser:
    """Return the parser of all commands.

    Only the module of command `name` is imported, and only the options of this command are added.
    """
    parser = argparse.ArgumentParser(
        prog="kafka-health", description="Watches Kafka clients, and reports their failures with evidence."
    )
    parser.add_argument("--version", action="version", version=f"kafka-health {version('kafka-client-health')}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_OfCommand)
    for command, stated in commands().items():
        if command == name:
            sub = subparsers.add_parser(command, help=stated.help)
            sub.add_argument("--config", metavar="FILE", help=CONFIG)
            module, of_module = next((name, listed) for name, listed in MODULES.items() if command in listed)
            imported = of_checkout(module) if "." in module else importlib.import_module(f"{__name__}.{module}")
            sub.set_defaults(run=getattr(imported, f"run_{command}" if len(of_module) > 1 else "run"))
            stated.configure(sub)
        elif command not in OF_THE_PROJECT:
            subparsers.add_parser(command, help=stated.help)
    return parser


def duration(text: str) -> float:
    """Parse an option's value as seconds.

    Raises ValueError if the text is not a number, and ArgumentTypeError if the number is not positive and finite.
    """
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be a positive, finite number")
    return seconds


class _OfCommand(argparse.ArgumentParser):
    """The parser of one command: its errors show only the usage of this command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its exit code.

    The exit code is 130 on Ctrl-C, or on Ctrl-D at a question, and 141 if the reader of the output is gone. A
    HealthError prints only its message, and sets the exit code. If `argv` is None, the arguments of this process are
    used.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    sys.excepthook = _defect
    name = next((arg for arg in args if not arg.startswith("-")), None)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Client ids may have characters that the terminal cannot show.
        sys.stdout.reconfigure(errors="replace")
    try:
        parsed = parser_for(name).parse_args(args)
        sys.exit(parsed.run(parsed))
    except (KeyboardInterrupt, EOFError):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except ModuleNotFoundError as error:
        module = (error.name or "").split(".")[0]
        if module in OF_A_CHECKOUT:
            why = "works only in a checkout of the repository: run 'make setup' there"
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
    """Print the traceback of an unexpected error, so that people can report the defect. Secrets are hidden."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))
