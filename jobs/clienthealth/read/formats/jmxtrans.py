"""jmxtrans's KafkaWriter. A record has one MBean attribute, with its full name in the field `keyspace`.

In the name of a consumer's partition metric, dots separate client id, topic and partition. Any further dots belong to
the client id: the topic has no dots, because the Java consumer replaces dots in a topic's name by underscores. For
`producer-topic-metrics`, the client id is assumed to contain no dots.
"""

from __future__ import annotations

import re
from functools import lru_cache

from clienthealth.model import metric_names
from clienthealth.model.samples import Samples, Subject
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import epoch, integer, mapping, number, present, text
from clienthealth.read.formats import Format, Record, having

KEYSPACE = re.compile(
    r"^(?:.*?\.)?([^.]+_\d+)\.kafka[._](producer|consumer)\.(.+)\.([a-z]+-[a-z-]*metrics)\.([^.]+)$", re.DOTALL
)
PARTITION = re.compile(r"(.+)\.([^.]+)\.(\d+)", re.DOTALL)
PORT = re.compile(r"_(\d+)$")

_NAMES = metric_names.mbeans()


@lru_cache(maxsize=16_384)
def _parts(keyspace: str) -> tuple[str, Subject, str | None] | None:
    """Return (`host_port`, subject, our name of the metric); None for an MBean of another program."""
    if (match := KEYSPACE.search(keyspace)) is None:
        return None
    at, kind, names, group, attribute = match.groups()
    client_id, topic, partition = names, None, None
    if group == "consumer-fetch-manager-metrics" and (of_partition := PARTITION.fullmatch(names)):
        client_id, topic, partition = of_partition[1], of_partition[2], integer(of_partition[3])
    elif group == "producer-topic-metrics" and "." in names:
        client_id, _, topic = names.partition(".")
    return at, Subject(client_id, kind, topic, partition), _NAMES.get(f"{group}/{attribute}")


def _decode(record: Record) -> list[Snapshot] | None:
    document = mapping(record.document)
    if (keyspace := text(document.get("keyspace"))) is None:
        return None
    if (parts := _parts(keyspace)) is None:
        return []
    at, subject, name = parts
    process = Identity(
        service=present(mapping(document.get("tags")).get("app")),
        host=PORT.sub("", at),
        instance=PORT.sub(r":\1", at),
        library="java",
    )
    samples = Samples(epoch(number(document.get("timestamp"))), process)
    samples.add(subject, name, number(document.get("value")))
    return samples.snapshots()


FORMAT = Format("jmxtrans", "metrics", 70, having("keyspace", "value", "timestamp"), _decode, interval_ms=60_000)
