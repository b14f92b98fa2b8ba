"""OpenTelemetry logs as OTLP JSON (`logs.encoding: otlp_json`): many resources and many log records in one message.

The Java agent names logger, level and exception; the collector's filelog receiver brings the bare line in `body`.
64-bit numbers may be strings. A scope with a record that is no object is lost as a whole. Which attributes name the
process is a setting, as for metrics.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from clienthealth.formats import LOG, Format, Record
from clienthealth.formats._expr import epoch, let
from clienthealth.logs.fields import filled, log, service_of_pod
from clienthealth.logs.json_layouts import has
from clienthealth.settings import IdentitySettings

_VALUE = "struct<stringValue: string, intValue: string, doubleValue: string, boolValue: string>"
_ATTRIBUTES = f"array<struct<key: string, value: {_VALUE}>>"
_SCHEMA = f"""resourceLogs array<struct<
  resource: struct<attributes: {_ATTRIBUTES}>,
  scopeLogs: array<struct<scope: struct<name: string>, logRecords: array<struct<
    timeUnixNano: string, observedTimeUnixNano: string, severityNumber: string, severityText: string,
    body: struct<stringValue: string, kvlistValue: string>, attributes: {_ATTRIBUTES}>>>>>>"""

#: severityNumber is 1 to 24, four steps for each of these.
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_TIMES = ("timeUnixNano", "observedTimeUnixNano")
_WORKLOADS = ("k8s.deployment.name", "k8s.statefulset.name")
_LAST_RESORT = ("k8s.container.name", "container.name")


def _named(attributes: Column) -> Column:
    """Attributes as struct of names and values, for `_attribute`."""
    return F.struct(
        F.transform(attributes, lambda a: a["key"]).alias("names"),
        F.transform(attributes, lambda a: F.coalesce(a["value"]["stringValue"], a["value"]["intValue"])).alias(
            "values"
        ),
    )


def _attribute(named: Column, *names: str) -> Column:
    found = (F.get(named["values"], F.array_position(named["names"], F.lit(name)).cast("int") - 1) for name in names)
    return F.coalesce(*(filled(value) for value in found))


def _process(named: Column, identity: IdentitySettings) -> Column:
    """Who speaks: the client's fields of a LOG."""
    host = _attribute(named, *identity.otlp_host)
    return F.struct(
        F.coalesce(
            _attribute(named, *identity.otlp_service, *_WORKLOADS),
            service_of_pod(_attribute(named, "k8s.pod.name")),
            _attribute(named, *_LAST_RESORT),
        ).alias("service"),
        host.alias("host"),
        F.coalesce(
            _attribute(named, *identity.otlp_instance), F.concat(host, F.lit(":"), _attribute(named, "process.pid"))
        ).alias("instance"),
        _attribute(named, *identity.otlp_client_id).alias("client_id"),
    )


def _entry(entry: Column, named: Column, process: Column, logger: Column, identity: IdentitySettings) -> Column:
    nanos = F.coalesce(*(F.nullif(entry[name].try_cast("double"), F.lit(0.0)) for name in _TIMES))
    step = F.floor((entry["severityNumber"].try_cast("double") - 1) / 4).try_cast("int")
    exception = F.concat_ws(": ", _attribute(named, "exception.type"), _attribute(named, "exception.message"))
    return log(
        ts_ms=epoch(nanos),
        service=process["service"],
        host=process["host"],
        instance=process["instance"],
        client_id=F.coalesce(_attribute(named, *identity.otlp_client_id), process["client_id"]),
        level=F.coalesce(filled(entry["severityText"]), F.get(F.array(*map(F.lit, _LEVELS)), step)),
        logger=filled(logger),
        thread=_attribute(named, "thread.name"),
        message=F.coalesce(entry["body"]["stringValue"], entry["body"]["kvlistValue"]),
        stack=F.coalesce(_attribute(named, "exception.stacktrace"), filled(exception)),
        file=_attribute(named, "log.file.path"),
        file_offset=_attribute(named, "log.file.position").try_cast("bigint"),
    )


def _decode(record: Record) -> Column:
    unreadable = F.from_json(F.lit('[{"error": "wrong-types"}]'), ArrayType(LOG))

    def of_scope(process: Column, scope: Column) -> Column:
        def one(entry: Column) -> Column:
            return let(
                _named(entry["attributes"]),
                lambda named: _entry(entry, named, process, scope["scope"]["name"], record.identity),
            )

        return F.coalesce(F.transform(scope["logRecords"], one), unreadable)

    def of_resource(resource: Column) -> Column:
        lines = let(
            let(_named(resource["resource"]["attributes"]), lambda named: _process(named, record.identity)),
            lambda process: F.flatten(F.transform(resource["scopeLogs"], lambda scope: of_scope(process, scope))),
        )
        return F.coalesce(lines, unreadable)

    document = F.from_json(record.text, _SCHEMA)
    return let(document, lambda found: F.flatten(F.transform(found["resourceLogs"], of_resource)))


FORMAT = Format("otlp_logs", "logs", 5, lambda record: has(record, "resourceLogs"), _decode)
