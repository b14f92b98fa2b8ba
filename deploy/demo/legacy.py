"""Run ZooKeeper and a broker of version 0.8.2.1 for the demo's old Scala clients."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Self

from clienthealth.model.errors import ServiceError
from deploy.demo.broker import START_SECONDS, STOP_SECONDS, java_command
from deploy.demo.processes import Process, free_port

#: Keeps ZooKeeper 3.4 from registering MBeans of log4j 1, which is not installed.
_NO_LOG4J_MBEANS = "-Dzookeeper.jmx.log4j.disable=true"


class LegacyBroker:
    """One ZooKeeper and one broker, with data and logs (`zookeeper.log`, `broker.log`) in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "broker.log"
        self._zookeeper_port = free_port()
        self._port = free_port()
        self._processes: list[Process] = []

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def zookeeper_connect(self) -> str:
        return f"127.0.0.1:{self._zookeeper_port}"

    def start(self) -> Self:
        """Start ZooKeeper and the broker, and wait until both answer.

        Raises ServiceError, with the end of the log, if a program does not answer in 300 s.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        zookeeper = self._write(
            "zookeeper.properties",
            dataDir=str(self.folder / "zookeeper"),
            clientPort=str(self._zookeeper_port),
            clientPortAddress="127.0.0.1",
            maxClientCnxns="0",
            tickTime="2000",
        )
        broker = self._write(
            "server.properties",
            broker_id="0",
            port=str(self._port),
            host_name="127.0.0.1",
            advertised_host_name="127.0.0.1",
            log_dirs=str(self.folder / "data"),
            zookeeper_connect=self.zookeeper_connect,
            zookeeper_session_timeout_ms="30000",
            num_partitions="1",
            num_network_threads="2",
            num_io_threads="2",
            offsets_topic_num_partitions="1",
            offsets_topic_replication_factor="1",
            log_cleaner_enable="false",
            controlled_shutdown_enable="false",
        )
        try:
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._run("zookeeper", 64, main, zookeeper).wait_until(self._zookeeper_answers, START_SECONDS)
            self._run("broker", 128, "kafka.Kafka", broker).wait_until(self._broker_registered, START_SECONDS)
        except ServiceError:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        while self._processes:
            self._processes.pop().stop(STOP_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write(self, name: str, **properties: str) -> Path:
        file = self.folder / name
        file.write_text(
            "".join(f"{key.replace('_', '.')}={value}\n" for key, value in properties.items()), encoding="utf-8"
        )
        return file

    def _run(self, name: str, heap_mb: int, main: str, configuration: Path) -> Process:
        command = java_command("legacy", heap_mb, main, str(configuration))
        command.insert(1, _NO_LOG4J_MBEANS)
        process = Process(f"{name} of 0.8.2.1", command, self.folder / f"{name}.log", cwd=self.folder)
        self._processes.append(process)
        return process

    def _zookeeper_answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._zookeeper_port), timeout=2) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def _broker_registered(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._zookeeper_port), timeout=2) as connection:
                connection.sendall(b"dump")
                response = b""
                while part := connection.recv(4096):
                    response += part
        except OSError:
            return False
        return b"/brokers/ids/0" in response
