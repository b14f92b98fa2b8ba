"""Make record templates in the formats of other tools, from the samples in tests/formats."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.canonical import KEY, PRODUCER
from tests.bench.results import ROOT
from tests.bench.templates import BUFFER_BYTES, Template, Values

FORMATS = ROOT / "tests" / "formats"
HEALTHY: Mapping[str, Any] = {
    "producer.bufferpool.wait.ratio": 0.0,
    "producer.bufferpool.wait.time.ns.total": 0.0,
    "producer.buffer.available.bytes": float(BUFFER_BYTES),
    "producer.buffer.total.bytes": float(BUFFER_BYTES),
    "producer.waiting.threads": 0.0,
    "producer.buffer.exhausted.total": 0.0,
    "producer.buffer.exhausted.rate": 0.0,
    "producer.record.queue.time.avg": 0.6,
    "producer.record.queue.time.max": 6.0,
    "producer.requests.in.flight": 1.0,
    "producer.metadata.age": 12.0,
    "producer.record.error.total": 0.0,
    "producer.io.wait.ratio": 0.97,
    "producer.io.ratio": 0.02,
    "consumer.poll.idle.ratio.avg": 0.82,
    "consumer.last.poll.seconds.ago": 0.0,
    "consumer.time.between.poll.avg": 210.4,
    "consumer.time.between.poll.max": 520.0,
    "consumer.fetch.manager.records.lag.max": 3.0,
    "consumer.fetch.manager.records.lag": 3.0,
    "consumer.coordinator.last.heartbeat.seconds.ago": 1.0,
}


def librdkafka() -> Template:
    sample = _sample("librdkafka_stats_producer.json")
    sample |= {"name": "orders-<<client>>#producer-1", "client_id": "orders-<<client>>", "time": "<<<ts_s>>>"}
    sample |= {"ts": "<<<io_ns>>>", "replyq": 0, "msg_cnt": 2, "msg_size": 2048, "txmsgs": "<<<sent>>>"}
    sample["brokers"] = dict([next(iter(sample["brokers"].items()))])
    broker = next(iter(sample["brokers"].values()))
    broker |= {"tx": "<<<selects>>>", "rx": "<<<selects>>>", "outbuf_cnt": 0, "outbuf_msg_cnt": 0, "waitresp_cnt": 1}
    name, topic = next(iter(sample["topics"].items()))
    partition = {**topic["partitions"]["0"], "txmsgs": "<<<sent>>>", "msgs": "<<<sent>>>", "msgs_inflight": 1}
    partition |= {"msgq_cnt": 1, "msgq_bytes": 1024, "xmit_msgq_cnt": 1, "xmit_msgq_bytes": 1024}
    sample["topics"] = {name: {**topic, "partitions": {"0": partition}}}
    return Template.of(json.dumps(sample, separators=(",", ":")), f"{KEY}orders-<<client>>")


def telegraf() -> Template:
    sample = _sample("telegraf_jolokia2_kafka_producer.json")
    sample["fields"] = PRODUCER
    sample["tags"] = {
        "client-id": "order-producer",
        "host": "host-<<client>>",
        "jolokia_agent_url": "http://host-<<client>>:8778/jolokia",
    }
    sample["timestamp"] = "<<<ts_s>>>"
    return Template.of(json.dumps(sample, separators=(",", ":")), "host-<<client>>")


def jolokia() -> Template:
    sample = _sample("jolokia_bulk_response.json")[:1]
    sample[0]["request"]["attribute"] = ["buffer-available-bytes", "select-total"]
    sample[0]["value"] = {"kafka.producer:client-id=order-producer,type=producer-metrics": PRODUCER}
    sample[0]["timestamp"] = "<<<ts_s>>>"
    return Template.of(json.dumps(sample, separators=(",", ":")), f"{KEY}")


def otlp() -> Template:
    sample = _sample("otlp_json_metrics_kip714_java.json")
    for number, resource in enumerate(sample["resourceMetrics"]):
        for attribute in resource["resource"]["attributes"]:
            if attribute["key"] in ("client_id", "client_instance_id", "client_source_address"):
                attribute["value"] = {"stringValue": f"{attribute['key'][7:]}-<<client>>-{number}"}
        for scope in resource["scopeMetrics"]:
            for metric in scope["metrics"]:
                _healthy(metric)
    return Template.of(sample, clients=len(sample["resourceMetrics"]))


@dataclass(frozen=True)
class Packed:
    value: bytes
    clients: int
    key: bytes = b""

    CLIENT, TIME_NS = b"0123456", 0x1122334455667788

    def record(self, values: Values) -> tuple[bytes, bytes]:
        time = struct.pack("<Q", values[b"ts_ns"])
        value = self.value.replace(struct.pack("<Q", self.TIME_NS), time)
        return self.key, value.replace(self.CLIENT, b"%07d" % values[b"client"])


def otlp_protobuf() -> Packed:
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    as_json = otlp()
    marks = {name: 0 for name in re.findall(rb"%\((\w+)\)d", as_json.value)} | {b"ts_ns": Packed.TIME_NS}
    text = as_json.value.replace(b"%(client)d", Packed.CLIENT) % marks
    return Packed(Parse(text, MetricsData(), ignore_unknown_fields=True).SerializeToString(), as_json.clients)


def _healthy(metric: dict[str, Any]) -> None:
    value = HEALTHY.get(metric["name"].removeprefix("org.apache.kafka."))
    for kind in ("gauge", "sum"):
        for point in metric.get(kind, {}).get("dataPoints", []):
            point["timeUnixNano"] = "<<ts_ns>>"
            if value is not None:
                point.pop("asInt", None)
                point["asDouble"] = value


def _sample(name: str) -> Any:
    return json.loads((FORMATS / name).read_text(encoding="utf-8"))
