"""`kafka-health check-config`: the settings in force or what is wrong with them, and what spark-submit must know."""

from __future__ import annotations

import argparse

HELP = "print the settings in force (secrets masked), or say what is wrong with them"


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether to print all, or only what differs from the defaults."""
    parser.add_argument("--changed", action="store_true", help="only what differs from the defaults")
    parser.add_argument(
        "--spark-submit",
        choices=("client", "cluster"),
        metavar="MODE",
        help="instead the file for spark-submit --properties-file (heap, JVM flags, logging), by its --deploy-mode",
    )


def run(args: argparse.Namespace) -> int:
    """0; an unknown key or a wrong value raises SettingsError, whose code is 2."""
    from clienthealth.configuration import load
    from clienthealth.configuration.owners import read_owners
    from clienthealth.configuration.text import in_force

    if args.spark_submit:
        from clienthealth.streaming.session import submit_options

        options = submit_options(load(args.config), cluster=args.spark_submit == "cluster")
        print("\n".join(f"{name} {value}" for name, value in options.items()))
        return 0
    settings = load(args.config)
    read_owners(settings.owners.files)
    print(in_force(settings, changed_only=args.changed) or "# Every setting has its default.")
    return 0
