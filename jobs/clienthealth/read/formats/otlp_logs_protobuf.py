"""OpenTelemetry logs as protobuf, the default of the OpenTelemetry Collector's Kafka exporter."""

from __future__ import annotations

from clienthealth.model.telemetry import LogLine
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._otlp import log_line, process_of
from clienthealth.read.formats._protobuf import attributes, body, message_of, text


def _decode(record: Record) -> list[LogLine] | None:
    if record.data is None:
        return None
    try:
        request = message_of("Logs", record.data)
    except ValueError:
        return None
    return [
        log_line(
            entry.time or entry.observed or None,
            (text(entry.level) or None, entry.severity),
            body(entry.body),
            attributes(tuple(entry.attributes)),
            process,
            text(scope.scope.name),
            record.identity,
        )
        for resource in request.resources
        for process in [process_of(attributes(tuple(resource.resource.attributes)), record.identity)]
        for scope in resource.scopes
        for entry in scope.records
    ]


FORMAT = Format("otlp_logs_protobuf", "logs", 4, lambda record: record.signal == "logs", _decode, binary=True)
