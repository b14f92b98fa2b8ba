"""OTLP metrics as JSON: KIP-714 pushes through a broker's plugin, and the OpenTelemetry Java agent.

Which attributes name the client, its service, process and host is a setting (`identity`): every plugin has its own.
They are looked for on the data point (the agent's `client-id`), then on the resource. Numbers may be strings. Sums
may be deltas (KIP-714 always): the snapshot's `delta` says so, and the time that they span is the client's interval.
Histograms and summaries are passed over, resources without Kafka metrics too. One snapshot per client and resource, at
the time of its newest data point.

The agent keeps only the finest level of a metric, and a KIP-714 subscription may ask for that level only: what a
client says per topic is then added up (averages and maxima: the largest).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth import naming
from clienthealth.formats import Record
from clienthealth.formats._expr import interval, let, matched, millis, no_keys
from clienthealth.formats._samples import bundle, lookup, sample, sampled, unusable

_VALUE = "struct<stringValue:string,intValue:string,doubleValue:string,boolValue:string>"
_ATTRIBUTES = f"array<struct<key:string,value:{_VALUE}>>"
_POINTS = (
    f"array<struct<attributes:{_ATTRIBUTES},startTimeUnixNano:string,timeUnixNano:string,asDouble:string,asInt:string>>"
)
_METRICS = (
    f"array<struct<name:string,gauge:struct<dataPoints:{_POINTS}>,"
    f"sum:struct<aggregationTemporality:string,dataPoints:{_POINTS}>>>"
)
RESOURCE = f"resource struct<attributes:{_ATTRIBUTES}>, scopeMetrics array<struct<metrics:{_METRICS}>>"
KIP714 = "org.apache.kafka."
KIP714_INTERVAL_MS, AGENT_INTERVAL_MS = 300_000, 60_000
CLIENT_METRIC = r"^(?:org\.apache\.)?kafka\.(producer|consumer)\."
DELTA = ("1", "AGGREGATION_TEMPORALITY_DELTA")


def _recognise(record: Record) -> Column:
    return F.array_contains(F.coalesce(record.json_keys, no_keys()), "resourceMetrics")


def _plain(attributes: Column) -> Column:
    """Attributes as array<struct<key,value>>, values as text."""

    def one(attribute: Column) -> Column:
        value = attribute["value"]
        kinds = ("stringValue", "intValue", "doubleValue", "boolValue")
        return F.struct(attribute["key"].alias("key"), F.coalesce(*(value[kind] for kind in kinds)).alias("value"))

    return F.transform(attributes, one)


def _attribute(plain: Column, names: Sequence[str]) -> Column:
    """The value of the first of the names that is there."""
    order = F.array(*(F.lit(name) for name in names))
    found = F.filter(plain, lambda a: a["key"].isin(*names) & (a["value"] != ""))
    return F.array_min(F.transform(found, lambda a: F.struct(F.array_position(order, a["key"]), a["value"])))["value"]


def _moment(nanos: Column) -> Column:
    return millis(nanos.try_cast("double") / 1e6)


def _samples(metric: Column, own_id: Column, ids: Sequence[str]) -> Column:
    """array<struct<sample, ts_ms, since_ms, delta, kip714>> of one metric; empty unless it is a Kafka client's.

    `since_ms`: since when a delta counts, null for all else.
    """
    kind = matched(metric["name"], CLIENT_METRIC)
    facts = F.struct(
        kind.alias("kind"),
        lookup(naming.spellings(naming.kip714, naming.otel_agent), metric["name"]).alias("name"),
        F.coalesce(metric["sum"]["aggregationTemporality"].isin(*DELTA), F.lit(False)).alias("delta"),
        metric["name"].startswith(KIP714).alias("kip714"),
    )
    points = F.when(kind.isNotNull(), F.coalesce(metric["sum"]["dataPoints"], metric["gauge"]["dataPoints"]))

    def one(facts: Column, point: Column) -> Column:
        return let(_plain(point["attributes"]), lambda attributes: of_point(facts, point, attributes))

    def of_point(facts: Column, point: Column, attributes: Column) -> Column:
        of_node = _attribute(attributes, ("node_id", "node-id", "node.id")).isNotNull()
        return F.struct(
            sample(
                client_id=F.coalesce(_attribute(attributes, ids), own_id),
                kind=facts["kind"],
                topic=_attribute(attributes, ("topic",)),
                partition=_attribute(attributes, ("partition",)).try_cast("int"),
                name=F.when(~of_node | facts["name"].startswith("request-latency"), facts["name"]),
                rank=F.when(of_node, 0).otherwise(1),
                value=F.coalesce(point["asDouble"], point["asInt"]).try_cast("double"),
            ).alias("sample"),
            _moment(point["timeUnixNano"]).alias("ts_ms"),
            F.when(facts["delta"], _moment(point["startTimeUnixNano"])).alias("since_ms"),
            facts["delta"].alias("delta"),
            facts["kip714"].alias("kip714"),
        )

    usable = F.coalesce(points, F.array().cast(_POINTS))
    return let(facts, lambda facts: F.transform(usable, lambda point: one(facts, point)))


def _bundles(record: Record) -> Column:
    identity = record.identity

    def said(resource: Column, points: Column) -> Column:
        attributes = resource["attributes"]
        library = _attribute(attributes, ("client_software_name", "client.software.name"))
        pushed = F.exists(points, lambda p: p["kip714"])
        ts_ms = F.array_max(F.transform(points, lambda p: p["ts_ms"]))
        since_ms = F.array_min(F.transform(points, lambda p: p["since_ms"]))
        usual = F.when(pushed, KIP714_INTERVAL_MS).otherwise(AGENT_INTERVAL_MS)
        return bundle(
            F.transform(points, lambda p: p["sample"]),
            ts_ms=ts_ms,
            delta=F.exists(points, lambda p: p["delta"]),
            interval_ms=interval(ts_ms - since_ms, usual),
            service=_attribute(attributes, identity.otlp_service),
            host=_attribute(attributes, identity.otlp_host),
            instance=_attribute(attributes, identity.otlp_instance),
            library=F.when(library.contains("librdkafka"), "librdkafka").otherwise("java"),
            version=_attribute(attributes, ("client_software_version", "client.software.version")),
            group=_attribute(attributes, ("group_id", "group.id")),
            rolled_up=F.lit(True),
        )

    def of_resource(resource: Column) -> Column:
        own_id = _attribute(resource["attributes"], identity.otlp_client_id)
        points = let(
            own_id,
            lambda own_id: F.flatten(
                F.transform(resource["metrics"], lambda m: _samples(m, own_id, identity.otlp_client_id))
            ),
        )
        return let(points, lambda points: said(resource, points))

    def flat(resource: Column) -> Column:
        scopes = F.filter(resource["scopeMetrics"], lambda scope: scope["metrics"].isNotNull())
        return F.struct(
            _plain(resource["resource"]["attributes"]).alias("attributes"),
            F.flatten(F.transform(scopes, lambda scope: scope["metrics"])).alias("metrics"),
        )

    def of_all(resources: Column) -> Column:
        usable = F.filter(resources, lambda r: r["scopeMetrics"].isNotNull())
        said = F.transform(F.transform(usable, flat), of_resource)
        return F.concat(said, F.transform(F.filter(resources, _is_broken), lambda _: unusable()))

    # One by one: a parser gives up a whole array for the sake of one element.
    texts = F.from_json(record.text, "resourceMetrics array<string>")["resourceMetrics"]
    return let(F.transform(texts, lambda text: F.from_json(text, RESOURCE)), of_all)


def _is_broken(resource: Column) -> Column:
    """Is there something in it that cannot be read? (Never null.)"""
    scopes = resource["scopeMetrics"]
    return scopes.isNull() | F.exists(scopes, lambda scope: scope["metrics"].isNull())


FORMAT = sampled(name="otlp_metrics", order=5, recognise=_recognise, bundles=_bundles, interval_ms=AGENT_INTERVAL_MS)
