"""MBeans of old and new Kafka clients become canonical snapshots."""

from __future__ import annotations

import time
from typing import Any

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from clienthealth.read.mbeans import RUNTIME, MBeans, object_name, parts, process_of, snapshots


def written(mbeans: MBeans, process: ClientProcess, ts_ms: int = 0) -> list[dict[str, Any]]:
    return [canonical.written(snapshot) for snapshot in snapshots(mbeans, process, ts_ms)]


PROCESS = ClientProcess("orders", "web-7", "web-7:31337")
JAVA: MBeans = {
    RUNTIME: {"Name": "31337@web-7", "StartTime": 1795208530625},
    "kafka.producer:type=producer-metrics,client-id=p-1": {
        "select-total": 10213.0,
        "buffer-total-bytes": 4194304.0,
        "buffer-available-bytes": 1048576.0,
        "waiting-threads": 0.0,
        "record-queue-time-avg": "NaN",
        "request-latency-avg": 8.0,
        "not-a-metric-of-ours": 3.0,
    },
    "kafka.producer:type=producer-topic-metrics,client-id=p-1,topic=orders.v2": {"record-send-total": 42.0},
    "kafka.producer:type=producer-node-metrics,client-id=p-1,node-id=node-1": {"request-latency-avg": 7.0},
    # Node 2147483645 is broker 2 as a coordinator (2147483647 - 2). Node -1 is a broker with an unknown id.
    "kafka.producer:type=producer-node-metrics,client-id=p-1,node-id=node-2147483645": {"request-latency-avg": 9.0},
    "kafka.producer:type=producer-node-metrics,client-id=p-1,node-id=node--1": {"request-latency-avg": 40.0},
    "kafka.producer:type=app-info,client-id=p-1": {"version": "3.9.1", "start-time-ms": 1795208530625},
    "kafka.producer:type=app-info,id=p-1": {"Version": "3.9.1"},
    "kafka.producer:type=kafka-metrics-count,client-id=p-1": {"count": 112.0},
    'kafka.consumer:type=consumer-metrics,client-id="consumer-billing-1"': {"last-poll-seconds-ago": -1.0},
    "kafka.consumer:type=consumer-coordinator-metrics,client-id=consumer-billing-1": {"assigned-partitions": 2.0},
    "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=consumer-billing-1": {"fetch-total": 9.0},
    "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=consumer-billing-1,topic=orders,partition=3": {
        "records-lag": 612.0,
        "records-lag-max": 700.0,
    },
}


def test_snapshots_of_java_clients() -> None:
    assert process_of("orders", JAVA, {}) == PROCESS
    consumer, producer = written(JAVA, PROCESS, 1795208559678)
    assert producer == {
        "ts": 1795208559678,
        "client": {
            "service": "orders",
            "host": "web-7",
            "instance": "web-7:31337",
            "client_id": "p-1",
            "kind": "producer",
            "library": "java",
            "version": "3.9.1",
            "group": None,
        },
        "metrics": {
            "select-total": 10213.0,
            "buffer-total-bytes": 4194304.0,
            "buffer-available-bytes": 1048576.0,
            "waiting-threads": 0.0,
            "request-latency-avg": 8.0,
            "slowest-node": 2.0,
            "slowest-node-latency-avg": 9.0,
        },
        "topics": [{"topic": "orders.v2", "partition": None, "thread": None, "metrics": {"record-send-total": 42.0}}],
        "config": {},
    }
    assert (consumer["client"]["client_id"], consumer["client"]["group"]) == ("consumer-billing-1", "billing")
    assert consumer["metrics"] == {"assigned-partitions": 2.0, "fetch-total": 9.0}
    assert consumer["topics"] == [
        {"topic": "orders", "partition": 3, "thread": None, "metrics": {"records-lag": 612.0}}
    ]


def test_clients_before_1_0_have_their_version_and_lag_elsewhere() -> None:
    mbeans: MBeans = {
        "kafka.consumer:type=app-info,id=c": {"Version": "0.11.0.3"},
        "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=c": {
            "my-topic-2.records-lag": 5.0,
        },
    }
    (consumer,) = written(mbeans, ClientProcess("s", "h", "h:1", {"group.id": "g"}))
    assert consumer["client"]["version"] == "0.11.0.3"
    assert consumer["client"]["group"] == "g"
    assert consumer["topics"] == [
        {"topic": "my-topic", "partition": 2, "thread": None, "metrics": {"records-lag": 5.0}}
    ]


def test_snapshot_of_the_old_scala_consumer() -> None:
    connector = "kafka.consumer:type=ZookeeperConsumerConnector"
    mbeans: MBeans = {
        "kafka.common:type=AppInfo,name=Version": {"Value": "0.8.2.1"},
        f"{connector},name=FetchQueueSize,clientId=feed,topic=trades,threadId=0": {"Value": 2},
        f"{connector},name=FetchQueueSize,clientId=feed,topic=quotes,threadId=0": {"Value": 0},
        f"{connector},name=OwnedPartitionsCount,clientId=feed,groupId=g": {"Value": 6},
        f"{connector},name=OwnedPartitionsCount,clientId=feed,groupId=g,topic=trades": {"Value": 2},
        f"{connector},name=KafkaCommitsPerSec,clientId=feed": {"Count": 4, "OneMinuteRate": 0.1},
        f"{connector},name=ZooKeeperCommitsPerSec,clientId=feed": {"Count": 3, "OneMinuteRate": 0.1},
        "kafka.consumer:type=ConsumerFetcherManager,name=MaxLag,clientId=feed": {"Value": 0},
        "kafka.consumer:type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=feed": {"Count": 100},
        "kafka.consumer:type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=feed,topic=trades": {"Count": 60},
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=feed": {
            "Count": 185,
            "Mean": 5.2,
        },
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=feed,"
        "brokerHost=127.0.0.1,brokerPort=9092": {"Count": 180},
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=feed,topic=trades,partition=1": {"Value": -1},
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=feed,topic=trades,partition=0": {"Value": 8},
    }
    (feed,) = written(mbeans, PROCESS)
    assert feed["client"]["kind"] == "legacy-consumer"
    assert (feed["client"]["version"], feed["client"]["group"]) == ("0.8.2.1", "g")
    assert feed["metrics"] == {
        "max-lag": 0.0,
        "messages-total": 100.0,
        "fetch-requests-total": 185.0,
    }
    assert {(t["topic"], t["partition"], t["thread"]): t["metrics"] for t in feed["topics"]} == {
        ("trades", None, "0"): {"queue-chunks": 2.0},
        ("quotes", None, "0"): {"queue-chunks": 0.0},
        ("trades", None, None): {"messages-total": 60.0},
        ("trades", 0, None): {"records-lag": 8.0},
    }


def test_names_in_quotes() -> None:
    assert object_name(r'kafka.producer:client-id="a,b=\"c\*",type=producer-metrics') == (
        "kafka.producer",
        {"client-id": 'a,b="c*', "type": "producer-metrics"},
    )


def test_a_long_invalid_name_is_rejected_fast() -> None:
    """An MBean name may be 1 MB long, because a record may be 1 MB long."""
    begin = time.process_time()
    for piece in ("a", " ", ",", "=", '"', "\\", 'a="', ", a"):
        assert parts("kafka.producer:" + piece * (1_000_000 // len(piece))).subject.kind is None
    assert time.process_time() - begin < 10
