"""Capture what confluent-kafka's serializers write for example records, and which schemas they register."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

FOLDER = Path(__file__).with_name("confluent-kafka")
AT_MS = 1795200030000
CLIENT = {"service": "shop", "instance": "shop-1", "client_id": "p", "kind": "producer"}
READING = {
    "ts": AT_MS,
    "client": CLIENT,
    "metrics": {"waiting-threads": 2.0},
}
AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "client",
            "type": {
                "type": "record",
                "name": "Client",
                "fields": [{"name": name, "type": "string"} for name in CLIENT],
            },
        },
        {"name": "metrics", "type": {"type": "map", "values": "double"}},
    ],
}
JSON_SCHEMA = {"title": "Reading", "type": "object", "properties": {"ts": {"type": "integer"}}}


class Registry:
    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, int] = {}

    def register(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        if schema not in self.schemas:
            self.schemas.append(schema)
        self.subjects[subject] = number = self.schemas.index(schema) + 1
        return {"id": number, "subject": subject, "version": 1, **schema}

    def answers(self) -> dict[str, Any]:
        by_number = {f"/schemas/ids/{n}": schema for n, schema in enumerate(self.schemas, 1)}
        by_subject = {
            f"/subjects/{subject}/versions/1": {"id": n, "subject": subject, "version": 1, **self.schemas[n - 1]}
            for subject, n in self.subjects.items()
        }
        return by_number | by_subject


def main() -> None:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            match = re.match(r"/subjects/([^/?]+)", self.path)
            assert match is not None
            self._answer(registry.register(match[1], {name: value for name, value in schema.items() if value}))

        def do_GET(self) -> None:
            self._answer(registry.answers().get(self.path.partition("?")[0], {}))

        def _answer(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = SchemaRegistryClient({"url": f"http://127.0.0.1:{server.server_port}"})
    pushed = MetricsData()
    resource = pushed.resource_metrics.add()
    resource.resource.attributes.add(key="client_id").value.string_value = "p"
    metric = resource.scope_metrics.add().metrics.add(name="org.apache.kafka.producer.waiting.threads")
    metric.gauge.data_points.add(time_unix_nano=AT_MS * 1_000_000, as_double=2.0)
    written = {
        "avro.bin": (AvroSerializer(client, json.dumps(AVRO)), READING),
        "json.bin": (JSONSerializer(json.dumps(JSON_SCHEMA), client), READING),
        "protobuf.bin": (ProtobufSerializer(MetricsData, client), pushed),
    }
    FOLDER.mkdir(exist_ok=True)
    for name, (serializer, value) in written.items():
        context = SerializationContext(f"readings-{name.partition('.')[0]}", MessageField.VALUE)
        (FOLDER / name).write_bytes(serializer(value, context))
    answers = {
        path: answer | ({"schema": ""} if answer.get("schemaType") == "PROTOBUF" else {})
        for path, answer in registry.answers().items()
        if path.startswith("/schemas/")
    }
    answer = {"confluent-kafka": confluent_kafka.__version__, "answers": answers}
    (FOLDER / "registry.json").write_text(json.dumps(answer, indent=1) + "\n")
    server.shutdown()


if __name__ == "__main__":
    main()
