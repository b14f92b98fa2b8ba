"""Grafana's provisioning files and Prometheus' scrape configuration refer to existing files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from clienthealth.settings import Settings
from tests.support.alert_rules import ROOT, alerts

PROMTOOL = shutil.which("promtool")


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_dashboards_are_read_from_where_compose_mounts_them() -> None:
    provisioned = read("deploy/grafana/provisioning/dashboards/kafka-client-health.yml")
    (provider,) = provisioned["providers"]
    assert provisioned["apiVersion"] == 1
    assert (provider["type"], provider["allowUiUpdates"], provider["disableDeletion"]) == ("file", False, True)
    mounts = [volume.split(":")[1] for volume in read("deploy/compose.yaml")["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounts and "/etc/grafana/provisioning" in mounts


def test_data_source_is_the_prometheus_beside_it() -> None:
    (source,) = read("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"]
    scraping = read("deploy/prometheus/prometheus.yml")
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    assert source["jsonData"]["timeInterval"] == scraping["global"]["scrape_interval"]


def test_jobs_are_those_that_the_rules_watch_at_the_ports_of_the_settings() -> None:
    jobs = {job["job_name"]: job for job in read("deploy/prometheus/prometheus.yml")["scrape_configs"]}
    watched = {job for rule in alerts() for job in re.findall(r'job="([^"]+)"', rule.condition)}
    assert jobs.keys() == watched
    settings = Settings()
    ports = {name: job["static_configs"][0]["targets"][0].rsplit(":", 1)[1] for name, job in jobs.items()}
    assert ports == {
        "kafka-client-health": str(settings.prometheus.port),
        "kafka-client-health-monitor": str(settings.monitor.metrics_port),
    }
    assert jobs["kafka-client-health"]["honor_labels"] is True, "the label instance is the client's"


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    assert PROMTOOL
    shutil.copy(ROOT / "deploy/prometheus/prometheus.yml", tmp_path)
    shutil.copytree(ROOT / "alerts", tmp_path / "alerts", ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    checked = subprocess.run(
        [PROMTOOL, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count("rules found") == 5
