"""Run an exporter of one deadlocked producer in its own process."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from clienthealth.platform.web import Server
from clienthealth.settings import PrometheusSettings, Settings
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import deadlock, wire

READING_SECONDS = 2.0


def main(address: str) -> None:
    host, _, port = address.rpartition(":")
    settings = replace(Settings(), prometheus=PrometheusSettings(host=host, port=int(port)))
    states, began = States(settings), time.monotonic()
    now_ms = int(time.time() * 1000)
    key, value, _ = wire(deadlock(end_ms=now_ms))
    states.put(key, value, now_ms)
    reading = "the topic is being read"
    exporter = Exporter(settings, states, lambda: reading if time.monotonic() - began < READING_SECONDS else None)
    with Server(settings.prometheus, exporter, frozenset()) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
