"""What clients log of records that no broker acknowledges."""

from __future__ import annotations

from clienthealth.logs.wordings import Meaning, Wording

ID = "delivery-stalled"

EXPIRED = Meaning(
    "records were given up after delivery.timeout.ms",
    (
        Wording(
            "records-expired",
            {
                "java": "0.10.2 and newer, ProducerBatch and Sender",
                "kafka-python": "3.0 and newer, producer/sender.py, _send_producer_data",
            },
            "ms has passed since",
            r"Expiring (?P<records>\d{1,9}) record\(s\) for (?P<partition>.{1,300}?): ?(?P<waitMs>\d{1,12}) ms "
            r"has passed since",
        ),
        Wording(
            "python-batch-expired",
            {"kafka-python": "1.0 to 2.x, producer/record_accumulator.py, ProducerBatch.maybe_expire"},
            " expired: ",
            r"Batch for (?P<partition>.{1,300}?) containing (?P<records>\d{1,9}) record\(s\) expired: ",
        ),
        Wording(
            "franz-go-records-timed-out",
            {"franz-go": "1.0 and newer, kgo/errors.go, ErrRecordTimeout"},
            "records have timed out before",
            r"records have timed out before they were able to be produced",
        ),
        Wording(
            "librdkafka-message-timed-out",
            {"librdkafka": "rdkafka.c, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT"},
            "Local: Message timed out",
            r"Local: Message timed out",
        ),
    ),
    kind="producer",
    counted="record-error-total",
)
REFUSED = Meaning(
    "a broker refused records",
    (
        Wording(
            "produce-refused",
            {
                "java": "Sender.completeBatch",
                "kafka-python": "1.0 and newer, producer/sender.py, _complete_batch",
            },
            "Got error produce response",
            r"Got error produce response (?:with correlation id \d{1,12} )?on topic-partition "
            r"(?P<partition>.{1,300}?), retrying \([^()\n]{1,60}\)(?:\. Error)?: (?P<error>[\w.]{3,80})",
        ),
        Wording(
            "aiokafka-produce-refused",
            {"aiokafka": "until 0.10, producer/sender.py"},
            "Got error produce response: ",
            r"Got error produce response: (?P<error>\w{3,80})",
            "aiokafka.producer",
        ),
        Wording(
            "aiokafka-produce-retried",
            {"aiokafka": "0.14, producer/sender.py, SendProduceReqHandler.handle_response"},
            ", retrying. Error: ",
            r"Got error produce response on topic-partition (?P<partition>.{1,300}?), retrying\. Error: "
            r"(?P<error>[^\n]{3,200})",
        ),
        Wording(
            "go-replicas-missing",
            {
                "sarama": "1.19 to 1.60, errors.go, ErrNotEnoughReplicas and ErrNotEnoughReplicasAfterAppend",
                "franz-go": "1.0 and newer, kerr/kerr.go, NotEnoughReplicas and NotEnoughReplicasAfterAppend",
                "kafkajs": "1.0 to 2.2, protocol/error.js, NOT_ENOUGH_REPLICAS and NOT_ENOUGH_REPLICAS_AFTER_APPEND",
                "kafka-go": "0.4, error.go, NotEnoughReplicasAfterAppend",
            },
            "fewer in-sync replicas",
            r"(?:[Mm]essages? (?:are rejected|are written to the log|was written to the log)|\[(?:19|20)\] )"
            r"[^\n]{0,120}?(?P<error>fewer in-sync replicas)",
        ),
        Wording(
            "librdkafka-replicas-missing",
            {"librdkafka": "rdkafka.c, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS"},
            "Broker: Not enough in-sync replicas",
            r"Broker: (?P<error>Not enough in-sync replicas)",
        ),
    ),
    kind="producer",
)
CONNECTION_FAILED_OF_AIOKAFKA = Meaning(
    "a broker, of the bootstrap list or of metadata by its id, cannot be reached",
    (
        Wording(
            "aiokafka-connect-failed",
            {"aiokafka": "client.py, AIOKafkaClient._get_conn"},
            "Unable connect to node with id",
            r"Unable connect to node with id (?P<node>[\w-]{1,20}): [^\n]{0,200}?"
            r"\('(?P<address>[^'\n]{1,200})', \d{1,5}\)",
        ),
    ),
    unserved=True,
)
TIMED_OUT = Meaning(
    "a broker did not answer in time",
    (
        Wording(
            "request-timed-out",
            {"java": "NetworkClient.handleTimedOutRequests and handleTimedOutConnections"},
            "Disconnecting from node",
            r"Disconnecting from node (?P<node>-?\d{1,12}) due to (?:socket connection setup|request) timeout",
        ),
        Wording(
            "librdkafka-requests-timed-out",
            {"librdkafka": "rdkafka_broker.c, rd_kafka_broker_timeout_scan"},
            " in-flight, ",
            r"Timed out (?P<requests>\d{1,9}) in-flight, \d{1,9} retry-queued",
        ),
    ),
    unserved=True,
)
LINES = (EXPIRED, REFUSED, CONNECTION_FAILED_OF_AIOKAFKA, TIMED_OUT)
