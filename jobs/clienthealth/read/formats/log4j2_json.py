"""log4j2's JsonLayout, and JsonTemplateLayout with its JsonLayout template."""

from __future__ import annotations

from clienthealth.read.formats import has
from clienthealth.read.formats._json_layouts import Layout, has_any, json_format

LINE = Layout(
    time=("instant.epochSecond", "timeMillis"),
    nanos=("instant.nanoOfSecond",),
    level=("level",),
    logger=("loggerName",),
    thread=("thread",),
    message=("message",),
    stack=("thrown",),
    service=("contextMap.service", "contextMap.application"),
    host=("contextMap.hostName", "contextMap.host"),
    client_id=("contextMap.client_id", "contextMap.clientId"),
)

FORMAT = json_format(
    "log4j2_json",
    order=20,
    layout=LINE,
    recognise=lambda record: has(record, "loggerName") and has_any(record, "instant", "timeMillis"),
)
