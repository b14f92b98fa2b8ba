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
            r"Topic (?P<topic>[\w.-]{1,249}) not present in metadata after (?P<waitMs>\d+) ms",
        ),
        Wording(
            "partition-not-in-metadata",
            {"java": "2.2 and newer, KafkaProducer.waitOnMetadata"},
            "is not present in metadata after",
            r"Partition (?P<partition>-?\d+) of topic (?P<topic>[\w.-]{1,249}) with partition count (?P<count>\d+) "
            r"is not present in metadata after (?P<waitMs>\d+) ms",
        ),
        Wording(
            "metadata-not-updated",
            {"java": "Metadata.awaitUpdate", "kafka-python": "producer/kafka.py, _wait_on_metadata"},
            "Failed to update metadata after",
            r"Failed to update metadata after (?:(?P<waitMs>\d+) ms|(?P<waitS>\d+(?:\.\d+)?) sec)",
        ),
    ),
    kind="producer",
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
            "python-bootstrap-failed",
            {"kafka-python": "client_async.py"},
            "Bootstrap ",
            r"Bootstrap (?:connection|attempt) to (?P<address>\S{1,300}) failed",
        ),
    ),
)
CONNECTION_FAILED = Meaning(
    "a broker that metadata names cannot be reached",
    (
        Wording(
            "connection-failed",
            {"java": "NetworkClient.processDisconnection"},
            "could not be established",
            r"Connection to node (?P<node>-?\d+) (?:\((?P<address>[^()\s]{1,300})\) )?could not be established",
        ),
    ),
)
CONNECTION_FAILED_OF_LIBRDKAFKA = Meaning(
    "a broker, of the bootstrap list or of metadata, cannot be reached",
    (
        Wording(
            "librdkafka-connect-failed",
            {"librdkafka": "rdkafka_broker.c, rd_kafka_broker_connect_done"},
            "Connect to ipv",
            r"Connect to (?P<address>ipv[46]#\S+) failed",
        ),
    ),
)
LINES = (
    METADATA_WAITED,
    TOPIC_ERRORS,
    TOPIC_REFUSED,
    UNREACHABLE,
    CONNECTION_FAILED,
    CONNECTION_FAILED_OF_LIBRDKAFKA,
    BROKERS_DOWN,
    AUTHENTICATION,
    TLS,
)
