"""What clients log of metadata that does not come, and why: the topic, or the cluster."""

from __future__ import annotations

from clienthealth.logs.also_seen import AUTHENTICATION, BROKERS_DOWN, TLS
from clienthealth.logs.wordings import Meaning, Wording

ID = "send-blocked-on-metadata"

METADATA_WAITED = Meaning(
    "a send() waited for metadata and gave up",
    (
        Wording(
            "topic-not-in-metadata",
            {"java": "2.2 and newer, KafkaProducer.waitOnMetadata"},
            "not present in metadata after",
            r"Topic (?P<topic>[\w.-]{1,249}) not present in metadata after (?P<waitMs>\d{1,12}) ms",
        ),
        Wording(
            "partition-not-in-metadata",
            {"java": "2.2 and newer, KafkaProducer.waitOnMetadata"},
            "is not present in metadata after",
            r"Partition (?P<partition>-?\d{1,10}) of topic (?P<topic>[\w.-]{1,249}) "
            r"with partition count (?P<count>\d{1,15}) is not present in metadata after (?P<waitMs>\d{1,12}) ms",
        ),
        Wording(
            "metadata-not-updated",
            {"java": "Metadata.awaitUpdate", "kafka-python": "producer/kafka.py, _wait_on_metadata"},
            "Failed to update metadata after",
            r"Failed to update metadata after (?:(?P<waitMs>\d{1,12}) ms|(?P<waitS>\d{1,9}(?:\.\d{1,9})?) sec)",
        ),
    ),
    kind="producer",
    counted="record-error-total",
)
TOPIC_ERRORS = Meaning(
    "the brokers answer that the topic is not there, or not allowed",
    (
        Wording(
            "topic-error-in-metadata",
            {"java": "NetworkClient, DefaultMetadataUpdater.handleSuccessfulResponse"},
            "with correlation id",
            r"with correlation id \d+ ?: \{(?P<topic>[^={},]{1,249})=(?P<error>"
            r"UNKNOWN_TOPIC_OR_PARTITION|LEADER_NOT_AVAILABLE|INVALID_TOPIC_EXCEPTION|TOPIC_AUTHORIZATION_FAILED)",
        ),
        Wording(
            "python-topic-unknown",
            {"kafka-python": "cluster.py, update_metadata", "aiokafka": "cluster.py, update_metadata"},
            "in cluster metadata",
            r"Topic (?P<topic>[\w.-]{1,249}) not found in cluster metadata",
        ),
    ),
)
TOPIC_REFUSED = Meaning(
    "a request failed as its topic is unknown",
    (
        Wording(
            "topic-unknown",
            {"librdkafka": "rdkafka.c, rd_kafka_err_descs"},
            "nknown topic",
            r"Local: Unknown topic|Broker: Unknown topic or partition",
        ),
        Wording(
            "sarama-topic-unknown",
            {"sarama": "1.19 to 1.60, errors.go, ErrUnknownTopicOrPartition"},
            "that does not exist on this broker",
            r"kafka server: Request was for a topic or partition that does not exist on this broker",
        ),
        Wording(
            "kafka-go-topic-unknown",
            {"kafka-go": "0.4, error.go, UnknownTopicOrPartition"},
            "[3] Unknown Topic Or Partition",
            r"\[3\] Unknown Topic Or Partition",
        ),
        Wording(
            "topic-not-hosted",
            {
                "franz-go": "1.0 and newer, kerr/kerr.go, UnknownTopicOrPartition",
                "kafkajs": "1.0 to 2.2, protocol/error.js, UNKNOWN_TOPIC_OR_PARTITION",
            },
            "This server does not host this topic-partition",
            r"(?:UNKNOWN_TOPIC_OR_PARTITION: |(?<!Exception: ))This server does not host this topic-partition",
        ),
    ),
)
UNREACHABLE = Meaning(
    "no bootstrap broker can be reached",
    (
        Wording(
            "bootstrap-disconnected",
            {"java": "NetworkClient, DefaultMetadataUpdater.handleServerDisconnect"},
            "Bootstrap broker",
            r"Bootstrap broker (?P<address>\S{1,300})(?: \([^()\n]{0,120}\))? disconnected",
        ),
        Wording(
            "rebootstrapping",
            {"java": "3.8 and newer, Metadata.rebootstrap"},
            "Rebootstrapping with",
            r"Rebootstrapping with \[(?P<address>[^\]\n]{0,300})\]",
        ),
        Wording(
            "bootstrap-unresolvable",
            {"java": "ClientUtils.parseAndValidateAddresses"},
            "from bootstrap.servers as DNS resolution",
            r"Couldn't resolve server (?P<address>\S{1,300}) from bootstrap\.servers as DNS resolution",
        ),
        Wording(
            "aiokafka-bootstrap-failed",
            {"aiokafka": "0.5 and newer, client.py, AIOKafkaClient.bootstrap"},
            "Unable connect to ",
            r'Unable connect to "(?P<address>[^"\n]{1,300})": ',
        ),
        Wording(
            "python-bootstrap-failed",
            {"kafka-python": "net/manager.py, bootstrap (3.x); client_async.py (2.x)"},
            "Bootstrap ",
            r"Bootstrap (?:connection|attempt) to (?P<address>\S{1,300}) failed",
        ),
    ),
    unserved=True,
)
CONNECTION_FAILED = Meaning(
    "a broker that metadata names cannot be reached",
    (
        Wording(
            "connection-failed",
            {"java": "NetworkClient.processDisconnection"},
            "could not be established",
            r"Connection to node (?P<node>-?\d{1,10}) (?:\((?P<address>[^()\s]{1,300})\) )?could not be established",
        ),
    ),
    unserved=True,
)
CONNECTION_FAILED_SOMEWHERE = Meaning(
    "a broker, of the bootstrap list or of metadata, cannot be reached",
    (
        Wording(
            "librdkafka-connect-failed",
            {"librdkafka": "rdkafka_broker.c, rd_kafka_broker_connect_done"},
            "Connect to ipv",
            r"Connect to (?P<address>ipv[46]#\S+) failed",
        ),
        Wording(
            "python-connect-failed",
            {"kafka-python": "1.0 to 2.x, conn.py, BrokerConnection.connect"},
            "BrokerConnection ",
            r"Connect(?:ion)? attempt to <BrokerConnection [^\n]{0,100}?host=(?P<address>\S{1,300}) [^\n]{0,200}?"
            r"(?:returned error \d|timed out)",
        ),
        Wording(
            "sarama-connect-failed",
            {"sarama": "1.19 to 1.60, broker.go, Broker.Open"},
            "Failed to connect to broker ",
            r"Failed to connect to broker (?P<address>[^\s:]{1,250}:\d{1,5}): [^\n]",
        ),
        Wording(
            "franz-go-connect-failed",
            {"franz-go": "1.0 and newer, kgo/broker.go, connect"},
            "unable to open connection to broker",
            r"unable to open connection to broker\b(?:[^\n]{0,80}?\baddr\W{1,4}(?P<address>[^\s,;\"]{1,250}))?",
        ),
        Wording(
            "kafka-go-connect-failed",
            {"kafka-go": "0.4, dialer.go, Dialer.dialContext"},
            "failed to open connection to ",
            r"failed to open connection to (?P<address>[^\s:]{1,250}:\d{1,5}): ",
        ),
        Wording(
            "kafkajs-connect-failed",
            {"kafkajs": "1.0 to 2.2, network/connection.js, connect"},
            "[Connection] Connection ",
            r"\[Connection\] Connection (?:error: |timeout)",
        ),
    ),
    unserved=True,
)
LINES = (
    METADATA_WAITED,
    TOPIC_ERRORS,
    TOPIC_REFUSED,
    UNREACHABLE,
    CONNECTION_FAILED,
    CONNECTION_FAILED_SOMEWHERE,
    BROKERS_DOWN,
    AUTHENTICATION,
    TLS,
)
