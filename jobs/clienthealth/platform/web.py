"""The web server of the exporter and the monitor, with TLS, basic authentication, and limits on peers.

While MAX_ANSWERS requests are being answered, each further request gets a 503.
"""

from __future__ import annotations

import http.client
import io
import logging
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from clienthealth.model.errors import ServiceError
from clienthealth.platform.web_config import access
from clienthealth.settings import PrometheusSettings

log = logging.getLogger(__name__)
#: Pages run only this server's script, because a log line may contain HTML with another script.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MAX_CONNECTIONS = 128
#: Maximum number of requests that are answered at the same time. Probes are not counted.
MAX_ANSWERS = 32
RETRY_AFTER_SECONDS = 5
REQUEST_SECONDS = 15.0
ANSWER_SECONDS = 60.0
MAX_HEADER_BYTES = 32_768
_COMPRESS_FROM = 10_000
_BUSY = (
    f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: {RETRY_AFTER_SECONDS}\r\n"
    "Content-Length: 0\r\nConnection: close\r\n\r\n"
).encode()
_PIECE_BYTES = 65_536
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """A GET request: its path, and the last value of each query parameter.

    `etag`: the version of the page that the peer has cached (If-None-Match); '' if no page is cached.
    """

    path: str
    query: Mapping[str, str]
    etag: str = ""


@dataclass(frozen=True)
class Response:
    """A response. `body`: a text, or an iterable that produces the pieces of a large body during sending."""

    body: str | Iterable[bytes]
    content_type: str = "text/html; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Request], Response]


def probe(trouble: str | None) -> Response:
    """Return the answer to a probe: 503 with the text `trouble`, or 200 if `trouble` is None or ''."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
    return Response(f"{trouble or 'ok'}\n", "text/plain; charset=utf-8", status)


class Server(ThreadingHTTPServer):
    """Answer GET and HEAD requests with the function `answer`, each connection in its own thread.

    `open_paths`: the paths of probes, which need no password and do not count towards MAX_ANSWERS. `chosen_by`: name
    of the setting that determines the port, for error messages. Raises ServiceError if the server cannot listen,
    SettingsError if the file `web_config_file` is wrong, and DependencyError if this file needs a missing package.
    """

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self,
        settings: PrometheusSettings,
        answer: Answer,
        open_paths: frozenset[str],
        chosen_by: str = "[prometheus] port",
    ) -> None:
        self.answer = answer
        self.open_paths = open_paths
        self.access = access(settings.web_config_file)
        self.places = threading.BoundedSemaphore(MAX_ANSWERS)
        self._deadlines: dict[socket.socket, float] = {}
        #: Connections without a complete request. The connection that has waited longest is first.
        self._waiting: dict[socket.socket, None] = {}
        try:
            super().__init__((settings.host, settings.port), _Handler)
        except OSError as error:
            raise ServiceError(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another {chosen_by}"
            ) from error

    @property
    def url(self) -> str:
        """The server's URL."""
        host, port = self.server_address[:2]
        return f"{'https' if self.access.tls else 'http'}://{host!s}:{port}"

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection and return (connection, address of the peer).

        The connection's own thread does the TLS handshake, so a slow peer delays no other peer.
        """
        connection, address = super().get_request()
        if self.access.tls is not None:
            connection = self.access.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """True if the new connection is accepted.

        If MAX_CONNECTIONS connections are open, the connection that has waited longest for a request is closed.
        """
        if len(self._deadlines) < MAX_CONNECTIONS:
            return True
        if (longest := next(iter(list(self._waiting)), None)) is not None:
            self._waiting.pop(longest, None)
            self._deadlines.pop(longest, None)
            _end(longest)
            return True
        if self.access.tls is None:
            request.setblocking(False)
            with suppress(OSError):
                request.send(_BUSY)
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection's requests in its own thread. The first request must arrive within REQUEST_SECONDS."""
        self.allow(request, REQUEST_SECONDS, waiting=True)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and forget its deadline."""
        self._waiting.pop(request, None)
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def allow(self, connection: socket.socket, seconds: float, waiting: bool) -> None:
        """Set the deadline of a connection to `seconds` from now.

        `waiting`: True if the peer's next request must arrive by the deadline; False if a request is being answered.
        """
        self._waiting.pop(connection, None)
        if waiting:
            self._waiting[connection] = None
        self._deadlines[connection] = time.monotonic() + seconds

    def service_actions(self) -> None:
        """Close overdue connections. The thread of a closed connection gets an error."""
        now = time.monotonic()
        for connection in [overdue for overdue, end in list(self._deadlines.items()) if end < now]:
            self._deadlines[connection] = now + ANSWER_SECONDS
            _end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failed connection only at level DEBUG: peers may break connections at any time."""
        log.debug("request of %s failed", client_address, exc_info=True)


def _end(connection: socket.socket) -> None:
    # Closing the TLS connection would wait for the peer.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = REQUEST_SECONDS
    protocol_version = "HTTP/1.1"
    server_version = "kafka-client-health"
    sys_version = ""

    def handle_one_request(self) -> None:
        self.server.allow(self.connection, REQUEST_SECONDS, waiting=True)
        super().handle_one_request()

    def parse_request(self) -> bool:
        lines, self.rfile = self.rfile, _Bounded(self.rfile)  # type: ignore[assignment]
        try:
            parsed = super().parse_request()
        finally:
            self.rfile = lines
        if parsed and self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        if parsed and (self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers):
            # The server does not read the bodies of requests. If the connection stayed open, the body of this request
            # would be read as the next request.
            self.close_connection = True
        return parsed

    def do_GET(self) -> None:
        self.server.allow(self.connection, ANSWER_SECONDS, waiting=False)
        try:
            address = urlsplit(self.path)
            query = dict(parse_qsl(address.query, keep_blank_values=True, max_num_fields=100))
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        asked = Request(address.path, query, self.headers.get("If-None-Match", ""))
        if asked.path in self.server.open_paths:
            self._answer(asked)
        elif not self.server.places.acquire(blocking=False):
            later = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            self._send(Response("too many requests at once\n", "text/plain", HTTPStatus.SERVICE_UNAVAILABLE, later))
        else:
            try:
                self._answer(asked)
            finally:
                self.server.places.release()

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, request: Request) -> None:
        allowed = self.server.access.allows(self.headers.get("Authorization", ""))
        if request.path not in self.server.open_paths and not allowed:
            refusal = {"WWW-Authenticate": 'Basic realm="kafka-client-health", charset="UTF-8"'}
            self._send(Response("authentication needed\n", "text/plain", HTTPStatus.UNAUTHORIZED, refusal))
            return
        try:
            response = self.server.answer(request)
        except Exception:
            log.exception("GET %s failed", request.path)
            response = Response("internal error\n", "text/plain", HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(response)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send a short error response that repeats nothing from the request."""
        self.close_connection = True
        # Without an HTTP version, the standard library sends no status line.
        self.request_version = "HTTP/1.1"
        status = HTTPStatus(code)
        self._send(Response(f"{status.phrase.lower()}\n", "text/plain", status, {"Connection": "close"}))

    def _send(self, response: Response) -> None:
        asked, pieces, length = getattr(self, "headers", None), response.body, None
        packed = asked is not None and _GZIP.search(asked.get("Accept-Encoding", "")) is not None
        if isinstance(pieces, str):
            pieces = (pieces.encode("utf-8", "replace"),)
            if packed := packed and len(pieces[0]) > _COMPRESS_FROM:
                pieces = tuple(_gzipped(pieces))
        elif packed:
            pieces = _gzipped(pieces)
        if isinstance(pieces, tuple):
            length = sum(map(len, pieces))
        headers = {"Content-Type": response.content_type, "Vary": "Accept-Encoding"}
        headers |= {**SECURITY_HEADERS, **response.headers, **({"Content-Encoding": "gzip"} if packed else {})}
        chunked = length is None and self.request_version == "HTTP/1.1"
        if length is not None:
            headers["Content-Length"] = str(length)
        elif chunked:
            headers["Transfer-Encoding"] = "chunked"
        else:
            self.close_connection = True
        self.send_response(response.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        for piece in _packets(pieces):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


class _Bounded:
    """Reads the head of a request by lines, up to MAX_HEADER_BYTES in total."""

    def __init__(self, lines: io.BufferedIOBase) -> None:
        self._lines = lines
        self._left = MAX_HEADER_BYTES

    def readline(self, limit: int) -> bytes:
        line = self._lines.readline(min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise http.client.LineTooLong("header")
        return line


def _gzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _packets(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join `pieces` into packets of 64 to 128 KiB, and yield the packets (the last may be smaller).

    The peer must read each packet within its connection's timeout.
    """
    gathered = bytearray()
    for piece in pieces:
        for start in range(0, len(piece), _PIECE_BYTES):
            gathered += piece[start : start + _PIECE_BYTES]
            if len(gathered) >= _PIECE_BYTES:
                yield bytes(gathered)
                gathered.clear()
    if gathered:
        yield bytes(gathered)
