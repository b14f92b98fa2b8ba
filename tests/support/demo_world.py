"""Provide a folder and the shared broker for demo clients in tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.demo.broker import Broker
from deploy.demo.cluster import Cluster
from deploy.demo.legacy import LegacyBroker


@dataclass
class World:
    run_folder: Path
    bootstrap_servers: str

    def new_broker(self) -> Broker:
        raise NotImplementedError

    def legacy(self) -> LegacyBroker:
        raise NotImplementedError

    def cluster(self) -> Cluster:
        raise NotImplementedError
