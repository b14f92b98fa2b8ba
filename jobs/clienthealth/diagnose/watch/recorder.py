"""What was read, kept in a folder that `kafka-health diagnose` reads and that can be attached to a ticket."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from clienthealth.model.errors import InputError
from clienthealth.platform.secrecy import redacted, shown

_ODD = re.compile(r"[^\w.-]+")


class Recorder:
    """A folder per process, with `metrics.jsonl` and a `jstack-*.txt` per dump.

    The folder tells the process, so the readings name neither host nor process id; secrets are removed. Raises
    InputError where it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dumps: dict[str, int] = {}

    def readings(self, value: Mapping[str, Any]) -> None:
        """A snapshot of a client, as a line."""
        client = value["client"]
        anonymous = {**client, "service": None, "host": None, "instance": None}
        line = {**value, "client": anonymous, "config": shown(value["config"])}
        self._write(client["service"], "metrics.jsonl", json.dumps(line) + "\n", "a")

    def dump(self, record: Mapping[str, Any]) -> None:
        """A thread dump, as a log record of ours has it, as a file."""
        service = record["service.name"]
        self._dumps[service] = number = self._dumps.get(service, 0) + 1
        at = datetime.fromisoformat(record["@timestamp"])
        self._write(service, f"jstack-{number:02}-{at:%H%M%S}.txt", redacted(record["message"]) + "\n", "w")

    def _write(self, service: str, name: str, text: str, mode: str) -> None:
        folder = self._folder / _ODD.sub("-", service)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / name).open(mode, encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            raise InputError(f"--record {self._folder}: cannot be written: {error.strerror}") from error
