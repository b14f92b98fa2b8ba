"""Every wording finds the line that it is for; lines are as the client libraries write them."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from clienthealth.logs.wordings import Catalogue, Meaning, Wording
from clienthealth.modes import catalogue, modes

CONFIG = """ProducerConfig values:
\tacks = -1
\tbootstrap.servers = [kafka-1:9092]
\tbuffer.memory = 4194304
\tclient.id = orders
\tdelivery.timeout.ms = 8000
\tlinger.ms = 0
\tmax.block.ms = 10000
\trequest.timeout.ms = 4000
"""

EXAMPLES: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    "buffer-exhausted": (
        (
            "org.apache.kafka.common.errors.TimeoutException: Failed to allocate memory within the configured max "
            "blocking time 60000 ms.",
            {"waitMs": "60000"},
        ),
        (
            "send to orders failed\norg.apache.kafka.clients.producer.BufferExhaustedException: Failed to allocate "
            "16384 bytes within the configured max blocking time 10000 ms. Total memory: 4194304 bytes. Available: 0 "
            "bytes. Poolable size: 16384 bytes\n\tat org.apache.kafka.clients.producer.internals.BufferPool.allocate",
            {"bytes": "16384", "waitMs": "10000"},
        ),
    ),
    "buffer-exhausted-at-once": (
        (
            "You have exhausted the 33554432 bytes of memory you configured for the client and the client is "
            "configured to error rather than block when memory is exhausted.",
            {"bytes": "33554432"},
        ),
    ),
    "queue-full": (("BufferError: Local: Queue full", {}),),
    "callback-error": (
        ("[Producer clientId=a] Error executing user-provided callback on message for topic-partition 'orders-0'", {}),
    ),
    "io-thread-died": (
        (
            "Uncaught exception in thread 'kafka-producer-network-thread | orders, new':\n"
            "java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.nio.HeapByteBuffer.<init>",
            {"client": "orders, new", "thrown": "java.lang.OutOfMemoryError"},
        ),
        ("Uncaught exception in kafka-producer-network-thread | producer-1: ", {"client": "producer-1"}),
        ("Uncaught exception in thread 'kafka-producer-network-thread':", {}),
    ),
    "flush-refused-in-callback": (
        (
            "[Producer clientId=a] KafkaProducer.flush() invocation inside a callback is not permitted because it may "
            "lead to deadlock.",
            {},
        ),
    ),
    "close-inside-callback": (
        (
            "Overriding close timeout 9223372036854775807 ms to 0 ms in order to prevent useless blocking due to "
            "self-join. This means you have incorrectly invoked close with a non-zero timeout",
            {},
        ),
        ("Overriding close timeout 30 secs to 0 in order to prevent useless blocking due to self-join.", {}),
    ),
    "topic-not-in-metadata": (
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic orders.v2 not present in metadata after 60000 ms.",
            {"topic": "orders.v2", "waitMs": "60000"},
        ),
    ),
    "partition-not-in-metadata": (
        (
            "Partition 9 of topic orders with partition count 3 is not present in metadata after 3000 ms.",
            {"partition": "9", "topic": "orders", "count": "3", "waitMs": "3000"},
        ),
    ),
    "metadata-not-updated": (
        ("TimeoutException: Failed to update metadata after 60000 ms.", {"waitMs": "60000"}),
        ("KafkaTimeoutError: Failed to update metadata after 60.0 secs.", {"waitS": "60.0"}),
    ),
    "topic-error-in-metadata": (
        (
            "[Producer clientId=a] The metadata response from the cluster reported a recoverable issue with "
            "correlation id 7 : {orders-missing=UNKNOWN_TOPIC_OR_PARTITION}",
            {"topic": "orders-missing", "error": "UNKNOWN_TOPIC_OR_PARTITION"},
        ),
        (
            "Error while fetching metadata with correlation id 1 : {orders=LEADER_NOT_AVAILABLE}",
            {"topic": "orders", "error": "LEADER_NOT_AVAILABLE"},
        ),
    ),
    "python-topic-unknown": (("kafka.cluster - Topic chekouts not found in cluster metadata", {"topic": "chekouts"}),),
    "topic-unknown": (("Delivery failed: Local: Unknown topic", {}), ("Broker: Unknown topic or partition", {})),
    "bootstrap-disconnected": (
        (
            "[Producer clientId=a] Bootstrap broker kafka-1:9092 (id: -1 rack: null isFenced: false) disconnected",
            {"address": "kafka-1:9092"},
        ),
        ("Bootstrap broker kafka-1:9092 disconnected", {"address": "kafka-1:9092"}),
    ),
    "connection-failed": (
        (
            "Connection to node -1 (kafka-1/10.0.0.1:9092) could not be established. Node may not be available.",
            {"node": "-1", "address": "kafka-1/10.0.0.1:9092"},
        ),
        ("Connection to node 3 could not be established. Broker may not be available.", {"node": "3"}),
    ),
    "authentication-failed": (
        (
            "Connection to node -1 (k/10.0.0.1:9093) failed authentication due to: Invalid password",
            {"node": "-1", "address": "k/10.0.0.1:9093", "reason": "Invalid password"},
        ),
    ),
    "tls-handshake-failed": (
        (
            "Connection to node 2 (k/1.2.3.4:9093) failed authentication due to: SSL handshake failed",
            {"node": "2", "address": "k/1.2.3.4:9093", "reason": "SSL handshake failed"},
        ),
    ),
    "sasl-authentication-exception": (
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed during authentication "
            "due to invalid credentials with SASL mechanism SCRAM-SHA-256",
            {
                "reason": "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                "SCRAM-SHA-256"
            },
        ),
    ),
    "jaas-entry-missing": (
        (
            "Could not find a 'KafkaClient' entry in the JAAS configuration. System property "
            "'java.security.auth.login.config' is not set",
            {"reason": "Could not find a 'KafkaClient' entry in the JAAS configuration"},
        ),
    ),
    "python-sasl-failed": (
        (
            "kafka.errors.SaslAuthenticationFailedError: [Error 58] SaslAuthenticationFailedError: bad password",
            {"reason": "[Error 58] SaslAuthenticationFailedError: bad password"},
        ),
        (
            "Unable to request metadata from node with id 1: SaslAuthenticationFailed: Authentication failed",
            {"reason": "Authentication failed"},
        ),
    ),
    "kafka-python-reauthentication-failed": (
        ("<KafkaConnection>: SASL re-authentication failed: timed out", {"reason": "timed out"}),
    ),
    "sarama-sasl-failed": (
        ("client/metadata failed SASL authentication", {"reason": "client/metadata failed SASL authentication"}),
        (
            "kafka server: SASL Authentication failed",
            {"reason": "kafka server: SASL Authentication failed"},
        ),
    ),
    "franz-go-sasl-failed": (
        ("SASL_AUTHENTICATION_FAILED: SASL Authentication failed.", {"reason": "SASL Authentication failed."}),
    ),
    "kafka-go-sasl-failed": (
        (
            "[58] SASL Authentication Failed: SASL authentication failed",
            {"reason": "SASL Authentication Failed: SASL authentication failed"},
        ),
    ),
    "kafkajs-sasl-failed": (
        (
            "KafkaJSSASLAuthenticationError: SASL SCRAM SHA256 authentication failed: Illegal state",
            {"reason": "SASL SCRAM SHA256 authentication failed: Illegal state"},
        ),
    ),
    "ssl-authentication-exception": (
        (
            "org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed",
            {"reason": "SSL handshake failed"},
        ),
    ),
    "keystore-unreadable": (
        (
            "org.apache.kafka.common.KafkaException: Failed to load SSL keystore /etc/k.jks of type JKS",
            {"reason": "Failed to load SSL keystore /etc/k.jks of type JKS"},
        ),
    ),
    "kafka-python-tls-closed": (
        (
            "<BrokerConnection node_id=1>: SSL connection closed by server during handshake.",
            {"reason": "SSL connection closed by server during handshake"},
        ),
    ),
    "sarama-tls-failed": (
        (
            "Failed to connect to broker k:9093: x509: certificate signed by unknown authority",
            {"address": "k:9093", "reason": "x509: certificate signed by unknown authority"},
        ),
    ),
    "franz-go-tls-failed": (
        (
            "unable to open connection to broker; addr: k:9093, broker: seed_0, err: "
            "unable to dial: tls: first record does not look like a TLS handshake",
            {"reason": "tls: first record does not look like a TLS handshake"},
        ),
    ),
    "topic-denied-in-metadata": (
        ("Error while fetching metadata with correlation id 1 : {orders=TOPIC_AUTHORIZATION_FAILED}", {}),
    ),
    "authorization-exception": (
        ("TopicAuthorizationException: Not authorized to access topics: [orders]", {}),
        ("GroupAuthorizationException: Not authorized to access group: billing", {}),
    ),
    "authorization-failed": (
        ("[Producer clientId=a] Topic authorization failed for topics [orders]", {}),
        ('KafkaError{code=GROUP_AUTHORIZATION_FAILED,val=30,str="Broker: Group authorization failed"}', {}),
    ),
    "python-authorization-failed": (
        ("kafka.errors.GroupAuthorizationFailedError: [Error 30] GroupAuthorizationFailedError: billing", {}),
    ),
    "python-topic-denied": (("Topic orders is not authorized for this client", {}),),
    "sarama-authorization-failed": (("kafka server: The client is not authorized to access this topic", {}),),
    "kafka-go-authorization-failed": (("[29] Topic Authorization Failed: the client is not authorized", {}),),
    "record-too-large": (
        (
            "RecordTooLargeException: The message is 2000087 bytes when serialized which is larger than 1048576",
            {"bytes": "2000087"},
        ),
    ),
    "broker-refused-large-message": (
        ("The request included a message larger than the max message size the server will accept.", {}),
    ),
    "librdkafka-message-too-large": (("Delivery failed: Broker: Message size too large", {}),),
    "sarama-message-too-large": (
        ("kafka server: Message was too large, server rejected it to avoid allocation error", {}),
    ),
    "sarama-message-over-limit": (
        (
            "kafka: invalid configuration (Attempt to produce message larger than configured "
            "Producer.MaxMessageBytes: 2877851 > 1048576)",
            {},
        ),
    ),
    "kafka-go-message-too-large": (("[10] Message Size Too Large: the server has a configurable maximum", {}),),
    "serialization-exception": (
        ("org.apache.kafka.common.errors.SerializationException: Error serializing Avro message", {}),
    ),
    "deserialization-exception": (
        (
            "org.apache.kafka.common.errors.RecordDeserializationException: Error deserializing key/value for "
            "partition orders-0 at offset 12. If needed, please seek past the record to continue consumption.",
            {},
        ),
    ),
    "spring-deserialization": (
        ("org.springframework.kafka.support.serializer.DeserializationException: failed to deserialize", {}),
    ),
    "spring-cannot-deserialize": (
        (
            "This error handler cannot process 'SerializationException's directly; please consider configuring an "
            "'ErrorHandlingDeserializer' in the value and/or key deserializer",
            {},
        ),
    ),
    "librdkafka-serialization": (("Local: Value deserialization error", {}),),
    "confluent-serialization": (("confluent_kafka.error.ValueDeserializationError: KafkaError{code=_VALUE}", {}),),
    "producer-fenced": (
        ("org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer", {}),
        ("aiokafka.errors.ProducerFenced: There is a newer producer using the same transactional_id", {}),
    ),
    "invalid-producer-epoch": (
        ("org.apache.kafka.common.errors.InvalidProducerEpochException: Producer attempted to produce", {}),
    ),
    "producer-old-epoch": (("Broker: Producer attempted an operation with an old epoch", {}),),
    "newer-producer": (("There is a newer producer with the same transactionalId which fences the current one.", {}),),
    "librdkafka-fenced": (("Local: This instance has been fenced by a newer instance", {}),),
    "out-of-memory": (
        (
            "Uncaught exception in thread 'kafka-producer-network-thread | a':\njava.lang.OutOfMemoryError: Java heap "
            "space",
            {"reason": "Java heap space"},
        ),
    ),
    "coordinator-lost": (
        (
            "[Consumer clientId=a, groupId=g] Group coordinator k:9092 (id: 2147483646 rack: null) is unavailable or "
            "invalid due to cause: error response NOT_COORDINATOR. isDisconnected: false. Rediscovery will be "
            "attempted.",
            {},
        ),
        ("Group coordinator k:9092 (id: 1 rack: null) is unavailable or invalid, will attempt rediscovery", {}),
    ),
    "coordinator-dead": (
        ("Marking the coordinator k:9092 (id: 2147483647 rack: null) dead for group billing", {}),
        ("Marking the coordinator dead (node 1) for group billing: NodeNotReadyError.", {}),
        ("Marking the coordinator dead (node 1)for group billing.", {}),
    ),
    "librdkafka-coordinator-lost": (
        ("[thrd:GroupCoordinator]: GroupCoordinator: k:9092: Disconnected (after 60000ms in state UP)", {}),
    ),
    "rejoining-group": (("[Consumer clientId=a, groupId=g] (Re-)joining group", {}),),
    "kafkajs-joined-group": (("[ConsumerGroup] Consumer has joined the group", {}),),
    "schema-registry-refused": (
        (
            "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException: Subject not found.; error "
            "code: 40401",
            {"reason": "Subject not found.; error code: 40401"},
        ),
    ),
    "schema-registry-serde": (("SerializationException: Error registering Avro schema: {}", {}),),
    "python-schema-registry-refused": (
        (
            "confluent_kafka.schema_registry.error.SchemaRegistryError: Subject not found (HTTP status code 404)",
            {"reason": "Subject not found (HTTP status code 404)"},
        ),
    ),
    "no-resolvable-bootstrap": (("No resolvable bootstrap urls given in bootstrap.servers", {}),),
    "python-no-brokers": (("kafka.errors.NoBrokersAvailable: NoBrokersAvailable", {}),),
    "python-not-bootstrapped": (("KafkaConnectionError: Unable to bootstrap from [('k', 9092, 0)]", {}),),
    "sarama-no-brokers": (("kafka: client has run out of available brokers to talk to: EOF", {}),),
    "kafkajs-no-brokers": (("[BrokerPool] Failed to connect to seed broker, trying another broker", {}),),
    "option-unknown": (("The configuration 'acs' was supplied but isn't a known config.", {}),),
    "librdkafka-option-unknown": (('No such configuration property: "buffer.memory"', {"option": "buffer.memory"}),),
    "librdkafka-option-of-others": (
        (
            "Configuration property group.id is a consumer property and will be ignored by this producer instance",
            {"option": "group.id"},
        ),
    ),
    "python-option-unknown": (("KafkaConfigurationError: Unrecognized configs: {'acs'}", {}),),
    "terminated-during-authentication": (
        (
            "Connection to node -1 (kafka-1/10.0.0.1:9093) terminated during authentication. This may happen due to "
            "any of the following reasons: (1) Authentication failed due to invalid credentials",
            {"node": "-1", "address": "kafka-1/10.0.0.1:9093", "reason": "terminated during authentication"},
        ),
    ),
    "librdkafka-sasl-failed": (
        (
            "sasl_plaintext://k:9092/bootstrap: SASL authentication error: Authentication failed (after 5ms)",
            {"reason": "SASL authentication error: Authentication failed (after 5ms)"},
        ),
        (
            "k:9092/bootstrap: SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism",
            {
                "reason": "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism",
            },
        ),
    ),
    "librdkafka-tls-failed": (
        (
            "ssl://k:9093/bootstrap: SSL handshake failed: certificate verify failed: self-signed certificate",
            {
                "address": "ssl://k:9093/bootstrap",
                "reason": "SSL handshake failed: certificate verify failed: self-signed certificate",
            },
        ),
    ),
    "thread-died": (
        ('Exception in thread "orders-0" java.lang.IllegalStateException: no stock', {"died": "orders-0"}),
    ),
    "rebootstrapping": (
        ("[Producer clientId=a] Rebootstrapping with [/127.0.0.1:9092]", {"address": "/127.0.0.1:9092"}),
    ),
    "bootstrap-unresolvable": (
        (
            "Couldn't resolve server kafka-9:9092 from bootstrap.servers as DNS resolution failed for kafka-9",
            {"address": "kafka-9:9092"},
        ),
    ),
    "python-bootstrap-failed": (
        ("Bootstrap attempt to bootstrap-0 failed: timed out (backoff 1.00 secs)", {"address": "bootstrap-0"}),
    ),
    "librdkafka-connect-failed": (
        (
            "[thrd:kafka-2:9092/2]: kafka-2:9092/2: Connect to ipv4#10.42.1.12:9092 failed: Connection refused",
            {"address": "ipv4#10.42.1.12:9092"},
        ),
    ),
    "python-callback-error": (("Error processing errback", {}),),
    "python-thread-died": (
        (
            'Exception in thread Thread-3 (consume):\nTraceback (most recent call last):\n  File "worker.py", line 4',
            {"died": "Thread-3 (consume)"},
        ),
    ),
    "python-batch-expired": (
        (
            "KafkaTimeoutError: Batch for TopicPartition(topic='orders', partition=2) containing 7 record(s) expired: "
            "30 seconds have passed since last append",
            {"partition": "TopicPartition(topic='orders', partition=2)", "records": "7"},
        ),
    ),
    "franz-go-records-timed-out": (("records have timed out before they were able to be produced", {}),),
    "aiokafka-produce-retried": (
        (
            "Got error produce response on topic-partition TopicPartition(topic='orders', partition=0), retrying. "
            "Error: <class 'aiokafka.errors.NotEnoughReplicasError'>",
            {
                "partition": "TopicPartition(topic='orders', partition=0)",
                "error": "<class 'aiokafka.errors.NotEnoughReplicasError'>",
            },
        ),
    ),
    "go-replicas-missing": (
        (
            "producer/broker/2 state change to [retrying] on orders/0 because kafka server: Messages are rejected "
            "since there are fewer in-sync replicas than required",
            {"error": "fewer in-sync replicas"},
        ),
        (
            "NOT_ENOUGH_REPLICAS: Messages are rejected since there are fewer in-sync replicas than required.",
            {"error": "fewer in-sync replicas"},
        ),
        (
            "[20] Not Enough Replicas After Append: the message was written to the log, but with fewer in-sync "
            "replicas than required.",
            {"error": "fewer in-sync replicas"},
        ),
    ),
    "librdkafka-replicas-missing": (
        (
            'delivery failed: KafkaError{code=NOT_ENOUGH_REPLICAS,val=19,str="Broker: Not enough in-sync replicas"}',
            {"error": "Not enough in-sync replicas"},
        ),
    ),
    "python-buffer-exhausted": (
        ("KafkaTimeoutError: Failed to allocate memory within the configured max blocking time", {}),
    ),
    "franz-go-buffer-full": (("the maximum amount of records are buffered, cannot buffer more", {}),),
    "librdkafka-poll-interval-error": (
        (
            'KafkaError{code=_MAX_POLL_EXCEEDED,val=-147,str="Local: Maximum application poll interval '
            '(max.poll.interval.ms) exceeded"}',
            {},
        ),
    ),
    "sarama-topic-unknown": (
        (
            "kafka: Failed to produce message to topic ordres: kafka server: Request was for a topic or partition that "
            "does not exist on this broker.",
            {},
        ),
    ),
    "kafka-go-topic-unknown": (
        (
            "[3] Unknown Topic Or Partition: the request is for a topic or partition that does not exist on this "
            "broker",
            {},
        ),
    ),
    "topic-not-hosted": (
        ("UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition.", {}),
        ("KafkaJSProtocolError: This server does not host this topic-partition", {}),
    ),
    "python-connect-failed": (
        (
            "Connect attempt to <BrokerConnection node_id=1 host=kafka-1:9092 <connecting> [IPv4 ('10.0.0.7', 9092)]> "
            "returned error 111. Disconnecting.",
            {"address": "kafka-1:9092"},
        ),
        (
            "Connection attempt to <BrokerConnection client_id=a, node_id=2 host=kafka-2:9092 <connecting> "
            "[IPv4 ('10.0.0.8', 9092)]> timed out",
            {"address": "kafka-2:9092"},
        ),
    ),
    "sarama-connect-failed": (
        (
            "Failed to connect to broker kafka-1:9092: dial tcp 10.0.0.7:9092: connect: connection refused",
            {"address": "kafka-1:9092"},
        ),
    ),
    "franz-go-connect-failed": (
        (
            "[WARN] unable to open connection to broker; addr: kafka-1:9092, broker: 1, err: dial tcp: i/o timeout",
            {"address": "kafka-1:9092"},
        ),
        ('level=warn msg="unable to open connection to broker" addr=kafka-1:9092', {"address": "kafka-1:9092"}),
        ("unable to open connection to broker", {}),
    ),
    "kafka-go-connect-failed": (
        (
            "failed to dial: failed to open connection to kafka-1:9092: dial tcp 10.0.0.7:9092: connect: connection "
            "refused",
            {"address": "kafka-1:9092"},
        ),
    ),
    "kafkajs-connect-failed": (
        ("[Connection] Connection error: connect ECONNREFUSED 10.0.0.7:9092", {}),
        ("[Connection] Connection timeout", {}),
    ),
    "aiokafka-bootstrap-failed": (
        (
            "Unable connect to \"kafka-1:9092\": [Errno 111] Connect call failed ('10.0.0.7', 9092)",
            {"address": "kafka-1:9092"},
        ),
    ),
    "librdkafka-all-brokers-down": (("Local: All broker connections are down", {}),),
    "librdkafka-brokers-down": (("[thrd:main]: 2/2 brokers are down", {"down": "2", "brokers": "2"}),),
    "offset-manager-lookup-failed": (
        ("Failed to fetch consumer metadata from 127.0.0.1:29211.", {"address": "127.0.0.1:29211"}),
    ),
    "offset-manager-channel-failed": (
        ("Error while creating channel to kafka-1:9092.", {"address": "kafka-1:9092"}),
        ("Error while connecting to kafka-1:9092.", {"address": "kafka-1:9092"}),
    ),
    "broker-out-of-reach": (
        (
            "Fetching topic metadata with correlation id 1 for topics [Set(events)] from broker "
            "[id:0,host:127.0.0.1,port:29211] failed",
            {"broker": "id:0,host:127.0.0.1,port:29211"},
        ),
    ),
    "connector-shutting-down": (("[g_host-1-17952-ab], ZKConsumerConnector shutting down", {}),),
    "connector-shutdown-completed": (
        (
            "[g_host-1-17952-ab], ZKConsumerConnector shutdown completed in 51 ms",
            {"tookMs": "51"},
        ),
        ("[g_host-1-17952-ab], ZKConsumerConnector shut down completed", {}),
    ),
    "connector-shutdown-error": (("[g_host-1-17952-ab], error during consumer connector shutdown", {}),),
    "connector-shutdown-exception": (
        (
            "worker failed\njava.lang.InterruptedException\n"
            "\tat java.util.concurrent.CountDownLatch.await(CountDownLatch.java:231)\n"
            "\tat kafka.utils.ShutdownableThread.shutdown(ShutdownableThread.scala:32)\n"
            "\tat kafka.consumer.ZookeeperConsumerConnector.shutdown(ZookeeperConsumerConnector.scala:193)\n"
            "\tat shop.Worker.stop(Worker.java:7)",
            {},
        ),
    ),
    "consumer-closing": (
        (
            "[Consumer clientId=a, groupId=g] Member a-1 sending LeaveGroup request to coordinator b:9092 "
            "(id: 2147483647 rack: null) due to the consumer is being closed",
            {},
        ),
    ),
    "consumer-unregistered": (("App info kafka.consumer for bills ä|ö unregistered", {"client": "bills ä|ö"}),),
    "poll-timeout-expired": (
        ("[Consumer clientId=a, groupId=g] consumer poll timeout has expired. This means the time between", {}),
        ("Consumer poll timeout has expired.", {}),
    ),
    "python-poll-timeout-expired": (("Heartbeat poll expired, leaving group", {}),),
    "librdkafka-poll-interval-exceeded": (
        (
            "[thrd:main]: Application maximum poll interval (300000ms) exceeded by 412ms (adjust max.poll.interval.ms)",
            {"limitMs": "300000", "overMs": "412"},
        ),
    ),
    "commit-refused": (
        (
            "[Consumer clientId=a, groupId=g] Offset commit with offsets {} failed\n"
            "org.apache.kafka.clients.consumer.CommitFailedException: Offset commit cannot be completed since the "
            "consumer is not part of an active group for auto partition assignment; it is likely that the consumer "
            "was kicked out of the group.",
            {},
        ),
        (
            "Commit cannot be completed since the group has already rebalanced and assigned the partitions to another "
            "member. This means that the time between subsequent calls to poll() was longer than the configured",
            {},
        ),
    ),
    "records-expired": (
        (
            "org.apache.kafka.common.errors.TimeoutException: Expiring 15 record(s) for ledger-0:60000 ms has passed "
            "since batch creation",
            {"records": "15", "partition": "ledger-0", "waitMs": "60000"},
        ),
        (
            "Expiring 2 record(s) for TopicPartition(topic='a', partition=0): 30008 ms has passed since batch creation",
            {"records": "2", "partition": "TopicPartition(topic='a', partition=0)", "waitMs": "30008"},
        ),
    ),
    "produce-refused": (
        (
            "[Producer clientId=a] Got error produce response with correlation id 1234 on topic-partition ledger-0, "
            "retrying (2147483646 attempts left). Error: NOT_ENOUGH_REPLICAS",
            {"partition": "ledger-0", "error": "NOT_ENOUGH_REPLICAS"},
        ),
        (
            "<KafkaProducer client_id=a>: Got error produce response on topic-partition TopicPartition(topic='ledger', "
            "partition=0), retrying (9 attempts left): NotEnoughReplicasError",
            {"partition": "TopicPartition(topic='ledger', partition=0)", "error": "NotEnoughReplicasError"},
        ),
    ),
    "aiokafka-produce-refused": (
        (
            "Got error produce response: NodeNotReadyError: Attempt to send a request to node which is not ready.",
            {"error": "NodeNotReadyError"},
        ),
    ),
    "aiokafka-connect-failed": (
        (
            "Unable connect to node with id 1: [Errno 111] Connect call failed ('127.0.0.1', 55871)",
            {"node": "1", "address": "127.0.0.1"},
        ),
    ),
    "request-timed-out": (
        ("[Producer clientId=a] Disconnecting from node 1 due to request timeout.", {"node": "1"}),
        (
            "Disconnecting from node 2 due to socket connection setup timeout. The timeout value is 10203 ms.",
            {"node": "2"},
        ),
    ),
    "librdkafka-requests-timed-out": (
        (
            "[thrd:kafka-2:9092/2]: kafka-2:9092/2: Timed out 5 in-flight, 0 retry-queued, 0 out-queue, 0 "
            "partially-sent requests",
            {"requests": "5"},
        ),
    ),
    "librdkafka-message-timed-out": (("Delivery failed: KafkaError{_MSG_TIMED_OUT: Local: Message timed out}", {}),),
    "producer-closing": (
        ("[Producer clientId=a] Closing the Kafka producer with timeoutMillis = 5000 ms.", {"timeout": "5000"}),
        ("<KafkaProducer a>: Closing the Kafka producer with 9.5 secs timeout.", {"timeout": "9.5"}),
    ),
    "producer-closed": (("The Kafka producer has closed.", {}), ("<KafkaProducer a>: Kafka producer closed", {})),
    "producer-unregistered": (("App info kafka.producer for orders unregistered", {"client": "orders"}),),
    "producer-force-close": (
        (
            "[Producer clientId=a] Proceeding to force close the producer since pending requests could not be "
            "completed within timeout 5000 ms.",
            {"timeout": "5000"},
        ),
    ),
    "records-aborted": (("org.apache.kafka.common.KafkaException: Producer is closed forcefully.", {}),),
    "librdkafka-terminating": (
        (
            "Producer terminating with 42 messages (4200 bytes) still in queue or transit: use flush() to wait for "
            "outstanding message delivery",
            {"records": "42", "bytes": "4200"},
        ),
        ("Producer terminating with 1 message (100 bytes) still in queue or transit", {"records": "1", "bytes": "100"}),
    ),
    "aiokafka-unclosed": (
        ("asyncio: Unclosed AIOKafkaProducer\nproducer: <aiokafka.producer.producer.AIOKafkaProducer>", {}),
    ),
    "process-out-of-memory": (("Terminating due to java.lang.OutOfMemoryError: Java heap space", {}),),
    "process-crashed": (("# A fatal error has been detected by the Java Runtime Environment:", {}),),
    "process-killed-for-memory": (
        ("kernel: Out of memory: Killed process 4711 (java) total-vm:8123456kB", {"pid": "4711"}),
        ("Memory cgroup out of memory: Killed process 4711 (java)", {"pid": "4711"}),
    ),
    "container-killed": (("Last State: Terminated, Reason: OOMKilled, Exit Code: 137", {}),),
    "process-killed": (("export.service: Main process exited, code=killed, status=9/KILL", {}),),
    "producer-started": (("[Producer clientId=a] Instantiated an idempotent producer.", {}),),
    "client-version": (
        ("Kafka version: 4.1.0", {"version": "4.1.0"}),
        ("Kafka version : 0.11.0.3", {"version": "0.11.0.3"}),
    ),
    "producer-config": (
        (
            CONFIG,
            {
                "address": "[kafka-1:9092]",
                "client": "orders",
                "deliveryTimeoutMs": "8000",
                "requestTimeoutMs": "4000",
            },
        ),
        ("ProducerConfig values:", {}),
    ),
    "consumer-config": (
        (
            "ConsumerConfig values:\n\tclient.id = billing\n\tgroup.id = g\n\tmax.poll.interval.ms = 30000\n",
            {"client": "billing", "maxPollIntervalMs": "30000"},
        ),
        ("ConsumerConfig values:", {}),
    ),
    "legacy-client-named": (("Property client.id is overridden to trade feed|ü", {"client": "trade feed|ü"}),),
    "connector-config": (("Property queued.max.message.chunks is overridden to 10", {"queuedMaxMessageChunks": "10"}),),
}

#: The client libraries, and what else speaks of a client's process.
SPEAKERS = {"java", "scala", "librdkafka", "kafka-python", "aiokafka", "jvm", "linux", "kubernetes", "systemd"}
SPEAKERS |= {"python", "spring-kafka", "confluent-kafka", "sarama", "franz-go", "kafka-go", "kafkajs", "go"}
#: Libraries that speak for themselves. Others speak in their words: confluent-kafka and rdkafka-ruby in librdkafka's,
#: Spring Kafka, Connect, Flink and Logstash in the Java client's.
LIBRARIES = ("java", "librdkafka", "kafka-python", "aiokafka", "sarama", "franz-go", "kafka-go", "kafkajs")
#: What those write that run a client of others around its own words.
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
UNWORDED = Path(__file__).resolve().parents[1] / "golden" / "unworded.txt"
INNOCENT = (
    "producer send fail and resend.",
    "sent 100 records to topic orders in 12 ms",
    "Topic orders created",
    "Failed to allocate a worker",
    "Connection to the database could not be re-established",
    "the producer closed the file",
)


every_wording = pytest.mark.parametrize("wording", catalogue().wordings, ids=lambda wording: wording.id)


def words_in(line: str) -> list[str]:
    """The wordings that a line holds, whoever logged it."""
    return [wording.id for wording, _ in catalogue().matches(line, None)]


@every_wording
def test_it_finds_the_lines_that_it_is_for_and_what_they_say(wording: Wording) -> None:
    for line, captures in EXAMPLES[wording.id]:
        (match,) = (match for one, match in catalogue().matches(line, None) if one is wording)
        captured = {name: value for name, value in match.groupdict().items() if value}
        assert captured == captures, line


@pytest.mark.parametrize("line", INNOCENT)
def test_lines_of_applications_hold_no_wording(line: str) -> None:
    assert words_in(line) == []


def test_a_line_of_another_wording_is_not_mistaken_for_one_on_topics() -> None:
    assert words_in(EXAMPLES["partition-not-in-metadata"][0][0]) == ["partition-not-in-metadata"]


def test_every_one_has_an_example() -> None:
    assert {wording.id for wording in catalogue().wordings} == EXAMPLES.keys()


def test_two_of_one_name_are_refused() -> None:
    twice = Meaning("x", (Wording("x", {}, "a", "a"), Wording("x", {}, "b", "b")))
    with pytest.raises(ValueError, match="two wordings are called x"):
        Catalogue([twice])


@every_wording
def test_it_is_said_by_a_library_somewhere_in_its_source(wording: Wording) -> None:
    assert wording.said_by
    assert wording.said_by.keys() <= SPEAKERS
    assert all(wording.said_by.values())


@pytest.mark.parametrize("name", AROUND)
def test_what_runs_a_client_passes_its_words_on(name: str) -> None:
    text, wording = AROUND[name]
    assert wording in [found.id for found, _ in catalogue().matches(text, None)]


def test_which_library_has_no_wording_for_a_meaning_is_a_list_that_was_reviewed() -> None:
    """A wording that is added or lost moves the list, which says why where that is known."""
    missing = {}
    for mode in modes().values():
        for meaning in mode.lines:
            said_by = {library for wording in meaning.wordings for library in wording.said_by}
            if said_by & {*LIBRARIES}:
                missing[meaning.says] = [library for library in LIBRARIES if library not in said_by]
    lines = [line for line in UNWORDED.read_text(encoding="utf-8").splitlines() if line and line[0] not in "# "]
    listed = {says: libraries.split(", ") if libraries else [] for says, _, libraries in map(_parted, lines)}
    assert listed == missing


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(" | ")


@every_wording
def test_every_group_has_a_name_and_case_matters(wording: Wording) -> None:
    pattern = re.compile(wording.pattern)
    assert pattern.groups == len(pattern.groupindex)
    assert not pattern.flags & re.IGNORECASE


@every_wording
def test_a_number_of_a_line_has_few_digits(wording: Wording) -> None:
    """Else it is none that a client counts, and none that can be reckoned with."""
    digits = re.findall(r"\(\?P<\w+>-?(?:\\d|\[\\d\.\])([+*]|\{\d+,\d+\})", wording.pattern)
    assert all(repeats not in "+*" and int(repeats[1:-1].split(",")[1]) <= 19 for repeats in digits)


@every_wording
def test_hostile_text_costs_no_more_than_its_length(wording: Wording) -> None:
    parts = [wording.literal, "[", "(", "a", "0", " ", "\n\t", "with correlation id 1 : {", "127.0.0.1:9092"]
    pattern = re.compile(wording.pattern, re.ASCII)
    started = time.perf_counter()
    for part in parts:
        pattern.search((wording.literal + " " + part * 20_000)[:100_000])
    assert time.perf_counter() - started < 1.0
