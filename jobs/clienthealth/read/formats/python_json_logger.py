"""python-json-logger and its like: the names of Python's own log records."""

from __future__ import annotations

from clienthealth.read.formats import has
from clienthealth.read.formats._json_layouts import Layout, has_any, json_format

LINE = Layout(
    time=("asctime", "timestamp", "created"),
    level=("levelname",),
    logger=("name",),
    thread=("threadName",),
    message=("message",),
    stack=("exc_info", "exc_text"),
    service=("service", "app"),
    host=("hostname", "host"),
    pid=("process",),
    client_id=("client_id",),
)

FORMAT = json_format(
    "python_json_logger",
    order=40,
    layout=LINE,
    recognise=lambda record: has(record, "levelname", "message") and has_any(record, "name", "asctime", "threadName"),
)
