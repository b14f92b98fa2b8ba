"""The JVM exporter asks fake JVMs for metrics, and publishes their answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from clienthealth.model.errors import InputError, SettingsError
from clienthealth.read.mbeans import RUNTIME
from clienthealth.settings import JvmSettings, Settings
from clienthealth_exporters.jvm.dumps import DumpBudget, dump_record, shortened
from clienthealth_exporters.jvm.exporter import Exporter, Target, Targets, Watch
from clienthealth_exporters.jvm.jolokia import Jolokia, JolokiaError
from clienthealth_exporters.publish import Publisher
from tests.support.waiting import WAIT_SECONDS
from tests.unit.test_mbeans import JAVA, PROCESS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders=http://h:8778/jolokia/", Target("orders", "http://h:8778/jolokia/", {})),
        ("https://u@h:8778/j?a=b", Target("h:8778", "https://u@h:8778/j?a=b", {})),
        (
            "orders=http://h/ delivery.timeout.ms=10 group.id=g",
            Target("orders", "http://h/", {"delivery.timeout.ms": "10", "group.id": "g"}),
        ),
        ("orders=http://h/ metrics=pushed", Target("orders", "http://h/", {}, pushed=True)),
    ],
)
def test_targets(text: str, expected: Target) -> None:
    assert Target.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["orders=h:8778", "ftp://h/", "http:///x", "a=http://h/ colour=blue", "a=http://h/ x", "a=http://h/ metrics=x"],
)
def test_wrong_targets(text: str) -> None:
    with pytest.raises(SettingsError):
        Target.parse(text)


def test_a_file_of_targets_is_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "targets"
    targets = Targets([], file)
    assert targets.now() == ()
    file.write_text("# none yet\n\na=http://h/\n", encoding="utf-8")
    assert targets.now() == (Target("a", "http://h/"),)
    file.write_text("nonsense and more\n", encoding="utf-8")
    assert targets.now() == targets.now() == (Target("a", "http://h/"),)
    assert caplog.text.count(f"previous targets of {file} stay in force: target 'nonsense'") == 1
    file.write_text("a=http://h/\nb=http://i/\n", encoding="utf-8")
    assert [target.service for target in targets.now()] == ["a", "b"]
    file.write_text("c=http://h/\n", encoding="utf-8")
    with monkeypatch.context() as closed:
        closed.setattr(Path, "read_text", Mock(side_effect=PermissionError(13, "Permission denied")))
        assert [len(targets.now()), len(targets.now())] == [2, 2]
    assert caplog.text.count("Permission denied") == 1
    assert targets.now() == (Target("c", "http://h/"),)
    file.write_text("garbage\n", encoding="utf-8")
    with monkeypatch.context() as closed:
        closed.setattr(Path, "read_text", Mock(side_effect=PermissionError(13, "Permission denied")))
        targets.now()
    assert targets.now() == targets.now() == (Target("c", "http://h/"),)
    assert caplog.text.count("'garbage'") == 1
    with pytest.raises(InputError):
        Targets([])


Answer = Callable[[Any], tuple[int, bytes]]


@contextmanager
def agent(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = answer({"body": body, "headers": self.headers})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with serving(Handler) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/jolokia/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def jvm(asked: Any) -> tuple[int, bytes]:
    if isinstance(asked["body"], dict):
        return 200, json.dumps({"status": 200, "value": 'Full thread dump\n\n"main" #1\n'}).encode()
    answers: list[dict[str, Any]] = []
    for request in asked["body"]:
        domain = request["mbean"].partition(":")[0]
        domain_mbeans = {name: value for name, value in JAVA.items() if name.startswith(f"{domain}:")}
        if request["mbean"] in domain_mbeans:
            answers.append({"request": request, "status": 200, "value": domain_mbeans[request["mbean"]]})
        elif domain_mbeans:
            answers.append({"request": request, "status": 200, "value": domain_mbeans})
        else:
            answers.append({"request": request, "status": 404, "error": "no MBean"})
    return 200, json.dumps(answers).encode()


class Delivered(Publisher):
    def __init__(self) -> None:
        self.records: list[tuple[str, str, dict[str, Any]]] = []

    def send(self, topic: str, key: str, value: Any) -> None:
        self.records.append((topic, key, value))


def test_one_request_reads_all_mbeans() -> None:
    with agent(jvm) as url:
        mbeans = Jolokia(url, 2.0).read({"kafka.producer:*": (), "kafka.common:*": (), RUNTIME: ("Name",)})
    assert mbeans[RUNTIME]["Name"] == "31337@web-7"
    assert len(mbeans) == 9


def test_user_and_password_are_sent() -> None:
    seen = []

    def answer(asked: Any) -> tuple[int, bytes]:
        seen.append(asked["headers"]["Authorization"])
        return 200, b"[]"

    with agent(answer) as url:
        Jolokia(url, 2.0, "monitor", "s3cret").read({})
    assert seen == ["Basic bW9uaXRvcjpzM2NyZXQ="]


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (403, b"", "HTTP 403"),
        (200, b"<html>", "not JSON"),
        (200, b"{}", "not come from a Jolokia agent"),
        (200, b'[{"status": 500, "request": {"mbean": "x"}, "error": "broken"}]', "status 500: broken"),
    ],
)
def test_wrong_answers(status: int, content: bytes, message: str) -> None:
    with agent(lambda _: (status, content)) as url, pytest.raises(JolokiaError, match=message):
        Jolokia(url, 2.0).read({"x:*": ()})


def test_an_answer_that_is_not_http_is_an_error() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.wfile.write(b"garbled")

        def log_message(self, format: str, *args: Any) -> None:
            return

    with serving(Handler) as url, pytest.raises(JolokiaError, match="garbled"):
        Jolokia(url, 2.0).read({"x:*": ()})


def test_a_silent_agent_is_an_error_in_time() -> None:
    released = threading.Event()

    def answer(_: Any) -> tuple[int, bytes]:
        released.wait(WAIT_SECONDS)
        return 200, b"[]"

    with agent(answer) as url:
        with pytest.raises(JolokiaError, match="timed out"):
            Jolokia(url, 0.05).read({})
        released.set()


def test_a_reading_is_published_and_a_suspicious_one_with_a_dump() -> None:
    delivered = Delivered()
    with agent(jvm) as url:
        watch = Watch(Target("orders", url), Settings(), delivered, DumpBudget(60.0))
        watch.read()
        watch.read()
    keys = [(topic, key) for topic, key, _ in delivered.records]
    reading = [
        ("client-metrics", "orders|web-7:31337|consumer-billing-1"),
        ("client-metrics", "orders|web-7:31337|p-1"),
    ]
    assert keys == [*reading, *reading, ("client-logs", "orders|web-7:31337|")]
    dump = delivered.records[-1][2]
    assert dump["event.dataset"] == "kafka.thread-dump"
    assert dump["message"].startswith("Full thread dump")
    assert dump["service.node.name"] == "web-7:31337"
    assert "select-total stayed at 10213" in dump["labels"]["reason"]


def test_thread_dumps_can_be_switched_off() -> None:
    delivered = Delivered()
    with agent(jvm) as url:
        watch = Watch(Target("orders", url), Settings(jvm=JvmSettings(thread_dumps=False)), delivered, DumpBudget(60.0))
        watch.read()
        watch.read()
    assert {topic for topic, _, _ in delivered.records} == {"client-metrics"}


def test_of_clients_that_push_their_metrics_only_dumps_are_published() -> None:
    delivered = Delivered()
    with agent(jvm) as url:
        watch = Watch(Target("orders", url, pushed=True), Settings(), delivered, DumpBudget(60.0))
        watch.read()
        watch.read()
    assert [(topic, key) for topic, key, _ in delivered.records] == [("client-logs", "orders|web-7:31337|")]


def test_a_jvm_without_clients_is_mentioned_once(caplog: pytest.LogCaptureFixture) -> None:
    def empty(asked: Any) -> tuple[int, bytes]:
        runtime = {"request": {"mbean": RUNTIME}, "status": 200, "value": JAVA[RUNTIME]}
        missing = {"status": 404, "error": "no MBean"}
        return 200, json.dumps(
            [runtime if asked["mbean"] == RUNTIME else {"request": asked, **missing} for asked in asked["body"]]
        ).encode()

    with agent(empty) as url:
        watch = Watch(Target("orders", url), Settings(), Delivered(), DumpBudget(60.0))
        for _ in range(5):
            watch.read()
        assert "no Kafka client" not in caplog.text
        for _ in range(5):
            watch.read()
    assert caplog.text.count("orders shows no Kafka client") == 1
    assert "metric.reporters" in caplog.text


def test_an_agent_that_dribbles_is_an_error_in_time() -> None:
    ended = threading.Event()

    class Dribbles(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):
                while not ended.wait(0.02):
                    self.wfile.write(b" ")

        def log_message(self, format: str, *args: Any) -> None:
            return

    with serving(Dribbles) as url:
        try:
            with pytest.raises(JolokiaError, match="not complete after 1 s"):
                Jolokia(url, 1.0).read({RUNTIME: ()})
        finally:
            ended.set()


def test_numbers_that_json_does_not_know_are_read() -> None:
    content = b'[{"status": 200, "request": {"mbean": "a:type=b"}, "value": {"rate": NaN, "count": 3}}]'
    with agent(lambda _: (200, content)) as url:
        assert Jolokia(url, 5.0).read({"a:type=b": ()})["a:type=b"]["count"] == 3


def test_a_silent_jvm_is_asked_less_and_less_often() -> None:
    now = 100.0
    watch = Watch(Target("gone", "http://127.0.0.1:1/"), Settings(), Delivered(), DumpBudget(60.0), clock=lambda: now)
    pauses = []
    for _ in range(5):
        watch.read()
        pauses.append(watch.due - now)
        now = watch.due
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0]


def test_a_slow_jvm_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clienthealth_exporters.jvm.exporter.TICK_SECONDS", 0.01)
    released = threading.Event()
    enough = threading.Event()

    class Counted(Delivered):
        def send(self, topic: str, key: str, value: Any) -> None:
            super().send(topic, key, value)
            if len(self.records) >= 6:
                enough.set()

    def hangs(_: Any) -> tuple[int, bytes]:
        released.wait(WAIT_SECONDS)
        return 503, b""

    settings = Settings(jvm=JvmSettings(interval_seconds=0.05, timeout_seconds=10.0, thread_dumps=False))
    stop = threading.Event()
    with agent(jvm) as fast, agent(hangs) as slow:
        targets = Targets([Target("slow", slow), Target("fast", fast)])
        thread = threading.Thread(target=Exporter(settings, targets, Counted()).run, args=(stop,))
        thread.start()
        assert enough.wait(60)
        released.set()
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def test_of_a_dump_that_is_too_large_kafkas_threads_stay() -> None:
    other = '"worker" #1\n' + "\tat a.b.C.d(C.java:1)\n" * 50
    dump = "\n\n".join(["Full thread dump", other, '"kafka-producer-network-thread | x" #2\n\tat k', other])
    kept = shortened(dump, limit=200)
    assert kept == 'Full thread dump\n\n"kafka-producer-network-thread | x" #2\n\tat k'
    assert shortened(dump, limit=10_000) == dump
    assert dump_record(PROCESS, 0, dump, "because")["@timestamp"] == "1970-01-01T00:00:00.000+00:00"
