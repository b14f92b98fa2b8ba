"""What clients log of a buffer that is full, and of callbacks that do what they must not."""

from __future__ import annotations

from clienthealth.logs.wordings import Meaning, Wording

ID = "producer-callback-deadlock"

THREAD_DIED = Meaning(
    "a producer's I/O thread has ended by an exception that nobody caught",
    (
        Wording(
            "io-thread-died",
            {"java": "KafkaThread, its handler of uncaught exceptions; until 0.11 Utils.newThread"},
            "Uncaught exception in ",
            r"Uncaught exception in (?:thread ')?kafka-producer-network-thread(?: \| (?P<client>[^\n]{1,300}?))?'?:?"
            r"[ ]*(?:\n(?P<thrown>[\w.$]{3,200})|\n|\Z)",
        ),
    ),
    kind="producer",
    halted="select-total",
)
#: What makes it a deadlock is that nothing leaves it.
EXHAUSTED = Meaning(
    "send() found no room in the buffer",
    (
        Wording(
            "buffer-exhausted",
            {"java": "0.9 and newer, BufferPool.allocate"},
            "within the configured max blocking time",
            r"Failed to allocate (?:(?P<bytes>\d{1,15}) bytes|memory) "
            r"within the configured max blocking time (?P<waitMs>\d{1,12}) ms",
        ),
        Wording(
            "buffer-exhausted-at-once",
            {"java": "until 0.10, BufferPool.allocate with block.on.buffer.full=false"},
            "bytes of memory you configured for the client",
            r"You have exhausted the (?P<bytes>\d{1,15}) bytes of memory you configured for the client",
        ),
        Wording(
            "python-buffer-exhausted",
            {"kafka-python": "1.0 to 2.0, producer/buffer.py, SimpleBufferPool.allocate"},
            "Failed to allocate memory within the configured",
            r"Failed to allocate memory within the configured max blocking time(?! \d)",
        ),
        Wording(
            "franz-go-buffer-full",
            {"franz-go": "1.0 and newer, kgo/errors.go, ErrMaxBuffered"},
            "maximum amount of records are buffered",
            r"the maximum amount of records are buffered, cannot buffer more",
        ),
        Wording(
            "queue-full",
            {"librdkafka": "RD_KAFKA_RESP_ERR__QUEUE_FULL in rdkafka.c"},
            "Local: Queue full",
            r"Local: Queue full",
        ),
    ),
    kind="producer",
)
FLUSH_REFUSED = Meaning(
    "the client refused a flush() inside a callback",
    (
        Wording(
            "flush-refused-in-callback",
            {"java": "4.1, KafkaProducer.flush"},
            "invocation inside a callback is not permitted",
            r"KafkaProducer\.flush\(\) invocation inside a callback is not permitted",
        ),
    ),
    kind="producer",
)
CALLBACK_FAILED = Meaning(
    "a callback threw an exception",
    (
        Wording(
            "callback-error",
            {"java": "ProducerBatch.completeFutureAndFireCallbacks"},
            "Error executing user-provided callback on message",
            r"Error executing user-provided callback on message for topic-partition",
        ),
        Wording(
            "python-callback-error",
            {"kafka-python": "1.0 and newer, future.py, Future"},
            "Error processing ",
            r"^Error processing (?:callback|errback)\b",
            "kafka.future",
        ),
    ),
    kind="producer",
)
CLOSED_INSIDE = Meaning(
    "a callback called close()",
    (
        Wording(
            "close-inside-callback",
            {"java": "KafkaProducer.close", "kafka-python": "producer/kafka.py, close"},
            "in order to prevent useless blocking due to self-join",
            r"Overriding close timeout .{1,40} in order to prevent useless blocking due to self-join",
        ),
    ),
    kind="producer",
)
LINES = (EXHAUSTED, CALLBACK_FAILED, FLUSH_REFUSED, CLOSED_INSIDE, THREAD_DIED)
