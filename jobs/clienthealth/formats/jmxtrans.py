"""jmxtrans's KafkaWriter: one MBean attribute per record, all that is known of it joined by dots in `keyspace`.

Host and port of the JVM (`checkout-1_9010`), MBean domain (`kafka_producer`), client id, perhaps topic and partition,
MBean type, attribute. A dot within a name is ambiguous: the consumer writes its topics without dots, so there the
client's id may have some; of a producer's topic metrics the id is taken to have none.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import naming
from clienthealth.formats import Record
from clienthealth.formats._expr import epoch, let, no_keys, present
from clienthealth.formats._samples import bundle, lookup, sample, sampled

SCHEMA = "keyspace string, value string, timestamp double, tags map<string,string>"

#: 1 host and port, 2 kind, 3 what the MBean's name says, 4 MBean type, 5 attribute.
KEYSPACE = r"(?s)^(?:.*?\.)?([^.]+_\d+)\.kafka[._](producer|consumer)\.(.+)\.([a-z]+-[a-z-]*metrics)\.([^.]+)$"
PARTITION = r"(?s)^(.+)\.([^.]+)\.(\d+)$"


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    return F.array_contains(keys, "keyspace") & F.array_contains(keys, "value") & F.array_contains(keys, "timestamp")


def _bundles(record: Record) -> Column:
    def of(point: Column) -> Column:
        at, kind, names, group, attribute = (
            present(F.regexp_extract(point["keyspace"], KEYSPACE, n)) for n in range(1, 6)
        )
        of_partition = (group == "consumer-fetch-manager-metrics") & names.rlike(PARTITION)
        of_topic = (group == "producer-topic-metrics") & names.contains(".")
        one = sample(
            client_id=F.when(of_partition, F.regexp_extract(names, PARTITION, 1))
            .when(of_topic, F.split_part(names, F.lit("."), F.lit(1)))
            .otherwise(names),
            kind=kind,
            topic=F.when(of_partition, F.regexp_extract(names, PARTITION, 2)).when(
                of_topic, F.regexp_replace(names, r"^[^.]*\.", "")
            ),
            partition=F.when(of_partition, F.regexp_extract(names, PARTITION, 3)).try_cast("int"),
            name=lookup(naming.mbeans(), F.concat_ws("/", group, attribute)),
            value=point["value"].try_cast("double"),
        )
        said = bundle(
            F.array(one),
            ts_ms=epoch(point["timestamp"]),
            service=F.try_element_at(point["tags"], F.lit("app")),
            host=F.regexp_replace(at, r"_\d+$", ""),
            instance=F.regexp_replace(at, r"_(\d+)$", ":$1"),
            library=F.lit("java"),
        )
        return F.when(point["keyspace"].isNotNull(), F.array(said))

    return let(F.from_json(record.text, SCHEMA), of)


FORMAT = sampled(name="jmxtrans", order=70, recognise=_recognise, bundles=_bundles, interval_ms=60_000)
