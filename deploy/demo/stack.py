"""Run the whole product and the demo's clients on this machine."""

from __future__ import annotations

import json
import socket
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from clienthealth.configuration import load
from clienthealth.model.errors import ServiceError
from clienthealth.platform import locations
from clienthealth.settings import Settings
from clienthealth.spark.self_monitoring import PREFIX, QUERY
from clienthealth_exporters.jvm.exporter import PUSHED
from deploy.demo import alerting
from deploy.demo.broker import Broker
from deploy.demo.client import DemoClient
from deploy.demo.cluster import Cluster
from deploy.demo.legacy import LegacyBroker
from deploy.demo.processes import Process, port_or_free
from deploy.demo.running import Running
from deploy.demo.topics import ask_for_pushes, create_ours
from deploy.demo.webhook import Webhook

MONITOR_SECONDS = 600.0
STOP_SECONDS = 20.0
INTERVAL_SECONDS = 5.0
#: Without bytecode verification, Spark starts in 18 s of CPU time instead of 20 s.
QUICK_START = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}


class Stack:
    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.run_folder = folder
        self.settings_file = folder / "health.toml"
        self.broker = Broker(folder / "broker", telemetry_to="")
        self.settings = Settings()
        self.alerting: alerting.Alerting | None = None
        self.webhook = Webhook(0, folder / "pages.jsonl")
        self.running: dict[str, Running] = {}
        self._say = say
        self._open = ExitStack()
        self._processes: list[Process] = []
        self._spare_brokers: list[Broker] = []
        self._brokers = 0
        self._legacy: LegacyBroker | None = None
        self._cluster: Cluster | None = None
        self._jvms, self._log_files = folder / "jvm-targets.txt", folder / "log-files.jsonl"

    @property
    def bootstrap_servers(self) -> str:
        """The address of the monitor's broker, which clients without their own broker use."""
        return self.broker.bootstrap_servers

    @property
    def status_page(self) -> str:
        return f"http://127.0.0.1:{self.settings.prometheus.port}"

    def start(self, clients: Sequence[DemoClient]) -> None:
        self._say("starting the broker")
        self._open.enter_context(self.broker)
        self._write_settings(clients)
        create_ours(self.settings)
        ask_for_pushes(self.broker.kafka, INTERVAL_SECONDS)
        monitor = self._run("monitor", self._command("monitor"), environment=QUICK_START)
        self._say("starting the monitor (Spark), the exporters, and the brokers of the clients")
        self._open.enter_context(self.webhook)
        exporter = self._run("exporter", self._command("export", "prometheus"))
        self._jvms.touch()
        self._run("jvm-exporter", self._command("export", "jvm", "--targets-file", str(self._jvms)))
        self._run("group-exporter", self._command("export", "groups"))
        shipper = [sys.executable, "-m", "deploy.demo.shipper", str(self._log_files)]
        self._run("log-shipper", [*shipper, "--config", str(self.settings_file)])
        if not alerting.missing():
            monitor_metrics = f"127.0.0.1:{self.settings.monitor.metrics_port}"
            jobs = {
                "kafka-client-health": f"127.0.0.1:{self.settings.prometheus.port}",
                "kafka-client-health-monitor": monitor_metrics,
            }
            self.alerting = alerting.start(self.run_folder / "alerting", self.settings, jobs, self.webhook.url)
            self._add(self.alerting.alertmanager)
            self._add(self.alerting.prometheus)
        self._prepare(clients)
        exporter.wait_until(lambda: alerting.answers(f"{self.status_page}/healthz"), alerting.START_SECONDS)
        self._say("waiting for the monitor's first batch")
        monitor.wait_until(self._monitor_works, MONITOR_SECONDS)

    def start_clients(self, clients: Sequence[DemoClient]) -> None:
        for client in clients:
            self._say(f"starting {client.name}: {client.help}")
            running = client.start(self)
            self.running[client.name] = running
            with self._jvms.open("a", encoding="utf-8") as targets:
                option = f" {PUSHED}" if client.pushes else ""
                targets.writelines(f"{url}{option}\n" for url in running.jolokia_urls)
            with self._log_files.open("a", encoding="utf-8") as files:
                files.write(f"{running.log_source}\n")

    def new_broker(self) -> Broker:
        if self._spare_brokers:
            return self._spare_brokers.pop()
        self._brokers += 1
        folder = self.run_folder / f"broker-{self._brokers}"
        broker = self._open.enter_context(Broker(folder, heap_mb=256, telemetry_to=self.bootstrap_servers))
        ask_for_pushes(broker.kafka, INTERVAL_SECONDS)
        return broker

    def legacy(self) -> LegacyBroker:
        """Return ZooKeeper and a broker of version 0.8.2.1. The first call starts ZooKeeper and the broker."""
        if self._legacy is None:
            self._legacy = self._open.enter_context(LegacyBroker(self.run_folder / "legacy"))
        return self._legacy

    def cluster(self) -> Cluster:
        """Return a cluster of three brokers of an old version, which `Cluster.roll` upgrades later."""
        if self._cluster is None:
            cluster = Cluster(self.run_folder / "cluster", self.bootstrap_servers, "broker-3.9")
            self._cluster = self._open.enter_context(cluster)
            ask_for_pushes(cluster.kafka, INTERVAL_SECONDS)
        return self._cluster

    def states(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.status_page}/clients.json", timeout=10) as response:
            states: list[dict[str, Any]] = json.load(response)
        return states

    def check(self) -> None:
        """Raise an error if a demo client or another process has failed."""
        for running in self.running.values():
            running.check()
        for process in self._processes:
            if not process.alive:
                raise ServiceError(f"{process.name} ended with exit code {process.exit_code}\n{process.tail()}")

    def logs(self) -> Mapping[str, Path]:
        return {"broker": self.broker.log, **{process.name: process.log for process in self._processes}}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            self._stop_clients()

    def _stop_clients(self) -> None:
        if self.running:
            with ThreadPoolExecutor(len(self.running), "stop") as pool:
                for _ in pool.map(Running.stop, self.running.values()):
                    pass

    def _prepare(self, clients: Sequence[DemoClient]) -> None:
        if any(client.broker == "legacy" for client in clients):
            self.legacy()
        if any(client.broker == "cluster" for client in clients):
            self.cluster()
        self._spare_brokers = [self.new_broker() for client in clients if client.broker == "own"]

    def _write_settings(self, clients: Sequence[DemoClient]) -> None:
        folder, defaults = self.run_folder, Settings()
        exporter_port = port_or_free(defaults.prometheus.port)
        metrics_port = port_or_free(defaults.monitor.metrics_port)
        sections: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": self.bootstrap_servers},
            "monitor": {
                "checkpoint": str(folder / "checkpoints"),
                "history": str(folder / "history"),
                "metrics_port": metrics_port,
                "trigger_seconds": 5,
            },
            "prometheus": {"port": exporter_port},
            "identity": {
                # Pushes in the demo have no user, and all come from one address. So only the client id identifies the
                # service.
                "push_services": [
                    f"{name}={client.service}" for client in clients if client.pushes for name in client.client_ids
                ],
                "push_hosts": [f"127.*={socket.gethostname()}"],
            },
            "jvm": {"interval_seconds": INTERVAL_SECONDS},
            "links": {"status_page": f"http://127.0.0.1:{exporter_port}"},
            "review": {"out": str(folder / "reports")},
        }
        text = "# The settings of this run of the demo.\n"
        for section, values in sections.items():
            text += f"\n[{section}]\n"
            # Strings, numbers and lists in JSON are also valid TOML.
            text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        self.settings_file.write_text(text, encoding="utf-8")
        self.settings = load(str(self.settings_file), environ={})

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "clienthealth.ops.cli", *arguments, "--config", str(self.settings_file)]

    def _run(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Process:
        process = Process(name, command, self.run_folder / f"{name}.log", locations.checkout(), environment)
        self._add(process)
        return process

    def _add(self, process: Process) -> None:
        self._processes.append(process)
        self._open.callback(process.stop, STOP_SECONDS)

    def _monitor_works(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.settings.monitor.metrics_port}/metrics", timeout=2
            ) as response:
                lines = response.read().decode().splitlines()
        except OSError:
            return False
        up = f'{PREFIX}_query_up{{query="{QUERY}"}} 1.0' in lines
        return up and any(line.startswith(f"{PREFIX}_last_batch_timestamp_seconds{{") for line in lines)
