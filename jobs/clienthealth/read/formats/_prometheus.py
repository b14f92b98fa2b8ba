"""What a series of Prometheus says of a Kafka client, whoever scraped it and whatever brought it here.

Names in three dialects (`model/metric_names.py`): Micrometer, the JMX exporter's default, Confluent's kafka_client.yml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth.model import metric_names
from clienthealth.model.metric_names import separated
from clienthealth.model.samples import Samples, node
from clienthealth.model.values import host_and_instance, integer, present

_NAMES = metric_names.spellings(metric_names.micrometer, metric_names.jmx_exporter, metric_names.jmx_exporter_1)
_KINDS = {"kafka_producer_": "producer", "kafka_consumer_": "consumer"}
_PORT = re.compile(r":\d+$")

#: Labels and their values; where one stands twice, the last counts.
Labels = tuple[tuple[str, str], ...]


class Series(NamedTuple):
    """What a series is of. `name`: ours, None for a metric that we do not read."""

    kind: str
    name: str | None
    client_id: str | None
    topic: str | None
    partition: int | None
    node: int | None


class Scraped(NamedTuple):
    """Whose the labels say that a series is."""

    service: str | None
    host: str | None
    instance: str | None
    version: str | None

    def process(self, ts_ms: int | None) -> Samples:
        """The process at one moment."""
        return Samples(
            ts_ms,
            service=self.service,
            host=self.host,
            instance=self.instance,
            library="java",
            version=self.version,
        )


def kind_of(name: str) -> str | None:
    """The kind of client that has metrics of this name, None where it is no Kafka client's."""
    # Both prefixes have the same length.
    return _KINDS.get(name[: len("kafka_producer_")])


def our_name(name: str, of_node: bool) -> str | None:
    """Our name of a metric, None for one that we do not read."""
    ours = _NAMES.get(name)
    return None if of_node and ours is not None and not ours.startswith("request-latency") else ours


@lru_cache(maxsize=65_536)
def series(name: str, labels: Labels) -> tuple[Series, Scraped] | None:
    """A series by its name and labels, None where it is no Kafka client's."""
    kind = kind_of(name)
    if kind is None:
        return None
    values = separated(dict(labels))
    of_node = node(label(values, "node_id", "node-id"))
    instance = label(values, "instance")
    host, scraped = label(values, "host", "pod"), None
    if url := label(values, "url", "endpoint"):
        # Whose address it is; `host` is of who scraped.
        host, scraped = host_and_instance(url, host)
    return (
        Series(
            kind,
            our_name(name, of_node is not None),
            label(values, "client_id", "clientId", "client.id", "client-id"),
            label(values, "topic"),
            integer(values.get("partition")),
            of_node,
        ),
        Scraped(
            label(values, "service", "application", "app", "job"),
            host or (_PORT.sub("", instance) if instance else None),
            instance or scraped,
            label(values, "kafka_version"),
        ),
    )


def add(process: Samples, series: Series, value: float | None) -> None:
    """Give the process the sample of a series."""
    process.add(series.client_id, series.kind, series.name, value, series.topic, series.partition, node=series.node)


def labels_of(document: Mapping[str, Any]) -> Labels:
    """The labels of a JSON object, without those that are no text or number."""
    return tuple((name, value) for name, raw in document.items() if (value := present(raw)) is not None)


def label(labels: Mapping[str, Any], *names: str) -> str | None:
    """The value of the first of the labels that says something."""
    for name in names:
        if name in labels and (text := present(labels[name])) is not None:
            return text
    return None
