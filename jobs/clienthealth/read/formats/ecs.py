"""Elastic Common Schema: Filebeat, log4j2's EcsLayout, ecs-logging, and the records that we ship ourselves.

Fields are nested (Filebeat expands them), dotted (ecs-logging writes them so), or both in one record. Filebeat's own
`message` may be a line of text or JSON that was not decoded; on Kubernetes its `host` is the node, so the pod counts.
"""

from __future__ import annotations

from clienthealth.read.formats import has
from clienthealth.read.formats._json_layouts import Layout, has_any, json_format

LINE = Layout(
    time=("@timestamp",),
    level=("log.level",),
    logger=("log.logger",),
    thread=("process.thread.name",),
    message=("message", "event.original", "error.message"),
    stack=("error.stack_trace",),
    service=(
        "service.name",
        "kubernetes.labels.`app_kubernetes_io/name`",
        "kubernetes.labels.app",
        "kubernetes.deployment.name",
        "container.labels.com_docker_compose_service",
    ),
    host=("host.name", "host.hostname"),
    pod=("kubernetes.pod.name",),
    instance=("service.node.name", "kubernetes.pod.uid", "container.id"),
    pid=("process.pid",),
    client_id=("labels.client_id", "kafka.client_id"),
    file=("log.file.path",),
    file_offset=("log.offset",),
)

FORMAT = json_format(
    "ecs",
    order=50,
    layout=LINE,
    recognise=lambda record: (
        has(record, "@timestamp")
        and has_any(record, "message", "log.level", "log", "error", "error.message", "error.stack_trace", "ecs.version")
    ),
)
