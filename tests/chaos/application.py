"""Run a real Kafka application in a chaos campaign, and account for its records."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from clienthealth.settings import Settings
from deploy.demo.processes import Process
from deploy.demo.topics import create_topics
from tests.chaos.published import Topic

STOP_SECONDS = 150.0


class Application:
    def __init__(self, settings: Settings, folder: Path) -> None:
        self._orders, self._metrics = f"{folder.name}-orders", f"{folder.name}-live-metrics"
        self._settings, self._file, self._log = settings, folder / "application.json", folder / "application.log"
        self._process: Process | None = None
        self._reported = Topic(settings.kafka.bootstrap_servers, self._metrics)

    def counts(self) -> Mapping[str, int]:
        with suppress(OSError, ValueError):
            counts: Mapping[str, int] = json.loads(self._file.read_text(encoding="utf-8"))
            return counts
        return {}

    def goes_on(self, before: Mapping[str, int]) -> bool:
        now = self.counts()
        return all(now.get(name, 0) > before.get(name, 0) for name in ("acknowledged", "consumed", "reported"))

    def end(self) -> Iterator[str]:
        assert self._process is not None
        self._process.stop(STOP_SECONDS)
        counts = self.counts()
        if self._process.exit_code:
            yield f"the application ended with exit code {self._process.exit_code}"
        if counts["sent"] != counts["acknowledged"] + counts["failed"]:
            yield f"the application: {counts}: not every record was acknowledged or given up"
        if counts["consumed"] < counts["acknowledged"]:
            yield f"the application: {counts}: not everything that was acknowledged was consumed"
        snapshots = self._reported.look()
        if len(snapshots) < counts["reported"]:
            yield f"{len(snapshots)} snapshots on the topic, {counts['reported']} were acknowledged"

    def __enter__(self) -> Self:
        create_topics(self._settings.kafka, [self._orders, self._metrics])
        servers = self._settings.kafka.bootstrap_servers
        command = [sys.executable, "-m", "tests.chaos.client", servers, self._orders, self._metrics, str(self._file)]
        self._process = Process("application", command, self._log)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
        self._reported.close()
