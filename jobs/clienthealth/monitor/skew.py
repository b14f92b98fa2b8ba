"""Clocks of clients that are off: a finding of their own, which never acts on other clients.

What is measured is a client's newest time against that of its neighbours on the topic (`windows.clock`), and against
this machine's clock, which no reading can be ahead of. A client whose readings always come late looks as if its clock
were behind, and is reported as such.
"""

from __future__ import annotations

import numpy as np

from clienthealth.measure.clock import SKEW_MS
from clienthealth.measure.columns import Floats
from clienthealth.monitor.state import BucketState


def seconds(state: BucketState, now_ms: int) -> Floats:
    """By how many seconds the clock of each client is ahead (behind: negative); 0 up to a minute."""
    ahead = state.clients.last - np.minimum(state.clients.heard, now_ms)
    return np.where(np.abs(ahead) > SKEW_MS, np.round(ahead / 1000), 0.0)


def words(skew_seconds: float) -> str:
    """As people read it."""
    if skew_seconds > 0:
        return f"clock ahead by {skew_seconds:.0f} s"
    return f"clock behind by {-skew_seconds:.0f} s, or readings that late"
