"""Overlapping failures of a service cause one page."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import pytest
from pyspark.sql import SparkSession

from clienthealth.model.clients import Client
from clienthealth.modes import modes
from clienthealth.modes.facts import Alerting
from clienthealth.monitor.incidents import Change
from clienthealth.review import incident_rows
from clienthealth.review.incidents import pages
from clienthealth.settings import PrometheusSettings, Settings
from tests.spark.known_weeks import BLOCKING, DEADLOCK, METADATA, NOT_CLOSED, ORDERS, W46, at
from tests.support.generated_history import Fault, verdicts

OTHER = msgspec.structs.replace(ORDERS, instance="web-9:900")
NOW = timedelta(0)


def fault(client: Client, mode: str, start: str, stop: str | None, ends: Change = "closed", day: int = 10) -> Fault:
    begin, end = at(day, start), None if stop is None else at(day, stop)
    return Fault(client, mode, begin, end, begin, NOW, {}, ends=ends)


FAULTS = (
    # An alert lasts five minutes longer than its failure, so the first three failures cause one page.
    fault(ORDERS, DEADLOCK, "09:00", "09:30"),
    fault(OTHER, DEADLOCK, "09:10", "09:20"),
    fault(OTHER, DEADLOCK, "09:34", "09:40"),
    # The fourth failure begins six minutes after the end of the third failure, and causes a second page.
    fault(ORDERS, DEADLOCK, "09:46", "09:50"),
    fault(ORDERS, METADATA, "09:05", "09:08", "withdrawn"),
    fault(msgspec.structs.replace(OTHER, service="search"), DEADLOCK, "09:00", "09:30"),
    Fault(ORDERS, METADATA, at(10, "12:00"), at(10, "12:05"), at(10, "12:00"), timedelta(minutes=5)),
    Fault(ORDERS, METADATA, at(10, "13:00"), at(10, "13:30")),
    fault(OTHER, METADATA, "14:00", "14:10", "moved"),
    fault(ORDERS, NOT_CLOSED, "15:00", None),
    fault(OTHER, BLOCKING, "20:00", None, day=8),
)


def test_what_is_one_page(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = sorted((change for one in FAULTS for change in one.changes()), key=lambda change: change[1])
    touching = incident_rows.touching(incident_rows.incidents(verdicts(spark, changes), W46.end), W46).persist()
    found = pages(touching, W46, Settings())
    assert found is not None

    def clock(moment: datetime | None) -> str:
        return f"{moment:%d %H:%M}" if moment else "open"

    assert [(p.service, p.mode, clock(p.start), clock(p.stop), p.clients, p.needed_nobody) for p in found] == [
        ("orders-api", DEADLOCK, "10 09:00", "10 09:40", 2, False),
        ("search", DEADLOCK, "10 09:00", "10 09:30", 1, False),
        ("orders-api", METADATA, "10 09:05", "10 09:08", 1, True),
        ("orders-api", DEADLOCK, "10 09:46", "10 09:50", 1, True),
        ("orders-api", NOT_CLOSED, "10 15:00", "open", 1, False),
    ]
    quiet = {**modes(), METADATA: replace(modes()[METADATA], confirmed=Alerting("warning"))}
    monkeypatch.setattr(incident_rows, "modes", lambda: quiet)
    assert [p.mode for p in pages(touching, W46, Settings()) or ()] == [DEADLOCK, DEADLOCK, DEADLOCK, NOT_CLOSED]
    severities = {(row["mode"], row["severity"]) for row in incident_rows.alerts(touching, W46).collect()}
    assert {(METADATA, "warning"), (DEADLOCK, "critical")} <= severities and (METADATA, "critical") not in severities
    staging = Settings(prometheus=PrometheusSettings(labels={"env": "staging"}))
    assert pages(touching, W46, staging) is None
    touching.unpersist()
