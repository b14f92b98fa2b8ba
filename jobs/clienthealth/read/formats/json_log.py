"""Any other JSON log: an object with a field that can only be its message.

Such are `message`, `msg`, `short_message`, `log` and `event`, asked in this order. An object with none of them is of
an unknown format: it may be anything.
"""

from __future__ import annotations

from clienthealth.read.formats._json_layouts import Layout, has_any, json_format

MESSAGES = ("message", "msg", "short_message", "log", "event")

LINE = Layout(
    time=("@timestamp", "timestamp", "time", "ts", "date", "datetime", "t"),
    level=("level", "severity", "loglevel", "lvl"),
    logger=("logger", "logger_name", "loggerName", "name", "category"),
    thread=("thread", "thread_name", "threadName"),
    message=MESSAGES,
    stack=("stack_trace", "stacktrace", "stackTrace", "exception", "stack", "exc_info"),
    service=("service.name", "service", "app", "application", "component"),
    host=("host.name", "hostname", "host"),
    pod=("pod", "pod_name"),
    instance=("instance",),
    pid=("pid",),
    client_id=("client_id", "clientId", "client.id"),
    file=("file.path",),
)

FORMAT = json_format("json_log", order=90, layout=LINE, recognise=lambda record: has_any(record, *MESSAGES))
