"""`diagnose` gives a recording the same verdict, whatever shape the recording's files have."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from clienthealth.diagnose.attachments import archives
from clienthealth.diagnose.examine import examine
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.diagnose.story import input_line
from clienthealth.model.errors import InputError
from clienthealth.settings import Settings
from tests.support.attachments import ARCHIVES, AROUND_LINES, LAYOUTS, log, statuses, unpacked, worst

DEADLOCK, BLOCKED, LOOP = "deadlock-4.1", "send-blocked-topic-4.1", "shutdown-loop-a"
METADATA, CALLBACK = "send-blocked-on-metadata", "producer-callback-deadlock"
LOG = log(BLOCKED, 250)


@pytest.fixture(scope="module")
def log_verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    file = tmp_path_factory.mktemp("plain") / "app.log"
    file.write_text(LOG)
    return statuses(file)[0]


@pytest.mark.parametrize("name", AROUND_LINES)
def test_what_stands_around_lines_changes_no_verdict(
    name: str, tmp_path: Path, log_verdicts: dict[str, dict[str, str]]
) -> None:
    file = tmp_path / "app.log"
    file.write_text(AROUND_LINES[name](LOG), newline="")
    by_mode, inputs = statuses(file)
    assert by_mode == log_verdicts
    assert worst(by_mode, METADATA) == "confirmed"
    assert not inputs["app.log"].unread


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout_of_entries_is_read(name: str, tmp_path: Path) -> None:
    file = tmp_path / "app"
    file.write_text(LAYOUTS[name](LOG))
    by_mode, inputs = statuses(file)
    assert worst(by_mode, METADATA) == "confirmed"
    assert inputs["app"].timed is (name != "no time")
    assert not inputs["app"].unread


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(encoding: str, tmp_path: Path, log_verdicts: dict[str, dict[str, str]]) -> None:
    file = tmp_path / "app.log"
    file.write_bytes(LOG.replace("\n", "\r\n").encode(encoding))
    assert statuses(file)[0] == log_verdicts


@pytest.mark.parametrize("name", ["app.log", "README.md", "truth.json", "log.doc"])
def test_latin_1_in_a_file_of_any_name(name: str, tmp_path: Path, log_verdicts: dict[str, dict[str, str]]) -> None:
    file = tmp_path / name
    file.write_bytes(("2026-11-21 07:43:53,000 INFO  [main] app - für öl\n" + LOG).encode("latin-1"))
    assert statuses(file)[0] == log_verdicts


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, str]]]:
    folder = unpacked(DEADLOCK, tmp_path_factory.mktemp("in"))
    (folder / "architecture.pdf").write_bytes(b"%PDF-1.7")
    (folder / "Main.class").write_bytes(b"\xca\xfe\xba\xbe\0\0")
    return folder, statuses(folder)[0]


@pytest.mark.parametrize("ending", ARCHIVES)
def test_archives(ending: str, attached: tuple[Path, dict[str, dict[str, str]]], tmp_path: Path) -> None:
    folder, plain = attached
    packed = tmp_path / f"support.{ending}"
    packed.write_bytes(ARCHIVES[ending](folder))
    by_mode, inputs = statuses(packed)
    assert by_mode == plain
    assert worst(by_mode, CALLBACK) == "confirmed"
    skipped = {name.rpartition("/")[2]: given.what for name, given in inputs.items() if given.left_out}
    assert (skipped["architecture.pdf"], skipped["Main.class"]) == ("a PDF", "a Java class")
    assert ("screenshot.png" in skipped) is (ending == "nested.zip")


def test_what_is_encrypted_in_an_archive_is_named_and_the_rest_is_read(
    tmp_path: Path, log_verdicts: dict[str, dict[str, str]]
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("secret.log", "x")
        archive.writestr("app.log", LOG)
    content = bytearray(packed.getvalue())
    # Mark the archive's first member as encrypted.
    content[content.index(b"PK\x03\x04") + 6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "support.zip").write_bytes(content)
    by_mode, inputs = statuses(tmp_path / "support.zip")
    assert by_mode == log_verdicts
    assert {name.rpartition("/")[2]: [*given.unread] for name, given in inputs.items()} == {
        "app.log": [],
        "secret.log": ["encrypted"],
    }


def test_folders_that_sort_files_are_of_one_process(tmp_path: Path) -> None:
    folder = unpacked(DEADLOCK, tmp_path)
    plain, _ = statuses(folder)
    (folder / "logs").mkdir()
    (folder / "threaddumps").mkdir()
    (folder / "app.log").rename(folder / "logs" / "app.log")
    for dump in folder.glob("jstack-*"):
        dump.rename(folder / "threaddumps" / dump.name)
    assert statuses(folder)[0] == plain


def test_folders_of_pods_in_a_folder_that_sorts_files_are_processes(tmp_path: Path) -> None:
    dump = min(unpacked(DEADLOCK, tmp_path).glob("jstack-*"))
    for pod in ("billing-a1", "billing-b2"):
        (tmp_path / "case" / "logs" / pod).mkdir(parents=True)
        shutil.copy(dump, tmp_path / "case" / "logs" / pod)
    found = examine([tmp_path / "case"], Settings())
    assert {client.instance for client, _ in found.clients} == {"billing-a1", "billing-b2"}
    assert {given.name for given in found.inputs} == {f"case/logs/billing-{pod}/{dump.name}" for pod in ("a1", "b2")}


def test_attachments_with_equal_names_are_all_read(tmp_path: Path) -> None:
    message = EmailMessage()
    message.set_content("The logs of both hosts.")
    for text in (LOG, "2026-11-20 10:12:00,000 INFO  [http-1] shop.Orders - order accepted\n"):
        message.add_attachment(text.encode(), maintype="text", subtype="plain", filename="app.log")
    (tmp_path / "ticket.eml").write_bytes(message.as_bytes())
    by_client, inputs = statuses(tmp_path / "ticket.eml")
    assert {"ticket.eml/app.log", "ticket.eml/_app.log"} <= inputs.keys()
    assert worst(by_client, METADATA) == "confirmed"


def test_a_member_below_a_file_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "case.tar", "w") as archive:
        for name in ("app", "app/app.log", "日" * 90 + ".log"):
            member = tarfile.TarInfo(name)
            member.size = len(LOG.encode())
            archive.addfile(member, io.BytesIO(LOG.encode()))
    _, inputs = statuses(tmp_path / "case.tar")
    assert [given.name for given in inputs.values() if given.unread] == ["case.tar/app/app.log"]
    assert len(inputs) == 3


def test_files_that_are_given_together_are_of_one_process(tmp_path: Path) -> None:
    folder = unpacked(DEADLOCK, tmp_path)
    assert statuses(*sorted(folder.iterdir()))[0] == statuses(folder)[0]


def test_standard_input(tmp_path: Path, log_verdicts: dict[str, dict[str, str]]) -> None:
    text = LOG.encode()
    assert statuses(Path("-"), stdin=text)[0] == log_verdicts
    assert statuses(Path("-"), stdin=gzip.compress(text))[0] == log_verdicts
    folder = unpacked(DEADLOCK, tmp_path)
    assert worst(statuses(Path("-"), stdin=ARCHIVES["zip"](folder))[0], CALLBACK) == "confirmed"


def test_zst(tmp_path: Path, log_verdicts: dict[str, dict[str, str]]) -> None:
    tool = shutil.which("zstd")
    if tool is None:
        pytest.skip("no zstd here")
    file = tmp_path / "app.log"
    file.write_text(LOG)
    subprocess.run([tool, "-q", "--rm", file], check=True)
    by_mode, inputs = statuses(tmp_path / "app.log.zst")
    if importlib.util.find_spec("zstandard") or importlib.util.find_spec("compression"):
        assert by_mode == log_verdicts
    else:
        assert any("pip install zstandard" in why for why in inputs["app.log.zst"].unread)


def test_several_writers_are_distinguished(tmp_path: Path) -> None:
    lines = LOG.splitlines()
    broker = "broker-1 | [2026-11-21 07:43:53,123] INFO [Log] Rolled new log segment (kafka.log.Log)"
    mixed = [line for own in lines for line in (f"web-1    | {own}", broker)]
    file = tmp_path / "compose.log"
    file.write_text("\n".join(mixed) + "\n")
    assert worst(statuses(file)[0], METADATA) == "confirmed"


def test_lines_that_stern_passes_on_keep_their_times(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text("".join(f"orders-7d9f8b6c5-x2x7q orders {line}\n" for line in LOG.splitlines()))
    by_mode, inputs = statuses(file)
    assert worst(by_mode, METADATA) == "confirmed"
    assert inputs["app.log"].timed and inputs["app.log"].start_ms is not None


def test_an_empty_answer_does_not_get_the_time_of_another(tmp_path: Path) -> None:
    request = {"mbean": "kafka.producer:type=producer-metrics,client-id=p", "type": "read"}
    absent = [{"request": request, "status": 404, "error": "No MBean"}]
    there = [
        [{"request": request, "status": 200, "timestamp": 1_795_200_000 + at, "value": {"select-total": 100.0 + at}}]
        for at in (0, 10, 20)
    ]
    file = tmp_path / "jolokia.json"
    file.write_text("\n".join(json.dumps(answer, indent=2) for answer in (absent, *there)))
    read = statuses(file)[1]["jolokia.json"]
    assert (read.start_ms, read.end_ms, read.timed) == (1_795_200_000_000, 1_795_200_020_000, True)


def test_json_lines_among_text_are_read_one_by_one(tmp_path: Path) -> None:
    text = LOG.splitlines()
    as_json = LAYOUTS["JSON lines"](LOG).splitlines()
    file = tmp_path / "app.log"
    file.write_text("\n".join([*text[:3], "{main} is no JSON", *as_json]) + "\n")
    by_mode, inputs = statuses(file)
    assert worst(by_mode, METADATA) == "confirmed"
    assert not inputs["app.log"].unread


def test_a_stack_below_a_repeated_line_is_not_of_the_line_before(tmp_path: Path) -> None:
    warning = (
        "WARN  [kafka-producer-network-thread | orders] o.a.k.c.NetworkClient - [Producer clientId=orders] Error while"
    )
    failed = (
        "2026-11-20 10:02:10 ERROR [scheduling-1] shop.Outbox - send failed\n"
        "org.apache.kafka.common.errors.TimeoutException: Topic ordres not present in metadata after 300 ms.\n"
    )
    text = "2026-11-20 10:00:00 INFO [main] o.a.k.c.producer.KafkaProducer - [Producer clientId=orders] Instantiated.\n"
    for number in range(3):
        text += (
            f"2026-11-20 10:02:10 {warning} fetching metadata with correlation id {number} : {{ordres=UNKNOWN_TOPIC}}\n"
        )
        text += failed
    (tmp_path / "app.log").write_text(text)
    (verdicts,) = (by_mode for by_mode in statuses(tmp_path / "app.log")[0].values() if METADATA in by_mode)
    assert (verdicts[METADATA], verdicts.get(CALLBACK)) == ("suspected", "unknown")


def test_a_dump_within_a_log(tmp_path: Path) -> None:
    folder = unpacked(DEADLOCK, tmp_path)
    dumps = "".join(dump.read_text() for dump in sorted(folder.glob("jstack-during*")))
    lines = log(DEADLOCK).splitlines(keepends=True)
    file = tmp_path / "stdout.log"
    file.write_text("".join([*lines[:100], dumps, *lines[100:]]))
    assert worst(statuses(file)[0], CALLBACK) == "confirmed"
    file.write_text(AROUND_LINES["compose"](file.read_text()))
    assert worst(statuses(file)[0], CALLBACK) == "confirmed"


def test_a_row_with_labels_and_without_values_is_a_line(tmp_path: Path) -> None:
    text = "WARN [main] o.a.k.NetworkClient - [Producer clientId=p] Connection to node 1 could not be established."
    rows = [{"stream": {"app": "orders"}, "time": f"2026-11-20T20:00:0{second}Z", "message": text} for second in (0, 1)]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"results": rows}))
    (given,) = examine([file], Settings()).inputs
    assert (given.used, given.read) == (2, 2)


def test_an_event_that_is_no_xml_stays_among_the_others(tmp_path: Path) -> None:
    text = "[Producer clientId=p] Connection to node 1 could not be established. Broker may not be available."
    event = '<log4j:event logger="o.a.k.NetworkClient" timestamp="{}" level="WARN"><log4j:message>{}</log4j:message>'
    texts = (text, f"{text} <init>", text)
    lines = [event.format(1795204800000 + at, one) + "</log4j:event>" for at, one in enumerate(texts)]
    file = tmp_path / "log.xml"
    file.write_text("\n".join([*lines, event.format(1, text)]) + "\n")
    (given,) = examine([file], Settings()).inputs
    assert (given.what, given.used, given.read) == ("log (in XML)", 3, 3)


def test_dumps_as_json_each_on_its_line(tmp_path: Path) -> None:
    dump = (Path(__file__).parents[1] / "dump_shapes" / "py-spy.json").read_text()
    file = tmp_path / "dumps.jsonl"
    file.write_text(f"{json.dumps(json.loads(dump))}\n" * 2)
    (given,) = examine([file], Settings()).inputs
    assert (given.what, given.used) == ("py-spy dump (JSON)", 2)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = unpacked("healthy-4.1", tmp_path)
    assert worst(statuses(folder)[0], CALLBACK) == "ok"
    (folder / "more.log").write_bytes(bytes(range(256)) * 20)
    by_mode, inputs = statuses(folder)
    assert worst(by_mode, CALLBACK) == "unknown"
    assert list(inputs["healthy-4.1/more.log"].unread) == ["binary, not text"]
    (folder / "more.log").unlink()
    (folder / "rest.7z").write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(30))
    assert worst(statuses(folder)[0], CALLBACK) == "unknown"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"request": {"mbean": "kafka.producer:type=producer-metrics,client-id=p"}, "value": {"a', "truncated-json"),
        (
            '{\n "request": {},\n "value": {\n  "kafka.producer:client-id=billing": {\n   "waiting-threads": 0,\n',
            "truncated-json",
        ),
        ('{\n "scope": "org.apache.kafka.producer",\n "metrics": [1,, 2]\n}\n', "malformed-json"),
        ('> {"client_id": "p", "metrics": {"producer-metrics/waiting-threads{client-id=p', "truncated-json"),
    ],
)
def test_json_with_an_error_in_it_is_named(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "jolokia.json"
    file.write_text(text)
    by_mode, inputs = statuses(file)
    assert (by_mode, list(inputs["jolokia.json"].unread)) == ({}, [why])


STORED = b"ERROR [Producer clientId=p] TimeoutException: Topic orders not present in metadata after 60000 ms.\n"


@pytest.mark.parametrize(
    "text",
    [
        b'{"@ti\xcc\xccmestamp": "2026-11-20T18:40:31.204Z", "message": "' + STORED.strip() + b'"\n',
        b"time\rstamp,message,timestamp\r\n2026-11-20T18:40:30Z," + STORED.strip() + b"\r,2026-11-20T18:40:30Z\n",
        b"timestamp,message\r\n2026-11-20T18:40:30Z," + STORED.strip() + b"\r2026-11-20T18:40:31Z,b\n",
        b'timestamp,message\n2026-11-20T18:40:30Z,"' + STORED.strip() + b"x" * 140_000 + b'"\n',
        b"ffer_available_bytes=3 1795\nprometheus,client_id=p,host=h,url=http://p:9404/metrics "
        b"kafka_producer_producer_metrics_waiting_threads=1 1795200030000000000\n",
        b'Time,"kafka.producer:type=producer-metrics,client-id=p:waiting-threads"\n1795200030\r000,1.0\n',
    ],
)
def test_text_that_was_damaged_is_read_as_far_as_it_goes(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_bytes(text)
    (given,) = statuses(file)[1].values()
    assert given.used or given.left_out or given.unread


def test_what_has_no_time_claims_none(tmp_path: Path) -> None:
    text = LAYOUTS["no time"](LOG).encode()
    diagnosis = examine([Path("-")], Settings(), io.BytesIO(text))
    verdicts = [v for _, client_verdicts in diagnosis.clients for v in client_verdicts if v.unhealthy]
    assert verdicts
    for verdict in verdicts:
        assert verdict.since_ms is None
        assert not any(re.search(r"\bin \d", re.sub('"[^"]*"', "", fact.text)) for fact in verdict.evidence)


def test_a_bomb_does_no_harm(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.log.gz"
    bomb.write_bytes(gzip.compress(b"2026-11-20 18:40:31 INFO boom\n" * (1 << 16)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives, "BASE_BYTES", 1 << 10)
        _, inputs = statuses(bomb)
    (given,) = inputs.values()
    assert any("bomb" in why for why in given.unread)


def test_names_in_archives_are_harmless() -> None:
    assert archives.safe("../../etc/passwd") == Path("etc/passwd")
    assert archives.safe("/abs\\..\\x") == Path("abs/x")


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        statuses(tmp_path / "absent")


def test_evidence_names_the_line_that_is_quoted_not_the_head_of_its_entry(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    entry = [
        "2026-11-20 20:00:00,000 ERROR [main] shop.Order - not sent",
        "java.lang.RuntimeException: not sent",
        "\tat shop.Order.send(Order.java:7)",
        "Caused by: org.apache.kafka.common.errors.TimeoutException: "
        "Topic orders not present in metadata after 60000 ms.",
        "\tat org.apache.kafka.clients.producer.KafkaProducer.waitOnMetadata(KafkaProducer.java:1)",
    ]
    for before, wrap in ((2, "{}"), (4, "web-1 | {}")):
        heads = [f"2026-11-20 19:59:5{n},000 INFO  [main] shop.Order - fine" for n in range(before)]
        file.write_text("\n".join(wrap.format(line) for line in [*heads, *entry]) + "\n")
        diagnosis = examine([file], Settings())
        facts = [fact for _, verdicts in diagnosis.clients for v in verdicts if v.unhealthy for fact in v.evidence]
        assert {fact.source.offset for fact in facts if fact.source is not None} == {before + 3}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: f"> {line}",
        lambda line: f"    {line}",
        lambda line: f"Line 2499: {line}" if line[:2] == "20" else line,
        lambda line: f"2499:{line}" if line[:2] == "20" else line,
        lambda line: f"**{line[:23]}** {line[24:]}" if line[:2] == "20" else line,
        lambda line: f"```{line}" if line.startswith("2026-11-21 07:43:53") else line,
        lambda line: re.sub(r"(org\.apache\.kafka[\w.]+\.\w+)", r"[\1](http://\1)", line),
        lambda line: re.sub(r"([\[\]_])", r"\\\1", line),
    ],
)
def test_what_mail_and_markdown_put_around_lines_is_taken_off(
    wrap: Callable[[str], str], tmp_path: Path, log_verdicts: dict[str, dict[str, str]]
) -> None:
    file = tmp_path / "app.log"
    file.write_text("".join(wrap(line) + "\n" for line in LOG.splitlines()))
    by_mode, inputs = statuses(file)
    assert by_mode == log_verdicts
    assert inputs["app.log"].dated and inputs["app.log"].timed


def test_a_clock_without_a_day_joins_what_else_the_process_has_attached(tmp_path: Path) -> None:
    folder = unpacked(DEADLOCK, tmp_path)
    plain = examine([folder], Settings())
    file = folder / "app.log"
    file.write_text(re.sub(r"(?m)^\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d),(\d{3})", r"\1.\2", file.read_text()))
    assert re.match(r"\d\d:\d\d:\d\d\.\d{3} ", file.read_text())
    clocked = examine([folder], Settings())

    def onsets(diagnosis: Diagnosis) -> list[tuple[str, str, str, int | None]]:
        return [(c.client_id, v.mode, v.status, v.since_ms) for c, verdicts in diagnosis.clients for v in verdicts]

    assert onsets(clocked) == onsets(plain)
    by_name = {attached.name.rpartition("/")[2]: attached for attached in clocked.inputs}
    assert by_name["app.log"].dated
    assert by_name["app.log"].start_ms == {a.name: a for a in plain.inputs}[by_name["app.log"].name].start_ms
    (alone,) = examine([file], Settings()).inputs
    assert not alone.dated and "on an unknown day" in input_line(alone)


def test_a_missing_time_is_not_the_files(tmp_path: Path) -> None:
    file = tmp_path / "line.txt"
    file.write_text("[Producer clientId=p] Bootstrap broker 10.0.0.1:9092 (id: -1 rack: null) disconnected\n")
    diagnosis = examine([file], Settings())
    assert not diagnosis.inputs[0].timed
    assert all(verdict.since_ms is None for _, verdicts in diagnosis.clients for verdict in verdicts)
    assert "time unknown" in input_line(diagnosis.inputs[0])


TRACE = """org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer send callback
\tat org.apache.kafka.connect.runtime.WorkerSourceTask.execute(WorkerSourceTask.java:248)
Caused by: org.apache.kafka.common.errors.TimeoutException: Topic orders.v1 not present in metadata after 60000 ms.
"""
STATUS = {
    "name": "orders",
    "connector": {"state": "RUNNING", "worker_id": "10.1.2.3:8083"},
    "tasks": [{"id": 0, "state": "FAILED", "worker_id": "10.1.2.3:8083", "trace": TRACE}],
}
ANSWER = {
    "offsets": [
        {
            "partition": None,
            "error_code": 50003,
            "error": "Expiring 1 record(s) for demo-0: 30018 ms has passed since batch creation",
        }
    ]
}
EVENT = {
    "timestamp": "2024-03-02T10:11:12Z",
    "exception": {
        "values": [{"type": "TimeoutException", "value": "Topic orders not present in metadata after 60000 ms."}]
    },
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("document", "mode"), [(STATUS, METADATA), (ANSWER, "delivery-stalled"), (EVENT, METADATA)])
def test_errors_in_json_answers_are_read(
    tmp_path: Path, document: dict[str, object], mode: str, indent: int | None
) -> None:
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(document, indent=indent) + "\n")
    by_client, inputs = statuses(file)
    assert worst(by_client, mode) in ("suspected", "confirmed")
    assert not inputs["answer.json"].unread and inputs["answer.json"].what == "log (from a JSON export)"
