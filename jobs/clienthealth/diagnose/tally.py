"""What became of the records of each input: how many counted, of which times, and why the rest did not."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.diagnose.attachments.input import Input
from clienthealth.model.readings import Source
from clienthealth.read.decode import Decoded
from clienthealth.read.recordings import Recorded

#: Why a record is left out that is no evidence, rather than evidence that cannot be read.
HARMLESS = ("empty", "unknown-format", "no-metrics", "missing-timestamp")


class Tally:
    """Inputs by file, counted from what became of their records.

    `given`: the inputs, from a reader that knows what they are, how long, and what is untimed in them
    """

    def __init__(self, inputs: Sequence[Input] | None = None) -> None:
        self._given = inputs
        self._by_topic: dict[str, Input] = {}

    def all(self) -> list[Input]:
        """All inputs, in their order."""
        return list(self._by_topic.values()) if self._given is None else list(self._given)

    def add(self, record: Recorded, source: Source, decoded: Decoded) -> None:
        """Count a record."""
        attached = self._input(record, source.topic)
        times = [s.ts_ms for s in decoded.snapshots if s.ts_ms] + [li.ts_ms for li in decoded.lines if li.ts_ms]
        attached.used += record.repeats if times else 0
        if times and record.timed == "own":
            attached.start_ms = min(times if attached.start_ms is None else [attached.start_ms, *times])
            attached.end_ms = max(times if attached.end_ms is None else [attached.end_ms, *times])
        for snapshot in decoded.snapshots:
            if (snapshot.client.service, snapshot.client.host) != (record.service, record.instance):
                attached.process = None
        for error in decoded.errors:
            why = error.partition(":")[0]
            if why in HARMLESS:
                attached.left_out = {**attached.left_out, why: attached.left_out.get(why, 0) + 1}
            else:
                attached.unread = {**attached.unread, why: attached.unread.get(why, 0) + 1}
        if self._given is None and not attached.what:
            attached.what = (decoded.format or "").replace("_", " ")

    def _input(self, record: Recorded, topic: str) -> Input:
        entered = self._by_topic.get(topic)
        if entered is None:
            entered = next((attached for attached in reversed(self._given or ()) if topic in attached.topics), None)
            if entered is None:
                entered = Input(record.file, process=(record.service, record.instance), topics=frozenset({topic}))
            self._by_topic[topic] = entered
        if self._given is None:
            entered.read += 1
        return entered
