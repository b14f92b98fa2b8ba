"""The web server of what we serve: TLS, basic authentication, pages as plain functions, and bounds for what others do.

A peer may be slow, silent, or malformed on purpose. A fixed number of requests is answered at once; one more gets a
503. A request must arrive, and its response be read, in a fixed time; where connections are many, the one that has let
us wait longest for its request makes room for the next. Large pages are sent in pieces from one copy.

Pages that are made once are kept compressed and sent to many: a page of 137 MB is 14 MB, and no reader has a copy. That
saves memory, not CPU: of 100,000 clients with all series (278 MB) the exporter needs 0.48 GB with it and 0.99 GB with
plain blocks; a scrape after a change takes 1 % less CPU (20,000 clients: 0.407 s for 0.412 s). A kept page can be
followed by a few lines that are made anew each time, in one gzip stream. Deflate is flushed where the page ends, and
the checksum goes on from there.
"""

from __future__ import annotations

import http.client
import io
import logging
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from clienthealth.model.errors import ServiceError
from clienthealth.platform.web_config import access
from clienthealth.settings import PrometheusSettings

log = logging.getLogger(__name__)
#: Pages are our own: no script runs but the file of this server, nothing is fetched from elsewhere, whatever a log line
#: says.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: Connections at once, idle ones among them, and requests that are answered at once (probes are always answered): far
#: fewer, so that of many connections there is always one that waits, and can be closed for a new one.
MAX_CONNECTIONS = 128
MAX_ANSWERS = 32
RETRY_AFTER_SECONDS = 5
#: In this time a request has to be there from its first to its last byte, and an answer has to be taken.
REQUEST_SECONDS = 15.0
ANSWER_SECONDS = 60.0
MAX_HEADER_BYTES = 32_768
_COMPRESS_FROM = 10_000
_BUSY = (
    f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: {RETRY_AFTER_SECONDS}\r\n"
    "Content-Length: 0\r\nConnection: close\r\n\r\n"
).encode()
_PIECE_BYTES = 65_536
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_LEVEL = 1
#: Unpacked a piece at a time: some forty kilobytes of lines, four megabytes at the very most.
_FED_BYTES = 4_096
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Packed:
    """A page: `body` is deflated and can be followed by more; `crc` and `size` are those of the plain bytes."""

    body: bytes
    crc: int
    size: int

    @classmethod
    def pack(cls, blocks: Iterable[str]) -> Packed:
        """The page that these blocks of text make; no more than one block of it is ever held unpacked."""
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        body, crc, size = bytearray(), 0, 0
        for block in blocks:
            plain = block.encode("utf-8", "replace")
            body += packer.compress(plain)
            crc, size = zlib.crc32(plain, crc), size + len(plain)
        body += packer.flush(zlib.Z_FULL_FLUSH)
        return cls(bytes(body), crc, size)


@dataclass(frozen=True, slots=True)
class Page:
    """A kept page and what is appended to it."""

    kept: Packed
    appended: str

    @property
    def size(self) -> int:
        """Bytes of the whole page, unpacked."""
        return self.kept.size + len(self._appended)

    def __iter__(self) -> Iterator[bytes]:
        """The page in pieces, unpacked."""
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        body = memoryview(self.kept.body)
        for start in range(0, len(body), _FED_BYTES):
            yield unpacker.decompress(body[start : start + _FED_BYTES])
        yield self._appended

    def gzip(self) -> tuple[bytes, ...]:
        """The page as gzip; the kept part is not copied."""
        last = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        tail = last.compress(self._appended) + last.flush()
        check = struct.pack("<II", zlib.crc32(self._appended, self.kept.crc), self.size & 0xFFFFFFFF)
        return _HEADER, self.kept.body, tail + check

    @property
    def _appended(self) -> bytes:
        return self.appended.encode("utf-8", "replace")


@dataclass(frozen=True)
class Request:
    """A GET request: its path and the parameters of its query, the last of each name. `etag`: what the asker has."""

    path: str
    query: Mapping[str, str]
    etag: str = ""


@dataclass(frozen=True)
class Response:
    """What is sent back. A body that is large is a kept page, or makes its pieces while it is sent."""

    body: str | Iterable[bytes]
    content_type: str = "text/html; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Request], Response]


def probe(trouble: str | None) -> Response:
    """What a probe of the platform gets: 200 without trouble, else 503 and the reason."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
    return Response(f"{trouble or 'ok'}\n", "text/plain; charset=utf-8", status)


class Server(ThreadingHTTPServer):
    """Answers GET and HEAD with `answer`; every connection in a thread of its own.

    `open_paths` need no password and no free place: what a probe of the platform asks. Raises ServiceError where the
    port is taken and SettingsError where certificate or passwords cannot be read.
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
        #: Those whose request is not there yet; in the order of their beginning to wait.
        self._waiting: dict[socket.socket, None] = {}
        try:
            super().__init__((settings.host, settings.port), _Handler)
        except OSError as error:
            raise ServiceError(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another {chosen_by}"
            ) from error

    @property
    def url(self) -> str:
        """Where the server can be reached on this machine."""
        host, port = self.server_address[:2]
        return f"{'https' if self.access.tls else 'http'}://{host!s}:{port}"

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; the TLS handshake is left to the request's thread, so that nobody can hold up others."""
        connection, address = super().get_request()
        if self.access.tls is not None:
            connection = self.access.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Make room for another connection. Where all are being answered, it gets a 503 if that needs no waiting."""
        if len(self._deadlines) < MAX_CONNECTIONS:
            return True
        if (longest := next(iter(list(self._waiting)), None)) is not None:
            self._waiting.pop(longest, None)
            self._deadlines.pop(longest, None)
            _end(longest)
            return True
        if self.access.tls is None:
            request.setblocking(False)
            try:
                request.send(_BUSY)
            except OSError:
                log.debug("a connection had ended by itself", exc_info=True)
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own."""
        self.await_request(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The end of a connection."""
        self._waiting.pop(request, None)
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def await_request(self, connection: socket.socket) -> None:
        """Give a connection the time in which its next request has to be there."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None
        self.allow(connection, REQUEST_SECONDS)

    def answering(self, connection: socket.socket) -> None:
        """Give a connection, whose request is there, the time in which the answer has to be taken."""
        self._waiting.pop(connection, None)
        self.allow(connection, ANSWER_SECONDS)

    def allow(self, connection: socket.socket, seconds: float) -> None:
        """Let a connection live for so long from now on."""
        self._deadlines[connection] = time.monotonic() + seconds

    def service_actions(self) -> None:
        """End the connections whose time is over; the thread that waits for one then finds it closed."""
        now = time.monotonic()
        for connection in [overdue for overdue, end in list(self._deadlines.items()) if end < now]:
            self._deadlines[connection] = now + ANSWER_SECONDS
            _end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is no event."""
        log.debug("request of %s failed", client_address, exc_info=True)


def _end(connection: socket.socket) -> None:
    try:
        # Of the plain socket: that of TLS would wait for the peer.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        log.debug("a connection had ended by itself", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = REQUEST_SECONDS
    protocol_version = "HTTP/1.1"
    server_version = "kafka-client-health"
    sys_version = ""

    def handle_one_request(self) -> None:
        self.server.await_request(self.connection)
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
            # What follows is no request of its own.
            self.close_connection = True
        return parsed

    def do_GET(self) -> None:
        self.server.answering(self.connection)
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
        """Refuse a request in a word; what it was is not repeated."""
        self.close_connection = True
        # To one that names no version the standard library sends no status.
        self.request_version = "HTTP/1.1"
        status = HTTPStatus(code)
        self._send(Response(f"{status.phrase.lower()}\n", "text/plain", status, {"Connection": "close"}))

    def _send(self, response: Response) -> None:
        asked = getattr(self, "headers", None)
        packed = asked is not None and _GZIP.search(asked.get("Accept-Encoding", "")) is not None
        pieces, length = response.body, None
        if isinstance(pieces, str):
            pieces = (pieces.encode("utf-8", "replace"),)
            packed = packed and len(pieces[0]) > _COMPRESS_FROM
        if packed:
            pieces = pieces.gzip() if isinstance(pieces, Page) else _gzipped(pieces)
        if isinstance(response.body, str):
            pieces = list(pieces)
        if isinstance(pieces, list | tuple):
            length = sum(map(len, pieces))
        elif isinstance(pieces, Page):
            length = pieces.size
        headers = {"Content-Type": response.content_type, "Vary": "Accept-Encoding"}
        headers |= {**SECURITY_HEADERS, **response.headers}
        if packed:
            headers["Content-Encoding"] = "gzip"
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
    """Reads the lines of a request's head, so many bytes of them."""

    def __init__(self, lines: io.BufferedIOBase) -> None:
        self._lines = lines
        self._left = MAX_HEADER_BYTES

    def readline(self, limit: int) -> bytes:
        """A line; raises LineTooLong (431) where all of them are too long."""
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
    """The same bytes in packets, each of which a peer has to take within the time of the socket; none is empty."""
    gathered = bytearray()
    for piece in pieces:
        for start in range(0, len(piece), _PIECE_BYTES):
            gathered += piece[start : start + _PIECE_BYTES]
            if len(gathered) >= _PIECE_BYTES:
                yield bytes(gathered)
                gathered.clear()
    if gathered:
        yield bytes(gathered)
