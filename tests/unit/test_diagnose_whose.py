"""`diagnose` finds the process and the client to which attached evidence belongs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from clienthealth.diagnose.attachments.opening import own_processes
from clienthealth.diagnose.examine import examine
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.diagnose.report import report
from clienthealth.model.verdicts import Verdict
from clienthealth.settings import Settings
from tests.support.recorded import RECORDINGS

BLOCKED = "send-blocked-on-metadata"
BEGIN_MS = 1_795_168_800_000  # 2026-11-20 10:00:00 UTC
GAVE_UP = "org.apache.kafka.common.errors.TimeoutException: Topic ordres not present in metadata after 60000 ms.\n"


def line(second: int, thread: str, message: str) -> str:
    return f"2026-11-20 10:00:{second:02d},123 ERROR [{thread}] o.a.k.c.Any - {message}\n"


def verdicts(found: Diagnosis) -> dict[tuple[str, str], dict[str, Verdict]]:
    return {(c.service, c.client_id): {v.mode: v for v in verdicts} for c, verdicts in found.clients}


@pytest.mark.parametrize(("names", "status"), [(["p"], "confirmed"), (["p", "q"], "suspected")])
def test_a_log_is_of_the_process_that_the_metrics_beside_it_name(tmp_path: Path, names: list[str], status: str) -> None:
    place = {"service": "orders-api", "host": "web-7", "instance": "web-7:31337", "kind": "producer"}
    readings = [
        {
            "ts": BEGIN_MS + 10_000 * n,
            "client": {**place, "client_id": name},
            "metrics": {"buffer-total-bytes": 4e6, "buffer-available-bytes": 4e6, "record-error-total": float(n)},
        }
        for n in range(12)
        for name in names
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(reading) + "\n" for reading in readings))
    (tmp_path / "app.log").write_text("".join(line(n, "http-1", "send failed") + GAVE_UP for n in (40, 45, 50)))
    found = examine([tmp_path], Settings())
    assert {key: client_verdicts[BLOCKED].status for key, client_verdicts in verdicts(found).items()} == {
        ("orders-api", name): status for name in names
    }
    assert found.inputs[0].process == ("orders-api", "web-7")


def reading(second: int, client_id: str = "p") -> str:
    metrics = {"select-total": 100.0 * second, "record-send-total": 10.0 * second, "record-error-total": 0.0}
    metrics |= {"buffer-total-bytes": 4e6, "buffer-available-bytes": 4e6, "metadata-age": 1.0 + second % 30}
    grouped = {f"producer-metrics/{name}{{client-id={client_id}}}": value for name, value in metrics.items()}
    return json.dumps({"ts": BEGIN_MS + 1000 * second, "client_id": client_id, "metrics": grouped}) + "\n"


DUMP = """2026-11-20 10:00:{second:02d}
Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):

"kafka-producer-network-thread | p" #18 daemon prio=5 cpu=620.97ms elapsed=36.38s tid=0x01 nid=0x1418 waiting
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17/Native Method)
\tat java.util.concurrent.locks.LockSupport.park(LockSupport.java:211)
\tat orders.Ledger.await(Ledger.java:164)
\tat orders.Ledger.onCompletion(Ledger.java:108)
\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:253)

"""


@pytest.mark.parametrize(("seconds", "status"), [(31, "ok"), (45, "unknown")])
def test_metrics_that_end_before_the_log_show_no_health_at_the_end(tmp_path: Path, seconds: int, status: str) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(map(reading, range(31))))
    (tmp_path / "app.log").write_text("".join(line(at, "main", "order accepted") for at in range(seconds)))
    (of_client,) = verdicts(examine([tmp_path], Settings())).values()
    assert {mode: of_client[mode].status for mode in ("producer-callback-deadlock", BLOCKED, "delivery-stalled")} == {
        "producer-callback-deadlock": status, BLOCKED: status, "delivery-stalled": status,
    }  # fmt: skip


def test_metrics_end_in_order_if_the_client_was_closed(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(map(reading, range(31))))
    closed = line(31, "main", "[Producer clientId=p] Closing the Kafka producer with timeoutMillis = 9000 ms.")
    closed += line(31, "main", "App info kafka.producer for p unregistered")
    (tmp_path / "app.log").write_text(closed + line(50, "main", "order accepted"))
    (of_client,) = verdicts(examine([tmp_path], Settings())).values()
    assert of_client["producer-callback-deadlock"].status == "ok"


def test_a_log_with_a_host_belongs_to_the_metrics_and_dumps_beside_it_that_name_none(tmp_path: Path) -> None:
    shipped = [
        {"@timestamp": f"2026-11-20T10:00:{at:02d}.000Z", "message": "order accepted", "host": {"name": "app-1"}}
        for at in range(20)
    ]
    shipped += [{**shipped[0], "message": "[Producer clientId=p] Instantiated an idempotent producer."}]
    (tmp_path / "app.log").write_text("".join(json.dumps(one) + "\n" for one in shipped))
    (tmp_path / "metrics.jsonl").write_text("".join(map(reading, range(16))))
    for number, second in enumerate((20, 40), 1):
        (tmp_path / f"jstack-{number}.txt").write_text(DUMP.format(second=second))
    (of_client,) = verdicts(examine([tmp_path], Settings())).values()
    assert of_client["producer-callback-deadlock"].unhealthy
    assert len(of_client) == 4, "one client, judged once"


def test_java_exceptions_in_the_log_of_a_librdkafka_client_are_anothers(tmp_path: Path) -> None:
    statistics = [
        {"name": "p#producer-1", "client_id": "p", "type": "producer", "ts": 1e6 * at, "time": BEGIN_MS // 1000 + at,
         "msg_cnt": 0, "msg_size": 0, "msg_max": 100_000, "txmsgs": 10 * at, "replyq": 0, "brokers": {}, "topics": {}}
        for at in range(30)
    ]  # fmt: skip
    (tmp_path / "stats.jsonl").write_text("".join(json.dumps(one) + "\n" for one in statistics))
    quoted = "Expiring 12 record(s) for payments-0:120003 ms has passed since batch creation"
    (tmp_path / "app.log").write_text("".join(line(at, "main", f"alert firing: {quoted}") for at in range(2, 30, 3)))
    assert not any(v.unhealthy for of in verdicts(examine([tmp_path], Settings())).values() for v in of.values())


def test_an_exception_without_a_name_is_of_the_client_named_just_before(tmp_path: Path) -> None:
    text = line(1, "kafka-producer-network-thread | a", "[Producer clientId=a] Instantiated an idempotent producer.")
    text += (
        line(10, "x", "[Producer clientId=b] Bootstrap broker k:9092 (id: -1 rack: null) disconnected")
        + line(10, "http-1", "failed")
        + GAVE_UP
    )
    (tmp_path / "app.log").write_text(text)
    found = verdicts(examine([tmp_path], Settings()))
    assert found[tmp_path.name, "b"][BLOCKED].status == "confirmed"
    assert found[tmp_path.name, "a"][BLOCKED].status == "unknown"
    assert {client_id for _, client_id in found} == {"a", "b"}


def test_it_is_unattributed_if_the_client_is_of_another_kind_or_was_named_long_before(tmp_path: Path) -> None:
    names = line(1, "x", "[Producer clientId=a] Instantiated a transactional producer.")
    names += line(1, "x", "[Producer clientId=b] Instantiated a transactional producer.")
    other = (
        line(10, "x", "[Consumer clientId=c, groupId=g] (Re-)joining group") + line(10, "http-1", "failed") + GAVE_UP
    )
    later = (
        line(10, "x", "[Producer clientId=b] Bootstrap broker k:9092 (id: -1 rack: null) disconnected")
        + line(12, "http", "failed")
        + GAVE_UP
    )
    for number, text in enumerate((other, later)):
        folder = tmp_path / f"case{number}"
        folder.mkdir()
        (folder / "app.log").write_text(names + text)
        found = verdicts(examine([folder], Settings()))
        confirmed = [client_id for (_, client_id), of in found.items() if of.get(BLOCKED, Verdict("", "ok")).unhealthy]
        assert confirmed == [""], "of the process"


def test_workers_in_an_archive_are_each_a_process(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "workers.zip", "w") as archive:
        for n in (1, 2, 3):
            archive.writestr(f"worker-{n}.log", line(n, "http-1", "[Producer clientId=p] send failed") + GAVE_UP)
    found = examine([tmp_path / "workers.zip"], Settings())
    assert [(c.instance, c.client_id) for c, _ in found.clients] == [(f"workers/worker-{n}", "p") for n in (1, 2, 3)]
    assert [v.detail["failed_sends"] for _, of in found.clients for v in of if v.mode == BLOCKED] == [1, 1, 1]
    text = report(found)
    assert all(f"(workers/worker-{n}, producer" in text for n in (1, 2, 3)), "namesakes are distinguished"


@pytest.mark.parametrize(
    ("names", "own"),
    [
        ("a.log b.log", {"a.log": "a", "b.log": "b"}),
        ("worker-1.log worker-2.log.gz", {"worker-1.log": "worker-1", "worker-2.log.gz": "worker-2"}),
        (
            "orders-7c9d8-x2x9k.log orders-7c9d8-k8s2p.log jstack-orders-7c9d8-k8s2p.txt",
            {
                "orders-7c9d8-x2x9k.log": "orders-7c9d8-x2x9k",
                "orders-7c9d8-k8s2p.log": "orders-7c9d8-k8s2p",
                "jstack-orders-7c9d8-k8s2p.txt": "orders-7c9d8-k8s2p",
            },
        ),
        ("orders.log orders.log.1 orders.log.2.gz", {}),
        ("orders.1.log orders.log orders-2026-11-20.log", {}),
        ("app.log error.log gc.log", {}),
        ("app.log consumer.log", {}),
        ("worker-1.log worker-2.log metrics.jsonl", {}),
        ("worker-1.log worker-2.log jstack.txt", {}),
        ("jstack-1.txt jstack-2.txt", {}),
        ("app.log jstack-before-1.txt jstack-during-2.txt metrics.jsonl", {}),
    ],
)
def test_file_names_show_whether_files_are_of_one_process(names: str, own: dict[str, str]) -> None:
    assert own_processes(names.split()) == own


@pytest.mark.parametrize(
    ("recording", "hangs"),
    [
        ("connect-sink-hangs-3.7", "connector-consumer-erp-sink-0"),
        ("streams-hangs-3.8", "fraud-StreamThread-1-consumer"),
    ],
)
def test_a_framework_names_the_client_of_a_hanging_thread(recording: str, hangs: str) -> None:
    found = verdicts(examine(sorted((RECORDINGS / recording).glob("jstack-*.txt")), Settings()))
    stalled = {
        client: client_verdicts["consumer-stalled"]
        for (_, client), client_verdicts in found.items()
        if "consumer-stalled" in client_verdicts
    }
    assert len(stalled) > 1
    assert {client for client, verdict in stalled.items() if verdict.unhealthy} == {hangs}
    assert stalled[hangs].detail["cause"] == "handler-hangs"


OWN = (
    "12:00:00.000 [main] INFO  o.a.k.clients.producer.KafkaProducer - [Producer clientId=orders] "
    "Instantiated an idempotent producer."
)
QUOTES = (
    "incident 17: Uncaught exception in thread 'kafka-producer-network-thread | payments-out':",
    "%4|1790000000.123|TERMINATE|payments#producer-1| [thrd:app]: Producer terminating with 31 messages (2480 bytes) "
    "still in queue or transit: use flush() to wait for outstanding message delivery",
)


@pytest.mark.parametrize("quote", QUOTES)
@pytest.mark.parametrize("minute", ["00", "05"])
def test_a_client_that_only_others_lines_name_is_none_of_the_process(quote: str, minute: str, tmp_path: Path) -> None:
    quoting = f"12:{minute}:02.000 [log-forwarder] ERROR orders.watch.LogForwarder - {quote}"
    file = tmp_path / "app.log"
    file.write_text(f"{OWN}\n{quoting}\n")
    assert {client for _, client in verdicts(examine([file], Settings()))} == {"orders"}
    file.write_text(f"{quoting}\n")
    assert {client for _, client in verdicts(examine([file], Settings()))} - {"payments", "payments-out"} == set()


def test_lines_of_another_program_accuse_no_producer_of_a_process_that_consumes(tmp_path: Path) -> None:
    consumes = "12:00:00.000 [main] INFO  o.a.k.c.consumer.ConsumerConfig - ConsumerConfig values: \n\tclient.id = c"
    said = (
        "svc=payments msg=org.apache.kafka.common.errors.TimeoutException: Failed to allocate 16384 bytes within the "
        "configured max blocking time 60000 ms. Total memory: 33554432 bytes. Available memory: 0 bytes.",
        "alert firing for payments: Expiring 12 record(s) for payments-0:120003 ms has passed since batch creation",
    )
    quoting = [f"12:00:02.000 [log-forwarder] ERROR orders.watch.LogForwarder - {quote}" for quote in said]
    (tmp_path / "app.log").write_text("\n".join([consumes, *quoting, ""]))
    diagnosis = examine([tmp_path / "app.log"], Settings())
    assert not [v for _, of_client in diagnosis.clients for v in of_client if v.unhealthy]


COPIED = (
    "runbook says: [Producer clientId=payments-out] Proceeding to force close the producer since pending requests "
    "could not be completed within timeout 0 ms."
)
ACCUSING = "alert firing for payments: Expiring 12 record(s) for payments-0:120003 ms has passed since batch creation"


@pytest.mark.parametrize(
    "layout",
    [
        "12:00:{:02d}.000 [log-forwarder] ERROR orders.watch - {}",
        "2026-11-20 12:00:{:02d} ERROR {}",
        "20 nov. 2026 12:00:{:02d},000 ERROR [log-forwarder] orders.watch - {}",
        "Nov. 20, 2026 12:00:{:02d} PM orders.Watch tell\nSCHWERWIEGEND: {}",
        '{{"time":"2026-11-20T12:00:{:02d}Z","level":"error","message":"{}"}}',
        "shop-7d9f8b6c5-x2x7q shop ERROR:orders.watch:{1}",
    ],
)
def test_a_logger_that_copies_lines_of_clients_accuses_nobody(layout: str, tmp_path: Path) -> None:
    file = tmp_path / "app.log"

    def accused(*texts: str) -> list[Verdict]:
        file.write_text("".join(layout.format(second, text) + "\n" for second, text in enumerate(texts * 5)))
        return [v for _, of_client in examine([file], Settings()).clients for v in of_client if v.unhealthy]

    assert accused(ACCUSING), "an application may log such a line on its own producer"
    assert accused(ACCUSING, COPIED) == []


def test_what_librdkafka_hands_to_a_logger_is_of_the_program(tmp_path: Path) -> None:
    ended = "TERMINATE [p#producer-1] [thrd:app]: Producer terminating with 31 messages (2480 bytes) still in queue"
    file = tmp_path / "app.log"
    file.write_text(f"2026-11-20 12:00:00,000 WARNING [MainThread] shop.main - {ended} or transit\n")
    ((client, of_client),) = examine([file], Settings()).clients
    assert client.client_id == "p"
    assert {v.mode for v in of_client if v.unhealthy} == {"producer-not-closed"}


def test_a_date_before_the_hour_is_no_host_with_a_program(tmp_path: Path) -> None:
    texts = (f"2026-11-20 12:00:0{n},000 ERROR [main] shop.Main - send failed: {GAVE_UP}" for n in range(5))
    wrapped = ({"log": text, "stream": "stdout", "time": f"2026-11-20T12:00:0{n}Z"} for n, text in enumerate(texts))
    file = tmp_path / "app.log"
    file.write_text("".join(json.dumps(one) + "\n" for one in wrapped))
    assert "syslog" not in report(examine([file], Settings()))


def test_a_line_in_an_applications_words_counts_for_the_only_client_of_its_process(tmp_path: Path) -> None:
    own = line(2, "kafka-producer-network-thread | p", "[Producer clientId=p] Node -1 disconnected.")
    logged = "".join(f"2026-11-20 10:0{minute}:03,000 main ERROR cannot write: {GAVE_UP}" for minute in (1, 2, 3))
    (tmp_path / "app.log").write_text(own + logged)
    found = verdicts(examine([tmp_path], Settings()))
    assert [(name, of_client[BLOCKED].status) for (_, name), of_client in found.items()] == [("p", "suspected")]


TWO_PRODUCERS = """2026-11-20 10:00:{second:02d}
Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):

"http-1" #20 daemon prio=5 cpu=75.82ms elapsed=64.07s tid=0x03 nid=0xcf0 in Object.wait()
   java.lang.Thread.State: TIMED_WAITING (on object monitor)
\tat java.lang.Object.wait(java.base@17/Native Method)
\tat org.apache.kafka.clients.producer.internals.ProducerMetadata.awaitUpdate(ProducerMetadata.java:120)
\tat org.apache.kafka.clients.producer.KafkaProducer.waitOnMetadata(KafkaProducer.java:1149)

"kafka-producer-network-thread | p" #18 daemon prio=5 cpu=620.97ms elapsed=36.38s tid=0x01 nid=0x1418 runnable
   java.lang.Thread.State: RUNNABLE
\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:253)

"kafka-producer-network-thread | q" #19 daemon prio=5 cpu=620.97ms elapsed=36.38s tid=0x02 nid=0x1419 runnable
   java.lang.Thread.State: RUNNABLE
\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:253)

JNI global refs: 15, weak refs: 0
"""


@pytest.mark.parametrize(("sampled", "status"), [([30], "unknown"), (range(0, 60, 5), "ok")])
def test_a_waiting_caller_of_one_of_two_producers_rules_the_failure_out_for_none(
    tmp_path: Path, sampled: list[int], status: str
) -> None:
    """Only samples before and after a dump show that a producer sent records at the time of the dump."""
    samples = (reading(second, name) for second in sampled for name in "pq")
    (tmp_path / "metrics.jsonl").write_text("".join(samples))
    for number, second in enumerate((20, 40), 1):
        (tmp_path / f"jstack-{number}.txt").write_text(TWO_PRODUCERS.format(second=second))
    found = verdicts(examine([tmp_path], Settings()))
    assert {name: by_mode[BLOCKED].status for (_, name), by_mode in found.items()} == {"p": status, "q": status}


def test_expired_records_of_one_of_two_producers_belong_to_a_nameless_producer(tmp_path: Path) -> None:
    """The application logs the exceptions of its callbacks, so no line names a producer."""
    entry = "Nov. 29, 2026 4:{}:00 PM {}\nWARNING: {}\n"
    sender = "org.apache.kafka.clients.producer.internals.Sender completeBatch"
    refused = "[Producer clientId={}] Got error produce response with correlation id 93 on topic-partition orders-1"
    retried = "retrying (2147483646 attempts left). Error: NETWORK_EXCEPTION"
    expired = "Expiring 34 record(s) for orders-1:25000 ms has passed since batch creation"
    failed = f"order not delivered\norg.apache.kafka.common.errors.TimeoutException: {expired}\n"
    text = "".join(entry.format(26, sender, f"{refused.format(name)}, {retried}") for name in "pq")
    text += "".join(entry.format(minute, "orders.Trouble onCompletion", failed) for minute in (27, 28, 29))
    (tmp_path / "app.log").write_text(text)
    found = verdicts(examine([tmp_path], Settings()))
    assert {name: by_mode["delivery-stalled"].status for (_, name), by_mode in found.items()} == {
        "": "suspected", "p": "unknown", "q": "unknown",
    }  # fmt: skip
