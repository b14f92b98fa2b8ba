"""Which events of a process count as one, so that a storm stays bounded."""

from __future__ import annotations

from clienthealth.model.readings import LogEvent
from clienthealth.read.logs.dumps import DUMP_LINE, line_sample

#: Of events of one signature, client, thread and address one in so many milliseconds is kept, with the number of those
#: that it stands for: 100,000 lines a second of one process cost as much state as ten.
SAMPLING_MS = 100


def sample_key(event: LogEvent) -> tuple[str, ...]:
    """What events of one process have in common that count as one. The same in every process and at every start."""
    subject = (event.signature, event.client_id or "", event.thread or "", event.captures.get("address", ""))
    if event.signature == DUMP_LINE:
        return *subject, *line_sample(event)
    return *subject, str(event.ts_ms // SAMPLING_MS)
