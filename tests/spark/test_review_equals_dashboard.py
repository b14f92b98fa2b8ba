"""The dashboard "weekly review" and the review show equal numbers for one period."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.model.clients import Client
from clienthealth.model.verdicts import STATUS_ORDER
from clienthealth.review.model import Review
from clienthealth.review.period import Period
from clienthealth.review.queries import build
from clienthealth.settings import Settings
from clienthealth.spark import history
from dashboards.build import boards
from tests.e2e.test_alert_delivery import free_address, started
from tests.support.alert_rules import recordings
from tests.support.dashboard_reading import panels
from tests.support.generated_history import Fault, client_rows, minute_rows, quality_rows, status_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")), reason="prometheus is not installed"
    ),
]

MODE = "producer-callback-deadlock"
SICK = Client("orders-api", "web-1", "web-1:100", "order-producer", "producer")
WELL = Client("orders-api", "web-2", "web-2:100", "order-producer", "producer")
LATE = Client("billing", "web-3", "web-3:200", "invoice-producer", "producer")
PERIOD = Period(datetime(2026, 11, 10, 10, tzinfo=UTC), datetime(2026, 11, 10, 12, tzinfo=UTC))
FAULT = Fault(SICK, MODE, PERIOD.start + timedelta(minutes=20), PERIOD.start + timedelta(minutes=45),
              PERIOD.start + timedelta(minutes=23))  # fmt: skip


@pytest.fixture(scope="module")
def review(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Review, str]]:
    root = tmp_path_factory.mktemp("equal")
    gap = PERIOD.start + timedelta(hours=1)
    watched = (F.col("minute") < F.lit(gap)) | (F.col("minute") >= F.lit(gap + timedelta(minutes=10)))
    status, modes = status_of([FAULT])
    unjudged = (F.col("service") == "billing") & (F.col("minute") < F.lit(PERIOD.start + timedelta(minutes=30)))
    rows = minute_rows(
        client_rows(spark, [SICK, WELL, LATE]),
        PERIOD.start,
        PERIOD.minutes,
        {"status": F.when(unjudged, "unknown").otherwise(status), "modes": modes},
        watched,
    )
    history.create(spark, str(root))
    history.append(rows, str(root), "minutes", history.Origin("test", 0))
    history.append(
        quality_rows(spark, PERIOD.start, PERIOD.minutes, "client-metrics", 18, 0, 0).filter(watched),
        str(root), "quality", history.Origin("test", 0),
    )  # fmt: skip
    built = build(spark, Settings(), PERIOD, root / "actions.toml", str(root))
    lines = [
        line
        for row in rows.withColumn("at", F.unix_seconds("minute")).orderBy("instance", "at").collect()
        for line in samples(row["service"], row["host"], row["instance"], row["client_id"], row["status"], row["at"])
    ]
    (root / "samples.om").write_text("\n".join([*sorted(lines, key=series_and_time), "# EOF\n"]))
    (root / "prometheus.yml").write_text("{}\n")
    create = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "samples.om", "tsdb"]
    subprocess.run(create, cwd=root, check=True, capture_output=True, timeout=300)
    address = free_address()
    command = ["prometheus", f"--config.file={root}/prometheus.yml", f"--storage.tsdb.path={root}/tsdb"]
    command += [f"--web.listen-address={address}", "--storage.tsdb.retention.time=100y"]
    # By default, Prometheus shows a client for five minutes after it has gone.
    command.append("--query.lookback-delta=59s")
    with started(command, root / "prometheus.log", address):
        yield built, address


def series_and_time(line: str) -> tuple[str, int]:
    series, _, at = line.rsplit(" ", 2)
    return series, int(at)


def samples(service: str, host: str, instance: str, client_id: str, status: str, at: int) -> list[str]:
    shard = f'shard="{host} {instance} {client_id}"'
    return [
        f'kafka_client_service_clients{{{shard},service="{service}",status="{name}"}} {int(name == status)} {at}'
        for name in STATUS_ORDER
    ]


def asked(prometheus: str, query: str) -> dict[str, float]:
    for name, expr in recordings().items():
        query = re.sub(rf"{name}\{{[^}}]*\}}", lambda _, expr=expr: f"({expr})", query)  # type: ignore[misc]
    query = query.replace("[$__range:1m]", f"[{PERIOD.minutes}m:1m]").replace("$slo_target", "0.995")
    # Each step of the query must lie inside one minute.
    form = urllib.parse.urlencode({"query": query, "time": PERIOD.end.timestamp() - 30})
    with urllib.request.urlopen(f"http://{prometheus}/api/v1/query?{form}", timeout=60) as answer:
        result = json.load(answer)["data"]["result"]
    return {one["metric"].get("service", ""): float(one["value"][1]) for one in result}


def test_the_same_numbers(review: tuple[Review, str]) -> None:
    built, prometheus = review
    assert built.overall.minutes.observed == 110 + 110 + 80
    assert built.overall.minutes.unhealthy == 25
    queries = {panel["title"]: panel["targets"] for panel in panels(boards()["review"]) if "targets" in panel}
    overall = built.overall
    assert asked(prometheus, queries["Unhealthy client-minutes"][0]["expr"]) == {"": overall.minutes.unhealthy}
    assert asked(prometheus, queries["Healthy client-minutes"][0]["expr"])[""] == pytest.approx(overall.minutes.sli)
    assert asked(prometheus, queries["Error budget spent"][0]["expr"])[""] == pytest.approx(overall.budget.spent)
    by_column = {target["refId"]: asked(prometheus, target["expr"]) for target in queries["Services"]}
    expected = [
        {s.service: s.minutes.sli for s in built.services},
        {s.service: s.budget.spent for s in built.services},
        {s.service: s.minutes.unhealthy for s in built.services},
        {s.service: s.minutes.observed for s in built.services},
    ]
    assert list(by_column.values()) == [pytest.approx(column) for column in expected]
