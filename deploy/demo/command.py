"""The commands `demo` (run the whole product on this machine) and `replay` (play recordings onto the input topics)."""

from __future__ import annotations

import argparse

from clienthealth.configuration import load
from deploy.demo import main
from deploy.demo.clients import CLIENTS
from deploy.demo.replay import replay


def run_demo(args: argparse.Namespace) -> int:
    """Run the demo, or list its clients. The exit code is that of `main.run`; the list returns 0."""
    if args.list:
        for name, client in CLIENTS.items():
            print(f"{name:<24} {'*' if client.default else ' '} {client.help}")
        print("\n* started by default")
        return 0
    return main.run(main.Options(args.seconds, args.expect, tuple(args.clients), args.dir, args.keep))


def run_replay(args: argparse.Namespace) -> int:
    """Publish the records of recordings in the order of their times; return 0. Raises the errors of `replay`."""
    replay(load(args.config), args.paths, args.speed, args.stream, args.keep_time)
    return 0


def names(text: str) -> tuple[str, ...]:
    """Return names from a text in which commas separate them; empty names are dropped."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def expected(text: str) -> tuple[str, ...]:
    """Return the failure modes that the demo must page, from comma-separated ids, or from 'none' (no page may come)."""
    return () if text == "none" else names(text)
