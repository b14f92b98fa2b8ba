"""Interpret Prometheus series of Kafka clients, with the metric names of Micrometer or the JMX exporter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from clienthealth.model import metric_names
from clienthealth.model.metric_names import separated
from clienthealth.model.samples import Subject, node
from clienthealth.model.telemetry import Identity
from clienthealth.model.values import host_and_instance, integer, present

_NAMES = metric_names.spellings(metric_names.micrometer, metric_names.jmx_exporter, metric_names.jmx_exporter_1)
_KINDS = {"kafka_producer_": "producer", "kafka_consumer_": "consumer"}
_PORT = re.compile(r":\d+$")

Labels = tuple[tuple[str, str], ...]


def kind_of(name: str) -> str | None:
    """Infer the kind of Kafka client from the beginning of a metric's name; None for a metric of another program."""
    # All keys of _KINDS have the same length.
    return _KINDS.get(name[: len("kafka_producer_")])


@lru_cache(maxsize=65_536)
def series(name: str, labels: Labels) -> tuple[Identity, Subject, str | None] | None:
    """Return (process, subject, our name of the metric) for a Kafka client's series; else None.

    The subject is the measured client, topic, partition or broker. Our name is None for a metric that is not read.
    """
    if (kind := kind_of(name)) is None:
        return None
    values = separated(dict(labels))
    instance = label(values, "instance")
    host, scraped = label(values, "host", "pod"), None
    if url := label(values, "url", "endpoint"):
        # Prefer the scraped JVM's address, because `host` may be the scraper's own host.
        host, scraped = host_and_instance(url, host)
    process = Identity(
        service=label(values, "service", "application", "app", "job"),
        host=host or (_PORT.sub("", instance) if instance else None),
        instance=instance or scraped,
        library="java",
        version=label(values, "kafka_version"),
    )
    subject = Subject(
        label(values, "client_id", "clientId", "client.id", "client-id"),
        kind,
        label(values, "topic"),
        integer(values.get("partition")),
        node=node(label(values, "node_id", "node-id")),
    )
    return process, subject, _NAMES.get(name)


def labels_of(document: Mapping[str, Any]) -> Labels:
    """Return the fields of a JSON object as labels. Empty values, objects and arrays are left out."""
    return tuple((name, value) for name, raw in document.items() if (value := present(raw)) is not None)


def label(labels: Mapping[str, Any], *names: str) -> str | None:
    """Return the first non-empty value of the labels in `names`; None if all are missing or empty."""
    for name in names:
        if name in labels and (text := present(labels[name])) is not None:
            return text
    return None
