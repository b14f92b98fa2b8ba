"""Events of Metricbeat's modules `kafka` (metricsets `producer`, `consumer`) and `jolokia` (with the user's mappings).

The event's `host` is the host of Metricbeat; `service.address` is the address of the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.model.metric_names import METRICBEAT
from clienthealth.model.samples import Samples
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import host_and_instance, mapping, measurement, number, text
from clienthealth.read.formats import Format, Record, having
from clienthealth.read.logs.times import time_ms
from clienthealth.read.mbeans import add, parts


def _decode(record: Record) -> list[Snapshot] | None:
    event = mapping(record.document)
    metricset = event.get("metricset")
    if type(metricset) is not dict:
        return None
    host, instance = host_and_instance(text(mapping(event.get("service")).get("address")), None)
    period = measurement(metricset.get("period"))
    process = Identity(host=host, instance=instance, library="java")
    samples = Samples(time_ms(event.get("@timestamp")), process, int(period) if period is not None else None)
    kafka = mapping(event.get("kafka"))
    for fields in (kafka.get("producer"), kafka.get("consumer"), *mapping(event.get("jolokia")).values()):
        _read(samples, mapping(fields))
    return samples.snapshots(whole=False)


def _read(samples: Samples, fields: Mapping[str, Any]) -> None:
    name = fields.get("mbean")
    if type(name) is not str:
        return
    mbean = parts(name)
    for field, value in fields.items():
        add(samples, mbean, METRICBEAT.get(field) or mbean.names.get(field.replace("_", "-")), number(value))


FORMAT = Format("metricbeat", "metrics", 50, having("metricset", "@timestamp"), _decode)
