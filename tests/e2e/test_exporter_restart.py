"""Check that a restart of the exporter neither sends a second page nor resolves the alert."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from clienthealth.settings import Settings
from clienthealth_exporters.alerts.build import write
from deploy.demo.alerting import alertmanager_config
from deploy.reference.rooms import ROOT
from tests.e2e.test_alert_delivery import (
    ALERTMANAGER,
    PROMETHEUS,
    World,
    free_address,
    serving,
    started,
)
from tests.e2e.test_dashboards_queries import Prometheus
from tests.support.waiting import WAIT_SECONDS, eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (PROMETHEUS and ALERTMANAGER), reason="prometheus and alertmanager are not installed"),
]
#: Time runs SCALE times faster than in production, where a restart takes 45 s.
SCALE = 20
GAP_SECONDS = 45 / SCALE
UNITS = {"s": 1, "m": 60, "h": 3600}
PAGE = "KafkaClientProducerCallbackDeadlock"
FAILING = f'ALERTS{{alertname="{PAGE}", alertstate="firing"}}'


def faster(text: str) -> str:
    names = "for|keep_firing_for|resolve_timeout|(?:scrape|evaluation|repeat)_interval|(?<![a-z_])interval"
    waits = rf'((?:{names}): "?)(\d+)([smh])\b'
    return re.sub(waits, lambda m: f"{m[1]}{1000 * int(m[2]) * UNITS[m[3]] // SCALE}ms", text)


class ExporterProcess:
    def __init__(self, address: str) -> None:
        self.address = address
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.exporter_process", self.address]
        self._process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)})

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(WAIT_SECONDS)


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[tuple[World, ExporterProcess, Prometheus]]:
    assert PROMETHEUS and ALERTMANAGER
    world, exporter = World(), ExporterProcess(free_address())
    with ExitStack() as stack:
        hook, prometheus, alertmanager = stack.enter_context(serving(world)), free_address(), free_address()
        stack.callback(exporter.kill)
        write(tmp_path, Settings(), dry_run=False)
        for path in (tmp_path / "rules").glob("*.yml"):
            path.write_text(faster(path.read_text("utf-8")), "utf-8")
        (tmp_path / "alertmanager.yml").write_text(faster(alertmanager_config(f"http://{hook}/hook", "1s")), "utf-8")
        config = f"""
global: {{scrape_interval: 15s, scrape_timeout: 700ms, evaluation_interval: 15s}}
rule_files: ["{tmp_path}/rules/*.yml"]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alertmanager}"]}}]}}]}}
scrape_configs:
  - {{job_name: kafka-client-health, honor_labels: true, static_configs: [{{targets: ["{exporter.address}"]}}]}}
  - {{job_name: kafka-client-health-monitor, metrics_path: /monitor, static_configs: [{{targets: ["{hook}"]}}]}}
"""
        (tmp_path / "prometheus.yml").write_text(faster(config), "utf-8")
        routing = [f"--config.file={tmp_path}/alertmanager.yml", f"--storage.path={tmp_path}/alertmanager"]
        routing += [f"--web.listen-address={alertmanager}", "--cluster.listen-address="]
        stack.enter_context(started([ALERTMANAGER, *routing], tmp_path / "alertmanager.log", alertmanager))
        scraping = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb"]
        scraping += [f"--web.listen-address={prometheus}", "--rules.alert.resend-delay=1s"]
        stack.enter_context(started([PROMETHEUS, *scraping], tmp_path / "prometheus.log", prometheus))
        yield world, exporter, Prometheus(prometheus)


def pages(world: World) -> list[dict[str, Any]]:
    alerts = [alert for notification in list(world.received) for alert in notification["alerts"]]
    return [alert for alert in alerts if alert["labels"]["alertname"] == PAGE]


def test_a_restart_of_the_exporter_neither_resolves_a_page_nor_sends_it_again(
    notified: tuple[World, ExporterProcess, Prometheus],
) -> None:
    world, exporter, prometheus = notified
    exporter.start()
    eventually(lambda: pages(world), "the page")
    exporter.kill()
    eventually(lambda: prometheus.series('up{job="kafka-client-health"} == 0'), "the exporter is missed")
    eventually(lambda: not prometheus.series("kafka_client_failure_mode"), "its series have ended")
    time.sleep(GAP_SECONDS)
    assert prometheus.series(FAILING), "the page goes on over the gap"
    exporter.start()
    eventually(lambda: prometheus.series("kafka_client_failure_mode"), "its series are back")
    # A resolved or repeated alert would be delivered within a second.
    time.sleep(3)
    assert prometheus.series(FAILING)
    assert {(alert["status"], alert["startsAt"]) for alert in pages(world)} == {("firing", pages(world)[0]["startsAt"])}
    assert len(pages(world)) == 1, "sent once"
