"""The commands `demo` (run the whole system here) and `replay` (send recordings to Kafka)."""

from __future__ import annotations

import argparse

from clienthealth.configuration import load
from deploy.demo import main
from deploy.demo.clients import CLIENTS
from deploy.demo.replay import replay


def run_demo(args: argparse.Namespace) -> int:
    if args.list:
        for name, client in CLIENTS.items():
            print(f"{name:<24} {'*' if client.default else ' '} {client.help}")
        print("\n* started by default")
        return 0
    return main.run(main.Options(args.seconds, args.expect, tuple(args.clients), args.dir, args.keep))


def run_replay(args: argparse.Namespace) -> int:
    replay(load(args.config), args.paths, args.speed, args.stream, args.keep_time)
    return 0


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def expected(text: str) -> tuple[str, ...]:
    """Return the ids of modes that must cause a page. `text`: comma-separated ids, or 'none' to forbid all pages."""
    return () if text == "none" else names(text)
