"""What clients log of a shutdown: of a Scala consumer that may look for its offset manager for ever, and of others."""

from __future__ import annotations

from clienthealth.logs.wordings import Meaning, Wording

ID = "consumer-shutdown-loop"

LOOKUPS = Meaning(
    "a look-up of the offset manager failed at a broker",
    (
        Wording(
            "offset-manager-lookup-failed",
            {"scala": "0.8.2, ClientUtils.channelToOffsetManager"},
            "Failed to fetch consumer metadata from",
            r"Failed to fetch consumer metadata from (?P<address>\S{1,300}:\d{1,5})\.",
            "kafka.client.ClientUtils",
        ),
        Wording(
            "offset-manager-channel-failed",
            {"scala": "0.8.2, ClientUtils.channelToOffsetManager and channelToAnyBroker"},
            "Error while c",
            r"Error while (?:creating channel|connecting) to (?P<address>\S{1,300}:\d{1,5})\.",
            "kafka.client.ClientUtils",
        ),
    ),
    kind="legacy-consumer",
)
OUTAGE = Meaning(
    "a broker does not answer other threads of the consumer either",
    (
        Wording(
            "broker-out-of-reach",
            {"scala": "0.8, ClientUtils.fetchTopicMetadata"},
            "Fetching topic metadata with correlation id",
            r"Fetching topic metadata with correlation id \d+ for topics \[[^\n]{0,300}?\] "
            r"from broker \[(?P<broker>[^\]\n]{0,200})\] failed",
            "kafka.client.ClientUtils",
        ),
    ),
    kind="legacy-consumer",
)
BEGUN = Meaning(
    "a Scala consumer begins to shut down",
    (
        Wording(
            "connector-shutting-down",
            {"scala": "0.8, ZookeeperConsumerConnector.shutdown"},
            "ZKConsumerConnector shutting down",
            r"ZKConsumerConnector shutting down",
        ),
    ),
    kind="legacy-consumer",
)
COMPLETED = Meaning(
    "a Scala consumer has shut down",
    (
        Wording(
            "connector-shutdown-completed",
            {"scala": "0.8, ZookeeperConsumerConnector.shutdown"},
            "ZKConsumerConnector shut",
            r"ZKConsumerConnector shut ?down completed(?: in (?P<tookMs>\d{1,12}) ms)?",
        ),
    ),
    kind="legacy-consumer",
    relief=True,
)
FAILED = Meaning(
    "the shutdown of a Scala consumer threw an exception",
    (
        Wording(
            "connector-shutdown-error",
            {"scala": "0.8, ZookeeperConsumerConnector.shutdown"},
            "error during consumer connector shutdown",
            r"error during consumer connector shutdown",
            "kafka.consumer.ZookeeperConsumerConnector",
        ),
        # Whoever logs it.
        Wording(
            "connector-shutdown-exception",
            {"scala": "0.8, a stack trace through ZookeeperConsumerConnector.shutdown"},
            "ZookeeperConsumerConnector.shutdown(",
            r"(?:Exception|Error)\b[^\n]{0,1000}(?:\n[^\n]{0,1000}){1,40}?"
            r"\n[ \t]*at kafka\.(?:javaapi\.)?consumer\.ZookeeperConsumerConnector\.shutdown\(",
        ),
    ),
    kind="legacy-consumer",
)
CLOSING = Meaning(
    "a consumer leaves its group as it is closed",
    (
        Wording(
            "consumer-closing",
            {"java": "3.0 and newer, AbstractCoordinator.maybeLeaveGroup"},
            "due to the consumer is being closed",
            r"due to the consumer is being closed",
        ),
    ),
    kind="consumer",
    halted="fetch-total",
)
CLOSED = Meaning(
    "a consumer has closed",
    (
        Wording(
            "consumer-unregistered",
            {"java": "2.4 and newer, AppInfoParser.unregisterAppInfo"},
            "App info kafka.consumer for",
            r"App info kafka\.consumer for (?P<client>[^\n]{1,300}) unregistered",
        ),
    ),
    kind="consumer",
    relief=True,
    life="closed",
)
LINES = (LOOKUPS, OUTAGE, BEGUN, COMPLETED, FAILED, CLOSING, CLOSED)
