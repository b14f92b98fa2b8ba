"""`diagnose` reads thread dumps in every form in which people attach dumps."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from clienthealth.configuration import load
from clienthealth.diagnose.diagnosis import diagnose
from clienthealth.diagnose.outcome import exit_code
from clienthealth.model.readings import Source, Thread
from clienthealth.model.telemetry import Dump, DumpedThread, LogLine, RawRecord
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import catalogue
from clienthealth.modes._io_thread import at_work, in_foreign_code
from clienthealth.read.decode import decode_logs
from clienthealth.read.logs import dump_formats
from clienthealth.read.logs.dump_formats import dumps_in
from clienthealth.read.logs.dumps import rejoin
from clienthealth.read.logs.events import events_and_dumps, literals
from clienthealth.read.recordings import Recorded
from clienthealth.settings import Settings

RECORDINGS = Path(__file__).parents[1] / "recordings"
FOLDER = Path(__file__).parents[1] / "dump_shapes"
AWAIT = (
    ("jdk.internal.misc.Unsafe.park", "Native Method"),
    ("java.util.concurrent.locks.LockSupport.park", "LockSupport.java:211"),
    ("java.util.concurrent.CountDownLatch.await", "CountDownLatch.java:230"),
    ("org.apache.kafka.clients.producer.internals.ProduceRequestResult.await", "ProduceRequestResult.java:76"),
    ("org.apache.kafka.clients.producer.internals.FutureRecordMetadata.get", "FutureRecordMetadata.java:62"),
    ("shop.Retry.onCompletion", "Retry.java:31"),
    (
        "org.apache.kafka.clients.producer.internals.ProducerBatch.completeFutureAndFireCallbacks",
        "ProducerBatch.java:1",
    ),
    ("org.apache.kafka.clients.producer.internals.Sender.run", "Sender.java:243"),
    ("java.lang.Thread.run", "Thread.java:840"),
)
NAME = "kafka-producer-network-thread | orders"


def java(before: str = "\tat ", module: str = "") -> str:
    return "".join(f"{before}{module if m.startswith('j') else ''}{m}({location})\n" for m, location in AWAIT)


def j9() -> str:
    lines = (f"4XESTACKTRACE                at {m.replace('.', '/')}({p}(Compiled Code))\n" for m, p in AWAIT)
    return "".join(lines).replace("Native Method(Compiled Code)", "Native Method")


def forced() -> str:
    lines = (f" - {m}(java.lang.Object) @bci=14, line={n} (Compiled frame)\n" for n, (m, _) in enumerate(AWAIT, 10))
    return "".join(lines)


def thread_info() -> list[dict[str, object]]:
    parts = (method.rpartition(".") for method, _ in AWAIT)
    return [{"className": of, "methodName": name, "fileName": "F.java", "lineNumber": 7} for of, _, name in parts]


TAKEN = 1795200045000  # 2026-11-20 18:40:45
STATE = "   java.lang.Thread.State: WAITING (parking)\n"
OTHER = (
    '"main" #1 prio=5 os_prio=0 tid=0x1 nid=0x2 runnable\n   java.lang.Thread.State: RUNNABLE\n\tat a.B.c(B.java:1)\n\n'
)
TITLE_7 = "2026-11-20 18:40:45\nFull thread dump Java HotSpot(TM) 64-Bit Server VM (24.80-b11 mixed mode):\n\n"
DEADLOCKS: dict[str, str] = {
    "JDK 7": f'{TITLE_7}{OTHER}"{NAME}" daemon prio=10 tid=0x7f nid=0x5 waiting on condition [0x3]\n{STATE}{java()}\n'
    "JNI global references: 108\n",
    "JDK 8 without title": f'{OTHER}"{NAME}" #12 daemon prio=5 os_prio=0 tid=0x7f nid=0x5 wait\n{STATE}{java()}',
    "JDK 17, one thread": f'"{NAME}" #12 daemon prio=5 os_prio=0 cpu=9.10ms elapsed=8.1s tid=0x7f nid=0x5 wait\n'
    f"{STATE}{java(module='java.base@17.0.15/')}",
    "name in quotes": f'"{NAME}"\n{STATE}{java()}',
    "state and frames": STATE.strip() + "\n" + java("        at "),
    "frames": java("at "),
    "frames without at": java("", "java.base@17.0.2/"),
    "frames below their thread's name": f"{NAME}\n{java('    at ')}",
    "prose around a block": f'Hi, we see this:\n\n```\n"{NAME}" #12 prio=5 tid=0x1\n{STATE}{java()}```\nAny idea?\n',
    "dump_to_file": "4711\n2026-11-20T18:40:45.123456Z\n21.0.6+7-LTS\n\n"
    f'#1 "main"\n      a.B.c(B.java:1)\n\n#30 "{NAME}"\n'
    f"{java('      ', 'java.base/')}\n",
    "JConsole": f"Name: {NAME}\nState: WAITING on java.util.concurrent.CountDownLatch$Sync@1\n"
    f"Total blocked: 0  Total waited: 9\n\nStack trace: \n{java('')}",
    "VisualVM": f'{TITLE_7}"{NAME}" - Thread t@21\n{STATE}{java()}\n   Locked ownable synchronizers:\n\t- None\n',
    "ThreadInfo": f'"{NAME}" Id=21 WAITING on java.util.concurrent.CountDownLatch$Sync@1\n{java("    at ")}\n',
    "getAllStackTraces": f"Thread[{NAME},5,main]\n{java('  ')}",
    "jstack -F": "Attaching to process ID 1, please wait...\nDebugger attached successfully.\n\n"
    "Thread 4711: (state = BLOCKED)\n" + forced(),
    "javacore": "0SECTION       TITLE subcomponent dump routine\nNULL           ===============================\n"
    "1TIDATETIME    Date: 2026/11/20 at 18:40:45:123\n"
    f'3XMTHREADINFO      "{NAME}" J9VMThread:0x0000000001A2, omrthread_t:0x7F, java/lang/Thread:0xF0, state:P, prio=5\n'
    "3XMJAVALTHREAD            (java/lang/Thread getId:0x21, isDaemon:true)\n"
    "3XMCPUTIME               CPU usage total: 0.250000000 secs, user: 0.2 secs\n"
    f"3XMTHREADINFO3           Java callstack:\n{j9()}NULL\n"
    "NULL           ---------------------- END OF DUMP -------------------------------------\n",
    "actuator": json.dumps({"threads": [{"threadName": NAME, "threadState": "WAITING", "stackTrace": thread_info()}]}),
}
PYTHON = """\
Process 7: python app.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 9 (idle): "orders-network-thread"
    Condition.wait (threading.py:327)
    Event.wait (threading.py:629)
    FutureProduceResult.wait (kafka/producer/future.py:27)
    FutureRecordMetadata.get (kafka/producer/future.py:110)
    on_delivery (app.py:17)
    FutureRecordMetadata.success (kafka/future.py:52)
    ProducerBatch.done (kafka/producer/producer_batch.py:145)
    Sender.run (kafka/producer/sender.py:113)
"""


def verdicts(*texts: str) -> dict[str, Verdict]:
    records: list[Recorded] = []
    for text in texts:
        for dump in dumps_in(text):
            line = LogLine(ts_ms=dump.ts_ms or TAKEN + len(records) * 10_000, dumps=[dump])
            records.append(Recorded("logs", "shop", "shop:1", "dump.txt", len(records), b"", content=line))
    result = diagnose(records, load(None))
    return {verdict.mode: verdict for _, dump in result.clients for verdict in dump}


def only(text: str) -> Dump:
    (dump,) = dumps_in(text)
    return dump


def kafka_threads(dump: Dump) -> list[DumpedThread]:
    return [t for t in dump.threads if "kafka" in " ".join([t.name, *(f.method for f in t.frames)]).lower()]


def methods(dump: Dump) -> list[str]:
    return [frame.method for thread in dump.threads for frame in thread.frames]


@pytest.mark.parametrize("shape", DEADLOCKS)
def test_a_deadlock_is_confirmed_by_one_dump_of_any_shape(shape: str) -> None:
    text = DEADLOCKS[shape]
    dump = only(text)
    assert verdicts(text)["producer-callback-deadlock"].status == "confirmed"
    assert verdicts(text.replace("\n", "\r\n"))["producer-callback-deadlock"].status == "confirmed"
    (thread,) = kafka_threads(dump)
    assert thread.name.startswith("kafka-producer-network-thread")
    assert [method for method, _ in thread.frames] == [method for method, _ in AWAIT]
    if shape not in ("jstack -F", "actuator"):
        assert thread.frames[5] == ("shop.Retry.onCompletion", "Retry.java:31")


def test_what_a_dump_does_not_contain_is_unknown() -> None:
    times = {shape: only(text).ts_ms for shape, text in DEADLOCKS.items()}
    timed = {shape for shape, ts_ms in times.items() if ts_ms is not None}
    assert timed == {"JDK 7", "VisualVM", "dump_to_file", "javacore"}
    assert times["JDK 7"] == 1795200045000
    assert times["javacore"] == times["dump_to_file"] == 1795200045123
    assert only(DEADLOCKS["javacore"]).threads[0].cpu_ms == 250
    assert only(DEADLOCKS["JDK 7"]).complete is True
    assert only(DEADLOCKS["JDK 7"].replace("JNI global references", "")).complete is False
    assert only(DEADLOCKS["frames"]).complete is None


@pytest.mark.parametrize(
    ("file", "what", "workers"),
    [
        ("jcmd-17.txt", "JVM thread dump", ["http-worker-1", "http-worker-2"]),
        ("jstack-25.txt", "JVM thread dump", ["http-worker-1", "http-worker-2"]),
        ("to-file-25.txt", "Thread.dump_to_file", ["http-worker-1", "http-worker-2", "virtual thread #26"]),
        ("to-file-25.json", "Thread.dump_to_file (JSON)", ["http-worker-1", "http-worker-2", "virtual thread #26"]),
        ("faulthandler.txt", "Python faulthandler", ["thread 1", "thread 2"]),
        ("py-spy.txt", "py-spy dump", ["http-worker-0", "http-worker-1"]),
        ("py-spy-locals.txt", "py-spy dump", ["http-worker-0", "http-worker-1"]),
        ("py-spy.json", "py-spy dump (JSON)", ["http-worker-1", "http-worker-0"]),
    ],
)
def test_dumps_of_real_tools_show_callers_that_wait_for_metadata(file: str, what: str, workers: list[str]) -> None:
    text = (FOLDER / file).read_text(encoding="utf-8")
    dump = only(text)
    assert dump.what == what
    names = [thread.name for thread in kafka_threads(dump)]
    assert [name for name in names if not name.startswith("kafka-")] == workers
    network = next(name for name in names if name.startswith("kafka-producer-network-thread"))
    assert network.endswith(" | order-producer") or file == "faulthandler.txt"
    (at_its_selector,) = (
        Thread(thread.name, thread.state, tuple(frame.method for frame in thread.frames))
        for thread in dump.threads
        if thread.name == network
    )
    assert at_work(at_its_selector)
    assert not in_foreign_code(at_its_selector)
    judged = verdicts(text)
    assert judged["send-blocked-on-metadata"].status == "suspected"
    assert "looks healthy, but there is no second dump" in (judged["producer-callback-deadlock"].reason or "")


def test_a_python_callback_that_waits_is_suspected_because_it_may_return() -> None:
    verdict = verdicts(PYTHON)["producer-callback-deadlock"]
    assert (verdict.status, verdict.detail["cause"]) == ("suspected", "get-in-callback")
    (thread,) = only(PYTHON).threads
    assert ("app.on_delivery", "app.py:17 on_delivery") in thread.frames


def test_dumps_without_titles_are_separated_by_their_threads_in_order() -> None:
    text = DEADLOCKS["JDK 8 without title"]
    first, second = dumps_in(text + "\n" + text.replace("onCompletion", "other"))
    assert first.taken.isdisjoint(second.taken)
    assert methods(first)[5] == "shop.Retry.onCompletion" and methods(second)[5] == "shop.Retry.other"


def test_real_dumps_read_the_same_with_and_without_their_title() -> None:
    for file in sorted(RECORDINGS.glob("*-3.9/jstack-*.txt")):
        text = file.read_text(encoding="utf-8")
        if "Full thread dump" in text:
            untitled = text[text.index('\n"') + 1 :]
            above = text.count("\n") - untitled.count("\n")
            shown = [(t.name, t.state, t.frames, t.cpu_ms, t.line) for t in only(text).threads]
            assert shown == [(t.name, t.state, t.frames, t.cpu_ms, t.line + above) for t in only(untitled).threads]
            lines = text.split("\n")
            assert all(lines[line].startswith(f'"{name}" #') for name, *_, line in shown)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20 18:40:45 ERROR [main] shop.Order - failed\norg.apache.kafka.common.KafkaException: x\n" + java(),
        'Exception in thread "main" java.lang.IllegalStateException: x\n' + java(),
        "Caused by: java.lang.InterruptedException\n" + java(),
        "",
        '{"a": [1, 2',
        "#1 a list\n#2 of things\n",
        '"quoted" text\nat the door (open)\n',
        'a line\n"kafka-producer-network-thread | orders" #12 daemon prio=5 os_prio=0 cp',
    ],
)
def test_what_is_no_dump_is_none(text: str) -> None:
    assert dumps_in(text) == []


def test_in_a_log_frames_alone_are_no_dump() -> None:
    assert dumps_in(DEADLOCKS["frames"], alone=False) == []


def test_hostile_text_does_not_raise_and_costs_little() -> None:
    begin = time.process_time()
    for text in (
        '"' * 200_000,
        '"a" #' * 40_000,
        "at " * 100_000,
        '{"stackTrace":' * 5_000 + '"threadState"',
        '#1 "' * 50_000,
    ):
        dumps_in(text + "\ntid=0x prio= java.lang.Thread.State: X\n")
    assert time.process_time() - begin < 5


def test_ordinary_log_text_is_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_formats, "scan", None)
    text = "2026-11-20 18:40:45,123 INFO  [main] shop.Order - order 4711 of Mr. Smith is paid\n" * 1000
    assert dumps_in(text, alone=False) == []


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.7, 0.9])
def test_no_cut_makes_a_deadlock_healthy(cut: float) -> None:
    for text in DEADLOCKS.values():
        judged = verdicts(text[: int(len(text) * cut)])
        assert all(verdict.status != "ok" for verdict in judged.values())


def test_two_healthy_dumps_ten_seconds_apart_are_health_and_one_is_not() -> None:
    first, *_, last = sorted((RECORDINGS / "healthy-3.9").glob("jstack-*.txt"))
    texts = [file.read_text(encoding="utf-8") for file in (first, last)]
    assert {mode: verdict.status for mode, verdict in verdicts(*texts).items()} == {
        "producer-callback-deadlock": "ok",
        "send-blocked-on-metadata": "ok",
        "delivery-stalled": "unknown",
        "producer-not-closed": "unknown",
    }
    assert {verdict.status for verdict in verdicts(texts[0]).values()} == {"unknown"}


def test_a_fetcher_that_is_parked_beside_waiting_consumers_is_judged_without_a_known_client() -> None:
    files = sorted((RECORDINGS / "cross-topic-a").glob("jstack-during*.txt"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    assert verdicts(texts[1])["cross-topic-blocking"].status == "suspected"
    assert verdicts(*texts[1:3])["cross-topic-blocking"].status == "confirmed"
    for control in ("connector-per-topic-a", "idle-topics-a"):
        healthy = [f.read_text(encoding="utf-8") for f in sorted((RECORDINGS / control).glob("jstack-during*.txt"))]
        assert not any(verdict.unhealthy for verdict in verdicts(*healthy).values())


def test_callers_without_the_producers_own_thread_are_judged() -> None:
    text = (FOLDER / "jcmd-17.txt").read_text(encoding="utf-8")
    without = re.sub(r'"kafka-producer-network-thread.*?\n\n', "", text, flags=re.DOTALL)
    assert "network-thread" not in without
    judged = verdicts(without)
    assert judged["send-blocked-on-metadata"].status == "suspected"
    dead = judged["producer-callback-deadlock"]
    assert (dead.status, dead.detail) == ("suspected", {"cause": "io-thread-died"})
    part = verdicts(without[: without.index("JNI global")])
    assert part["producer-callback-deadlock"].reason == "no dump shows the producer's I/O thread"


def test_a_dump_without_kafka_judges_nothing() -> None:
    records = [Recorded("logs", "shop", "shop:1", "dump.txt", 0, (TITLE_7 + OTHER).encode())]
    assert exit_code(diagnose(records, load(None))) == 3


@pytest.mark.parametrize(
    "file", sorted(file for file in FOLDER.iterdir() if file.suffix != ".md"), ids=lambda f: f.name
)
def test_the_stream_skips_no_dump_of_a_real_process(file: Path) -> None:
    """Every dump contains a literal for which the stream searches, even if the dump is a string in JSON."""
    text = file.read_text("utf-8")
    for value in (text, json.dumps({"message": text})):
        assert any(literal in value for literal in literals(catalogue()))


@pytest.mark.parametrize("shape", [shape for shape in DEADLOCKS if shape not in ("frames", "frames without at")])
def test_the_stream_reads_a_dump_of_any_shape_as_one_record_whatever_ships_it(shape: str) -> None:
    text = DEADLOCKS[shape]
    if shape == "frames below their thread's name":
        text = OTHER + text
    shipped = json.dumps({"@timestamp": "2026-11-20T18:40:45.123Z", "message": text, "host": {"name": "web-1"}})
    for value in (text, shipped):
        record = RawRecord(value.encode(), Source("client-logs", 0, 7), TAKEN, None, {"service": b"shop"})
        assert any(literal in value for literal in literals(catalogue()))
        (line,) = decode_logs(record, Settings(), TAKEN).lines
        (dump,) = events_and_dumps(line, record.source, catalogue())[1]
        assert dump.source == record.source and dump.ts_ms // 1000 == TAKEN // 1000
        assert [frame for thread in dump.threads if thread.of_kafka for frame in thread.frames] == [
            method for method, _ in AWAIT
        ]


def test_relocated_packages_are_the_clients_own() -> None:
    text = DEADLOCKS["ThreadInfo"].replace("org.apache.kafka.", "com.example.shaded.org.apache.kafka.")
    assert text != DEADLOCKS["ThreadInfo"]
    (dump,), (original,) = dumps_in(text), dumps_in(DEADLOCKS["ThreadInfo"])
    assert [frame.method for frame in dump.threads[0].frames] == [frame.method for frame in original.threads[0].frames]


def test_a_line_that_holds_a_dump_is_a_line_all_the_same() -> None:
    text = (
        "2026-11-20 18:40:45,000 ERROR [watch] shop.Watch - [Producer clientId=p] Got error produce response with corr"
    )
    text += "elation id 7 on topic-partition orders-0, retrying (3 attempts left). Error: NOT_ENOUGH_REPLICAS\n"
    record = RawRecord((text + DEADLOCKS["ThreadInfo"]).encode(), Source("client-logs", 0, 7), TAKEN, b"a|b|", {})
    (line,) = decode_logs(record, Settings(), TAKEN).lines
    events, dumps = events_and_dumps(line, record.source, catalogue())
    assert [(event.signature, event.client_id, event.level) for event in events] == [("produce-refused", "p", "ERROR")]
    assert [thread.name for dump in dumps for thread in dump.threads] == [NAME]


J9_LOCKS = """\
1LKDEADLOCK    Deadlock detected !!!
NULL           ---------------------
NULL
2LKDEADLOCKTHR  Thread "kafka-producer-network-thread | orders" (0x00000000004D2600)
3LKDEADLOCKWTR    is waiting for:
4LKDEADLOCKMON      sys_mon_t:0x00007F1D0C0F8E58 infl_mon_t: 0x00007F1D0C0F8ED0:
4LKDEADLOCKOBJ      java/lang/Object@0x00000000E0037E80
3LKDEADLOCKOWN    which is owned by:
2LKDEADLOCKTHR  Thread "audit-writer" (0x00000000004D3900)
"""


def javacore_of_a_deadlock() -> str:
    head = "0SECTION       TITLE subcomponent dump routine\n1TIDATETIME    Date: 2026/11/20 at 21:04:00:123\n"
    thread = (
        '3XMTHREADINFO      "kafka-producer-network-thread | orders" J9VMThread:0x00000000004D2600, state:B, prio=5\n'
    )
    return f"{head}{J9_LOCKS}{thread}{j9()}NULL           END OF DUMP\n"


@pytest.mark.parametrize("shape", ["jstack-17", "jhsdb-17", "javacore"])
def test_the_deadlock_that_a_jvm_reports_is_read(shape: str) -> None:
    text = javacore_of_a_deadlock() if shape == "javacore" else (FOLDER / f"{shape}-deadlock.txt").read_text()
    (found,) = dumps_in(text)
    assert set(found.deadlocked) == {"kafka-producer-network-thread | orders", "audit-writer"}
    assert [thread.name for thread in found.threads].count("kafka-producer-network-thread | orders") == 1
    assert [len(one.deadlocked) for one in dumps_in(f"{text}\n{text}")] == [2, 2]


def test_a_deadlock_is_read_of_a_dump_that_comes_line_by_line() -> None:
    text = (FOLDER / "jstack-17-deadlock.txt").read_text()
    lines = [LogLine(ts_ms=1_795_208_640_000, message=line) for line in text.splitlines()]
    events = [
        event
        for number, line in enumerate(lines)
        for event in events_and_dumps(line, Source("client-logs", 0, number), catalogue())[0]
    ]
    assert all(any(literal in event.text for literal in literals(catalogue())) for event in events[-2:])
    (found,) = rejoin(events)
    assert set(found.deadlocked) == {"kafka-producer-network-thread | orders", "audit-writer"}
