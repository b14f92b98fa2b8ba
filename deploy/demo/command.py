"""The commands `demo` and `replay`: run the whole product on this machine; play recordings onto its topics."""

from __future__ import annotations

import argparse

from clienthealth.configuration import load
from deploy.demo import main
from deploy.demo.clients import CLIENTS
from deploy.demo.replay import replay


def run_demo(args: argparse.Namespace) -> int:
    """Run the demo.

    Returns 0 if all expected results came, 1 if one did not come in time, 130 if Ctrl-C came first.
    """
    if args.list:
        for name, client in CLIENTS.items():
            print(f"{name:<24} {'*' if client.default else ' '} {client.help}")
        print("\n* part of the default choice")
        return 0
    return main.run(main.Options(args.seconds, args.expect, tuple(args.clients), args.dir, args.keep))


def run_replay(args: argparse.Namespace) -> int:
    """Publish all records in the order of their times. Raises InputError."""
    replay(load(args.config), args.paths, args.speed, args.stream, args.keep_time)
    return 0


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def expected(text: str) -> tuple[str, ...]:
    """Parse the modes that the demo must find: their names, or 'none'."""
    return () if text == "none" else names(text)
