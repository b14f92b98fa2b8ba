"""GELF 1.1, Graylog's format: log4j2's GelfLayout and others. `level` is syslog's number, `timestamp` seconds."""

from __future__ import annotations

from clienthealth.read.formats import has
from clienthealth.read.formats._json_layouts import Layout, json_format

LINE = Layout(
    time=("timestamp",),
    level=("level",),
    logger=("_logger", "_loggerName", "_logger_name"),
    thread=("_thread", "_threadName", "_thread_name"),
    message=("short_message",),
    stack=("full_message",),
    service=("_service", "_app", "_app_name"),
    host=("host",),
    instance=("_instance", "_container_id"),
    client_id=("_client_id", "_clientId"),
)

FORMAT = json_format("gelf", order=10, layout=LINE, recognise=lambda record: has(record, "short_message"))
