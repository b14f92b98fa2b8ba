"""Telegraf's JSON (`data_format = "json"`) of inputs.jolokia2_agent: one metric per record, or a batch under `metrics`.

Fields are MBean attributes; the client's id, topic and partition are tags, where the user listed them as tag keys.
Telegraf leaves NaN fields out. Which JVM it was, tell the tag `host` and the agent's URL.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import naming
from clienthealth.formats import Record
from clienthealth.formats._expr import epoch, let, no_keys, place, present
from clienthealth.formats._samples import bundle, lookup, sample, sampled, unusable

POINT = "name string, fields map<string,string>, tags map<string,string>, timestamp double"


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    single = F.array_contains(keys, "fields") & F.array_contains(keys, "name") & F.array_contains(keys, "timestamp")
    batch = F.exists(_batch(record), lambda p: p["fields"].isNotNull())
    return single | F.coalesce(F.when(F.array_contains(keys, "metrics"), batch), F.lit(False))


def _batch(record: Record) -> Column:
    """The points one by one: a parser gives up a whole array for the sake of one of them."""
    texts = F.from_json(record.text, "metrics array<string>")["metrics"]
    return F.transform(texts, lambda text: F.from_json(text, POINT))


def _tag(point: Column, *names: str) -> Column:
    return F.coalesce(*(present(F.try_element_at(point["tags"], F.lit(name))) for name in names))


def _samples(point: Column) -> Column:
    told = F.transform(F.map_keys(point["fields"]), lambda field: lookup(naming.telling(), _attribute(field)))
    kind = F.when(point["name"].contains("producer"), "producer").when(point["name"].contains("consumer"), "consumer")
    common = F.struct(
        _tag(point, "client-id", "client_id", "clientId").alias("client_id"),
        F.coalesce(kind, F.get(F.filter(told, lambda k: k.isNotNull()), F.lit(0))).alias("kind"),
        _tag(point, "topic").alias("topic"),
        _tag(point, "partition").alias("partition"),
        _tag(point, "node-id", "node_id").alias("node"),
    )

    def one(common: Column, field: Column) -> Column:
        name = lookup(naming.spellings(naming.attribute), _attribute(field["key"]))
        of_node = common["node"].isNotNull()
        return sample(
            **{part: common[part] for part in ("client_id", "kind", "topic")},
            partition=common["partition"].try_cast("int"),
            name=F.when(~of_node | name.startswith("request-latency"), name),
            rank=F.when(of_node, 0).otherwise(1),
            value=field["value"].try_cast("double"),
        )

    return let(common, lambda common: F.transform(F.map_entries(point["fields"]), lambda field: one(common, field)))


def _attribute(field: Column) -> Column:
    return F.translate(field, "_", "-")


def _moment(point: Column) -> Column:
    """Which process said it, and when: one Telegraf asks many, and a batch may hold more than one round."""
    process = place(_tag(point, "jolokia_agent_url"), _tag(point, "host"))
    return F.struct(
        epoch(point["timestamp"]).alias("ts_ms"),
        process["host"].alias("host"),
        process["instance"].alias("instance"),
    )


def _bundles(record: Record) -> Column:
    is_batch = F.array_contains(record.json_keys, "metrics")
    points = F.when(is_batch, _batch(record)).otherwise(F.array(F.from_json(record.text, POINT)))

    def of(seen: Column) -> Column:
        usable = F.filter(seen, lambda p: p["usable"])
        moments = F.array_distinct(F.transform(usable, lambda p: p["moment"]))
        said = F.transform(moments, lambda moment: one(usable, moment))
        return F.concat(said, F.transform(F.filter(seen, lambda p: ~p["usable"]), lambda _: unusable()))

    def one(seen: Column, moment: Column) -> Column:
        then = F.filter(seen, lambda p: p["moment"].eqNullSafe(moment))
        return bundle(
            F.flatten(F.transform(then, lambda p: _samples(p["point"]))),
            library=F.lit("java"),
            **{name: moment[name] for name in ("ts_ms", "host", "instance")},
        )

    timed = F.transform(
        points,
        lambda p: F.struct(_moment(p).alias("moment"), p["fields"].isNotNull().alias("usable"), p.alias("point")),
    )
    return let(timed, of)


FORMAT = sampled(name="telegraf", order=30, recognise=_recognise, bundles=_bundles)
