"""OpenTelemetry logs as OTLP JSON (`logs.encoding: otlp_json`): many resources and many log records in one message.

The Java agent names logger, level and exception; the collector's filelog receiver brings the bare line in `body`.
64-bit numbers may be strings. Which attributes name the process is a setting, as for metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clienthealth.formats import Format, Identity, LogLine, Record
from clienthealth.formats._values import epoch, mapping
from clienthealth.logs.fields import number, offset, service_of_pod
from clienthealth.logs.json_layouts import as_text, has
from clienthealth.settings import IdentitySettings

#: severityNumber is 1 to 24, four steps for each of these.
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_TIMES = ("timeUnixNano", "observedTimeUnixNano")
_WORKLOADS = ("k8s.deployment.name", "k8s.statefulset.name")
_LAST_RESORT = ("k8s.container.name", "container.name")

Attributes = Mapping[str, str | None]


def _attributes(holder: Mapping[str, Any]) -> Attributes:
    """The attributes of a resource or log record that are texts or integers; of two with one name, the first."""
    found: dict[str, str | None] = {}
    said = holder.get("attributes")
    for attribute in said if isinstance(said, list) else []:
        name, value = as_text(mapping(attribute).get("key")), mapping(mapping(attribute).get("value"))
        if name is not None and name not in found:
            found[name] = _either(value, "stringValue", "intValue")
    return found


def _either(value: Mapping[str, Any], *kinds: str) -> str | None:
    return next((text for kind in kinds if (text := as_text(value.get(kind))) is not None), None)


def _first(attributes: Attributes, *names: str) -> str | None:
    return next((value for name in names if (value := attributes.get(name))), None)


def _process(attributes: Attributes, identity: IdentitySettings) -> Identity:
    """Who speaks."""
    host, pod = _first(attributes, *identity.otlp_host), _first(attributes, "k8s.pod.name")
    instance, pid = _first(attributes, *identity.otlp_instance), _first(attributes, "process.pid")
    return Identity(
        service=_first(attributes, *identity.otlp_service, *_WORKLOADS)
        or (service_of_pod(pod) if pod else None)
        or _first(attributes, *_LAST_RESORT),
        host=host,
        instance=instance or (f"{host}:{pid}" if host and pid else None),
        client_id=_first(attributes, *identity.otlp_client_id),
    )


def _line(entry: Mapping[str, Any], process: Identity, logger: str | None, identity: IdentitySettings) -> LogLine:
    attributes, body = _attributes(entry), mapping(entry.get("body"))
    exception = (_first(attributes, "exception.type"), _first(attributes, "exception.message"))
    client_id = _first(attributes, *identity.otlp_client_id) or process.client_id
    return LogLine(
        ts_ms=epoch(next((ns for name in _TIMES if (ns := number(as_text(entry.get(name))))), None)),
        client=Identity(process.service, process.host, process.instance, client_id),
        level=as_text(entry.get("severityText")) or _level(number(as_text(entry.get("severityNumber")))),
        logger=logger or None,
        thread=_first(attributes, "thread.name"),
        message=_either(body, "stringValue", "kvlistValue"),
        stack=_first(attributes, "exception.stacktrace") or ": ".join(filter(None, exception)) or None,
        file=_first(attributes, "log.file.path"),
        file_offset=offset(_first(attributes, "log.file.position")),
    )


def _level(severity: float | None) -> str | None:
    return _LEVELS[int(severity - 1) // 4] if severity is not None and 1 <= severity < 25 else None


def _lines(document: Mapping[str, Any], identity: IdentitySettings) -> Iterator[LogLine]:
    """All lines; for each part that is no list or object where it should be, one with an error."""
    for resource in document["resourceLogs"]:
        scopes = mapping(resource).get("scopeLogs")
        process = _process(_attributes(mapping(mapping(resource).get("resource"))), identity)
        for scope in scopes if isinstance(scopes, list) else [None]:
            entries = mapping(scope).get("logRecords")
            logger = as_text(mapping(mapping(scope).get("scope")).get("name"))
            for entry in entries if isinstance(entries, list) else [None]:
                if isinstance(entry, dict):
                    yield _line(entry, process, logger, identity)
                else:
                    yield LogLine(error="wrong-types")


def _decode(record: Record) -> list[LogLine] | None:
    document = mapping(record.document)
    return list(_lines(document, record.identity)) if isinstance(document.get("resourceLogs"), list) else None


FORMAT = Format("otlp_logs", "logs", 5, lambda record: has(record, "resourceLogs"), _decode)
