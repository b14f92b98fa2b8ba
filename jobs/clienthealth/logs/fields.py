"""What the fields of a log record mean, whatever format they come from; native expressions only."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import CLIENT, LOG
from clienthealth.formats._expr import epoch, millis, present

DUMP_TITLE = "Full thread dump "
THREAD_PREFIXES = ("kafka-producer-network-thread | ", "kafka-admin-client-thread | ")

_POD_HASH = "[bcdfghjklmnpqrstvwxz2456789]"  # the letters that Kubernetes makes names of
_SYSLOG = dict(zip("01234567", ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG"), strict=True))
_BUNYAN = {"10": "TRACE", "20": "DEBUG", "30": "INFO", "40": "WARN", "50": "ERROR", "60": "FATAL"}


def log(**columns: Column) -> Column:
    """A LOG struct of its own and its client's fields; what is not named is null."""

    def field(name: str, kind: str) -> Column:
        return columns.get(name, F.lit(None)).cast(kind).alias(name)

    client = F.struct(*(field(f.name, f.dataType.simpleString()) for f in CLIENT.fields))
    return F.struct(
        *(
            client.alias("client") if f.name == "client" else field(f.name, f.dataType.simpleString())
            for f in LOG.fields
        )
    )


def is_dump(message: Column) -> Column:
    """Is it a whole thread dump: a title, and threads below it? Never null."""
    return F.coalesce(message.contains(DUMP_TITLE) & (F.instr(message, '\n"') > 0), F.lit(False))


def filled(text: Column) -> Column:
    """The text as it stands, or null where it is empty."""
    return F.nullif(text, F.lit(""))


def has_zone(time: Column) -> Column:
    """Is a written time free of doubt, because it names its zone or counts from 1970? Never null."""
    return F.coalesce(~time.contains(":") | time.rlike(r"(?:[zZ]|[+-]\d\d:?\d\d)$"), F.lit(False))


def time_ms(time: Column) -> Column:
    """A written time, or a count from 1970, as epoch milliseconds; null where it is none. Without a zone it is UTC."""
    iso = F.translate(time, ",/", ".-")
    stamp = F.when(has_zone(time), iso).otherwise(F.concat(iso, F.lit("Z"))).try_cast("timestamp")
    written = F.when(time.rlike(r"^\d{4}[-/]\d\d[-/]\d\d[T ]\d"), millis(F.unix_millis(stamp)))
    return F.when(time.contains(":"), written).otherwise(epoch(time.try_cast("double")))


def level_name(level: Column) -> Column:
    """A level by its name: syslog's and bunyan's numbers have one, too."""
    names = F.create_map(*(F.lit(part) for pair in {**_SYSLOG, **_BUNYAN}.items() for part in pair))
    return F.coalesce(F.try_element_at(names, level), F.upper(level))


def service_of_pod(pod: Column) -> Column:
    """The workload that a pod belongs to, by the way Kubernetes names the pods of deployments and stateful sets."""
    return F.regexp_replace(pod, f"(?:-{_POD_HASH}{{6,10}}-{_POD_HASH}{{5}}|-\\d{{1,4}})$", "")


def named_client(message: Column, thread: Column) -> Column:
    """The client that a line of a client library names: by Kafka's prefix, by kafka-python's, by librdkafka's
    handle, or by the thread that logs (a heartbeat thread is named after its group and says nothing)."""
    found = (
        F.when(
            message.contains("clientId="),
            F.regexp_extract(message, r"\[\w{1,40} (?:[^\]\n]{0,400}?, )?clientId=([^,\]\n]{1,400})", 1),
        )
        .when(
            message.contains(" client_id="),
            F.regexp_extract(message, r"<(?:Kafka\w{1,20}|Sender|BrokerConnection) client_id=([^\s,>]{1,400})", 1),
        )
        .when(
            message.contains("#producer-") | message.contains("#consumer-"),
            F.regexp_extract(message, r"([^\s\[\]|#]{1,255})#(?:producer|consumer)-\d", 1),
        )
    )
    of_thread = F.lit(None).cast("string")
    for prefix in THREAD_PREFIXES:
        of_thread = F.when(thread.startswith(prefix), F.substring(thread, len(prefix) + 1, 400)).otherwise(of_thread)
    return F.coalesce(filled(found), present(of_thread))
