"""Check that the monitor on a Spark cluster reports what a run without Spark reports."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.processes import free_port
from deploy.demo.stack import QUICK_START
from deploy.supply import dist
from tests.chaos import compare, load, parts
from tests.chaos.calculated import Calculated, calculated
from tests.chaos.load import Slice, slices
from tests.chaos.published import newest
from tests.chaos.world import Cluster, Run, SchemaRegistry
from tests.support.spark_cluster import SparkCluster, submission

pytestmark = pytest.mark.long

HEAP_MB, PARTITIONS = 512, 4
WAIT_SECONDS, NUDGE_SECONDS = 400.0, 5.0
DEADLOCK = "producer-callback-deadlock"
#: The first driver will hang, and must not take the cores of new workers.
AT_FIRST = {"spark__cores__max": "2"}
BESIDE_HEAP = {"driver": "640m", "executor": "1g"}


@dataclass
class Trial:
    slices: Sequence[Slice]
    run: Run
    expected: Calculated
    events: Path
    came_back: int | None = None
    executors: Sequence[str] = ()
    drivers: Sequence[str] = ()
    most: int = 0
    left: int = 0
    errors: Sequence[str] = ()

    @property
    def begin_ms(self) -> int:
        return self.slices[0].begin_ms

    @property
    def end_ms(self) -> int:
        return self.slices[-1].end_ms


@pytest.fixture(scope="module")
def trial(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("cluster")
    (package,) = (path for path in dist.build(folder / "dist") if path.suffix == ".whl")
    now_ms = int(time.time() * 1000)
    input = slices(7, (0, 1), (now_ms - 2000 * load.SECONDS) // 60_000 * 60_000 - 300_000)

    events = folder / "events"
    events.mkdir()

    def launch(run: Run) -> tuple[Sequence[str], Mapping[str, str]]:
        log = {"spark__eventLog__enabled": "true", "spark__eventLog__dir": events.as_uri()}
        log["spark__eventLog__compress"] = "false"
        return submission(cluster, run.settings, run.config, package, spark__ui__enabled="false", **log, **AT_FIRST)

    with (
        SchemaRegistry() as registry,
        SparkCluster(folder / "spark", HEAP_MB + 100, QUICK_START) as cluster,
        Run(
            Cluster(broker.kafka, broker),
            registry,
            "cluster",
            folder / "run",
            launch,
            shuffle_partitions=PARTITIONS,
            buckets=8,
            heap_mb=HEAP_MB,
        ) as run,
    ):
        run.monitor.release()
        cluster.add(2)
        trial = Trial(input, run, calculated(input, 0, run.settings, now_ms), events)
        tried(cluster, trial)
        yield trial


def tried(cluster: SparkCluster, trial: Trial) -> None:
    run, (backlog, live) = trial.run, trial.slices
    run.publish(backlog.records)
    run.wait("no executors", lambda: as_started(run, 1) and len(cluster.executors()) == 2, WAIT_SECONDS)
    trial.executors = list(cluster.executors().values())
    # Ignore duplicates: when a JVM starts a program, its fork has the same command line for a moment.
    trial.drivers = sorted({command for _, command in run.monitor.processes(parts.jvm)})
    run.wait("no worker works", lambda: cluster.at_work() > 0, WAIT_SECONDS)
    os.kill(next(iter(cluster.executors())), signal.SIGKILL)
    at_leisure(run, live.portions(0, 80))
    run.publish(live.between(80, 120))
    run.wait("no batch", lambda: run.pending() or worked_off(run), WAIT_SECONDS)
    cluster.lose(cluster.workers[0])
    hangs = run.monitor.abandon()
    text = run.config.read_text().replace(f"= {PARTITIONS}\n", f"= {PARTITIONS + 2}\n")
    run.config.write_text(text.replace(f"= {run.settings.monitor.metrics_port}\n", f"= {free_port()}\n"))
    properties = run.config.parent / "monitor.conf"
    properties.write_text("".join(line for line in properties.open() if "spark.cores.max" not in line))
    run.monitor.release()
    cluster.add(3)
    at_leisure(run, [(), *live.portions(120, 160)])
    hangs.resume()
    run.wait("the first driver goes on", lambda: not hangs.alive, WAIT_SECONDS)
    trial.came_back = hangs.exit_code
    hangs.kill()
    at_leisure(run, live.portions(160, 200))
    run.wait("four do not work", lambda: cluster.at_work() == 4, WAIT_SECONDS)
    trial.most = cluster.at_work()
    for worker in list(cluster.workers[:2]):
        cluster.lose(worker)
    at_leisure(run, live.portions(200))
    finish(run, live)
    trial.left, trial.errors = cluster.alive(), cluster.errors()


def at_leisure(run: Run, portions: Sequence[Any]) -> None:
    for portion in portions:
        run.publish(portion)
        run.flushed()
        run.wait("not worked off", lambda: worked_off(run), WAIT_SECONDS)


def worked_off(run: Run) -> bool:
    return as_started(run, 2) and run.worked_off()


def as_started(run: Run, starts: int) -> bool:
    assert run.monitor.starts <= starts, run.monitor.tail()
    return True


def finish(run: Run, last: Slice) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while compare.counted(run, last.begin_ms, last.end_ms)[0] < len(last.records) and time.monotonic() < deadline:
        run.nudge()
        time.sleep(NUDGE_SECONDS)
    run.monitor.stop()


def test_the_history_is_that_of_one_process_without_spark(trial: Trial) -> None:
    final_ms = trial.end_ms - compare.FINAL_MS
    history = trial.run.history
    assert not list(compare.minutes(history, trial.expected, trial.begin_ms, final_ms, set()))
    assert not list(compare.verdicts(history, trial.expected, trial.begin_ms, trial.end_ms, set(), ended=True))
    assert len([row for row in history.minutes.look() if row["minute"] < final_ms]) >= 9 * (load.FLEET - 1)


def test_the_client_that_is_stuck_from_the_third_minute_on_is_found(trial: Trial) -> None:
    (*_, row) = (row for row in trial.run.history.verdicts.look() if row["client_id"] == load.STUCK)
    assert (row["mode"], row["status"]) == (DEADLOCK, "confirmed")
    assert abs(row["since"] - (trial.begin_ms + 1000 * load.STUCK_FROM)) <= 10_000


def test_every_record_is_accounted_for(trial: Trial) -> None:
    assert not list(compare.strangers(trial.run, trial.slices))
    for part in trial.slices:
        assert not list(compare.accounts(trial.run, part.records, part.begin_ms, part.end_ms))


def test_the_newest_states_are_those_of_the_fleet(trial: Trial) -> None:
    states = {state["client"]["client_id"]: state for state in newest(trial.run.health.look()).values()}
    fleet = {load.fleet_client(number) for number in range(load.FLEET)}
    assert fleet <= states.keys()
    assert {name for name in fleet if any(v["status"] == "confirmed" for v in states[name]["verdicts"])} == {load.STUCK}
    assert {trial.end_ms - states[name]["window_end"] < 60_000 for name in fleet} == {True}


def test_four_workers_share_the_work_and_two_go_on(trial: Trial) -> None:
    assert (trial.most, trial.left) == (4, 2)
    assert trial.run.monitor.starts == 2


def test_a_driver_that_hung_ends_when_it_finds_that_another_took_over(trial: Trial) -> None:
    assert trial.came_back == 2, "nothing starts it again"
    assert trial.run.monitor.log.read_text().count("kafka-health: another monitor works on the checkpoint") == 1


def test_the_log_of_events_has_both_drivers_and_what_they_asked_for(trial: Trial) -> None:
    drivers = [
        [json.loads(line) for file in sorted(folder.glob("events_*")) for line in file.open(encoding="utf-8")]
        for folder in trial.events.glob("eventlog_v2_*")
    ]
    assert len(drivers) == 2
    added = sorted(sum(event["Event"] == "SparkListenerExecutorAdded" for event in events) for events in drivers)
    assert added[0] >= 3 and added[1] >= 4
    for events in drivers:
        (asked,) = (e["Spark Properties"] for e in events if e["Event"] == "SparkListenerEnvironmentUpdate")
        asked_for = [asked[f"spark.{part}.{what}"] for part in BESIDE_HEAP for what in ("memory", "memoryOverhead")]
        assert asked_for == [f"{HEAP_MB}m", BESIDE_HEAP["driver"], f"{HEAP_MB}m", BESIDE_HEAP["executor"]]


def test_another_number_of_partitions_has_no_effect_and_is_reported(trial: Trial) -> None:
    log = trial.run.monitor.log.read_text()
    assert log.count(f"has {PARTITIONS} partitions, and this number cannot change") == 1
    state = trial.run.checkpoint / "monitor" / "state" / "0"
    assert {path.name for path in state.iterdir() if path.name.isdigit()} == {*map(str, range(PARTITIONS))}


def test_every_jvm_runs_with_the_settings(trial: Trial) -> None:
    assert (len(trial.executors), len(trial.drivers)) == (2, 1)
    for command in (*trial.executors, *trial.drivers):
        flags = command.lower().split("\0")
        assert {f"-xmx{HEAP_MB}m", "-xss16m", "-xx:+exitonoutofmemoryerror"} <= {*flags}
    assert "spark-submit did not get" not in trial.run.monitor.log.read_text()


def test_executors_log_warnings_and_no_more(trial: Trial) -> None:
    assert len(trial.errors) >= 7
    assert not [line for text in trial.errors for line in text.splitlines() if " INFO " in line]
