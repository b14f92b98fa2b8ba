"""Labels of a series of Prometheus, as the JMX exporter makes them of the properties of an MBean."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NEXT = re.compile(r", ([a-zA-Z][\w-]*)=")


def separated(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, each with its own value alone.

    A greedy group in a pattern of the exporter, `client-id=(.+)><>`, takes the properties behind it along: `orders,
    node-id=node-1` would be a client of its own. Each becomes a label (`node_id`), unless there is one of its name.
    """
    apart = dict(labels)
    for name, value in labels.items():
        if ", " in value and not value.startswith('"'):
            apart[name], *behind = _NEXT.split(value)
            for key, of_key in zip(behind[::2], behind[1::2], strict=True):
                apart.setdefault(key.replace("-", "_"), of_key)
    return apart
