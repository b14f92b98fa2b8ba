"""prometheus-kafka-adapter: one sample of Prometheus's remote write per record, its value a string.

Names in three dialects (naming.py): Micrometer, the JMX exporter's default, Confluent's kafka_client.yml. Other
samples of the same topic are no matter of ours: they are rejected as `no-metrics`; better have the adapter match
`{__name__=~"kafka_(producer|consumer)_.*"}`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import naming
from clienthealth.formats import Record
from clienthealth.formats._expr import iso_millis, let, matched, no_keys, present
from clienthealth.formats._samples import bundle, lookup, sample, sampled

SCHEMA = "name string, value string, timestamp string, labels map<string,string>"
CLIENT_METRIC = "^kafka_(producer|consumer)_"


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    has = [F.array_contains(keys, name) for name in ("name", "value", "timestamp", "labels")]
    return has[0] & has[1] & has[2] & has[3]


def _bundles(record: Record) -> Column:
    def label(point: Column, *names: str) -> Column:
        return F.coalesce(*(present(F.try_element_at(point["labels"], F.lit(name))) for name in names))

    def of(point: Column) -> Column:
        name = F.coalesce(point["name"], label(point, "__name__"))
        one = sample(
            client_id=label(point, "client_id", "clientId", "client.id"),
            kind=matched(name, CLIENT_METRIC),
            topic=label(point, "topic"),
            partition=label(point, "partition").try_cast("int"),
            name=lookup(naming.spellings(naming.micrometer, naming.jmx_exporter), name),
            value=point["value"].try_cast("double"),
        )
        instance = label(point, "instance")
        said = bundle(
            F.array(one),
            ts_ms=iso_millis(point["timestamp"]),
            service=label(point, "service", "application", "app", "job"),
            host=F.coalesce(label(point, "host", "pod"), F.regexp_replace(instance, r":\d+$", "")),
            instance=instance,
            library=F.lit("java"),
            version=label(point, "kafka_version"),
        )
        return F.when(point["labels"].isNotNull() & name.isNotNull(), F.array(said))

    return let(F.from_json(record.text, SCHEMA), of)


FORMAT = sampled(name="prometheus_adapter", order=60, recognise=_recognise, bundles=_bundles, interval_ms=60_000)
