"""Start Prometheus and Alertmanager on this machine, with our rules and routes."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clienthealth.settings import Settings
from clienthealth_exporters.alerts.build import FILES, write
from deploy.demo.processes import Process, port_or_free

#: Debian's package calls Alertmanager's program prometheus-alertmanager.
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")
PROMETHEUS = ("prometheus",)
INTERVAL = "5s"
GROUP_WAIT = "1s"
START_SECONDS = 300.0


@dataclass(frozen=True)
class Alerting:
    prometheus: Process
    prometheus_url: str
    alertmanager: Process
    alertmanager_url: str


def program(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


def missing() -> list[str]:
    programs = {
        "Prometheus": (PROMETHEUS, "apt-get install prometheus", "brew install prometheus"),
        "Alertmanager": (ALERTMANAGER, "apt-get install prometheus-alertmanager", "github.com/prometheus/alertmanager"),
    }
    return [
        f"{name} is not installed (Debian: {debian}; macOS: {macos})"
        for name, (names, debian, macos) in programs.items()
        if program(names) is None
    ]


def alertmanager_config(webhook_url: str, group_wait: str | None = None) -> str:
    """Return the text of `alerts/alertmanager.yml` with receivers that send to `webhook_url`.

    The receivers `nobody` and `heartbeat` send nothing. `group_wait`: replaces `group_wait` and `group_interval` of all
    routes; None keeps them.
    """
    text = (FILES / "alertmanager.yml").read_text(encoding="utf-8")
    routing = text.partition("\nreceivers:\n")[0]
    if group_wait is not None:
        routing = re.sub(r"(group_wait|group_interval): \w+", rf"\1: {group_wait}", routing)
    receivers = ["receivers:", "  - name: nobody", "  - name: heartbeat"]
    for name in sorted(set(re.findall(r"^  - name: (\S+)$", text, re.MULTILINE)) - {"nobody", "heartbeat"}):
        receivers += [f"  - name: {name}", "    webhook_configs:", f"      - url: {json.dumps(webhook_url)}"]
        receivers += ["        send_resolved: true"]
    return "\n".join([routing, *receivers]) + "\n"


def start(
    folder: Path,
    settings: Settings,
    scrape: Mapping[str, str],
    webhook_url: str,
    interval: str = INTERVAL,
    group_wait: str | None = GROUP_WAIT,
) -> Alerting:
    """Start Prometheus and Alertmanager, and wait until both answer.

    `scrape`      maps the name of each scrape job to the host:port to scrape
    `interval`    scrape and evaluation interval of Prometheus
    `group_wait`  replaces `group_wait` and `group_interval` of all routes; None keeps them

    Raises ServiceError if Prometheus or Alertmanager does not answer within five minutes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, settings, dry_run=False)
    alertmanager_port, prometheus_port = port_or_free(9093), port_or_free(9090)
    (folder / "alertmanager.yml").write_text(alertmanager_config(webhook_url, group_wait), encoding="utf-8")
    alertmanager = Process(
        "Alertmanager",
        [
            str(program(ALERTMANAGER)),
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{alertmanager_port}",
            "--cluster.listen-address=",
        ],
        folder / "alertmanager.log",
    )
    configuration = _prometheus_config(scrape, f"127.0.0.1:{alertmanager_port}", interval)
    (folder / "prometheus.yml").write_text(json.dumps(configuration, indent=1), encoding="utf-8")
    prometheus = Process(
        "Prometheus",
        [
            str(program(PROMETHEUS)),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{prometheus_port}",
            "--web.enable-lifecycle",
        ],
        folder / "prometheus.log",
    )
    started = Alerting(
        prometheus, f"http://127.0.0.1:{prometheus_port}", alertmanager, f"http://127.0.0.1:{alertmanager_port}"
    )
    alertmanager.wait_until(lambda: answers(f"{started.alertmanager_url}/-/ready"), START_SECONDS)
    prometheus.wait_until(lambda: answers(f"{started.prometheus_url}/-/ready"), START_SECONDS)
    return started


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _prometheus_config(scrape: Mapping[str, str], alertmanager: str, interval: str) -> dict[str, object]:
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": ["rules/*.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [
            # `honor_labels` keeps the exporter's label `instance`, which names a client's process.
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [target]}]}
            for job, target in scrape.items()
        ],
    }
