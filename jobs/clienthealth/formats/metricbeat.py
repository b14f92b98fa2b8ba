"""Metricbeat: module `kafka` (metricsets producer and consumer) and module `jolokia` with mappings of one's own.

Producer and consumer name their MBean beside renamed fields (naming.METRICBEAT); own mappings are taken to write the
attribute with underscores. The machine of the event is Metricbeat's own: the client's is in `service.address`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import naming
from clienthealth.formats import Record
from clienthealth.formats._expr import entries, iso_millis, known, let, no_keys, place
from clienthealth.formats._mbeans import parts, sample_of
from clienthealth.formats._samples import bundle, lookup, sampled

SCHEMA = (
    "`@timestamp` string, metricset struct<name:string,period:double>, service struct<address:string>, "
    "jolokia map<string,string>, "
    "kafka struct<producer:string,consumer:string>"
)


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    return F.array_contains(keys, "metricset") & F.array_contains(keys, "@timestamp")


def _samples(fields: Column) -> Column:
    """Samples of the fields (array of entries) of one MBean, which is among them."""
    mbean = F.get(F.filter(fields, lambda f: f["key"] == "mbean"), F.lit(0))["value"]

    def one(mbean: Column, field: Column) -> Column:
        spelled = F.concat_ws("/", mbean["type"], F.translate(field["key"], "_", "-"))
        name = F.coalesce(lookup(naming.METRICBEAT, field["key"]), lookup(naming.mbeans(), spelled))
        return sample_of(mbean, name=name, value=field["value"].try_cast("double"))

    return let(parts(mbean), lambda mbean: F.transform(fields, lambda field: one(mbean, field)))


def _said(event: Column) -> Column:
    kafka = event["kafka"]
    given = F.filter(
        F.concat(
            F.array(kafka["producer"], kafka["consumer"]),
            F.coalesce(F.map_values(event["jolokia"]), F.array().cast("array<string>")),
        ),
        lambda fields: fields.contains('"mbean"'),
    )
    found = F.flatten(F.transform(given, lambda fields: let(entries(fields), _samples)))
    where = place(event["service"]["address"], F.lit(None).cast("string"))
    return bundle(
        found,
        ts_ms=iso_millis(event["@timestamp"]),
        host=where["host"],
        instance=where["instance"],
        library=F.lit("java"),
        interval_ms=known(event["metricset"]["period"]).cast("long"),
    )


def _bundles(record: Record) -> Column:
    return let(
        F.from_json(record.text, SCHEMA),
        lambda event: F.when(event["metricset"].isNotNull(), F.array(_said(event))),
    )


FORMAT = sampled(name="metricbeat", order=50, recognise=_recognise, bundles=_bundles)
