"""The decoder removes compression, the header of a schema registry, and envelopes."""

from __future__ import annotations

import gzip
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
import zstandard

from clienthealth.model.errors import ServiceError
from clienthealth.read.decode import Decoded, decode_logs, decode_metrics
from clienthealth.settings import Settings
from deploy.demo.processes import free_port
from tests.support import fake_registry
from tests.support.fake_registry import AVRO, Registry
from tests.support.raw_records import ARRIVED_MS, Raw, sample

AT = 1795200030000
READING = {
    "ts": AT,
    "client": {"service": "s", "instance": "i", "client_id": "p", "kind": "producer"},
    "metrics": {"waiting-threads": 2.0},
    "topics": [],
}
LINE = "2026-11-20 18:40:31,204 ERROR [main] c.e.App - [Producer clientId=p] Failed to allocate memory"


def metrics(value: bytes, settings: Settings | None = None) -> Decoded:
    return decode_metrics(Raw("t", value).record, settings or Settings(), ARRIVED_MS)


def is_the_reading(decoded: Decoded) -> bool:
    assert decoded.errors == []
    (snapshot,) = decoded.snapshots
    client = snapshot.client
    return (
        snapshot.ts_ms == AT
        and (client.service, client.instance, client.client_id, client.kind) == ("s", "i", "p", "producer")
        and snapshot.metrics == {"waiting-threads": 2.0}
    )


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_compressed_payload_is_what_is_in_it(packed: Any) -> None:
    assert is_the_reading(metrics(packed(json.dumps(READING).encode())))
    (whole,) = sample("otlp_proto_metrics_kip714_java.bin")
    assert whole.value is not None
    assert metrics(packed(whole.value)) == metrics(whole.value)


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_bomb_and_what_is_cut_are_rejected(packed: Any) -> None:
    bomb = packed(b" " * 50_000_000)
    assert len(bomb) < 100_000
    assert metrics(bomb).errors == ["oversized"]
    cut = packed(json.dumps(READING).encode())[:-5]
    assert [error.partition(":")[0] for error in metrics(cut).errors] == ["binary"]


def test_json_in_a_frame_needs_no_registry() -> None:
    assert is_the_reading(metrics(b"\0\0\0\0\x07" + json.dumps(READING).encode()))


def test_avro_without_a_registry_is_rejected_with_the_missing_setting() -> None:
    assert metrics(framed(7)).errors == ["binary: needs schema 7, but [registry] url is not set"]


def framed(number: int) -> bytes:
    return fake_registry.framed(number, READING)


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    with fake_registry.serving(made):
        yield made


def test_avro_is_read_by_the_schema_that_its_frame_names_asked_for_once(registry: Registry) -> None:
    registry.schemas["/schemas/ids/7"] = {"schema": json.dumps(AVRO)}
    for _ in range(3):
        assert is_the_reading(metrics(framed(7), registry.settings))
    assert registry.asked == ["/schemas/ids/7"]


def test_a_schema_that_refers_to_another_is_read(registry: Registry) -> None:
    client: Any = AVRO["fields"][1]
    split = {**AVRO, "fields": [AVRO["fields"][0], {"name": "client", "type": "Identity"}, *AVRO["fields"][2:]]}
    reference = {"name": "Identity", "subject": "identity-value", "version": 3}
    registry.schemas["/schemas/ids/7"] = {"schema": json.dumps(split), "references": [reference]}
    registry.schemas["/subjects/identity-value/versions/3"] = {"schema": json.dumps(client["type"])}
    assert is_the_reading(metrics(framed(7), registry.settings))


def test_an_unknown_schema_is_a_reject_with_its_number(registry: Registry) -> None:
    for _ in range(2):
        assert metrics(framed(9), registry.settings).errors == ["unknown-schema: 9"]
    assert registry.asked == ["/schemas/ids/9"]


def test_bytes_that_do_not_fit_their_schema_are_rejected(registry: Registry) -> None:
    registry.schemas["/schemas/ids/7"] = {"schema": json.dumps(AVRO)}
    for value in (framed(7)[:-3], framed(7) + b"\0\0", b"\0\0\0\0\x07\x99"):
        (error,) = metrics(value, registry.settings).errors
        assert error.startswith("binary: does not fit schema 7: ")


def test_otlp_as_protobuf_in_a_frame_is_read(registry: Registry) -> None:
    registry.schemas["/schemas/ids/8"] = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'}
    (whole,) = sample("otlp_proto_metrics_kip714_java.bin")
    assert whole.value is not None
    for path in (b"\x00", b"\x02\x00", b"\x04\x02\x00"):
        decoded = metrics(b"\0\0\0\0\x08" + path + whole.value, registry.settings)
        assert decoded == metrics(whole.value)


def test_a_registry_that_is_away_or_refuses_fails_what_is_read_instead_of_losing_it(
    registry: Registry, tmp_path: Path
) -> None:
    settings = registry.settings
    away = replace(settings, registry=replace(settings.registry, url="http://127.0.0.1:9", timeout_seconds=1.0))
    with pytest.raises(ServiceError, match=r"does not answer: .*; the records that need a schema are read again later"):
        metrics(framed(7), away)
    registry.password, registry.schemas["/schemas/ids/7"] = "rosebud", {"schema": json.dumps(AVRO)}
    with pytest.raises(ServiceError, match=r"refuses the request: HTTP 401 .*\[registry\] user"):
        metrics(framed(7), settings)
    (tmp_path / "password").write_text("rosebud\n")
    named = replace(settings.registry, user="reader", password_file=str(tmp_path / "password"))
    assert is_the_reading(metrics(framed(7), replace(settings, registry=named)))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_registry_that_wants_to_know_its_readers_is_shown_their_certificate(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    options = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *options], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(cert))
    tls.load_cert_chain(cert, key)
    tls.verify_mode = ssl.CERT_REQUIRED
    made = Registry({"/schemas/ids/7": {"schema": json.dumps(AVRO)}})
    with fake_registry.serving(made, tls=tls):
        trusting = replace(made.settings.registry, ca_file=str(cert))
        with_certificate = replace(trusting, cert_file=str(cert), key_file=str(key))
        assert is_the_reading(metrics(framed(7), replace(made.settings, registry=with_certificate)))
        for stranger in (made.settings.registry, trusting):
            with pytest.raises(ServiceError, match="does not answer"):
                metrics(framed(7), replace(made.settings, registry=stranger))
    assert made.asked == ["/schemas/ids/7"]


def test_an_address_that_does_not_speak_http_is_a_registry_that_does_not_answer() -> None:
    class Ssh(StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Ssh) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = Registry(url=f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(ServiceError, match=r"does not answer: SSH-2\.0-OpenSSH_9\.2"):
            metrics(framed(7), made.settings)
        server.shutdown()


def test_a_registry_that_comes_back_has_delayed_its_records(caplog: pytest.LogCaptureFixture) -> None:
    made = Registry({"/schemas/ids/7": {"schema": json.dumps(AVRO)}}, url=f"http://127.0.0.1:{free_port()}")
    settings = replace(made.settings, registry=replace(made.settings.registry, patience_seconds=30.0))
    with ExitStack() as stack:
        comes = threading.Timer(0.3, lambda: stack.enter_context(fake_registry.serving(made)))
        comes.start()
        assert is_the_reading(metrics(framed(7), settings))
        comes.join()
    assert "the schema registry does not answer" in caplog.text
    assert made.asked == ["/schemas/ids/7"]


@pytest.mark.parametrize(
    "envelope",
    [
        {"schema": {"type": "struct"}, "payload": READING},
        {"schema": {"type": "string"}, "payload": json.dumps(READING)},
        {"before": None, "after": READING, "op": "c", "source": {"connector": "mysql"}, "ts_ms": 1},
        {
            "schema": None,
            "payload": {"before": None, "after": READING, "op": "u", "source": {}, "ts_ms": 1, "transaction": None},
        },
    ],
)
def test_an_envelope_is_what_is_in_it(envelope: Mapping[str, Any]) -> None:
    assert is_the_reading(metrics(json.dumps(envelope).encode()))


def test_a_log_line_in_an_envelope_is_a_log_line() -> None:
    value = json.dumps({"schema": {"type": "string", "optional": False}, "payload": LINE}).encode()
    decoded = decode_logs(Raw("t", value, headers={"service": "s"}).record, Settings(), ARRIVED_MS)
    assert [line.message for line in decoded.lines] == ["[Producer clientId=p] Failed to allocate memory"]


def test_a_deleted_row_is_empty() -> None:
    deleted = {"before": READING, "after": None, "op": "d", "source": {}}
    assert metrics(json.dumps(deleted).encode()).errors == ["empty"]
