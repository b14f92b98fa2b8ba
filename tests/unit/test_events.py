"""A log record becomes an event of the client that the record is about."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import LogLine, RawRecord
from clienthealth.modes import catalogue
from clienthealth.read.decode import decode_logs
from clienthealth.read.logs.bursts import SAMPLING_MS, sample_key
from clienthealth.read.logs.dumps import DUMP_LINE, rejoin
from clienthealth.read.logs.events import events_and_dumps, literals
from clienthealth.read.logs.wordings import Catalogue, Meaning, Wording
from clienthealth.read.recordings import read
from clienthealth.settings import Settings
from tests.support.recorded import RECORDINGS
from tests.unit.test_dumps import EXPECTED, JVM_8, as_tuples
from tests.unit.test_formats_logs import ARRIVED_MS, raw, sample

LITERALS = literals(catalogue())
Evidence = tuple[LogLine, LogEvent | ThreadDump]


def evidence_in(records: Sequence[RawRecord], searched: Catalogue | None = None) -> list[Evidence]:
    worth = [
        r for r in records if searched or any(text.encode() in bytes(r.value or b"") for text in literals(catalogue()))
    ]
    return [
        (line, one)
        for record in worth
        for line in decode_logs(record, Settings(), ARRIVED_MS).lines
        for evidence in events_and_dumps(line, record.source, searched or catalogue())
        for one in evidence
    ]


def events(records: Sequence[RawRecord], searched: Catalogue | None = None) -> list[LogEvent]:
    evidence = [one for _, one in evidence_in(records, searched)]
    log_events = [one for one in evidence if isinstance(one, LogEvent)]
    assert len(log_events) == len(evidence)
    return log_events


def topic(evidence: LogEvent | ThreadDump) -> str:
    assert evidence.source is not None
    return evidence.source.topic


def line(text: str, topic: str = "x", offset: int = 0) -> RawRecord:
    return raw(topic, text.encode(), offset, headers={"service": "s", "host": "h"})


LOG = "2026-11-20 20:00:00,000 {} [{}] {} - {}"


def test_a_line_becomes_an_event_with_its_client_and_captures() -> None:
    text = "[Producer clientId=p] Bootstrap broker 10.0.0.1:9092 (id: -1 rack: null) disconnected"
    logged = LOG.format("WARN", "kafka-producer-network-thread | p", "org.apache.kafka.clients.NetworkClient", text)
    [(read, event)] = evidence_in([line(logged)])
    assert event == LogEvent(
        ts_ms=1795204800000,
        signature="bootstrap-disconnected",
        text=text,
        client_id="p",
        logger="org.apache.kafka.clients.NetworkClient",
        level="WARN",
        thread="kafka-producer-network-thread | p",
        captures={"address": "10.0.0.1:9092"},
        source=Source("x", 0, 0),
    )
    assert read.client.service == "s" and read.client.host == "h"


def test_the_line_of_the_exception_is_the_evidence() -> None:
    log_events = events(sample("filebeat_plain_multiline.json") + sample("filebeat_plain_split_lines.ndjson"))
    matching = [e for e in log_events if e.signature == "buffer-exhausted"]
    assert [e.text[:79] for e in matching] == [
        "org.apache.kafka.clients.producer.BufferExhaustedException: Failed to allocate "
    ] * 2
    assert [e.captures for e in matching] == [{"bytes": "16384", "waitMs": "60000"}] * 2


def test_long_evidence_is_cut() -> None:
    [event] = events([line("Local: Queue full" + "x" * 3_000)])
    assert len(event.text) == 500


def test_lines_without_a_signature_leave_nothing() -> None:
    ordinary = [line(LOG.format("INFO", "main", "a.B", f"order {n} sent")) for n in range(20)]
    assert not [text for text in LITERALS for record in ordinary if text.encode() in (record.value or b"")]
    assert events(ordinary, catalogue()) == []


@pytest.mark.parametrize(
    ("text", "logger", "beside_kafka", "found"),
    [
        ("kafka sink exiting with 12 undelivered messages", None, False, ["records-left-at-the-end"]),
        ("exiting with 12 undelivered messages", None, False, []),
        ("exiting with 12 undelivered messages", None, True, ["records-left-at-the-end"]),
        ("exiting with 12 undelivered messages", "shop.KafkaSink", False, ["records-left-at-the-end"]),
        ("exiting with 0 undelivered messages", "shop.KafkaSink", False, []),
        ("the kafka consumer's close() hangs", None, False, ["stop-overdue", "hangs"]),
        ("the kafka consumer's close() may fail", None, False, []),
        ("Kafka consumer orders-hangs closed in 12 ms", None, False, ["stop-ended"]),
        (
            "kafka: Producer terminating with 4 messages (400 bytes) still in queue",
            None,
            False,
            ["librdkafka-terminating"],
        ),
    ],
)
def test_words_of_any_program_count_beside_kafka_only_and_never_as_a_clients_own_line(
    text: str, logger: str | None, beside_kafka: bool, found: list[str]
) -> None:
    said = LogLine(ts_ms=1, level="WARN", logger=logger, message=text, beside_kafka=beside_kafka)
    written, _ = events_and_dumps(said, Source("x", 0, 0), catalogue(), attached=True)
    assert [event.signature for event in written] == found
    monitored, _ = events_and_dumps(said, Source("x", 0, 0), catalogue())
    assert all(event.signature == "librdkafka-terminating" for event in monitored)
    assert not any(event.own for event in written if event.signature != "librdkafka-terminating")


def test_a_line_with_two_signatures_is_two_events() -> None:
    log_events = events([line("Local: Queue full and Local: All broker connections are down")])
    assert sorted(e.signature for e in log_events) == ["librdkafka-all-brokers-down", "queue-full"]


EXPIRING = "[Producer clientId=billing] Expiring 12 record(s) for orders-3:120000 ms has passed since batch creation"
EXCEPTION = "org.apache.kafka.common.errors.TimeoutException: Topic orders not present in metadata after 60000 ms."
SENDER = "org.apache.kafka.clients.producer.internals.Sender"
NETWORK_THREAD = "kafka-producer-network-thread | p"


@pytest.mark.parametrize(
    ("thread", "logger", "text", "own"),
    [
        ("exec-3", "c.a.support.TicketBot", f'ticket 7: a customer pasted: "{EXCEPTION}"', None),
        ("exec-3", "TicketBot", f"see `{EXCEPTION}`", None),
        ("tail-1", "c.a.monitor.LogTail", f"service billing says: {EXPIRING}", False),
        ("tail-1", "c.a.monitor.LogTail", f'{{"service":"billing","message":"{EXPIRING}"}}', False),
        ("main", "c.a.Orders", f"send failed: {EXPIRING.partition('] ')[2]}", False),
        ("main", "c.a.Watch", f"incident 17: Uncaught exception in thread '{NETWORK_THREAD}':", False),
        ("main", "c.a.Orders", f"send failed: {EXCEPTION}", True),
        ("main", "c.a.Orders", f'order "7" was not sent: {EXCEPTION}', True),
        ("main", "c.a.Orders", f'event=failed error="{EXCEPTION}"', True),
        ("main", "c.a.Out", f'retrying {{:exception=>A::TimeoutException, :message=>"{EXCEPTION[49:]}"}}', True),
        ("main", "c.a.Orders", f'{{"order": 7, "error": "{EXCEPTION}"}}', True),
        (NETWORK_THREAD, "c.a.Orders", f'the callback got "{EXCEPTION}"', True),
        (NETWORK_THREAD, SENDER, EXPIRING, True),
        ("main", "o.a.k.c.p.internals.Sender", f"warned: {EXPIRING}", True),
        ("main", "c.a.Forwarded", EXPIRING, True),
    ],
)
def test_a_line_is_of_a_client_of_the_program_that_logs_it(
    thread: str, logger: str, text: str, own: bool | None
) -> None:
    logged = events([line(LOG.format("ERROR", thread, logger, text))])
    assert {event.own for event in logged} == ({own} - {None})


UNCAUGHT = f"Uncaught exception in thread '{NETWORK_THREAD}':"
TERMINATED = "%4|1790000000.1|TERMINATE|p#producer-1| [thrd:app]: Producer terminating with 3 messages still in queue"


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        (f"2026-11-20 20:00:00,000 ERROR [tail-1] orders.Watch - incident 17: {UNCAUGHT}", True),
        (f"2026-11-20 20:00:00,000 ERROR runbook says: {EXPIRING}", True),
        (f'2026-11-20 20:00:00,000 ERROR [tail-1] orders.Watch - {{"service":"billing","message":"{EXPIRING}"}}', True),
        (f"2026-11-20 20:00:00,000 ERROR [tail-1] orders.Watch - {TERMINATED}", True),
        (f"Nov 20 20:00:00 app-1 orders[4711]: 2026-11-20 20:00:00,001 ERROR [a,,] [t] o.Watch : {TERMINATED}", True),
        (f"26/11/20 20:00:00 WARN Sender: {EXPIRING}", False),
        (f"2026-11-20 20:00:00,000 WARN {EXPIRING}", False),
        (f"2026-11-20 20:00:00,000 ERROR [exec-1] orders.Orders - send failed: {EXPIRING.partition('] ')[2]}", False),
        (f"we saw this at night: {EXPIRING}", False),
    ],
)
def test_words_before_a_line_with_its_own_client_show_a_copy(text: str, copied: bool) -> None:
    assert {event.copied for event in events([line(text)])} == {copied}


@pytest.mark.parametrize(("inside", "own"), [("2026-11-20 19:59:58,001", True), ("2026-11-14 10:11:12,345", False)])
def test_a_line_within_a_line_is_anothers_if_it_is_of_another_day(inside: str, own: bool) -> None:
    """Two time zones differ by at most 26 hours.

    So if the two timestamps in a line differ by more than 26 hours, the line quotes an older line.
    """
    text = f"2026-11-20 20:00:00,000 ERROR forwarded: {inside} ERROR [{NETWORK_THREAD}] {SENDER} - {EXPIRING}"
    assert {event.own for event in events([line(text)])} == {own}


@pytest.mark.parametrize(
    "part", ["a.", "Error: ", "Error(", "KafkaError{", "[Producer a=b, ", "[Producer clientId=", '"', "x"]
)
@pytest.mark.parametrize("logger", [None, "c.a.Orders"])
def test_hostile_text_before_what_a_library_words_costs_no_more_than_its_length(part: str, logger: str | None) -> None:
    hostile = LogLine(ts_ms=1, logger=logger, message=(part * 60_000)[:60_000] + "Local: Queue full")
    started = time.process_time()
    events_and_dumps(hostile, Source("x", 0, 0), catalogue())
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("before", "own"),
    [
        ("10:00:00 [orders,,] [exec-1] orders.watch : ", True),
        ("2026-11-20T20:00:00.000Z|ERROR|sender|orders.Sender|", True),
        ("10:00:00 [exec-1] orders.watch : alert firing for payments: ", False),
        ("orders.watch.LogForwarder incident 17: ", False),
        ("ClientUtils$: ", True),
        ("RecordSender: ", True),
        ("Alert: ", False),
    ],
)
def test_where_a_message_begins_after_a_layout_that_was_not_read(before: str, own: bool) -> None:
    unread = LogLine(ts_ms=1, message=before + EXPIRING.partition("] ")[2])
    [event] = events_and_dumps(unread, Source("x", 0, 0), catalogue())[0]
    assert event.own is own


def test_a_line_is_shown_from_shortly_before_what_the_library_words() -> None:
    long = LogLine(ts_ms=1, message="[Producer clientId=p] " + "x " * 100 + "Local: Queue full")
    [event] = events_and_dumps(long, Source("x", 0, 0), catalogue())[0]
    assert event.text == "[Producer clientId=p] …" + "x " * 20 + "Local: Queue full"


OPTIONAL = Wording("optional", {}, "boom", "boom(?: by (?P<client>[a-z]{1,9}))?")
FAKES = Catalogue(
    [
        Meaning(
            "an explosion",
            (
                Wording("of-package", {}, "boom", "boom (?P<what>[a-z]{1,9})", logger="org.apache.kafka"),
                Wording("of-class", {}, "boom", "boom", logger="kafka.client.ClientUtils"),
                OPTIONAL,
            ),
        )
    ]
)


def test_a_logger_may_be_shortened_but_not_another() -> None:
    loggers = {
        "org.apache.kafka.clients.NetworkClient": {"of-package", "optional"},
        "o.a.k.clients.NetworkClient": {"of-package", "optional"},
        "o.a.kafkaesque.Client": {"optional"},
        "kafka.client.ClientUtils$": {"of-class", "optional"},
        "k.c.ClientUtils$": {"of-class", "optional"},
        "NetworkClient": {"of-package", "of-class", "optional"},
        "com.example.App": {"optional"},
    }
    log_events = events([line(LOG.format("INFO", "main", logger, "boom all"), logger) for logger in loggers], FAKES)
    by_logger: dict[str, set[str]] = {}
    for event in log_events:
        by_logger.setdefault(topic(event), set()).add(event.signature)
    assert by_logger == loggers
    assert {e.captures.get("what") for e in log_events if e.signature == "of-package"} == {"all"}


def test_which_client_a_line_is_about() -> None:
    network = "kafka-producer-network-thread | net"
    records = [
        line(LOG.format("INFO", "main", "a.B", "boom"), "none"),
        line(LOG.format("INFO", network, "a.B", "boom"), "thread"),
        line(LOG.format("INFO", network, "a.B", "[Consumer clientId=c, groupId=g] boom"), "prefix"),
        line(LOG.format("INFO", "main", "a.B", "boom by captured"), "capture"),
        line("%3|1795204800.000|FAIL|etl#producer-1| [thrd:main]: boom", "librdkafka"),
        raw(
            "own field",
            b'{"@timestamp": "2026-11-20T20:00:00Z", "message": "[Producer clientId=p] boom", '
            b'"host": {"name": "h"}, "labels": {"client_id": "own"}}',
        ),
    ]
    assert {topic(e): e.client_id for e in events(records, Catalogue([Meaning("an explosion", (OPTIONAL,))]))} == {
        "none": None,
        "thread": "net",
        "prefix": "c",
        "capture": "captured",
        "librdkafka": "etl",
        "own field": "own",
    }


def test_a_configuration_below_its_line_is_captured() -> None:
    text = LOG.format("INFO", "main", "org.apache.kafka.clients.producer.ProducerConfig", "ProducerConfig values: ")
    options = ("acks = -1", "bootstrap.servers = [h:9092]", "client.id = p", "request.timeout.ms = 4000")
    below = "".join(f"\n\t{option}" for option in options)
    [event] = events([line(text + below)])
    assert event.signature == "producer-config"
    assert event.client_id == "p"
    assert event.captures["requestTimeoutMs"] == "4000"


def test_a_whole_dump_is_one_dump() -> None:
    shipped = {
        "@timestamp": "2026-11-20T18:40:46.100Z",
        "event.dataset": "kafka.thread-dump",
        "message": JVM_8,
        "service.name": "s",
        "host.name": "h",
        "service.node.name": "h:1",
    }
    evidence = [one for _, one in evidence_in([raw("ecs", json.dumps(shipped).encode()), line(JVM_8, "text")])]
    dumps = {topic(one): one for one in evidence if isinstance(one, ThreadDump)}
    assert len(dumps) == len(evidence)
    assert [dumps["ecs"].ts_ms, dumps["text"].ts_ms] == [1795200046100, 1795200045000]
    assert as_tuples(dumps["ecs"].threads) == as_tuples(dumps["text"].threads) == EXPECTED[JVM_8]


def test_a_dump_sent_line_by_line_is_one_dump_again() -> None:
    records, at = [], 1_000
    for number, text in enumerate(JVM_8.split("\n")):
        envelope = {
            "@timestamp": "2026-11-20T18:40:46.100Z",
            "host": {"name": "h"},
            "message": text,
            "log": {"offset": at, "file": {"path": "/var/log/app.log"}},
        }
        records.append(raw("filebeat", json.dumps(envelope).encode(), number))
        records.append(line(text, "lines", number))
        at += len(text) + 1
    log_events = events(records)
    assert {e.signature for e in log_events} == {DUMP_LINE}
    for sent in ("filebeat", "lines"):
        joined = rejoin(e for e in log_events if topic(e) == sent)
        assert [as_tuples(d.threads) for d in joined] == [EXPECTED[JVM_8]]


def test_recorded_logs_give_the_events_that_a_search_of_their_text_finds() -> None:
    records = [
        raw(f"{Path(r.instance).name}/{r.file}", r.value, r.offset, headers={"service": r.service, "host": r.instance})
        for name in ("2_deadlock_client39", "3_topic_missing", "5_ctl_close", "c2_outage31")
        for r in read([RECORDINGS / "evidence" / name])
        if r.file.endswith(".log.gz")
    ]
    exhausted = [e for _, e in evidence_in(records) if isinstance(e, LogEvent) and e.signature == "buffer-exhausted"]
    texts = [bytes(r.value or b"").decode() for r in records]
    searched = [
        text for text in texts if re.search("Failed to allocate (memory|[0-9]+ bytes) within the configured", text)
    ]
    times = [datetime.fromisoformat(f"{text[:23].replace(',', '.')}+00:00") for text in searched]
    assert sorted(e.ts_ms for e in exhausted) == sorted(round(1000 * at.timestamp()) for at in times)
    assert len(exhausted) > 1


def test_the_literals_survive_every_json_encoder() -> None:
    """The monitor searches raw JSON for the literals, so no literal may contain a character that is escaped in JSON."""
    patterns = catalogue().literals
    assert not [text for text in patterns if set(text) & set("\"\\<>&'=/+")]
    assert not [literal for literal in LITERALS if not literal.isascii()]


def test_a_storm_counts_as_one_event_in_a_hundred_milliseconds_of_a_thread() -> None:
    [event] = events([line(LOG.format("WARN", "t", "a.B", "Local: Queue full"))])
    storm = [replace(event, ts_ms=event.ts_ms + n // 10, source=Source("x", 0, n)) for n in range(10_000)]
    assert len({sample_key(e) for e in storm}) == 1_000 // SAMPLING_MS
    others = (replace(event, thread="u"), replace(event, client_id="p"), replace(event, signature="x"))
    last_try = replace(event, captures={"left": "0"}), replace(event, captures={"left": "1"})
    keys: set[Hashable] = {sample_key(e) for e in (event, *others, *last_try, replace(event, thread=None))}
    assert len(keys) == 6
