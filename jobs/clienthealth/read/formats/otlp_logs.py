"""OpenTelemetry logs as OTLP JSON (`logs.encoding: otlp_json`), with many log records in one message.

64-bit numbers may be strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.model.telemetry import Identity, LogLine
from clienthealth.model.values import mapping
from clienthealth.read.formats import Format, Record, having
from clienthealth.read.formats._json_layouts import as_text
from clienthealth.read.formats._otlp import attributes_of, log_line, process_of
from clienthealth.read.logs.times import number
from clienthealth.settings import IdentitySettings

_TIMES = ("timeUnixNano", "observedTimeUnixNano")


def _line(entry: Mapping[str, Any], process: Identity, logger: str | None, identity: IdentitySettings) -> LogLine:
    texts = (as_text(mapping(entry.get("body")).get(kind)) for kind in ("stringValue", "kvlistValue"))
    return log_line(
        next((ns for name in _TIMES if (ns := number(as_text(entry.get(name))))), None),
        (as_text(entry.get("severityText")), number(as_text(entry.get("severityNumber")))),
        next((text for text in texts if text is not None), None),
        attributes_of(entry.get("attributes")),
        process,
        logger,
        identity,
    )


def _decode(record: Record) -> list[LogLine] | None:
    """Return the log lines; None if `resourceLogs` is not a list. A malformed line has an `error`."""
    resources, identity = mapping(record.document).get("resourceLogs"), record.identity
    if not isinstance(resources, list):
        return None
    lines: list[LogLine] = []
    for resource in resources:
        scopes = mapping(resource).get("scopeLogs")
        process = process_of(attributes_of(mapping(mapping(resource).get("resource")).get("attributes")), identity)
        for scope in scopes if isinstance(scopes, list) else [None]:
            entries = mapping(scope).get("logRecords")
            logger = as_text(mapping(mapping(scope).get("scope")).get("name"))
            for entry in entries if isinstance(entries, list) else [None]:
                parsed = _line(entry, process, logger, identity) if isinstance(entry, dict) else None
                lines.append(parsed or LogLine(error="wrong-types"))
    return lines


FORMAT = Format("otlp_logs", "logs", 5, having("resourceLogs"), _decode)
