"""Store metrics, dumps and log of a running program as files and records."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from tests.lab.layouts import LAYOUTS, WRAPPINGS, Line

TAIL_SECONDS = 0.2
READ_SECONDS = 10.0
BURST_SECONDS, BURST_LINES = 10, 5000
_POLLING = re.compile(r"KafkaConsumer\.poll|KafkaMessageListenerContainer|StreamThread\.runOnce|WorkerSinkTask")
_PATTERNS = ("kafka.producer:*", "kafka.consumer:*", "kafka.common:*")
_SINGLE = {"producer": "kafka.producer:*", "consumer": "kafka.consumer:*"}


@dataclass(frozen=True)
class Seen:
    """What the lab records of a case.

    `dumps`: times of the thread dumps, in seconds after the failure's onset
    `begins`: start of the recorded data, in seconds after the program's start
    `ends`: end of the recorded data, in seconds before the end of the run
    """

    metrics: str
    interval: float
    layout: str
    wrapping: str = "none"
    dumps: Sequence[float] = ()
    begins: float = 0.0
    ends: float = 0.0
    together: bool = False


@dataclass
class Eyes:
    metrics: list[tuple[int, str]] = field(default_factory=list)
    dumps: list[tuple[int, str]] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def follow(self, read: Callable[[], str | None] | None, interval: float, log: Path) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._watch, args=(log,), daemon=True)]
        if read is not None:
            threads.append(threading.Thread(target=self._read, args=(read, interval), daemon=True))
        for thread in threads:
            thread.start()
        return threads

    def _watch(self, log: Path) -> None:
        size = 0
        while not self.stop.wait(TAIL_SECONDS):
            now = log.stat().st_size if log.exists() else 0
            if now != size:
                size = now
                self.marks.append((now_ms(), size))

    def _read(self, read: Callable[[], str | None], interval: float) -> None:
        due = time.monotonic()
        while not self.stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + interval, time.monotonic())
            ts_ms = now_ms()
            content = read()
            if content is not None:
                self.metrics.append((ts_ms, content))

    def dump(self, command: Sequence[str], dated: bool) -> None:
        ts_ms = now_ms()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=READ_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return
        if done.returncode == 0 and done.stdout:
            self.dumps.append((ts_ms, done.stdout if dated else f"{_clock(ts_ms)}\n{done.stdout}"))


def now_ms() -> int:
    return int(time.time() * 1000)


def _clock(ts_ms: int) -> str:
    return f"{datetime.fromtimestamp(ts_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _answer(url: str, body: Any = None) -> str | None:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data, timeout=READ_SECONDS) as answer:
            text: bytes = answer.read()
    except OSError:
        return None
    return text.decode()


def _bulk(port: int, role: str) -> str | None:
    return _answer(f"http://127.0.0.1:{port}/jolokia/", [{"type": "read", "mbean": pattern} for pattern in _PATTERNS])


def _single(port: int, role: str) -> str | None:
    return _answer(f"http://127.0.0.1:{port}/jolokia/read/{_SINGLE[role]}")


def _each(port: int, role: str) -> str | None:
    names = _answer(f"http://127.0.0.1:{port}/jolokia/search/{_SINGLE[role]}")
    requests = [{"type": "read", "mbean": name} for name in json.loads(names or "{}").get("value", ())]
    if not requests:
        return names
    text = _answer(f"http://127.0.0.1:{port}/jolokia/", requests)
    return None if text is None else "\n".join(json.dumps(one) for one in json.loads(text))


def _page(port: int, role: str) -> str | None:
    return _answer(f"http://127.0.0.1:{port}/metrics")


ROUTES: Mapping[str, Callable[[int, str], str | None]] = {
    "jolokia-bulk": _bulk,
    "jolokia-pretty": _bulk,
    "jolokia-single": _single,
    "jolokia-each": _each,
    "jmx-exporter": _page,
    "micrometer": _page,
}


@dataclass(frozen=True)
class Written:
    metrics: Sequence[int]
    dumps: Sequence[int]
    lines: Sequence[int]
    #: Times of dumps with a thread in poll(), or in a framework's loop around it.
    polling: Sequence[int] = ()


def write(seen: Seen, eyes: Eyes, log: Path, folder: Path, start_ms: int, end_ms: int) -> Written:
    files = folder / "seen"
    files.mkdir(parents=True)
    first, last = start_ms + 1000 * seen.begins, end_ms - 1000 * seen.ends
    metrics = [one for one in eyes.metrics if first <= one[0] <= last]
    dumps = [one for one in eyes.dumps if first <= one[0] <= last]
    lines = [] if seen.layout == "none" else [line for line in _lines(seen, eyes, log) if first <= line.ts_ms <= last]
    lines = list(_let_through(lines))
    if metrics:
        _write_metrics(seen, metrics, files)
    if dumps and seen.together:
        _dated(files / "dumps.txt", "\n\n".join(text for _, text in dumps).encode(), dumps[-1][0])
    for number, (ts_ms, text) in enumerate(() if seen.together else dumps, 1):
        _dated(files / f"jstack-{number}.txt", text.encode(), ts_ms)
    if lines:
        _dated(files / "app.log", _log(seen, lines), lines[-1].ts_ms)
    with (folder / "stream.jsonl").open("w", encoding="utf-8") as stream:
        for ts_ms, topic, value in sorted(_records(seen, metrics, dumps, lines)):
            record = {"value": base64.b64encode(value.encode()).decode()}
            if seen.metrics == "pushes" and topic == "client-metrics":
                record = json.loads(value)
            stream.write(f"{json.dumps({'ts': ts_ms, 'topic': topic, **record})}\n")
    polling = [ts for ts, text in dumps if _POLLING.search(text)]
    return Written([ts for ts, _ in metrics], [ts for ts, _ in dumps], [line.ts_ms for line in lines], polling)


def _lines(seen: Seen, eyes: Eyes, log: Path) -> Iterator[Line]:
    if not log.exists():
        return
    encoding = LAYOUTS[seen.layout].encoding
    marks, at, offset = eyes.marks, 0, 0
    for text in log.read_bytes().decode(encoding, "replace").splitlines(keepends=True):
        offset += len(text.encode(encoding, "replace"))
        while at < len(marks) - 1 and marks[at][1] < offset:
            at += 1
        yield Line(marks[at][0] if marks else now_ms(), text.rstrip("\n"))


def _let_through(lines: Sequence[Line]) -> Iterator[Line]:
    passed: Counter[int] = Counter()
    for line in lines:
        block = line.ts_ms // (1000 * BURST_SECONDS)
        passed[block] += 1
        if passed[block] <= BURST_LINES:
            yield line


def _dated(file: Path, content: bytes, ts_ms: int) -> None:
    file.write_bytes(content)
    os.utime(file, (ts_ms / 1000, ts_ms / 1000))


def _log(seen: Seen, lines: Sequence[Line]) -> bytes:
    wrap = WRAPPINGS.get(seen.wrapping)
    encoding = LAYOUTS[seen.layout].encoding if wrap is None else "utf-8"
    text = "".join(f"{wrap(line) if wrap else line.text}\n" for line in lines)
    return text.encode(encoding, "replace")


def _write_metrics(seen: Seen, metrics: Sequence[tuple[int, str]], files: Path) -> None:
    if seen.metrics == "jolokia-pretty":
        text = "\n".join(json.dumps(json.loads(content), indent=2) for _, content in metrics)
        (files / "jolokia.json").write_text(text, encoding="utf-8")
    elif seen.metrics == "pushes":
        lines = [f"{_otlp(json.loads(content))}\n" for _, content in metrics]
        (files / "otlp.jsonl").write_text("".join(lines), encoding="utf-8")
    elif seen.metrics.startswith("jolokia"):
        (files / "jolokia.jsonl").write_text("".join(f"{content}\n" for _, content in metrics), encoding="utf-8")
    elif seen.metrics in ("jmx-exporter", "micrometer") and not seen.together:
        for ts_ms, content in metrics:
            name = f"{datetime.fromtimestamp(ts_ms / 1000, UTC):metrics-%Y%m%d-%H%M%S}.prom"
            (files / name).write_text(content, encoding="utf-8")
    elif seen.metrics in ("jmx-exporter", "micrometer"):
        text = "".join(f"# {_clock(ts_ms)}\n{content}\n" for ts_ms, content in metrics)
        (files / "metrics.txt").write_text(text, encoding="utf-8")
    else:
        name = {"statistics": "stats.jsonl", "otlp": "otlp.jsonl"}.get(seen.metrics, "metrics.jsonl")
        (files / name).write_text("".join(f"{content}\n" for _, content in metrics), encoding="utf-8")


def _otlp(push: Mapping[str, Any]) -> str:
    """Return a push as a collector stores it, with its headers as resource attributes."""
    data = MetricsData.FromString(base64.b64decode(push["value"]))
    for resource in data.resource_metrics:
        for name in ("client_id", "client_instance_id", "client_software_name", "client_software_version"):
            resource.resource.attributes.add(key=name).value.string_value = push["headers"][name]
    return MessageToJson(data, indent=None)


def _records(
    seen: Seen, metrics: Sequence[tuple[int, str]], dumps: Sequence[tuple[int, str]], lines: Sequence[Line]
) -> Iterator[tuple[int, str, str]]:
    for ts_ms, content in metrics:
        for part in content.splitlines() if seen.metrics == "jolokia-each" else (content,):
            yield ts_ms, "client-metrics", part
    for ts_ms, text in dumps:
        yield ts_ms, "client-logs", text
    wrap = WRAPPINGS.get(seen.wrapping)
    for event in _events(lines):
        yield event.ts_ms, "client-logs", wrap(event) if wrap else event.text


def _events(lines: Sequence[Line]) -> Iterator[Line]:
    joined: list[str] = []
    ts_ms = 0
    for line in lines:
        more = line.text[:1] in (" ", "\t") or line.text.startswith(("Caused by:", "org.apache.kafka", "java."))
        if joined and not more:
            yield Line(ts_ms, "\n".join(joined))
            joined = []
        if not joined:
            ts_ms = line.ts_ms
        joined.append(line.text)
    if joined:
        yield Line(ts_ms, "\n".join(joined))
