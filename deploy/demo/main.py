"""Run the demo: start the product and clients, and check the monitor's verdicts."""

from __future__ import annotations

import fcntl
import json
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clienthealth.model.errors import DependencyError, InputError
from clienthealth.modes import modes
from clienthealth.platform.jars import has_compiler, java, version
from deploy.demo import alerting, jars, lasting
from deploy.demo.board import Board, account
from deploy.demo.client import DemoClient
from deploy.demo.clients import CLIENTS
from deploy.demo.progress import Course, unexplained
from deploy.demo.running import Running
from deploy.demo.stack import Stack
from deploy.demo.webhook import Page

LOOK_SECONDS = 1.0
KEPT_RUNS = 3
CATCH_UP_SECONDS = 60.0
BULKY = ("broker*/data", "cluster/*/data", "legacy/data", "legacy/zookeeper", "checkpoints", "alerting/prometheus")


@dataclass(frozen=True)
class Options:
    """The options of the demo.

    `seconds`  duration from the start of the clients; None: until Ctrl-C
    `expect`   ids of the failure modes that must cause a page; empty: all pages are forbidden; None: see below
    `clients`  names of the clients to start; empty: the default clients
    `folder`   the folder of the run; None: a new folder
    `keep`     True if the data of brokers and monitor is kept after the run

    With `seconds` but without `expect`, each failure must cause exactly one page. Without `seconds` and without
    `expect`, nothing is checked.
    """

    seconds: float | None = None
    expect: Sequence[str] | None = None
    clients: Sequence[str] = ()
    folder: Path | None = None
    keep: bool = False


def run(options: Options) -> int:
    """Run the demo and return its exit code.

    0    all requirements (see `Options`) are met, or Ctrl-C ended a run without `expect`
    1    a requirement is not met, a verdict or an alert was wrong, or records were lost
    130  Ctrl-C ended a run with `expect`

    Raises HealthError if a program is missing or a process of the product ends.
    """
    clients = chosen(options)
    _check_environment(options)
    board = Board()
    for missing in alerting.missing():
        board.say(f"{missing}: no alert will fire and nobody will be paged; everything else works")
    with _run_folder(options) as folder:
        try:
            with _signals_interrupt(), Stack(folder, board.say) as stack:
                return _perform(options, clients, stack, board)
        finally:
            board.say(f"ended; logs, history and result.json are in {folder}")
            if not options.keep:
                _remove_bulky(folder)


def chosen(options: Options) -> list[DemoClient]:
    """Return the clients to start.

    Raises InputError for an unknown client, or for an expected mode without a client.
    """
    unknown = [name for name in options.clients if name not in CLIENTS]
    if unknown:
        raise InputError(f"unknown clients: {', '.join(unknown)}; known clients: {', '.join(CLIENTS)}")
    names = options.clients or [name for name, client in CLIENTS.items() if client.default]
    clients = [CLIENTS[name] for name in names]
    for mode in options.expect or ():
        if mode not in modes():
            raise InputError(f"unknown mode '{mode}'; known modes: {', '.join(modes())}")
        if mode not in {client.mode for client in clients}:
            raise InputError(f"none of the clients {', '.join(names)} shows the mode '{mode}'")
    return clients


def _perform(options: Options, clients: Sequence[DemoClient], stack: Stack, board: Board) -> int:
    stack.start(clients)
    board.say(f"status page    {stack.status_page}/")
    if stack.alerting is not None:
        board.say(f"Prometheus     {stack.alerting.prometheus_url}/alerts")
        board.say(f"Alertmanager   {stack.alerting.alertmanager_url}/")
    board.say(f"Kafka          {stack.bootstrap_servers}")
    for part, log in stack.logs().items():
        board.say(f"log of {part:<14} {log}")
    begun = _now()
    stack.start_clients(clients)
    board.say("everything runs; failures begin within a minute; Ctrl-C ends everything")
    courses = [Course(client, stack.running[client.name]) for client in clients]
    interrupted = False
    try:
        _watch(options, courses, stack, board)
    except KeyboardInterrupt:
        interrupted = True
    result = [course.as_json() for course in courses]
    (stack.run_folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for line in account(courses):
        board.say(line)
    board.say(f"review: kafka-health review --config {stack.settings_file} --from {begun} --to {_now()}")
    pages = stack.webhook.pages
    for line in lasting.report(courses, pages):
        board.say(line)
    lacking = []
    if options.expect is not None:
        lacking = shortcomings(options.expect, courses, pages)
    elif options.seconds is not None and not interrupted:
        now_ms, pager = int(time.time() * 1000), stack.alerting is not None
        lacking = lasting.shortcomings(courses, pages, options.seconds, now_ms, pager)
        if not lacking:
            text = "each failure that began is still shown, and caused at most one page (critical alert)"
            board.say(f"{text}; no other client was accused")
    if not interrupted:
        lacking = [*lacking, *_lost(courses, stack, board)]
    for sentence in lacking:
        board.say(sentence)
    if interrupted:
        return 0 if options.expect is None else 130
    return int(bool(lacking))


def _watch(options: Options, courses: Sequence[Course], stack: Stack, board: Board) -> None:
    deadline = None if options.seconds is None else time.monotonic() + options.seconds
    seen_pages = 0
    begun: set[str] = set()
    while deadline is None or time.monotonic() < deadline:
        stack.check()
        states, pages = stack.states(), stack.webhook.pages
        for course in courses:
            name = course.client.name
            if course.running.onset_ms is not None and name not in begun:
                begun.add(name)
                what = "the failure" if course.client.mode else "harmless behaviour that looks like a failure"
                board.say(f"{name}: {what} has begun")
            news = course.take_states(states)
            news += course.take_timeline()
            news += [text for page in pages[seen_pages:] if (text := course.take_page(page))]
            for text in news:
                board.say(f"{name}: {text}")
        seen_pages = len(pages)
        board.show(courses)
        if options.expect and not shortcomings(options.expect, courses, pages):
            return
        time.sleep(LOOK_SECONDS)


def _lost(courses: Sequence[Course], stack: Stack, board: Board) -> Iterator[str]:
    """Yield a sentence about each loss of acknowledged records on the cluster."""
    by_topics: dict[str, list[Running]] = {}
    for course in courses:
        if course.client.broker == "cluster" and course.client.outage is None:
            by_topics.setdefault(",".join(course.client.topics), []).append(course.running)

    def count(topics: str, what: str) -> int:
        return sum(running.counters[what] for running in by_topics[topics])

    if by_topics:
        stack.cluster().settle()
    for topics in by_topics:
        acknowledged, stored = count(topics, "acknowledged"), stack.cluster().stored(topics.split(","))
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while 0 < count(topics, "consumed") < acknowledged and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        consumed = count(topics, "consumed")
        board.say(
            f"{topics}: {acknowledged} records acknowledged, {count(topics, 'failed')} failed; {stored} stored, "
            f"{consumed} consumed"
        )
        if stored < acknowledged:
            yield f"wrong: {topics}: {acknowledged - stored} of {acknowledged} acknowledged records are lost"
        if 0 < consumed < acknowledged:
            yield f"wrong: {topics}: {acknowledged - consumed} of {acknowledged} acknowledged records were not consumed"


def shortcomings(expect: Sequence[str], courses: Sequence[Course], pages: Sequence[Page]) -> list[str]:
    """Return one sentence per problem.

    A problem is a missing page, a verdict with too few kinds of evidence, a wrong verdict, or an unexplained alert.
    """
    sentences = []
    for mode in expect:
        showing = [course for course in courses if course.client.mode == mode]
        course = max(showing, key=lambda course: (mode in course.paged, len(course.kinds.get(mode, ()))))
        kinds = sorted(course.kinds.get(mode, ()))
        if mode not in course.paged:
            status = course.now.get(mode, "unknown")
            onset = "has begun" if course.running.onset_ms is not None else "has not begun"
            sentences.append(
                f"missing: no page came for {mode}. {course.client.name} {onset} to fail, and its verdict is {status}"
            )
        elif len(kinds) < course.client.kinds:
            sentences.append(
                f"missing: evidence for {mode}: {course.client.name} needs {course.client.kinds} kinds of evidence, "
                f"but has only {', '.join(kinds)}"
            )
    for course in courses:
        if course.wronged:
            state = "healthy" if course.client.mode is None else f"failing by {course.client.mode}"
            sentences.append(
                f"wrong: {course.client.name} is {state} but was accused of {', '.join(sorted(course.wronged))}"
            )
    return sentences + unexplained(pages, courses)


def _check_environment(options: Options) -> None:
    path = java()
    version(path)
    if not has_compiler(path):
        raise DependencyError(
            f"{path} is a runtime without compiler, which cannot run the demo's clients from their sources; install "
            "a JDK (Debian: apt-get install openjdk-17-jdk-headless)"
        )
    if options.expect is not None and alerting.missing():
        raise DependencyError(f"--expect needs Prometheus and Alertmanager: {'; '.join(alerting.missing())}")
    for name in jars.SETS:
        jars.classpath(name)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    # A program ignores SIGINT if a shell started the program in the background. Restore Python's handler.
    previous[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _run_folder(options: Options) -> Iterator[Path]:
    if options.folder is not None:
        folder = options.folder.resolve()
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty; each run needs a folder of its own")
    else:
        folder = jars.cache() / "demo" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        _remove_old_runs(folder.parent)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _remove_old_runs(folder: Path) -> None:
    runs = sorted(folder.glob("*/lock"))
    for lock_file in runs[: max(0, len(runs) - KEPT_RUNS + 1)]:
        with lock_file.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(lock_file.parent)


def _remove_bulky(folder: Path) -> None:
    for pattern in BULKY:
        for path in folder.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
