"""`kafka-health diagnose` judges ticket attachments; `watch` judges running clients or a consumer group."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clienthealth.model.health_record import HealthRecord
    from clienthealth.monitor.incidents import Transition
    from clienthealth.settings import Settings


def run_diagnose(args: argparse.Namespace) -> int:
    """Judge the files in `args.paths`, print the result, and return its exit code (see `outcome.exit_code`).

    Raises InputError if no file can be read, or if the HTML report (`args.html`) cannot be written.
    """
    from clienthealth.configuration import load
    from clienthealth.diagnose.examine import examine
    from clienthealth.diagnose.outcome import exit_code, json_lines
    from clienthealth.diagnose.report import show
    from clienthealth.model.errors import InputError
    from clienthealth.ops.cli._stderr import Bar

    with Bar(sys.stderr) as bar:
        result = examine(args.paths, load(args.config), sys.stdin.buffer, bar if sys.stderr.isatty() else None)
    if args.json:
        for line in json_lines(result):
            print(line)
    else:
        print(show(result, args.verbose))
    if args.html is not None:
        from clienthealth.diagnose.report import html_report

        page = html_report(result)
        try:
            args.html.write_bytes(page.encode("utf-8", "replace"))
        except OSError as error:
            raise InputError(f"{os.fspath(args.html)}: cannot be written: {error.strerror}") from error
    return exit_code(result)


def run_watch(args: argparse.Namespace) -> int:
    """Watch processes or a consumer group, for `--for` seconds or until Ctrl-C.

    Return the same exit codes as `diagnose`. Raises InputError for wrong usage.
    """
    import logging

    from clienthealth.configuration import load
    from clienthealth.model.errors import InputError
    from clienthealth.ops.cli._stderr import to_stderr

    to_stderr(logging.WARNING)
    settings = load(args.config)
    if bool(args.group) == bool(args.targets):
        raise InputError("give processes (PID or URL) to watch, or --group NAME")
    if not args.group:
        return _processes(args, settings)
    if args.record or args.agent:
        raise InputError("--record and --agent work only with processes, not with --group")
    if args.bootstrap:
        settings = replace(settings, kafka=replace(settings.kafka, bootstrap_servers=args.bootstrap))
    return _group(args, settings)


def _processes(args: argparse.Namespace, settings: Settings) -> int:
    from clienthealth.diagnose.outcome import Diagnosis, exit_code, json_lines
    from clienthealth.diagnose.report import show
    from clienthealth.diagnose.watch.screen import Screen, endings, threads
    from clienthealth.diagnose.watch.session import Recorder, Session
    from clienthealth.diagnose.watch.watching import ended_instances, watch, watched
    from clienthealth.platform.stopping import stop_event

    session, stop = Session(settings, Recorder(args.record) if args.record else None), stop_event()
    screen = Screen(sys.stderr if args.json else sys.stdout)
    with ExitStack() as agents:
        processes = [watched(text, args.agent, settings, session, agents) for text in args.targets]

        running = list(processes)

        def after_step(changes: Sequence[Transition]) -> None:
            screen.changed(changes)
            for process in [process for process in running if process.ended_ms]:
                screen.ended(process)
                running.remove(process)
            screen.draw(session, processes)

        try:
            watch(processes, session, stop, args.seconds, after_step)
        finally:
            screen.clear()
    ended = ended_instances(processes)
    diagnosis = Diagnosis(session.clients(frozenset(ended)), dumps=session.dumps)
    for fault in session.faults:
        sys.stderr.write(f"some data or clients could not be judged: {fault}\n")
    if args.json:
        for line in json_lines(diagnosis, session.ended_processes(ended)):
            print(line)
    else:
        print(show(diagnosis, args.verbose), flush=True)
        screen.write((*threads(session, processes, args.verbose), *endings(processes, diagnosis.clients)))
    return exit_code(diagnosis)


def _group(args: argparse.Namespace, settings: Settings) -> int:
    import json
    import time

    from clienthealth.diagnose.watch.screen import Screen
    from clienthealth.diagnose.watch.watching import exit_code, table, watch_group
    from clienthealth.model.health_record import client_json
    from clienthealth.platform.stopping import stop_event

    screen, begin = Screen(sys.stderr if args.json else sys.stdout), time.monotonic()

    def show(record: HealthRecord) -> None:
        screen.table(table(record, time.monotonic() - begin))

    try:
        record = watch_group(args.group, settings, stop_event(), args.seconds, show)
    finally:
        screen.clear()
    if args.json:
        print(json.dumps({"client": client_json(record.client), **record.indicators}))
    else:
        print("\n".join(table(record, time.monotonic() - begin)))
    return exit_code(record)
