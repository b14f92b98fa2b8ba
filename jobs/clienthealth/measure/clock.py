"""What time it was when a record was written, by its neighbours on the topic: no clock of a client is trusted alone."""

from __future__ import annotations

import numpy as np

from clienthealth.measure.columns import Ints

#: Neighbours on a topic that tell the time together, and how far (ms) a time may be from theirs and still be believed.
NEIGHBOURS, SKEW_MS = 64, 60_000


def topic_clock(times: Ints, clients: Ints) -> tuple[Ints, Ints]:
    """For each time what the clients of the block that it stands in say, each by its newest: the median of these.

    Never less than that of a block before. Then, for each, how long the block is: from when a third of its clients
    had begun to that median. Where few report it spans minutes, and who has gone within it was no liar.
    """
    block = np.minimum(np.arange(len(times)) // NEIGHBOURS, max(0, len(times) // NEIGHBOURS - 1))
    order = np.lexsort((times, clients, block))
    of_block, of_client = block[order], clients[order]
    newest = np.append((of_block[1:] != of_block[:-1]) | (of_client[1:] != of_client[:-1]), True)
    votes, voted = times[order][newest], of_block[newest]
    begins = times[order][np.append(True, newest[:-1])]
    counts = np.bincount(voted)
    first = np.cumsum(counts) - counts
    # The lower one of two: a clock that is behind says later that somebody has gone, one that is ahead wrongly.
    medians = np.maximum.accumulate(votes[np.lexsort((votes, voted))][first + (counts - 1) // 2])
    spans = medians - begins[np.lexsort((begins, voted))][first + (counts + 1) // 3]
    return medians[block], np.maximum(spans, 0)[block]
