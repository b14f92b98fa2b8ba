"""Ship the log files of the demo's clients to the topic client-logs, as structured records.

python -m deploy.demo.shipper FILES

FILES is a file that lists log files, one per line. Lines may be added while the shipper runs. A line is a JSON object
with `service`, `host`, `instance` and `file`. Records go to the brokers in the monitor's settings.
"""

from __future__ import annotations

import argparse
import json
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

from clienthealth.configuration import load
from clienthealth.model.clients import ClientProcess
from clienthealth.platform.stopping import stop_event
from clienthealth.settings import Settings
from clienthealth_exporters.publish import Publisher
from deploy.demo.log_file import LogEvent, LogFile

log = logging.getLogger(__name__)

#: Maximum number of events to ship per file, logger, level and second.
LIMIT = 50
PAUSE_SECONDS = 0.5


class Shipper:
    def __init__(self, files: Path, publisher: Publisher, topic: str, limit: int = LIMIT) -> None:
        self._files = files
        self._publisher = publisher
        self._topic = topic
        self._limit = limit
        self._followed: dict[str, tuple[ClientProcess, LogFile]] = {}

    def run(self, stop: threading.Event) -> None:
        """Ship log events until `stop` is set, and close the files."""
        while not stop.is_set():
            if not self.ship():
                stop.wait(PAUSE_SECONDS)
        self.ship()
        for process, file in self._followed.values():
            for event in file.close():
                self._send(process, event)

    def ship(self) -> bool:
        """Ship at most one chunk of each file (`log_file.CHUNK_BYTES`). Return True if a file has more to read."""
        self._read_list()
        for process, file in self._followed.values():
            for event in file.events():
                self._send(process, event)
        return any(file.behind for _, file in self._followed.values())

    def _read_list(self) -> None:
        try:
            lines = self._files.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            if line not in self._followed:
                source = json.loads(line)
                process = ClientProcess(source["service"], source["host"], source["instance"])
                self._followed[line] = (process, LogFile(Path(source["file"]), self._limit))
                log.info("ships %s of %s", source["file"], source["instance"])

    def _send(self, process: ClientProcess, event: LogEvent) -> None:
        record = {
            "@timestamp": datetime.fromtimestamp(event.ts_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "log.level": event.level,
            "log.logger": event.logger,
            "process.thread.name": event.thread,
            "message": event.message,
            "error.stack_trace": "\n".join(event.stack),
            "service.name": process.service,
            "host.name": process.host,
            "service.node.name": process.instance,
        }
        self._publisher.send(self._topic, process.key, {name: value for name, value in record.items() if value})


def main(files: Path, settings: Settings) -> int:
    """Ship log events until SIGTERM or Ctrl-C. Return 1 if records could not be delivered, else 0."""
    stop = stop_event()
    publisher = Publisher.to(settings, "kafka-health-shipper", compression_type="gzip")
    try:
        Shipper(files, publisher, settings.topics.logs[0]).run(stop)
    finally:
        lost = publisher.close()
    return 1 if lost else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-5s %(name)s - %(message)s")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, help="the list of log files")
    parser.add_argument("--config", help="settings in TOML")
    arguments = parser.parse_args()
    raise SystemExit(main(arguments.files, load(arguments.config)))
