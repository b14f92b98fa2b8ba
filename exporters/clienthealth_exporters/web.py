"""The web server of the exporter: TLS, basic authentication, and pages as plain functions."""

from __future__ import annotations

import base64
import gzip
import hmac
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from clienthealth.errors import ServiceError, SettingsError
from clienthealth.settings import PrometheusSettings

log = logging.getLogger(__name__)
#: Pages are our own HTML and CSS alone: no script runs, nothing is fetched from elsewhere, whatever a log line says.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_COMPRESS_FROM = 10_000


@dataclass(frozen=True)
class Request:
    """A GET request: its path and the parameters of its query, the last of each name."""

    path: str
    query: Mapping[str, str]


@dataclass(frozen=True)
class Response:
    """What is sent back."""

    body: str
    content_type: str = "text/html; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Request], Response]


class Server(ThreadingHTTPServer):
    """Answers GET and HEAD with `answer`; every request in a thread of its own.

    `open_paths` need no password: what a probe of the platform asks. Raises ServiceError where the port is taken and
    SettingsError where certificate or password cannot be read.
    """

    daemon_threads = True

    def __init__(self, settings: PrometheusSettings, answer: Answer, open_paths: frozenset[str]) -> None:
        self.answer = answer
        self.open_paths = open_paths
        self.credentials = _credentials(settings)
        self._tls = _tls(settings)
        try:
            super().__init__((settings.host, settings.port), _Handler)
        except OSError as error:
            raise ServiceError(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another [prometheus] port"
            ) from error

    @property
    def url(self) -> str:
        """Where the server can be reached on this machine."""
        host, port = self.server_address[:2]
        return f"{'https' if self._tls else 'http'}://{host!s}:{port}"

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; the TLS handshake is left to the request's thread, so that nobody can hold up others."""
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is no event."""
        log.debug("request of %s failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 15
    protocol_version = "HTTP/1.1"
    server_version = "kafka-client-health"
    sys_version = ""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path not in self.server.open_paths and not self._allowed():
            refusal = {"WWW-Authenticate": 'Basic realm="kafka-client-health", charset="UTF-8"'}
            self._send(Response("authentication needed\n", "text/plain", HTTPStatus.UNAUTHORIZED, refusal))
            return
        request = Request(address.path, dict(parse_qsl(address.query, keep_blank_values=True)))
        try:
            response = self.server.answer(request)
        except Exception:
            log.exception("GET %s failed", address.path)
            response = Response("internal error\n", "text/plain", HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(response)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _allowed(self) -> bool:
        wanted = self.server.credentials
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        return wanted is None or hmac.compare_digest(given, wanted)

    def _send(self, response: Response) -> None:
        body = response.body.encode("utf-8", "replace")
        headers = {"Content-Type": response.content_type, "Vary": "Accept-Encoding"}
        headers |= {**SECURITY_HEADERS, **response.headers}
        if len(body) > _COMPRESS_FROM and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        self.send_response(response.status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _credentials(settings: PrometheusSettings) -> bytes | None:
    if not settings.basic_auth_file:
        return None
    try:
        text = Path(settings.basic_auth_file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"[prometheus] basic_auth_file cannot be read: {error.strerror}") from error
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise SettingsError("[prometheus] basic_auth_file must hold user:password")
    return b"Basic " + base64.b64encode(text.encode())


def _tls(settings: PrometheusSettings) -> ssl.SSLContext | None:
    if not settings.tls_cert and not settings.tls_key:
        return None
    if not settings.tls_cert or not settings.tls_key:
        raise SettingsError("[prometheus] tls_cert and tls_key belong together")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        raise SettingsError(f"[prometheus] tls_cert and tls_key cannot be used: {error.strerror or error}") from error
    return context
