"""Ended sessions of clients → what their silence means."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame

from clienthealth.batches.book import Book
from clienthealth.batches.state import RECORD, state_json, with_incidents
from clienthealth.health import client_json
from clienthealth.incidents import Transition
from clienthealth.judging import judge_windows, window
from clienthealth.sinks.kafka import write


class DeparturesBatch:
    """Ended sessions → what the silence of a client means; whatever else it suffered from is over."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        settings, book = self._book.settings, self._book
        now_ms = int(time.time() * 1000)
        records: list[tuple[str, str | None]] = []
        changes: list[Transition] = []
        gone = batch.toArrow().to_pylist()
        with book.lock:
            for row in gone:
                seen = window(row["client"], row)
                departed_ms = row["departed_ms"]
                verdicts = judge_windows([seen], settings.modes, now_ms, absence=True)
                for mode in (v.mode for v in verdicts):
                    changes += book.incidents.departed(seen.client.key, departed_ms, except_mode=mode)
                changes += book.incidents.judged(seen.client, verdicts, departed_ms)
                state = {
                    "window_start": row["start_ms"],
                    # Not before the last window in which the client was still there.
                    "window_end": departed_ms + settings.monitor.window_seconds * 1000,
                    "client": client_json(seen.client),
                    "samples": 1,
                    "indicators": {},
                }
                shown = with_incidents(verdicts, book.incidents, seen.client.key)
                records.append((seen.client.key, state_json(state, shown, departed=True, last_seen=departed_ms)))
            book.keep(batch, batch_id, changes)
        if records:
            write(batch.sparkSession.createDataFrame(records, RECORD), settings, settings.topics.health)
