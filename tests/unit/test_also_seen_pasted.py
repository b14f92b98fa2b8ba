"""`diagnose` reports a known issue that a pasted log line shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.diagnose.report import Style, html_report, report
from clienthealth.settings import Settings

P, C = "[Producer clientId=a]", "[Consumer clientId=a, groupId=g]"
NOT_LEADER = (
    "Got error produce response with correlation id 9 on topic-partition orders-0, retrying (4 attempts left). Error:"
)
KAFKAJS = '{"level":"ERROR","timestamp":"2026-11-20T10:00:%02d.000Z","logger":"kafkajs","message":"%s"}'

PASTES = [
    (f"WARN {P} The metadata response from the cluster reported a recoverable issue with correlation id 7 : "
     "{ordres=UNKNOWN_TOPIC_OR_PARTITION}", 3, "unknown topic", "ordres"),
    ("WARN NetworkClient: Error while fetching metadata with correlation id 3 : {__consumer_offsets=UNKNOWN}", 5,
     "metadata of a topic refused", "__consumer_offsets"),
    (f"WARN {P} {NOT_LEADER} UNKNOWN_TOPIC_ID", 2, "unknown topic", "orders-0"),
    ("ERROR org.apache.kafka.clients.producer.BufferExhaustedException: Failed to allocate 16384 bytes within the "
     "configured max blocking time 60000 ms.", 1, "no room in the buffer", "16384 bytes"),
    ("INFO [GroupCoordinator 1]: Member c-1-7c in group billing has left group billing through explicit `LeaveGroup`; "
     "client reason: consumer poll timeout has expired. (kafka.coordinator.group.GroupCoordinator)", 2,
     "this is a broker's log", "client reason"),
    ("ERROR kafka.cluster - Topic chekouts not found in cluster metadata", 2, "unknown topic", "chekouts"),
    ("KafkaError{code=UNKNOWN_TOPIC_OR_PART,val=3,str=\"Subscribed topic not available: ordres: Broker: Unknown topic "
     "or partition\"}", 2, "unknown topic", "ordres"),
    (f"WARN {P} {NOT_LEADER} NOT_LEADER_OR_FOLLOWER", 40, "not the leader", "orders-0"),
    (f"WARN {P} {NOT_LEADER} REQUEST_TIMED_OUT", 1, "requests timed out", "orders-0"),
    (f"WARN {P} {NOT_LEADER} NOT_ENOUGH_REPLICAS", 1, "not enough in-sync replicas", "orders-0"),
    (f"WARN {C} Connection to node 2 (kafka-2/10.0.0.2:9092) could not be established. Node may not be available.", 3,
     "brokers unreachable", "kafka-2/10.0.0.2:9092"),
    (f"WARN {C} Bootstrap broker k:9092 (id: -1 rack: null) disconnected", 3, "brokers unreachable", "k:9092"),
    (f"INFO {C} Node 2 disconnected.", 12, "connections lost again and again", "Node 2"),
    ("%3|1763632800.123|FAIL|rdkafka#producer-1| [thrd:k:9092/2]: k:9092/2: Connect to ipv4#10.0.0.7:9092 failed: "
     "Connection refused (after 0ms in state CONNECT)", 3, "brokers unreachable", "10.0.0.7"),
    (f"INFO {C} Fetch position FetchPosition{{offset=12, offsetEpoch=Optional.empty}} is out of range for partition "
     "orders-0, resetting offset", 1, "offset out of range", "orders-0"),
    ("ERROR o.a.k.clients.consumer.OffsetOutOfRangeException: Offsets out of range with no configured reset policy for "
     "partitions: {orders-0=12}", 1, "offset out of range", "orders-0=12"),
    ("ERROR org.apache.kafka.clients.consumer.NoOffsetForPartitionException: Undefined offset with no reset policy for "
     "partitions: [orders-0]", 1, "no committed offset", "orders-0"),
    (f"WARN {P} Error while fetching metadata with correlation id 1 : {{orders=LEADER_NOT_AVAILABLE}}", 40, "no leader",
     "orders=LEADER"),
    ("WARNING:kafka.coordinator:Coordinator unknown during heartbeat -- will retry", 3,
     "coordinator lost again and again", "unknown during heartbeat"),
    (f"INFO {C} Disconnecting from node 3 due to request timeout.", 1, "requests timed out", "node 3"),
    ("%5|1763632800.123|REQTMOUT|rdkafka#producer-1| [thrd:k:9092/3]: k:9092/3: Timed out 1 in-flight, 3 retry-queued, "
     "0 out-queue, 0 partially-sent requests", 1, "requests timed out", "1 in-flight"),
    ("%4|1480000000.123|REQTMOUT|rdkafka#producer-1| k:9092/3: Timed out 0+1+5 requests", 1, "requests timed "
     "out", "0+1+5"),
    ("ERROR org.apache.kafka.common.errors.TimeoutException: Timeout expired while fetching topic metadata", 1,
     "calls timed out", "topic metadata"),
    ("ERROR org.apache.kafka.common.errors.RecordDeserializationException: Error deserializing VALUE for partition "
     "orders-4 at offset 8812. If needed, please seek past the record to continue consumption.", 1, "serialisation "
     "failed",
     "orders-4 at offset 8812"),
    (f"INFO {C} JoinGroup failed: The coordinator is not available.", 3, "no coordinator", "coordinator is not "
     "available"),
    ("KafkaException: KafkaError{code=_QUEUE_FULL,val=-184,str=\"Local: Queue full\"}", 5, "queue full again and again",
     "Queue full"),
    ("ERROR WorkerSourceTask{id=orders-0} Failed to flush, timed out while waiting for producer to flush outstanding "
     "312 messages (org.apache.kafka.connect.runtime.WorkerSourceTask:484)", 1, "Connect fails to commit offsets",
     "outstanding 312 messages"),
    ("ERROR:aiokafka:Unable to update metadata from [0]", 200, "metadata not updated", "[0]"),
    (KAFKAJS.replace("%s", "[Connection] Connection error: connect ECONNREFUSED 10.0.0.7:9092"), 3, "brokers "
     "unreachable",
     "10.0.0.7:9092"),
    (KAFKAJS.replace("%s", "[BrokerPool] Failed to connect to seed broker, trying another broker from the list: "
     "Connection error"), 1, "all brokers down", "seed broker"),
    ("[WARN] unable to open connection to broker; addr: k:9092, broker: 1, err: dial tcp: i/o timeout", 3,
     "brokers unreachable", "k:9092"),
    ("INFO [GroupCoordinator 1]: Preparing to rebalance group billing in state PreparingRebalance with old generation "
     "7 (kafka.coordinator.group.GroupCoordinator)", 1, "this is a broker's log", "GroupCoordinator 1"),
    ("%7|1763632800.123|MSGSET|rdkafka#producer-1| k:9092/1: MessageSet with 12 message(s) not delivered", 3,
     "batches not delivered", "12 message(s)"),
    ("%3|1763632800.123|PRODUCE|rdkafka#producer-1| k:9092/1: ProduceRequest failed: Local: Timed out: explicit "
     "actions 0x2",
     1, "requests timed out", "Local: Timed out"),
    ("%7|1763632800.123|TERMINATE|rdkafka#consumer-1| [thrd:k:9092/1]: k:9092/1: Handle is terminating in state UP: 4 "
     "refcnts (0x7f), 1 toppar(s)", 12, "close does not finish", "Handle is terminating"),
    (
        "[thrd:main]: Fatal error: Broker: Broker received an out of order sequence number: ProduceRequest failed",
        1,
        "fatal error of the client",
        "out of order",
    ),
    (
        "send failed {:exception=>Java::OrgApacheKafkaCommonErrors::RecordTooLargeException, :message=>\"x\"}",
        1,
        "record too large",
        "RecordTooLarge",
    ),
    ("write: [16] Not Coordinator For Group: the broker returns this", 3, "no coordinator", "Not Coordinator"),
    (f"ERROR {P} Uncaught error in kafka producer I/O thread: ", 1, "error inside the client", "I/O thread"),
    (f"ERROR {C} JoinGroup failed due to fatal error: x", 1, "joining the group failed", "JoinGroup failed"),
    ("Heartbeat failed for group g: generation id is not  current.", 3, "thrown out of its group", "group g"),
    (
        f"ERROR {C} JoinGroup failed: The group instance id Optional[i-1] has been fenced by another instance.",
        1,
        "group.instance.id used twice",
        "i-1",
    ),
    (f"WARN {C} Synchronous auto-commit of offsets {{}} failed: after 5000ms", 3, "commits failed", "5000ms"),
    (
        "ERROR WorkerSinkTask{id=orders-0} Task threw an uncaught and unrecoverable exception",
        1,
        "the application's code failed",
        "orders-0",
    ),
    ("<KafkaConnection>: ProduceResponse throttled by broker (1200 ms)", 3, "throttled by a quota", "1200 ms"),
    ('{"level":"error","ts":"2026-11-20T10:00:%02d.000Z","msg":"publish failed","error":"kafka: client has run out of '
     'available brokers to talk to: EOF"}', 1, "all brokers down", "run out of"),
    (KAFKAJS.replace('"%s"', '"[Connection] Response Heartbeat(key: 12, version: 3)","error":"The coordinator is not '
     'aware of this member"'), 1, "thrown out of its group", "not aware"),
    ("Confluent.Kafka.ProduceException`2[Confluent.Kafka.Null,System.String]: Local: Queue full", 3, "queue full again "
     "and again", "Queue full"),
    ("\tERROR\tLocal_MsgTimedOut\tk:9092/1: 1 request(s) timed out: disconnect\t", 1, "requests timed out",
     "timed out: disconnect"),
    (f"WARN {P} **Connection to node -1** (k/10.0.0.1:9092) could not be established. Broker may not be available.", 3,
     "brokers unreachable", "10.0.0.1:9092"),
    (f"WARN {P} Error while fetching metadata with correlation id 68252 :\n{{orders=UNKNOWN_TOPIC_OR_PARTITION}}", 2,
     "unknown topic", "orders"),
]  # fmt: skip
EVERYDAY = [
    (f"WARN {C} Connection to node 2 (kafka-2/10.0.0.2:9092) could not be established. Node may not be available.", 1),
    (f"INFO {C} Node 2 disconnected.", 3),
    (f"WARN {P} Error while fetching metadata with correlation id 1 : {{orders=LEADER_NOT_AVAILABLE}}", 2),
    (f"INFO {C} (Re-)joining group", 1),
    ("2026-11-20 10:00:00 kafka-ui http: TLS handshake error from 10.0.0.1:512: remote error: tls: bad certificate", 3),
    ('2026-11-20 10:00:00 kafka-ui Get "https://10.0.0.9/health": x509: certificate signed by unknown authority', 3),
    ("2026-11-20 10:00:00 kafka-app javax.net.ssl.SSLHandshakeException: PKIX path building failed\n"
     "\tat java.net.http/jdk.internal.net.http.HttpClientImpl.send(HttpClientImpl.java:586)", 1),
    ("INFO kafka-app Schema not found for order 7", 3),
    ("%3|1763632800.1|FAIL|rdkafka#consumer-1| [thrd:k:9092/2]: k:9092/2: Disconnected (after 60000ms in state UP)", 1),
    ("Topic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2", 3),
]  # fmt: skip


def pasted(line: str, times: int) -> str:
    lines = [f"2026-11-20 10:{second // 60:02d}:{second % 60:02d},000 {line}\n" for second in range(times)]
    if line[0] == "%":
        lines = [line.replace("1763632800", str(1_763_632_800 + second)) + "\n" for second in range(times)]
    if line[0] == "{":
        lines = [line.replace("%02d", f"{second:02d}") + "\n" for second in range(times)]
    return "".join(lines)


@pytest.mark.parametrize(("line", "times", "title", "part"), PASTES, ids=[f"{row[2]}: {row[0][:40]}" for row in PASTES])
def test_a_pasted_issue_is_reported_with_its_count_and_advice(
    line: str, times: int, title: str, part: str, tmp_path: Path
) -> None:
    (tmp_path / "pasted.log").write_text(pasted(line, times))
    found = examine([tmp_path], Settings())
    text = " ".join(report(found, style=Style(width=120)).split())
    reported = text.partition("Also seen ")[2]
    assert reported.startswith(f"{title}, " + (f"{times:,} lines, " if times > 1 else "")), text
    assert part in reported and "(pasted.log:1)" in reported
    assert title.upper() in text or "SUSPECTED" in text
    assert "CANNOT JUDGE" not in text and "is about a Kafka client" not in text
    assert title in html_report(found).replace("&#39;", "'")


@pytest.mark.parametrize(("line", "times"), EVERYDAY)
def test_everyday_lines_are_not_reported(line: str, times: int, tmp_path: Path) -> None:
    around = "2026-11-20 10:59:00,000 INFO [main] shop.Orders - an order has come\n" * 60
    (tmp_path / "pasted.log").write_text(pasted(line, times) + around)
    assert not examine([tmp_path], Settings()).also_seen
    (tmp_path / "pasted.log").write_text(pasted(line, times))
    assert bool(examine([tmp_path], Settings()).also_seen) is line.startswith("WARN")


def test_a_line_is_counted_once_for_one_trouble_however_many_wordings_find_it(tmp_path: Path) -> None:
    refused = (
        f"WARN {P} {NOT_LEADER} NOT_ENOUGH_REPLICAS\norg.apache.kafka.common.errors.NotEnoughReplicasException: refused"
    )
    (tmp_path / "pasted.log").write_text(pasted(refused, 2))
    (issue,) = [seen for seens in examine([tmp_path], Settings()).also_seen.values() for seen in seens]
    assert (issue.what, issue.lines) == ("replicas-missing", 2)
