"""Post-mortem: recordings through the same decoding, windows and judges as the stream, as a Spark batch.

Time runs from the records. The end of the data counts as a client's disappearance, so what rests on absence is at
most `suspected`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth import pipeline
from clienthealth.batches.steps import JUDGED, judge_rows, steps_from_json
from clienthealth.decode import decode_metrics
from clienthealth.judging import client, judge_windows, merged, window
from clienthealth.records import Client, Verdict
from clienthealth.settings import Settings
from clienthealth.sources.recordings import RawRecord
from clienthealth.verdicts import per_client

RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("stream", pa.string()),
    ]
)


@dataclass(frozen=True)
class Diagnosis:
    """What was found: verdicts by client, how many records were of which format, and the reasons of the rest."""

    clients: list[tuple[Client, list[Verdict]]]
    recognised: Counter[str]
    rejected: Counter[str]


def diagnose(spark: SparkSession, records: Sequence[RawRecord], settings: Settings) -> Diagnosis:
    """Judge all clients that the records speak of."""
    raw = spark.createDataFrame(_table(records)).cache()
    inputs = _inputs(raw, settings)
    rows = per_client(pipeline.clients(inputs, settings))
    judged = rows.select(
        "key", "last_ms", F.col("newest.client").alias("client"), F.to_json("newest.client").alias("newest"), "windows"
    )
    found: dict[str, tuple[Client, list[Verdict]]] = {}
    for row in judged.mapInArrow(judge_rows(settings, 0), JUDGED).collect():
        who = client({**dict.fromkeys(_FIELDS), **json.loads(row["newest"])})
        by_mode: dict[str, list[Verdict]] = {}
        for verdict in (v for _, verdicts in steps_from_json(row["steps"]) for v in verdicts):
            by_mode.setdefault(verdict.mode, []).append(verdict)
        found[who.key] = (who, [merged(verdicts) for _, verdicts in sorted(by_mode.items())])
    gone = sorted(pipeline.absences(inputs, settings).toArrow().to_pylist(), key=lambda row: row["departed_ms"])
    # A client that came back had not departed: its last session counts.
    for seen in {(last := window(row["client"], row)).client.key: last for row in gone}.values():
        verdicts = [_at_most_suspected(v) for v in judge_windows([seen], settings.modes, 0, absence=True)]
        known, others = found.get(seen.client.key, (seen.client, []))
        found[known.key] = (known, sorted(others + verdicts, key=lambda v: v.mode))
    return Diagnosis([found[key] for key in sorted(found)], *_counted(inputs))


_FIELDS = tuple(field.name for field in dataclasses.fields(Client))


def _at_most_suspected(verdict: Verdict) -> Verdict:
    return dataclasses.replace(verdict, status="suspected") if verdict.status == "confirmed" else verdict


def _inputs(raw: DataFrame, settings: Settings) -> pipeline.Inputs:
    """Which records are metrics and which are logs: what a file's name leaves open, recognition decides."""
    undecided = raw.filter("stream = 'any'").drop("stream")
    metrics, logs = raw.filter("stream = 'metrics'").drop("stream"), raw.filter("stream = 'logs'").drop("stream")
    if not undecided.isEmpty():
        place = ["topic", "partition", "offset"]
        recognised = decode_metrics(undecided, settings).filter("format is not null").select("source.*").distinct()
        recognised = F.broadcast(recognised.cache())
        metrics = metrics.unionByName(undecided.join(recognised, place, "left_semi").select(*metrics.columns))
        logs = logs.unionByName(undecided.join(recognised, place, "left_anti").select(*logs.columns))
    found = pipeline.decoded(metrics, logs, settings)
    return pipeline.Inputs(found.metrics.cache(), found.logs.cache(), found.events.cache())


def _counted(inputs: pipeline.Inputs) -> tuple[Counter[str], Counter[str]]:
    """How many records were of which format, and why the others could not be read."""
    reason = F.split_part(F.col("error"), F.lit(":"), F.lit(1)).alias("error")
    records = F.count_distinct("source").alias("count")
    metrics, logs = (rows.groupBy("format", reason).agg(records) for rows in (inputs.metrics, inputs.logs))
    recognised: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for row in metrics.unionByName(logs).collect():
        if row["error"] is None:
            recognised[row["format"]] += row["count"]
        else:
            rejected[row["error"]] += row["count"]
    return recognised, rejected


def _table(records: Iterable[RawRecord]) -> pa.Table:
    rows = [
        {
            "key": None,
            "value": record.value,
            "headers": [
                {"key": "service", "value": record.service.encode()},
                {"key": "host", "value": record.instance.encode()},
                {"key": "instance", "value": record.instance.encode()},
            ],
            "topic": f"{record.instance}/{record.file}",
            "partition": 0,
            "offset": record.offset,
            "timestamp": 0,
            "stream": record.stream,
        }
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=RAW)
