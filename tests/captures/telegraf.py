"""Writes down what Telegraf makes of a Jolokia agent and of a page of the JMX exporter.

    python tests/captures/telegraf.py PATH-OF-TELEGRAF

Both are stand-ins that answer as the real ones do of one producer; the plugins and serializers are Telegraf's own. Its
Kafka output gives each record what its file output gives a line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("telegraf")
ID, TOPIC = "shop-producer", "orders_v2"
#: MBean → its attributes.
MBEANS: dict[str, dict[str, float]] = {
    f"kafka.producer:client-id={ID},type=producer-metrics": {
        "buffer-available-bytes": 33550000.0,
        "buffer-total-bytes": 33554432.0,
        "select-total": 713.0,
        "waiting-threads": 0.0,
    },
    f"kafka.producer:client-id={ID},topic={TOPIC},type=producer-topic-metrics": {"record-send-total": 138.0},
}
LABELS = {"producer-metrics": f'client_id="{ID}"', "producer-topic-metrics": f'client_id="{ID}",topic="{TOPIC}"'}
#: File → which input, and the format.
FILES = {
    "jolokia2.influx": ("jolokia2", "influx"),
    "jolokia2.json": ("jolokia2", "json"),
    "prometheus-1.influx": ("prometheus-1", "influx"),
    "prometheus-2.influx": ("prometheus-2", "influx"),
    "prometheus-2.json": ("prometheus-2", "json"),
    "prometheus-2.prom": ("prometheus-2", "prometheus"),
}


def main(telegraf: str) -> None:
    """Replace the captures."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    FOLDER.mkdir(exist_ok=True)
    for name in FILES:
        (FOLDER / name).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "telegraf.conf"
        config.write_text(configuration(f"http://127.0.0.1:{server.server_port}"))
        subprocess.run([telegraf, "--once", "--config", str(config)], check=True)
    server.shutdown()


def configuration(url: str) -> str:
    """Every input to files of its own."""
    topic = 'tag_keys = ["client-id", "topic"]'
    metrics = "".join(
        f'  [[inputs.jolokia2_agent.metric]]\n    name = "{name}"\n    mbean = "{mbean}"\n    {tags}\n'
        for name, mbean, tags in (
            ("kafka_producer", "kafka.producer:client-id=*,type=producer-metrics", 'tag_keys = ["client-id"]'),
            ("kafka_producer_topic", "kafka.producer:client-id=*,topic=*,type=producer-topic-metrics", topic),
        )
    )
    inputs = [
        f'[[inputs.jolokia2_agent]]\n  urls = ["{url}/jolokia"]\n{metrics}'
        '  [inputs.jolokia2_agent.tags]\n    via = "jolokia2"\n'
    ]
    for version in (1, 2):
        inputs.append(
            f'[[inputs.prometheus]]\n  urls = ["{url}/metrics"]\n  metric_version = {version}\n'
            f'  [inputs.prometheus.tags]\n    via = "prometheus-{version}"\n'
        )
    outputs = [
        f'[[outputs.file]]\n  files = ["{FOLDER / name}"]\n  data_format = "{written}"\n  tagexclude = ["via"]\n'
        f'  [outputs.file.tagpass]\n    via = ["{source}"]\n'
        for name, (source, written) in FILES.items()
    ]
    return '[agent]\n  hostname = "scraper"\n' + "".join((*inputs, *outputs))


class Handler(BaseHTTPRequestHandler):
    """Jolokia on POST, the JMX exporter's page on GET."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(json.dumps([self._read(one) for one in asked]), "application/json")

    def do_GET(self) -> None:
        lines = []
        for mbean, attributes in MBEANS.items():
            group = mbean.rpartition("=")[2]
            for attribute, value in attributes.items():
                name = f"kafka_producer_{group}_{attribute}".replace("-", "_")
                lines += [f"# HELP {name} {group}", f"# TYPE {name} gauge", f"{name}{{{LABELS[group]}}} {value}"]
        self._answer("\n".join(lines) + "\n", "text/plain; version=0.0.4; charset=utf-8")

    def _read(self, asked: dict[str, Any]) -> dict[str, Any]:
        group = asked["mbean"].rpartition("=")[2]
        found = {mbean: said for mbean, said in MBEANS.items() if mbean.endswith(f"type={group}")}
        return {"request": asked, "value": found, "timestamp": 1795200030, "status": 200}

    def _answer(self, body: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


if __name__ == "__main__":
    main(sys.argv[1])
