"""The web server serves pages over TLS and with a password, and continues to serve while a peer stalls."""

from __future__ import annotations

import base64
import gzip
import html
import re
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
from urllib.parse import urljoin, urlsplit, urlunsplit

import pytest

from clienthealth.model.errors import ServiceError, SettingsError
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
        with urllib.request.urlopen(request, timeout=60) as answer:
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


def test_behind_a_proxy_all_links_stay_under_its_path() -> None:
    seen: set[str] = set()
    todo = ["/ops/health/"]
    with serving() as server:
        while todo:
            address = todo.pop()
            if address in seen:
                continue
            seen.add(address)
            assert address.startswith("/ops/health/"), address
            status, headers, body = get(server.url + address.removeprefix("/ops/health"))
            assert status == 200, address
            if headers["Content-Type"].startswith("text/html"):
                for link in re.findall(r' (?:href|src)="([^"]*)"', body.decode()):
                    to = urlsplit(urljoin(f"http://proxy{address}", html.unescape(link)))
                    if to.netloc == "proxy":
                        todo.append(urlunsplit(("", "", to.path, to.query, "")))
        assert get(f"{server.url}/runbooks/producer-not-closed/")[0] == 200
    paths = {urlsplit(address).path.removeprefix("/ops/health") for address in seen}
    assert paths >= {
        "/",
        "/client",
        "/fleet",
        "/page.js",
        "/metrics",
        "/clients.json",
        "/runbooks",
        "/runbooks/clock-skew",
    }
    assert any("client_id=order-producer" in address for address in seen)


def test_health_contains_the_reason() -> None:
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


#: Hash of `s3cret:with-colon`, by `htpasswd -nbB -C 4`.
HASH = "$2b$04$h4sFzPqsfKDbzhZJ3yqqw.uqsSCt.08LYwv/qSxeGJk8uJv0ttSM6"


def config(folder: Path, text: str) -> PrometheusSettings:
    file = folder / "web-config.yml"
    file.write_text(text, "utf-8")
    return replace(LOCAL, web_config_file=str(file))


def basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


def test_password_guards_all_but_the_probe(tmp_path: Path) -> None:
    with serving(config(tmp_path, f"basic_auth_users:\n  prometheus: {HASH}\n")) as server:
        refused = get(f"{server.url}/metrics")
        assert refused[0] == 401 and refused[1]["WWW-Authenticate"].startswith("Basic ")
        for wrong in ("Basic !!", basic("prometheus"), basic("prometheus:s3cret"), basic("nobody:s3cret:with-colon")):
            assert get(f"{server.url}/", Authorization=wrong)[0] == 401
        for wrong in (basic("prometheus:" + "x" * 73), basic("prometheus:s3cret\0"), basic(":s3cret:with-colon")):
            assert get(f"{server.url}/", Authorization=wrong)[0] == 401
        for _ in range(2):
            assert get(f"{server.url}/metrics", Authorization=basic("prometheus:s3cret:with-colon"))[0] == 200
            assert get(f"{server.url}/metrics", Authorization=basic("prometheus:s3cret"))[0] == 401
        assert get(f"{server.url}/healthz")[0] == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("basic_auth_users:\n  prometheus: s3cret\n", "the password of 'prometheus' must be a bcrypt hash"),
        ("basic_auth_users: [s3cret\n", r"is not YAML \(line \d\)$"),
        ("\x00s3cret", "is not YAML"),
        ("tls_server_config: {cert_file: c.pem}\n", "missing required field `key_file`"),
        (
            "tls_server_config: {cert_file: c.pem, key_file: k.pem}\n",
            "cannot use this certificate and key: No such file or directory$",
        ),
        ("tls_server_config: {cert_file: c, key_file: k, min_version: TLS10}\n", "min_version"),
        ("tls_server_config: {cert_file: c, key_file: k, client_auth_type: RequestClientCert}\n", "client_auth_type"),
        ("http_server_config: {http2: true}\n", "unknown field `http_server_config`"),
        ("- s3cret\n", "Expected `object`, got `array`"),
    ],
)
def test_mistakes_in_a_web_config_are_reported_without_its_secrets(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=message) as error:
        Server(config(tmp_path, text), lambda _: Response(""), PROBES)
    assert "s3cret" not in str(error.value)
    assert str(error.value).startswith(f"[prometheus] web_config_file {tmp_path}/web-config.yml: ")


def test_an_empty_web_config_guards_nothing(tmp_path: Path) -> None:
    with serving(config(tmp_path, "")) as server:
        assert get(f"{server.url}/metrics")[0] == 200


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
    cert, key = map(Path, certificate)
    text = f"tls_server_config:\n  cert_file: {cert.name}\n  key_file: {key}\n  min_version: TLS13\n"
    with serving(config(cert.parent, text)) as server:
        host, port = server.server_address[:2]
        with socket.create_connection((str(host), port)):
            trusted = ssl.create_default_context(cafile=cert)
            with urllib.request.urlopen(f"{server.url}/healthz", timeout=60, context=trusted) as answer:
                assert answer.read() == b"ok\n"
        trusted.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"{server.url}/healthz", timeout=60, context=trusted)


def test_a_client_with_an_unverified_certificate_is_refused(certificate: tuple[str, str], tmp_path: Path) -> None:
    cert, key = certificate
    text = f"tls_server_config: {{cert_file: {cert}, key_file: {key}, client_ca_file: {cert}, "
    with serving(config(tmp_path, text + "client_auth_type: RequireAndVerifyClientCert}\n")) as server:
        context = ssl.create_default_context(cafile=cert)
        # With TLS 1.3, a client without a certificate is refused only when it reads.
        with pytest.raises(OSError):
            urllib.request.urlopen(f"{server.url}/healthz", timeout=60, context=context)
        context.load_cert_chain(cert, key)
        with urllib.request.urlopen(f"{server.url}/healthz", timeout=60, context=context) as answer:
            assert answer.read() == b"ok\n"


def test_a_missing_web_config_is_reported() -> None:
    with pytest.raises(SettingsError, match=r"^\[prometheus\] web_config_file /nowhere: cannot be read: No such file"):
        Server(replace(LOCAL, web_config_file="/nowhere"), lambda _: Response(""), PROBES)


def test_a_port_in_use_is_reported() -> None:
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


def test_an_answer_that_says_unchanged_has_no_body_for_a_client_that_reads_gzip() -> None:
    with serving() as server:
        address = f"{server.url}/api/v1/modes"
        etag = get(address)[1]["ETag"]
        status, headers, _ = get(address, If_None_Match=etag, Accept_Encoding="gzip")
    assert status == 304 and "Content-Encoding" not in headers and "Transfer-Encoding" not in headers
