"""The parser reads thread dumps made by hand and by real JVMs."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from clienthealth.model.readings import LogEvent, Source, Thread
from clienthealth.model.telemetry import LogLine
from clienthealth.read.logs.bursts import sample_key
from clienthealth.read.logs.dump_formats import dumps_in
from clienthealth.read.logs.dumps import DUMP_LINE, dumps_of, rejoin
from tests.support.recorded import RECORDINGS

JVM_8 = (
    """\
2026-11-20 18:40:45
Full thread dump OpenJDK 64-Bit Server VM (25.402-b06 mixed mode):

"Attach Listener" #21 daemon prio=9 os_prio=0 tid=0x00007f2a54001000 nid=0x6b waiting on condition [0x0000000000000000]
   java.lang.Thread.State: RUNNABLE

   Locked ownable synchronizers:
\t- None

"kafka-producer-network-thread | orders \\"eu\\"" #12 daemon prio=5 os_prio=0 tid=0x00007f2a ni"""
    + """d=0x4d03 waiting [0x1]
   java.lang.Thread.State: WAITING (parking)
\tat sun.misc.Unsafe.park(Native Method)
\t- parking to wait for  <0x00000000c0a8f2b0> (a java.util.concurrent.CountDownLatch$Sync)
\tat java.util.concurrent.locks.LockSupport.park(LockSupport.java:175)
\tat java.util.concurrent.CountDownLatch.await(CountDownLatch.java:231)
\tat org.apache.kafka.clients.producer.internals.ProduceRequestResult.await(ProduceRequestResult.java:76)
\tat com.example.App$1.onCompletion(App.java:39)
\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:162)
\tat java.lang.Thread.run(Thread.java:750)

   Locked ownable synchronizers:
\t- <0x00000000c0a8f2b1> (a java.util.concurrent.ThreadPoolExecutor$Worker)

"DestroyJavaVM" #22 prio=5 os_prio=0 tid=0x00007f2a9800a000 nid=0x5c waiting on condition [0x0000000000000000]
   java.lang.Thread.State: RUNNABLE

"pool-1-thread-1" #13 prio=5 os_prio=0 tid=0x00007f2a98 nid=0x4d04 runnable [0x2]
   java.lang.Thread.State: RUNNABLE
\tat kafka.client.ClientUtils$.channelToOffsetManager(ClientUtils.scala:143)
\t- locked <0x1> (a java.lang.Object)

"idle" #14 prio=5 os_prio=0 tid=0x00007f2a99 nid=0x4d05 waiting on condition [0x3]
   java.lang.Thread.State: WAITING (on object monitor)
\tat java.lang.Object.wait(Native Method)
\t- waiting on <0x2> (a org.apache.kafka.clients.Metadata)

"VM Thread" os_prio=0 tid=0x00007f2a98060000 nid=0x4cfb runnable

JNI global references: 201

Found one Java-level deadlock:
=============================
"a kafka thread":
  waiting to lock monitor 0x1 (object 0x2, a org.apache.kafka.clients.Metadata),
  which is held by "b kafka thread"

Java stack information for the threads listed above:
===================================================
"a kafka thread":
\tat org.apache.kafka.clients.Metadata.update(Metadata.java:1)

Found 1 deadlock.
"""
)

JVM_11 = """\
31337:
2026-11-20 18:40:45
Full thread dump OpenJDK 64-Bit Server VM (11.0.24+8 mixed mode, sharing):

"http-1" #58 daemon prio=5 os_prio=0 cpu=8123.11ms elapsed=1811.02s tid=0x00007f1c nid=0x5e waiting on condition  [0x1]
   java.lang.Thread.State: TIMED_WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@11.0.24/Native Method)
\tat app//org.apache.kafka.clients.producer.KafkaProducer.doSend(KafkaProducer.java:1029)
\tat deployment.shop.war/shop@1.2/org.apache.kafka.clients.producer.KafkaProducer.send(KafkaProducer.java:9)
\tat com.example.Shop$$Lambda$131/0x00007f73dc098a20.run(Unknown Source)
"""

JVM_21 = """\
2026-11-20 18:40:45
Full thread dump OpenJDK 64-Bit Server VM (21.0.6+7-LTS mixed mode, sharing):

"ForkJoinPool-1-worker-1" #23 [28380] daemon prio=5 os_prio=0 cpu=3210.26ms elapsed=6.21s tid=0x00007f777c  [0x00007f]
   Carrying virtual thread #22
\tat jdk.internal.vm.Continuation.run(java.base@21.0.6/Continuation.java:251)
\tat java.lang.VirtualThread$$Lambda/0x0000000013003258.run(java.base@21.0.6/Unknown Source)
   Mounted virtual thread #22
\tat java.lang.Object.wait0(java.base@21.0.6/Native Method)
\tat org.apache.kafka.clients.producer.internals.ProducerMetadata.awaitUpdate(ProducerMetadata.java:120)
\tat java.lang.VirtualThread.run(java.base@21.0.6/VirtualThread.java:309)

"kafka-coordinator-heartbeat-thread | billing" #41 [77] daemon prio=5 os_prio=0 cpu=12.00ms tid=0x1 nid=77 waiting [0x2]
   java.lang.Thread.State: TIMED_WAITING (on object monitor)
\tat java.lang.Object.wait0(java.base@21.0.6/Native Method)

"VM Thread" os_prio=0 cpu=0.76ms elapsed=6.28s tid=0x00007f777c08a580 nid=28369 runnable

JNI global refs: 4, weak refs: 0
"""

EXPECTED: dict[str, list[tuple[str, str, list[str], float | None]]] = {
    JVM_8: [
        (
            'kafka-producer-network-thread | orders \\"eu\\"',
            "WAITING",
            [
                "sun.misc.Unsafe.park",
                "java.util.concurrent.locks.LockSupport.park",
                "java.util.concurrent.CountDownLatch.await",
                "org.apache.kafka.clients.producer.internals.ProduceRequestResult.await",
                "com.example.App$1.onCompletion",
                "org.apache.kafka.clients.producer.internals.Sender.run",
                "java.lang.Thread.run",
            ],
            None,
        ),
        ("DestroyJavaVM", "RUNNABLE", [], None),
        ("pool-1-thread-1", "RUNNABLE", ["kafka.client.ClientUtils$.channelToOffsetManager"], None),
    ],
    JVM_11: [
        (
            "http-1",
            "TIMED_WAITING",
            [
                "jdk.internal.misc.Unsafe.park",
                "org.apache.kafka.clients.producer.KafkaProducer.doSend",
                "org.apache.kafka.clients.producer.KafkaProducer.send",
                "com.example.Shop$$Lambda$131/0x00007f73dc098a20.run",
            ],
            8123.11,
        )
    ],
    JVM_21: [
        (
            "virtual thread #22",
            "",
            [
                "java.lang.Object.wait0",
                "org.apache.kafka.clients.producer.internals.ProducerMetadata.awaitUpdate",
                "java.lang.VirtualThread.run",
            ],
            None,
        ),
        ("kafka-coordinator-heartbeat-thread | billing", "TIMED_WAITING", ["java.lang.Object.wait0"], 12.0),
    ],
}
EXPECTED[JVM_8.replace("\n", "\r\n")] = EXPECTED[JVM_8]
TAKEN = 1795200045000  # 2026-11-20 18:40:45


def as_tuples(threads_of_dump: Iterable[Thread]) -> list[tuple[str, str, list[str], float | None]]:
    return [(t.name, t.state, list(t.frames), t.cpu_ms) for t in threads_of_dump]


def test_dumps_of_all_jvms_by_hand() -> None:
    for text, expected in EXPECTED.items():
        assert as_tuples(threads(text)) == expected
        assert dumps_in(text)[0].ts_ms == TAKEN


def threads(text: str) -> tuple[Thread, ...]:
    (dump,) = dumps_of(LogLine(ts_ms=TAKEN, dumps=dumps_in(text)), None)
    return dump.threads


HEADER = re.compile(r'^"(?P<name>.*?)"(?P<rest>.*)$')


def read_by_blocks(text: str) -> tuple[int, tuple[Thread, ...]]:
    blocks = []
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        header = HEADER.match(lines[0])
        if not header:
            continue
        state = next((line.split("State:")[1].split()[0] for line in lines[1:2] if "State:" in line), "")
        frames = tuple(line.strip()[3:].split("(")[0] for line in lines if line.strip().startswith("at "))
        cpu = re.search(r"cpu=([\d.]+)ms", header["rest"])
        thread = Thread(header["name"], state, frames, float(cpu.group(1)) if cpu else None)
        if thread.name == "DestroyJavaVM" or any("kafka" in part.lower() for part in (thread.name, *frames)):
            blocks.append(thread)
    taken = datetime.strptime(text.split("\n", 1)[0], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return round(1000 * taken.timestamp()), tuple(blocks)


def test_real_dumps_are_read_as_one_reads_them_by_blocks() -> None:
    files = sorted(RECORDINGS.rglob("jstack-*.txt"))
    texts = {str(f): f.read_text(encoding="utf-8") for f in files}
    texts = {name: text for name, text in texts.items() if "Full thread dump" in text}
    assert len(texts) > 50
    for name, text in texts.items():
        read = tuple(thread for thread in threads(text) if thread.of_kafka)
        assert (dumps_in(text)[0].ts_ms, read) == read_by_blocks(text), name


def test_several_dumps_in_one_text_keep_their_distance() -> None:
    text = "started\n" + JVM_21 + "other\n" + JVM_8.replace("18:40:45", "18:40:55")
    parsed = dumps_of(LogLine(ts_ms=5_000, dumps=dumps_in(text)), None)
    assert [d.ts_ms for d in parsed] == [5_000, 15_000]
    assert [len(d.threads) for d in parsed] == [2, 3]


def event(text: str, file: str, offset: int, ts_ms: int = TAKEN) -> LogEvent:
    position = {"file": file, "offset": str(offset)}
    return LogEvent(ts_ms, DUMP_LINE, text, captures=position, source=Source("client-logs", 0, offset))


def lines_of(text: str, file: str, base: int = 0) -> list[LogEvent]:
    events, at = [], base
    for line in text.split("\n"):
        events.append(event(line, file, at, TAKEN + 1_000))
        at += len(line) + 1
    return events


@pytest.mark.parametrize("text", [JVM_8, JVM_11, JVM_21])
def test_lines_of_a_dump_are_put_together_again(text: str) -> None:
    other = lines_of(JVM_11.replace("http-1", "http-2"), "/other")
    lines = [line for line in lines_of(text, "/dump", 100) if line.text.strip()] + other
    twice = [*lines, *lines[:5]]
    random.Random(1).shuffle(twice)
    rejoined = {d.threads[0].name: d for d in rejoin(twice)}
    expected = EXPECTED[text]
    assert set(rejoined) == {expected[0][0], "http-2"}
    joined = rejoined[expected[0][0]]
    assert as_tuples(joined.threads) == expected
    assert joined.ts_ms == TAKEN + 1_000
    assert joined.source is not None and joined.source.topic == "client-logs"


def test_frames_far_from_a_thread_are_not_its_own() -> None:
    dump = lines_of(JVM_21.split("JNI")[0], "/log")
    frame = "\tat org.apache.kafka.clients.NetworkClient.poll(N.java:1)"
    rejoined = rejoin([*dump, event(frame, "/log", 90_000), event(frame, "/another", 90_000)])
    assert [as_tuples(d.threads) for d in rejoined] == [EXPECTED[JVM_21]]


def test_a_storm_of_stack_traces_is_bounded_and_a_dump_is_not_thinned() -> None:
    frames = [f"\tat org.apache.kafka.X.m{n}(X.java:{n})" for n in range(20)]
    storm = [event(frames[n % 20], "/f", n * 100) for n in range(60_000)]
    dump = [event("\tat org.apache.kafka.X.y(X.java:1)", "/f", n * 1_300) for n in range(150)]
    samples = [len(set(map(sample_key, events))) for events in (storm, dump)]
    assert samples[0] <= 20 * 512
    assert samples[1] == 150
