"""Jolokia: the response to a bulk read of MBeans (a JSON array), or to one read (an object), as a script forwards it.

Reads of a pattern, of one MBean and of one attribute. Elements that failed (status other than 200) are passed over.
Which process it was, the response does not say: that comes from headers or key.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import Record
from clienthealth.formats._expr import entries, epoch, let, no_entries, no_keys
from clienthealth.formats._mbeans import samples
from clienthealth.formats._samples import bundle, sampled, unusable

#: `value` stays text, as its shape depends on what was asked for.
ELEMENT = "request struct<mbean:string,attribute:string>, value string, status double, timestamp double"


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, no_keys())
    one = F.array_contains(keys, "request") & F.array_contains(keys, "status")
    many = F.exists(_elements(record), lambda e: e["request"].isNotNull() & e["status"].isNotNull())
    # Of an array that is cut off a parser gives what it has read.
    return one | F.coalesce(F.when(F.json_array_length(record.text) > 0, many), F.lit(False))


def _elements(record: Record) -> Column:
    """The elements one by one: a parser gives up a whole array for the sake of one of them."""
    texts = F.when(record.text.startswith("["), F.from_json(record.text, "array<string>"))
    return F.transform(F.coalesce(texts, F.array(record.text)), lambda text: F.from_json(text, ELEMENT))


def _mbeans(element: Column) -> Column:
    """array<struct<mbean, attributes>> of one element."""
    request, value = element["request"], element["value"]

    def read(found: Column) -> Column:
        of_pattern = F.transform(
            found, lambda e: F.struct(e["key"].alias("mbean"), entries(e["value"]).alias("attributes"))
        )
        attribute = F.struct(F.coalesce(request["attribute"], F.lit("")).alias("key"), value.alias("value"))
        of_one = F.when(value.startswith("{"), found).otherwise(F.array(attribute))
        return F.when(F.exists(found, lambda e: e["key"].rlike("^[^=]+:.*=")), of_pattern).otherwise(
            F.array(F.struct(request["mbean"].alias("mbean"), of_one.alias("attributes")))
        )

    return let(F.when(value.startswith("{"), entries(value)).otherwise(no_entries()), read)


def _bundles(record: Record) -> Column:
    def process(elements: Column) -> Column:
        good = F.filter(elements, lambda e: (e["status"] == 200) & e["value"].isNotNull())
        found = F.transform(F.flatten(F.transform(good, _mbeans)), lambda m: samples(m["mbean"], m["attributes"]))
        time = F.array_max(F.transform(elements, lambda e: epoch(e["timestamp"])))
        said = F.array(bundle(F.flatten(found), ts_ms=time, library=F.lit("java")))
        broken = F.filter(elements, lambda e: e["status"].isNull() | ((e["status"] == 200) & e["request"].isNull()))
        return F.concat(said, F.transform(broken, lambda _: unusable()))

    return let(_elements(record), process)


FORMAT = sampled(name="jolokia", order=40, recognise=_recognise, bundles=_bundles)
