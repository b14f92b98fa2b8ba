"""Fluent Bit's Kafka output, and the files of container runtimes: the line stands in `log`.

`@timestamp` is a count of seconds with a fraction unless `timestamp_format` says otherwise.
"""

from __future__ import annotations

from clienthealth.read.formats import has
from clienthealth.read.formats._json_layouts import Layout, has_any, json_format

LAYOUT = Layout(
    time=("@timestamp", "timestamp", "date", "time"),
    message=("log",),
    service=(
        "kubernetes.labels.`app.kubernetes.io/name`",
        "kubernetes.labels.app",
        "container_name",
    ),
    host=("hostname", "host"),
    pod=("kubernetes.pod_name",),
    instance=("kubernetes.pod_id", "kubernetes.docker_id", "container_id"),
    file=("file", "filename"),
    file_offset=("offset",),
)

FORMAT = json_format(
    "fluentbit",
    order=45,
    layout=LAYOUT,
    recognise=lambda record: (
        has(record, "log")
        and has_any(record, "@timestamp", "timestamp", "date", "time", "stream", "kubernetes")
        and not (has(record, "message") and not has_any(record, "kubernetes", "_p", "stream"))
        and not has_any(record, "agent", "@metadata", "ecs", "ecs.version")
    ),
)
