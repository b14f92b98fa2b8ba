"""A fake of Confluent's schema registry, and functions that encode samples as Avro records."""

from __future__ import annotations

import base64
import io
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro

from clienthealth.settings import RegistrySettings, Settings

AVRO: Mapping[str, Any] = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "client",
            "type": {
                "type": "record",
                "name": "Identity",
                "fields": [
                    {"name": name, "type": ["null", "string"], "default": None}
                    for name in ("service", "host", "instance", "client_id", "kind", "library", "version", "group")
                ],
            },
        },
        {"name": "metrics", "type": {"type": "map", "values": "double"}},
        {"name": "config", "type": {"type": "map", "values": "string"}, "default": {}},
    ],
}


def framed(number: int, reading: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _parsed(), reading)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


@cache
def _parsed() -> Any:
    return fastavro.parse_schema(dict(AVRO))


def always(_: str) -> Mapping[str, Any]:
    return {"schema": json.dumps(AVRO)}


@dataclass
class Registry:
    """A schema registry. If `password` is not empty, it is the password of the user "reader"."""

    schemas: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    password: str = ""
    url: str = ""

    @property
    def settings(self) -> Settings:
        return Settings(registry=RegistrySettings(url=self.url, patience_seconds=0.0, timeout_seconds=5.0))


@contextmanager
def serving(
    registry: Registry,
    other: Callable[[str], Mapping[str, Any] | None] = lambda _: None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[None]:
    """Serve `registry` on the port of `registry.url`, or on a free port if the URL is empty.

    `other` returns the answer for a path that is not in `registry.schemas`, or None for the answer 404.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            wanted = "Basic " + base64.b64encode(f"reader:{registry.password}".encode()).decode()
            if registry.password and self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.end_headers()
                return
            schema = registry.schemas.get(self.path) or other(self.path)
            self.send_response(200 if schema else 404)
            self.end_headers()
            self.wfile.write(json.dumps(schema or {"error_code": 40403, "message": "Schema not found"}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", int(registry.url.rpartition(":")[2] or 0)), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    registry.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
