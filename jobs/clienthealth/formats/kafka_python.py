"""kafka-python's `metrics()` as JSON: `{group: {name: value}}`, alone or in an envelope that says whose it is.

Node and topic are part of a group's name (`producer-topic-metrics.orders.v2`). An average of nothing is 0 there and
its maximum -Infinity (which JSON does not have; json.dumps writes it anyway, others null): the average is then unknown
too. Queue times are said to be milliseconds and are seconds (sender.py, all versions); where they would be hours,
which no delivery timeout allows, whoever wrote the record has converted them.
The envelope: `client_id`, `client_type`, `host`, `service`, `instance`, `library_version`, `ts_ms`, `metrics`. Alone,
identity comes from headers or key, and the time from the Kafka record.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import naming
from clienthealth.formats import Record
from clienthealth.formats._expr import entries, let, millis, no_keys, number
from clienthealth.formats._samples import bundle, lookup, sample, sampled

ENVELOPE = (
    "client_id string, client_type string, host string, service string, instance string, library_version string, "
    "group_id string, ts_ms double, metrics string"
)
GROUP = r"^(producer|consumer)-(?:metrics|fetch-manager-metrics|coordinator-metrics|(?:node|topic)-metrics\..+)$"

QUEUE_TIME = "record-queue-time-"
LONGEST_QUEUE_SECONDS = 3_600


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    enveloped = F.from_json(record.text, "metrics map<string,string>")["metrics"]
    inside = F.when(F.array_contains(keys, "metrics"), F.exists(F.map_keys(enveloped), lambda key: key.rlike(GROUP)))
    return F.exists(keys, lambda key: key.rlike(GROUP)) | F.coalesce(inside, F.lit(False))


def _samples(group: Column, envelope: Column) -> Column:
    name = group["key"]
    kind = F.regexp_extract(name, GROUP, 1)
    mbean_type = F.split_part(name, F.lit("."), F.lit(1))

    def one(metrics: Column, metric: Column) -> Column:
        maximum = F.regexp_replace(metric["key"], "-avg$", "-max")
        of_nothing = F.exists(
            metrics, lambda m: metric["key"].endswith("-avg") & (m["key"] == maximum) & number(m["value"]).isNull()
        )
        factor = F.when(metric["key"].startswith(QUEUE_TIME) & ~_is_converted(metrics), 1000.0).otherwise(1.0)
        return sample(
            client_id=envelope["client_id"],
            kind=kind,
            topic=F.when(
                mbean_type == "producer-topic-metrics", F.substring(name, len("producer-topic-metrics.") + 1, 1000)
            ),
            name=lookup(naming.mbeans(), F.concat_ws("/", mbean_type, metric["key"])),
            rank=F.when(mbean_type.endswith("node-metrics"), 0).otherwise(1),
            value=F.when(~of_nothing, metric["value"].try_cast("double") * factor),
        )

    return let(entries(group["value"]), lambda metrics: F.transform(metrics, lambda metric: one(metrics, metric)))


def _is_converted(metrics: Column) -> Column:
    return F.exists(
        metrics,
        lambda m: (
            m["key"].startswith(QUEUE_TIME) & F.coalesce(number(m["value"]) > LONGEST_QUEUE_SECONDS, F.lit(False))
        ),
    )


def _bundles(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    is_enveloped = F.array_contains(keys, "metrics") & ~F.exists(keys, lambda key: key.rlike(GROUP))

    def of(envelope: Column) -> Column:
        groups = entries(F.when(is_enveloped, envelope["metrics"]).otherwise(record.text))
        kept = F.filter(groups, lambda group: group["key"].rlike(GROUP))
        said = bundle(
            F.flatten(F.transform(kept, lambda group: _samples(group, envelope))),
            ts_ms=F.when(is_enveloped, millis(envelope["ts_ms"])).otherwise(record.ts_ms),
            library=F.lit("kafka-python"),
            version=envelope["library_version"],
            group=envelope["group_id"],
            **{name: envelope[name] for name in ("service", "host", "instance")},
        )
        return F.when(~is_enveloped | envelope["metrics"].startswith("{"), F.array(said))

    return let(F.from_json(record.text, ENVELOPE), of)


FORMAT = sampled(name="kafka_python", order=20, recognise=_recognise, bundles=_bundles)
