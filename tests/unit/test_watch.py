"""`kafka-health watch` reads fake Jolokia agents, and a real agent in a real JVM."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from clienthealth.diagnose.watch import python_process
from clienthealth.diagnose.watch.attach import agent_jar, attached, free_port, runtime_of
from clienthealth.diagnose.watch.screen import Screen
from clienthealth.model.errors import InputError, ServiceError
from clienthealth.ops.cli import main
from clienthealth.platform.jars import java
from clienthealth_exporters.jvm.jolokia import Jolokia
from tests.support.waiting import WAIT_SECONDS, eventually
from tests.unit.test_jvm_exporter import agent, serving

pytestmark = pytest.mark.early

RUNTIME = "java.lang:type=Runtime"
STATISTICS = Path(__file__).parents[1] / "formats" / "librdkafka_stats_producer.json"
PRODUCER = "kafka.producer:client-id=p-1,type=producer-metrics"
STUCK = """\
"kafka-producer-network-thread | p-1" #17 daemon prio=5 tid=0x1 nid=0x2 waiting on condition  [0x3]
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
\tat java.util.concurrent.CountDownLatch.await(java.base@17.0.15/CountDownLatch.java:230)
\tat org.apache.kafka.clients.producer.internals.ProduceRequestResult.await(ProduceRequestResult.java:105)
\tat org.apache.kafka.clients.producer.internals.FutureRecordMetadata.get(FutureRecordMetadata.java:50)
\tat com.example.Resend.onCompletion(Resend.java:12)
\tat org.apache.kafka.clients.producer.internals.ProducerBatch.completeFutureAndFireCallbacks(ProducerBatch.java:312)
\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:243)
\tat java.lang.Thread.run(java.base@17.0.15/Thread.java:840)
"""


def jvm(stuck: bool) -> Callable[[Any], tuple[int, bytes]]:
    reads = 0

    def answer(asked: Any) -> tuple[int, bytes]:
        nonlocal reads
        if isinstance(asked["body"], dict):
            return 200, json.dumps({"status": 200, "value": f"Full thread dump\n\n{STUCK if stuck else ''}"}).encode()
        reads += 1
        moved = 0 if stuck else 10 * reads
        producer = {
            "select-total": 500.0 + moved,
            "record-send-total": 900.0 + moved,
            "record-error-total": 0.0,
            "record-retry-total": 0.0,
            "buffer-total-bytes": 33554432.0,
            "buffer-available-bytes": 30000000.0 if stuck else 33554432.0,
            "bufferpool-wait-time-total": 0.0,
            "waiting-threads": 0.0,
            "metadata-age": 3.0,
            "request-total": 400.0 + moved,
            "response-total": 400.0 + moved,
            "connection-count": 1.0,
            "io-ratio": 0.01,
            "io-wait-ratio": 0.9,
            "batch-size-avg": 200.0,
            "record-queue-time-avg": 1.0,
            "record-queue-time-max": 3.0,
            "request-latency-avg": 2.0,
            "request-latency-max": 5.0,
            "requests-in-flight": 0.0,
            "record-send-rate": 0.0 if stuck else 10.0,
        }
        producers = "kafka.producer:type=producer-metrics,*"
        mbeans = {RUNTIME: {"Name": "4711@web-7", "StartTime": 1}, producers: {PRODUCER: producer}}
        return 200, json.dumps(
            [
                {"request": request, "status": 200, "value": mbeans[request["mbean"]]}
                if request["mbean"] in mbeans
                else {"request": request, "status": 404, "error": "no MBean"}
                for request in asked["body"]
            ]
        ).encode()

    return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clienthealth.diagnose.watch.watching.INTERVAL_SECONDS", 0.2)
    monkeypatch.setattr("clienthealth.diagnose.watch.watching.DUMP_SECONDS", 1.5)


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["watch", *arguments])
    return int(str(ended.value.code))


def test_a_stuck_producer_is_found_and_the_evidence_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(jvm(stuck=True)) as url:
        assert exit_code(f"orders={url}", "--for", "3.5") == 1
    shown = capsys.readouterr().out
    assert "p-1: producer-callback-deadlock" in shown
    assert "com.example.Resend.onCompletion" in shown
    assert "kafka-health explain producer-callback-deadlock" in shown


def test_of_a_stuck_producer_one_json_object_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(jvm(stuck=True)) as url:
        assert exit_code(f"orders={url}", "--for", "3.5", "--json") == 1
    (line,) = capsys.readouterr().out.splitlines()
    client = json.loads(line)
    assert client["client"]["client_id"] == "p-1"
    verdicts = {verdict["mode"]: verdict for verdict in client["verdicts"]}
    assert verdicts["producer-callback-deadlock"]["status"] == "confirmed"
    assert "thread-dump" in {fact["kind"] for fact in verdicts["producer-callback-deadlock"]["evidence"]}


def test_what_was_recorded_is_diagnosed_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with agent(jvm(stuck=True)) as url:
        secret = f"orders={url} delivery.timeout.ms=password=hunter2"
        assert exit_code(secret, "--for", "3.5", "--record", str(tmp_path / "kept")) == 1
    capsys.readouterr()
    kept = sorted(file.name for file in (tmp_path / "kept/orders").iterdir())
    assert kept[-1] == "metrics.jsonl"
    assert len(kept) >= 3
    assert not any(b"hunter2" in file.read_bytes() for file in (tmp_path / "kept/orders").iterdir())
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", "--json", str(tmp_path / "kept")])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().out.splitlines()
    client = json.loads(line)
    found = {verdict["mode"]: verdict["status"] for verdict in client["verdicts"]}
    assert (client["client"]["client_id"], found["producer-callback-deadlock"]) == ("p-1", "confirmed")
    assert {Path(attached["name"]).name for attached in client["inputs"]} == set(kept)


HANGS = """\
"billing" #21 prio=5 os_prio=0 cpu=12.50ms elapsed=120.00s tid=0x1 nid=0x2 waiting on condition  [0x3]
   java.lang.Thread.State: TIMED_WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
\tat java.util.concurrent.locks.LockSupport.parkNanos(java.base@17.0.15/LockSupport.java:376)
\tat com.example.Ledger.await(Ledger.java:77)
\tat com.example.Billing.handle(Billing.java:41)
\tat com.example.Billing.run(Billing.java:30)
\tat java.lang.Thread.run(java.base@17.0.15/Thread.java:840)

"pool-1-thread-1" #22 prio=5 os_prio=0 cpu=1.50ms elapsed=120.00s tid=0x4 nid=0x5 waiting on condition  [0x6]
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
\tat java.util.concurrent.ThreadPoolExecutor.getTask(java.base@17.0.15/ThreadPoolExecutor.java:1062)
\tat java.lang.Thread.run(java.base@17.0.15/Thread.java:840)
"""
CONSUMER = "kafka.consumer:client-id=c-1,type="


def hanging(asked: Any) -> tuple[int, bytes]:
    """Answer as a consumer's agent.

    The consumer's handler has run for 91 s. The default of max.poll.interval.ms is 300 s.
    """
    if isinstance(asked["body"], dict):
        return 200, json.dumps({"status": 200, "value": f"Full thread dump\n\n{HANGS}"}).encode()
    metrics = {
        "consumer-metrics": {"last-poll-seconds-ago": 91.0, "time-between-poll-max": 91_000.0},
        "consumer-coordinator-metrics": {"assigned-partitions": 1.0, "last-heartbeat-seconds-ago": 1.0},
        "consumer-fetch-manager-metrics": {"records-consumed-total": 474.0, "records-lag-max": 1200.0},
    }
    mbeans = {RUNTIME: {"Name": "4711@web-7", "StartTime": 1}}
    answers = []
    for request in asked["body"]:
        mbean_type = request["mbean"].partition("type=")[2].partition(",")[0]
        if request["mbean"] in mbeans:
            answers.append({"request": request, "status": 200, "value": mbeans[request["mbean"]]})
        elif request["mbean"].startswith("kafka.consumer:") and mbean_type in metrics:
            found = {f"{CONSUMER}{mbean_type}": metrics[mbean_type]}
            answers.append({"request": request, "status": 200, "value": found})
        else:
            answers.append({"request": request, "status": 404, "error": "no MBean"})
    return 200, json.dumps(answers).encode()


def test_where_the_thread_of_a_handler_stands_is_shown_though_nothing_is_proved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with agent(hanging) as url:
        assert exit_code(f"billing={url}", "--for", "5") == 3
        shown = capsys.readouterr().out
        assert exit_code(f"billing={url}", "--for", "2", "--json") == 3
    assert "the application has not called poll() for 91 s" in " ".join(shown.split())
    head, _, stacks = shown.partition("\nThreads of billing (web-7:4711) at ")
    assert "consumer-stalled" in head
    first, *frames = stacks.splitlines()[1:]
    assert re.fullmatch(
        r"  'billing' \(TIMED_WAITING\) has been in these frames since \d\d:\d\d:\d\d, for at least [\d.]+ s, "
        r"in [2-4] dumps, using 0 s of CPU:",
        first,
    )
    assert frames == [
        "    at com.example.Ledger.await (Ledger.java:77)",
        "    at com.example.Billing.handle (Billing.java:41)",
        "    at com.example.Billing.run (Billing.java:30)",
    ]
    (row,) = capsys.readouterr().out.splitlines()
    (thread,) = json.loads(row)["threads"]
    assert (thread["name"], thread["frames"][0]) == ("billing", "com.example.Ledger.await (Ledger.java:77)")


def test_a_healthy_producer_is_not_accused(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(jvm(stuck=False)) as url:
        assert exit_code(f"orders={url}", "--for", "3", "--json") in (0, 3)
    (line,) = capsys.readouterr().out.splitlines()
    statuses = {verdict["mode"]: verdict["status"] for verdict in json.loads(line)["verdicts"]}
    assert statuses["producer-callback-deadlock"] == "ok"
    assert set(statuses.values()) <= {"ok", "unknown"}


def test_a_glance_calls_no_client_healthy() -> None:
    with agent(jvm(stuck=False)) as url:
        assert exit_code(f"orders={url}", "--for", "0.05") == 3


def test_the_stacks_of_a_python_process_are_read_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import threading; threading.Thread(target=input, name='orders').start(); print('up', flush=True); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        assert exit_code(f"shop={process.pid}", "--for", "2", "--record", str(tmp_path)) == 3
        process.kill()
    assert "no input is about a Kafka client" in capsys.readouterr().out
    dump = next((tmp_path / "shop").glob("jstack-01-*.txt")).read_text()
    assert '"orders"' in dump and '"MainThread"' in dump


def test_statistics_that_a_process_serves_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(STATISTICS.read_bytes())

        def log_message(self, format: str, *args: Any) -> None:
            return

    with serving(Handler) as url:
        assert exit_code(f"ledger={url}", "--for", "1", "--json", "--record", str(tmp_path)) == 3
    (line,) = capsys.readouterr().out.splitlines()
    client = json.loads(line)["client"]
    assert (client["service"], client["client_id"], client["library"]) == ("ledger", "pricing-py", "librdkafka")
    kept = json.loads((tmp_path / "ledger/metrics.jsonl").read_text().splitlines()[0])
    assert kept["metrics"]["queue-records"] == 99_874


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("Error: Permission Denied: Try running again with elevated permissions", "kernel.yama.ptrace_scope=0"),
        ("Error: Failed to find python version from target process\n", "py-spy: Error: Failed to find python version"),
    ],
)
def test_why_py_spy_gives_no_stacks(error: str, reason: str) -> None:
    assert reason in python_process._why(error)


def test_an_agent_that_does_not_answer_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("http://127.0.0.1:1/jolokia/") == 2
    assert "http://127.0.0.1:1/jolokia/: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("4711", "--group", "g"),
        ("--group", "g", "--record", "x"),
        ("nonsense",),
        ("4711", "--for", "0"),
        ("4711", "--for", "soon"),
    ],
)
def test_wrong_usage(wrong: tuple[str, ...]) -> None:
    assert exit_code(*wrong) == 2


def test_ctrl_c_ends_with_the_report_and_the_exit_code() -> None:
    command = [sys.executable, "-m", "clienthealth.ops.cli", "watch"]
    with agent(jvm(stuck=True)) as url:
        watching = subprocess.Popen([*command, f"orders={url}"], stdout=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        line = next(line for line in watching.stdout if "confirmed" in line)
        watching.send_signal(signal.SIGINT)
        report, _ = watching.communicate(timeout=WAIT_SECONDS)
    assert "p-1: producer-callback-deadlock" in line
    assert "What to do" in report
    assert watching.returncode == 1


def test_a_terminal_shows_a_table_in_its_place_and_no_line_is_wider(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "clienthealth.ops.cli", "watch"]
    with agent(jvm(stuck=True)) as stuck, agent(jvm(stuck=False)) as well:
        watching = subprocess.Popen([*command, f"orders={stuck}", f"web={well}"], stdout=theirs, env=environment)
        os.close(theirs)
        shown = b""
        while shown.count(b"orders/p-1 ") < 3:
            shown += os.read(ours, 65536)
        watching.send_signal(signal.SIGINT)
        with suppress(OSError):
            while more := os.read(ours, 65536):
                shown += more
        os.close(ours)
        assert watching.wait(WAIT_SECONDS) == 1
    text = shown.decode().replace("\r", "")
    assert max(len(re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line)) for line in text.splitlines()) <= 80
    assert "\x1b[31morders/p-1                       producer confirmed producer-callback-deadlock\x1b[0m\n" in text
    tables = text.split("client                           kind     now (")[1:-1]
    assert all(f"\x1b[{table.count(chr(10))}A\x1b[J" in table for table in tables)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_where_a_thread_has_been_is_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    line = "  'main' (RUNNABLE) has been in these frames since 10:00:00, for at least 70 s, in 71 dumps, using 12 ms:"
    for stream, widest in ((Terminal(), 59), (io.StringIO(), len(line))):
        Screen(stream).write(["", line])
        assert max(map(len, stream.getvalue().splitlines())) <= widest
        assert stream.getvalue().startswith("\n  'main' (RUNNABLE)")
        assert " ".join(stream.getvalue().split()) == line.strip()


def test_why_a_process_cannot_be_attached_to() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(InputError, match=f"there is no process {ended.pid}"):
        runtime_of(ended.pid)
    assert runtime_of(os.getpid()) == "python"
    with subprocess.Popen(["sleep", "60"]) as neither, pytest.raises(InputError, match="neither a Java nor a Python"):
        try:
            runtime_of(neither.pid)
        finally:
            neither.kill()
    with pytest.raises(InputError, match="there is no such file"):
        agent_jar(Path("nowhere.jar"))


@contextmanager
def sleeping(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    source = folder / "Sleeps.java"
    source.write_text(
        'class Sleeps { public static void main(String[] a) throws Exception { System.out.println("up"); '
        "System.in.read(); } }",
        encoding="utf-8",
    )
    command = [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options, str(source)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        process.communicate("\n", timeout=WAIT_SECONDS)


@pytest.mark.long
def test_the_agent_is_attached_reads_only_and_leaves(tmp_path: Path) -> None:
    with sleeping(tmp_path) as process:
        with attached(process.pid, agent_jar(None)) as of:
            password = Path(of.password_file).read_text()
            mine, strangers = Jolokia(of.url, 5.0, of.user, password), Jolokia(of.url, 5.0)
            assert mine.read({RUNTIME: ("Name",)})[RUNTIME]["Name"].startswith(f"{process.pid}@")
            assert '"main"' in mine.thread_dump()
            with pytest.raises(ServiceError, match="401"):
                strangers.thread_dump()
            collect = {"type": "exec", "mbean": "java.lang:type=Memory", "operation": "gc", "arguments": []}
            assert mine._post(collect)["status"] == 403
        with pytest.raises(ServiceError, match="refused"):
            mine.thread_dump()
        assert not Path(of.password_file).exists()


WATCH = [sys.executable, "-m", "clienthealth.ops.cli", "watch"]


@pytest.mark.long
def test_after_a_watch_that_was_killed_its_agent_is_taken_out_and_the_next_one_works(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with sleeping(tmp_path) as process:
        first = subprocess.Popen(
            [*WATCH, str(process.pid), "--record", str(tmp_path / "first")], env=environment, stdout=subprocess.DEVNULL
        )
        (password,) = eventually(lambda: [*tmp_path.glob("kafka-health-watch-*/password")])
        eventually(lambda: has_agent(process.pid))
        beside = subprocess.run([*WATCH, str(process.pid), "--for", "1"], env=environment, capture_output=True)
        assert (beside.returncode, beside.stderr) == (3, b"")
        assert first.poll() is None
        first.kill()
        first.wait()
        assert password.exists()
        after = subprocess.run([*WATCH, str(process.pid), "--for", "1"], env=environment, capture_output=True)
        assert (after.returncode, after.stderr) == (3, b"")
        assert not [*tmp_path.glob("kafka-health-watch-*")]
        with attached(process.pid, agent_jar(None)) as of:
            assert of.user, "the one before has left"


@pytest.mark.long
def test_an_agent_with_another_password_stays_and_advice_is_printed(tmp_path: Path) -> None:
    config = tmp_path / "agent.properties"
    config.write_text("user=operator\npassword=secret\n", encoding="utf-8")
    jar = agent_jar(None)
    options = ["--host", "127.0.0.1", "--port", str(free_port()), "--discoveryEnabled", "false"]
    with sleeping(tmp_path) as process:
        subprocess.run(
            [java(), "-jar", str(jar), *options, "--config", str(config), "start", str(process.pid)],
            capture_output=True,
        )
        eventually(lambda: has_agent(process.pid))
        with (
            pytest.raises(InputError, match=f"asks for a password .*'java -jar .* stop {process.pid}'"),
            attached(process.pid, jar),
        ):
            pass
        with attached(process.pid, jar, with_password=True) as of:
            mine = Jolokia(of.url, 5.0, "operator", "secret")
            assert mine.read({RUNTIME: ("Name",)})[RUNTIME]["Name"].startswith(f"{process.pid}@")


@pytest.mark.long
def test_a_process_that_ends_while_it_is_watched_is_reported_to_have_ended(tmp_path: Path) -> None:
    with sleeping(tmp_path) as process:
        command = [*WATCH, f"shop={process.pid}"]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert watching.stderr is not None and process.stdin is not None
        assert any("shop shows no Kafka client" in line for line in watching.stderr)
        process.stdin.write("\n")
        process.stdin.flush()
        # The process is a zombie until the test reads its exit status.
        shown = watching.communicate(timeout=WAIT_SECONDS)[0]
    instance = rf"\(\S+:{process.pid}\)"
    assert re.search(rf"^\d\d:\d\d:\d\d  ended: shop {instance}$", shown, re.MULTILINE)
    assert re.search(rf"^ENDED  shop {instance} at .* UTC: no producer was seen in the process$", shown, re.MULTILINE)


def has_agent(pid: int) -> bool:
    command = [java(), "-jar", str(agent_jar(None)), "status", str(pid)]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.long
def test_a_jvm_that_takes_no_agent_gives_advice(tmp_path: Path) -> None:
    with (
        sleeping(tmp_path, "-XX:+DisableAttachMechanism") as process,
        pytest.raises(InputError, match=f"process {process.pid} could not load the agent"),
        attached(process.pid, agent_jar(None)),
    ):
        pass
