"""The group exporter reads several clusters. A hanging cluster does not delay the others."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from clienthealth.model.errors import SettingsError
from clienthealth.settings import GroupSettings, KafkaSettings, Settings
from clienthealth_exporters.groups import exporter


def settings(folder: Path, **clusters: str) -> Settings:
    files = {}
    for name, text in clusters.items():
        path = folder / f"{name}.toml"
        path.write_text(text, "utf-8")
        files[name] = str(path)
    return Settings(KafkaSettings(bootstrap_servers="home:9092"), groups=GroupSettings(clusters=files))


def test_each_has_its_own_brokers_and_choice_of_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HEALTH_KAFKA_BOOTSTRAP_SERVERS", "home:9092")
    all_clusters = exporter.clusters(
        settings(tmp_path, eu='[kafka]\nbootstrap_servers = "eu:9092"\n[groups]\ninterval_seconds = 30.0\n')
    )
    assert [(c.name, c.settings.kafka.bootstrap_servers, c.settings.groups.interval_seconds) for c in all_clusters] == [
        ("default", "home:9092", 10.0),
        ("eu", "eu:9092", 30.0),
    ]


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'default' is already the name of the cluster in"):
        exporter.clusters(settings(tmp_path, default=""))


def test_one_that_hangs_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, read = threading.Event(), {"eu": 0, "us": 0}

    def cycle(running: exporter.GroupExporter) -> int:
        name = running._cluster
        if name == "default":
            assert stop.wait(30)
        else:
            read[name] += 1
            if min(read.values()) >= 3:
                stop.set()
        return 0

    monkeypatch.setattr(exporter.GroupExporter, "cycle", cycle)
    often = "[groups]\ninterval_seconds = 0.01\n"
    exporter.serve(settings(tmp_path, eu=often, us=often), stop)
    assert min(read.values()) >= 3


def test_each_snapshot_is_sent_before_the_next_is_made() -> None:
    running, order = exporter.GroupExporter(Settings(), exporter.clusters(Settings())[0]), list[str]()

    def made(_: object) -> Iterator[dict[str, dict[str, str]]]:
        for name in ("a", "b"):
            order.append(f"{name} made")
            yield {"client": {"service": "s", "instance": "i", "client_id": name}}

    running._reader, running._snapshots = Mock(**{"read.return_value.failures": {}}), Mock(from_reading=made)
    running._publisher = Mock(send=lambda topic, key, snapshot: order.append(f"{snapshot['client']['client_id']} sent"))
    assert running.cycle() == 2
    assert order == ["a made", "a sent", "b made", "b sent"]


def test_a_mistake_in_one_ends_all_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cycle(running: exporter.GroupExporter) -> int:
        if running._cluster == "eu":
            raise ZeroDivisionError
        return 0

    monkeypatch.setattr(exporter.GroupExporter, "cycle", cycle)
    with pytest.raises(ZeroDivisionError):
        exporter.serve(settings(tmp_path, eu=""), threading.Event())


def test_snapshots_are_of_their_cluster() -> None:
    home = exporter.Cluster("eu", dataclasses.replace(Settings(), groups=GroupSettings(service="lag")))
    assert (home.snapshots().cluster, home.snapshots().service) == ("eu", "lag")


@pytest.mark.parametrize(
    ("now", "lead", "expected"),
    [
        (100.0, 2.0, 108.0),
        (107.9, 2.0, 108.0),
        (108.0, 2.0, 118.0),
        (109.5, 2.0, 118.0),
        (100.0, 9.0, 101.0),
        (100.0, 12.0, 100.0),  # a reading takes 12 s, longer than the interval of 10 s
    ],
)
def test_readings_end_just_before_a_multiple_of_the_interval(now: float, lead: float, expected: float) -> None:
    assert exporter.next_reading(now, 10.0, lead) == expected
