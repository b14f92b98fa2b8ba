"""Imitate the Jolokia agents of many JVMs in one process."""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
SLOW, MUTE, STUCK = range(0, 5), range(5, 7), range(10, 20)
SLOW_SECONDS, MUTE_SECONDS = 3.0, 30.0
DUMP_BYTES = 200_000
_NAME = re.compile(r"(?P<group>[\w-]+)/(?P<attribute>.+?)\{(?P<tags>[^}]*)\}")


def mbeans(domain: str, recording: str) -> dict[str, dict[str, Any]]:
    """Return the MBeans of a recorded client as Jolokia sends them, with NaN instead of null."""
    path = RECORDINGS / "evidence" / recording
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        fullest = max(lines, key=len)
    by_name: dict[str, dict[str, Any]] = {}
    for name, value in json.loads(fullest)["metrics"].items():
        if match := _NAME.fullmatch(name):
            mbean = f"{domain}:type={match['group']},{match['tags']}"
            by_name.setdefault(mbean, {})[match["attribute"]] = "NaN" if value is None else value
    return by_name


class Agents(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.domains: Mapping[str, dict[str, Any]] = {
            "kafka.producer": mbeans("kafka.producer", "c1_healthy/metrics.jsonl.gz"),
            "kafka.consumer": mbeans("kafka.consumer", "c1_healthy/consumer-metrics.jsonl.gz"),
        }
        text = (RECORDINGS / "deadlock-3.9/jstack-during1-073639.txt").read_text("utf-8")
        self.dump = (text * (DUMP_BYTES // len(text) + 1))[:DUMP_BYTES]

    def answer(self, number: int, asked: Mapping[str, Any]) -> dict[str, Any]:
        domain = asked["mbean"].partition(":")[0]
        if asked["type"] == "exec":
            return {"request": asked, "status": 200, "value": self.dump}
        if domain == "java.lang":
            name = {"Name": f"{number}@host-{number:04}", "StartTime": 1_795_249_830_558}
            return {"request": asked, "status": 200, "value": name}
        if domain not in self.domains:
            return {"request": asked, "status": 404, "error": f"no MBean with pattern {asked['mbean']} found"}
        kind, names = asked["mbean"].partition(":")[2].partition(",")[0], asked.get("attribute")
        value = {
            name: {one: of[one] for one in names or of if one in of}
            for name, of in self.domains[domain].items()
            if kind in name
        }
        if domain == "kafka.producer":
            value = {name: self._moved(number, attributes) for name, attributes in value.items()}
        return {"request": asked, "status": 200, "value": value, "timestamp": int(time.time())}

    def _moved(self, number: int, attributes: dict[str, Any]) -> dict[str, Any]:
        if "select-total" not in attributes:
            return attributes
        if number % 100 in STUCK:
            return {**attributes, "select-total": 10213.0, "buffer-available-bytes": 1_000_000}
        count = float(int(time.time() * 10))
        return {**attributes, "select-total": count, "record-send-total": count}


class _Handler(BaseHTTPRequestHandler):
    server: Agents

    def do_POST(self) -> None:
        number = int(self.path.strip("/"))
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = number % 100
        if kind in MUTE:
            time.sleep(MUTE_SECONDS)
            return
        if kind in SLOW:
            time.sleep(SLOW_SECONDS)
        if isinstance(asked, dict):
            answer: Any = self.server.answer(number, asked)
        else:
            answer = [self.server.answer(number, one) for one in asked]
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        return


if __name__ == "__main__":
    Agents(int(sys.argv[1])).serve_forever()
