"""Vector's Kafka sink with its native event names: the line stands in `message`, `timestamp` is of its reading."""

from __future__ import annotations

from clienthealth.read.formats import has
from clienthealth.read.formats._json_layouts import Layout, json_format

LAYOUT = Layout(
    time=("timestamp",),
    message=("message",),
    service=(
        "kubernetes.pod_labels.`app.kubernetes.io/name`",
        "kubernetes.pod_labels.app",
        "label.`com.docker.compose.service`",
    ),
    host=("host",),
    pod=("kubernetes.pod_name",),
    instance=("kubernetes.pod_uid", "kubernetes.container_id", "container_id"),
    file=("file",),
    file_offset=("offset",),
)

FORMAT = json_format("vector", order=42, layout=LAYOUT, recognise=lambda record: has(record, "source_type", "message"))
