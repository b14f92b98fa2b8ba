"""Who has ended, and when it was heard of last: what is delivered once more, hours later, is told of nobody anew.

A collector that is started again can send what it had sent before. Of clients that report, and processes that log, it
comes too late; of those that have gone nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clienthealth.settings import MonitorSettings
from clienthealth.step import limits
from clienthealth.step.state import BucketState
from clienthealth.windows.packed import Chunk


def remember(state: BucketState, names: Iterable[str], newest_ms: int) -> None:
    """Take note that a client or a process has ended; `newest_ms`: the newest that is known of it, by its own clock."""
    known = limits.mark(names)
    state.ended[known] = max(newest_ms, state.ended.pop(known, 0))


def evict(state: BucketState, settings: MonitorSettings) -> None:
    """Forget those of which it is known for longest, where there are too many."""
    most = limits.share(settings.max_clients, settings)
    for known in list(state.ended)[: max(0, len(state.ended) - most)]:
        del state.ended[known]


def without_repeated(state: BucketState, chunks: Sequence[Chunk]) -> tuple[list[Chunk], int]:
    """Chunks without clients that have ended and of which they hold nothing new; how many readings that were."""
    if not state.ended:
        return list(chunks), 0
    reporting = {who.identity for who in state.whos}
    if all(who.identity in reporting for chunk in chunks for who in chunk.whos):
        return list(chunks), 0
    newest: dict[limits.Identity, int] = {}
    for identity, _, last_ms in limits.heard(chunks):
        if identity not in reporting:
            newest[identity] = max(last_ms, newest.get(identity, last_ms))
    repeated = frozenset(
        identity for identity, ts_ms in newest.items() if ts_ms <= state.ended.get(limits.mark(identity), 0)
    )
    if not repeated:
        return list(chunks), 0
    kept = [limits.without(chunk, repeated) for chunk in chunks]
    return kept, sum(len(chunk.readings) for chunk in chunks) - sum(len(chunk.readings) for chunk in kept)
