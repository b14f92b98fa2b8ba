"""The review sums lost records by service and by theme (mode, cause and topic)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from clienthealth.model.clients import Client
from clienthealth.monitor.incidents import Change
from clienthealth.review import incident_rows, incidents
from clienthealth.review.period import Period
from tests.support.generated_history import Fault, verdicts

DAY = Period(datetime(2026, 11, 10, tzinfo=UTC), datetime(2026, 11, 11, tzinfo=UTC))
NOON = DAY.start + timedelta(hours=12)
ORDERS = Client("orders", "web-1", "web-1:1", "", "producer", "java", "3.9.1")
NOT_CLOSED, STALLED, BLOCKED = "producer-not-closed", "delivery-stalled", "send-blocked-on-metadata"


def fault(
    service: str,
    client_id: str,
    mode: str,
    detail: dict[str, Any],
    start: datetime = NOON,
    ends: Change = "closed",
    confirmed: bool = True,
) -> Fault:
    client = msgspec.structs.replace(ORDERS, service=service, client_id=client_id)
    stop = start + timedelta(minutes=5)
    return Fault(client, mode, start, stop, start if confirmed else None, detail=detail, ends=ends)


FAULTS = (
    fault("counted", "a", NOT_CLOSED, {"lost_records": [12, 12]}),
    fault("counted", "b", NOT_CLOSED, {"lost_records": [0, 1140]}, confirmed=False),
    # Two log lines report 250 records each, and more lines may have been lost.
    fault("expired", "a", STALLED, {"records_expired": 500}),
    fault("expired", "b", STALLED, {"lost_records": [1, 1]}),
    fault("stalled", "a", STALLED, {"cause": "timeouts"}),
    fault("uncounted", "a", NOT_CLOSED, {"cause": "forced-close"}),
    fault("bytes", "a", NOT_CLOSED, {"cause": "killed", "lost_bytes": [0, 900_000]}),
    fault("blocked", "a", BLOCKED, {"cause": "topic-missing"}),
    fault("back", "a", NOT_CLOSED, {"lost_records": [0, 9]}, ends="withdrawn"),
    fault("back", "b", NOT_CLOSED, {"lost_records": [0, 9]}, ends="moved"),
    fault("yesterday", "a", NOT_CLOSED, {"lost_records": [9, 9]}, start=NOON - timedelta(days=1)),
    fault("midnight", "a", NOT_CLOSED, {"lost_records": [5, 5]}, start=DAY.start - timedelta(minutes=2)),
)


def test_lost_records_by_service(spark: SparkSession) -> None:
    rows = verdicts(spark, (change for each in FAULTS for change in each.changes()))
    all_incidents = incident_rows.incidents(rows, DAY.end)
    touching = incident_rows.touching(all_incidents, DAY)
    assert incidents.lost_by_service(touching) == {
        "counted": (12, 1152),
        "expired": (501, None),
        "uncounted": (0, None),
        "bytes": (0, None),
        "midnight": (5, 5),
    }
    assert incidents.lost_by_service(incident_rows.touching(all_incidents, DAY.before(1))) == {
        "yesterday": (9, 9),
        "midnight": (5, 5),
    }
    of = {
        (row["mode"], row["cause"]): (row["lost_records_0"], row["lost_records_1"], row["lost_bytes_0"])
        for row in incident_rows.themes(touching).collect()
    }
    assert of == {
        (NOT_CLOSED, None): (17, 1157, None),
        (NOT_CLOSED, "forced-close"): (0, None, None),
        (NOT_CLOSED, "killed"): (0, None, 0),
        (STALLED, None): (501, None, None),
        (STALLED, "timeouts"): (None, None, None),
        (BLOCKED, "topic-missing"): (None, None, None),
    }
