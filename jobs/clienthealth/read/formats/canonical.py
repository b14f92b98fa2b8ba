"""Our own format: one JSON object for each sample of a client, with the Java client's metric names.

If the value of a metric is negative, infinite or not a number, this metric is unknown. The record's other metrics are
still used.
"""

from __future__ import annotations

from typing import Any

from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS, TOPIC_METRICS
from clienthealth.model.telemetry import Identity, Member, Snapshot, TopicMetrics
from clienthealth.model.values import integer, interval, mapping, measured, measurement, millis, present, text
from clienthealth.read.formats import Format, Record, having

INTERVAL_MS = 10_000

_MEMBER = Member.__struct_fields__
METRIC_NAMES: tuple[str, ...] = tuple(dict.fromkeys(name for names in CLIENT_METRICS.values() for name in names))


def options(config: Any) -> dict[str, str]:
    """Return the client options that failure modes read, with their values as texts.

    `config`: all options (a JSON object). Options with null, a list or an object as value are left out.
    """
    options = mapping(config)
    return {name: value_text for name in CONFIG_OPTIONS if (value_text := text(options.get(name))) is not None}


def _decode(record: Record) -> list[Snapshot] | None:
    document = mapping(record.document)
    client, metrics, listed = document.get("client"), document.get("metrics"), document.get("topics")
    if type(client) is not dict or type(metrics) is not dict:
        return None
    identity = Identity(**{name: present(client.get(name)) for name in Identity.__struct_fields__})
    topics = [topic for one in listed if (topic := _topic(one))] if type(listed) is list else []
    # Even -1 or NaN (unknown) shows that the client reports metrics.
    has_metrics = topics or any(type(metrics.get(name)) in (int, float) for name in METRIC_NAMES)
    of_group = "group" in (identity.kind, record.headers.get("kind"))
    return [
        Snapshot(
            ts_ms=millis(measurement(document.get("ts"))),
            client=identity,
            metrics=measured(metrics, METRIC_NAMES),
            topics=topics,
            config=options(document.get("config")),
            interval_ms=interval(measurement(document.get("interval_ms")), INTERVAL_MS),
            error=None if has_metrics or of_group else "no-metrics",
        )
    ]


def _topic(document: Any) -> TopicMetrics | None:
    one = mapping(document)
    if (topic := text(one.get("topic"))) is None:
        return None
    member = one.get("member")
    return TopicMetrics(
        topic=topic,
        partition=integer(one.get("partition")),
        thread=text(one.get("thread")),
        member=Member(**{name: text(member.get(name)) for name in _MEMBER}) if type(member) is dict else None,
        metrics=measured(one.get("metrics"), TOPIC_METRICS),
    )


FORMAT = Format("canonical", "metrics", 0, having("client", "metrics"), _decode, interval_ms=INTERVAL_MS, groups=True)
