"""The metrics of clients that the monitor keeps, their units, and the client options that the failure modes read.

Metrics have the names and units (ms, ns, bytes) of the Java client's MBean attributes. Mappings from metrics
to values leave out metrics with unknown values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clienthealth.model.tables import table
from clienthealth.model.values import LATEST_MS, MAX_INT

#: Metric of clients that push (KIP-714): 1 if the client was closing, else 0.
TERMINATING = "terminating"

_TABLES = table(Path(__file__).with_suffix(".toml"))
#: Maps each kind of client to its metrics, and each metric to its unit. A client's metrics that this mapping lacks are
#: dropped when read.
CLIENT_METRICS: Mapping[str, Mapping[str, str]] = _TABLES["client"]
TOPIC_METRICS: Mapping[str, str] = _TABLES["topic"]
#: If a client reports one of these metrics only per topic, the client's value is the sum over its topics.
SUMMED: tuple[str, ...] = tuple(_TABLES["of_topics"]["summed"])
#: Metrics that show a producer's undelivered records; the newest value of each is kept longer than samples.
UNDELIVERED: tuple[str, ...] = tuple(_TABLES["of_producers"]["undelivered"])
SPELLINGS: Mapping[str, Any] = _TABLES["spelled"]

_EXACT = 2.0**53
#: The largest plausible value of each unit.
LARGEST: Mapping[str, float] = {
    **dict.fromkeys(("1", "1/s", "records", "records/s", "bytes", "offset"), _EXACT),
    **dict.fromkeys(("chunks", "threads", "id of a broker"), MAX_INT),
    # `bufferpool-wait-ratio` adds up the waiting times of several threads, so it can exceed 1.
    "ratio": 1e6,
    "s": LATEST_MS / 1000,
    "ms": LATEST_MS,
    "ns": 2.0**63,
}
#: A value below `LEAST` counts as 0, because decaying meters reach 5e-324, and divisions by such a value overflow.
LEAST = 1e-9
MOST: Mapping[str, float] = {
    name: LARGEST[unit] for metrics in (*CLIENT_METRICS.values(), TOPIC_METRICS) for name, unit in metrics.items()
}

#: The client options that the failure modes read: integers from 0 to 2³¹ − 1.
CONFIG_OPTIONS: tuple[str, ...] = tuple(_TABLES["options"]["judged"])
QUEUE_DEFAULTS: Mapping[str, float] = _TABLES["options"]["queue_defaults"]
