"""Each example file of a log format is decoded to the expected lines and errors."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord
from clienthealth.modes import catalogue
from clienthealth.read.decode import Decoded, decode_logs
from clienthealth.read.formats import formats
from clienthealth.read.formats._json_layouts import Layout, line_of
from clienthealth.read.logs.events import events_and_dumps
from clienthealth.read.logs.fields import named_client
from clienthealth.settings import Settings
from tests.support.golden_logs import GOLDEN, SAMPLES
from tests.support.golden_metrics import GOLDEN as METRICS

SETTINGS = Settings()
ARRIVED_MS = 1795212000000  # 2026-11-20 22:00 UTC


def raw(
    topic: str, value: bytes | None, offset: int = 0, key: bytes | None = None, headers: Mapping[str, str] | None = None
) -> RawRecord:
    encoded = {name: text.encode() for name, text in (headers or {}).items()}
    return RawRecord(value, Source(topic, 0, offset), ARRIVED_MS, key, encoded)


def sample(name: str) -> list[RawRecord]:
    data = (SAMPLES / name).read_bytes()
    values = data.splitlines() if name.endswith(".ndjson") else [data]
    return [raw(name, value, offset) for offset, value in enumerate(values)]


def decode(record: RawRecord) -> Decoded:
    return decode_logs(record, SETTINGS, ARRIVED_MS)


def as_row(event: Any) -> dict[str, Any]:
    values = {name: getattr(event, name) for name in event.__struct_fields__}
    row = {name: value for name, value in values.items() if value is not False and value not in (None, [], ())}
    if "dumps" in row:
        row["dumps"] = [(dump.what, [as_row(thread) for thread in dump.threads]) for dump in row["dumps"]]
    client = as_row(row.pop("client")) if "client" in row else {}
    return {**row, **({"client": client} if client else {})}


def rows(record: RawRecord) -> list[dict[str, Any]]:
    decoded = decode(record)
    named = {"format": decoded.format} if decoded.format else {}
    if decoded.errors == ["missing-identity"]:
        identified = msgspec.structs.replace(record, headers={"service": b"any-service"})
        [content] = rows(identified)
        return [{**{k: v for k, v in content.items() if k != "client"}, "error": "missing-identity"}]
    return [
        *({**named, **as_row(line)} for line in decoded.lines),
        *({**named, "error": error} for error in decoded.errors),
    ]


@pytest.mark.parametrize("name", GOLDEN)
def test_each_sample_gives_the_expected_result(name: str) -> None:
    assert [row for record in sample(name) for row in rows(record)] == GOLDEN[name]


WITHOUT_SAMPLE = {"canonical", "json_log", "librdkafka_log", "plain_text", "thread_dump"}


def test_each_format_has_a_sample_and_each_sample_its_expectation() -> None:
    expected = {**METRICS, **GOLDEN}
    assert {path.name for path in SAMPLES.iterdir()} == expected.keys(), (
        "write what each sample must become into GOLDEN of tests/support/golden_logs.py or golden_metrics.py"
    )
    shown = {row.get("format") for rows in expected.values() for row in rows}
    lacking = {fmt.name for stream in ("metrics", "logs") for fmt in formats(stream)} - shown
    assert lacking == WITHOUT_SAMPLE, "add a sample of each format to tests/formats"


LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "log4j": (
        "2026-11-20 21:27:46,643 INFO  [main] org.apache.kafka.common.utils.AppInfoParser - Kafka version: 4.1.1",
        {
            "ts_ms": 1795210066643,
            "level": "INFO",
            "thread": "main",
            "logger": "org.apache.kafka.common.utils.AppInfoParser",
            "message": "Kafka version: 4.1.1",
        },
    ),
    "stack below": (
        "2026-11-20 20:00:00,001 WARN  [w - 1] app.X - sent a-b - c: d\r\njava.lang.X: y\r\n\tat a.B.c(B.java:1)\r\n",
        {
            "ts_ms": 1795204800001,
            "level": "WARN",
            "thread": "w - 1",
            "logger": "app.X",
            "message": "sent a-b - c: d",
            "stack": "java.lang.X: y\n\tat a.B.c(B.java:1)",
        },
    ),
    "logback": (
        "2026-11-20T20:00:00.5Z [kafka-producer-network-thread | p] ERROR o.a.k.c.p.KafkaProducer - boom",
        {
            "ts_ms": 1795204800500,
            "level": "ERROR",
            "thread": "kafka-producer-network-thread | p",
            "logger": "o.a.k.c.p.KafkaProducer",
            "message": "boom",
            "client": {"service": "s", "client_id": "p"},
        },
    ),
    "logback without a day": (
        "20:00:00.500 [main] ERROR a.B - boom",
        {"ts_ms": 1795212000000, "level": "ERROR", "thread": "main", "logger": "a.B", "message": "boom"},
    ),
    "Spring Boot 2": (
        "2026-11-20 20:00:00.500  INFO 31337 --- [           main] c.e.App                  : Started App",
        {"ts_ms": 1795204800500, "level": "INFO", "thread": "main", "logger": "c.e.App", "message": "Started App"},
    ),
    "Spring Boot 3 in colour": (
        "\x1b[2m2026-11-20T20:00:00.500+01:00\x1b[0;39m \x1b[32m INFO\x1b[0;39m \x1b[35m1\x1b[0;39m "
        "\x1b[2m---\x1b[0;39m \x1b[2m[orders] [nio-8080-exec-1]\x1b[0;39m \x1b[36mc.e.App\x1b[0;39m "
        "\x1b[2m:\x1b[0;39m up",
        {"ts_ms": 1795201200500, "level": "INFO", "thread": "nio-8080-exec-1", "logger": "c.e.App", "message": "up"},
    ),
    "Kafka's tools": (
        "[2026-11-20 20:00:00,500] WARN Bootstrap broker h:1 (id: -1 rack: null) disconnected "
        "(org.apache.kafka.clients.NetworkClient)",
        {
            "ts_ms": 1795204800500,
            "level": "WARN",
            "logger": "org.apache.kafka.clients.NetworkClient",
            "message": "Bootstrap broker h:1 (id: -1 rack: null) disconnected",
        },
    ),
    "Storm": (
        "2026-11-20 20:00:00.500 k.c.ClientUtils$ Thread-12-spout [INFO] Failed to fetch consumer metadata from h:1.",
        {
            "ts_ms": 1795204800500,
            "level": "INFO",
            "thread": "Thread-12-spout",
            "logger": "k.c.ClientUtils$",
            "message": "Failed to fetch consumer metadata from h:1.",
        },
    ),
    "Python": (
        "2026-11-20 20:00:00,500 - kafka.conn - ERROR - <BrokerConnection client_id=etl, node_id=1>: gone",
        {
            "ts_ms": 1795204800500,
            "level": "ERROR",
            "logger": "kafka.conn",
            "message": "<BrokerConnection client_id=etl, node_id=1>: gone",
            "client": {"service": "s", "client_id": "etl"},
        },
    ),
    "Python without configuration": (
        "WARNING:kafka.client:Unable to send",
        {"ts_ms": 1795212000000, "level": "WARNING", "logger": "kafka.client", "message": "Unable to send"},
    ),
    "container runtime": (
        "2026-11-20T20:00:00.123456789Z stderr F 2026-11-20 20:00:00,100 INFO [main] a.B - x",
        {"ts_ms": 1795204800100, "level": "INFO", "thread": "main", "logger": "a.B", "message": "x"},
    ),
    "librdkafka on its own": (
        "%6|1795204800.250|GETPID|etl#producer-12| [thrd:main]: Acquired idempotent producer id",
        {
            "format": "librdkafka_log",
            "ts_ms": 1795204800250,
            "level": "INFO",
            "logger": "GETPID",
            "thread": "main",
            "message": "Acquired idempotent producer id",
            "client": {"service": "s", "client_id": "etl", "kind": "producer", "library": "librdkafka"},
        },
    ),
    "librdkafka through a logger": (
        "2026-11-20 20:00:00,500 WARNING MAXPOLL [ledger#consumer-1] [thrd:main]: Application maximum poll interval",
        {
            "ts_ms": 1795204800500,
            "level": "WARNING",
            "message": "MAXPOLL [ledger#consumer-1] [thrd:main]: Application maximum poll interval",
            "client": {"service": "s", "client_id": "ledger"},
        },
    ),
    "nothing known": ("it just says so - somehow: [x]", {"message": "it just says so - somehow: [x]"}),
    "transactional": (
        "[Producer clientId=p-1, transactionalId=t] ProducerId set",
        {
            "message": "[Producer clientId=p-1, transactionalId=t] ProducerId set",
            "client": {"service": "s", "client_id": "p-1"},
        },
    ),
    "static member": (
        "[Consumer instanceId=i, clientId=c-1, groupId=g] x",
        {
            "message": "[Consumer instanceId=i, clientId=c-1, groupId=g] x",
            "client": {"service": "s", "client_id": "c-1"},
        },
    ),
    "heartbeat thread": (
        "2026-11-20 20:00:00,500 INFO [kafka-coordinator-heartbeat-thread | g] a.B - x",
        {
            "ts_ms": 1795204800500,
            "level": "INFO",
            "thread": "kafka-coordinator-heartbeat-thread | g",
            "logger": "a.B",
            "message": "x",
        },
    ),
    "other JSON": (
        '{"msg": "hi", "severity": "info", "ts": 1795204800500, "service": "own", "hostname": "h", "pid": 7}',
        {
            "format": "json_log",
            "ts_ms": 1795204800500,
            "level": "INFO",
            "message": "hi",
            "client": {"service": "own", "host": "h", "instance": "h:7"},
        },
    ),
    "Serilog": (
        '{"@t": "2026-11-20T20:00:00.5Z", "@l": "Warning", "@m": "hi", "@x": "A.X: y", "SourceContext": "A.B"}',
        {
            "format": "json_log",
            "ts_ms": 1795204800500,
            "level": "WARNING",
            "logger": "A.B",
            "message": "hi",
            "stack": "A.X: y",
        },
    ),
    "JSON console of .NET": (
        '{"Timestamp": "2026-11-20T20:00:00.5Z", "LogLevel": "Error", "Category": "A.B", "Message": "hi"}',
        {"format": "json_log", "ts_ms": 1795204800500, "level": "ERROR", "logger": "A.B", "message": "hi"},
    ),
    "number for a level": (
        '{"msg": "hi", "level": 50, "time": "2026-11-20T20:00:00.5+0100"}',
        {"format": "json_log", "ts_ms": 1795201200500, "level": "ERROR", "message": "hi"},
    ),
    "the shipper's clock is believed over local time": (
        '{"@timestamp": "2026-11-20T20:00:01Z", "message": "2026-11-20 21:00:00,500 INFO [main] a.B - x"}',
        {
            "format": "ecs",
            "ts_ms": 1795204801000,
            "level": "INFO",
            "thread": "main",
            "logger": "a.B",
            "message": "x",
        },
    ),
    "an exception as an object": (
        json.dumps(
            {
                "instant": {"epochSecond": 1795204800, "nanoOfSecond": 7_000_000},
                "level": "ERROR",
                "loggerName": "a.B",
                "thread": "main",
                "message": "m",
                "thrown": {
                    "name": "a.X",
                    "message": "outer",
                    "extendedStackTrace": [{"class": "a.B", "method": "c", "file": "B.java", "line": 3}],
                    "cause": {"name": "a.Y", "message": "inner"},
                },
            }
        ),
        {
            "format": "log4j2_json",
            "ts_ms": 1795204800007,
            "level": "ERROR",
            "thread": "main",
            "logger": "a.B",
            "message": "m",
            "stack": "a.X: outer\n\tat a.B.c(B.java:3)\nCaused by: a.Y: inner",
        },
    ),
    "an exception without a cause": (
        '{"msg": "m", "exception": {"name": "a.X", "message": "outer"}}',
        {"format": "json_log", "message": "m", "stack": "a.X: outer"},
    ),
    "an object that is no exception": (
        '{"msg": "m", "exception": {"type": "a.X"}}',
        {"format": "json_log", "message": "m", "stack": '{"type":"a.X"}'},
    ),
    "undecoded JSON of logback": (
        json.dumps(
            {"@timestamp": "2026-11-20T20:00:01Z", "message": '{"message": "x", "HOSTNAME": "own", "level": "INFO"}'}
        ),
        {
            "format": "ecs",
            "ts_ms": 1795204801000,
            "level": "INFO",
            "message": "x",
            "client": {"service": "s", "host": "own"},
        },
    ),
    "undecoded JSON with half a character": (
        json.dumps({"@timestamp": "2026-11-20T20:00:01Z", "message": r'{"message": "\ud800", "x": NaN}'}),
        {"format": "ecs", "ts_ms": 1795204801000, "message": "\ufffd"},
    ),
    "JSON after the names of a pod and its container": (
        'orders-7d9f8b6c5-x2x7q orders {"@timestamp": "2026-11-20T20:00:01Z", "log.level": "WARN", "message": "x"}',
        {"ts_ms": 1795204801000, "level": "WARN", "message": "x"},
    ),
    "a separator of lines within a line": (
        "2026-11-20 20:00:00,500 INFO [main] a.B - x\u2028y\rz",
        {"ts_ms": 1795204800500, "level": "INFO", "thread": "main", "logger": "a.B", "message": "x\u2028y\rz"},
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_layouts_of_text_and_json_by_hand(name: str) -> None:
    line, expected = LINES[name]
    arrived = 1795212000000
    [row] = rows(raw(name, line.encode(), headers={"service": "s"}))
    assert row == {"format": "plain_text", "ts_ms": arrived, "client": {"service": "s"}, **expected}


REJECTED: dict[str, tuple[bytes | None, str]] = {
    "no value": (None, "empty"),
    "blanks": (b" \r\n\t", "empty"),
    "cut JSON": (b'{"@timestamp": "2026-11-20T20:00:00Z", "message": "x', "truncated-json"),
    "broken JSON": (b'{"message": "x",,}', "malformed-json"),
    "unknown JSON": (b'{"a": 1}', "unknown-format"),
    "OTLP as protobuf": (b"\n\x7f\n\x1d\n\x1b\n\x0chost.name\x12\x0b\n\tweb", "binary"),
    "Avro": (b"\x00\x00\x00\x00\x07\x02\x0ahello", "binary"),
    "Latin-1": ("2026-11-20 20:00:00,000 INFO [main] a.B - grün".encode("latin-1"), "binary"),
    "no log records": (b'{"resourceLogs": []}', "empty"),
    "wrong types": (b'{"resourceLogs": "x"}', "wrong-types"),
    "no message": (b'{"@timestamp": "2026-11-20T20:00:00Z", "log.level": "INFO"}', "empty"),
    "an empty stack": (b'{"@timestamp": "2026-11-20T20:00:00Z", "error.stack_trace": "\\n"}', "empty"),
    "tomorrow": (b'{"@timestamp": "2026-11-22T20:00:00Z", "message": "x"}', "future-timestamp"),
}


def test_what_cannot_be_read_is_rejected_with_its_reason() -> None:
    records = [raw(name, value, headers={"service": "s"}) for name, (value, _) in REJECTED.items()]
    records.append(raw("unnamed", b"a line of no client"))
    reasons = {r.source.topic: [error.split(":")[0] for error in decode(r).errors] for r in records}
    assert reasons == {**{name: [reason] for name, (_, reason) in REJECTED.items()}, "unnamed": ["missing-identity"]}


@pytest.mark.parametrize(("written", "taken"), [("21:00:03", 22), ("21:20:03", 21), ("22:00:03", 22)])
def test_a_dump_that_arrives_whole_hours_later_is_of_another_zone(written: str, taken: int) -> None:
    text = f'2026-11-20 {written}\nFull thread dump OpenJDK\n\n"kafka-producer-network-thread | p" #12 tid=0x1\n'
    text += "   java.lang.Thread.State: RUNNABLE\n\tat org.apache.kafka.clients.producer.Sender.run(S.java)\n"
    [line] = decode(raw("dump", text.encode(), headers={"service": "s"})).lines
    moment = datetime.fromtimestamp((line.ts_ms or 0) / 1000, UTC)
    assert (moment.hour, moment.minute) == (taken, int(written[3:5]))


@pytest.mark.parametrize("form", ["%s INFO [main] a.B - x", '{"timestamp": "%s", "message": "x"}'])
@pytest.mark.parametrize(
    ("written", "utc"), [("22:59:57", "21:59:57"), ("22:04:00", "22:04:00"), ("19:00:03", "19:00:03")]
)
def test_a_line_from_the_future_is_of_another_zone(form: str, written: str, utc: str) -> None:
    [line] = decode(raw("x", (form % f"2026-11-20 {written}").encode(), headers={"service": "s"})).lines
    assert f"{datetime.fromtimestamp((line.ts_ms or 0) / 1000, UTC):%X}" == utc


def test_key_and_headers_identify_the_client_if_the_line_does_not() -> None:
    records = [
        raw("key", b"x", key=b"shop|web-7:1|p"),
        raw("prefix before key", b"[Producer clientId=own] x", key=b"shop|web-7:1|p"),
    ]
    assert {r.source.topic: rows(r)[0]["client"] for r in records} == {
        "key": {"service": "shop", "instance": "web-7:1", "client_id": "p"},
        "prefix before key": {"service": "shop", "instance": "web-7:1", "client_id": "own"},
    }


def test_one_bad_log_record_does_not_spoil_the_others() -> None:
    document = json.loads((SAMPLES / "otlp_json_logs_javaagent.json").read_text())
    document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] = 7
    document["resourceLogs"] += [None, {"scopeLogs": None}, {"scopeLogs": [{"logRecords": {}}, None]}]
    good = rows(raw("x", json.dumps(document).encode(), headers={"service": "s"}))
    assert sorted(r.get("error", "fine") for r in good) == ["fine", *["wrong-types"] * 5]


def test_every_format_is_asked_in_an_order_without_ties() -> None:
    orders = [fmt.order for fmt in formats("logs")]
    assert orders == sorted(set(orders))


ALL_SAMPLES = [bytes(record.value or b"") for name in GOLDEN for record in sample(name)]


NONSENSE = [b"{", b"}", b'"', b"[", b"null", b"1e999", b"-1", b"\\u0000", b"\x01", b"\xff", b"\n", "ä€".encode(), b""]
KEYS = sorted(
    {key for value in ALL_SAMPLES for key in re.findall(r'"([^"]{1,30})" ?:', value.decode("utf-8", "replace"))}
)


def mutated(dice: random.Random) -> bytes:
    value = bytearray(dice.choice(ALL_SAMPLES))
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(value) + 1)
        to = min(at + dice.randint(0, 40), len(value))
        kind = dice.randrange(5)
        if kind == 4:
            del value[at:]
        else:
            value[at:to] = [b"", bytes(value[at:to] * 2), dice.randbytes(8), dice.choice(NONSENSE)][kind]
    return bytes(value)


def anything(dice: random.Random, depth: int = 0) -> Any:
    if depth < 3 and dice.random() < 0.4:
        if dice.random() < 0.4:
            return [anything(dice, depth + 1) for _ in range(dice.randint(0, 3))]
        return {dice.choice(KEYS): anything(dice, depth + 1) for _ in range(dice.randint(0, 4))}
    return dice.choice(
        [None, True, 0, -1, 1795204800, 1e308, -(2**70), float("nan"), "", "x", "{", "[", "%3|1.0|F|", "\x00"]
    )


def arbitrary_value(dice: random.Random) -> bytes:
    kind = dice.randrange(3)
    if kind == 0:
        return json.dumps({dice.choice(KEYS): anything(dice) for _ in range(6)}).encode()
    return mutated(dice) if kind == 1 else dice.randbytes(dice.randint(0, 40))


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32))
def test_no_input_raises_or_vanishes(seed: int) -> None:
    dice = random.Random(seed)
    for offset in range(400):
        record = raw("x", arbitrary_value(dice), offset, headers={"service": "s"})
        decoded = decode(record)
        assert decoded.lines or decoded.errors
        assert not any("Error" in error for error in decoded.errors), decoded.errors
        for line in decoded.lines:
            assert line.ts_ms is not None
            events_and_dumps(line, record.source, catalogue())


HOSTILE: dict[str, bytes] = {
    **{repr(part): part * n for part, n in {b"%": 30_000, b"[": 30_000, b"a ": 15_000, b'"': 20_000}.items()},
    "frames": b"\tat " * 8_000,
    "blanks": b"INFO" + b" " * 30_000 + b"x",
    "loggers": b"INFO " + b" (a" * 10_000,
    "long": b"x" * 3_000_000,
    "prefixes": b"clientId=" + b"[a " * 1_000_000,
    "half prefixes": b"clientId=" + b"[a b, " * 500_000,
    "handles": b"x#producer-" * 300_000,
    "python": b"<Kafkaa client_id=" * 150_000,
    "colours": b"\x1b[" * 1_000_000,
    "titles": b"Full thread dump \n" * 150_000 + b'\n"',
    "headers": b'Full thread dump \n"kafka' + b'\n"kafka" ' * 300_000,
    "frames of one thread": b'Full thread dump \n"kafka" #1 \n' + b"\tat a/b/c.d(\n" * 60_000,
    "tabs": b'Full thread dump \n"kafka" #1 \n' + b"\t" * 2_000_000,
    "config": b"ProducerConfig values:" + b"\n\t" * 30_000,
    "literals": b" Bootstrap broker ProducerConfig values: with correlation id " * 40_000,
    "deep": b'{"message": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep inside": b'{"message": "' + b'{\\"a\\":' * 100_000 + b'"}',
    "deep stack": b'{"message": "m", "exception": "' + b"[" * 200_000 + b'"}',
    "digits": b'{"message": "m", "time": ' + b"9" * 100_000 + b', "level": "' + b"9" * 100_000 + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lines_are_read_in_no_time(name: str) -> None:
    for value in (HOSTILE[name], b"2026-11-20 20:00:00,000 " + HOSTILE[name]):
        record = raw("x", value, headers={"service": "s"})
        started = time.process_time()
        decoded = decode(record)
        assert decoded.lines or decoded.errors
        for line in decoded.lines:
            events_and_dumps(line, record.source, catalogue())
        assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    ("prefix", "client"),
    [
        ("[Producer clientId=orders[eu],v2] x", "orders[eu],v2"),
        ("[Consumer clientId=a, b, groupId=g] x", "a, b"),
        ("[Consumer instanceId=i, clientId=c[1], groupId=g] x", "c[1]"),
        ("[Producer clientId=p, transactionalId=t] see [1]", "p"),
        ("[Producer clientId=p]: x", "p"),
        ("[Producer clientId=p", "p"),
    ],
)
def test_a_client_id_with_brackets_or_commas_is_one_client(prefix: str, client: str) -> None:
    assert named_client(prefix, None) == client


def test_only_a_unit_of_systemd_loses_its_ending() -> None:
    named, unit = Layout(service=("s",)), Layout(unit=("s",))
    services = [line_of({"s": "billing.service"}, layout).client.service for layout in (named, unit)]
    assert services == ["billing.service", "billing"]
