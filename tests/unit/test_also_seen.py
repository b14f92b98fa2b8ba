"""`diagnose` reports known issues that belong to no failure mode, and gives no verdict on them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.diagnose.outcome import NOT_JUDGED, exit_code, json_lines
from clienthealth.diagnose.report import Style, html_report, report
from clienthealth.model.clients import Kind
from clienthealth.model.health_record import decode
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import LogLine
from clienthealth.modes import catalogue, modes
from clienthealth.monitor.state import BucketState, load, save
from clienthealth.read.logs.also_seen import BY_ID, TROUBLES, Trouble, lint
from clienthealth.read.logs.events import events_and_dumps
from clienthealth.read.logs.lines import entry
from clienthealth.read.logs.self_descriptions import MOST_OPTIONS, options_in, options_logged
from clienthealth.settings import Settings
from tests.support.stepped import START, Stepped, logged, snapshot

METRICS = {"buffer-total-bytes": 4e6, "buffer-available-bytes": 4e6, "select-total": 7.0, "record-send-total": 9.0}
DENIED = "python-topic-denied"


def test_they_stand_in_one_place_each_with_what_it_is_and_what_to_do() -> None:
    borrowed = {wording.also for wording in catalogue().wordings}
    for trouble in TROUBLES:
        assert trouble.sentence.endswith(".") and trouble.action.endswith(".")
        assert trouble.wordings or trouble.when or trouble.id in borrowed
        assert bool(trouble.when) == trouble.source.startswith("https://")
    assert not BY_ID.keys() & modes().keys()


def test_a_line_is_counted_once_however_many_patterns_match() -> None:
    stack = "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed"
    text = "Connection to node -1 (k/10.0.0.1:9093) failed authentication due to: Authentication failed"
    line = LogLine(ts_ms=START, message=text, stack=stack)
    events, _ = events_and_dumps(line, Source("t", 0, 0), catalogue())
    assert [event.signature for event in events] == ["authentication-failed"]


def test_errors_of_the_protocol_are_known_by_their_names_in_every_library_and_not_in_source_code() -> None:
    def troubles(text: str) -> set[str]:
        meanings = (catalogue().by_id[wording.id] for wording, _ in catalogue().matches(text, None))
        return {meaning.id for meaning in meanings if isinstance(meaning, Trouble)}

    for text in (
        "org.apache.kafka.common.errors.OffsetOutOfRangeException",
        "kafka.common.OffsetOutOfRangeException at sun.reflect.NativeConstructorAccessorImpl.newInstance0",
        "kafka.errors.OffsetOutOfRangeError: [Error 1] OffsetOutOfRangeError: orders",
        "Failed to fetch from orders/0: Kafka::OffsetOutOfRange",
    ):
        assert troubles(text) == {"offset-out-of-range"}
    for code in ("} catch (OffsetOutOfRangeException e) {", "import org.apache.OffsetOutOfRangeException;"):
        assert not troubles(code)


def test_the_first_word_of_a_message_is_no_logger() -> None:
    line = entry("[kafka.conn] ERROR DNS lookup failed for kafka-9:9092 (AddressFamily.AF_UNSPEC)").line
    assert (line.logger, line.message) == (None, "DNS lookup failed for kafka-9:9092 (AddressFamily.AF_UNSPEC)")
    named = entry("[main] ERROR org.apache.kafka.clients.NetworkClient lookup failed").line
    assert (named.logger, named.message) == ("org.apache.kafka.clients.NetworkClient", "lookup failed")


def counts(monitor: Stepped, client_id: str = "p") -> dict[str, int]:
    record = decode(json.dumps(monitor.records[f"shop|h:1|{client_id}"]).encode())
    return {seen.what: seen.lines for seen in record.also_seen}


def test_it_goes_out_with_the_client_and_into_its_minutes_and_survives_a_restart() -> None:
    monitor = Stepped()
    for second in range(0, 300, 10):
        lines = [logged(second + 1, DENIED, "p"), logged(second + 2, DENIED, "p")] if second in (20, 80) else []
        monitor.batch([snapshot(second, METRICS), *lines], second + 10)
    assert counts(monitor) == {"authorisation": 4}
    (seen,) = monitor.records["shop|h:1|p"]["also_seen"]
    assert (seen["first"], seen["last"]) == (START + 21_000, START + 82_000)
    assert seen["source"] == {"topic": "client-logs", "partition": 0, "offset": 21_000}
    written = [row["also_seen"] for row in monitor.minutes if "also_seen" in row]
    assert sum(seen["lines"] for seens in written for seen in seens) == 4
    assert {v["status"] for v in monitor.records["shop|h:1|p"]["verdicts"]} <= {"ok", "unknown"}


def test_nothing_of_it_stands_in_the_record_of_a_client_without_trouble() -> None:
    monitor = Stepped()
    monitor.batch([snapshot(0, METRICS)], 10)
    assert "also_seen" not in monitor.records["shop|h:1|p"]


def test_an_hour_after_its_last_line_it_is_forgotten() -> None:
    monitor = Stepped()
    monitor.batch([logged(0, DENIED, "p"), snapshot(1, METRICS)], 5)
    for second in range(60, 3_600_000 // 1000 + 120, 60):
        monitor.batch([snapshot(second, METRICS, every=60)], second)
        assert counts(monitor) == ({"authorisation": 1} if 1000 * (second - 60) <= 3_600_000 else {}), second


@pytest.mark.parametrize(("seconds", "expected"), [(5, {"rebalance-storm": 8}), (180, {})])
def test_everyday_lines_are_reported_if_they_repeat(seconds: int, expected: dict[str, int]) -> None:
    monitor = Stepped()
    lines = [logged(seconds * n, "rejoining-group", "c") for n in range(8)]
    polls = [snapshot(second, {"last-poll-seconds-ago": 0.0}, "c", "consumer") for second in range(0, 8 * seconds, 10)]
    monitor.batches([*lines, *polls], 60)
    assert counts(monitor, "c") == expected


def test_a_nameless_line_is_of_the_only_possible_client() -> None:
    large = logged(0, "record-too-large")
    alone, several = Stepped(), Stepped()
    alone.batch([large, logged(1, "record-too-large", "p"), snapshot(1, METRICS), snapshot(1, {}, "c", "consumer")], 5)
    several.batch([large, snapshot(1, METRICS), snapshot(1, METRICS, "q")], 5)
    assert (counts(alone, "p"), counts(alone, "c")) == ({"record-too-large": 2}, {})
    for client_id in "pq":
        (seen,) = several.records[f"shop|h:1|{client_id}"]["also_seen"]
        assert seen["of_process"] is True
    several.batches([snapshot(second, METRICS, name) for second in range(10, 300, 10) for name in "pq"], 10)
    assert sum(seen["lines"] for row in several.minutes for seen in row.get("also_seen", ())) == 1, "once in history"


def test_a_line_of_one_client_does_not_count_for_another() -> None:
    monitor = Stepped()
    monitor.batch([logged(0, DENIED, "p"), snapshot(1, METRICS), snapshot(1, METRICS, "q")], 5)
    assert (counts(monitor, "p"), counts(monitor, "q")) == ({"authorisation": 1}, {})


def test_a_state_without_it_is_read() -> None:
    state = load(save(BucketState(time_ms=7), 1), 1)
    assert state.time_ms == 7 and not state.also_seen


LOG = """\
2026-11-20 10:00:00,123 ERROR [Producer clientId=orders] Topic authorization failed for topics [secret] (o.a.k.Metadata)
2026-11-20 10:00:05,000 ERROR [Producer clientId=orders] Topic authorization failed for topics [secret] (o.a.k.Metadata)
2026-11-20 10:00:06,123 ERROR [main] send failed
org.apache.kafka.common.errors.RecordTooLargeException: The message is 2000087 bytes when serialized which is larger \
than 1048576, which is the value of the max.request.size configuration.
"""


SPRING = """\
2026-11-22T00:12:43.750Z  INFO 4711 --- [main] o.a.k.clients.producer.ProducerConfig    : ProducerConfig values:
\tacks = -1
\tclient.id = portal
\tretries = 0
2026-11-22T00:12:43.754Z  INFO 4711 --- [main] .apache.kafka.common.utils.AppInfoParser : Kafka version: 3.3.1
"""


def test_diagnose_names_version_and_options_where_nothing_can_be_judged(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(SPRING)
    found = examine([tmp_path], Settings())
    text = " ".join(report(found, style=Style(120, False, False)).split())
    assert f"CANNOT JUDGE portal ({tmp_path.name}, producer, java 3.3.1)" in text
    assert (
        "Also seen failed sends are not retried, 2026-11-22 00:12:43 UTC." in text
        and "“retries = 0” (app.log:1)" in text
    )
    bugs = "KAFKA-13834"  # KAFKA-13834 is fixed in 3.3.0, so 3.3.1 does not have the bug
    assert "Version java 3.3.1: known bugs" in text and "KAFKA-14303" in text and bugs not in text
    assert exit_code(found) == NOT_JUDGED
    (line,) = json_lines(found)
    assert json.loads(line)["version"]["upgrade_to"] == "4.1.2"


def test_diagnose_reports_count_time_place_and_advice(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG)
    found = examine([tmp_path], Settings())
    text = " ".join(report(found, style=Style(width=120)).split())
    assert (
        "Also seen not authorised, 2 lines, 2026-11-20 10:00:00 to 10:00:05 UTC. The brokers accept the client's "
        "connection, but refuse it access to a topic, a group or an operation. “[Producer clientId=orders] Topic "
        "authorization failed for topics [secret]” (app.log:1) Give the client's principal"
    ) in text
    assert (
        "record too large, 2026-11-20 10:00:06 UTC." in text
        and "(app.log:4) Find out why the record is so large" in text
    )
    page = re.sub("<[^<>]*>", "", html_report(found))
    assert "Also seen: not authorised" in page and "app.log:4" in page
    (row,) = map(json.loads, json_lines(found))
    assert row["client"]["client_id"] == "orders"
    assert [(seen["what"], seen["lines"], seen["source"]["offset"]) for seen in row["also_seen"]] == [
        ("authorisation", 2, 0),
        ("record-too-large", 1, 3),
    ]
    assert {verdict["status"] for verdict in row["verdicts"]} == {"unknown"}
    assert exit_code(found) == NOT_JUDGED


def test_an_issue_without_a_known_client_is_reported_for_the_process(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(
        "2026-11-20 10:00:00,123 ERROR [main] worker failed\njava.lang.OutOfMemoryError: Java heap space\n"
    )
    found = examine([tmp_path], Settings())
    text = report(found)
    assert "(process)" in text and "out of memory, 2026-11-20 10:00:00 UTC" in text
    assert "is about a Kafka client" not in text
    (row,) = map(json.loads, json_lines(found))
    assert (row["verdicts"], [seen["what"] for seen in row["also_seen"]]) == ([], ["out-of-memory"])
    assert exit_code(found) == NOT_JUDGED


SOUND = {"acks": "-1", "retries": "2147483647", "delivery.timeout.ms": "120000", "request.timeout.ms": "30000"}


# The expected values were derived by hand from Kafka's documentation of each option.
@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("producer", {}, []),
        ("producer", {"acks": "1"}, ["options-acks"]),
        ("producer", {"retries": "0"}, ["options-retries-none"]),
        ("producer", {"retries": "0x"}, []),
        ("producer", {"delivery.timeout.ms": "59999"}, ["options-delivery-timeout"]),
        ("producer", {"delivery.timeout.ms": "60000"}, []),
        ("producer", {"enable.idempotence": "false", "max.in.flight.requests.per.connection": "5"}, ["options-order"]),
        ("producer", {"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}, []),
        ("producer", {"measured.waiting_threads": "3", "max.block.ms": "60000"}, ["options-send-blocks"]),
        ("producer", {"measured.waiting_threads": "0", "max.block.ms": "60000"}, []),
        (
            "producer",
            {"measured.buffer_used_ratio": "0.95", "buffer.memory": "1048000", "batch.size": "16384", "acks": "0"},
            ["options-buffer-small", "options-acks"],
        ),
        ("producer", {"client.id": "producer-1"}, ["options-client-id"]),
        ("producer", {"client.id": "producer-of-orders"}, []),
        ("producer", {"reconnect.backoff.max.ms": "50"}, ["options-reconnect"]),
        ("consumer", {"acks": "1", "client.id": "consumer-billing-12"}, ["options-client-id"]),
        ("consumer", {"heartbeat.interval.ms": "5000", "session.timeout.ms": "10000"}, ["options-heartbeat"]),
        ("consumer", {"heartbeat.interval.ms": "3000", "session.timeout.ms": "10000"}, []),
        ("consumer", {"enable.auto.commit": "true", "max.poll.interval.ms": "900000"}, ["options-auto-commit"]),
        ("consumer", {"max.poll.interval.ms": "300000", "measured.full_poll_ms": "400000"}, ["options-poll-too-large"]),
        ("consumer", {"max.poll.interval.ms": "300000", "measured.full_poll_ms": "200000"}, []),
        ("consumer", {"metadata.max.age.ms": "3600000"}, ["options-metadata-age"]),
    ],
)
def test_options_are_compared_with_the_documentation(kind: Kind, options: dict[str, str], expected: list[str]) -> None:
    found = lint({**(SOUND if kind == "producer" else {}), **options}, kind)
    assert [trouble.id for trouble, _ in found] == expected


START_OF_CLIENT = """ProducerConfig values:\n\tacks = 1\n\tbootstrap.servers = [kafka://me:pw@kafka-1:9092]
\tclient.id = p\n\tcompression.type = none\n\tinterceptor.classes = []\n\tretries = 5\n\tsasl.jaas.config = a "hunter2"
\tsasl.mechanism = PLAIN\n\tssl.key.password = hunter2\n\tssl.keystore.location = null\n\tvault.token = hunter2\n"""


def test_all_options_of_a_start_are_kept_but_no_secret_and_not_without_bound() -> None:
    line = LogLine(ts_ms=START, message=START_OF_CLIENT)
    (event,) = events_and_dumps(line, Source("t", 0, 0), catalogue())[0]
    assert options_logged(event.captures) == {
        "acks": "1",
        "bootstrap.servers": "[kafka://(hidden)@kafka-1:9092]",
        "client.id": "p",
        "compression.type": "none",
        "retries": "5",
        "sasl.mechanism": "PLAIN",
    }
    assert "pw@" not in repr(event.captures)
    many = "ProducerConfig values:\n" + "".join(f"\to.{n} = {'x' * 50}\n" for n in range(1000))
    assert len(options_in(many)) == MOST_OPTIONS
    assert options_in("\tlong.one = " + "x" * 5_000) == {}


def test_the_options_of_a_start_go_out_with_the_client_and_into_its_minutes() -> None:
    monitor = Stepped()
    for second in range(0, 300, 10):
        lines = [logged(second + 1, "producer-config", "p", client="p", acks="1", lingerMs="5")] if second == 20 else []
        monitor.batch([snapshot(second, METRICS), *lines], second + 10)
    assert monitor.records["shop|h:1|p"]["config"] == {"acks": "1", "linger.ms": "5"}
    assert counts(monitor) == {"options-acks": 1}
    (seen,) = monitor.records["shop|h:1|p"]["also_seen"]
    assert seen["text"] == "acks = 1"
