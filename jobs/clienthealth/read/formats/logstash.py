"""Logstash's own event shape: logback's LogstashEncoder and log4j2's LogstashJsonEventLayoutV1.

Context (MDC) and logback's context properties stand at the root, so that service and host have no fixed names.
"""

from __future__ import annotations

from clienthealth.read.formats import has
from clienthealth.read.formats._json_layouts import Layout, has_any, json_format

LINE = Layout(
    time=("@timestamp",),
    level=("level",),
    logger=("logger_name",),
    thread=("thread_name",),
    message=("message",),
    stack=("stack_trace", "exception.stacktrace"),
    service=("service", "service.name", "app", "appname", "application", "spring.application.name"),
    host=("source_host", "HOSTNAME", "host", "host.name"),
    instance=("instance",),
    client_id=("client_id", "clientId", "mdc.client_id", "mdc.clientId"),
)

FORMAT = json_format(
    "logstash",
    order=30,
    layout=LINE,
    recognise=lambda record: has(record, "@version") and has_any(record, "logger_name", "thread_name", "level_value"),
)
