"""The meaning of a log record's fields, in any format."""

from __future__ import annotations

import re

from clienthealth.model.telemetry import LogLine
from clienthealth.model.values import present

#: The I/O thread of a producer; the client's id follows a bar.
NETWORK_THREAD = "kafka-producer-network-thread"
PRODUCER_THREAD = f"{NETWORK_THREAD} | "
ADMIN_THREAD = "kafka-admin-client-thread | "
#: A fetcher thread of the Scala consumer.
FETCHER_THREAD = "ConsumerFetcherThread-"
JVM_FRAMES = ("java.", "javax.", "jdk.", "sun.")


DUMP_TITLE = "Full thread dump "
THREAD_PREFIXES = (PRODUCER_THREAD, ADMIN_THREAD)
#: Maximum characters of a line and its stack trace that are searched: log text is hostile.
MAX_BODY = 65_536

_POD_HASH = "[bcdfghjklmnpqrstvwxz2456789]"  # letters and digits from which Kubernetes makes names
_POD_SUFFIX = re.compile(rf"(?:-{_POD_HASH}{{6,10}}-{_POD_HASH}{{5}}|-\d{{1,4}})\Z", re.ASCII)
_SYSLOG = dict(zip("01234567", ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG"), strict=True))
_BUNYAN = {"10": "TRACE", "20": "DEBUG", "30": "INFO", "40": "WARN", "50": "ERROR", "60": "FATAL"}
_NUMBERED = {**_SYSLOG, **_BUNYAN}

#: Prefix of all log lines of Java clients. A client's id may contain commas and brackets itself: it ends where the next
#: field begins, or the whole prefix.
KAFKA_PREFIX = re.compile(
    r"\[\w{1,40} (?:[^\[\]\n]{0,400}?, )?clientId="
    r"([^,\]\n]{1,400}(?:[^\n]{0,400}?(?=, [a-zA-Z]{2,30}=|\](?:[ :]|$)))?+)",
    re.ASCII | re.MULTILINE,
)
_PYTHON_PREFIX = re.compile(
    r"<(?:Kafka\w{1,20}|Sender|BrokerConnection) client_id=([^,>\n]{1,400}?)(?=[,>]| [a-z_]{1,40}=)", re.ASCII
)
_HANDLE_END = re.compile(r"(?<=[^ \t\n\r\f\v\[\]|#])#(?:producer|consumer)-\d", re.ASCII)
_HANDLE_NAME = re.compile(r"[^\s\[\]|#]{1,255}\Z", re.ASCII)


def level_name(level: str) -> str:
    """Return a level by name; syslog's and bunyan's numbers have names, too."""
    return _NUMBERED.get(level) or level.upper()


def service_of_pod(pod: str) -> str:
    """Return the workload of a pod, by Kubernetes' names for pods of deployments and stateful sets."""
    return _POD_SUFFIX.sub("", pod)


def body_of(line: LogLine) -> str:
    """Return the searched part of a line: its message and the exception below it, at most MAX_BODY characters."""
    if line.stack is None:
        return (line.message or "")[:MAX_BODY]
    return (line.stack if line.message is None else f"{line.message}\n{line.stack}")[:MAX_BODY]


def named_client(message: str | None, thread: str | None) -> str | None:
    """Return the client in a library's line: by Kafka's prefix, kafka-python's, librdkafka's handle, or the thread.

    A heartbeat thread has the name of its group and names no client.
    """
    return (_client_in(message[:MAX_BODY]) if message else None) or (_client_of(thread) if thread else None)


def _client_in(message: str) -> str | None:
    if "clientId=" in message:
        match = KAFKA_PREFIX.search(message)
    elif " client_id=" in message:
        match = _PYTHON_PREFIX.search(message)
    elif "#producer-" in message or "#consumer-" in message:
        # The `name` in the first `name#producer-1` or `name#consumer-1`.
        end = _HANDLE_END.search(message)
        name = _HANDLE_NAME.search(message[max(0, end.start() - 255) : end.start()]) if end else None
        return name.group() if name else None
    else:
        return None
    return match.group(1) if match else None


def _client_of(thread: str) -> str | None:
    """Return the client that a thread's name states.

    A layout that cuts names to 15 characters leaves the client's id and the end of the text before it (`ad | x-1`).
    """
    before, separator, name = thread.partition("| ")
    if not separator or not any(prefix.endswith(f"{before}| ") for prefix in THREAD_PREFIXES):
        return None
    return present(name[:400])
