"""`diagnose` finds the same in a pasted dump or log as in the original file."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.settings import Settings
from tests.support.attachments import log, statuses, worst
from tests.support.pasted import BLOCKS, SEARCHES, TEXTS, cut, entries
from tests.support.recorded import RECORDINGS

CALLBACK, METADATA, LOOP, CLOSED = (
    "producer-callback-deadlock",
    "send-blocked-on-metadata",
    "consumer-shutdown-loop",
    "producer-not-closed",
)
STALLED = "consumer-stalled"
DUMP = (RECORDINGS / "deadlock-3.9" / "jstack-during3-073659.txt").read_text()
THREAD = next(block for block in DUMP.split("\n\n") if '"kafka-producer-network-thread' in block)
HEALTHY = (RECORDINGS / "healthy-3.9" / "jstack-before1-083042.txt").read_text()
IDLE = next(block for block in HEALTHY.split("\n\n") if '"kafka-producer-network-thread' in block)
LOG = log("send-blocked-topic-4.1", 250)


def judged(text: str, tmp_path: Path) -> dict[str, dict[str, str]]:
    file = tmp_path / "paste.txt"
    file.write_text(text, newline="")
    return statuses(file)[0]


@pytest.mark.parametrize("name", [*TEXTS, *BLOCKS])
def test_a_stack_in_any_form_proves_the_deadlock_and_a_healthy_one_nothing(name: str, tmp_path: Path) -> None:
    form = (TEXTS | BLOCKS)[name]
    assert worst(judged(form(THREAD), tmp_path), CALLBACK) == "confirmed"
    for by_mode in judged(form(IDLE), tmp_path).values():
        assert set(by_mode.values()) == {"unknown"}


@pytest.mark.parametrize("name", TEXTS)
def test_a_pasted_log_gives_the_same_verdict(name: str, tmp_path: Path) -> None:
    assert worst(judged(TEXTS[name](LOG), tmp_path), METADATA) == "confirmed"


@pytest.mark.parametrize("name", SEARCHES)
def test_a_log_from_a_search_gives_the_same_verdict(name: str, tmp_path: Path) -> None:
    assert worst(judged(SEARCHES[name](entries(LOG)), tmp_path), METADATA) == "confirmed"


TIMEOUT = "org.apache.kafka.common.errors.TimeoutException: Topic page.views not present in metadata after 60000 ms."
METADATA_TEXTS = (
    f"`10:34:29.761 [main] DEBUG o.a.k.clients.producer.KafkaProducer - Exception occurred during send:\n{TIMEOUT}`\n",
    "09:31:01,162 ERROR app - Exception: Failed to update metadata after 60000 ms.\n",
    f"2026-11-20 09:31:01,162 ERROR app - failed\n{TIMEOUT}\n",
    f"{TIMEOUT}\n\tat shop.Web.post(Web.java:5)\n",
    f"[main] ERROR org.apache.kafka.clients.producer.KafkaProducer - send failed: {TIMEOUT}\n",
    f'{{"error_code":50002,"message":"Kafka error: {TIMEOUT}"}}',
    f'We got:\n\n    {{"error_code":50002,"message":"Kafka error: {TIMEOUT}"}}\n    {{"error_code":50002}}\n',
)
BARE = (
    f"We get this in production:\n{TIMEOUT}\nShould I worry?\n",
    TIMEOUT.replace(" present", "\n> present"),
    TIMEOUT.replace(" present", " \npresent"),
    TIMEOUT.replace(" present", "\n        present"),
    f"We see in the log:\n\n    {TIMEOUT.replace(' present', chr(10) + '    present')}\n\nIt fails each day.\n",
    f"- `Caused by: {TIMEOUT}`\n",
    f"Error: `{TIMEOUT}`\n",
    "kafka.errors.KafkaTimeoutError: KafkaTimeoutError: Failed to update metadata after 60.0 secs.\n",
    f"Since the upgrade we saw this, if the topic is new:\n```\n{TIMEOUT}\n```\nWe lost orders.\n",
)


SOURCE = (
    *(f'    assertThat(log).contains("{TIMEOUT}");\n', f'    fail("{TIMEOUT}");\n', f"    // {TIMEOUT}\n"),
    *(f"    log.warning('{TIMEOUT}')\n", f'    fake = Fake(error=RuntimeError("{TIMEOUT}"))\n'),
    '-    assert "Topic orders not present in metadata after 60000 ms." in log\n'
    '+    raise TimeoutException("Topic orders not present in metadata after 60000 ms.")\n',
)
QUOTING = (
    f"How do I get rid of {TIMEOUT[:-1]}?\n",
    f"The documentation says: where a producer fails with {TIMEOUT} the topic is missing.\n",
    f" * Thrown where the topic is missing:\n * {TIMEOUT}\n",
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        *((text, "confirmed") for text in METADATA_TEXTS),
        *((text, "suspected") for text in (*BARE, *QUOTING)),
        *((text, "") for text in SOURCE),
    ],
)
def test_one_line_of_a_client_is_enough(text: str, status: str, tmp_path: Path) -> None:
    assert worst(judged(text, tmp_path), METADATA) == status


FORCED = "org.apache.kafka.common.KafkaException: Producer is closed forcefully.\n"
TERMINATE = "%4|1726771494.331|TERMINATE|rdkafka#producer-8| [thrd:app]: Producer terminating with 1 message (9 bytes) "
STARTED = (
    "2026-11-20 10:00:00,000 INFO [Producer clientId=p] Closing the Kafka producer with timeoutMillis = 2000 ms.\n"
)
ENDS = (
    (FORCED, "suspected"),
    (f"airflow-worker {TERMINATE}still in queue or transit: use flush()\n", "suspected"),
    (f"[2022/02/28 08:20:44] [ warn] {TERMINATE}still in queue or transit: use flush()\n", "suspected"),
    (STARTED, "unknown"),
    (f"{STARTED}2026-11-20 10:00:00,010 INFO App info kafka.producer for p unregistered\n", "ok"),
)


@pytest.mark.parametrize(("text", "status"), ENDS)
def test_how_a_producer_ended_is_known_from_its_log_alone(text: str, status: str, tmp_path: Path) -> None:
    assert worst(judged(text, tmp_path), CLOSED) == status


def lookups(*milliseconds: int) -> str:
    line = (
        "[2014-12-01 10:00:{:02d},{:03d}] Failed to fetch consumer metadata from a:9092. (kafka.client.ClientUtils$)\n"
    )
    return "".join(line.format(*divmod(ms, 1000)) for ms in milliseconds)


def test_a_few_lines_of_a_storm_are_enough_and_one_a_second_is_none(tmp_path: Path) -> None:
    assert worst(judged(lookups(*range(100, 112)), tmp_path), LOOP) == "suspected"
    assert worst(judged(lookups(*([0] * 50)), tmp_path), LOOP) == "suspected"
    assert worst(judged(lookups(*range(0, 20_000, 1000)), tmp_path), LOOP) == "unknown"
    untimed = "Failed to fetch consumer metadata from 10.0.0.1:9092.\n" * 300
    assert worst(judged(untimed, tmp_path), LOOP) == "unknown"


DESCRIPTIONS = (
    f"After the restart the orders were lost, and the log had `{TIMEOUT}` each minute.\n",
    f'- Logs show: "{TIMEOUT}"\n- Orders are not sent\n',
    f"{TIMEOUT}\n\nHi all, we have this in production since Monday.\n",
    "At the end the client reported `1200 messages still in queue or transit`, so they are lost.\n",
    f"## Symptoms\n  * `{TIMEOUT} `\n  * No offset is committed.\n",
    f'- 不配置日志，可以看到报"{TIMEOUT}"错误\n',
    f'Orders were lost on our cluster with this report:\n\n "send failed: {TIMEOUT}"\n',
    f'The outbox was still looping (send,\n"{TIMEOUT}" → send, 1271 times observed).\n',
    f'# Got "{TIMEOUT}" when we write from Spark\n\nIt happened again today.\n',
    f"We hit this again today: {TIMEOUT.replace('page.views', '<topic>')}\n",
    "We hit this again today:\nTimeoutException: Expiring xx record(s) for <topic>-3:120000 ms has passed since batch "
    "creation\n",
    'Since Monday the producer is getting "message timed out" errors on two partitions.\n',
    "We constantly get ```Local Message Timed out``` since Monday.\n",
    f"One common symptom is this warning:\n\n```\n2026-11-20 09:31:01,162 ERROR app - {TIMEOUT}\n```\nIf you see it:\n",
    "Poller stops reading messages after an error\n\nVersion 1.2 of the service, on Kubernetes.\n",
    "We noticed today that the listener no longer receives records.\n",
    "we saw this:\n\nlib/sync.rb:66:in `send_messages': Failed to send all messages: [#<Poseidon::Message:0x7f>]\n",
)


@pytest.mark.parametrize("text", DESCRIPTIONS)
def test_what_a_person_writes_of_a_failure_suspects_and_proves_nothing(text: str, tmp_path: Path) -> None:
    verdicts = judged(text, tmp_path)
    found = {status for by_mode in verdicts.values() for status in by_mode.values()}
    assert "suspected" in found and "confirmed" not in found


SHOWN = (
    f"# Bank transfers of the first quarter, in a language without words for the rule\n```\n$ ./send.sh page.views\n"
    f"{TIMEOUT}\n```\n",
    f"# Run\n```\n512 sent, 88.2 per second, 17.0 ms avg, 310 ms max, 4 failed\n{TIMEOUT}\n```\n{'word ' * 20}\n",
    f"# 일지\n\n파드 13개가 모두 떴는데 주문이 PENDING 에서 넘어가지 않았다. 다른 서비스는 모두 정상이고 지연도 없다."
    f"\n```\n{TIMEOUT}\n```\n",
    f"# Storm\n\nThe spout takes records very slowly, and there is a trace in the log of each of its four workers:"
    f"\n```\n{TIMEOUT}\n```\n",
    f'I got some errors such as " send failed: write error: {TIMEOUT.split(": ")[1]}" when I upgraded the client.\n',
    f"# Тикет 7\n\nБрокер был остановлен. Фактическое поведение: сервис получил ошибку, заказ остался в таблице и "
    f"не был отправлен.\n```\n{TIMEOUT}\n```\n",
    f"# Auditoría\n\nEn la segunda ejecución se observó esto en el registro del servicio, y el pedido no llegó al "
    f"almacén.\n```\n{TIMEOUT}\n```\n",
    f"# Défaut 2\n\nBroker arrêté, la réponse portait un autre code (« {TIMEOUT} »). Mes trois captures ne "
    f"visaient que les exceptions du futur.\n",
    f"# Rollout\n\nThe gateway of the second region restarted and answered nothing for half an hour to the shops.\n"
    f"```\n{TIMEOUT}\n```\n",
)


@pytest.mark.parametrize("text", SHOWN)
def test_output_beside_a_line_or_a_past_tense_reports_it(text: str, tmp_path: Path) -> None:
    assert worst(judged(text, tmp_path), METADATA) == "suspected"


REQUEST = "%5|1634047381.40{}|REQTMOUT|p#producer-1| [thrd:k:9093/2]: k:9093/2: Timed out ProduceRequest in flight "
PERMANENT = "MessageSet with 291 message(s) encountered error: Local: Timed out in queue (actions 0x1)"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (" ".join(f"{REQUEST.format(number)}(after 991ms, timeout #{number})" for number in range(3)), "suspected"),
        (REQUEST.format(0) + "(after 60018ms, timeout #0)", "suspected"),
        (REQUEST.format(0) + "(after 991ms, timeout #0)", "suspected"),
        (f"%7|1634047381.401|MSGSET|rdkafka#producer-1| [thrd:k:9093/2]: k:9093/2: {PERMANENT}", "suspected"),
    ],
)
def test_librdkafka_gives_up_records_with_their_requests(text: str, status: str, tmp_path: Path) -> None:
    found = judged(f"{text}\n", tmp_path)
    assert (worst(found, "delivery-stalled") if found else "unknown") == status


REFUSED_0_9 = (
    "org.apache.kafka.clients.consumer.CommitFailedException: Commit cannot be completed due to group rebalance"
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (f"{REFUSED_0_9}\n\tat shop.Worker.run(Worker.java:5)\n", "suspected"),
        (f"{REFUSED_0_9}\n", "unknown"),
    ],
)
def test_consumers_of_0_9_report_refused_commits_with_their_stack(text: str, status: str, tmp_path: Path) -> None:
    found = judged(text, tmp_path)
    assert (worst(found, "consumer-stalled") if found else "unknown") == status


def test_a_line_that_a_text_explains_still_shows_other_issues(tmp_path: Path) -> None:
    file = tmp_path / "guide.md"
    line = "org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized to access group: billing"
    file.write_text(f"## Common errors\nIf you see this, you need an ACL:\n```\n{line}\n{TIMEOUT}\n```\n")
    found = examine([file], Settings(), io.BytesIO())
    assert [seen.what for of_client in found.also_seen.values() for seen in of_client] == ["authorisation"]
    assert not [v for _, verdicts in found.clients for v in verdicts if v.unhealthy]


INNOCENT = (
    f"[{TIMEOUT}](<https://example.org/questions/1>)\n",
    f'primary="{TIMEOUT}"; mitigation="none"\n',
    f'if err.Error() != "{TIMEOUT}" {{\n',
    f"            # TODO {TIMEOUT}\n",
    f"         * {TIMEOUT}\n         */\n",
    f'        send("test");// without it: {TIMEOUT}\n',
    f"      1.0 what happens if the topic is missing -> {TIMEOUT}\n",
    f" * and hands it back as `{TIMEOUT}`, the same words as for a closed port\n",
    f'Hi all, what does "{TIMEOUT}" mean?\n',
    f'    stop(server, "CWM1003E.*orders", // CWM1003E: it could not be sent. The error is: {TIMEOUT}\n',
    "        'KafkaError{code=_MSG_TIMED_OUT,val=-192,str=\"Local: Message timed out\"} while sending '\n"
    "        'the last records'\n",
    f"| `{TIMEOUT}` | the topic is missing | create it |\n",
    f'"""One sentence for five causes.\n\nThe library says the same of all:\n\n    {TIMEOUT}\n\nIt hides them."""\n',
    f"Do not close the producer early, or you will receive errors like\n```\n{TIMEOUT}\n```\nwithout a word more.\n",
    f"In such cases the common error message is the following::\n\n    {TIMEOUT}\n\nTwo options are available:\n",
    f"After this time you may notice the following message:\n\n```\n{TIMEOUT}```\n\nRaise max.block.ms then.\n",
    f"import kafka.*;\n\nclass App {{\n    App() {{\n    }}\n}}\n\n/*\nOn my laptop:\nCaused by: {TIMEOUT}\n */\n",
    f"## Symptom\n```\n{TIMEOUT}\n```\n## Cause\nThe topic is missing.\n## Solution\nCreate it.\n",
    f"### 症状\n```\n{TIMEOUT}\n```\n### 原因\n...\n",
    f"## 증상\n```\n{TIMEOUT}\n```\n## 해결\n...\n",
    f"**Lỗi phổ biến**\n```\n{TIMEOUT}\n```\n**Nguyên nhân**: ...\n",
    f"<table><tr><th>Error</th><th>Cause</th></tr>\n<tr><td>{TIMEOUT}</td><td>no topic</td></tr></table>\n",
    f"import a\nimport b\nimport c\n'''\n{TIMEOUT}\n'''\n",
    f"            on_delivery(\n                RuntimeError(\n                    '{TIMEOUT}'\n                ),\n",
    f"# Заметки\n\nКаждая тема имеет двенадцать разделов на трёх узлах, и если узла нет, клиент ждёт.\n"
    f"```\n{TIMEOUT}\n```\n",
    f"{TIMEOUT}\n```\nIf you see this error, your topic may be missing: check that it exists.\n"
    "```sh\nkafka-topics.sh\n```\n",
    f"const FAILURES = [\n  'java.io.IOException: closed',\n  '{TIMEOUT[:-1]}',\n];\n",
    f"I think this is harmless at the end of a run, and a later version drops it from its log:\n```\n{TIMEOUT}\n```\n",
    f"# Notas\n\nDos brokers sirven cada tema, y todos los temas tienen doce particiones en tres racks del centro de "
    f"datos.\n\n```\n{TIMEOUT}\n```\n",
    f"### 消费超时\n**原因：** 主题不存在。\n**解决方案：** 创建主题。\n```\n{TIMEOUT}\n"
    f"\tat org.apache.kafka.clients.producer.KafkaProducer.send(KafkaProducer.java:784)\n```\n",
    f"def run():\n    try:\n        send()\n    except KafkaError as error:\n        # {TIMEOUT}\n        pass\n",
    f"### Fallo 3\n```\n{TIMEOUT}\n```\n```bash\nkafka-topics.sh --bootstrap-server b:9092 --list\ndocker ps\n```\n",
    f"I think we want these changes:\n\n* Fix a hang in the list of groups (#3705).\n* Producer: `{TIMEOUT}` is now "
    "reported in time\n",
    "KafkaProducer.flush() within a callback waits for ever: see ProduceRequestResult.await and waitOnMetadata.\n",
    'throw new TimeoutException(String.format("Topic %s not present in metadata after %d ms.", topic, maxWaitMs));\n',
    "\tat java.util.concurrent.CountDownLatch.await(CountDownLatch.java:231)\n"
    "\tat org.apache.kafka.clients.producer.internals.ProduceRequestResult.await(ProduceRequestResult.java:76)\n"
    "\tat org.apache.kafka.clients.producer.internals.FutureRecordMetadata.get(FutureRecordMetadata.java:29)\n"
    "\tat shop.Web.post(Web.java:5)\n",
    "[2020-05-01 10:00:01,123] WARN [Producer clientId=p] Error while fetching metadata with correlation id 1 : "
    "{test=UNKNOWN_TOPIC_OR_PARTITION} (org.apache.kafka.clients.NetworkClient)\n",
    "# Poller stuck in a rebalance\n\nThis article explains what may happen. You might see this if it is slow.\n",
    "# The consumer never receives messages after a restart\nbootstrap.servers=b:9092\ngroup.id=g\n",
    "Retry policies for mail\n\nWe saw this: sending a mail failed. Queue messages are kept in the database.\n",
    "Records not yet sent by the producer - what happens when it is terminated\n\nHello, a question about shutdown.\n",
    "My git push hanged while sending objects.\n",
    "I cannot load the metadata of my photo.\n",
    "Our event listeners stopped firing after an upgrade.\n",
    "We saw the disk buffer exhausted in our nginx proxy.\n",
)


@pytest.mark.parametrize("text", INNOCENT)
def test_text_that_only_mentions_a_failure_accuses_no_client(text: str, tmp_path: Path) -> None:
    verdicts = judged(text, tmp_path)
    assert not {"suspected", "confirmed"} & {status for by_mode in verdicts.values() for status in by_mode.values()}


def test_frames_below_an_exception_are_no_frames_of_the_thread_above(tmp_path: Path) -> None:
    trace = THREAD.partition("State: WAITING (parking)\n")[2]
    for head in ("2026-11-20 18:40:45,123 ERROR [x] y - failed", "java.lang.IllegalStateException: no"):
        verdicts = judged(f"{IDLE}\n{cut('prose about it', 80)}\n\n{head}\n{trace}", tmp_path)
        assert worst(verdicts, CALLBACK) == "unknown"


LEFT = (
    "{} WARN [main] org.apache.kafka.clients.consumer.internals.ConsumerCoordinator - [Consumer clientId=a, groupId=g] "
    "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the "
    "configured max.poll.interval.ms, which typically implies that the poll loop is spending too much time.\n"
)


def test_a_log_that_lost_its_line_ends_is_read_by_entry(tmp_path: Path) -> None:
    entries = ["null)", LEFT.format("2026-04-10 14:51:29.286").strip(), "2026-04-10 15:11:29.967 [main] INFO o.a.k.x"]
    assert worst(judged(" ".join(entries), tmp_path), "consumer-stalled") in {"suspected", "confirmed"}


REFUSED = (
    "ERROR [main] shop.Worker - commit failed: org.apache.kafka.clients.consumer.CommitFailedException: Offset commit "
    "cannot be completed since the consumer is not part of an active group for auto partition assignment"
)
#: Minutes in which a commit is refused. The first tuple has every 6th minute. The second tuple has two pairs of
#: minutes; 6 days lie between the two pairs.
MINUTES = tuple(range(0, 120, 6)), (0, 6, 8640, 8646)


@pytest.mark.parametrize(
    ("minutes", "dated", "times", "incidents"),
    [(MINUTES[0], True, 20, None), (MINUTES[0], False, 20, None), (MINUTES[1], True, 2, 2), ((0,), True, 1, None)],
)
def test_what_cannot_happen_twice_in_a_window_is_counted_over_the_whole_text(
    minutes: tuple[int, ...], dated: bool, times: int, incidents: int | None, tmp_path: Path
) -> None:
    begun = datetime(2026, 3, 2, 8, 0, 5, tzinfo=UTC)
    stamps = [f"{begun + timedelta(minutes=after):%Y-%m-%d %H:%M:%S},123 " if dated else "" for after in minutes]
    file = tmp_path / "app.log"
    file.write_text("".join(f"{stamp}{REFUSED}\n" for stamp in stamps))
    found = examine([file], Settings(), io.BytesIO())
    (verdict,) = [verdict for _, verdicts in found.clients for verdict in verdicts if verdict.unhealthy]
    assert (verdict.mode, verdict.status) == ("consumer-stalled", "suspected")
    assert (verdict.detail["commits_refused"], verdict.detail.get("incidents")) == (times, incidents)
    assert verdict.detail["cause"] == ("rejoins" if times > 1 else "poll-interval-exceeded")
    assert not any(fact.text[0].isdigit() for fact in verdict.evidence)


def test_sends_without_times_that_gave_up_are_counted_by_line(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text(f"ERROR [main] shop.Worker - send failed: {TIMEOUT}\n" * 20)
    found = examine([file], Settings(), io.BytesIO())
    (verdict,) = [verdict for _, verdicts in found.clients for verdict in verdicts if verdict.unhealthy]
    assert (verdict.mode, verdict.detail["failed_sends"]) == (METADATA, 20)


@pytest.mark.parametrize(
    ("times", "since", "incidents"),
    [
        (("2026-11-14 02:00:00,000", "2026-11-20 03:00:00,000"), "2026-11-20T02:55", 2),
        (("2026-11-20 02:00:00,000", "2026-11-20 03:00:00,000"), "2026-11-20T01:55", None),
    ],
)
def test_what_comes_again_days_later_is_another_incident(
    times: tuple[str, ...], since: str, incidents: int | None, tmp_path: Path
) -> None:
    file = tmp_path / "app.log"
    file.write_text("".join(LEFT.format(time) for time in times))
    found = examine([file], Settings(), io.BytesIO())
    (verdict,) = [verdict for _, verdicts in found.clients for verdict in verdicts if verdict.unhealthy]
    assert verdict.mode == "consumer-stalled" and verdict.since_ms is not None
    assert datetime.fromtimestamp(verdict.since_ms / 1000, UTC).isoformat().startswith(since)
    assert verdict.detail.get("incidents") == incidents


SARAMA, KAFKA_GO = "github.com/IBM/sarama", "github.com/segmentio/kafka-go"
GO = "github.com/confluentinc/confluent-kafka-go/v2/kafka"
WAIT = (
    "sync.runtime_Semacquire(0xc000526a58)\n\t/go/sema.go:56\nsync.(*WaitGroup).Wait(0xc000526a50)\n\t/go/wg.go:130\n"
)
UNREAD = f"{SARAMA}.(*asyncProducer).returnSuccesses(0xc00011e690, 0xc007f8dc00)\n\t/go/async_producer.go:988 +0x97\n"
FEEDER = f"{SARAMA}.(*partitionConsumer).responseFeeder(0xc0003fa000)\n\t/go/consumer.go:535 +0x17a\n"
LOCKED = (
    "#0  0x00007ff3db5bcd20 in pthread_rwlock_wrlock () from /lib64/libpthread.so.0\n"
    "#1  0x00000000006289db in rd_kafka_metadata_refresh_topics ()\n#2  0x00000000005bb1b6 in rd_kafka_broker_fail ()\n"
    "#3  0x00000000005c7260 in rd_kafka_broker_thread_main ()\n"
)
AWAITED = (
    "java.util.concurrent.TimeoutException: Timeout after waiting for {} ms.\n"
    "\tat org.apache.kafka.clients.producer.internals.FutureRecordMetadata.get(FutureRecordMetadata.java:78)\n"
)
FEW = "org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the current ISR Set(1) is insufficient\n"
AT, MEMBER = "2026-11-20 10:00:00,000", "[Consumer clientId=a, groupId=g]"
THROWN_OUT = f"{AT} INFO {MEMBER} Attempt to heartbeat failed since member id a-1 with generation 7 is not valid.\n"
PRODUCING = (
    "[Producer clientId=p] Got error produce response with correlation id 9 on topic-partition orders-0, retrying (4 "
    "attempts left). Error: "
)
RETRYING = "[sarama] 2026/11/20 10:00:00 producer/leader/orders/0 state change to [retrying-1]\n"
STOPS = '{"level":"DEBUG","logger":"kafkajs","message":"[Runner] waiting for consumer to finish..."}\n'
UNFLUSHED = (
    f"{AT} ERROR WorkerSourceTask{{id=a-0}} Failed to flush, timed out while waiting for producer to flush outstanding "
    "3 messages (org.apache.kafka.connect.runtime.WorkerSourceTask:509)\n"
)
LOGGED = (
    '"kafka-producer-network-thread | logs" #19 daemon prio=5 os_prio=0 tid=0x1 nid=0x2 waiting on condition [0x3]\n'
    "   java.lang.Thread.State: WAITING (parking)\n\tat sun.misc.Unsafe.park(Native Method)\n"
    "\tat org.apache.kafka.clients.producer.internals.BufferPool.allocate(BufferPool.java:130)\n"
    "\tat org.apache.kafka.clients.producer.KafkaProducer.send(KafkaProducer.java:376)\n"
    "\tat shop.KafkaAppender.append(KafkaAppender.java:117)\n"
    "\tat ch.qos.logback.classic.Logger.warn(Logger.java:720)\n"
    "\tat org.apache.kafka.common.network.Selector.poll(Selector.java:276)\n"
    "\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:191)\n"
)
SENT = "github.com/IBM/sarama.(*syncProducer).SendMessage"
PROFILED = (
    f"goroutine profile: total 9\n{{}} @ 0x43a1c5 0x406a8f\n#\t0x8a3f4d\t{SARAMA}.{{}}+0x8d\t/go/sarama.go:96\n\n"
)
DELVE = "  Goroutine 45 - User: /go/sync_producer.go:96 {} (0x8a3f4e) [{}]\n"
SCALA = (
    '"shop-1" daemon prio=10 tid=0x1 nid=0x2 waiting on condition [0x3]\n   java.lang.Thread.State: WAITING (parking)\n'
    "\tat sun.misc.Unsafe.park(Native Method)\n"
    "\tat java.util.concurrent.LinkedBlockingQueue.put(LinkedBlockingQueue.java:349)\n"
    "\tat kafka.producer.Producer$$anonfun$asyncSend$1.apply(Producer.scala:91)\n"
    "\tat kafka.producer.Producer.{}(Producer.scala:73)\n\tat shop.Orders.publish(Orders.java:12)\n"
)
VERTX = (
    "WARN Thread Thread[vert.x-eventloop-thread-0,5,main] has been blocked for 5023 ms, time limit is 2000 ms\n"
    "io.vertx.core.VertxException: Thread blocked\n\tat java.lang.Object.wait(Native Method)\n"
    "\tat org.apache.kafka.clients.producer.internals.ProducerMetadata.awaitUpdate(ProducerMetadata.java:119)\n"
    "\tat org.apache.kafka.clients.producer.KafkaProducer.{}(KafkaProducer.java:1029)\n"
)
CALLER = (
    '"shop-1" #21 prio=5 tid=0x1 nid=0x2 waiting on condition [0x3]\n'
    "   java.lang.Thread.State: TIMED_WAITING (parking)\n"
    "\tat jdk.internal.misc.Unsafe.park(Native Method)\n\tat org.apache.kafka.clients.{}(Client.java:1)\n"
    "\tat shop.Orders.publish(Orders.java:12)\n"
)
LOCKS = (
    "Found one Java-level deadlock:\n=============================\n"
    '"web-1":\n  waiting to lock monitor 0x1 (object 0x2, a shop.Stock),\n  which is held by "web-2"\n'
    '"web-2":\n  waiting to lock monitor 0x3 (object 0x4, a shop.Order),\n  which is held by "web-1"\n\n'
    "Java stack information for the threads listed above:\n===================================================\n"
    '"web-1":\n\tat shop.Stock.take(Stock.java:58)\n\t- waiting to lock <0x2> (a shop.Stock)\n'
)
LISTENER = (
    "\tat org.springframework.kafka.listener.KafkaMessageListenerContainer$ListenerConsumer.run(Container.java:1296)\n"
)
FLUSHING = "2024-01-01 10:00:00 INFO app: flushing ... (kafka)\n"
STOPPING = "2024-01-01 10:00:00 INFO app: Stopping kafka consumer\n"
UNSERVED_PYTHON = (
    "WARNING:kafka.coordinator:Marking the coordinator dead (node 2) for group g: Heartbeat session expired.\n"
    "INFO:kafka.coordinator:Discovered coordinator 2 for group g\n"
    "DEBUG:kafka.coordinator:Heartbeat poll expired, leaving group\n"
)
OUT = "%3|15173010{}.118|FAIL|rdkafka#producer-1| [thrd:k:9092/2]: k:9092/2: 612 request(s) timed out: disconnect\n"
HANDLED = (
    '"task-thread-a-0" #21 prio=5 tid=0x1 nid=0x2 waiting on condition [0x3]\n   java.lang.Thread.State: WAITING\n'
    "\tat jdk.internal.misc.Unsafe.park(Native Method)\n\tat shop.Sink.put(Sink.java:9)\n"
    "\tat org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:581)\n"
    "\tat org.apache.kafka.connect.runtime.WorkerSinkTask.execute(WorkerSinkTask.java:204)\n"
)
UNUSABLE = (
    "10:00:0{} [main] ERROR shop.Orders - failed\njava.lang.IllegalStateException: No current assignment for {}\n"
)
UNDESTROYED = "[DBG] client.cpp 194 waiting for librdkafka to decommission\nrd_kafka_thread_cnt: 5\n"
ADDING = (
    'Traceback (most recent call last):\n  File "/aiokafka/producer/message_accumulator.py", line 9, in add_message\n'
    "    raise KafkaTimeoutError()\nkafka.errors.KafkaTimeoutError: KafkaTimeoutError\n"
)
REGAINED = "SRMSG18225: Executed consumer assigned re-balance listener for group 'orders'"
REVOKED = "SRMSG18224: Executing consumer revoked re-balance listener for group 'orders'"
CLUSTER = "[sarama] 2024/01/01 10:00:0{} cluster/consumer  rebalance\n"
NOT_BACK = "`ksql local` and ctrl-D: it never comes back.\n\n"
TAKEN = "2024-01-01 10:00:00 INFO One kafka consumer is no longer consuming from any partition.\n"
JSON_BEHIND = (
    'Oct 14 05:11:23 app3: {"level":"ERROR","message":"[[g] {}:] Error sending heartbeat: Kafka::UnknownMemberId",'
    '"timestamp":"2019-10-14T10:11:02+00:00"}\n'
)
WAIT_EMPTY = "[2024-01-01 {},000] [7] [WARNING] [^--Consumer]: wait_empty: Waiting for tasks [(1, <ConsumerMessage>)]\n"
CLICKHOUSE = "".join(
    f"2024.06.27 11:0{n}:22.349022 [ 702 ] {{}} <Warning> StorageKafka (orders_queue): Can't get assignment. Will keep "
    "trying.\n"
    for n in range(4)
)
SYNCING = "".join(
    f'%7|1475602220.11{n}|CGRPJOINSTATE|rdkafka#consumer-1| Group "orders" changed join state wait-sync -> init\n'
    for n in range(4)
)
SYNCED = (
    '%7|1475602221.117|CGRPJOINSTATE|rdkafka#consumer-1| Group "orders" changed join state wait-assign-cb -> started\n'
)
#: Output of kafka-consumer-groups.sh. Fields of a row: partition, committed offset, end offset, lag, owner.
LISTING = "TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID\n"
ROW = "orders {} {} {} {} {} /10.0.0.4 shop\n"
OWNED = f"{LISTING}{ROW.format(0, 8120, 8160, 40, 'shop-1')}{ROW.format(1, 500, 530, 30, 'shop-2')}"
KAFKACTL = """\
$ kafkactl describe consumer-group billing
CLIENT_ID  HOST       TOPIC   PARTITIONS
c-1        /10.0.0.4  orders  0

TOPIC   PARTITION  NEWEST_OFFSET  OLDEST_OFFSET  CONSUMER_OFFSET  LEADER  LAG
orders  0          {}            0              120              1       {}
"""
STATED = (
    (f"goroutine 215 [chan send, 215 minutes]:\n{UNREAD}", CALLBACK),
    (
        f"goroutine 9 [running]:\nmain.dump()\n\ngoroutine 215 [chan send, 3 minutes]:\n{UNREAD}\ngoroutine 2 [IO]:\n",
        CALLBACK,
    ),
    (f"1462 goroutine 215 [chan send, 215 minutes]:\n1463 {UNREAD.replace(chr(10), chr(10) + '1464 ', 1)}", CALLBACK),
    (f"goroutine 215 [chan send, 215 minutes]:\n{UNREAD.replace(chr(9), '')}", CALLBACK),
    (f"goroutine 77 [select, 31 minutes]:\n{FEEDER}", STALLED),
    (
        f"goroutine 80 [syscall, 8 minutes]:\n{GO}._Cfunc_rd_kafka_rebalance_protocol(0x7efe6c005a90)\n",
        STALLED,
    ),
    (f"goroutine 80 [syscall, 8 minutes]:\n{GO}._Cfunc_rd_kafka_consumer_close(0x7efe6c005a90)\n", LOOP),
    (f"goroutine 1 [semacquire, 4 minutes]:\n{WAIT}{KAFKA_GO}.(*Reader).Close(0xc0000f8000)\n", LOOP),
    (
        f"goroutine 421 [sync.WaitGroup.Wait, 3 minutes]:\n{WAIT}{KAFKA_GO}.(*Writer).Close(0xc0000f8000)\n",
        "delivery-stalled",
    ),
    (
        f"goroutine 81 [semacquire, 181 minutes]:\n{WAIT}jc/vendor/{SARAMA}.(*brokerConsumer).(jc/sarama.step)-fm()\n"
        f"/go/src/consumer.go:157 +0x2a\njc/vendor/{SARAMA}.(*brokerConsumer).subscriptionConsumer(0xc4521e3ec0)\n",
        STALLED,
    ),
    ("PHP Fatal error: Uncaught RuntimeException: Was unable to flush, messages might be lost!\n", "delivery-stalled"),
    (
        f"goroutine 61 [semacquire, 9 minutes]:\n{WAIT}{SARAMA}.(*Broker).Open(0xc00028a1b0)\n\t/go/b.go:1\n"
        f"{SARAMA}.(*offsetManager).flushToBroker(0xc0003fa000)\n",
        STALLED,
    ),
    (LOCKED, "delivery-stalled"),
    (f"Thread 99 (Thread 0x7ff303fff700 (LWP 21783)):\n{LOCKED}", "delivery-stalled"),
    ("#2  0x00007f0c2a41f6bb in rd_kafka_consumer_close (rk=0x3521360) at rdkafka.c:3301\n", LOOP),
    ('> W! [agent] ["outputs.kafka"] did not complete within its flush interval\n', "delivery-stalled"),
    ("[error] <0.16.1> terminated with reason: {reached_max_retries,no_leader_connection}\n", "delivery-stalled"),
    (f"ERROR [main] shop.Sender - failed\n{AWAITED.format(40000)}", "delivery-stalled"),
    ("KafkaTimeoutError: Timeout after waiting for 60 secs.\n", "delivery-stalled"),
    ("The bridge to kafka hangs.\n\n{timeout,\n   [{wolff_producer,send_sync,3,\n", "delivery-stalled"),
    ("[lua] producer.lua:258: buffered messages send to kafka err: timeout, retryable: nil\n", "delivery-stalled"),
    ("kafka [warning] msg: dropped_produce_requests, cause: message_expired, count: 212\n", "delivery-stalled"),
    (CLICKHOUSE, STALLED),
    ('KafkaJSLockTimeout: Timeout while acquiring lock (12 waiting locks): "updating target topics"\n', METADATA),
    (SYNCING, STALLED),
    (
        f"ERROR Error when sending message to topic a with key: null, value: 1 bytes with error: \n{FEW}",
        "delivery-stalled",
    ),
    ("ERROR KafkaError (Message production error: PurgeQueue (Local: Purged in queue))\n", "delivery-stalled"),
    (LOGGED, CALLBACK),
    (f"{THROWN_OUT}{AT} INFO {MEMBER} (Re-)joining group\n", "consumer-stalled"),
    (f"{AT} INFO {MEMBER} (Re-)joining group\n" * 3, "consumer-stalled"),
    ('["message":protected]=>\n  string(22) "Broker: Unknown member"\n', "consumer-stalled"),
    ("[WARN] KafkaConsumer poll is taking significantly longer (30000ms) to return from poll\n", "consumer-stalled"),
    (f"{AT} ERROR Graceful stop of task orders-0 failed. (org.apache.kafka.connect.runtime.Worker)\n", LOOP),
    (STOPS, LOOP),
    ('CGRPTERM [thrd:main]: Group "g": waiting for rebalance_cb, 2 toppar(s), (state up) before terminating\n', LOOP),
    (UNFLUSHED, "delivery-stalled"),
    (
        'Server: Jetty(9.2.12)\n{"offsets":[{"partition":null,"error_code":50003,"error":"Batch containing 1 record(s) '
        'expired due to timeout while requesting metadata from brokers for orders-0"}]}\n',
        "delivery-stalled",
    ),
    (f"{AT} INFO Sending batch to Kafka failed. Will retry after a delay. {{:batch_size=>4}}\n", "delivery-stalled"),
    (f"{AT} WARN {PRODUCING}NOT_ENOUGH_REPLICAS\n", "delivery-stalled"),
    (RETRYING, "delivery-stalled"),
    (
        "%3|1763632800.123|PRODUCE|rdkafka#producer-1| k:9092/1: ProduceRequest failed: Local: Timed out: explicit "
        "actions 0x2\n",
        "delivery-stalled",
    ),
    (VERTX.format("waitOnMetadata"), "send-blocked-on-metadata"),
    (f"{LOCKS}{LISTENER}\nFound 1 deadlock.\n", STALLED),
    ("(lldb) bt\n  * frame #3: 0x00000001050f4c71 tail`rd_kafka_destroy_app + 977\n", LOOP),
    (f"{FLUSHING}2024-01-01 10:00:31 WARN app: kafka is slow\n", "delivery-stalled"),
    (f"{STOPPING}2024-01-01 10:00:31 WARN app: kafka is slow\n", LOOP),
    (WAIT_EMPTY.format("10:00:00") + WAIT_EMPTY.format("10:04:00"), LOOP),
    (
        f"{OWNED}later\n{LISTING}{ROW.format(0, 8120, 8190, 70, 'shop-1')}{ROW.format(1, 560, 560, 0, 'shop-2')}",
        STALLED,
    ),
    (f"{LISTING}{ROW.format(0, 20, 5020, 5000, 'shop-1')}{ROW.format(1, 560, 560, 0, 'shop-2')}", STALLED),
    ("Group Topic Pid Offset logSize Lag Owner\na orders 0 120 120 0 h-0\na orders 1 20 5120 5100 h-1\n", STALLED),
    (
        "GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER\n"
        "a, orders, 0, 20, 5120, 5100, h-1\na, orders, 1, 5120, 5120, 0, h-2\n",
        STALLED,
    ),
    (KAFKACTL.format(520, 400) + KAFKACTL.format(1020, 900), STALLED),
    ("Every night the writer hangs.\n\n" + CALLER.format("producer.KafkaProducer.flush"), "delivery-stalled"),
    ("The pod never exits.\n\n" + CALLER.format("consumer.KafkaConsumer.close"), LOOP),
    ("It is stuck until a restart.\n\n" + CALLER.format("consumer.KafkaConsumer.commitSync"), STALLED),
    (f"The service hung at noon.\n\ngoroutine 215 [chan send]:\n{UNREAD}", CALLBACK),
    ("The job hangs:\n" + PROFILED.format(400, "(*syncProducer).SendMessage"), "delivery-stalled"),
    (
        "org.junit.runners.model.TestTimedOutException: test timed out after 300000 milliseconds\n"
        + "\tat java.util.concurrent.CountDownLatch.await(CountDownLatch.java:231)\n" * 2
        + AWAITED.format(39000).partition("\n")[2],
        "delivery-stalled",
    ),
    (f"{STOPPING}and there it remains until kill -9\n", LOOP),
    ("With kafka away `client.ProduceSync` does not come back.\n", METADATA),
    ("One partition is not consumed any more by the kafka consumer.\n", STALLED),
    ("consumer.close() sits there while the kafka topic is quiet\n", LOOP),
    ("The good kafka topics behind it are blocked by the missing one.\n", "delivery-stalled"),
    (UNSERVED_PYTHON, STALLED),
    ("".join(CLUSTER.format(second) for second in range(3)), STALLED),
    (NOT_BACK + CALLER.replace("clients.{}", "streams.KafkaStreams.close"), LOOP),
    (TAKEN, STALLED),
    (JSON_BEHIND, STALLED),
    (OUT.format(22) + OUT.format(59), "delivery-stalled"),
    (f"The task hangs for good.\n\n{HANDLED}", STALLED),
    ("".join(UNUSABLE.format(second, "partition orders-4") for second in range(3)), STALLED),
    (UNDESTROYED * 3, LOOP),
    (ADDING, "delivery-stalled"),
    (f"{AT} INFO {REVOKED}\n" * 3, STALLED),
    (
        f"service:\n```\n{REFUSED.partition('failed: ')[2]}\n```\nThe handler calls a service, could that be it?\n",
        STALLED,
    ),
    (f"The daemon does not go down on SIGTERM.\n\n{STOPPING}", LOOP),
    (
        '{\n  "message": "Your message could not be published. '
        "Flush returned with error code -185: 'Local: Timed out'\",\n",
        "delivery-stalled",
    ),
    ("Our kafka consumer suddenly stopped consuming yesterday evening.\n", STALLED),
    ("We see that after some days most of the kafka consumers stop consuming messages.\n", STALLED),
    ("My kafka consumer does not receive records any more, no errors in the log.\n", STALLED),
    ("Records of our kafka topic are not consumed although a member is assigned.\n", STALLED),
    ("Our kafka producer stopped sending messages after a few hours.\n", "delivery-stalled"),
    ("My kafka producer can't send records after the broker was restarted.\n", "delivery-stalled"),
    ("I see the request process hanging on kafka producer.flush()\n", "delivery-stalled"),
    ("We noticed that KafkaProducer.send blocks for 60 seconds when the broker is down.\n", METADATA),
    ("The last messages of my kafka script are not delivered when it exits.\n", CLOSED),
    ("Our kafka program exited before all messages were delivered.\n", CLOSED),
    ("My KafkaConsumer close is blocking forever\n", LOOP),
    ("Our process does not exit after kafka consumer.close()\n", LOOP),
    ("I see a deadlock when calling flush inside the delivery callback of kafka\n", CALLBACK),
    ("The other topics are delayed while a handler of the kafka consumer is busy.\n", "cross-topic-blocking"),
)
UNSTATED = (
    "Fix kafka consumer stops consuming after a rebalance\n",
    "Kafka: fix an issue that causes flush hanging\n",
    "How can I stop a kafka consumer from consuming when the database is down?\n",
    "Does the kafka producer stop sending after a failed flush\n",
    "Allow the kafka consumer to stop polling while it is paused\n",
    "This PR makes sure that a kafka consumer that stops polling leaves the group\n",
    "Add a timeout so that the kafka consumer's shutdown never hangs\n",
    "Test that the kafka producer does not hang on close when no broker is available\n",
    "Question: what happens if flush of the kafka producer hangs?\n",
    "".join(CLUSTER.format(second) for second in range(2)),
    "".join(CLUSTER.format(second) for second in range(3))
    + CLUSTER.format(4).replace(" rebalance", "a-1 consume o/0 from 7"),
    f"{TAKEN}1704103210.235 RDKAFKA-7-X: rdkafka#consumer-1: Group g changed join state assigned -> started\n",
    "I stop trying kafka here. The runner can't really stream, it just sits there.\n",
    OUT.format(22),
    HANDLED,
    "".join(UNUSABLE.format(second, "partition orders-4") for second in range(2)),
    UNDESTROYED * 2,
    f"{AT} INFO {REVOKED}\n" * 2,
    f"{AT} INFO {REVOKED}\n" * 3 + f"{AT.replace(':00,', ':09,')} INFO {REGAINED}\n",
    "4120.881410755:main thread    : kafka: trying shutdown of worker threads\n"
    "4120.982006110:main thread    : main Q: regular shutdown timed out on primary queue\n",
    f"{UNSERVED_PYTHON}INFO:kafka.consumer.subscription_state:Updated partition assignment: [('orders', 0)]\n",
    f"The daemon goes down on SIGTERM.\n\n{STOPPING}",
    f"goroutine 9 [select, 2 minutes]:\nmain.wait()\n\ngoroutine 215 [chan send]:\n{UNREAD}",
    f"panic: no such order\n\ngoroutine 215 [chan send]:\n{UNREAD}",
    f"goroutine 1 [chan receive]:\n{KAFKA_GO}.(*Reader).Close(0xc0000f8000)\n\t/go/reader.go:770 +0xe5\n",
    PROFILED.format(12, "(*Broker).responseReceiver") + PROFILED.format(4, "(*partitionConsumer).responseFeeder"),
    DELVE.format(f"{SARAMA}.(*Broker).responseReceiver", "chan receive"),
    SCALA.format("send").replace("$$anonfun$asyncSend$1.apply", ".initialize"),
    f"{LOCKS}\tat shop.KafkaPage.show(KafkaPage.java:7)\n\nFound 1 deadlock.\n",
    f"goroutine 215 [chan send]:\n{UNREAD}",
    PROFILED.format(400, "(*syncProducer).SendMessage"),
    DELVE.format(SENT, "chan receive 840823"),
    SCALA.format("asyncSend"),
    CALLER.format("producer.KafkaProducer.flush"),
    CALLER.format("consumer.KafkaConsumer.commitSync"),
    CALLER.format("consumer.KafkaConsumer.close"),
    CALLER.replace("clients.{}", "streams.KafkaStreams.close"),
    VERTX.format("partitionsFor"),
    CALLER.format("consumer.KafkaConsumer.poll"),
    f"{CALLER.format('producer.KafkaProducer.flush')}\n" * 2,
    f"{FLUSHING}2024-01-01 10:00:02 INFO app: kafka flush done\n2024-01-01 10:00:31 WARN app: kafka is slow\n",
    f"{STOPPING}2024-01-01 10:00:29 WARN app: kafka is slow\n",
    f"{STOPPING.replace('kafka consumer', '1 kafka listeners')}2024-01-01 10:00:31 WARN app: kafka is slow\n",
    f"{STOPPING}2024-01-01 10:00:01 INFO app: consumer stopped\n2024-01-01 10:00:31 WARN app: kafka is slow\n",
    f"{OWNED}later\n{LISTING}{ROW.format(0, 8150, 8190, 40, 'shop-1')}{ROW.format(1, 560, 560, 0, 'shop-2')}",
    f"{LISTING}{ROW.format(0, 20, 5020, 5000, 'shop-1')}{ROW.format(1, 60, 5060, 5000, 'shop-2')}",
    f"{LISTING}{ROW.format(0, 20, 5020, 5000, '-').replace('/10.0.0.4 shop', '- -')}{ROW.format(1, 560, 560, 0, 'b')}",
    f"goroutine 77 [chan receive, 31 minutes]:\n{FEEDER}",
    f"goroutine 1 [select, 40 minutes]:\n{KAFKA_GO}.(*Reader).FetchMessage(0xc0000f8000)\n\t/go/reader.go:816 +0x1\n",
    f"goroutine 5 [syscall, 40 minutes]:\n{GO}._Cfunc__rk_queue_poll(0x7efe6c005a90, 0xffffffff)\n",
    f"goroutine 1 [select, 40 minutes]:\nmain.wait()\n\t/app/main.go:9 +0x1\n\ngoroutine 2 [running]:\n{UNREAD}",
    f"goroutine 5 [chan receive, 40 minutes]:\n{SARAMA}.(*Broker).responseReceiver(0xc000d5af20)\n\t/go/b.go:6 +0x1\n",
    f"goroutine 5 [select, 40 minutes]:\n{SARAMA}.(*client).backgroundMetadataUpdater(0xc000d5af20)\n",
    LOCKED.replace("pthread_rwlock_wrlock", "poll"),
    'W! [agent] ["outputs.influxdb"] did not complete within its flush interval\n',
    f"ERROR [main] shop.Sender - failed\n{AWAITED.format(39000)}",
    "KafkaTimeoutError: Timeout after waiting for 39 secs.\n",
    "kafka [error] produce error: {timeout,\n   [{wolff_producer,send_sync,3,\n",
    "#5  0x00007f1c4b41f7d3 in rd_kafka_assignor_run ()\n",
    "mqtt session to kafka: dropped, cause: message_expired\n",
    'KafkaJSLockTimeout: Timeout while acquiring lock (12 waiting locks): "connection lock kafka:9092"\n',
    f"{CLICKHOUSE}<Information> StorageKafka (orders_queue): Topics/partitions assigned: [ orders[0:#] ]\n",
    f"{SYNCING}{SYNCED}",
    f"WARN [main] shop.Sender - {FEW}",
    "    when MaxRetries >= 0 -> exit({reached_max_retries, Reason});\n",
    "ERROR Local: Purged in queue\n",
    f"{THROWN_OUT}{AT.replace(':00,', ':09,')} INFO {MEMBER} Adding newly assigned partitions: orders-0, orders-1\n",
    f"{THROWN_OUT}{AT.replace(':00,', ':09,')} INFO {MEMBER} Setting offset for partition orders-0 to the committed "
    "offset FetchPosition{offset=12}\n",
    f"{STOPS}{STOPS.replace('[Runner] waiting for consumer to finish...', '[Consumer] Stopped')}",
    f"{UNFLUSHED}{AT.replace('10:00', '10:01')} INFO WorkerSourceTask{{id=a-0}} Finished commitOffsets successfully in "
    "12 ms (org.apache.kafka.connect.runtime.WorkerSourceTask:521)\n",
    f"{AT} ERROR Graceful stop of task a-0 failed. (org.apache.kafka.connect.runtime.Worker)\n"
    f"{AT.replace('10:00', '10:01')} INFO WorkerSourceTask{{id=a-0}} Committing offsets\n",
    f"{RETRYING}{RETRYING.replace('retrying-1', 'flushing-1')}{RETRYING.replace('retrying-1', 'normal')}",
    f"{AT} WARN {PRODUCING}NOT_ENOUGH_REPLICAS\n" + f"{AT} INFO [main] shop.Orders - an order has come\n" * 500,
    "[WARN] KafkaConsumer poll is taking significantly longer (3000ms) to return from poll\n",
    f"{AT} INFO {MEMBER} (Re-)joining group\n" * 2,
    f"## Common errors\nIf you see this, check max.poll.interval.ms:\n```\n{THROWN_OUT.partition('INFO ')[2]}```\n",
)


@pytest.mark.parametrize(("text", "mode"), STATED)
def test_a_stack_or_a_framework_that_states_a_wait_suspects(text: str, mode: str, tmp_path: Path) -> None:
    found = judged(text, tmp_path)
    assert {status for of_client in found.values() for status in of_client.values()} <= {"suspected", "unknown"}
    assert worst(found, mode) == "suspected"


@pytest.mark.parametrize("text", UNSTATED)
def test_a_stack_without_such_a_wait_accuses_no_client(text: str, tmp_path: Path) -> None:
    found = judged(text, tmp_path)
    assert not {status for of_client in found.values() for status in of_client.values()} & {"suspected", "confirmed"}


NARRATED = {
    STALLED: (
        "After a few hours the consumer just stops.",
        "The consumer goes silent after a rebalance.",
        "No messages are ever consumed after a restart of the service.",
        "poll() doesn't return at all.",
        "Lag keeps growing although the consumer is running.",
        "The consumer lag went up to 4 million and never came down.",
        "The consumer became a zombie.",
        "The consumer wedged with its offsets frozen at 7540.",
        "The consumer never rejoined the group after the session timed out.",
        "Partitions stay unassigned after the rebalance.",
        "The consumer gets stuck while we remove a broker.",
        "I wanted to read a topic, but the consumer receives nothing.",
        "We decided to upgrade to 3.7, and since then the consumer is stuck.",
        "The consumer gets stuck during rebalancing.",
        "The lag keeps growing, and nothing recovered after a restart.",
        "The group has been rebalancing every 5 seconds since noon.",
        "A lost broker leads to a never-ending loop of rebalances.",
        "The consumer lag spiked to 2 million messages.",
        "Consumer throughput drops to nearly zero.",
        "We noticed that one of the consumers can get stuck.",
        "The consumers do not reconnect after an outage of the brokers.",
        "消费者线程在 poll() 处挂起。",
        "上线之后消息积压一直在涨。",
        "We have 12 pods in the group and since last night they've been rebalancing non stop, literally every 30 secs.",
        "Nosso worker fica em loop de rebalanceamento desde que subimos a terceira réplica, nada é processado.",
    ),
    LOOP: (
        "KafkaBus.StopAsync() blocks and does not return.",
        "After calling unsubscribe the consumer still receives messages.",
        "rd_kafka_consumer_close hangs.",
        "The consumer thread is still alive after close().",
        "It hangs forever when I close the consumer.",
        "The consumer thread is not shutdown when Spring stops.",
        "After the shutdown the poll thread continues to work.",
        "I am unable to terminate the consumer.",
        "消费者在关闭时卡住了。",
        "Al parar el servicio el consumidor no se detiene y hay que matarlo con kill -9.",
        "The consumer is stuck in poll() while we are closing it.",
    ),
    "delivery-stalled": (
        "The producer queue fills up and never drains.",
        "Records time out in the producer after 120 seconds.",
        "Nothing reaches the topic any more.",
        "The producer's buffer is exhausted.",
        "The sink stopped writing to kafka without any error.",
        "producer.flush() hangs forever when we stop the broker.",
        "The kafka output to a small topic is stalling.",
        "Some events remain stuck in the buffer.",
        "I have an issue with flush() not completing.",
        "flush висит бесконечно, в outq 4 тысячи сообщений и число не уменьшается",
    ),
    METADATA: ("Creating the producer takes 60 seconds because it cannot fetch metadata.",),
    CLOSED: (
        "We lose the last events on every deployment because the pod is killed.",
        "El programa termina y los últimos mensajes nunca llegan al topic porque nadie llama a close().",
    ),
    None: (
        "The consumer should not block while the broker is away.",
        "The producer was closed and all messages were delivered.",
        "If the consumer does not poll within five minutes, it is removed from the group.",
        "The lag is growing during the nightly batch and goes back to zero in the morning.",
        "During a rebalance all consumers stop consuming messages until it completes.",
        "The service reads the offsets again when there is no more data to consume.",
        "The consumer stopped as planned and left the group.",
        "The sink stops writing when we pause it, and resumes afterwards.",
        "The buffer is full for a second during the burst, then it drains.",
        "We want that poll() does not return before the timeout.",
        "We decided that the consumer dies on fatal errors.",
        "We documented what to do with a CommitFailedException.",
        "The consumer gets a CommitFailedException during deploys and we retry the commit.",
        "poll() does not return null, it returns an empty list.",
        "The lag went up during the deploy and came down after five minutes.",
        "No records were dropped when the producer was killed.",
        "No messages pile up in the consumer queues.",
        "The consumer is healthy: it never hangs.",
        "send() does not block.",
        "Messages time out after 2 minutes, as configured.",
        "The client never fetches metadata eagerly.",
        "To use all memory until the producer blocks, we can raise the parallelism.",
        "如果消费者卡住，请检查 max.poll.interval.ms。",
        "为了避免消息积压，我们增加了分区。",
        "A send from a callback on the producer's I/O thread can wait for metadata that only this thread can fetch.",
        "Thanks for the quick answer, I will close this issue.",
        "We use three brokers, twelve partitions and the consumer of the Java client.",
        "`case ERR_UNKNOWN_MEMBER_ID:` returns to the join.",
        "const err = {\n  message: 'x',\n  text: \"Local: Message timed out\",\n};",
        'groups:\n  annotations:\n    message: "Local: Message timed out"',
        '2026-02-03T11:41:30.848254Z DEBUG acme: assert_eq!(err, Error("Local: Message timed out"));',
        "| time | meaning |\n|---|---|\n| 00:30 | Local: Message timed out |",
    ),
}


@pytest.mark.parametrize("explained", ["You may see an error.", "If you see an error, check the brokers."])
def test_a_sentence_that_reports_for_itself_counts_among_explanations(explained: str, tmp_path: Path) -> None:
    around = f"{explained}\n\n" * 3
    found = judged(f"## Note\n\n{around}I've noticed that our consumer hangs.\n\n{around}", tmp_path)
    assert worst(found, STALLED) == "suspected"
    found = judged(f"## Note\n\n{around}The consumer hangs.\n\n{around}", tmp_path)
    assert worst(found, STALLED) != "suspected"


HEADED = (
    "[main] WARN o.a.k.c.c.internals.ConsumerCoordinator - [Consumer clientId=a, groupId=g] consumer poll timeout has "
    "expired. This means the time between subsequent calls to poll() was longer than the configured "
    "max.poll.interval.ms, which typically implies that the poll loop is spending too much time processing messages.",
    "[thrd:main]: rdkafka#producer-1: 3 message(s) timed out: Local: Message timed out",
)


@pytest.mark.parametrize("line", HEADED)
def test_a_title_above_a_log_does_not_make_the_log_an_explanation(line: str, tmp_path: Path) -> None:
    found = judged(f"Pod logs\n\n{line}\n", tmp_path)
    assert {status for of_client in found.values() for status in of_client.values()} & {"suspected", "confirmed"}


@pytest.mark.parametrize(("mode", "sentence"), [(mode, one) for mode, many in NARRATED.items() for one in many])
def test_a_persons_sentence_suspects_the_mode_that_it_states(mode: str | None, sentence: str, tmp_path: Path) -> None:
    found = judged(f"We have a Kafka application in production and noticed a problem.\n\n{sentence}\n", tmp_path)
    suspected = {named for of_client in found.values() for named, status in of_client.items() if status == "suspected"}
    assert (mode in suspected) if mode else not suspected


def test_a_suspicion_from_text_explains_no_other_failure(tmp_path: Path) -> None:
    lost = "My script ends, but the messages that I write are not flushed before the script terminates."
    [found] = judged(f"# Write stream does not flush\n\n{lost}\n", tmp_path).values()
    assert found["delivery-stalled"] == found["producer-not-closed"] == "suspected"


def test_a_proven_failure_explains_what_the_text_beside_it_suggests(tmp_path: Path) -> None:
    [found] = judged(f"Kafka hangs\n\nOur producer does not send. We took this dump:\n\n{DUMP}", tmp_path).values()
    assert (found["producer-callback-deadlock"], found["delivery-stalled"]) == ("confirmed", "unknown")


def test_a_title_is_quoted_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "ticket.txt"
    path.write_text("Kafka producer hangs and never delivers\n\nWe restart the service each time.\n")
    found = [fact.text for _, verdicts in examine([path], Settings()).clients for v in verdicts for fact in v.evidence]
    assert [text.partition(": ")[2] for text in found] == ['"Kafka producer hangs and never delivers"']


def test_a_copied_line_of_librdkafka_stays_part_of_the_line_that_copies_it(tmp_path: Path) -> None:
    """The line has three timestamps: journald's, the copying application's and librdkafka's."""
    own = (
        "%4|1790000000.123|TERMINATE|payments#producer-1| [thrd:app]: Producer terminating with 31 messages "
        "(9300 bytes) still in queue or transit: use flush() to wait\n"
    )
    before = "2026-11-29T16:22:12.485000+00:00 app-1 orders[4711]: 2026-11-29 16:22:12,320 ERROR [log-forwarder] "
    assert worst(judged(own, tmp_path), CLOSED) == "suspected"
    assert worst(judged(f"{before}orders.watch.LogForwarder : {own}", tmp_path), CLOSED) in ("", "unknown")
