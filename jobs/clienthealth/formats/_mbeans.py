"""MBeans of Kafka clients → samples: those of the Java client (0.8.2 to 4.x) and of the old Scala consumer.

The order of an MBean's key properties is free. Values that hold special characters are quoted, as JMX demands.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import naming
from clienthealth.formats._expr import let
from clienthealth.formats._samples import lookup, sample

#: One key property of an MBean's name: 1 the key, 2 the value, perhaps in quotes.
PROPERTY = r'[:,]\s*([^=,:"]+)=("[^"]*"|[^,]*)'

#: What tells the version: the Java client's attribute, the Scala client's MBean.
VERSIONS = ("app-info/version", "app-info/Version", "AppInfo/Version/Value")


def samples(mbean: Column, attributes: Column) -> Column:
    """array<sample> of one MBean and its attributes (array<struct<key,value>> of strings).

    Samples of an MBean that is no client's have no kind.
    """
    return let(parts(mbean), lambda parts: F.transform(attributes, lambda entry: _sample(parts, entry)))


def parts(mbean: Column) -> Column:
    """struct<type, name, client_id, kind, topic, partition, thread, node> of an MBean's name.

    Old Java clients name the client `id` in app-info, Scala ones `clientId`.
    """
    keys = F.regexp_extract_all(mbean, F.lit(PROPERTY), 1)
    values = F.transform(
        F.regexp_extract_all(mbean, F.lit(PROPERTY), 2), lambda v: F.regexp_replace(v, r'^"|"$|\\(?=.)', "")
    )

    def named(read: Column) -> Column:
        def value(*names: str) -> Column:
            found = [F.get(read["values"], F.array_position(read["keys"], name) - 1) for name in names]
            return F.coalesce(*found) if len(found) > 1 else found[0]

        return F.struct(
            value("type").alias("type"),
            value("name").alias("name"),
            value("client-id", "clientId", "id").alias("client_id"),
            lookup(naming.kinds(), value("type")).alias("kind"),
            value("topic").alias("topic"),
            value("partition").try_cast("int").alias("partition"),
            value("threadId").alias("thread"),
            value("node-id", "brokerHost").alias("node"),
        )

    return let(F.struct(keys.alias("keys"), values.alias("values")), named)


def sample_of(parts: Column, **more: Column) -> Column:
    """A sample of an MBean's attribute. `more`: name (ours), value and version."""
    of_place = {field: parts[field] for field in ("client_id", "kind", "topic", "partition", "thread")}
    return sample(**of_place, rank=F.when(parts["node"].isNull(), 1).otherwise(0), **more)


def _sample(parts: Column, entry: Column) -> Column:
    path = F.concat_ws("/", parts["type"], parts["name"], entry["key"])
    # Of what the Scala consumer counts per broker, it has the sum in an MBean of its own.
    per_broker = (parts["kind"] == "legacy-consumer") & parts["node"].isNotNull()
    return sample_of(
        parts,
        name=F.when(~per_broker, lookup(naming.mbeans(), path)),
        value=entry["value"].try_cast("double"),
        version=F.when(path.isin(*VERSIONS), entry["value"]),
    )
