"""Make reviews without Spark for tests."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from typing import Any

from clienthealth.configuration.owners import Owner
from clienthealth.review import render
from clienthealth.review.actions import Action
from clienthealth.review.content import headline
from clienthealth.review.model import (
    Alert,
    AlsoSeen,
    Capacity,
    ClientRow,
    Distribution,
    Fleet,
    FleetRow,
    Incident,
    InputQuality,
    KnownBugs,
    LagTrend,
    ModeChange,
    Page,
    Quality,
    Review,
    Theme,
    TopicRow,
    Upgrade,
    WrongClock,
)
from clienthealth.review.period import Period, history_of
from clienthealth.review.slo import Loss, Minutes, ServiceSlo

FINE, ILL = Minutes(ok=10_080), Minutes(ok=9_980, suspected=20, confirmed=80)
WEEK = Period(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC))


def review(**changes: Any) -> Review:
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
        "cleared": [],
        "cleared_count": 0,
        "top_clients": {name: [] for name in ("unhealthy", "buffer", "queue", "lag")},
        "top_topics": {},
        "fleet": Fleet(),
        "capacity": [],
        "lag_trends": [],
        "changes": [],
        "quality": Quality(period.minutes, (Period(period.start, period.end),), (), 0, 0),
        "buffers": nothing,
        "lags": nothing,
        "slot_minutes": 60,
        "not_computed": [],
        **changes,
    }
    example = Review(**values)
    return dataclasses.replace(example, headline=headline(example))


def service(name: str, *periods: Minutes) -> ServiceSlo:
    filled = [Minutes()] * (4 - len(periods)) + list(periods)
    return ServiceSlo(name, 1, 0.995, filled, {30: periods[-1]})


def watched(period: Period = WEEK) -> Quality:
    return Quality(period.minutes, (), (), 0, 0)


def theme(client_id: str = "order-producer", evidence: str = "metric: stood still", **changes: Any) -> Theme:
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


def everything(name: str, ours: str = "ours") -> Review:
    ill = dataclasses.replace(service(name, ILL, ILL), owner=Owner(name), target=0.99, lost=Loss((0, 3), "not known"))
    services = [ill, *(service(f"{name} {n}", FINE) for n in range(12))]
    row = ClientRow(name, name, name, "queue", 0.9, topic=name, seconds=30)
    lists = {what: [dataclasses.replace(row, what=what)] for what in ("unhealthy", "buffer", "queue", "lag")}
    came = FleetRow(name, name, "producer", 1)
    failed = theme(name, name, cause=ours, topic=name, services=(name, name), open=1, incidents=3, lost_records=(1, 2))
    unsure = dataclasses.replace(failed.listed[0], sure=None, link="https://grafana.example/d/x?a=(b)")
    gap = Period(WEEK.start, WEEK.start + timedelta(hours=1))
    paged = [Page(f"{name} {n}", "m", gap.start, gap.end, 1, False, date(2026, 11, 10)) for n in range(21)]
    return review(
        overall=dataclasses.replace(ill, service=""),
        services=services,
        actions=[
            Action(ours, ours, date(2026, 11, 1), link="https://tracker.example/1", overdue_days=3),
            Action(ours, ours, date(2026, 11, 1), state="done", done=date(2026, 11, 11)),
        ],
        themes=[dataclasses.replace(failed, listed=(*failed.listed, unsure), action="Restart it.")],
        withdrawn=2,
        alerts=[Alert("a-mode", "critical", 2, 1, 1, 600, 60.0)],
        never_fired=[("another-mode", "critical")],
        cleared=[unsure],
        cleared_count=2,
        top_clients=lists,
        top_topics={"queue": [TopicRow(name, "queue", 0.9, 1)]},
        fleet=Fleet(
            (came,),
            2,
            (came,),
            1,
            (Upgrade(name, name, (name, name), (name,)),),
            (KnownBugs(name, name, name, 5, ("B-1",), "2.0.0"),) * 21,
        ),
        capacity=[Capacity(name, (0.1, 0.2, 0.3, 0.4), 0.1, 6.0)],
        lag_trends=[LagTrend(name, name, name, 5, 30.0, 1.0)],
        changes=[ModeChange("a-mode", "A mode", 1, 0, 5, 0)],
        quality=dataclasses.replace(
            watched(),
            gaps=(gap,) * 21,
            inputs=(InputQuality(name, 1, 0, 0),),
            clocks=(WrongClock(name, name, name, 90.0, 5),) * 11,
        ),
        not_computed=[("the alerts of Prometheus", "no address was given")],
        pages=paged,
        also_seen=[AlsoSeen("tls", name, 1200, 2, 7)] * 21,
    )


def html(shown: Review) -> str:
    return render.page("review", render.shown(shown))


def markdown(shown: Review) -> str:
    return render.text("review", render.shown(shown))
