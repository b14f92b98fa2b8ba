"""Generate a history in Spark: clients, faults, and gaps in monitoring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import Evidence, Verdict
from clienthealth.monitor.incidents import Change, Transition, change_row
from clienthealth.spark import history
from clienthealth.spark.history import SCHEMA_VERSION


@dataclass(frozen=True)
class Fault:
    """A client's failure: suspected from `start` on, confirmed from `sure` on (if set), and over from `stop` on."""

    client: Client
    mode: str
    start: datetime
    stop: datetime | None
    sure: datetime | None = None
    detect: timedelta = timedelta(seconds=60)
    detail: dict[str, Any] = field(default_factory=dict)
    evidence: str = "select-total stayed still"
    ends: Change = "closed"

    def changes(self) -> list[tuple[Transition, datetime]]:
        client, since = self.client, _ms(self.start)
        fact = Evidence("metric", since, self.evidence, Source("client-metrics", 2, 88123))
        first = "confirmed" if self.sure == self.start else "suspected"
        suspected = Verdict(self.mode, "suspected", since, self.detail, (fact,))
        confirmed = Verdict(self.mode, "confirmed", since, self.detail, (fact,))
        opened = confirmed if first == "confirmed" else suspected
        detected = self.start + self.detect
        rows = [(Transition(client, opened, "ok", "opened", since), detected)]
        if self.sure and self.sure > self.start:
            rows.append(
                (Transition(client, confirmed, "suspected", "escalated", _ms(self.sure)), max(detected, self.sure))
            )
        if self.stop:
            worst = confirmed if self.sure else suspected
            over = Verdict(self.mode, "ok", since, worst.detail, worst.evidence)
            rows.append((Transition(client, over, worst.status, self.ends, _ms(self.stop)), max(detected, self.stop)))
        return rows


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def write_faults(spark: SparkSession, root: str, faults: Iterable[Fault]) -> None:
    changes = sorted((change for fault in faults for change in fault.changes()), key=lambda c: c[1])
    history.append(verdicts(spark, changes), root, "verdicts", history.Origin("generated", 0))


def verdicts(spark: SparkSession, changes: Iterable[tuple[Transition, datetime]]) -> DataFrame:
    rows = [(change_row(change, _ms(observed)),) for change, observed in changes]
    return history.verdicts(spark.createDataFrame(rows, "value binary"))


def minute_rows(
    clients: DataFrame, start: datetime, minutes: int, values: dict[str, Column], keep: Column | None = None
) -> DataFrame:
    """Return a row per client and minute, and omit rows for which `keep` is false. `values` maps columns to their
    values."""
    first = int(start.timestamp())
    rows = clients.crossJoin(clients.sparkSession.range(minutes).select((F.col("id") * 60 + first).alias("at")))
    rows = rows.withColumn("minute", F.timestamp_seconds("at"))
    if keep is not None:
        rows = rows.filter(keep)
    given = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "day": F.to_date("minute"),
        "minute": F.col("minute"),
        "samples": F.lit(6),
        **{name: F.col(name) for name in clients.columns if name != "n"},
        **values,
    }
    return rows.select(*(given.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in history.MINUTES))


def client_rows(spark: SparkSession, clients: Sequence[Client]) -> DataFrame:
    names = ("service", "host", "instance", "client_id", "kind", "group", "library", "version")
    schema = "n long, " + ", ".join(f"`{name}` string" for name in names)
    return spark.createDataFrame([(n, *(getattr(c, name) for name in names)) for n, c in enumerate(clients)], schema)


def status_of(faults: Iterable[Fault]) -> tuple[Column, Column]:
    status, modes = F.lit("ok"), F.array().cast("array<struct<mode:string,status:string>>")
    for fault in faults:
        stop = fault.stop or datetime.max
        client = (F.col("instance") == fault.client.instance) & (F.col("client_id") == fault.client.client_id)
        inside = client & (F.col("minute") >= F.lit(fault.start)) & (F.col("minute") < F.lit(stop))
        word = (
            F.when(F.col("minute") >= F.lit(fault.sure), "confirmed").otherwise("suspected")
            if fault.sure
            else (F.lit("suspected"))
        )
        status = F.when(inside, word).otherwise(status)
        failing = F.array(F.struct(F.lit(fault.mode).alias("mode"), word.alias("status")))
        modes = F.when(inside, failing).otherwise(modes)
    return status, modes


def quality_rows(
    spark: SparkSession, start: datetime, minutes: int, topic: str, records: int, rejected: int, late: int | None
) -> DataFrame:
    first = int(start.timestamp())
    rows = spark.range(minutes).select(F.timestamp_seconds(F.col("id") * 60 + first).alias("minute"))
    values = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "day": F.to_date("minute"),
        "minute": F.col("minute"),
        "source_topic": F.lit(topic),
        "records": F.lit(records),
        "rejected": F.lit(rejected),
        "late": F.lit(late),
        "batches": F.lit(6),
    }
    return rows.select(*(values[f.name].cast(f.dataType).alias(f.name) for f in history.QUALITY))
