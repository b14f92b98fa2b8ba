"""The web server: pages, health, password, TLS, compression; what a broken request or a stalled peer may do."""

from __future__ import annotations

import base64
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from clienthealth.errors import ServiceError, SettingsError
from clienthealth.platform.web import Request, Response, Server
from clienthealth.settings import PrometheusSettings, Settings
from clienthealth_exporters.prometheus.exporter import PROBES, Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import NOW_MS, deadlock, healthy, wire

LOCAL = PrometheusSettings(port=0)


@contextmanager
def serving(settings: PrometheusSettings = LOCAL, trouble: str | None = None) -> Iterator[Server]:
    chosen = Settings()
    states = States(chosen, clock=lambda: NOW_MS / 1000)
    for one in (deadlock(), *(healthy(number) for number in range(40))):
        states.put(*wire(one))
    with running(settings, Exporter(chosen, states, lambda: trouble)) as server:
        yield server


@contextmanager
def running(settings: PrometheusSettings, answer: object) -> Iterator[Server]:
    with Server(settings, answer, PROBES) as server:  # type: ignore[arg-type]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def get(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


@pytest.mark.parametrize(
    ("path", "status", "content_type", "part"),
    [
        ("/", 200, "text/html; charset=utf-8", b"Kafka client health"),
        ("/?q=invoices", 200, "text/html; charset=utf-8", b"invoices"),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8", b"# TYPE kafka_client_up gauge"),
        ("/healthz", 200, "text/plain; charset=utf-8", b"ok\n"),
        ("/readyz", 200, "text/plain; charset=utf-8", b"ok\n"),
        ("/livez", 200, "text/plain; charset=utf-8", b"ok\n"),
        ("/clients.json", 200, "application/json", b'"client_id":"order-producer"'),
        ("/runbooks", 200, "text/html; charset=utf-8", b"producer-not-closed"),
        ("/runbooks/producer-not-closed", 200, "text/html; charset=utf-8", b"Mitigation"),
        ("/runbooks/none", 404, "text/plain", b"no such runbook"),
        ("/runbooks/../../pyproject", 404, "text/plain", b"no such runbook"),
        ("/client?service=a&instance=b&client_id=c", 404, "text/html; charset=utf-8", b"Nothing is known of"),
        ("/favicon.ico", 404, "text/plain", b"not found"),
    ],
)
def test_pages(path: str, status: int, content_type: str, part: bytes) -> None:
    with serving() as server:
        code, headers, body = get(server.url + path)
    assert (code, headers["Content-Type"], part in body) == (status, content_type, True)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_health_says_why() -> None:
    with serving(trouble="Kafka at b:9092 is lost: timeout") as server:
        assert get(f"{server.url}/healthz")[::2] == (503, b"Kafka at b:9092 is lost: timeout\n")


def test_head_has_no_body() -> None:
    with serving() as server:
        status, headers, body = get(f"{server.url}/", method="HEAD")
    assert status == 200 and int(headers["Content-Length"]) > 1000 and body == b""


def test_large_pages_are_compressed_where_the_client_can() -> None:
    with serving() as server:
        plain = get(f"{server.url}/metrics")[2]
        _, headers, packed = get(f"{server.url}/metrics", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip" and len(packed) < len(plain) / 5
    assert gzip.decompress(packed) == plain


def test_password_guards_all_but_the_probe(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("prometheus:s3cret:with-colon\n")
    right = base64.b64encode(b"prometheus:s3cret:with-colon").decode()
    with serving(replace(LOCAL, basic_auth_file=str(secret))) as server:
        refused = get(f"{server.url}/metrics")
        assert refused[0] == 401 and refused[1]["WWW-Authenticate"].startswith("Basic ")
        assert get(f"{server.url}/", Authorization="Basic !!")[0] == 401
        assert get(f"{server.url}/metrics", Authorization=f"Basic {right}")[0] == 200
        assert get(f"{server.url}/healthz")[0] == 200


@pytest.mark.parametrize("content", ["", "nocolon", ":", "user:", ":password"])
def test_broken_password_file_is_told_without_its_content(tmp_path: Path, content: str) -> None:
    secret = tmp_path / "password"
    secret.write_text(content)
    with pytest.raises(SettingsError, match=r"^\[prometheus\] basic_auth_file must hold user:password$"):
        Server(replace(LOCAL, basic_auth_file=str(secret)), lambda _: Response(""), PROBES)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    options = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run([*command.split(), *options], check=True, capture_output=True)
    return cert, key


def test_tls_and_a_peer_that_never_shakes_hands(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    with serving(replace(LOCAL, tls_cert=cert, tls_key=key)) as server:
        host, port = server.server_address[:2]
        with socket.create_connection((str(host), port)):
            trusted = ssl.create_default_context(cafile=cert)
            with urllib.request.urlopen(f"{server.url}/healthz", timeout=5, context=trusted) as answer:
                assert answer.read() == b"ok\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tls_cert": "/nowhere.pem", "tls_key": "/nowhere.pem"}, "cannot be used: No such file"),
        ({"basic_auth_file": "/nowhere"}, "cannot be read: No such file"),
    ],
)
def test_wrong_settings_are_told(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Server(replace(LOCAL, **options), lambda _: Response(""), PROBES)  # type: ignore[arg-type]


def test_port_in_use_is_told() -> None:
    with serving() as server, pytest.raises(ServiceError, match="Address already in use; choose another"):
        Server(replace(LOCAL, port=server.server_address[1]), lambda _: Response(""), PROBES)


def test_a_defect_is_an_error_page_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Request) -> Response:
        if request.path == "/bad":
            raise RuntimeError("secret detail")
        return Response("fine")

    with running(LOCAL, broken) as server:
        assert get(f"{server.url}/bad")[::2] == (500, b"internal error\n")
        assert get(f"{server.url}/good")[::2] == (200, b"fine")
    assert "secret detail" in caplog.text
