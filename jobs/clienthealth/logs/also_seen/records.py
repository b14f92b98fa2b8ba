"""Records that are not sent, or not understood."""

from __future__ import annotations

from clienthealth.logs.also_seen._trouble import Trouble
from clienthealth.logs.wordings import Wording

RECORD_TOO_LARGE = Trouble(
    "record too large",
    (
        Wording(
            "record-too-large",
            {
                "java": "KafkaProducer.ensureValidRecordSize",
                "kafka-python": "producer/kafka.py",
                "aiokafka": "producer/producer.py",
            },
            "bytes when serialized which is larger than",
            r"The message is (?P<bytes>\d{1,12}) bytes when serialized which is larger than",
        ),
        Wording(
            "broker-refused-large-message",
            {
                "java": "common/protocol/Errors, MESSAGE_TOO_LARGE",
                "franz-go": "kerr/kerr.go",
                "kafkajs": "protocol/error.js",
            },
            "larger than the max message size",
            r"request included a message larger than the max message size the server will accept",
        ),
        Wording(
            "librdkafka-message-too-large",
            {"librdkafka": "rdkafka.c, rd_kafka_err_descs"},
            "Message size too large",
            r"Broker: Message size too large",
        ),
        Wording(
            "sarama-message-too-large",
            {"sarama": "errors.go, ErrMessageSizeTooLarge"},
            "Message was too large",
            r"kafka server: Message was too large, server rejected it",
        ),
        Wording(
            "sarama-message-over-limit",
            {"sarama": "async_producer.go, dispatcher"},
            "Producer.MaxMessageBytes",
            r"Attempt to produce message larger than configured Producer\.MaxMessageBytes",
        ),
        Wording(
            "kafka-go-message-too-large",
            {"kafka-go": "error.go, MessageSizeTooLarge"},
            "Message Size Too Large",
            r"\[10\] Message Size Too Large",
        ),
    ),
    kind="producer",
    id="record-too-large",
    sentence="A record is larger than the client or the broker allows, and was not sent.",
    action="Find what made it so large; else raise max.request.size (librdkafka: message.max.bytes) and the topic's "
    "max.message.bytes together.",
)

SERIALISATION = Trouble(
    "serialisation failed",
    (
        Wording(
            "serialization-exception",
            {"java": "common/errors/SerializationException; KafkaProducer.doSend"},
            "SerializationException",
            r"\bkafka\.common\.errors\.SerializationException\b",
        ),
        Wording(
            "deserialization-exception",
            {"java": "2.6 and newer, common/errors/RecordDeserializationException"},
            "RecordDeserializationException",
            r"\bkafka\.common\.errors\.RecordDeserializationException\b",
        ),
        Wording(
            "spring-deserialization",
            {"spring-kafka": "2.2 and newer, support/serializer/DeserializationException"},
            "DeserializationException",
            r"\bkafka\.support\.serializer\.DeserializationException\b",
        ),
        Wording(
            "spring-cannot-deserialize",
            {"spring-kafka": "2.5 and newer, listener/DefaultErrorHandler and those before it"},
            "ErrorHandlingDeserializer",
            r"This (?:error handler|ErrorHandler) cannot process 'SerializationException's directly",
        ),
        Wording(
            "librdkafka-serialization",
            {"librdkafka": "rdkafka.c, rd_kafka_err_descs"},
            "serialization error",
            r"Local: (?:Key|Value) (?:de)?serialization error",
        ),
        Wording(
            "confluent-serialization",
            {"confluent-kafka": "error.py"},
            "erializationError",
            r"\b(?:Key|Value)(?:Des|S)erializationError\b",
        ),
    ),
    id="serialisation",
    sentence="A record could not be turned into bytes, or bytes not into a record.",
    action="Compare the serialisers of both sides. A consumer that gets such a record reads it again for ever unless "
    "it seeks past it or hands it to a dead-letter topic.",
)

SCHEMA_REGISTRY = Trouble(
    "schema registry refused",
    (
        Wording(
            "schema-registry-refused",
            {"java": "kafka-schema-registry-client, RestClientException"},
            "RestClientException",
            r"\bschemaregistry\.client\.rest\.exceptions\.RestClientException: (?P<reason>[^\n]{1,250})",
        ),
        Wording(
            "schema-registry-serde",
            {"java": "kafka-schema-serializer, AbstractKafkaSchemaSerDe and its kin"},
            "ing Avro ",
            r"\bError (?:registering|retrieving) Avro (?:schema|unknown schema)",
        ),
        Wording(
            "python-schema-registry-refused",
            {"confluent-kafka": "schema_registry/error.py, SchemaRegistryError"},
            "SchemaRegistryError",
            r"\bSchemaRegistryError: (?P<reason>[^\n]{1,250})",
        ),
    ),
    id="schema-registry",
    sentence="The schema registry refused a schema, does not have it, or did not answer.",
    action="Read its error code: 404xx is not there, 409 not compatible, 401 and 403 not allowed, 5xx its own fault.",
)

FENCED = Trouble(
    "producer fenced",
    (
        Wording(
            "producer-fenced",
            {
                "java": "0.11 and newer, common/errors/ProducerFencedException",
                "aiokafka": "errors.py, ProducerFenced",
                "kafka-python": "errors.py, ProducerFencedError",
            },
            "ProducerFenced",
            r"\bProducerFenced(?:Exception|Error)?: ",
        ),
        Wording(
            "invalid-producer-epoch",
            {
                "java": "2.7 and newer, common/errors/InvalidProducerEpochException",
                "aiokafka": "errors.py, InvalidProducerEpoch",
                "kafka-python": "errors.py, InvalidProducerEpochError",
            },
            "InvalidProducerEpoch",
            r"\bInvalidProducerEpoch(?:Exception|Error)?: ",
        ),
        Wording(
            "producer-old-epoch",
            {
                "java": "common/protocol/Errors",
                "librdkafka": "rdkafka.c, rd_kafka_err_descs",
                "sarama": "errors.go, ErrInvalidProducerEpoch",
                "kafkajs": "protocol/error.js",
            },
            "an old epoch",
            r"Producer attempted (?:an operation with|to produce with) an old epoch",
        ),
        Wording(
            "newer-producer",
            {"java": "2.7 and newer, common/protocol/Errors, PRODUCER_FENCED", "franz-go": "kerr/kerr.go"},
            "newer producer with the same",
            r"There is a newer producer with the same transactionalId which fences the current one",
        ),
        Wording(
            "librdkafka-fenced",
            {"librdkafka": "rdkafka.c, RD_KAFKA_RESP_ERR__FENCED; rdkafka_request.c"},
            "fenced by",
            r"Local: This instance has been fenced by a newer instance|transactional producer fenced by newer producer",
        ),
    ),
    kind="producer",
    id="fenced",
    sentence="Another producer with the same transactional.id took this one's place; its transactions are refused.",
    action="Look whether two processes share a transactional.id, or whether this one paused longer than "
    "transaction.timeout.ms; it must be closed and made anew.",
)
