"""The incidents of a review: grouped by what they have in common, each with its evidence and its dashboard."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from clienthealth.model.verdicts import Verdict
from clienthealth.modes import modes
from clienthealth.review import incident_rows
from clienthealth.review.links import Links
from clienthealth.review.loss import Range
from clienthealth.review.model import Incident, Theme
from clienthealth.review.period import utc
from clienthealth.spark.history import CLIENT_KEY

LISTED_PER_THEME = 8
LISTED_CLEARED = 10
EVIDENCE = 3
EVIDENCE_LENGTH = 300
#: Of a theme, what goes into the review as it is.
COUNTED = ("mode", "incidents", "confirmed", "open", "clients", "seconds", "detect", "clear")
#: A suspicion that ended without having been confirmed.
CLEARED = "last = 'closed' and sure is null"


def themes(touching: DataFrame, links: Links) -> list[Theme]:
    """Confirmed ones first, then those that lasted longest in all."""
    listed: dict[tuple[Any, ...], list[Incident]] = {}
    for row in incident_rows.longest(touching, LISTED_PER_THEME).orderBy(*incident_rows.THEME, "rank").collect():
        listed.setdefault(_theme_of(row), []).append(_incident(row, links))
    by_id = modes()
    result = []
    for row in incident_rows.themes(touching).collect():
        mode = by_id.get(row["mode"])
        of_theme = Verdict(row["mode"], "confirmed", detail={"cause": row["cause"] or ""})
        told = mode.told(of_theme, None) if mode else None
        over = row["stop"] is not None and not row["open"]
        values = {
            **{name: row[name] for name in COUNTED},
            **_lost(row),
            "cause": row["cause"] or "",
            "topic": row["topic"] or "",
            "services": tuple(row["services"]),
            "start": utc(row["start"]),
            "stop": utc(row["stop"]) if over else None,
        }
        result.append(
            Theme(
                **values,
                listed=tuple(listed[_theme_of(row)]),
                title=told.title if told else row["mode"],
                action=told.remedy if told else "",
                runbook=links.runbook(row["mode"]),
            )
        )
    return sorted(result, key=lambda t: (not t.confirmed, -t.seconds, t.mode, t.cause, t.topic))


def _lost(row: Row) -> dict[str, Range | None]:
    """`lost_records` and `lost_bytes`; None where nothing speaks of a loss."""
    return {
        f"lost_{what}": None if row[f"lost_{what}_0"] is None else (row[f"lost_{what}_0"], row[f"lost_{what}_1"])
        for what in ("records", "bytes")
    }


def lost_by_service(touching: DataFrame) -> dict[str, Range]:
    """Records lost, at least and at most, of the services that lost any or may have."""
    rows = incident_rows.losses(touching).collect()
    return {row["service"] or "": (row["lost_records_0"], row["lost_records_1"]) for row in rows}


def _theme_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in incident_rows.THEME)


def _incident(row: Row, links: Links) -> Incident:
    start = utc(row["start"])
    stop = None if row["stop"] is None else utc(row["stop"])
    values: dict[str, Any] = {
        **{name: row[name] or "" for name in (*CLIENT_KEY, "mode", "host", "library", "version")},
        **{name: row[name] for name in ("seconds", "detect", "clear")},
        **_lost(row),
    }
    return Incident(
        **values,
        start=start,
        found=utc(row["found"]),
        sure=None if row["sure"] is None else utc(row["sure"]),
        stop=stop,
        evidence=_evidence(row["evidence"]),
        link=links.dashboard(row["mode"], row["service"] or "", row["client_id"] or "", start, stop),
    )


def _evidence(text: str | None) -> tuple[str, ...]:
    """The first fact of each kind, with the input record it was read from."""
    by_kind: dict[str, str] = {}
    for fact in json.loads(text or "[]"):
        source = fact.get("source")
        where = f" ({source['topic']}-{source['partition']}@{source['offset']})" if source else ""
        words = str(fact.get("text", ""))
        if len(words) > EVIDENCE_LENGTH:
            words = words[: EVIDENCE_LENGTH - 1] + "…"
        by_kind.setdefault(fact["kind"], f"{fact['kind']}: {words}{where}")
    return tuple(by_kind.values())[:EVIDENCE]


def counts(touching: DataFrame) -> Row:
    """How many were `withdrawn`, and how many suspicions `cleared`."""
    row = touching.select(
        F.count_if(F.col("last") == "withdrawn").alias("withdrawn"), F.count_if(F.expr(CLEARED)).alias("cleared")
    ).first()
    assert row is not None
    return row


def cleared(touching: DataFrame, links: Links) -> list[Incident]:
    """The first suspicions that cleared."""
    rows = touching.filter(CLEARED).orderBy("start", *CLIENT_KEY, "mode").limit(LISTED_CLEARED)
    return [_incident(row, links) for row in rows.collect()]
