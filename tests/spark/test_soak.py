"""200,000 records, one in ten of them broken: each is decoded or rejected, and none is both, neither or twice."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.decode import decode_metrics
from clienthealth.diagnose import RAW
from clienthealth.settings import Settings
from tests.golden_metrics import GOLDEN
from tests.mutations import damaged
from tests.raw_records import ARRIVED, sample

SENT = 200_000
#: Records of other formats than our own, one client each.
OTHERS = [r.value or b"" for name in GOLDEN if len(GOLDEN[name]) == 1 for r in sample(name)]
METRICS = {
    "select-total": 10213.0,
    "io-time-ns-total": 5.1e9,
    "io-wait-time-ns-total": 4.0e11,
    "buffer-total-bytes": 33554432.0,
    "waiting-threads": 0.0,
    "record-queue-time-avg": 5.25,
    "request-latency-max": 41.0,
}


def canonical(n: int) -> bytes:
    """A reading of one of 5,000 producers."""
    client = {
        "service": f"service-{n % 500}",
        "host": f"web-{n % 50}",
        "instance": f"web-{n % 50}:31337",
        "client_id": f"producer-{n % 5000}",
        "kind": "producer",
        "library": "java",
        "version": "3.9.1",
    }
    topics = [{"topic": f"orders-{t}", "metrics": {"record-send-total": n + t}} for t in range(3)]
    metrics = {**METRICS, "buffer-available-bytes": n}
    return json.dumps({"ts": 1795200030000 + n, "client": client, "metrics": metrics, "topics": topics}).encode()


def broken(dice: random.Random, value: bytes) -> bytes | None:
    """The record cut off, without one of its brackets or quotes, as other bytes, or empty: nobody can read it."""
    brackets = [at for at, byte in enumerate(value) if byte in b'{}[]"']
    at = dice.choice(brackets)
    cut = value[: dice.randrange(1, len(value.rstrip()))]
    return dice.choice((cut, value[:at] + value[at + 1 :], b"\x00" + dice.randbytes(30), None))


def records(dice: random.Random) -> Iterator[tuple[bytes | None, str]]:
    """Values, and what became of each: `whole`, `broken` for good, or `damaged`, which may still be read."""
    for n in range(SENT):
        value = canonical(n) if dice.random() < 0.97 else dice.choice(OTHERS)
        fate = "whole" if n % 10 else dice.choice(("broken", "damaged"))
        yield (value if fate == "whole" else broken(dice, value) if fate == "broken" else damaged(dice, value)), fate


def test_decoded_and_rejected_are_what_was_sent(spark: SparkSession) -> None:
    values, fates = zip(*records(random.Random(20261120)), strict=True)
    columns = {
        "key": [b"service|instance|client"] * SENT,
        "value": values,
        "headers": [None] * SENT,
        "topic": fates,
        "partition": [0] * SENT,
        "offset": range(SENT),
        "timestamp": [ARRIVED] * SENT,
        "stream": [""] * SENT,
    }
    table = pa.table({name: pa.array(list(column), RAW.field(name).type) for name, column in columns.items()})
    rows = decode_metrics(spark.createDataFrame(table), Settings(), F.lit(ARRIVED))
    by_record = rows.groupBy("source").agg(F.count("*").alias("rows"), F.count("error").alias("errors"))
    outcome = F.when(F.col("errors") == 0, "decoded").when(F.col("errors") == F.col("rows"), "rejected")
    counted = by_record.groupBy(F.col("source.topic").alias("fate"), outcome.alias("outcome")).count().collect()
    count = {(row["fate"], row["outcome"]): row["count"] for row in counted}
    assert sum(count.values()) == SENT
    assert count["whole", "decoded"] == fates.count("whole") == SENT * 9 // 10
    assert count["broken", "rejected"] == fates.count("broken")
    assert count["damaged", "decoded"] + count["damaged", "rejected"] == fates.count("damaged")
    assert set(count) == {("whole", "decoded"), ("broken", "rejected"), ("damaged", "decoded"), ("damaged", "rejected")}
