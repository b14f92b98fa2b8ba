"""Metricbeat's metricset `consumergroup`: what one group has committed for one partition, and who owns it.

A snapshot of kind `group` with that partition. The end of the partition follows from Metricbeat's lag. No cluster is
named: the broker that was asked stands for it.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import Format, Record
from clienthealth.formats._expr import iso_millis, known, let, no_keys
from clienthealth.formats._samples import exactly

SCHEMA = (
    "`@timestamp` string, metricset struct<name:string,period:double>, service struct<address:string>, "
    "kafka struct<topic:struct<name:string>,partition:struct<id:int>,consumergroup:"
    "struct<id:string,topic:string,partition:int,offset:double,consumer_lag:double,"
    "client:struct<id:string,host:string,member_id:string>>>"
)


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    event = F.from_json(record.text, "metricset struct<name:string>, kafka struct<consumergroup:string>")
    is_group = event["kafka"]["consumergroup"].isNotNull() & (event["metricset"]["name"] == "consumergroup")
    return F.array_contains(keys, "metricset") & F.coalesce(is_group, F.lit(False))


def _snapshot(event: Column) -> Column:
    group = event["kafka"]["consumergroup"]
    offset, lag = known(group["offset"]), known(group["consumer_lag"])
    member = group["client"]
    topic = F.struct(
        F.coalesce(group["topic"], event["kafka"]["topic"]["name"]).alias("topic"),
        F.coalesce(group["partition"], event["kafka"]["partition"]["id"]).alias("partition"),
        F.struct(
            member["id"].alias("client_id"), member["member_id"].alias("consumer_id"), member["host"].alias("host")
        ).alias("member"),
        F.struct(offset.alias("committed-offset"), (offset + lag).alias("end-offset"), lag.alias("records-lag")).alias(
            "metrics"
        ),
    )
    client = F.struct(
        event["service"]["address"].alias("instance"),
        group["id"].alias("client_id"),
        F.lit("group").alias("kind"),
        F.lit("broker").alias("library"),
        group["id"].alias("group"),
    )
    snapshot = F.struct(
        iso_millis(event["@timestamp"]).alias("ts_ms"),
        client.alias("client"),
        F.struct(F.lit(None).cast("double").alias("members")).alias("metrics"),
        F.array(topic).alias("topics"),
        known(event["metricset"]["period"]).cast("long").alias("interval_ms"),
    )
    return F.when(group["id"].isNotNull(), exactly(F.array(snapshot)))


def _decode(record: Record) -> Column:
    return let(F.from_json(record.text, SCHEMA), _snapshot)


FORMAT = Format(
    name="metricbeat_consumergroup", stream="metrics", order=49, recognise=_recognise, decode=_decode, groups=True
)
