"""The JVM exporter without a JVM: what MBeans mean, what is suspicious, who is read when."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from clienthealth.errors import InputError, SettingsError
from clienthealth.mbeans import RUNTIME, MBeans, Process, object_name, process, snapshots
from clienthealth.settings import JvmSettings, Settings
from clienthealth_exporters.jvm.ecs import dump_record, shortened
from clienthealth_exporters.jvm.exporter import Exporter, Target, Targets, Watch
from clienthealth_exporters.jvm.jolokia import Jolokia, JolokiaError
from clienthealth_exporters.jvm.suspicion import DumpBudget, DumpPlan, Reason, Suspicion
from clienthealth_exporters.publish import Publisher

PROCESS = Process("orders", "web-7", "web-7:31337")
JAVA: MBeans = {
    RUNTIME: {"Name": "31337@web-7", "StartTime": 1795208530625},
    "kafka.producer:type=producer-metrics,client-id=p-1": {
        "select-total": 10213.0,
        "buffer-total-bytes": 4194304.0,
        "buffer-available-bytes": 1048576.0,
        "waiting-threads": 0.0,
        "record-queue-time-avg": "NaN",
        "not-a-metric-of-ours": 3.0,
    },
    "kafka.producer:type=producer-topic-metrics,client-id=p-1,topic=orders.v2": {"record-send-total": 42.0},
    "kafka.producer:type=producer-node-metrics,client-id=p-1,node-id=node-1": {"request-latency-avg": 7.0},
    # The connection to broker 2 as a coordinator, and one to nobody knows whom.
    "kafka.producer:type=producer-node-metrics,client-id=p-1,node-id=node-2147483645": {"request-latency-avg": 9.0},
    "kafka.producer:type=producer-node-metrics,client-id=p-1,node-id=node--1": {"request-latency-avg": 40.0},
    "kafka.producer:type=app-info,client-id=p-1": {"version": "3.9.1", "start-time-ms": 1795208530625},
    "kafka.producer:type=app-info,id=p-1": {"Version": "3.9.1"},
    "kafka.producer:type=kafka-metrics-count,client-id=p-1": {"count": 112.0},
    'kafka.consumer:type=consumer-metrics,client-id="consumer-billing-1"': {"last-poll-seconds-ago": -1.0},
    "kafka.consumer:type=consumer-coordinator-metrics,client-id=consumer-billing-1": {"assigned-partitions": 2.0},
    "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=consumer-billing-1": {"fetch-total": 9.0},
    "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=consumer-billing-1,topic=orders,partition=3": {
        "records-lag": 612.0,
        "records-lag-max": 700.0,
    },
}


def test_snapshots_of_java_clients() -> None:
    assert process("orders", JAVA, {}) == PROCESS
    consumer, producer = snapshots(JAVA, PROCESS, 1795208559678)
    assert producer == {
        "ts": 1795208559678,
        "client": {
            "service": "orders",
            "host": "web-7",
            "instance": "web-7:31337",
            "client_id": "p-1",
            "kind": "producer",
            "library": "java",
            "version": "3.9.1",
            "group": None,
        },
        "metrics": {
            "select-total": 10213.0,
            "buffer-total-bytes": 4194304.0,
            "buffer-available-bytes": 1048576.0,
            "waiting-threads": 0.0,
            "slowest-node": 2.0,
            "slowest-node-latency-avg": 9.0,
        },
        "topics": [{"topic": "orders.v2", "partition": None, "thread": None, "metrics": {"record-send-total": 42.0}}],
        "config": {},
    }
    assert (consumer["client"]["client_id"], consumer["client"]["group"]) == ("consumer-billing-1", "billing")
    assert consumer["metrics"] == {"assigned-partitions": 2.0, "fetch-total": 9.0}
    assert consumer["topics"] == [
        {"topic": "orders", "partition": 3, "thread": None, "metrics": {"records-lag": 612.0}}
    ]


def test_clients_before_1_0_have_their_version_and_lag_elsewhere() -> None:
    mbeans: MBeans = {
        "kafka.consumer:type=app-info,id=c": {"Version": "0.11.0.3"},
        "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=c": {
            "my-topic-2.records-lag": 5.0,
        },
    }
    (consumer,) = snapshots(mbeans, Process("s", "h", "h:1", {"group.id": "g"}), 0)
    assert consumer["client"]["version"] == "0.11.0.3"
    assert consumer["client"]["group"] == "g"
    assert consumer["topics"] == [
        {"topic": "my-topic", "partition": 2, "thread": None, "metrics": {"records-lag": 5.0}}
    ]


def test_snapshot_of_the_old_scala_consumer() -> None:
    connector = "kafka.consumer:type=ZookeeperConsumerConnector"
    mbeans: MBeans = {
        "kafka.common:type=AppInfo,name=Version": {"Value": "0.8.2.1"},
        f"{connector},name=FetchQueueSize,clientId=feed,topic=trades,threadId=0": {"Value": 2},
        f"{connector},name=FetchQueueSize,clientId=feed,topic=quotes,threadId=0": {"Value": 0},
        f"{connector},name=OwnedPartitionsCount,clientId=feed,groupId=g": {"Value": 6},
        f"{connector},name=OwnedPartitionsCount,clientId=feed,groupId=g,topic=trades": {"Value": 2},
        f"{connector},name=KafkaCommitsPerSec,clientId=feed": {"Count": 4, "OneMinuteRate": 0.1},
        f"{connector},name=ZooKeeperCommitsPerSec,clientId=feed": {"Count": 3, "OneMinuteRate": 0.1},
        "kafka.consumer:type=ConsumerFetcherManager,name=MaxLag,clientId=feed": {"Value": 0},
        "kafka.consumer:type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=feed": {"Count": 100},
        "kafka.consumer:type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=feed,topic=trades": {"Count": 60},
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=feed": {
            "Count": 185,
            "Mean": 5.2,
        },
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=feed,"
        "brokerHost=127.0.0.1,brokerPort=9092": {"Count": 180},
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=feed,topic=trades,partition=1": {"Value": -1},
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=feed,topic=trades,partition=0": {"Value": 8},
    }
    (feed,) = snapshots(mbeans, PROCESS, 0)
    assert feed["client"]["kind"] == "legacy-consumer"
    assert (feed["client"]["version"], feed["client"]["group"]) == ("0.8.2.1", "g")
    assert feed["metrics"] == {
        "max-lag": 0.0,
        "messages-total": 100.0,
        "fetch-requests-total": 185.0,
    }
    assert {(t["topic"], t["partition"], t["thread"]): t["metrics"] for t in feed["topics"]} == {
        ("trades", None, "0"): {"queue-chunks": 2.0},
        ("quotes", None, "0"): {"queue-chunks": 0.0},
        ("trades", None, None): {"messages-total": 60.0},
        ("trades", 0, None): {"records-lag": 8.0},
    }


def test_names_in_quotes() -> None:
    assert object_name(r'kafka.producer:client-id="a,b=\"c\*",type=producer-metrics') == (
        "kafka.producer",
        {"client-id": 'a,b="c*', "type": "producer-metrics"},
    )


def snapshot(
    metrics: Mapping[str, float], kind: str = "producer", queues: Mapping[str, float] | None = None
) -> dict[str, Any]:
    return {
        "client": {"kind": kind, "client_id": "p"},
        "metrics": dict(metrics),
        "topics": [{"topic": topic, "metrics": {"queue-chunks": chunks}} for topic, chunks in (queues or {}).items()],
        "config": {},
    }


def producer(used: float = 0, **metrics: float) -> dict[str, Any]:
    buffer = {"buffer-total-bytes": 100.0, "buffer-available-bytes": 100.0 - used, "waiting-threads": 0.0}
    return snapshot(buffer | {name.replace("_", "-"): value for name, value in metrics.items()})


def legacy(**queues: float) -> dict[str, Any]:
    return snapshot({}, "legacy-consumer", queues)


SUSPICIOUS = {
    "the I/O thread stands": (
        producer(select_total=5),
        producer(select_total=5, used=40),
        "select-total stands at 5 with 40 bytes in the buffer",
    ),
    "full": (
        producer(select_total=5),
        producer(select_total=6, used=80),
        "the buffer is 80% full",
    ),
    "half full, no select-total": (producer(), producer(used=50), "the buffer is 50% full"),
    "waiting": (producer(), producer(waiting_threads=2), "2 threads wait"),
    "no metadata": (producer(metadata_age=1.795e9), producer(metadata_age=1.795e9), "it never had metadata"),
    "errors": (producer(record_error_total=1), producer(record_error_total=4), "3 records failed"),
    "away": (
        snapshot({"last-poll-seconds-ago": 1.0}, "consumer"),
        snapshot({"last-poll-seconds-ago": 31.0}, "consumer"),
        "the last poll() was 31 s ago",
    ),
    "starving": (legacy(a=2, b=0), legacy(a=2, b=0), "the queue of a is full while b got nothing"),
}
HARMLESS = {
    "idle": (producer(select_total=5), producer(select_total=5)),
    "working": (producer(select_total=5, used=60), producer(select_total=9, used=60)),
    "just started": (producer(), producer(metadata_age=1.795e9)),
    "polling": (
        snapshot({"last-poll-seconds-ago": 0.0}, "consumer"),
        snapshot({"last-poll-seconds-ago": 1.0}, "consumer"),
    ),
    "all queues full": (legacy(a=2, b=2), legacy(a=2, b=2)),
    "just filled": (legacy(a=0, b=0), legacy(a=2, b=0)),
}


@pytest.mark.parametrize("case", SUSPICIOUS)
def test_suspicious(case: str) -> None:
    before, now, expected = SUSPICIOUS[case]
    suspicion = Suspicion()
    suspicion.reasons([before])
    (reason,) = suspicion.reasons([now])
    assert expected in reason.text
    assert reason.strong


@pytest.mark.parametrize("case", HARMLESS)
def test_harmless(case: str) -> None:
    before, now = HARMLESS[case]
    suspicion = Suspicion()
    suspicion.reasons([before])
    assert suspicion.reasons([now]) == []


def test_a_client_that_vanishes_is_suspicious_until_it_returns() -> None:
    suspicion = Suspicion()
    connector = legacy(a=0)
    assert suspicion.reasons([connector]) == []
    for _ in range(2):
        (reason,) = suspicion.reasons([])
        assert "p (legacy-consumer) is gone" in reason.text
    assert suspicion.reasons([connector]) == []


def test_a_producer_that_stops_sending_is_weakly_suspicious() -> None:
    suspicion = Suspicion()
    for sent in (1.0, 2.0):
        assert suspicion.reasons([producer(record_send_total=sent)]) == []
    (reason,) = suspicion.reasons([producer(record_send_total=2.0)])
    assert not reason.strong


def test_dumps_become_rarer_while_the_suspicion_lasts() -> None:
    plan = DumpPlan(30.0, DumpBudget(60.0))
    taken = [second for second in range(0, 500, 10) if plan.due([Reason("x")], second)]
    assert taken == [0, 30, 60, 120, 240, 360, 480]


def test_a_weak_suspicion_is_worth_three_dumps() -> None:
    plan = DumpPlan(30.0, DumpBudget(60.0))
    weak = [Reason("x", strong=False)]
    assert [second for second in range(0, 500, 10) if plan.due(weak, second)] == [0, 30, 60]
    assert plan.due([Reason("y")], 500)
    assert not plan.due([], 510)
    assert not plan.due([], 560)
    assert plan.due(weak, 570)


def test_jvms_that_are_all_suspicious_share_the_dumps_in_pairs() -> None:
    budget = DumpBudget(per_minute=6.0)
    plans = [DumpPlan(30.0, budget) for _ in range(100)]
    taken = [
        (second, jvm)
        for second in range(0, 600, 10)
        for jvm, plan in enumerate(plans)
        if plan.due([Reason("the cluster is gone")], second)
    ]
    assert [jvm for second, jvm in taken if second == 0] == [0, 1, 2], "six are left, for two dumps of each"
    assert 54 <= len(taken) <= 66, "six to begin with and six a minute, some of them kept for a second one"
    first = {jvm: second for second, jvm in reversed(taken)}
    assert all((second + 30, jvm) in taken for jvm, second in first.items() if second + 30 < 600)


def test_a_small_budget_grants_a_pair_now_and_then() -> None:
    budget = DumpBudget(per_minute=0.5)
    assert [second for second in range(0, 600, 60) if budget.grants(2, second)] == [0, 240, 480]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders=http://h:8778/jolokia/", Target("orders", "http://h:8778/jolokia/", {})),
        ("https://u@h:8778/j?a=b", Target("h:8778", "https://u@h:8778/j?a=b", {})),
        (
            "orders=http://h/ delivery.timeout.ms=10 group.id=g",
            Target("orders", "http://h/", {"delivery.timeout.ms": "10", "group.id": "g"}),
        ),
    ],
)
def test_targets(text: str, expected: Target) -> None:
    assert Target.parse(text) == expected


@pytest.mark.parametrize("text", ["orders=h:8778", "ftp://h/", "http:///x", "a=http://h/ colour=blue", "a=http://h/ x"])
def test_wrong_targets(text: str) -> None:
    with pytest.raises(SettingsError):
        Target.parse(text)


def test_a_file_of_targets_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "targets"
    targets = Targets([], file)
    assert targets.now() == ()
    file.write_text("# none yet\n\na=http://h/\n", encoding="utf-8")
    assert targets.now() == (Target("a", "http://h/"),)
    file.write_text("nonsense and more\n", encoding="utf-8")
    assert targets.now() == (Target("a", "http://h/"),)
    file.write_text("a=http://h/\nb=http://i/\n", encoding="utf-8")
    assert [target.service for target in targets.now()] == ["a", "b"]
    with pytest.raises(InputError):
        Targets([])


Answer = Callable[[Any], tuple[int, bytes]]


@contextmanager
def agent(answer: Answer) -> Iterator[str]:
    """A web server that answers what a Jolokia agent is asked."""

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
    """A web server on a free port."""
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
    """A JVM with the clients of JAVA."""
    if isinstance(asked["body"], dict):
        return 200, json.dumps({"status": 200, "value": 'Full thread dump\n\n"main" #1\n'}).encode()
    answers: list[dict[str, Any]] = []
    for request in asked["body"]:
        domain = request["mbean"].partition(":")[0]
        of_domain = {name: value for name, value in JAVA.items() if name.startswith(f"{domain}:")}
        if request["mbean"] in of_domain:
            answers.append({"request": request, "status": 200, "value": of_domain[request["mbean"]]})
        elif of_domain:
            answers.append({"request": request, "status": 200, "value": of_domain})
        else:
            answers.append({"request": request, "status": 404, "error": "no MBean"})
    return 200, json.dumps(answers).encode()


class Delivered(Publisher):
    """Keeps what is sent."""

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
        (200, b"{}", "bulk request"),
        (200, b'[{"status": 500, "request": {"mbean": "x"}, "error": "broken"}]', "status 500: broken"),
    ],
)
def test_wrong_answers(status: int, content: bytes, message: str) -> None:
    with agent(lambda _: (status, content)) as url, pytest.raises(JolokiaError, match=message):
        Jolokia(url, 2.0).read({"x:*": ()})


def test_a_silent_agent_is_an_error_in_time() -> None:
    released = threading.Event()

    def answer(_: Any) -> tuple[int, bytes]:
        released.wait(5)
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
    assert "select-total stands at 10213" in dump["labels"]["reason"]


def test_thread_dumps_can_be_switched_off() -> None:
    delivered = Delivered()
    with agent(jvm) as url:
        watch = Watch(Target("orders", url), Settings(jvm=JvmSettings(thread_dumps=False)), delivered, DumpBudget(60.0))
        watch.read()
        watch.read()
    assert {topic for topic, _, _ in delivered.records} == {"client-metrics"}


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
            with pytest.raises(JolokiaError, match=r"not complete after 0\.2 s"):
                Jolokia(url, 0.2).read({RUNTIME: ()})
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
        released.wait(10)
        return 503, b""

    settings = Settings(jvm=JvmSettings(interval_seconds=0.05, timeout_seconds=10.0, thread_dumps=False))
    stop = threading.Event()
    with agent(jvm) as fast, agent(hangs) as slow:
        targets = Targets([Target("slow", slow), Target("fast", fast)])
        thread = threading.Thread(target=Exporter(settings, targets, Counted()).run, args=(stop,))
        thread.start()
        assert enough.wait(5)
        released.set()
        stop.set()
        thread.join(5)
        assert not thread.is_alive()


class FakeProducer:
    """Hands out a future for each record; what it is told to fail, fails."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[bytes] = []
        self.twice = threading.Event()

    def send(self, topic: str, value: bytes, key: bytes) -> Any:
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, MessageSizeTooLargeError):
            raise outcome
        self.sent.append(value)
        if len(self.sent) == 2:
            self.twice.set()
        future = KafkaFuture()
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)
        return future

    def close(self, timeout: float) -> None:
        return


class KafkaFuture(Future[None]):
    """concurrent.futures.Future with the callbacks of kafka-python's."""

    def add_callback(self, function: Callable[[Any], None]) -> None:
        self.add_done_callback(lambda done: None if done.exception() else function(done.result()))

    def add_errback(self, function: Callable[[BaseException], None]) -> None:
        self.add_done_callback(lambda done: function(error) if (error := done.exception()) else None)


def test_what_was_not_delivered_is_sent_again() -> None:
    kafka = FakeProducer(KafkaTimeoutError("late"))
    publisher = Publisher(kafka, pause_seconds=0.01)
    publisher.send("t", "k", {"n": 1})
    assert kafka.twice.wait(5)
    assert kafka.sent == [b'{"n":1}', b'{"n":1}']
    assert publisher.close() == 0


def test_what_is_too_large_is_left_out_and_the_rest_goes_on() -> None:
    kafka = FakeProducer(MessageSizeTooLargeError("large"))
    publisher = Publisher(kafka)
    publisher.send("t", "k", {"n": 1})
    publisher.send("t", "k", {"n": 2})
    assert kafka.sent == [b'{"n":2}']
    assert publisher.close() == 0


def test_what_failed_is_tried_once_more_at_the_end_and_counted() -> None:
    kafka = FakeProducer(KafkaTimeoutError("late"), KafkaTimeoutError("still"))
    publisher = Publisher(kafka, pause_seconds=60)
    publisher.send("t", "k", {"n": 1})
    assert publisher.close() == 1
    assert kafka.sent == [b'{"n":1}', b'{"n":1}']


def test_a_full_publisher_makes_its_source_wait() -> None:
    late = KafkaTimeoutError("late")
    kafka = FakeProducer(late, late)
    publisher = Publisher(kafka, capacity=1, pause_seconds=0.01)
    publisher.send("t", "k", {"n": 1})
    publisher.send("t", "k", {"n": 2})
    assert kafka.sent == [b'{"n":1}', b'{"n":1}', b'{"n":1}', b'{"n":2}']
    assert publisher.close() == 0


def test_of_a_dump_that_is_too_large_kafkas_threads_stay() -> None:
    other = '"worker" #1\n' + "\tat a.b.C.d(C.java:1)\n" * 50
    dump = "\n\n".join(["Full thread dump", other, '"kafka-producer-network-thread | x" #2\n\tat k', other])
    kept = shortened(dump, limit=200)
    assert kept == 'Full thread dump\n\n"kafka-producer-network-thread | x" #2\n\tat k'
    assert shortened(dump, limit=10_000) == dump
    assert dump_record(PROCESS, 0, dump, "because")["@timestamp"] == "1970-01-01T00:00:00.000+00:00"
