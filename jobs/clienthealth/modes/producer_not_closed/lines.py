"""What clients log of a producer's start and end, and others of its process's."""

from __future__ import annotations

from clienthealth.logs.self_descriptions import PRODUCER_CONFIG
from clienthealth.logs.wordings import Meaning, Wording

ID = "producer-not-closed"

#: A producer whose start was logged would have logged its close.
STARTED = Meaning(
    "a producer starts",
    (
        Wording(
            "producer-started",
            {"java": "KafkaProducer.configureTransactionState"},
            "Instantiated a",
            r"Instantiated an? (?:idempotent|transactional) producer",
        ),
    ),
    kind="producer",
    life="begins",
)
CLOSING = Meaning(
    "a producer begins to close",
    (
        Wording(
            "producer-closing",
            {"java": "KafkaProducer.close", "kafka-python": "producer/kafka.py, close"},
            "Closing the Kafka producer with",
            r"Closing the Kafka producer with (?:timeoutMillis = )?(?P<timeout>\d{1,19}(?:\.\d{0,9})?)",
        ),
    ),
    kind="producer",
    life="closes",
)
CLOSED = Meaning(
    "a producer has closed",
    (
        Wording(
            "producer-closed",
            {"java": "KafkaProducer.close", "kafka-python": "producer/kafka.py, close"},
            "Kafka producer ",
            r"Kafka producer (?:has (?:been )?)?closed",
        ),
        Wording(
            "producer-unregistered",
            {"java": "2.4 and newer, AppInfoParser.unregisterAppInfo"},
            "App info kafka.producer for",
            r"App info kafka\.producer for (?P<client>\S[^\n]{0,299}?) unregistered",
        ),
    ),
    kind="producer",
    life="closed",
)
FORCED = Meaning(
    "a close() ran out of its time limit",
    (
        Wording(
            "producer-force-close",
            {"java": "KafkaProducer.close", "kafka-python": "producer/kafka.py, close"},
            "Proceeding to force close the producer since pending",
            r"Proceeding to force close the producer since pending requests could not be completed within timeout"
            r"(?: (?P<timeout>\d{1,19}(?:\.\d{0,9})?))?",
        ),
    ),
    kind="producer",
    life="loses",
)
ABORTED = Meaning(
    "records were given up by a close()",
    (
        Wording(
            "records-aborted",
            {
                "java": "RecordAccumulator.abortIncompleteBatches",
                "kafka-python": "producer/record_accumulator.py, abort_incomplete_batches",
            },
            "Producer is closed forcefully",
            r"Producer is closed forcefully",
        ),
    ),
    kind="producer",
    life="loses",
)
TERMINATING = Meaning(
    "a producer ended with records undelivered",
    (
        Wording(
            "librdkafka-terminating",
            {"librdkafka": "rdkafka.c, rd_kafka_destroy_app"},
            "still in queue or transit",
            r"Producer terminating with (?P<records>\d{1,15}) messages? \((?P<bytes>\d{1,15}) bytes\) still in queue",
        ),
    ),
    kind="producer",
    life="loses",
)
UNCLOSED = Meaning(
    "a producer was collected as garbage without a close()",
    (
        Wording(
            "aiokafka-unclosed",
            {"aiokafka": "producer/producer.py, AIOKafkaProducer.__del__"},
            "Unclosed AIOKafkaProducer",
            r"Unclosed AIOKafkaProducer",
        ),
    ),
    kind="producer",
    life="loses",
)
DIED = Meaning(
    "a process was killed, or crashed",
    (
        Wording(
            "process-out-of-memory",
            {"jvm": "-XX:+ExitOnOutOfMemoryError"},
            "Terminating due to java.lang.OutOfMemoryError",
            r"Terminating due to java\.lang\.OutOfMemoryError",
        ),
        Wording(
            "process-crashed",
            {"jvm": "the head of hs_err_pid.log"},
            "A fatal error has been detected by the Java Runtime Environment",
            r"A fatal error has been detected by the Java Runtime Environment",
        ),
        Wording(
            "process-killed-for-memory",
            {"linux": "mm/oom_kill.c"},
            "Killed process ",
            r"[Oo]ut of memory: Killed process (?P<pid>\d{1,9})",
        ),
        Wording(
            "container-killed",
            {"kubernetes": "the reason of a container's last state"},
            "OOMKilled",
            r"\bOOMKilled\b",
        ),
        Wording(
            "process-killed",
            {"systemd": "a unit's main process exited"},
            "killed, status",
            r"code=killed, status=9/KILL",
        ),
    ),
    kind="producer",
    process=True,
    life="is killed",
)
LINES = (STARTED, PRODUCER_CONFIG, CLOSING, CLOSED, FORCED, ABORTED, TERMINATING, UNCLOSED, DIED)
