"""Generate an application's log lines, and a burst of lines with one log pattern."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from tests.bench.samples import FORMATS
from tests.bench.templates import SERVICES, filled_in

PROCESSES, SECONDS = 500, 120
LINE = (
    "INFO  [http-nio-8080-exec-<<thread>>] com.example.checkout.OrderController - order <<order>> of <<client>> "
    "accepted with <<items>> items, priced and handed to fulfilment in <<millis>> ms"
)
STORM_LINE = (
    "WARN  [kafka-producer-network-thread | order-producer] org.apache.kafka.clients.producer.internals.Sender - "
    "[Producer clientId=order-producer] Got error produce response with correlation id <<order>> on topic-partition "
    "orders-<<items>>, retrying (2147483641 attempts left). Error: NOT_ENOUGH_REPLICAS"
)
LOUD = 9


def noise(records: int) -> Iterator[tuple[bytes, bytes]]:
    return _lines(filled_in(LINE), records, chatty=0)


def wrapped(records: int) -> Iterator[tuple[bytes, bytes]]:
    document = json.loads((FORMATS / "filebeat_plain_multiline.json").read_text(encoding="utf-8"))
    document["log"] = {"offset": "<<<order>>>", "file": {"path": "/var/log/checkout/app.log"}}
    document["message"] = f"2026-11-20 18:40:31,204 {LINE}"
    return _lines(filled_in(json.dumps(document, separators=(",", ":"))), records, chatty=0)


def storm(records: int) -> Iterator[tuple[bytes, bytes]]:
    return _lines(filled_in(STORM_LINE), records, chatty=LOUD)


def one_process_lines(records: int, at: float) -> Iterator[tuple[bytes, bytes]]:
    body, stamp = filled_in(STORM_LINE), _stamp(at)
    for number in range(records):
        yield b"service-0|host-0:4711|", stamp + body % _values(0, number)


def of_library(client: int, at: float) -> bytes:
    text = "INFO  [kafka-producer-network-thread | order-producer] org.apache.kafka.clients.NetworkClient - "
    return json.dumps(
        {
            "@timestamp": f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
            "host": {"name": f"host-{client}"},
            "service": {"name": f"service-{client % SERVICES}"},
            "message": f"{_stamp(at).decode()}{text}[Producer clientId=order-producer] Node 2 disconnected.",
        }
    ).encode()


def ordinary(client: int, at: float) -> bytes:
    return _stamp(at) + filled_in(LINE) % _values(client, round(at))


def _lines(body: bytes, records: int, chatty: int) -> Iterator[tuple[bytes, bytes]]:
    begin = time.time() - SECONDS
    plain = not body.startswith(b"{")
    stamp = b""
    for number in range(records):
        client = 0 if number % 10 < chatty else number % PROCESSES
        if plain and not number % 100:
            stamp = _stamp(begin + number / records * SECONDS)
        key = b"service-%d|host-%d:4711|" % (client % SERVICES, client)
        yield key, stamp + body % _values(client, number)


def _stamp(at: float) -> bytes:
    moment = datetime.fromtimestamp(at, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} ".encode()


def _values(client: int, number: int) -> dict[bytes, int]:
    return {
        b"client": client,
        b"thread": number % 200,
        b"order": number,
        b"items": number % 7,
        b"millis": number % 90,
    }
