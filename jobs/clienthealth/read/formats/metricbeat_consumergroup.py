"""Metricbeat's metricset `consumergroup`: a group's committed offset for one partition, and the partition's owner.

The event names no cluster, so the address of the queried broker becomes the group's instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.model.telemetry import Identity, Member, Snapshot, TopicMetrics
from clienthealth.model.values import integer, mapping, measurement, text
from clienthealth.read.formats import Format, Record
from clienthealth.read.logs.times import time_ms


def _recognise(record: Record) -> bool:
    event = mapping(record.document)
    of_group = mapping(event.get("kafka")).get("consumergroup") is not None
    return of_group and mapping(event.get("metricset")).get("name") == "consumergroup"


def _decode(record: Record) -> list[Snapshot] | None:
    event = mapping(record.document)
    kafka = mapping(event.get("kafka"))
    group = mapping(kafka.get("consumergroup"))
    if (group_id := text(group.get("id"))) is None:
        return None
    period = measurement(mapping(event.get("metricset")).get("period"))
    topic = text(group.get("topic")) or text(mapping(kafka.get("topic")).get("name"))
    client = Identity(
        instance=text(mapping(event.get("service")).get("address")),
        client_id=group_id,
        kind="group",
        library="broker",
        group=group_id,
    )
    return [
        Snapshot(
            ts_ms=time_ms(event.get("@timestamp")),
            client=client,
            topics=[_partition(topic, group, kafka)] if topic else [],
            interval_ms=int(period) if period is not None else None,
        )
    ]


def _partition(topic: str, group: Mapping[str, Any], kafka: Mapping[str, Any]) -> TopicMetrics:
    if (partition := integer(group.get("partition"))) is None:
        partition = integer(mapping(kafka.get("partition")).get("id"))
    member = mapping(group.get("client"))
    committed, lag = measurement(group.get("offset")), measurement(group.get("consumer_lag"))
    end = measurement(committed + lag) if committed is not None and lag is not None else None
    offsets = {"committed-offset": committed, "end-offset": end, "records-lag": lag}
    return TopicMetrics(
        topic=topic,
        partition=partition,
        member=Member(text(member.get("id")), text(member.get("member_id")), text(member.get("host"))),
        metrics={name: value for name, value in offsets.items() if value is not None},
    )


FORMAT = Format("metricbeat_consumergroup", "metrics", 49, _recognise, _decode, groups=True)
