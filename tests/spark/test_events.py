"""From log records to events: what is kept, whose it is, what it captured."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.decode import accepted, decode_logs
from clienthealth.logs.dumps import dump_lines, rejoin
from clienthealth.logs.events import log_events, worth_decoding
from clienthealth.logs.signatures import SIGNATURES, Signature
from clienthealth.settings import Settings
from tests.raw_records import ARRIVED, Raw, raw_records, sample
from tests.recording_loader import RECORDINGS
from tests.spark.test_dumps import EXPECTED, JVM_8, as_tuples


def events(spark: SparkSession, records: list[Raw], **options: Any) -> list[dict[str, Any]]:
    """All rows of the records, in their order; `of`: the record's topic."""
    raw = worth_decoding(raw_records(spark, records), **options)
    rows = log_events(accepted(decode_logs(raw, Settings(), F.lit(ARRIVED))), **options).collect()
    found = [row.asDict(recursive=True) for row in rows]
    for row in found:
        row["of"] = (row["event"] or row["dump"])["source"]["topic"]
    return found


def line(text: str, topic: str = "x", offset: int = 0) -> Raw:
    return Raw(topic, text.encode(), offset, headers={"service": "s", "host": "h"})


LOG = "2026-11-20 20:00:00,000 {} [{}] {} - {}"


def test_a_line_becomes_an_event_with_its_client_and_captures(spark: SparkSession) -> None:
    text = "[Producer clientId=p] Bootstrap broker 10.0.0.1:9092 (id: -1 rack: null) disconnected"
    logged = LOG.format("WARN", "kafka-producer-network-thread | p", "org.apache.kafka.clients.NetworkClient", text)
    [row] = events(spark, [line(logged)])
    assert row["event"] == {
        "ts_ms": 1795204800000,
        "signature": "bootstrap-disconnected",
        "text": text,
        "client_id": "p",
        "logger": "org.apache.kafka.clients.NetworkClient",
        "level": "WARN",
        "thread": "kafka-producer-network-thread | p",
        "captures": {"address": "10.0.0.1:9092"},
        "source": {"topic": "x", "partition": 0, "offset": 0},
    }
    assert row["client"]["service"] == "s" and row["client"]["host"] == "h"
    assert row["dump"] is None


def test_the_line_of_the_exception_is_the_evidence(spark: SparkSession) -> None:
    found = events(spark, sample("filebeat_plain_multiline.json") + sample("filebeat_plain_split_lines.ndjson"))
    of_signature = [r["event"] for r in found if r["event"]["signature"] == "buffer-exhausted"]
    assert [e["text"][:79] for e in of_signature] == [
        "org.apache.kafka.clients.producer.BufferExhaustedException: Failed to allocate "
    ] * 2
    assert [e["captures"] for e in of_signature] == [{"bytes": "16384", "waitMs": "60000"}] * 2


def test_long_evidence_is_cut(spark: SparkSession) -> None:
    [row] = events(spark, [line("Cluster ID: " + "x" * 3_000)])
    assert len(row["event"]["text"]) == 500


def test_lines_without_a_signature_leave_nothing(spark: SparkSession) -> None:
    ordinary = [line(LOG.format("INFO", "main", "a.B", f"order {n} sent")) for n in range(20)]
    assert events(spark, ordinary) == []


def test_a_line_with_two_signatures_is_two_events(spark: SparkSession) -> None:
    found = events(spark, [line("Cluster ID: abc and Local: Queue full")])
    assert sorted(r["event"]["signature"] for r in found) == ["cluster-known", "queue-full"]


FAKES = (
    Signature("of-package", "boom", "boom (?<what>[a-z]{1,9})", logger="org.apache.kafka"),
    Signature("of-class", "boom", "boom", logger="kafka.client.ClientUtils"),
    Signature("optional", "boom", "boom(?: by (?<client>[a-z]{1,9}))?"),
)


def test_a_logger_may_be_shortened_but_not_another(spark: SparkSession) -> None:
    loggers = {
        "org.apache.kafka.clients.NetworkClient": {"of-package", "optional"},
        "o.a.k.clients.NetworkClient": {"of-package", "optional"},
        "o.a.kafkaesque.Client": {"optional"},
        "kafka.client.ClientUtils$": {"of-class", "optional"},
        "k.c.ClientUtils$": {"of-class", "optional"},
        "NetworkClient": {"of-package", "of-class", "optional"},
        "com.example.App": {"optional"},
    }
    found = events(
        spark, [line(LOG.format("INFO", "main", logger, "boom all"), logger) for logger in loggers], signatures=FAKES
    )
    by_logger: dict[str, set[str]] = {}
    for row in found:
        by_logger.setdefault(row["of"], set()).add(row["event"]["signature"])
    assert by_logger == loggers
    assert {r["event"]["captures"].get("what") for r in found if r["event"]["signature"] == "of-package"} == {"all"}


def test_who_is_spoken_of(spark: SparkSession) -> None:
    network = "kafka-producer-network-thread | net"
    records = [
        line(LOG.format("INFO", "main", "a.B", "boom"), "nobody"),
        line(LOG.format("INFO", network, "a.B", "boom"), "thread"),
        line(LOG.format("INFO", network, "a.B", "[Consumer clientId=c, groupId=g] boom"), "prefix"),
        line(LOG.format("INFO", "main", "a.B", "boom by captured"), "capture"),
        line("%3|1795204800.000|FAIL|etl#producer-1| [thrd:main]: boom", "librdkafka"),
        Raw(
            "own field",
            b'{"@timestamp": "2026-11-20T20:00:00Z", "message": "[Producer clientId=p] boom", '
            b'"host": {"name": "h"}, "labels": {"client_id": "own"}}',
        ),
    ]
    found = events(spark, records, signatures=FAKES[2:])
    assert {r["of"]: r["event"]["client_id"] for r in found} == {
        "nobody": None,
        "thread": "net",
        "prefix": "c",
        "capture": "captured",
        "librdkafka": "etl",
        "own field": "own",
    }


def test_a_configuration_below_its_line_is_captured(spark: SparkSession) -> None:
    text = LOG.format("INFO", "main", "org.apache.kafka.clients.producer.ProducerConfig", "ProducerConfig values: ")
    below = (
        "\n\tacks = -1\n\tbootstrap.servers = [h:9092]\n\tbuffer.memory = 4194304\n\tclient.id = p\n\tlinger.ms = 5\n"
    )
    [row] = events(spark, [line(text + below)])
    assert row["event"]["signature"] == "producer-config"
    assert row["event"]["client_id"] == "p"
    assert row["event"]["captures"]["bufferMemory"] == "4194304"


def test_a_whole_dump_is_one_row(spark: SparkSession) -> None:
    shipped = {
        "@timestamp": "2026-11-20T18:40:46.100Z",
        "event.dataset": "kafka.thread-dump",
        "message": JVM_8,
        "service.name": "s",
        "host.name": "h",
        "service.node.name": "h:1",
    }
    found = events(spark, [Raw("ecs", json.dumps(shipped).encode()), line(JVM_8, "text")])
    dumps = {r["of"]: r["dump"] for r in found}
    assert all(r["event"] is None for r in found)
    assert [dumps["ecs"]["ts_ms"], dumps["text"]["ts_ms"]] == [1795200046100, 1795200045000]
    assert as_tuples(dumps["ecs"]["threads"]) == as_tuples(dumps["text"]["threads"]) == EXPECTED[JVM_8]


def test_a_dump_sent_line_by_line_is_one_dump_again(spark: SparkSession) -> None:
    records, at = [], 1_000
    for number, text in enumerate(JVM_8.split("\n")):
        envelope = {
            "@timestamp": "2026-11-20T18:40:46.100Z",
            "host": {"name": "h"},
            "message": text,
            "log": {"offset": at, "file": {"path": "/var/log/app.log"}},
        }
        records.append(Raw("filebeat", json.dumps(envelope).encode(), number))
        records.append(line(text, "lines", number))
        at += len(text) + 1
    raw = raw_records(spark, records)
    rows = log_events(accepted(decode_logs(worth_decoding(raw), Settings(), F.lit(ARRIVED))))
    joined = rows.groupBy("event.source.topic").agg(F.collect_list("event").alias("events"))
    found = {
        r["topic"]: r["d"] for r in joined.select("topic", rejoin(dump_lines(F.col("events"))).alias("d")).collect()
    }
    assert [as_tuples(d["threads"]) for d in found["filebeat"]] == [EXPECTED[JVM_8]]
    assert [as_tuples(d["threads"]) for d in found["lines"]] == [EXPECTED[JVM_8]]


def test_recorded_logs_give_the_events_that_plain_python_finds(spark: SparkSession) -> None:
    from pathlib import Path

    from clienthealth.sources.recordings import read
    from tests.recording_loader import processes

    folder = RECORDINGS / "evidence"
    names = ["2_deadlock_client39", "3_topic_missing", "5_ctl_close", "c2_outage31"]
    records = [
        Raw(f"{Path(r.instance).name}/{r.file}", r.value, r.offset, headers={"service": r.service, "host": r.instance})
        for name in names
        for r in read([folder / name])
        if r.file.endswith(".log.gz")
    ]
    native = sorted(
        (r["event"]["signature"], r["event"]["ts_ms"], r["event"]["captures"].get("waitMs"))
        for r in events(spark, records)
        if r["event"]["signature"] == "buffer-exhausted"
    )
    python = sorted(
        (e.signature, e.ts_ms, e.captures.get("waitMs"))
        for name in names
        for p in processes(folder / name)
        for e in p.events
        if e.signature == "buffer-exhausted"
    )
    assert set(python) <= set(native)
    assert native


def test_the_literals_survive_every_json_encoder() -> None:
    """`worth_decoding` looks for them in raw JSON: none may hold what an encoder escapes."""
    assert not [s.id for s in SIGNATURES if set(s.literal) & set("\"\\<>&'=/+") or not s.literal.isascii()]
