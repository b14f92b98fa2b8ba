"""List hand-written expected results for the log samples in tests/formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent.parent / "formats"

POD = "checkout-6c9f7d5b8-x2k4q"
POD_UID = "0a3a4b5c-6d7e-4f80-9a0b-1c2d3e4f5061"
CONTAINER = "3f9d0c4a7be1c2d85512ab90ee7719f0c4d6a1b8f2375e6690aa1b7cd4e8f012"
LOGGED = 1795200031204  # 2026-11-20 18:40:31.204 UTC
EXHAUSTED = (
    "org.apache.kafka.clients.producer.BufferExhaustedException: Failed to allocate 16384 bytes within the configured "
    "max blocking time 60000 ms. Total memory: 33554432 bytes. Available memory: 8192 bytes. Poolable size: 16384 bytes"
)
FRAMES = [
    "\tat org.apache.kafka.clients.producer.internals.BufferPool.allocate(BufferPool.java:165)",
    "\tat org.apache.kafka.clients.producer.internals.RecordAccumulator.append(RecordAccumulator.java:324)",
    "\tat org.apache.kafka.clients.producer.KafkaProducer.doSend(KafkaProducer.java:1029)",
    "\tat com.example.checkout.OrderPublisher.publish(OrderPublisher.java:88)",
    "\tat java.base/java.lang.Thread.run(Thread.java:1583)",
]
STACK = "\n".join([EXHAUSTED, *FRAMES])
SEND_FAILED = {
    "ts_ms": LOGGED,
    "level": "ERROR",
    "logger": "com.example.checkout.OrderPublisher",
    "thread": "http-nio-8080-exec-12",
    "message": "send to orders.v2 failed",
}
POLL_EXPIRED = (
    "[Consumer clientId=billing-1, groupId=billing] consumer poll timeout has expired. This means the time between "
    "subsequent calls to poll() was longer than the configured max.poll.interval.ms, which typically implies that the "
    "poll loop is spending too much time processing messages."
)
NODE = {"host": "node-7"}
PLAIN_FILE = {"file": "/var/log/checkout/app.log"}

STUCK = {
    "name": "kafka-producer-network-thread | checkout-producer-2",
    "state": "TIMED_WAITING",
    "frames": [
        ("java.lang.Thread.sleep0", "Native Method"),
        ("java.lang.Thread.sleep", "Thread.java:509"),
        ("com.example.checkout.AuditCallback.onCompletion", "AuditCallback.java:41"),
        (
            "org.apache.kafka.clients.producer.internals.ProducerBatch.completeFutureAndFireCallbacks",
            "ProducerBatch.java:308",
        ),
        ("org.apache.kafka.clients.producer.internals.Sender.runOnce", "Sender.java:345"),
        ("java.lang.Thread.run", "Thread.java:1583"),
    ],
    "cpu_ms": 912331.2,
    "line": 8,
}
CALLER = {
    "name": "http-nio-8080-exec-12",
    "state": "TIMED_WAITING",
    "frames": [
        ("jdk.internal.misc.Unsafe.park", "Native Method"),
        (
            "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await",
            "AbstractQueuedSynchronizer.java:1847",
        ),
        ("org.apache.kafka.clients.producer.internals.BufferPool.allocate", "BufferPool.java:151"),
        ("org.apache.kafka.clients.producer.KafkaProducer.doSend", "KafkaProducer.java:1029"),
    ],
    "cpu_ms": 8123.11,
    "line": 17,
}

GOLDEN: dict[str, list[dict[str, Any]]] = {
    "filebeat_ecs_dotted.json": [
        {
            **SEND_FAILED,
            "format": "ecs",
            "stack": STACK,
            "file": "/var/log/checkout/app.json",
            "file_offset": 8812330,
            "client": {"service": "checkout", **NODE},
        }
    ],
    "filebeat_ecs_expanded.json": [
        {
            **SEND_FAILED,
            "format": "ecs",
            "stack": STACK,
            "file": "/var/log/checkout/app.json",
            "file_offset": 8812330,
            "client": {
                "service": "checkout",
                "host": POD,
                "instance": "checkout-2",
                "client_id": "checkout-producer-2",
            },
        }
    ],
    "filebeat_jstack_multiline.json": [
        {
            "format": "ecs",
            "ts_ms": 1795200046100,
            "dumps": [("JVM thread dump", [STUCK, CALLER])],
            "file": "/var/log/checkout/jstack-20261120T184045.txt",
            "file_offset": 0,
            "client": NODE,
        }
    ],
    "filebeat_plain_multiline.json": [
        {**SEND_FAILED, "format": "ecs", "stack": STACK, **PLAIN_FILE, "file_offset": 412330, "client": NODE}
    ],
    "filebeat_plain_split_lines.ndjson": [
        {**SEND_FAILED, "format": "ecs", **PLAIN_FILE, "file_offset": 412330, "client": NODE},
        *(
            {"format": "ecs", "ts_ms": 1795200032011, "message": line, **PLAIN_FILE, "file_offset": at, "client": NODE}
            for at, line in zip((412447, 412675, 412764, 412865, 412949, 413021), [EXHAUSTED, *FRAMES], strict=True)
        ),
    ],
    "filebeat_undecoded_json_in_message.json": [
        {
            **SEND_FAILED,
            "format": "ecs",
            "stack": STACK,
            "file": f"/var/log/containers/{POD}_shop_app-3f9d0c4a.log",
            "file_offset": 8813001,
            "client": NODE,
        }
    ],
    "fluentbit_kafka_k8s.json": [
        {
            **SEND_FAILED,
            "format": "fluentbit",
            "client": {"service": "checkout", "host": POD, "instance": POD_UID},
        }
    ],
    "fluentbit_kafka_multiline_java.json": [
        {
            **SEND_FAILED,
            "format": "fluentbit",
            "stack": STACK,
            "file": f"/var/log/containers/{POD}_shop_app-3f9d0c4a.log",
            "error": "missing-identity",
        }
    ],
    "fluentbit_systemd.json": [
        {
            "format": "journald",
            "ts_ms": 1795200033010,
            "level": "WARN",
            "logger": "o.a.k.c.c.internals.ConsumerCoordinator",
            "thread": "kafka-coordinator-heartbeat-thread | billing",
            "message": POLL_EXPIRED,
            "client": {
                "service": "billing",
                "host": "billing-0",
                "instance": "billing-0:4711",
                "client_id": "billing-1",
            },
        }
    ],
    "librdkafka_log_lines_filebeat.ndjson": [
        {
            "format": "ecs",
            "ts_ms": 1795200040112,
            "level": "WARN",
            "logger": "MAXPOLL",
            "thread": "main",
            "message": "Application maximum poll interval (300000ms) exceeded by 412ms (adjust max.poll.interval.ms "
            "for long-running message processing): leaving group",
            "file": "/var/log/pricing/stderr.log",
            "file_offset": 1200,
            "client": {
                "host": "pricing-0",
                "client_id": "ledger",
                "kind": "consumer",
                "library": "librdkafka",
            },
        },
        {
            "format": "ecs",
            "ts_ms": 1795200041009,
            "level": "INFO",
            "logger": "REQTMOUT",
            "thread": "kafka-1:9092/1",
            "message": "kafka-1:9092/1: Timed out ProduceRequest in flight (after 60011ms, timeout #0)",
            "file": "/var/log/pricing/stderr.log",
            "file_offset": 1442,
            "client": {
                "host": "pricing-0",
                "client_id": "pricing-py",
                "kind": "producer",
                "library": "librdkafka",
            },
        },
        {
            "format": "ecs",
            "ts_ms": 1795200041500,
            "level": "ERROR",
            "logger": "FAIL",
            "thread": "kafka-2:9092/2",
            "message": "kafka-2:9092/2: Connect to ipv4#10.42.1.12:9092 failed: Connection refused "
            "(after 0ms in state CONNECT, 8 identical error(s) suppressed)",
            "file": "/var/log/pricing/stderr.log",
            "file_offset": 1610,
            "client": {
                "host": "pricing-0",
                "client_id": "pricing-py",
                "kind": "producer",
                "library": "librdkafka",
            },
        },
        {
            "format": "ecs",
            "ts_ms": 1795200042000,
            "message": "Traceback (most recent call last):",
            "stack": '  File "/app/pricing/publish.py", line 61, in publish\n'
            '    producer.produce("orders.v2", key=k, value=v, on_delivery=cb)\nBufferError: Local: Queue full',
            "file": "/var/log/pricing/app.log",
            "file_offset": 1811,
            "client": {"host": "pricing-0"},
        },
    ],
    "log4j2_EcsLayout.json": [{**SEND_FAILED, "format": "ecs", "stack": STACK, "error": "missing-identity"}],
    "log4j2_GelfLayout.json": [{**SEND_FAILED, "format": "gelf", "stack": STACK, "client": {"host": POD}}],
    "log4j2_JsonLayout.json": [
        {
            "format": "log4j2_json",
            "ts_ms": 1795200035100,
            "level": "WARN",
            "logger": "org.apache.kafka.clients.producer.internals.Sender",
            "thread": "kafka-producer-network-thread | checkout-producer-2",
            "message": "[Producer clientId=checkout-producer-2] Got error produce response with correlation id 88123 "
            "on topic-partition orders.v2-7, retrying (2147483641 attempts left). Error: NOT_ENOUGH_REPLICAS",
            "client": {"client_id": "checkout-producer-2"},
        }
    ],
    "log4j2_LogstashJsonEventLayoutV1.json": [
        {
            "format": "logstash",
            "ts_ms": 1795200035100,
            "level": "ERROR",
            "logger": "com.example.checkout.OrderPublisher",
            "thread": "kafka-producer-network-thread | checkout-producer-2",
            "message": "send to orders.v2 failed",
            "stack": "org.apache.kafka.common.errors.TimeoutException: Expiring 214 record(s) for orders.v2-7:120011 "
            "ms has passed since batch creation",
            "client": {"host": POD, "client_id": "checkout-producer-2"},
        }
    ],
    "logback_LogstashEncoder.json": [
        {
            "format": "logstash",
            "ts_ms": 1795200033010,
            "level": "WARN",
            "logger": "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator",
            "thread": "kafka-coordinator-heartbeat-thread | billing",
            "message": POLL_EXPIRED,
            "client": {"service": "billing", "host": "billing-0", "client_id": "billing-1"},
        }
    ],
    "logback_LogstashEncoder_exception.json": [
        {**SEND_FAILED, "format": "logstash", "stack": STACK, "error": "missing-identity"}
    ],
    "otlp_json_logs_filelog.json": [
        {
            **SEND_FAILED,
            "format": "otlp_logs",
            "stack": STACK,
            "file": f"/var/log/pods/shop_{POD}_{POD_UID}/app/0.log",
            "client": {"service": "checkout", "host": POD, "instance": POD_UID},
        }
    ],
    "otlp_json_logs_javaagent.json": [
        {
            **SEND_FAILED,
            "format": "otlp_logs",
            "stack": STACK,
            "client": {"service": "checkout", "host": POD, "instance": "6a0c5d8e-9b4f-4f3a-8f25-0f7c1a2b3c4d"},
        },
        {
            "format": "otlp_logs",
            "ts_ms": 1795200032001,
            "level": "WARN",
            "logger": "org.apache.kafka.clients.NetworkClient",
            "thread": "kafka-producer-network-thread | checkout-producer-2",
            "message": "[Producer clientId=checkout-producer-2] Connection to node 3 (kafka-3/10.42.1.13:9092) could "
            "not be established. Node may not be available.",
            "client": {
                "service": "checkout",
                "host": POD,
                "instance": "6a0c5d8e-9b4f-4f3a-8f25-0f7c1a2b3c4d",
                "client_id": "checkout-producer-2",
            },
        },
    ],
    "python_json_logger_kafka_python.json": [
        {
            "format": "python_json_logger",
            "ts_ms": 1795200042118,
            "level": "ERROR",
            "logger": "kafka.producer.kafka",
            "thread": "MainThread",
            "message": "<KafkaProducer client_id=pricing-batch transactional_id=None>: Exception occurred waiting for "
            "metadata during message send: KafkaTimeoutError: Failed to update metadata after 60.0 secs.",
            "stack": "Traceback (most recent call last):\n"
            '  File "/usr/lib/python3.12/site-packages/kafka/producer/kafka.py", line 930, in send\n'
            "    self._wait_on_metadata(topic, self.config['max_block_ms'])\n"
            "kafka.errors.KafkaTimeoutError: KafkaTimeoutError: Failed to update metadata after 60.0 secs.",
            "client": {"client_id": "pricing-batch"},
        }
    ],
    "vector_kafka_file.json": [
        {
            "format": "vector",
            "ts_ms": 1795200033010,
            "level": "WARN",
            "logger": "o.a.k.c.c.internals.ConsumerCoordinator",
            "thread": "kafka-coordinator-heartbeat-thread | billing",
            "message": POLL_EXPIRED,
            "file": "/var/log/billing/app.log",
            "client": {"host": "billing-0", "client_id": "billing-1"},
        }
    ],
    "vector_kafka_k8s.json": [
        {
            **SEND_FAILED,
            "format": "vector",
            "stack": STACK,
            "file": f"/var/log/pods/shop_{POD}_{POD_UID}/app/0.log",
            "client": {"service": "checkout", "host": POD, "instance": POD_UID},
        }
    ],
}
GOLDEN |= {
    name.replace("otlp_json", "otlp_proto").replace(".json", ".bin"): [
        {**row, "format": "otlp_logs_protobuf"} for row in GOLDEN[name]
    ]
    for name in [*GOLDEN]
    if name.startswith("otlp_json")
}
