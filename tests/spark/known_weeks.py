"""Write a history of four weeks (2026-W43 to W46) with known incidents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.model.clients import Client
from clienthealth.review.period import WEEK, Period
from clienthealth.spark import history
from tests.support.generated_history import Fault, client_rows, minute_rows, quality_rows, status_of, write_faults

W46 = Period(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC))
W43 = W46.before(3)

DEADLOCK, METADATA = "producer-callback-deadlock", "send-blocked-on-metadata"
BLOCKING, NOT_CLOSED = "cross-topic-blocking", "producer-not-closed"

ORDERS = Client("orders-api", "web-1", "web-1:100", "order-producer", "producer", "java", "3.9.1")
INVOICES = Client("billing", "web-2", "web-2:200", "invoice-producer", "producer", "java", "3.9.1")
LEDGER = Client("billing", "web-2", "web-2:200", "ledger-consumer", "consumer", "java", "3.9.1")
STREAM = Client("search", "web-3", "web-3:300", "<b>index</b>", "legacy-consumer", "java", "0.8.2.1", "indexers")
AUDIT = Client("audit", "web-4", "web-4:400", "audit-producer", "producer", "python", "3.0.0")
BATCH = Client("audit", "web-6", "web-6:600", "audit-batch", "producer", "librdkafka", "2.5.0")
REFUND = Client("orders-api", "web-5", "web-5:500", "refund-producer", "producer", "java", "2.8.0")
GROUP = Client("consumer-groups", "", "default", "indexers", "group", None, None, "indexers")


def at(day: int, clock: str = "00:00") -> datetime:
    return datetime.fromisoformat(f"2026-11-{day:02d}T{clock}").replace(tzinfo=UTC)


SINCE_TUESDAY = {"cause": "get-in-callback"}
FAULTS = (
    Fault(
        ORDERS,
        DEADLOCK,
        at(10, "10:00"),
        at(10, "11:40"),
        at(10, "10:05"),
        timedelta(seconds=40),
        SINCE_TUESDAY,
        "select-total stayed at 10213 for 40 s <script>alert(1)</script>",
    ),
    Fault(ORDERS, DEADLOCK, at(10, "14:00"), at(10, "14:20"), at(10, "14:00"), timedelta(seconds=50), SINCE_TUESDAY),
    Fault(ORDERS, DEADLOCK, at(10, "14:35"), at(10, "14:45"), at(10, "14:35"), timedelta(seconds=90), SINCE_TUESDAY),
    Fault(
        INVOICES,
        METADATA,
        at(11, "09:00"),
        at(11, "09:30"),
        None,
        timedelta(seconds=60),
        {"cause": "topic-missing", "topic": "invoices.v2"},
    ),
    Fault(
        REFUND,
        NOT_CLOSED,
        at(13, "15:00"),
        at(13, "15:06"),
        at(13, "15:00"),
        timedelta(seconds=75),
        {"cause": "exit-without-close", "lost_records": [0, 1140]},
    ),
    Fault(
        BATCH,
        NOT_CLOSED,
        at(13, "16:00"),
        at(13, "16:05"),
        at(13, "16:00"),
        timedelta(seconds=75),
        {"cause": "exit-without-close", "lost_records": [12, 12], "lost_bytes": [4096, 4096]},
    ),
    Fault(AUDIT, NOT_CLOSED, at(14, "08:00"), at(14, "08:10"), None, ends="withdrawn"),
    Fault(replace(ORDERS, client_id=""), DEADLOCK, at(10, "10:00"), at(10, "10:01"), at(10, "10:00"), ends="moved"),
    Fault(
        STREAM,
        BLOCKING,
        at(15, "23:00"),
        at(16, "01:00"),
        at(15, "23:00"),
        timedelta(seconds=30),
        {"culprit": "order-events", "victims": ["clicks"]},
    ),
    Fault(ORDERS, DEADLOCK, at(3, "12:00"), at(3, "12:20"), None),
    Fault(ORDERS, DEADLOCK, at(3, "12:00") - 2 * WEEK, at(3, "12:50") - 2 * WEEK, at(3, "12:00") - 2 * WEEK),
)
ACTIONS = """
[[action]]
title = "Move the confirmation mail out of the producer callback"
owner = "orders team"
due = 2026-11-11
link = "https://tracker.example/ORD-1312"
[[action]]
title = "Give billing its own metadata timeout"
owner = "billing team"
due = 2026-11-20
"""
DASHBOARDS = "https://grafana.example"
GONE = (NOT_CLOSED,)
GAP = (at(12, "02:00"), at(12, "04:10"))


ELSEWHERE = Client("orders-api", "us-1", "us-1:100", "order-producer", "producer", "java", "3.9.1")
FAULT_ELSEWHERE = Fault(ELSEWHERE, DEADLOCK, at(10, "10:00"), at(10, "11:00"), at(10, "10:00"), timedelta(seconds=40))


def write_elsewhere(spark: SparkSession, root: str) -> None:
    history.create(spark, root)
    length = 6 * 24 * 60
    status, modes = status_of([FAULT_ELSEWHERE])
    rows = minute_rows(client_rows(spark, [ELSEWHERE]), W46.start, length, {"status": status, "modes": modes})
    history.append(rows, root, "minutes", history.Origin("generated", 0))
    history.append(
        quality_rows(spark, W46.start, length, "client-metrics", 6, 0, 0),
        root,
        "quality",
        history.Origin("generated", 1),
    )
    write_faults(spark, root, [FAULT_ELSEWHERE])


def write(spark: SparkSession, root: str, first_week_only: bool = False) -> None:
    history.create(spark, root)
    begin = W46.start if first_week_only else W43.start
    length = (W46.end - begin) // timedelta(minutes=1)
    watched = ~F.col("minute").between(F.lit(GAP[0]), F.lit(GAP[1] - timedelta(minutes=1)))
    in_w46 = F.col("minute") >= F.lit(W46.start)

    status, modes = status_of(f for f in FAULTS if f.mode not in GONE)
    first_hour = F.col("minute").between(F.lit(W46.start), F.lit(at(9, "00:59")))
    unjudged = (F.col("client_id") == LEDGER.client_id) & first_hour
    week = F.floor((F.unix_seconds("minute") - int(W43.start.timestamp())) / 604_800)
    near = in_w46 & (F.col("client_id") == INVOICES.client_id) & (F.hour("minute") == 20) & (F.dayofweek("minute") == 6)
    fill = F.when(near, 0.85).otherwise(F.round(0.4 + 0.1 * week, 1))
    legacy = F.col("kind") == "legacy-consumer"
    judged = client_rows(spark, [ORDERS, INVOICES, LEDGER, STREAM, AUDIT])
    rows = minute_rows(
        judged,
        begin,
        length,
        {
            "status": F.when(unjudged, "unknown").otherwise(status),
            "modes": modes,
            "buffer_used_ratio_max": F.when(F.col("kind") == "producer", fill),
            "queue_used_ratio_max": F.when(legacy, F.when(status != "ok", 1.0).otherwise(0.5)),
            "queue_topic": F.when(legacy, "order-events"),
            "version": F.when((F.col("service") == "audit") & ~in_w46, "2.9.9").otherwise(F.col("version")),
            "client_id": F.when((F.col("service") == "audit") & ~in_w46, "audit-old").otherwise(F.col("client_id")),
        },
        watched,
    )
    grown = (F.unix_seconds("minute") - int(W46.start.timestamp())) / 60
    groups = minute_rows(
        client_rows(spark, [GROUP]),
        begin,
        length,
        {
            "status": F.lit("unknown"),
            "lag_records": F.when(in_w46, grown).otherwise(0),
            "lag_seconds": F.when(in_w46, 2.5).otherwise(0.0),
            "lag_topic": F.lit("order-events"),
            "lag_state": F.lit("WARN"),
        },
        watched,
    )
    history.append(rows.unionByName(groups), root, "minutes", history.Origin("generated", 0))
    for n, (topic, records, rejected, late) in enumerate([("client-metrics", 30, 3, 1), ("client-logs", 100, 0, None)]):
        quality = quality_rows(spark, begin, length, topic, records, rejected, late).filter(watched)
        history.append(quality, root, "quality", history.Origin("generated", n))
    write_faults(spark, root, [f for f in FAULTS if f.start >= begin])
