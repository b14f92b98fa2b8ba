"""The metrics that are kept of a client, with their units, and the options that judges use.

Names are those of the Java client's MBean attributes, in their units (ms, ns, bytes). The formats map other libraries'
names onto them, so that a name has one meaning everywhere. An unknown metric is absent from a mapping: never 0, never
NaN. `metrics.toml` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clienthealth.model.tables import table
from clienthealth.model.values import LATEST_MS, MAX_INT

#: In pushes (KIP-714): 1 if the client was closing, else 0.
TERMINATING = "terminating"

_TABLES = table(Path(__file__).with_suffix(".toml"))
#: Metrics that windows keep of a client, by kind: name → unit. All others are dropped on reading.
CLIENT_METRICS: Mapping[str, Mapping[str, str]] = _TABLES["client"]
#: Metrics that windows keep of one topic, partition or consuming thread.
TOPIC_METRICS: Mapping[str, str] = _TABLES["topic"]
#: Spellings elsewhere: see `metric_names.py`.
SPELLINGS: Mapping[str, Any] = _TABLES["spelled"]

#: Largest integer that floats hold exactly. No counter reaches it: a million a second takes 285 years.
_EXACT = 2.0**53
#: The largest plausible value of each unit; a larger one is a mistake or an attack.
LARGEST: Mapping[str, float] = {
    **dict.fromkeys(("1", "1/s", "records", "records/s", "bytes", "offset"), _EXACT),
    **dict.fromkeys(("chunks", "threads", "id of a broker"), MAX_INT),
    # The sum over threads that wait together.
    "ratio": 1e6,
    "s": LATEST_MS / 1000,
    "ms": LATEST_MS,
    # A signed integer of 64 bits: 292 years.
    "ns": 2.0**63,
}
#: A smaller value counts as 0, in any unit. Meters decay to 5e-324, a divisor that overflows.
LEAST = 1e-9
#: The largest value by name of the metric.
MOST: Mapping[str, float] = {
    name: LARGEST[unit] for metrics in (*CLIENT_METRICS.values(), TOPIC_METRICS) for name, unit in metrics.items()
}

#: Options of a client that judges use. All have 32 bits (`values.option`).
CONFIG_OPTIONS: tuple[str, ...] = tuple(_TABLES["options"]["judged"])
#: The clients' defaults for the limits of the queue between them and a topic.
QUEUE_DEFAULTS: Mapping[str, float] = _TABLES["options"]["queue_defaults"]
