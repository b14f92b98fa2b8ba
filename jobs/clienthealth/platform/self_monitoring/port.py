"""What the monitor serves on its own port: its metrics, and two probes that notice a query which hangs.

/metrics    Prometheus text format
/healthz    200 while batches end, and while the first may still be under way; 503 lets a platform start it again
/readyz     200 once a batch has ended, and while they do
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from clienthealth.platform.web import Request, Response, Server
from clienthealth.settings import PrometheusSettings

PROBES = frozenset({"/healthz", "/readyz"})
#: A batch that catches up takes a minute, one of many small files several. Also the time that a start may take.
HUNG_SECONDS = 600.0


class Port:
    """Answers the requests. `last_batch`: when a batch last ended, epoch seconds, None before the first."""

    def __init__(
        self,
        registry: CollectorRegistry,
        last_batch: Callable[[], float | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._last_batch = last_batch
        self._clock = clock
        self._started = clock()

    def __call__(self, request: Request) -> Response:
        match request.path:
            case "/metrics":
                return Response(generate_latest(self._registry).decode(), CONTENT_TYPE_LATEST)
            case "/healthz":
                return _probe(self._hangs(self._last_batch() or self._started))
            case "/readyz":
                last = self._last_batch()
                return _probe("no batch has ended yet" if last is None else self._hangs(last))
        return Response("not found\n", "text/plain", HTTPStatus.NOT_FOUND)

    def _hangs(self, since: float) -> str | None:
        silent = self._clock() - since
        return f"no batch has ended for {silent:.0f} s" if silent > HUNG_SECONDS else None


def serve(host: str, port: int, answer: Port) -> Server:
    """Serve from a thread of its own. Raises ServiceError where the port is taken."""
    options = "[monitor] metrics_port, or 0 for none"
    server = Server(PrometheusSettings(host=host, port=port), answer, PROBES, options)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def _probe(trouble: str | None) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
    return Response(f"{trouble or 'ok'}\n", "text/plain; charset=utf-8", status)
