"""Read a Prometheus series of a Kafka client, whichever program scraped and shipped it.

Names come in three dialects (`model/metric_names.py`): Micrometer, the JMX exporter's default, and Confluent's
kafka_client.yml.
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

#: Labels and their values; if one occurs twice, the last counts.
Labels = tuple[tuple[str, str], ...]


class Series(NamedTuple):
    """The meaning of a series. `name`: our name of the metric; None for a metric that is not read."""

    kind: str
    name: str | None
    client_id: str | None
    topic: str | None
    partition: int | None
    node: int | None


class Scraped(NamedTuple):
    """The identity in a series' labels."""

    service: str | None
    host: str | None
    instance: str | None
    version: str | None

    def process(self, ts_ms: int | None) -> Samples:
        """Return the collector of this process's samples at one moment."""
        return Samples(
            ts_ms,
            service=self.service,
            host=self.host,
            instance=self.instance,
            library="java",
            version=self.version,
        )


def kind_of(name: str) -> str | None:
    """Return the kind of Kafka client that has metrics of this name; None if no Kafka client has."""
    # The prefixes `kafka_producer_` and `kafka_consumer_` have the same length.
    return _KINDS.get(name[: len("kafka_producer_")])


def our_name(name: str, of_node: bool) -> str | None:
    """Return our name of a metric; None for a metric that is not read. `of_node`: the value is for a single broker."""
    ours = _NAMES.get(name)
    return None if of_node and ours is not None and not ours.startswith("request-latency") else ours


@lru_cache(maxsize=65_536)
def series(name: str, labels: Labels) -> tuple[Series, Scraped] | None:
    """Return a series by its name and labels, None if it is not a Kafka client's."""
    kind = kind_of(name)
    if kind is None:
        return None
    values = separated(dict(labels))
    of_node = node(label(values, "node_id", "node-id"))
    instance = label(values, "instance")
    host, scraped = label(values, "host", "pod"), None
    if url := label(values, "url", "endpoint"):
        # The label `url` or `endpoint` is the address that was scraped; `host` is the scraper's own.
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
    """Add the value of a series to the process."""
    process.add(series.client_id, series.kind, series.name, value, series.topic, series.partition, node=series.node)


def labels_of(document: Mapping[str, Any]) -> Labels:
    """Return the labels of a JSON object, without values that are neither text nor number."""
    return tuple((name, value) for name, raw in document.items() if (value := present(raw)) is not None)


def label(labels: Mapping[str, Any], *names: str) -> str | None:
    """Return the value of the first non-empty label."""
    for name in names:
        if name in labels and (text := present(labels[name])) is not None:
            return text
    return None
