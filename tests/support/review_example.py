"""A review made by hand, for tests that need no Spark."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from clienthealth.review.headline import headline
from clienthealth.review.model import Distribution, Fleet, Gap, Incident, Quality, Review, Theme
from clienthealth.review.period import Period, history_of
from clienthealth.review.slo import Minutes, ServiceSlo

WEEK = Period(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC))


def review(**changes: Any) -> Review:
    """An empty week, unless `changes` say otherwise, with its headline."""
    period: Period = changes.get("period", WEEK)
    nothing = Distribution(("0",), (0,), (0,))
    values: dict[str, Any] = {
        "period": period,
        "target": 0.995,
        "lost_records_target": 0,
        "overall": ServiceSlo("", 0, 0.995, [Minutes()] * 4),
        "services": [],
        "periods": history_of(period, 4),
        "actions": [],
        "actions_file": "",
        "themes": [],
        "withdrawn": 0,
        "alerts": [],
        "never_fired": [],
        "measurement_alerts": [],
        "near": [],
        "cleared": [],
        "cleared_count": 0,
        "top_clients": {name: [] for name in ("unhealthy", "buffer", "queue", "lag")},
        "top_topics": {},
        "fleet": Fleet(),
        "capacity": [],
        "lag_trends": [],
        "changes": [],
        "quality": Quality(period.minutes, (Gap(period.start, period.end),), (), 0, 0),
        "buffers": nothing,
        "lags": nothing,
        "slot_minutes": 60,
        "not_computed": [],
        **changes,
    }
    example = Review(**values)
    return dataclasses.replace(example, headline=headline(example))


def service(name: str, *periods: Minutes) -> ServiceSlo:
    """A service with its newest periods; those before are empty."""
    filled = [Minutes()] * (4 - len(periods)) + list(periods)
    return ServiceSlo(name, 1, 0.995, filled, {30: periods[-1]})


def watched(period: Period = WEEK) -> Quality:
    """A week without a gap."""
    return Quality(period.minutes, (), (), 0, 0)


def theme(client_id: str = "order-producer", evidence: str = "metric: stood still", **changes: Any) -> Theme:
    """One confirmed incident of Tuesday, 10:00 to 11:40."""
    start, stop = datetime(2026, 11, 10, 10, tzinfo=UTC), datetime(2026, 11, 10, 11, 40, tzinfo=UTC)
    incident = Incident(
        service="orders-api",
        instance="web-1:100",
        client_id=client_id,
        mode="producer-callback-deadlock",
        host="web-1",
        library="java",
        version="3.9.1",
        start=start,
        found=start,
        sure=start,
        stop=stop,
        seconds=6000,
        detect=40,
        clear=5960,
        lost_records=None,
        lost_bytes=None,
        evidence=(evidence,),
        link="",
    )
    values: dict[str, Any] = {
        "mode": "producer-callback-deadlock",
        "title": "Producer deadlocked",
        "cause": "",
        "topic": "",
        "incidents": 1,
        "confirmed": 1,
        "open": 0,
        "clients": 1,
        "services": ("orders-api",),
        "start": start,
        "stop": stop,
        "seconds": 6000,
        "detect": 40.0,
        "clear": 5960.0,
        "lost_records": None,
        "lost_bytes": None,
        "listed": (incident,),
        "action": "",
        "runbook": "http://127.0.0.1:9309/runbooks/producer-callback-deadlock",
        **changes,
    }
    return Theme(**values)
