"""The bound of a burst of log lines: of lines that count as one the first is kept, with how many it stands for."""

from __future__ import annotations

from hashlib import blake2b

from clienthealth.model.readings import LogEvent
from clienthealth.read.logs.dumps import DUMP_LINE
from clienthealth.read.logs.fields import offset

#: Of events of one signature, client, thread and address one in so many milliseconds is kept, with the number of those
#: that it stands for: 100,000 lines a second of one process cost as much state as ten.
SAMPLING_MS = 100
#: A dump of up to SLOTS × SLOT_BYTES is kept whole, also where many of its threads have the same frame. Of a burst of
#: stack traces at most SLOTS copies of each line are kept per half minute.
SLOT_BYTES, SLOTS, LINE_SAMPLING_MS = 512, 512, 30_000


def sample_key(event: LogEvent) -> tuple[str, ...]:
    """What events of one process have in common that count as one. The same in every process and at every start."""
    subject = (event.signature, event.client_id or "", event.thread or "", event.captures.get("address", ""))
    if event.signature != DUMP_LINE:
        return *subject, str(event.ts_ms // SAMPLING_MS)
    # Lines of dumps count as one if they are the same text in the same slot of their file in the same half minute.
    text = blake2b(event.text.encode(errors="replace"), digest_size=8).hexdigest()
    slot = (offset(event.captures.get("offset")) or 0) // SLOT_BYTES % SLOTS
    return *subject, event.captures.get("file", ""), text, str(slot), str(event.ts_ms // LINE_SAMPLING_MS)
