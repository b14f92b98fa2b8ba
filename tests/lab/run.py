"""Run several cases at once on one broker, and store what was observed."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError

from tests.lab.cases import Case, described
from tests.lab.programs import Program, dump_command, start
from tests.lab.seen import ROUTES, Eyes, now_ms, write
from tests.lab.world import EVENTS, Scene, Way, World

WORKS_SECONDS = 60.0
LINGER_SECONDS = 10.0
AGAIN_SECONDS = 40.0
FEED_SECONDS = 0.1


class Run:
    def __init__(self, case: Case, world: World, way: Way, folder: Path) -> None:
        self.case, self.world, self.way, self.folder = case, world, way, folder
        topic = f"orders-{case.number:03}-{now_ms() % 100_000}"
        self.topics = [topic, f"{topic}-refunds", f"{topic}-returns"][: int(case.options.get("topics", "1"))]
        self.legacy = case.family.program == "Legacy"
        self.eyes = Eyes()
        self.timeline: dict[str, int] = {}
        self.fed = 0
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []
        partitions = int(case.options["clients"]) * (1 + case.number % 2)
        world.create([*self.topics, f"{topic}-out"], partitions, self.legacy)
        way.open()
        self.scene = Scene(world, way, self.topics, lambda number: self.program.signal(number), self.topics)
        if case.mechanism.early:
            EVENTS[case.mechanism.world].begin(self.scene)
        self.servers = world.through.get(case.options.get("through", ""), way.servers)
        if self.legacy:
            self.servers = world.legacy()[0].zookeeper_connect
        self._mark("start")
        self.program: Program = start(case, folder / "work", self.servers, self.topics)

    def play(self) -> None:
        case = self.case
        try:
            if case.mechanism.role == "consumer":
                self._beside(self._feed)
            route = ROUTES.get(case.seen.metrics)
            read = (lambda: route(self.program.port, case.mechanism.role)) if route else None
            self._threads += self.eyes.follow(read, case.seen.interval, self.program.log)
            self._works()
            self._mark("works")
            begin = time.monotonic()
            self._beside(self._weather, begin)
            self._beside(self._dumps, begin + case.onset)
            self._sleep(begin + case.onset)
            self._onset()
            if case.mechanism.again:
                self._again()
            end = begin + case.onset + case.after
            if case.lasts is not None:
                self._sleep(min(begin + case.onset + case.lasts, end))
                self._over()
            self._sleep(end)
        finally:
            self._finish()

    def _mark(self, what: str) -> None:
        self.timeline[what] = now_ms()

    def _beside(self, act: Callable[..., None], *arguments: float) -> None:
        thread = threading.Thread(target=act, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _sleep(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            if self.program.ended.wait(min(left, 1.0)):
                self.timeline.setdefault("ended", now_ms())
                self._done.wait(min(max(left, 0.0), LINGER_SECONDS))
                return

    def _works(self) -> None:
        if self.case.mechanism.early:
            return
        deadline = time.monotonic() + WORKS_SECONDS
        # With a long linger.ms, acknowledgements come long after the sends.
        lingers = int(self.case.options.get("p.linger.ms", "0")) > 1000
        counted = ("attempted",) if lingers else ("acked", "handled")
        while time.monotonic() < deadline and not self.program.ended.is_set():
            if any(one[name] > 0 for one in self.program.newest().values() for name in counted):
                return
            time.sleep(0.25)

    def _feed(self) -> None:
        pause = 1 / (float(self.case.options["rate"]) * int(self.case.options["clients"]))
        payload = b"x" * int(self.case.options["size"])
        feed = self.world.feed(self.legacy)
        while not self._done.wait(pause):
            for topic in self.scene.fed:
                feed.send(topic, payload)
                self.fed += 1
        if not self.legacy:
            feed.close(timeout=5)

    def _weather(self, begin: float) -> None:
        event, at, seconds = self.case.weather
        if event:
            self._sleep(begin + at)
            EVENTS[event].begin(self.scene)
            self._mark("weather")
            self._sleep(begin + at + seconds)
            EVENTS[event].end(self.scene)

    def _dumps(self, onset: float) -> None:
        for after in self.case.seen.dumps:
            self._sleep(onset + after)
            if not self.program.ended.is_set() and not self._done.is_set():
                self.eyes.dump(dump_command(self.case, self.program.process.pid), self.case.family.java)

    def _onset(self) -> None:
        mechanism = self.case.mechanism
        self._mark("onset")
        self.program.ask("go")
        if not mechanism.early:
            EVENTS[mechanism.world].begin(self.scene)
        if mechanism.end == "kill":
            self.program.signal(signal.SIGKILL)
        elif mechanism.end == "term":
            self.program.signal(signal.SIGTERM)
        elif mechanism.end:
            self._sleep(time.monotonic() + 0.5)
            self.program.ask("end")

    def _again(self) -> None:
        self.program.ended.wait(AGAIN_SECONDS)
        self.program.stop()
        self._mark("ended")
        self._done.wait(1 + self.case.number % 5)
        self.program = start(self.case, self.folder / "work", self.servers, self.topics, self.program)

    def _over(self) -> None:
        self.program.ask("over")
        EVENTS[self.case.mechanism.world].end(self.scene)
        self._mark("over")

    def _finish(self) -> None:
        self._mark("end")
        self.program.signal(signal.SIGCONT)
        ended_by_itself = self.program.ended.is_set()
        self._done.set()
        self.eyes.stop.set()
        self.way.open()
        self.scene.joined.set()
        self.program.stop()
        for thread in self._threads:
            thread.join(20.0)
        self.eyes.metrics += self.program.metrics
        if self.case.seen.metrics == "pushes":
            self.eyes.metrics += self.world.pushed(self.case.client_ids)
        written = write(
            self.case.seen, self.eyes, self.program.log, self.folder, self.timeline["start"], self.timeline["end"]
        )
        stored = self.world.count(self.topics[0]) if self.case.mechanism.role == "producer" else 0
        with (self.folder / "truth.jsonl").open("w", encoding="utf-8") as truth:
            truth.writelines(f"{json.dumps(line)}\n" for line in self.program.truth)
        document: dict[str, Any] = {
            **described(self.case),
            "timeline": self.timeline,
            "ended_by_itself": ended_by_itself,
            "exit_code": self.program.process.poll() if ended_by_itself else None,
            "stored": stored,
            "fed": self.fed,
            "written": asdict(written),
        }
        (self.folder / "case.json").write_text(json.dumps(document, indent=1), encoding="utf-8")


def record(cases: Sequence[Case], out: Path, jobs: int, say: Callable[[str], None]) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    world_folder = out / "world"
    shutil.rmtree(world_folder, ignore_errors=True)
    with World(world_folder, jobs) as world:
        free: queue.Queue[Way] = queue.Queue()
        for way in world.ways:
            free.put(way)

        def play(case: Case) -> Path:
            folder, way = out / case.name, free.get()
            shutil.rmtree(folder, ignore_errors=True)
            try:
                if EVENTS[case.mechanism.world].own:
                    with World(folder / "world", 1) as own:
                        Run(case, own, own.ways[0], folder).play()
                    shutil.rmtree(folder / "world")
                else:
                    Run(case, world, way, folder).play()
                say(f"recorded {case.name}")
            except (OSError, RuntimeError, subprocess.SubprocessError, KafkaError):
                (folder / "case.json").unlink(missing_ok=True)
                say(f"not recorded {case.name}: {traceback.format_exc()}")
            finally:
                free.put(way)
            return folder

        with ThreadPoolExecutor(jobs) as running:
            folders = list(running.map(play, cases))
    shutil.rmtree(world_folder, ignore_errors=True)
    return folders
