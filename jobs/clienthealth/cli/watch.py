"""`kafka-health watch PID|URL…`: is my client stuck now?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clienthealth.incidents import Transition

HELP = "is my client stuck now? watches JVMs of this machine (or Jolokia URLs), judges them, says why; needs no Kafka"


def configure(parser: argparse.ArgumentParser) -> None:
    """What is watched, for how long, and how the answer is given."""
    from clienthealth.diagnose.outcome import EXIT_CODES

    parser.add_argument(
        "targets",
        nargs="+",
        metavar="PID|URL",
        help="a Java process of this machine, or [SERVICE=]URL of a Jolokia agent",
    )
    parser.add_argument("--for", dest="seconds", type=_seconds, metavar="SECONDS", help="default: until Ctrl-C")
    parser.add_argument("--agent", type=Path, metavar="JAR", help="the Jolokia agent to attach (default: ours)")
    parser.add_argument("--json", action="store_true", help="at the end one JSON object per client and line")
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep what is read, for 'diagnose' and for a ticket")
    parser.add_argument("--verbose", action="store_true", help="all evidence and clients, however many")
    parser.epilog = EXIT_CODES


def run(args: argparse.Namespace) -> int:
    """Watch, print what is found as it is found, then the report; the exit code is that of `diagnose`."""
    import logging

    from clienthealth.cli._logging import to_stderr
    from clienthealth.configuration import load
    from clienthealth.diagnose.outcome import exit_code, json_lines
    from clienthealth.diagnose.report import show
    from clienthealth.platform.stopping import stop_event
    from clienthealth.watch.recorder import Recorder
    from clienthealth.watch.screen import Screen
    from clienthealth.watch.session import Session
    from clienthealth.watch.watching import ended_instances, watch, watched

    to_stderr(logging.WARNING)
    settings = load(args.config)
    session, stop = Session(settings, Recorder(args.record) if args.record else None), stop_event()
    screen = Screen(sys.stderr if args.json else sys.stdout)
    with ExitStack() as agents:
        processes = [watched(text, args.agent, settings, session, agents) for text in args.targets]

        def after_step(changes: Sequence[Transition]) -> None:
            screen.changed(changes)
            screen.draw(session, processes)

        try:
            watch(processes, session, stop, args.seconds, after_step)
        finally:
            screen.clear()
    clients = session.clients(ended_instances(processes))
    for fault in session.faults:
        sys.stderr.write(f"could not be judged: {fault}\n")
    if args.json:
        for line in json_lines(clients, ()):
            print(line)
    else:
        print(show(clients, (), session.dumps, args.verbose))
    return exit_code(clients)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds
