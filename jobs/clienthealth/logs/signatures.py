"""Log lines of Kafka's own client libraries that a judgement rests on, as data.

A signature is a regular expression that is found in a line's message or in the exception below it. Only what
the client library itself says counts: how an application words its own errors never does. The texts are those
of the Java clients 0.8.2 to 4.1, of librdkafka and of kafka-python 2 and 3.

Every repetition is bounded or cannot overlap what follows it, so none backtracks catastrophically: log text is
hostile. Classes like `\\d` mean ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from clienthealth.model.clients import Kind

LOOP, DEADLOCK, METADATA, BLOCKING, NOT_CLOSED, DELIVERY_STALLED, CONSUMER_STALLED = (
    "consumer-shutdown-loop",
    "producer-callback-deadlock",
    "send-blocked-on-metadata",
    "cross-topic-blocking",
    "producer-not-closed",
    "delivery-stalled",
    "consumer-stalled",
)


@dataclass(frozen=True, slots=True)
class Signature:
    """One kind of log line.

    id       what the line says, hyphenated
    literal  a text that every match contains: a cheap test before the pattern (case matters)
    pattern  found in the message, or in the exception's text; its named groups become `LogEvent.captures`
    kind     the kind of client that says it; None where several do
    mode     the failure mode that it speaks of; None where it only informs
    logger   how the logger's name begins; asked only where the record names a logger that can be a Java class
    direct   on its own it proves the mode
    process  it speaks of the whole process, so of all its clients
    """

    id: str
    literal: str
    pattern: str
    kind: Kind | None = None
    mode: str | None = None
    logger: str | None = None
    direct: bool = False
    process: bool = False


def _option(name: str, group: str, text: str = r"[^\s,]+") -> str:
    return rf"(?=(?:[\s\S]{{0,20000}}?\n[ \t]*{re.escape(name)} = (?P<{group}>{text}))?)"


#: A send() has waited for metadata and given up.
METADATA_WAITED = ("topic-not-in-metadata", "partition-not-in-metadata", "metadata-not-updated")
#: An application has not called poll() in time.
POLL_EXPIRED = ("poll-timeout-expired", "python-poll-timeout-expired", "librdkafka-poll-interval-exceeded")
#: The lines in which a client says how it is configured.
CONFIG_LOGGED = ("producer-config", "consumer-config", "connector-config", "legacy-client-named")


def options_logged(captures: Mapping[str, str]) -> dict[str, str]:
    """The options that such a line captured, by their names: requestTimeoutMs is request.timeout.ms."""
    return {"".join(f".{c.lower()}" if c.isupper() else c for c in name): text for name, text in captures.items()}


SIGNATURES: tuple[Signature, ...] = (
    # A full buffer. What makes it a deadlock is that nothing leaves it.
    Signature(
        "buffer-exhausted",
        "within the configured max blocking time",
        r"Failed to allocate (?:(?P<bytes>\d+) bytes|memory) "
        r"within the configured max blocking time (?P<waitMs>\d+) ms",
        "producer",
        DEADLOCK,
    ),
    Signature(
        "buffer-exhausted-at-once",
        "bytes of memory you configured for the client",
        r"You have exhausted the (?P<bytes>\d+) bytes of memory you configured for the client",
        "producer",
        DEADLOCK,
    ),
    Signature("queue-full", "Local: Queue full", r"Local: Queue full", "producer", DEADLOCK),
    Signature(
        "callback-error",
        "Error executing user-provided callback on message",
        r"Error executing user-provided callback on message for topic-partition",
        "producer",
        DEADLOCK,
    ),
    Signature(
        "flush-refused-in-callback",
        "invocation inside a callback is not permitted",
        r"KafkaProducer\.flush\(\) invocation inside a callback is not permitted",
        kind="producer",
        mode=DEADLOCK,
    ),
    Signature(
        "close-inside-callback",
        "in order to prevent useless blocking due to self-join",
        r"Overriding close timeout .{1,40} in order to prevent useless blocking due to self-join",
        "producer",
        DEADLOCK,
    ),
    # send() waits for metadata and gives up.
    Signature(
        "topic-not-in-metadata",
        "not present in metadata after",
        r"Topic (?P<topic>[\w.-]{1,249}) not present in metadata after (?P<waitMs>\d+) ms",
        "producer",
        METADATA,
        direct=True,
    ),
    Signature(
        "partition-not-in-metadata",
        "is not present in metadata after",
        r"Partition (?P<partition>-?\d+) of topic (?P<topic>[\w.-]{1,249}) with partition count (?P<count>\d+) "
        r"is not present in metadata after (?P<waitMs>\d+) ms",
        "producer",
        METADATA,
        direct=True,
    ),
    Signature(
        "metadata-not-updated",
        "Failed to update metadata after",
        r"Failed to update metadata after (?:(?P<waitMs>\d+) ms|(?P<waitS>\d+(?:\.\d+)?) sec)",
        "producer",
        METADATA,
        direct=True,
    ),
    # Why metadata does not come: the topic, or the cluster.
    Signature(
        "topic-error-in-metadata",
        "with correlation id",
        r"with correlation id \d+ ?: \{(?P<topic>[^={},]{1,249})=(?P<error>"
        r"UNKNOWN_TOPIC_OR_PARTITION|LEADER_NOT_AVAILABLE|INVALID_TOPIC_EXCEPTION|TOPIC_AUTHORIZATION_FAILED)",
        None,
        METADATA,
    ),
    Signature(
        "python-topic-unknown",
        "in cluster metadata",
        r"Topic (?P<topic>[\w.-]{1,249}) not found in cluster metadata",
        mode=METADATA,
    ),
    Signature(
        "topic-unknown",
        "nknown topic",
        r"Local: Unknown topic|Broker: Unknown topic or partition",
        None,
        METADATA,
    ),
    Signature(
        "bootstrap-disconnected",
        "Bootstrap broker",
        r"Bootstrap broker (?P<address>\S{1,300})(?: \([^()\n]{0,120}\))? disconnected",
        None,
        METADATA,
    ),
    Signature(
        "connection-failed",
        "could not be established",
        r"Connection to node (?P<node>-?\d+) (?:\((?P<address>[^()\s]{1,300})\) )?could not be established",
        None,
        METADATA,
    ),
    Signature(
        "rebootstrapping",
        "Rebootstrapping with",
        r"Rebootstrapping with \[(?P<address>[^\]\n]{0,300})\]",
        None,
        METADATA,
    ),
    Signature(
        "bootstrap-unresolvable",
        "from bootstrap.servers as DNS resolution",
        r"Couldn't resolve server (?P<address>\S{1,300}) from bootstrap\.servers as DNS resolution",
        None,
        METADATA,
    ),
    Signature(
        "python-bootstrap-failed",
        "Bootstrap ",
        r"Bootstrap (?:connection|attempt) to (?P<address>\S{1,300}) failed",
        None,
        METADATA,
    ),
    Signature(
        "librdkafka-connect-failed",
        "Connect to ipv",
        r"Connect to (?P<address>ipv[46]#\S+) failed",
        None,
        METADATA,
    ),
    Signature(
        "librdkafka-all-brokers-down",
        "All broker connections are down",
        r"Local: All broker connections are down",
        None,
        METADATA,
    ),
    Signature(
        "librdkafka-brokers-down",
        "brokers are down",
        r"(?P<down>\b\d{1,6})/(?P<brokers>\d{1,6}) brokers are down",
        None,
        METADATA,
    ),
    # The old Scala consumer looks for its offset manager, or is shut down.
    Signature(
        "offset-manager-lookup-failed",
        "Failed to fetch consumer metadata from",
        r"Failed to fetch consumer metadata from (?P<address>\S{1,300}:\d{1,5})\.",
        "legacy-consumer",
        LOOP,
        "kafka.client.ClientUtils",
    ),
    Signature(
        "offset-manager-channel-failed",
        "Error while c",
        r"Error while (?:creating channel|connecting) to (?P<address>\S{1,300}:\d{1,5})\.",
        "legacy-consumer",
        LOOP,
        "kafka.client.ClientUtils",
    ),
    Signature(
        "broker-out-of-reach",
        "Fetching topic metadata with correlation id",
        r"Fetching topic metadata with correlation id \d+ for topics \[[^\n]{0,300}?\] "
        r"from broker \[(?P<broker>[^\]\n]{0,200})\] failed",
        "legacy-consumer",
        LOOP,
        "kafka.client.ClientUtils",
    ),
    Signature(
        "connector-shutting-down",
        "ZKConsumerConnector shutting down",
        r"ZKConsumerConnector shutting down",
        "legacy-consumer",
        LOOP,
    ),
    Signature(
        "connector-shutdown-completed",
        "ZKConsumerConnector shut",
        r"ZKConsumerConnector shut ?down completed(?: in (?P<tookMs>\d{1,12}) ms)?",
        "legacy-consumer",
        LOOP,
    ),
    Signature(
        "connector-shutdown-error",
        "error during consumer connector shutdown",
        r"error during consumer connector shutdown",
        "legacy-consumer",
        LOOP,
        "kafka.consumer.ZookeeperConsumerConnector",
    ),
    # Whoever logs it: the connector's shutdown threw.
    Signature(
        "connector-shutdown-exception",
        "ZookeeperConsumerConnector.shutdown(",
        r"(?:Exception|Error)\b[^\n]{0,1000}(?:\n[^\n]{0,1000}){1,40}?"
        r"\n[ \t]*at kafka\.(?:javaapi\.)?consumer\.ZookeeperConsumerConnector\.shutdown\(",
        "legacy-consumer",
        LOOP,
    ),
    # A consumer of the Java client is closed.
    Signature(
        "consumer-closing",
        "due to the consumer is being closed",
        r"due to the consumer is being closed",
        "consumer",
        LOOP,
    ),
    Signature(
        "consumer-unregistered",
        "App info kafka.consumer for",
        r"App info kafka\.consumer for (?P<client>[^\n]{1,300}) unregistered",
        "consumer",
        LOOP,
    ),
    # A consumer whose application does not come back to poll().
    Signature(
        "poll-timeout-expired",
        "onsumer poll timeout has expired",
        r"[Cc]onsumer poll timeout has expired",
        "consumer",
        CONSUMER_STALLED,
    ),
    Signature(
        "python-poll-timeout-expired",
        "Heartbeat poll expired, leaving group",
        r"Heartbeat poll expired, leaving group",
        "consumer",
        CONSUMER_STALLED,
    ),
    Signature(
        "librdkafka-poll-interval-exceeded",
        "Application maximum poll interval",
        r"Application maximum poll interval \((?P<limitMs>\d+)ms\) exceeded by (?P<overMs>\d+)ms",
        "consumer",
        BLOCKING,
    ),
    Signature(
        "commit-refused",
        "ommit cannot be completed since the ",
        r"[Cc]ommit cannot be completed since the (?:consumer (?:is not|isn't) part of an active group"
        r"|group has already rebalanced)",
        "consumer",
        CONSUMER_STALLED,
    ),
    # Records that no broker acknowledges.
    Signature(
        "records-expired",
        "ms has passed since",
        r"Expiring (?P<records>\d{1,9}) record\(s\) for (?P<partition>.{1,300}?): ?(?P<waitMs>\d{1,12}) ms "
        r"has passed since",
        "producer",
        DELIVERY_STALLED,
    ),
    Signature(
        "produce-refused",
        "Got error produce response",
        r"Got error produce response (?:with correlation id \d{1,12} )?on topic-partition (?P<partition>.{1,300}?), "
        r"retrying \([^()\n]{1,60}\)(?:\. Error)?: (?P<error>[\w.]{3,80})",
        "producer",
        DELIVERY_STALLED,
    ),
    Signature(
        "aiokafka-produce-refused",
        "Got error produce response: ",
        r"Got error produce response: (?P<error>\w{3,80})",
        "producer",
        DELIVERY_STALLED,
        "aiokafka.producer",
    ),
    Signature(
        "aiokafka-connect-failed",
        "Unable connect to node with id",
        r"Unable connect to node with id (?P<node>[\w-]{1,20}): [^\n]{0,200}?"
        r"\('(?P<address>[^'\n]{1,200})', \d{1,5}\)",
        None,
        DELIVERY_STALLED,
    ),
    Signature(
        "request-timed-out",
        "Disconnecting from node",
        r"Disconnecting from node (?P<node>-?\d{1,12}) due to (?:socket connection setup|request) timeout",
        None,
        DELIVERY_STALLED,
    ),
    Signature(
        "librdkafka-requests-timed-out",
        " in-flight, ",
        r"Timed out (?P<requests>\d{1,9}) in-flight, \d{1,9} retry-queued",
        None,
        DELIVERY_STALLED,
    ),
    Signature(
        "librdkafka-message-timed-out",
        "Local: Message timed out",
        r"Local: Message timed out",
        "producer",
        DELIVERY_STALLED,
    ),
    # How a producer ends.
    Signature(
        "producer-closing",
        "Closing the Kafka producer with",
        r"Closing the Kafka producer with (?:timeoutMillis = )?(?P<timeout>[\d.]+)",
        "producer",
        NOT_CLOSED,
    ),
    Signature(
        "producer-closed",
        "Kafka producer ",
        r"Kafka producer (?:has (?:been )?)?closed",
        "producer",
        NOT_CLOSED,
    ),
    Signature(
        "producer-unregistered",
        "App info kafka.producer for",
        r"App info kafka\.producer for (?P<client>\S[^\n]{0,299}?) unregistered",
        "producer",
        NOT_CLOSED,
    ),
    Signature(
        "producer-force-close",
        "Proceeding to force close the producer since pending",
        r"Proceeding to force close the producer since pending requests could not be completed within timeout"
        r"(?: (?P<timeout>[\d.]+))?",
        "producer",
        NOT_CLOSED,
        direct=True,
    ),
    Signature(
        "records-aborted",
        "Producer is closed forcefully",
        r"Producer is closed forcefully",
        "producer",
        NOT_CLOSED,
    ),
    Signature(
        "librdkafka-terminating",
        "still in queue or transit",
        r"Producer terminating with (?P<records>\d+) messages? \((?P<bytes>\d+) bytes\) still in queue",
        "producer",
        NOT_CLOSED,
        direct=True,
    ),
    Signature("aiokafka-unclosed", "Unclosed AIOKafkaProducer", r"Unclosed AIOKafkaProducer", "producer", NOT_CLOSED),
    Signature(
        "process-out-of-memory",
        "Terminating due to java.lang.OutOfMemoryError",
        r"Terminating due to java\.lang\.OutOfMemoryError",
        "producer",
        NOT_CLOSED,
        process=True,
    ),
    Signature(
        "process-crashed",
        "A fatal error has been detected by the Java Runtime Environment",
        r"A fatal error has been detected by the Java Runtime Environment",
        "producer",
        NOT_CLOSED,
        process=True,
    ),
    Signature(
        "process-killed-for-memory",
        "Killed process ",
        r"[Oo]ut of memory: Killed process (?P<pid>\d{1,9})",
        "producer",
        NOT_CLOSED,
        process=True,
    ),
    Signature("container-killed", "OOMKilled", r"\bOOMKilled\b", "producer", NOT_CLOSED, process=True),
    Signature("process-killed", "killed, status", r"code=killed, status=9/KILL", "producer", NOT_CLOSED, process=True),
    # What the client says of itself when it starts. A producer whose start was logged would have logged its close.
    Signature(
        "producer-started",
        "Instantiated a",
        r"Instantiated an? (?:idempotent|transactional) producer",
        "producer",
        NOT_CLOSED,
    ),
    Signature(
        "client-version",
        "Kafka version",
        r"Kafka version ?: (?P<version>\d[\w.-]*)",
        logger="org.apache.kafka",
    ),
    Signature(
        "producer-config",
        "ProducerConfig values:",
        r"ProducerConfig values:"
        + _option("bootstrap.servers", "address")
        + _option("client.id", "client", r"\S[^\n]{0,299}")
        + _option("delivery.timeout.ms", "deliveryTimeoutMs")
        + _option("request.timeout.ms", "requestTimeoutMs"),
        "producer",
        NOT_CLOSED,
    ),
    Signature(
        "consumer-config",
        "ConsumerConfig values:",
        r"ConsumerConfig values:"
        + _option("client.id", "client", r"\S[^\n]{0,299}")
        + _option("max.poll.interval.ms", "maxPollIntervalMs"),
        "consumer",
    ),
    # The Scala consumer names itself once, at its start; its threads and later lines only name its group.
    Signature(
        "legacy-client-named",
        "Property client.id is overridden to",
        r"Property client\.id is overridden to (?P<client>\S[^\n]{0,299})",
        "legacy-consumer",
        logger="kafka.utils",
    ),
    Signature(
        "connector-config",
        "Property queued.max.message.chunks is overridden to",
        r"Property queued\.max\.message\.chunks is overridden to (?P<queuedMaxMessageChunks>\d{1,9})",
        "legacy-consumer",
    ),
)


@cache
def compiled(signature: Signature) -> re.Pattern[str]:
    """The pattern, ready to search with."""
    return re.compile(signature.pattern, re.ASCII)
