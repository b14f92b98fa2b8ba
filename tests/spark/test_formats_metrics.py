"""Metrics formats: what a person reads in each sample and in the variants that occur, and what is rejected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.decode import decode_metrics
from clienthealth.formats import SNAPSHOT, formats
from clienthealth.settings import IdentitySettings, Settings
from tests.golden_metrics import GOLDEN, KEYS, Row
from tests.metrics_cases import CASES, OWN_ATTRIBUTE, REJECTED, P, record
from tests.raw_records import ARRIVED, SAMPLES, Raw, raw_records, sample
from tests.spark.test_formats_logs import GOLDEN as LOGS


def decoded(spark: SparkSession, records: Iterable[Raw], settings: Settings | None = None) -> dict[str, list[Row]]:
    """What came out of the records, by the name of each (its topic), in order; unknown, false and empty left out."""
    rows = decode_metrics(raw_records(spark, records), settings or Settings(), F.lit(ARRIVED))
    fields = [*SNAPSHOT.names, "format"]
    found = rows.select("source.topic", "source.offset", F.to_json(F.struct(*fields)).alias("json")).collect()
    result: dict[str, list[Row]] = {}
    for row in sorted(found, key=lambda row: row["offset"]):
        result.setdefault(row["topic"], []).append(_told(json.loads(row["json"])))
    return result


def _told(row: Row) -> Row:
    """The row without what is null, false or empty; values rounded to 6 digits."""
    client = {name: value for name, value in (row.get("client") or {}).items() if value}
    told = {name: value for name, value in row.items() if value}
    topics = [{**topic, "metrics": _rounded(topic["metrics"])} for topic in row.get("topics") or []]
    told |= {"client": client, "metrics": _rounded(row.get("metrics") or {})}
    return told | ({"topics": topics} if topics else {})


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in metrics.items()}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Row]]:
    """All samples, read in one Spark job."""
    records = [Raw(r.topic, r.value, r.offset, KEYS.get(name)) for name in GOLDEN for r in sample(name)]
    records += [record(name, value) for name, (value, _) in {**CASES, **REJECTED}.items()]
    return decoded(spark, records)


@pytest.mark.parametrize("name", GOLDEN)
def test_each_sample_says_what_a_person_reads_in_it(found: dict[str, list[Row]], name: str) -> None:
    assert _sorted(found[name]) == _sorted(GOLDEN[name])


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("name", CASES)
def test_each_variant_says_what_a_person_reads_in_it(found: dict[str, list[Row]], name: str) -> None:
    read = [row if "error" not in row else {"format": row["format"], "error": row["error"]} for row in found[name]]
    assert _sorted(read) == _sorted(CASES[name][1])


@pytest.mark.parametrize("name", REJECTED)
def test_what_cannot_be_read_is_rejected_with_its_reason(found: dict[str, list[Row]], name: str) -> None:
    assert [row["error"].split(":")[0] for row in found[name]] == [REJECTED[name][1]]


def test_a_setting_names_the_attribute_that_identifies_a_client(spark: SparkSession) -> None:
    settings = Settings(identity=IdentitySettings(otlp_client_id=("x.kafka",)))
    (row,) = decoded(spark, [record("own", OWN_ATTRIBUTE)], settings)["own"]
    assert row["client"] == P


def test_each_sample_is_of_metrics_or_of_logs() -> None:
    assert {path.name for path in SAMPLES.iterdir()} == {*GOLDEN, *LOGS}


def test_every_format_is_asked_in_an_order_without_ties() -> None:
    orders = [fmt.order for fmt in formats("metrics")]
    assert orders == sorted(set(orders))
