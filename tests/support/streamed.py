"""Run the monitor and the exporter without Spark and brokers."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families

from clienthealth.measure.packed import Chunk, encode
from clienthealth.modes import catalogue
from clienthealth.platform.web import Request
from clienthealth.read.logs.events import literals
from clienthealth.settings import Settings
from clienthealth.spark import stepping
from clienthealth.spark.decoding import RAW, REJECTS, compressed, decoder
from clienthealth.spark.stepping import CHANGE, HEALTH, MINUTE, REJECT, Row
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support.raw_records import Raw

#: EARLIEST_MS lies before Kafka existed, and LATEST_MS is the last time that every date type can hold.
EARLIEST_MS, LATEST_MS = 1_262_304_000_000, 253_402_300_799_999

PUBLISHED = (HEALTH, MINUTE, CHANGE)


class State:
    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self.value is not None
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value


def arrow(raws: Sequence[Raw], arrived_ms: int) -> pa.RecordBatch:
    columns = {
        "value": pa.array([raw.value for raw in raws], pa.binary()),
        "size": pa.nulls(len(raws), pa.int32()),
        "key": pa.array([raw.key for raw in raws], pa.binary()),
        "headers": pa.array([_headers(raw) for raw in raws], pa.string()),
        "topic": pa.array([raw.topic for raw in raws], pa.string()),
        "partition": pa.array([0] * len(raws), pa.int32()),
        "offset": pa.array([raw.offset for raw in raws], pa.int64()),
        "ts_ms": pa.array([arrived_ms] * len(raws), pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in RAW], names=list(RAW))


def _headers(raw: Raw) -> str | None:
    listed = [{"key": name, "value": base64.b64encode(v.encode()).decode()} for name, v in raw.headers.items()]
    return json.dumps(listed) if listed else None


class Streamed:
    def __init__(self) -> None:
        settings = Settings()
        self._settings = replace(settings, monitor=replace(settings.monitor, buckets=1))
        self._decode = decoder(self._settings, literals(catalogue()))
        self._state: Any = State()
        self._now = 0.0
        self._states = States(self._settings, lambda: self._now)
        self._exporter = Exporter(self._settings, self._states, lambda: None, lambda: self._now)
        self.rows: list[list[Row]] = []

    def batch(self, second: float, metrics: Iterable[Raw] = (), logs: Iterable[Raw] = ()) -> list[Row]:
        """Run a batch at `second` (epoch s). Every published row must pass `check`."""
        self._now, of_step, rows = second, [compressed(encode(Chunk()))], list[Row]()
        with patch("time.time", lambda: second):
            for topic, records in (("client-metrics", metrics), ("client-logs", logs)):
                raws = [replace(raw, topic=topic, offset=at) for at, raw in enumerate(records)]
                for decoded in self._decode([arrow(raws, int(1000 * second))] if raws else []):
                    for bucket, data in zip(*(column.to_pylist() for column in decoded.columns), strict=True):
                        if bucket == 0:
                            of_step.append(data)
                        elif bucket <= REJECTS:
                            rows += stepping._rejected([data], self._settings.topics.max_message_bytes)
            rows += stepping._judged(0, of_step, self._state, self._settings, {})
        for row in rows:
            check(row)
        self.rows.append(rows)
        for key, value in ((key, value) for kind, key, value, _ in rows if kind == HEALTH):
            self._states.put(key, value, int(1000 * second))
        return rows

    @property
    def reasons(self) -> set[str]:
        headers = [json.loads(headers or "[]") for rows in self.rows for kind, _, _, headers in rows if kind == REJECT]
        named = [header for reject_headers in headers for header in reject_headers if header["key"] == "reject_reason"]
        return {base64.b64decode(header["value"]).decode().partition(":")[0] for header in named}

    def published(self, service: str) -> list[list[bytes]]:
        return [
            sorted(value for kind, _, value, _ in rows if kind in PUBLISHED and value and _of(value, service))
            for rows in self.rows
        ]

    def shown(self) -> None:
        assert self._states.decode_errors == 0
        for state in self._states.live():
            client = state.client
            query = {"service": client.service, "instance": client.instance, "client_id": client.client_id}
            assert self._text("/client", query)
        for path in ("/", "/fleet"):
            assert self._text(path)
        msgspec.json.decode(self._text("/clients.json"))
        for family in text_string_to_metric_families(self._text("/metrics")):
            assert all(math.isfinite(sample.value) for sample in family.samples), family

    def _text(self, path: str, query: dict[str, str] | None = None) -> str:
        response = self._exporter(Request(path, query or {}))
        assert response.status == 200, path
        body = response.body
        return body if isinstance(body, str) else b"".join(body).decode()


def _of(value: bytes, service: str) -> bool:
    document = msgspec.json.decode(value)
    return bool(document.get("client", document).get("service") == service)


def check(row: Row) -> None:
    kind, key, value, headers = row
    assert key is None or key.decode()
    assert headers is None or json.loads(headers)
    if kind not in PUBLISHED or value is None:
        return
    document = msgspec.json.decode(value)
    if kind == CHANGE:
        document |= {name: msgspec.json.decode(document[name]) for name in ("detail", "evidence")}
    times = {"minute", "ts", "since", "window_start", "window_end", "last_seen"}
    for name, number in _numbers(document):
        assert abs(number) < 2**63, (kind, name, number)
        assert name not in times or EARLIEST_MS <= number <= LATEST_MS, (kind, name, number)


def _numbers(document: Any, name: str = "") -> Iterable[tuple[str, float]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _numbers(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from _numbers(value, name)
    elif type(document) in (int, float):
        yield name, document
