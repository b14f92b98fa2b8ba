"""Windows of clients → records of all clients, incidents, history."""

from __future__ import annotations

import json
import time

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from clienthealth.batches.book import Book
from clienthealth.batches.state import RECORD, state_json, with_incidents
from clienthealth.batches.steps import JUDGED, judge_rows, steps_from_json
from clienthealth.incidents import Transition
from clienthealth.modes import modes
from clienthealth.records import Client, Verdict
from clienthealth.sinks.kafka import write
from clienthealth.verdicts import per_client, quiet_records


class ClientsBatch:
    """Windows of clients → records of all clients, incidents, history."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        settings, book = self._book.settings, self._book
        clients = per_client(batch).persist()
        try:
            with book.lock:
                known = book.incidents.clients
                suspect = F.exists("windows", lambda w: F.size(w["suspected"]) > 0)
                attention = suspect | F.col("key").isin(*known) if known else suspect
                judged = self._judged(clients.filter(attention))
                end_ms = clients.agg(F.max("last_ms")).first()
                records, changes = self._entered(judged, (end_ms and end_ms[0]) or 0)
                book.keep(batch, batch_id, changes)
            loud = batch.sparkSession.createDataFrame(records, RECORD)
            write(quiet_records(clients.filter(~attention)).unionByName(loud), settings, settings.topics.health)
        finally:
            clients.unpersist()

    def _judged(self, clients: DataFrame) -> list[Row]:
        newest = F.col("newest")
        state = F.struct(
            newest["start_ms"].alias("window_start"),
            newest["end_ms"].alias("window_end"),
            newest["client"].alias("client"),
            newest["samples"].alias("samples"),
            newest["indicators"].alias("indicators"),
        )
        rows = clients.select(
            "key", "last_ms", newest["client"].alias("client"), F.to_json(state).alias("newest"), "windows"
        )
        return rows.mapInArrow(judge_rows(self._book.settings, int(time.time() * 1000)), JUDGED).collect()

    def _entered(self, judged: list[Row], end_ms: int) -> tuple[list[tuple[str, str | None]], list[Transition]]:
        incidents = self._book.incidents
        records: list[tuple[str, str | None]] = []
        changes: list[Transition] = []
        for row in judged:
            state = json.loads(row["newest"])
            who = Client(**state["client"])
            for mode in (m.id for m in modes().values() if m.absence):
                changes += incidents.returned(who.key, mode, row["last_ms"] or 0)
            verdicts: list[Verdict] = []
            for window_end_ms, verdicts in steps_from_json(row["steps"]):
                changes += incidents.judged(who, verdicts, window_end_ms)
            shown = with_incidents(verdicts, incidents, who.key)
            records.append((row["key"], state_json(state, shown, last_seen=row["last_ms"])))
        expired = incidents.expired(end_ms)
        records += [(change.client.key, None) for change in expired]
        return records, changes + expired
