"""Lines in which a client says what it is: its version, its name, how it is configured. They speak of no fault."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clienthealth.logs.wordings import Meaning, Wording


def _option(name: str, group: str, text: str = r"[^\s,]+") -> str:
    return rf"(?=(?:[\s\S]{{0,20000}}?\n[ \t]*{re.escape(name)} = (?P<{group}>{text}))?)"


VERSION = Meaning(
    "the version of a client",
    (
        Wording(
            "client-version",
            {"java": "AppInfoParser"},
            "Kafka version",
            r"Kafka version ?: (?P<version>\d[\w.-]*)",
            logger="org.apache.kafka",
        ),
    ),
)
PRODUCER_CONFIG = Meaning(
    "the options of a producer, at its start",
    (
        Wording(
            "producer-config",
            {"java": "AbstractConfig.logAll"},
            "ProducerConfig values:",
            r"ProducerConfig values:"
            + _option("bootstrap.servers", "address")
            + _option("client.id", "client", r"\S[^\n]{0,299}")
            + _option("delivery.timeout.ms", "deliveryTimeoutMs")
            + _option("request.timeout.ms", "requestTimeoutMs"),
        ),
    ),
    kind="producer",
    life="begins",
)
CONSUMER_CONFIG = Meaning(
    "the options of a consumer, at its start",
    (
        Wording(
            "consumer-config",
            {"java": "AbstractConfig.logAll"},
            "ConsumerConfig values:",
            r"ConsumerConfig values:"
            + _option("client.id", "client", r"\S[^\n]{0,299}")
            + _option("max.poll.interval.ms", "maxPollIntervalMs"),
        ),
    ),
    kind="consumer",
)
#: The Scala consumer names itself once, at its start; its threads and later lines only name its group.
CONNECTOR_CONFIG = Meaning(
    "an option of a Scala consumer, at its start",
    (
        Wording(
            "legacy-client-named",
            {"scala": "0.8: VerifiableProperties"},
            "Property client.id is overridden to",
            r"Property client\.id is overridden to (?P<client>\S[^\n]{0,299})",
            logger="kafka.utils",
        ),
        Wording(
            "connector-config",
            {"scala": "0.8: VerifiableProperties"},
            "Property queued.max.message.chunks is overridden to",
            r"Property queued\.max\.message\.chunks is overridden to (?P<queuedMaxMessageChunks>\d{1,9})",
        ),
    ),
    kind="legacy-consumer",
)
#: The lines in which a client says how it is configured.
CONFIG_LOGGED = PRODUCER_CONFIG.ids | CONSUMER_CONFIG.ids | CONNECTOR_CONFIG.ids
SELF_DESCRIPTIONS = (VERSION, PRODUCER_CONFIG, CONSUMER_CONFIG, CONNECTOR_CONFIG)


def options_logged(captures: Mapping[str, str]) -> dict[str, str]:
    """The options that such a line captured, by their names: requestTimeoutMs is request.timeout.ms."""
    return {"".join(f".{c.lower()}" if c.isupper() else c for c in name): text for name, text in captures.items()}
