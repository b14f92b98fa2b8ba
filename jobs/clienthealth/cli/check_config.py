"""`kafka-health check-config`: the settings in force, or what is wrong with them."""

from __future__ import annotations

import argparse

HELP = "print the settings in force (secrets masked), or say what is wrong with them"


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether to print all, or only what differs from the defaults."""
    parser.add_argument("--changed", action="store_true", help="only what differs from the defaults")


def run(args: argparse.Namespace) -> int:
    """0; an unknown key or a wrong value raises SettingsError, whose code is 2."""
    from clienthealth.settings import load
    from clienthealth.settings_text import in_force

    print(in_force(load(args.config), changed_only=args.changed) or "# Every setting has its default.")
    return 0
