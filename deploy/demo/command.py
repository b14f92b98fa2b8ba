"""The commands `demo` and `replay`: run the whole product on this machine; play recordings onto its topics."""

from __future__ import annotations

import argparse
from pathlib import Path

from clienthealth.configuration import load
from clienthealth.ops.cli import duration
from deploy.demo import main
from deploy.demo.clients import CLIENTS
from deploy.demo.replay import replay


def configure_demo(parser: argparse.ArgumentParser) -> None:
    """Add the options: duration, clients, and the failures that the demo must find."""
    parser.add_argument(
        "--for",
        dest="seconds",
        type=duration,
        metavar="SECONDS",
        help="end after this time (default: at Ctrl-C); exit 0 if every lasting failure is still shown then, with "
        "one page each, and no other client was accused and no other page sent, else 1",
    )
    parser.add_argument(
        "--expect",
        type=lambda text: () if text == "none" else _names(text),
        metavar="MODE,…",
        help="exit 0 once each of these modes has been proved and its critical alert delivered, 1 if not in time, or "
        "if a client is accused or an alert delivered without cause; 'none': exit 0 if neither happens all the "
        "time",
    )
    parser.add_argument(
        "--clients", type=_names, default=(), metavar="NAME,…", help="which clients to start; --list names them"
    )
    parser.add_argument("--list", action="store_true", help="list the clients and end")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="folder of the run (default: a new one in the cache)")
    parser.add_argument("--keep", action="store_true", help="keep the brokers' data and the checkpoints as well")


def run_demo(args: argparse.Namespace) -> int:
    """Run the demo. Returns 0; 1 if an expected result did not come in time; 130 if Ctrl-C came before it."""
    if args.list:
        for name, client in CLIENTS.items():
            print(f"{name:<24} {'*' if client.default else ' '} {client.help}")
        print("\n* part of the default choice")
        return 0
    return main.run(main.Options(args.seconds, args.expect, args.clients, args.dir, args.keep))


def configure_replay(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to play, how fast, and onto which topics if the files' names do not show it."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder of a recording, or file")
    parser.add_argument("--speed", type=float, default=1.0, metavar="N", help="times as fast as it happened (1)")
    parser.add_argument(
        "--stream", choices=("metrics", "logs"), help="the topic of files with a name that does not show it"
    )
    parser.add_argument("--keep-time", action="store_true", help="leave the recorded times as they are")


def run_replay(args: argparse.Namespace) -> int:
    """Publish all records in the order of their times. Raises InputError."""
    replay(load(args.config), args.paths, args.speed, args.stream, args.keep_time)
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
