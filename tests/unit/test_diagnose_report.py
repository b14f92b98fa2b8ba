"""`kafka-health diagnose` reports on the terminal, as a page and as JSON."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock

import pytest
from jinja2 import Environment

from clienthealth.diagnose.attachments.opening import CUT, Input
from clienthealth.diagnose.examine import examine
from clienthealth.diagnose.outcome import EXIT_CODES, Diagnosis, exit_code, json_lines
from clienthealth.diagnose.report import PLAIN, Style, colour_of, html_report, report, style_of
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread
from clienthealth.model.verdicts import Evidence, Status, Verdict
from clienthealth.modes import modes
from clienthealth.ops import cli
from clienthealth.ops.cli import _stderr
from clienthealth.read.logs.dump_formats import dumps_in
from clienthealth.settings import Settings

RECORDINGS = Path(__file__).parents[1] / "recordings"
SHAPES = Path(__file__).parents[1] / "dump_shapes"
CLIENT = Client("orders", "h", "h:1", "order-producer", "producer", "java", "3.9.1")
DUMP = Source("h:1/jstack.txt", 0, 0)
DUMP_TEXT = """\
Full thread dump X:

"kafka-producer-network-thread | order-producer" #12 prio=5 tid=0x1
   java.lang.Thread.State: WAITING (parking)
\tat java.util.concurrent.CountDownLatch.await(CountDownLatch.java:230)
\tat org.apache.kafka.clients.producer.internals.ProduceRequestResult.await(ProduceRequestResult.java:76)
\tat shop.Retry.onCompletion(Retry.java:31)
\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:243)
"""
DEADLOCK = Verdict(
    "producer-callback-deadlock",
    "confirmed",
    1_795_200_045_000,
    {"cause": "get-in-callback", "buffer_used_ratio": 0.93},
    (
        Evidence(
            "thread-dump",
            1_795_200_045_000,
            "the I/O thread 'kafka-producer-network-thread | order-producer' is WAITING in ProduceRequestResult.await",
            DUMP,
        ),
        Evidence("log", 1_795_200_046_000, 'a send failed: "Failed to allocate"', Source("h:1/app.log", 0, 41)),
    ),
    ruled_out=("back-pressure (by a thread dump)", "a broker outage (by a thread dump)"),
    not_ruled_out=("a slow callback (a second thread dump ten seconds later would settle it)",),
)
INPUTS = [
    Input("app.log", "log", 30_211, 1_204, 1_795_200_045_000, 1_795_200_075_000, topics=frozenset({"h:1/app.log"})),
    Input("jstack.txt", "thread dump (jstack)", 9, 8, 1_795_200_045_000, 1_795_200_045_000),
    Input("photo.png", "no evidence", left_out={"binary": 1}),
]

VERSION = """\
  Version     java 3.9.1: known bugs cause a failure or look like one
              (KAFKA-10790, KAFKA-19012, KAFKA-19747); upgrade to 4.1.2 or
              newer.
              KAFKA-10790: flush() in a callback waits for the thread on which
              the callback runs; newer versions refuse the call instead. (causes
              producer-callback-deadlock)
              https://issues.apache.org/jira/browse/KAFKA-10790
              KAFKA-19012: If a batch expires while it is sent, its memory is
              reused too early, so records can end up in another topic. (looks
              like delivery-stalled)
              https://issues.apache.org/jira/browse/KAFKA-19012
              KAFKA-19747: A client stops pushing its metrics for good when its
              connection breaks during a push. (looks like producer-not-closed,
              consumer-stalled)
              https://issues.apache.org/jira/browse/KAFKA-19747
              end-of-support: Apache Kafka fixes bugs only in its last three
              releases, so this version gets no more fixes. https://cwiki.apache
              .org/confluence/display/KAFKA/Time+Based+Release+Plan
"""

REPORT = f"""\
app.log: log; 1,204 of 30,211 lines used; 2026-11-20 18:40:45 to 18:41:15 UTC
jstack.txt: thread dump (jstack); 8 of 9 lines used; 2026-11-20 18:40:45 UTC
photo.png: no evidence; left out: 1 binary

CONFIRMED  order-producer  (orders, producer, java 3.9.1)
  Confirmed   producer-callback-deadlock, since 2026-11-20 18:40:45 UTC. The
              producer's I/O thread is stuck in one of its own callbacks, so
              nothing is sent any more.
  Because     2026-11-20 18:40:45 UTC, thread dump: the I/O thread
              'kafka-producer-network-thread | order-producer' is WAITING in
              ProduceRequestResult.await (jstack.txt:3)
                at ProduceRequestResult.await (ProduceRequestResult.java:76)
                at shop.Retry.onCompletion (Retry.java:31)
                at Sender.run (Sender.java:243)
              2026-11-20 18:40:46 UTC, log: a send failed: "Failed to allocate"
              (app.log:42)
  Cause       A callback calls get() on the only I/O thread; no other thread
              could deliver the result.
  Known       buffer used ratio 93%
  Ruled out   back-pressure, a broker outage (by a thread dump)
  Left open   a slow callback (a second thread dump ten seconds later would
              settle it)
  What to do  Restart the process, and change the callback so that it never
              waits: no get(), flush() or blocking send() inside it; hand a
              retry to another thread.
  Runbook     kafka-health explain producer-callback-deadlock
{VERSION}  Healthy     send-blocked-on-metadata"""

CANNOT_JUDGE = f"""\
CANNOT JUDGE  order-producer  (orders, producer, java 3.9.1)
{VERSION}  Not judged  producer-callback-deadlock: the I/O thread looks healthy, but
              there is no second dump ten seconds later
  Next        run jcmd PID Thread.print twice, ten seconds apart, and save both
              dumps in one file"""

NOTHING = """\
notes.txt: text; 0 of 7 lines used

CANNOT JUDGE
              no input is about a Kafka client
  Next        dump all threads of the process twice, ten seconds apart, into one
              file (jcmd PID Thread.print for Java, py-spy dump --pid PID for
              Python, /debug/pprof/goroutine?debug=2 for Go)"""


NOTHING_HERE = "no input is about a Kafka client"


def test_the_report_shows_input_failure_evidence_and_advice() -> None:
    clients = [(CLIENT, [DEADLOCK, Verdict("send-blocked-on-metadata", "ok")])]
    assert report(Diagnosis(clients, INPUTS, {DUMP: dumps_in(DUMP_TEXT)[0].threads})) == REPORT


def test_what_cannot_be_judged_is_reported_with_reason_and_next_command() -> None:
    reason = "the I/O thread looks healthy, but there is no second dump ten seconds later"
    assert (
        report(Diagnosis([(CLIENT, [Verdict("producer-callback-deadlock", "unknown", reason=reason)])])) == CANNOT_JUDGE
    )
    assert report(Diagnosis([], [Input("notes.txt", "text", 7, 0)])) == NOTHING
    cut = report(Diagnosis([], [Input("notes.txt", "text", 7, 0, unread={CUT: 1})]))
    assert f"perhaps cut: {CUT}" in cut and "could not be read" not in cut
    python = Client("s", "h", "h", "p", "producer", "kafka-python")
    assert "py-spy dump" in report(
        Diagnosis([(python, [Verdict("producer-callback-deadlock", "unknown", reason="x")])])
    )


def test_an_unknown_time_is_not_made_up() -> None:
    inputs = [Input("jstack.txt", "thread dump", 9, 9, 5_000, 5_000, timed=False, topics=frozenset({DUMP.topic}))]
    only = Verdict(DEADLOCK.mode, "confirmed", 5_000, evidence=DEADLOCK.evidence[:1])
    text = report(Diagnosis([(CLIENT, [only])], inputs, {DUMP: dumps_in(DUMP_TEXT)[0].threads}))
    assert "jstack.txt: thread dump; 9 of 9 lines used; time unknown, order kept" in text
    assert "producer-callback-deadlock, time unknown." in text
    assert "1970" not in text and "2026" not in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_asked_and_the_worst_comes_first(width: int) -> None:
    words = "and so on " * 20
    ill = Verdict("producer-callback-deadlock", "suspected", 1_000, {"x": words}, (Evidence("log", 1_000, words),))
    other = Client("s", "h", "h", "another", "producer")
    text = report(
        Diagnosis([(other, [Verdict("producer-not-closed", "unknown", reason=words)]), (CLIENT, [ill])]),
        style=Style(width),
    )
    assert max(map(len, text.splitlines())) <= width
    assert text.startswith("SUSPECTED  order-producer")


def test_drastic_remedies_are_for_what_is_confirmed() -> None:
    for mode in modes().values():
        suspected = mode.explanation(Verdict(mode.id, "suspected"), None).remedy.lower()
        assert not any(word in suspected for word in ("kill", "restart")), mode.id
        assert mode.explanation(Verdict(mode.id, "confirmed"), None).remedy == mode.action


def cause(verdict: Verdict) -> str:
    return modes()[verdict.mode].explanation(verdict, None).cause


def test_the_cause_is_a_sentence_with_what_is_known() -> None:
    mode = "send-blocked-on-metadata"
    assert cause(Verdict(mode, "confirmed", detail={"cause": "topic-missing", "topic": "orders"})) == (
        "The topic orders does not exist on the cluster."
    )
    assert cause(Verdict(mode, "confirmed", detail={"cause": "topic-missing"})).startswith("The topic does not")
    assert cause(Verdict(mode, "confirmed", detail={"cause": "topic-missing", "topic": "{0.x}"})).count("{0.x}") == 1
    blocked = Verdict("cross-topic-blocking", "confirmed", detail={"culprit": "fills", "victims": ["a", "b"]})
    assert cause(blocked) == "The topic fills is not consumed, so its full queue holds up a, b."
    assert cause(Verdict(mode, "suspected", detail={"cause": "unknown"})) == (
        "Metadata does not arrive, and nothing shows whether the topic is missing or no broker can be reached."
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    assert colour_of(Terminal()) and not colour_of(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour_of(Terminal())
    monkeypatch.setenv("COLUMNS", "100")
    assert (style_of(Terminal(), True).width, style_of(io.StringIO(), True)) == (100, PLAIN)
    plain = report(Diagnosis([(CLIENT, [DEADLOCK])], INPUTS))
    painted = report(Diagnosis([(CLIENT, [DEADLOCK])], INPUTS), style=Style(colour=True))
    assert "\x1b[1;31mCONFIRMED\x1b[0m" in painted and "\x1b" not in plain


def test_hostile_text_moves_no_cursor_and_runs_no_script() -> None:
    evil = "\x1b[2J<script>alert(1)</script>\u202e\r\n"
    client = Client(evil, evil, evil, evil, "producer")
    verdict = Verdict("producer-callback-deadlock", "suspected", 1, {evil: evil}, (Evidence("log", 1, evil),))
    inputs = [Input(evil, evil, 1, 1, 10**30, None, left_out={evil: 1})]
    text, page = report(Diagnosis([(client, [verdict])], inputs)), html_report(Diagnosis([(client, [verdict])], inputs))
    assert not {"\x1b", "\r", "\u202e"} & set(text + page)
    assert "<script" not in page and "&lt;script&gt;" in page


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_self_contained_and_has_the_same_content() -> None:
    page = html_report(
        Diagnosis([(CLIENT, [DEADLOCK, Verdict("producer-not-closed", "unknown", reason="r")])], INPUTS, {})
    )
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and tags.addresses == []
    for text in ("order-producer", "confirmed", "A callback calls get()", "1,204 of 30,211", "photo.png", "Not judged"):
        assert text in page
    assert "prefers-color-scheme: dark" in page and "@media print" in page
    assert "CANNOT" not in page and "Cannot judge" in html_report(Diagnosis([], INPUTS))


def verdicts(*statuses: Status) -> tuple[Client, list[Verdict]]:
    return CLIENT, [Verdict("producer-callback-deadlock", status) for status in statuses]


def test_the_exit_code_is_never_healthy_without_a_judgement() -> None:
    assert exit_code(Diagnosis([])) == 3
    assert exit_code(Diagnosis([verdicts("unknown")])) == 3
    assert exit_code(Diagnosis([verdicts("ok"), verdicts("unknown")])) == 3
    assert exit_code(Diagnosis([verdicts("ok", "unknown")])) == 3
    assert exit_code(Diagnosis([verdicts("ok", "ok")])) == 0
    assert exit_code(Diagnosis([verdicts("unknown"), verdicts("suspected")])) == 1


def test_each_json_line_has_its_client_its_inputs_and_what_was_skipped() -> None:
    mine = Input("a.log", "log", 3, 2, process=("orders", "h"))
    foreign = Input("b.log", "log", 3, 2, process=("other", "h"))
    (line,) = json_lines(Diagnosis([(CLIENT, [DEADLOCK])], [mine, foreign, INPUTS[2]]))
    document = json.loads(line)
    assert document["client"]["client_id"] == "order-producer" and document["verdicts"][0]["status"] == "confirmed"
    assert [given["name"] for given in document["inputs"]] == ["a.log"]
    assert document["skipped"] == [
        {
            "name": "photo.png",
            "what": "no evidence",
            "read": 0,
            "used": 0,
            "start_ms": None,
            "end_ms": None,
            "dated": True,
            "timed": True,
            "left_out": {"binary": 1},
            "unread": {},
        }
    ]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clienthealth.ops.cli", "diagnose", *args]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def code_of(*args: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(["diagnose", *args])
    return int(left.value.code or 0)


def test_the_exit_code_shows_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = RECORDINGS / "deadlock-3.9" / "jstack-during3-073659.txt"
    assert code_of(str(dump), "--html", str(tmp_path / "ticket.html")) == 1
    printed = capsys.readouterr()
    assert (printed.out.count("CONFIRMED  order-publisher"), printed.err) == (1, "")
    assert (tmp_path / "ticket.html").read_text(encoding="utf-8").count("ProduceRequestResult.java:76") == 1
    assert code_of(str(SHAPES / "jstack-25.txt"), "--json") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["client"]["client_id"] for line in lines] == ["order-producer"]
    for path, code in (("healthy-3.9/jstack-before1-083042.txt", 3), ("healthy-3.9", 0)):
        assert code_of(str(RECORDINGS / path)) == code
    missing = run(str(tmp_path / "nothing"))
    assert missing.returncode == 2 and missing.stdout == "" and "no such file" in missing.stderr
    assert code_of("--html") == 2
    capsys.readouterr()
    assert code_of("--help") == 0
    assert EXIT_CODES in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("stream", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_how_far_it_has_read_is_shown_on_a_terminal_alone(
    stream: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stderr, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    code_of(str(SHAPES / "jstack-25.txt"))
    assert ("reading jstack-25.txt: 0 of 0 MB" in stream.getvalue()) is shown


def unjudged(name: str) -> tuple[Client, list[Verdict]]:
    client = Client("orders", "h", "h:1", name, "producer", "librdkafka", "2.6.1")
    return client, [
        Verdict("delivery-stalled", "ok"),
        Verdict("producer-callback-deadlock", "unknown", reason="no dump"),
    ]


def test_ok_is_printed_only_if_every_mode_was_judged() -> None:
    text = report(Diagnosis([unjudged("a")]))
    assert text.startswith("NOTHING FOUND IN 1 OF 2 FAILURE MODES  a  (orders, producer, librdkafka 2.6.1)")
    assert "Nothing found in 1 of 2 failure modes" in html_report(Diagnosis([unjudged("a")], []))
    assert report(Diagnosis([verdicts("ok", "ok")])).startswith("OK  order-producer")


def test_clients_with_equal_results_and_inputs_of_one_kind_are_grouped() -> None:
    clients = [unjudged(f"client-{number:02}") for number in range(40)]
    inputs = [Input(f"jstack-{number}.txt", "JVM thread dump", 10, 9, 5_000 * number, 5_000) for number in range(1, 8)]
    short, whole = report(Diagnosis(clients, inputs), style=Style(verbose=False)), report(Diagnosis(clients, inputs))
    assert "client-00, client-01 and 38 more" in short and short.count("Not judged") == 1
    assert "jstack-1.txt, jstack-2.txt and 5 more: 7 × JVM thread dump; 63 of 70 lines used" in short
    assert short.endswith("Shortened: --verbose shows the whole report.") and len(short.splitlines()) < 16
    assert whole.count("Not judged") == 40 and "Shortened" not in whole


def test_a_longer_fact_replaces_the_one_that_it_begins_with() -> None:
    less, more = "6 callers of send() in waitOnMetadata", "6 callers of send() in waitOnMetadata; a was there for 56 s"
    facts = tuple(Evidence("thread-dump", 1_000 * at, text) for at, text in enumerate((less, more)))
    text = report(Diagnosis([(CLIENT, [Verdict("send-blocked-on-metadata", "confirmed", 0, {}, facts)])]))
    assert text.count("6 callers of send()") == 1 and "for 56 s" in " ".join(text.split())


@pytest.mark.parametrize(
    ("library", "asked"),
    [("java", "jcmd"), ("kafka-python", "py-spy"), ("librdkafka", "gdb"), ("sarama", "goroutine")],
)
def test_what_is_asked_for_next_suits_the_library_and_is_not_there_yet(library: str, asked: str) -> None:
    client = Client("orders", "h", "h:1", "a", "producer", library, None)
    unknown = [(client, [Verdict("producer-callback-deadlock", "unknown", reason="x")])]
    assert asked in report(Diagnosis(unknown))
    dumps: dict[Source, list[DumpedThread]] = {Source("h:1/a", 0, 0): [], Source("h:1/b", 0, 0): []}
    text = " ".join(report(Diagnosis(unknown, (), dumps)).split())
    assert "client's log (level INFO) and five minutes of its metrics" in text
    assert ("jcmd" in report(Diagnosis(unknown))) == (library == "java")


def test_lines_that_were_used_are_not_called_nothing() -> None:
    text = " ".join(report(Diagnosis([], [Input("app.log", "log", 100, 7)])).split())
    assert "7 lines of Kafka clients" in text and "no input is about" not in text
    assert "no input is about" in report(Diagnosis([], [Input("app.log", "log", 100, 0)]))


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20 10:00:01,123 INFO [main] o.a.k.c.Metadata - [Producer clientId=a] Cluster ID: xyz",
        "%7|1763632801.123|RECV|ledger#producer-1| [thrd:k:9092/1]: k:9092/1: Received MetadataResponse",
        "\tat org.apache.kafka.clients.NetworkClient.poll(NetworkClient.java:560)",
        "GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG    CONSUMER-ID  HOST  CLIENT-ID",
    ],
)
def test_what_names_a_client_is_not_called_nothing_though_none_of_it_counts(line: str, tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(f"{line}\n{line}\n")
    found = examine([tmp_path], Settings())
    text = " ".join(report(found).split())
    assert "no input is about" not in text and (found.clients or "the inputs name a Kafka client" in text)


def test_a_full_buffer_alone_is_given_as_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "chat.txt"
    file.write_text(
        "we get this since the deployment\norg.apache.kafka.clients.producer.BufferExhaustedException: Failed to "
        "allocate 1024 bytes within the configured max blocking time 60000 ms. Total memory: 33554432 bytes.\n"
    )
    ((_, verdicts),) = examine([file], Settings()).clients
    reasons = {verdict.mode: verdict.reason for verdict in verdicts}
    assert "found no room in the buffer" in (reasons["producer-callback-deadlock"] or "")


def test_a_nameless_line_is_of_the_only_producer_that_a_handle_names(tmp_path: Path) -> None:
    at = 1_795_200_000
    (tmp_path / "app.log").write_text(
        f"%3|{at}.123|FAIL|ledger#producer-1| [thrd:sasl_ssl://k1:9093/bootstrap]: sasl_ssl://k1:9093/bootstrap: SASL "
        "authentication error: Authentication failed (after 312ms in state AUTH_REQ)\n"
        '2026-11-20 18:40:20,000 ERROR ledger delivery failed: KafkaError{str="Local: Message timed out"}\n'
    )
    ((client, verdicts),) = examine([tmp_path], Settings()).clients
    (stalled,) = [verdict for verdict in verdicts if verdict.unhealthy]
    assert (client.client_id, client.kind) == ("ledger", "producer")
    assert (stalled.mode, stalled.detail["cause"]) == ("delivery-stalled", "authentication")


def test_a_forced_close_is_not_called_none_and_the_advice_is_of_the_library() -> None:
    def has_log_data(library: str | None, cause: str) -> str:
        client = Client("orders", "h", "h:1", "a", "producer", library)
        return " ".join(
            report(Diagnosis([(client, [Verdict("producer-not-closed", "suspected", 0, {"cause": cause})])])).split()
        )

    forced = has_log_data("java", "forced-close")
    assert "without closing" not in forced and "ended without close()" not in forced
    assert "reached its time limit" in forced and "give close() more time" in forced
    assert "try-with-resources" in has_log_data("java", "exit-without-close")
    assert "flush() wherever the process can end" in has_log_data("librdkafka", "exit-without-close")
    assert "await stop()" in has_log_data("aiokafka", "exit-without-close")


def test_dumps_are_asked_for_before_a_restart_where_none_is_attached_also_of_what_is_proved() -> None:
    proved = Verdict("producer-callback-deadlock", "confirmed", 0, {}, (Evidence("metric", 1_000, "stood"),))
    client = Client("orders", "h", "h:1", "a", "producer", "kafka-python")
    without = " ".join(report(Diagnosis([(client, [proved])])).split())
    assert "Take thread dumps first" in without and "Next run py-spy dump --pid PID" in without
    attached: dict[Source, list[DumpedThread]] = {Source(f"h:1/{n}", 0, 0): [] for n in range(4)}
    beside = " ".join(report(Diagnosis([(client, [proved])], (), attached)).split())
    assert "thread dump" not in beside.partition("What to do")[2]
    assert "What to do Restart the process" in beside and "Next" not in beside


def test_no_part_of_any_recordings_log_that_names_a_client_is_called_nothing(tmp_path: Path) -> None:
    logs = [path for path in sorted(RECORDINGS.rglob("*.log*")) if path.is_file()]
    parts = 0
    for path in logs:
        lines = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).splitlines()
        naming = [line for line in lines if b"clientId=" in line]
        for part in (naming[:5], naming[-5:]):
            if part:
                (tmp_path / "part.log").write_bytes(b"\n".join(part) + b"\n")
                found = examine([tmp_path / "part.log"], Settings())
                assert NOTHING_HERE not in " ".join(report(found).split()), path
                parts += 1
    assert parts > 50


def test_the_template_of_the_text_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = report(Diagnosis([]))
    monkeypatch.setattr(Environment, "compile", Mock(side_effect=AssertionError("compiled again")))
    assert report(Diagnosis([])) == first
