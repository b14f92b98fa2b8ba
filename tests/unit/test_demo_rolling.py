"""Brokers of a cluster are rolled in order, one at a time; what goes wrong beside a client is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from clienthealth.errors import ServiceError
from deploy.demo import cluster as clusters
from deploy.demo.broker import Broker
from deploy.demo.cluster import Cluster
from deploy.demo.running import Running
from tests.support.waiting import eventually


class Node:
    """A broker that only counts; `meanwhile` happens while it is restarted."""

    def __init__(self, name: str, restarted: list[str], meanwhile: Callable[[], None]) -> None:
        self.bootstrap_servers = name
        self._restarted, self._meanwhile = restarted, meanwhile

    def restart(self) -> None:
        self._restarted.append(self.bootstrap_servers)
        self._meanwhile()


class Rolled(Cluster):
    """A cluster of such nodes, whose partitions are out of sync for some looks."""

    def __init__(self, folder: Path, looks: int = 0) -> None:
        super().__init__(folder)
        self.restarted: list[str] = []
        self.looks = looks
        self.nodes = [cast(Broker, Node(name, self.restarted, self.roll)) for name in "abc"]

    def _out_of_sync(self) -> list[str]:
        self.looks -= 1
        return ["payments-0"] if self.looks >= 0 else []


def test_nodes_are_rolled_in_order_and_never_two_at_once(tmp_path: Path) -> None:
    cluster, notes = Rolled(tmp_path), list[str]()
    for _ in range(4):
        cluster.roll(notes.append)
    assert cluster.restarted == ["a", "b", "c", "a"]
    assert notes[:2] == ["ROLL BEGIN (a)", "ROLL END (a, all in sync)"]


def test_a_cluster_rests_between_rolls_however_many_clients_ask(tmp_path: Path) -> None:
    cluster = Rolled(tmp_path)
    for _ in range(3):
        cluster.roll(rest_seconds=3600)
    assert cluster.restarted == ["a"]
    cluster.roll(rest_seconds=0)
    assert cluster.restarted == ["a", "b"]


def test_a_roll_ends_when_all_is_in_sync_and_says_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Rolled(tmp_path, looks=1)
    cluster.roll()
    assert cluster.looks == -1
    monkeypatch.setattr(clusters, "SYNC_SECONDS", 0.0)
    cluster.looks = 1000
    with pytest.raises(ServiceError, match="out of sync after 0 s: payments-0"):
        cluster.roll()
    cluster.looks = 0
    cluster.roll()
    assert cluster.restarted == ["a", "b", "b"]


@contextmanager
def sleeping(folder: Path, action: Callable[[Running], None]) -> Iterator[Running]:
    running = Running(["sleep", "60"], folder, "payment-api", [], folder / "app.log", [action])
    try:
        yield running
    finally:
        running.stop()


def test_what_fails_beside_a_client_is_raised_where_somebody_looks(tmp_path: Path) -> None:
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


def test_a_line_that_is_garbled_is_told_and_what_follows_is_read(tmp_path: Path) -> None:
    says = """printf 'COUNTERS {"sent": 1}COUNTERS {"sent": 2}\\n\\nCOUNTERS {"sent": 3}\\n'; exec sleep 60"""
    running = Running(["sh", "-c", says], tmp_path, "payment-api", [], tmp_path / "app.log")
    try:
        eventually(lambda: running.counters == {"sent": 3})
        with pytest.raises(ServiceError, match=r'not understood: COUNTERS \{"sent": 1\}COUNTERS'):
            running.check()
    finally:
        running.stop()
