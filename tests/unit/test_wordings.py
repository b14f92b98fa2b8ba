"""Every log pattern matches example lines of the client libraries."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import clienthealth.modes
from clienthealth.model.errors import CatalogueError
from clienthealth.modes import catalogue, mode_file, modes
from clienthealth.read.logs.also_seen import BY_ID
from clienthealth.read.logs.dump_formats.threads import pattern as with_parts
from clienthealth.read.logs.reports import reports_in
from clienthealth.read.logs.self_descriptions import BY_NAME
from clienthealth.read.logs.wordings import Catalogue, Meaning, Wording, meanings
from tests.support import unworded

SPEAKERS = {"java", "scala", "librdkafka", "kafka-python", "aiokafka", "jvm", "linux", "kubernetes", "systemd"}
SPEAKERS |= {"python", "spring-kafka", "confluent-kafka", "sarama", "franz-go", "kafka-go", "kafkajs", "go"}
SPEAKERS |= {"ruby-kafka", "kafka-node", "pykafka", "flink", "logstash", "fluent-bit", "libbeat", "kcat"}
SPEAKERS |= {"smallrye", "faust", "telegraf", "brod", "any"}
SPEAKERS |= {"beam", "pinot", "hermes", "schema-registry", "graylog", "samza", "spark", "druid", "flume", "doris"}
SPEAKERS |= {"nifi", "gobblin", "log4j", "atlas", "cruise-control"}
SPEAKERS |= {"kafka-connect", "kafka-streams", "ksqldb", "parallel-consumer", "zio-kafka", "fs2-kafka"}
SPEAKERS |= {"akka", "camel", "debezium", "spring-integration", "spring-cloud-stream", "axon", "reactor-kafka"}
SPEAKERS |= {"karafka", "racecar", "fluentd", "rsyslog", "syslog-ng", "vector", "opentelemetry-collector"}
SPEAKERS |= {"wolff", "lua-resty-kafka", "burrow", "kafka-net", "phpkafka", "poseidon", "apisix", "pmacct", "arroyo"}
SPEAKERS |= {"kafka4net"}
SPEAKERS |= {"watermill", "redpanda-connect", "jaeger", "kafka_ex", "platformatic", "quixstreams"}
SPEAKERS |= {
    "masstransit",
    "micronaut",
    "kafkaflow",
    "silverback",
    "cap",
    "rust-rdkafka",
    "goka",
    "phobos",
    "dapr",
    "promtail",
}
LIBRARIES = ("java", "librdkafka", "kafka-python", "aiokafka", "sarama", "franz-go", "kafka-go", "kafkajs")
AROUND = {
    "Flink": (
        "org.apache.flink.streaming.connectors.kafka.FlinkKafkaException: Failed to send data to Kafka: Topic orders "
        "not present in metadata after 60000 ms.",
        "topic-not-in-metadata",
    ),
    "Kafka Connect": (
        "WorkerSourceTask{id=orders-0} failed to send record to orders: org.apache.kafka.common.errors."
        "TimeoutException: Expiring 3 record(s) for orders-0:120003 ms has passed since batch creation",
        "records-expired",
    ),
    "Logstash": (
        "[logstash.outputs.kafka][main] KafkaProducer.send() failed {:exception=>org.apache.kafka.common.errors."
        "TimeoutException: Topic orders not present in metadata after 60000 ms.}",
        "topic-not-in-metadata",
    ),
    "Spring Kafka": (
        "Exception thrown when sending a message with key='1' and payload='x' to topic orders:\n"
        "org.apache.kafka.common.errors.TimeoutException: Topic orders not present in metadata after 60000 ms.",
        "topic-not-in-metadata",
    ),
    "rdkafka-ruby": (
        "rdkafka: [thrd:main]: Application maximum poll interval (300000ms) exceeded by 412ms (adjust "
        "max.poll.interval.ms for long-running message processing): leaving group",
        "librdkafka-poll-interval-exceeded",
    ),
    "confluent-kafka-go": ("Local: Queue full", "queue-full"),
}
MODES = clienthealth.modes.__path__[0]
INNOCENT = (
    "producer send fail and resend.",
    "sent 100 records to topic orders in 12 ms",
    "Topic orders created",
    "Failed to allocate a worker",
    "Connection to the database could not be re-established",
    "the producer closed the file",
)


class Entry(NamedTuple):
    file: str
    key: str
    meaning: Meaning
    wording: Wording


def entries() -> Iterator[Entry]:
    files: dict[str, Mapping[str, Meaning]] = {
        f"modes/{folder}/mode.toml": mode_file(f"{MODES}/{folder}/rules.py").lines
        for folder in (mode.replace("-", "_") for mode in modes())
    }
    files |= {"logs/also_seen.toml": BY_ID, "logs/self_descriptions.toml": BY_NAME}
    for file, lines in files.items():
        for name, meaning in lines.items():
            for wording in meaning.wordings:
                yield Entry(f"jobs/clienthealth/{file}", f"lines.{name}, wording {wording.id}", meaning, wording)


def faults(entry: Entry) -> Iterator[str]:
    for fault in _faults(entry.wording, entry.meaning):
        yield f"{entry.file}, {entry.key}: {fault}"


def _faults(wording: Wording, meaning: Meaning) -> Iterator[str]:
    if wording.reports and not wording.pattern:
        for example in wording.examples:
            if wording.reports not in {label for label, _ in reports_in(example.line, 0.8)}:
                yield f"the classifier does not find its example {example.line!r}"
        return
    pattern = with_parts(wording.pattern)
    if pattern.groups != len(pattern.groupindex) or pattern.flags & re.IGNORECASE:
        yield "a group of its pattern has no name, or case is ignored: use (?:…) or (?P<name>…), [Aa]"
    if not wording.source or wording.source.keys() - SPEAKERS or not all(wording.source.values()):
        yield f"source must name a library, with the place in its code; known libraries: {', '.join(sorted(SPEAKERS))}"
    if not wording.examples:
        yield 'it has no example: add `examples = [{ line = "…" }]`, a line as the library writes it'
    for example in wording.examples:
        match = pattern.search(example.line)
        captured = {name: text for name, text in match.groupdict().items() if text} if match else {}
        if not any(literal in example.line for literal in wording.literals):
            yield f"its literal is not in its example {example.line!r}: correct the one that is wrong (case matters)"
        elif match is None:
            yield f"its pattern does not match its example {example.line!r}: correct the one that is wrong"
        elif captured != example.captures:
            yield f"its pattern captures {captured} of {example.line!r}: correct the pattern, or the `captures`"
    for library in wording.source.keys() & set(no_pattern(meaning)):
        yield f"{library} has a pattern now: take {library} out of `no_pattern` of this log event"


def no_pattern(meaning: Meaning) -> list[str]:
    return [library for libraries in meaning.no_pattern for library in libraries.split(", ")]


ENTRIES = tuple(entries())


def words_in(line: str) -> list[str]:
    return [wording.id for wording, _ in catalogue().matches(line, None)]


def test_each_pattern_finds_its_lines_and_their_captures() -> None:
    wrong = [fault for entry in ENTRIES for fault in faults(entry)]
    assert not wrong, "\n".join(wrong)


def test_every_one_is_in_the_catalogue() -> None:
    assert {entry.wording for entry in ENTRIES} == set(catalogue().wordings)


GOOD: dict[str, Any] = {
    "id": "x",
    "source": {"java": "KafkaX"},
    "literal": "lost",
    "pattern": r"(?P<records>\d{1,9}) records? lost",
    "examples": [{"line": "3 records lost", "captures": {"records": "3"}}],
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"examples": []}, "it has no example: add `examples"),
        ({"literal": "Lost"}, "its literal is not in its example '3 records lost'"),
        ({"literal": "%lists%"}, "its literal is not in its example '3 records lost'"),
        ({"pattern": "record lost"}, "its pattern does not match its example"),
        ({"pattern": r"\d{1,9} records? lost"}, "its pattern captures {} of '3 records lost'"),
        ({"pattern": r"(?P<records>\d{1,9}) (records?) lost"}, "a group of its pattern has no name"),
        ({"source": {"cobol": "x"}}, "source must name a library"),
        ({"source": {"sarama": "x.go"}}, "sarama has a pattern now: take sarama out of `no_pattern`"),
    ],
)
def test_a_wrong_one_is_named_with_its_file_and_what_to_do(change: dict[str, Any], fault: str) -> None:
    meaning = msgspec.convert(
        {"says": "x", "wordings": [{**GOOD, **change}], "no_pattern": {"sarama, kafkajs": "They do not count."}},
        Meaning,
    )
    found = list(faults(Entry("modes/a/mode.toml", "lines.lost, wording x", meaning, meaning.wordings[0])))
    assert [text.partition(": ")[0] for text in found] == ["modes/a/mode.toml, lines.lost, wording x"] * bool(fault)
    assert all(fault in text for text in found)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"literal": 3}, "modes/a/mode.toml: lines.lost, wording x, literal: Expected `str`, got `int`"),
        ({"patern": "x"}, "modes/a/mode.toml: lines.lost, wording x: Object contains unknown field `patern`"),
    ],
)
def test_an_unreadable_file_is_reported_with_the_wrong_entry(wrong: dict[str, Any], fault: str) -> None:
    with pytest.raises(CatalogueError) as raised:
        meanings({"lost": {"says": "x", "wordings": [{**GOOD, **wrong}]}}, Meaning, "modes/a/mode.toml: lines.")
    assert str(raised.value) == fault


@pytest.mark.parametrize("line", INNOCENT)
def test_lines_of_applications_hold_no_wording(line: str) -> None:
    assert words_in(line) == []


def test_a_line_of_another_wording_is_not_mistaken_for_one_on_topics() -> None:
    (of_partition,) = (entry.wording for entry in ENTRIES if entry.wording.id == "partition-not-in-metadata")
    assert words_in(of_partition.examples[0].line) == ["partition-not-in-metadata"]


def test_two_of_one_name_are_refused() -> None:
    twice = Meaning("x", (Wording("x", {}, "a", "a"), Wording("x", {}, "b", "b")))
    with pytest.raises(CatalogueError, match="two log patterns have the id x"):
        Catalogue([twice])


@pytest.mark.parametrize("name", AROUND)
def test_what_runs_a_client_passes_its_words_on(name: str) -> None:
    text, wording = AROUND[name]
    assert wording in [found.id for found, _ in catalogue().matches(text, None)]


OF_MODES = {line for mode in modes().values() for line in mode.lines}


def test_every_library_has_a_wording_for_what_modes_rest_on_or_a_reason_why_not() -> None:
    for entry in {e.meaning: e for e in ENTRIES if e.meaning in OF_MODES}.values():
        source = {library for wording in entry.meaning.wordings for library in wording.source}
        missing = [library for library in LIBRARIES if library not in source and source & {*LIBRARIES}]
        assert sorted(no_pattern(entry.meaning)) == sorted(missing), (
            f"{entry.file}, {entry.key}: `no_pattern` of this log event must name each library without a pattern, with "
            f"the reason; these are {', '.join(missing)}"
        )


def test_numbers_of_lines_have_few_digits() -> None:
    """Patterns match numbers of at most 19 digits, because no client logs longer numbers."""
    for wording in catalogue().wordings:
        digits = re.findall(r"\(\?P<\w+>-?(?:\\d|\[\\d\.\])([+*]|\{\d+,\d+\})", with_parts(wording.pattern).pattern)
        few = all(repeats not in "+*" and int(repeats[1:-1].split(",")[1]) <= 19 for repeats in digits)
        assert few, wording.id


def test_hostile_text_costs_no_more_than_its_length() -> None:
    for wording in (one for one in catalogue().wordings if one.pattern):
        parts = [wording.literals[0], "[", "(", "a", "0", " ", "\n\t", "with correlation id 1 : {", "127.0.0.1:9092"]
        pattern = with_parts(wording.pattern)
        started = time.process_time()
        for part in parts:
            pattern.search((wording.literals[0] + " " + part * 20_000)[:25_000])
        assert time.process_time() - started < 1.0, wording.id


def test_what_libraries_log_without_a_wording_is_decided_one_by_one() -> None:
    listed = unworded.entries()
    assert len({(entry.library, entry.literal) for entry in listed}) == len(listed) > 500
    assert {entry.decision for entry in listed} == {*unworded.DECISIONS}
    assert all(entry.library in unworded.SOURCES and entry.reason.strip() for entry in listed)
    now_worded = [entry.literal for entry in listed if unworded.is_worded(entry.library, entry.literal)]
    assert now_worded == [], "a log pattern finds these now: remove them from tests/golden/unworded.txt"


SOURCE = {
    "clients/src/main/java/a/Client.java": (
        'log.debug("not {}", a);\nlog.warn("Lost {} records " +\n    "of {}", n, topic);\n'
    ),
    "src/rdkafka_x.c": (
        'rd_rkb_log(rkb, LOG_WARNING, "GONE",\n  "Lost %" PRId64 " of \\"%s\\"", n, t);\nrd_rkb_dbg(b, X, "Y", "no");\n'
    ),
    "kafka/x.py": "log.error('Lost %s'\n          ' records', n)\nlog.info('no')\n",
}


@pytest.mark.parametrize(
    ("library", "literals"),
    [("java", ["Lost … records of …"]), ("librdkafka", ['Lost … of "…"']), ("kafka-python", ["Lost … records"])],
)
def test_literals_of_a_librarys_sources_are_read_whole(library: str, literals: list[str], tmp_path: Path) -> None:
    for name, text in SOURCE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    assert list(unworded.literals(library, f"{tmp_path}/.git", "HEAD")) == literals
