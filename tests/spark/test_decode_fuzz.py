"""No metrics record, however broken, stops the job or vanishes: each is usable or a reject with its reason."""

from __future__ import annotations

import json
import random
from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.decode import KINDS, decode_metrics
from clienthealth.formats import SNAPSHOT, formats
from clienthealth.settings import Settings
from tests.golden_metrics import GOLDEN
from tests.metrics_cases import CASES, record
from tests.mutations import mutated
from tests.raw_records import ARRIVED, Raw, raw_records, sample

#: What `decode.py` may say of a record that it cannot use.
REASONS = {
    "binary",
    "empty",
    "future-timestamp",
    "malformed-json",
    "missing-identity",
    "missing-timestamp",
    "no-metrics",
    "oversized",
    "truncated-json",
    "unknown-format",
    "wrong-types",
}
SAMPLES = [r.value or b"" for name in GOLDEN for r in sample(name)]
VARIANTS = [record(name, value).value or b"" for name, (value, _) in CASES.items()]
RECORDS = 2_500


@settings(
    max_examples=2, derandomize=True, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.integers(0, 2**32))
def test_every_record_is_usable_or_rejected_with_its_reason(spark: SparkSession, seed: int) -> None:
    dice = random.Random(seed)
    records = [Raw("x", mutated(dice, SAMPLES + VARIANTS), n, b"s|i|c") for n in range(RECORDS)]
    snapshot = F.to_json(F.struct(*SNAPSHOT.names)).alias("snapshot")
    rows = (
        decode_metrics(raw_records(spark, records), Settings(), F.lit(ARRIVED))
        .select("source.offset", "error", "ts", "format", "raw.value", snapshot)
        .collect()
    )
    assert {row["offset"] for row in rows} == set(range(RECORDS))
    read: Counter[str] = Counter()
    for row in rows:
        if row["error"] is not None:
            assert row["error"].split(":")[0] in REASONS
            assert row["value"] == records[row["offset"]].value
            continue
        read[row["format"]] += 1
        found = json.loads(row["snapshot"])
        assert row["ts"] is not None
        assert found["client"]["client_id"]
        assert found["client"]["kind"] in KINDS
        assert 1_000 <= found["interval_ms"] <= 3_600_000
        of_topics = [topic["metrics"] for topic in found.get("topics") or []]
        assert all(0 <= value < float("inf") for m in (found["metrics"], *of_topics) for value in m.values())
    assert set(read) == {fmt.name for fmt in formats("metrics")}
