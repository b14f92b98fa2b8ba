"""The code in the runbooks compiles."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from clienthealth.platform.jars import java
from deploy.demo import jars
from tests.laws.pages import pages

RUNBOOKS = {Path(path).stem: text for path, text in pages().items() if path.startswith("alerts/runbooks/")}
IMPORTS = """
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.ThreadPoolExecutor.AbortPolicy;
import java.util.concurrent.atomic.LongAdder;
import static java.util.concurrent.TimeUnit.SECONDS;
"""
CLIENTS = """
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
"""
SCALA = "import kafka.consumer.*;\nimport kafka.javaapi.consumer.ConsumerConnector;\n"
PRODUCING = """
KafkaProducer<String, String> producer; ProducerRecord<String, String> record; Properties properties;
void delivered(RecordMetadata metadata, Exception error) {}
interface Log { void warn(String text, Exception error); void error(String text, Exception error); } Log log;
"""
CONSUMING = """
KafkaConsumer<String, String> consumer; ConsumerRecord<String, String> record; Thread poller; ExecutorService pool;
ConsumerRecords<String, String> records;
void handle(Object work) {} void join(Thread thread, long most) {} void book(Object work, Duration most) {}
interface Log { void warn(String text, Exception error); } Log log;
"""
OWN: Mapping[str, str] = {
    "buffer-exhaustion": "Semaphore permits;",
    "callback-latency": """interface Audit { void insert(ProducerRecord<?, ?> record, RecordMetadata metadata); }
Audit audit; record Result(String key, RecordMetadata metadata, Exception error) {}
Queue<Result> results; LongAdder dropped;""",
    "consumer-lag": "interface Letters { void send(Object record, Exception error); } Letters deadLetters;",
    "consumer-shutdown-loop": "ExecutorService executor;",
    "consumer-stalled": """interface Ledger { void book(String value); } Ledger ledger; Set<TopicPartition> finished;
Set<TopicPartition> drained(Set<TopicPartition> some) { return some; }""",
    "cross-topic-blocking": """interface Handler { void handle(Object record); } Map<String, Handler> handlers;
Map<String, Queue<ConsumerRecord<String, String>>> pools; Set<TopicPartition> partitionsOfPoolsWithRoom()
{ return null; }""",
    "delivery-stalled": "String order; interface Outbox { void keep(String order); } Outbox outbox;",
    "producer-callback-deadlock": "void resend(Object record) {} Queue<Object> deadLetters;",
    "producer-not-closed": "interface Row { String key(); String json(); } List<Row> rows;",
    "send-blocked-on-metadata": """String topic, key; byte[] value;
interface Fallback { void store(String key, byte[] value); } Fallback fallback;""",
    "topic-queue-saturation": """interface Database { void insert(Object record); void insertAll(Object records); }
Database database;""",
}
OF_SCALA = """ConsumerConnector connector; ConsumerConfig config; List<String> topics; ExecutorService executor;"""


def blocks(language: str) -> dict[str, str]:
    return {
        f"{name}-{place}": code
        for name, text in RUNBOOKS.items()
        for place, code in enumerate(re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    }


def test_the_runbooks_have_code() -> None:
    """A block of code must state its language, Java or Python."""
    assert len(blocks("java")) >= 20 and len(blocks("python")) >= 10
    for name, text in RUNBOOKS.items():
        blocks_of = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        plain = [code for language, code in blocks_of if not language]
        assert not [code for code in plain if re.search(r";\s*(//.*)?$|^def |\bimport\b", code, re.MULTILINE)], name


@pytest.mark.parametrize("name", blocks("python"))
def test_python_compiles(name: str) -> None:
    compile(blocks("python")[name], name, "exec")


@pytest.mark.long
def test_java_compiles(tmp_path: Path) -> None:
    files = []
    for name, code in blocks("java").items():
        runbook = name.rpartition("-")[0]
        scala = "connector" in code
        around = OF_SCALA if scala else (PRODUCING if "producer" in code else CONSUMING) + OWN.get(runbook, "")
        kind = re.sub(r"\W", "_", name)
        method = f"void run() throws Exception {{\n{code}\n}}"
        text = f"{IMPORTS}{SCALA if scala else CLIENTS}class {kind} {{\n{around}\n{method}\n}}\n"
        files.append(tmp_path / f"{kind}.java")
        files[-1].write_text(text, "utf-8")
    for clients, scala in (("clients-4.1", False), ("legacy", True)):
        chosen = [str(file) for file in files if ("import kafka.consumer" in file.read_text("utf-8")) == scala]
        path = os.pathsep.join(map(str, jars.classpath(clients)))
        command = [str(Path(java()).with_name("javac")), "-proc:none", "-d", str(tmp_path), "-cp", path, *chosen]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", RUNBOOKS)
def test_the_runbook_shows_when_and_whom_to_call(name: str) -> None:
    do_now, _, _ = RUNBOOKS[name].partition("## Meaning")
    _, _, table = do_now.partition("\n### When to call whom\n\n| when | to whom | with what |\n|---|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert rows
    assert all(len([cell for cell in row.split("|") if cell.strip()]) == 3 for row in rows)
