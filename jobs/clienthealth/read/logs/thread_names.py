"""What Kafka's clients call their threads, and how the frames of the JVM's own classes begin."""

from __future__ import annotations

#: The I/O thread of a producer; behind a bar the client's id.
NETWORK_THREAD = "kafka-producer-network-thread"
PRODUCER_THREAD = f"{NETWORK_THREAD} | "
ADMIN_THREAD = "kafka-admin-client-thread | "
#: A fetcher of the Scala consumer.
FETCHER_THREAD = "ConsumerFetcherThread-"
JVM_FRAMES = ("java.", "javax.", "jdk.", "sun.")
