"""The metrics that are kept of a client, with their units, and the options that a judgement looks at.

Names are those of the Java client's MBean attributes, in their units (ms, ns, bytes). The formats map other libraries'
names onto them, so that a name has one meaning everywhere. A metric that is not known is absent from a mapping: never
0, never NaN. They are listed in `metrics.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clienthealth.model.tables import table
from clienthealth.model.values import LATEST_MS, MAX_INT

#: Of clients that push (KIP-714): 1 where it was closing when it did, else 0.
TERMINATING = "terminating"

_TABLES = table(Path(__file__).with_suffix(".toml"))
#: What the windows keep of a client's metrics, by kind: name → unit. All other metrics are dropped on reading.
CLIENT_METRICS: Mapping[str, Mapping[str, str]] = _TABLES["client"]
#: The same for one topic, partition or consuming thread of a client.
TOPIC_METRICS: Mapping[str, str] = _TABLES["topic"]
#: How others spell them, see `metric_names.py`.
SPELLINGS: Mapping[str, Any] = _TABLES["spelled"]

#: Floats hold whole numbers exactly up to here. No client counts so far: it takes 285 years at a million a second.
_EXACT = 2.0**53
#: The largest value that a metric of each unit can have; a larger one is a mistake, or meant to do harm.
LARGEST: Mapping[str, float] = {
    **dict.fromkeys(("1", "1/s", "records", "records/s", "bytes", "offset"), _EXACT),
    **dict.fromkeys(("chunks", "threads", "id of a broker"), MAX_INT),
    # Of threads that wait together their sum.
    "ratio": 1e6,
    "s": LATEST_MS / 1000,
    "ms": LATEST_MS,
    # A signed integer of 64 bits: 292 years.
    "ns": 2.0**63,
}
#: A smaller value counts as 0, in any unit. Meters decay to 5e-324, by which nothing can be divided.
LEAST = 1e-9
#: The largest value by name of the metric.
MOST: Mapping[str, float] = {
    name: LARGEST[unit] for metrics in (*CLIENT_METRICS.values(), TOPIC_METRICS) for name, unit in metrics.items()
}

#: The options of a client that a judgement looks at. All have 32 bits (`values.option`).
CONFIG_OPTIONS: tuple[str, ...] = tuple(_TABLES["options"]["judged"])
#: What the clients take for the limits of the queue between them and a topic, where nobody sets them.
QUEUE_DEFAULTS: Mapping[str, float] = _TABLES["options"]["queue_defaults"]
