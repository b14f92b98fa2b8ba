"""The demo's pager: a web server that receives and keeps Alertmanager's notifications."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

MAX_BODY = 4_000_000


@dataclass(frozen=True)
class Page:
    """An alert in a notification. `received_ms`: time of arrival (epoch ms); `status`: firing or resolved.

    `started`: the time at which the alert began, in the format of Alertmanager (RFC 3339).
    """

    received_ms: int
    status: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    started: str = ""


class Webhook:
    """A web server on loopback that serves during a `with` block."""

    def __init__(self, port: int, file: Path) -> None:
        self.file = file
        self._pages: list[Page] = []
        self._lock = threading.Lock()
        receive = self._receive

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                ok = 0 < length <= MAX_BODY and receive(self.rfile.read(length))
                self.send_response(200 if ok else 400)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def pages(self) -> list[Page]:
        with self._lock:
            return list(self._pages)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _receive(self, body: bytes) -> bool:
        now = int(time.time() * 1000)
        try:
            alerts = json.loads(body)["alerts"]
            pages = [
                Page(now, alert["status"], alert["labels"], alert.get("annotations", {}), alert.get("startsAt", ""))
                for alert in alerts
            ]
        except (ValueError, KeyError, TypeError):
            return False
        with self._lock, self.file.open("a", encoding="utf-8") as file:
            self._pages += pages
            file.writelines(
                json.dumps(
                    {"received_ms": now, "status": p.status, "started": p.started, "labels": p.labels, **p.annotations}
                )
                + "\n"
                for p in pages
            )
        return True
