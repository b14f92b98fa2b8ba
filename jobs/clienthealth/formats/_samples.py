"""From single samples (one metric of one client, topic or partition) to snapshots of clients.

What most formats come to: bundles of samples. A bundle is what one process said at one moment; `snapshots` sorts its
samples and cuts them into runs of equal keys. Nothing but the sorting is worse than linear, so that a client with
thousands of partitions is no trouble.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from clienthealth.formats import SNAPSHOT, TOPIC_METRIC_NAMES, Format, Record
from clienthealth.formats._expr import let

_SAMPLE = {
    "client_id": "string",
    "kind": "string",
    "topic": "string",
    "partition": "int",
    "thread": "string",
    "name": "string",
    "rank": "int",
    "value": "double",
    "version": "string",
}
_ABOUT = {
    "ts_ms": "bigint",
    "service": "string",
    "host": "string",
    "instance": "string",
    "library": "string",
    "version": "string",
    "group": "string",
    "interval_ms": "bigint",
    "delta": "boolean",
    "rolled_up": "boolean",
    "error": "string",
}
SAMPLES = f"array<struct<{','.join(f'{name}:{kind}' for name, kind in _SAMPLE.items())}>>"
#: What a format that speaks in samples decodes a record to.
BUNDLES = f"array<struct<{','.join(f'`{name}`:{kind}' for name, kind in _ABOUT.items())},samples:{SAMPLES}>>"

#: Metrics that some give per topic or partition only; the client's own is their sum.
SUMMED = (
    "record-send-total",
    "record-send-rate",
    "record-error-total",
    "records-consumed-total",
    "records-consumed-rate",
)
#: The same, where the client's own is the largest of them.
LARGEST = {"records-lag-max": ("records-lag-max", "records-lag")}


def sample(**fields: Column) -> Column:
    """A sample. `name`: ours, null for a metric that we do not read: its client is seen all the same.

    A sample without `kind` belongs to no Kafka client and counts for its `version` (of the library) only. Of several
    samples of one name the one with the highest `rank` counts (0 of a node, 1 else), among these the largest: the
    slowest broker's latency stands for the client's.
    """
    given = {"rank": F.lit(1), **fields}
    return F.struct(*(_typed(given.get(name), kind).alias(name) for name, kind in _SAMPLE.items()))


def bundle(samples: Column, **about: Column) -> Column:
    """What one process said at one moment. `rolled_up`: derive a client's metrics from those of its topics where it
    has none of its own.
    """
    known = (_typed(about.get(name), kind).alias(name) for name, kind in _ABOUT.items())
    return F.struct(*known, samples.alias("samples"))


def unusable(error: str = "wrong-types") -> Column:
    """A bundle that stands for a part of the record that cannot be used."""
    return bundle(F.array().cast(SAMPLES), error=F.lit(error))


def _typed(value: Column | None, kind: str) -> Column:
    return F.lit(None).cast(kind) if value is None else value.cast(kind)


def sampled(
    name: str,
    order: int,
    recognise: Callable[[Record], Column],
    bundles: Callable[[Record], Column],
    interval_ms: int = 10_000,
) -> Format:
    """A metrics format that decodes records to bundles of samples."""
    return Format(
        name=name,
        stream="metrics",
        order=order,
        recognise=recognise,
        decode=lambda record: snapshots(bundles(record)),
        interval_ms=interval_ms,
        bundles=bundles,
    )


def lookup(table: Mapping[str, str], key: Column) -> Column:
    """The table's entry for a key, null where there is none."""
    return F.try_element_at(F.from_json(F.lit(json.dumps(dict(table))), "map<string,string>"), key)


def snapshots(bundles: Column) -> Column:
    """Bundles → array<SNAPSHOT>, one per bundle, client_id and kind."""

    def of_bundle(bundle: Column) -> Column:
        ours = F.array_sort(F.filter(bundle["samples"], lambda s: s["kind"].isNotNull()))
        clients = runs(ours, lambda s: F.struct(s["client_id"], s["kind"]))
        found = F.transform(F.transform(clients, _without_doubles), lambda mine: _snapshot(bundle, mine))
        error = bundle["error"]
        return F.when(error.isNotNull(), F.array(F.to_json(F.struct(error.alias("error"))))).otherwise(found)

    return F.from_json(_array(F.flatten(F.transform(bundles, of_bundle))), ArrayType(SNAPSHOT))


def exactly(snapshots: Column) -> Column:
    """An array of structs with the fields of SNAPSHOT, or some of them, in any order → array<SNAPSHOT>."""
    return F.from_json(F.to_json(snapshots), ArrayType(SNAPSHOT))


def runs(sorted_array: Column, key: Callable[[Column], Column]) -> Column:
    """A sorted array cut where the key changes: an array of arrays."""

    def cut(array: Column) -> Column:
        changes = F.transform(
            array, lambda one, i: F.when((i == 0) | ~key(one).eqNullSafe(key(F.get(array, i - 1))), i + 1)
        )
        return let(F.filter(changes, lambda at: at.isNotNull()), lambda begins: between(array, begins))

    def between(array: Column, begins: Column) -> Column:
        ends = F.concat(F.slice(begins, 2, 2_000_000_000), F.array(F.size(array) + 1))
        return F.transform(begins, lambda begin, i: F.slice(array, begin, F.get(ends, i) - begin))

    return let(sorted_array, cut)


def _snapshot(bundle: Column, mine: Column) -> Column:
    """The snapshot of one client as JSON. `mine`: its sorted samples."""
    first = F.get(mine, F.lit(0))
    told = F.array_max(F.transform(bundle["samples"], lambda s: s["version"]))
    client = F.struct(
        first["client_id"].alias("client_id"),
        first["kind"].alias("kind"),
        F.when(first["kind"] == "legacy-consumer", "scala").otherwise(bundle["library"]).alias("library"),
        F.coalesce(bundle["version"], told).alias("version"),
        *(bundle[name].alias(name) for name in ("service", "host", "instance", "group")),
    )
    head = F.struct(client.alias("client"), *(bundle[name].alias(name) for name in ("ts_ms", "interval_ms", "delta")))
    measured = F.filter(mine, lambda s: s["name"].isNotNull() & (s["value"] >= 0.0) & (s["value"] < float("inf")))
    return let(measured, lambda measured: _extended(head, **_of_client(bundle, measured)))


def _of_client(bundle: Column, measured: Column) -> dict[str, Column]:
    below = F.filter(measured, lambda s: s["topic"].isNotNull())
    of_topics = F.filter(below, lambda s: s["name"].isin(*TOPIC_METRIC_NAMES))
    places = runs(of_topics, lambda s: F.struct(s["topic"], s["partition"], s["thread"]))
    own = F.transform(F.filter(measured, lambda s: s["topic"].isNull()), _field)
    derived = F.when(bundle["rolled_up"], _derived(below)).otherwise(F.array().cast("array<string>"))
    return {"metrics": _object(F.concat(derived, own)), "topics": _array(F.transform(places, _place))}


def _place(samples: Column) -> Column:
    first = F.get(samples, F.lit(0))
    head = F.struct(*(first[name].alias(name) for name in ("topic", "partition", "thread")))
    return _extended(head, metrics=_object(F.transform(samples, _field)))


def _derived(below: Column) -> Column:
    """The client's metrics as they follow from the samples of its topics, as fields."""

    def values(*names: Column | str) -> Column:
        return F.transform(F.filter(below, lambda s: s["name"].isin(*names)), lambda s: s["value"])

    def total(name: Column) -> Column:
        parts = values(name)
        return F.when(
            F.exists(below, lambda s: s["name"] == name),
            _text(name, F.aggregate(parts, F.lit(0.0), lambda total, part: total + part)),
        )

    summed = F.transform(F.array(*(F.lit(name) for name in SUMMED)), total)
    largest = [_text(F.lit(name), F.array_max(values(*names))) for name, names in LARGEST.items()]
    return F.filter(F.concat(summed, F.array(*largest)), lambda field: field.isNotNull())


def _field(sample: Column) -> Column:
    return _text(sample["name"], sample["value"])


def _text(name: Column, value: Column) -> Column:
    return F.concat(F.lit('"'), name, F.lit('":'), value.cast("string"))


def _object(fields: Column) -> Column:
    """Fields as a JSON object. A name can occur in it several times: whoever reads it takes the last."""
    return F.concat(F.lit("{"), F.array_join(fields, ","), F.lit("}"))


def _array(texts: Column) -> Column:
    return F.concat(F.lit("["), F.array_join(texts, ","), F.lit("]"))


def _extended(head: Column, **more: Column) -> Column:
    """The JSON object of a struct that has something, with further fields, which are JSON already."""
    parts = [F.regexp_replace(F.to_json(head), r"\}$", "")]
    for name, value in more.items():
        parts += [F.lit(f',"{name}":'), value]
    return F.concat(*parts, F.lit("}"))


def _without_doubles(samples: Column) -> Column:
    """Java consumers from 4.1 on give metrics of `a.b` also under the older spelling `a_b` (KIP-1109): drop these."""
    dotted = F.filter(F.transform(samples, lambda s: s["topic"]), lambda topic: topic.contains("."))
    older = F.transform(F.array_distinct(dotted), lambda topic: F.translate(topic, ".", "_"))
    return let(
        older,
        lambda older: F.filter(samples, lambda s: s["topic"].isNull() | ~F.array_contains(older, s["topic"])),
    )
