"""What clients log of one topic that holds up the others: only that nobody polls."""

from __future__ import annotations

from clienthealth.modes.consumer_stalled.lines import POLL_EXPIRED

ID = "cross-topic-blocking"

LINES = (POLL_EXPIRED,)
