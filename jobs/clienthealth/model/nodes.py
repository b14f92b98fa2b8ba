"""Brokers as clients number them: each connection is a node, and the one to a coordinator is a node of its own."""

from __future__ import annotations

from collections.abc import Mapping

from clienthealth.model.values import MAX_INT, integer

#: A node that has no broker's id: an address to begin with, of which the client does not know yet whose it is.
UNNAMED = -1
#: A coordinator's node has the largest number less the broker's id.
_COORDINATORS = 2**30


def node(name: str | None) -> int | None:
    """The id of the broker that a node (`node-3`, `3`) is, UNNAMED where it has none, None where there is no name."""
    if name is None:
        return None
    number = integer(name.removeprefix("node-").removeprefix("coordinator-"))
    if number is None or number < 0:
        return UNNAMED
    return MAX_INT - number if number > _COORDINATORS else number


def slowest_node(latencies: Mapping[int, float | None]) -> dict[str, float]:
    """Of the average latencies (ms) of brokers by their ids the largest, and whose it is, as metrics of the client.

    One broker stands for all: reporting each would cost as much as there are brokers, and the question is which one is
    slow.
    """
    of_broker = {number: latency for number, latency in latencies.items() if number != UNNAMED and latency is not None}
    if not of_broker:
        return {}
    slowest = max(of_broker, key=lambda number: of_broker[number])
    return {"slowest-node": float(slowest), "slowest-node-latency-avg": of_broker[slowest]}
