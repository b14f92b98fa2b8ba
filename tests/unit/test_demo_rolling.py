"""The demo restarts a cluster's brokers one after another, and reports failures of the restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from clienthealth.model.errors import ServiceError
from deploy.demo import cluster as clusters
from deploy.demo.broker import Broker
from deploy.demo.cluster import Cluster
from deploy.demo.running import Running
from tests.support.waiting import eventually


class Node:
    jar_set = "broker"

    def __init__(self, name: str, restarted: list[str], meanwhile: Callable[[], None]) -> None:
        self.bootstrap_servers = name
        self._restarted, self._meanwhile = restarted, meanwhile

    def restart(self) -> None:
        self._restarted.append(self.bootstrap_servers)
        self._meanwhile()

    def pause(self) -> None:
        self._restarted.append(f"pause {self.bootstrap_servers}")

    def resume(self) -> None:
        self._restarted.append(f"resume {self.bootstrap_servers}")

    def kill(self) -> None:
        self._restarted.append(f"kill {self.bootstrap_servers}")


class Rolled(Cluster):
    """Fake brokers. The last broker is the controller.

    `looks`: number of checks that find a replica out of sync. All later checks find no such replica.
    """

    def __init__(self, folder: Path, looks: int = 0) -> None:
        super().__init__(folder)
        self.restarted: list[str] = []
        self.looks = looks
        self.nodes = [cast(Broker, Node(name, self.restarted, self.roll)) for name in "abc"]

    def controller(self) -> Broker:
        return self.nodes[2]

    def _finalise(self) -> int:
        self.restarted.append("finalise")
        return 27

    def _out_of_sync(self) -> list[str]:
        self.looks -= 1
        return ["payments-0"] if self.looks >= 0 else []


def test_nodes_are_restarted_lost_and_frozen_by_turns_the_controller_and_never_two_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "AWAY_SECONDS", 0.0)
    cluster, notes = Rolled(tmp_path), list[str]()
    for _ in range(6):
        cluster.roll(notes.append)
    assert cluster.restarted == ["a", "kill c", "c", "pause b", "resume b", "c", "kill c", "c", "pause c", "resume c"]
    assert notes[:3] == [
        "ROLL BEGIN (a: restarted)",
        "ROLL END (a, all replicas in sync)",
        "ROLL BEGIN (c, the active controller: lost)",
    ]


def test_old_nodes_are_upgraded_in_order_and_their_metadata_with_the_last(tmp_path: Path) -> None:
    cluster, notes = Rolled(tmp_path), list[str]()
    for node in cluster.nodes:
        node.jar_set = "broker-3.9"
    for _ in range(4):
        cluster.roll(notes.append)
    assert cluster.restarted == ["a", "b", "c", "finalise", "c"]
    assert {node.jar_set for node in cluster.nodes} == {"broker"}
    assert notes[0] == "ROLL BEGIN (a: upgraded)" and "ROLL UPGRADED (metadata.version 27)" in notes


def test_a_node_that_is_lost_when_all_ends_stays_away(tmp_path: Path) -> None:
    cluster = Rolled(tmp_path)
    cluster.rolls = 1
    cluster.kill()
    cluster.roll()
    assert cluster.restarted == ["kill a", "kill b", "kill c", "kill c"]


def test_a_cluster_rests_between_rolls_however_many_clients_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "AWAY_SECONDS", 0.0)
    cluster = Rolled(tmp_path)
    for _ in range(3):
        cluster.roll(rest_seconds=3600)
    assert cluster.restarted == ["a"]
    cluster.roll(rest_seconds=0)
    assert len(cluster.restarted) > 1


def test_a_roll_ends_when_all_is_in_sync_or_lists_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Rolled(tmp_path, looks=1)
    cluster.roll()
    assert cluster.looks == -1
    monkeypatch.setattr(clusters, "SYNC_SECONDS", 0.0)
    monkeypatch.setattr(clusters, "AWAY_SECONDS", 0.0)
    cluster.looks = 1000
    with pytest.raises(ServiceError, match="out of sync after 0 s: payments-0"):
        cluster.roll()
    cluster.looks = 0
    before = cluster.rolls
    cluster.roll()
    assert cluster.rolls == before + 1


@contextmanager
def sleeping(folder: Path, action: Callable[[Running], None]) -> Iterator[Running]:
    running = Running(["sleep", "60"], folder, "payment-api", [], folder / "app.log", [action])
    try:
        yield running
    finally:
        running.stop()


def test_failures_beside_a_client_are_raised_on_access(tmp_path: Path) -> None:
    def fail(_: Running) -> None:
        raise ServiceError("the broker stays away")

    with sleeping(tmp_path, fail) as running, pytest.raises(ServiceError, match="stays away"):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            running.check()
            time.sleep(0.01)


def test_a_client_that_nothing_happened_to_is_well(tmp_path: Path) -> None:
    with sleeping(tmp_path, lambda _: None) as running:
        running.check()


def test_a_process_is_known_by_its_id_and_by_what_its_clients_push_as(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    running = Running(["sleep", "60"], tmp_path, "s", [], log)
    try:
        assert running.is_instance(f"web-7:{running.pid}")
        assert not running.is_instance("127.0.0.1:n1Xw_Q")
        line = "2026-11-23 04:40:10,716 INFO  [x] o.a.k.T - Client telemetry registered with client instance id: "
        log.write_text(f"{line}n1Xw_Q\n{line}half", encoding="utf-8")
        assert running.is_instance("127.0.0.1:n1Xw_Q")
        assert not running.is_instance("127.0.0.1:half")
        log.write_text(f"{line}n1Xw_Q\n{line}halfway\n", encoding="utf-8")
        assert running.is_instance("127.0.0.1:halfway")
        assert not running.is_instance("127.0.0.1:half")
    finally:
        running.stop()


def test_what_processes_of_one_program_count_is_added_up(tmp_path: Path) -> None:
    counts = ['{"sent": 1, "pid": 7}', '{"sent": 2, "pid": 8}', '{"sent": 5, "pid": 7}']
    program = "".join(f"echo 'COUNTERS {count}'; " for count in counts)
    running = Running(["sh", "-c", f"{program}exec sleep 60"], tmp_path, "s", [], tmp_path / "app.log")
    try:
        eventually(lambda: running.counters == {"sent": 7})
    finally:
        running.stop()


def test_a_garbled_line_is_reported_and_later_lines_are_read(tmp_path: Path) -> None:
    program = """printf 'COUNTERS {"sent": 1}COUNTERS {"sent": 2}\\n\\nCOUNTERS {"sent": 3}\\n'; exec sleep 60"""
    running = Running(["sh", "-c", program], tmp_path, "payment-api", [], tmp_path / "app.log")
    try:
        eventually(lambda: running.counters == {"sent": 3})
        with pytest.raises(ServiceError, match=r'not understood: COUNTERS \{"sent": 1\}COUNTERS'):
            running.check()
    finally:
        running.stop()
