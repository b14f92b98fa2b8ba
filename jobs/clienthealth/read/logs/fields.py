"""Find level, service and client in the fields of a log record, for all formats."""

from __future__ import annotations

import re

from clienthealth.model.telemetry import LogLine
from clienthealth.model.values import present

NETWORK_THREAD = "kafka-producer-network-thread"
PRODUCER_THREAD = f"{NETWORK_THREAD} | "
ADMIN_THREAD = "kafka-admin-client-thread | "
FETCHER_THREAD = "ConsumerFetcherThread-"
JVM_FRAMES = ("java.", "javax.", "jdk.", "sun.")


DUMP_TITLE = "Full thread dump "
THREAD_PREFIXES = (PRODUCER_THREAD, ADMIN_THREAD)
#: Maximum number of characters that are searched in a line, because log text may be hostile.
MAX_BODY = 65_536

_POD_HASH = "[bcdfghjklmnpqrstvwxz2456789]"  # The characters of Kubernetes' random suffixes.
_POD_SUFFIX = re.compile(rf"(?:-{_POD_HASH}{{6,10}}-{_POD_HASH}{{5}}|-\d{{1,4}})\Z", re.ASCII)
_SYSLOG = dict(zip("01234567", ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG"), strict=True))
_BUNYAN = {"10": "TRACE", "20": "DEBUG", "30": "INFO", "40": "WARN", "50": "ERROR", "60": "FATAL"}
_NUMBERED = {**_SYSLOG, **_BUNYAN}

#: Group 1 is the client id, which may contain commas and brackets.
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
    """Return the name of a level in upper case. Level numbers of syslog (0 to 7) and bunyan (10 to 60) become names."""
    return _NUMBERED.get(level) or level.upper()


def service_of_pod(pod: str) -> str:
    """Return a pod's name without the suffix that a deployment or a stateful set adds."""
    return _POD_SUFFIX.sub("", pod)


def body_of(line: LogLine) -> str:
    """Return a line's message with the lines below it, at most 65,536 characters."""
    if line.stack is None:
        return (line.message or "")[:MAX_BODY]
    return (line.stack if line.message is None else f"{line.message}\n{line.stack}")[:MAX_BODY]


def named_client(message: str | None, thread: str | None) -> str | None:
    """Return the client id in a library's line or in a thread's name; None if neither contains a client id."""
    return (_client_in(message[:MAX_BODY]) if message else None) or (_client_of(thread) if thread else None)


def _client_in(message: str) -> str | None:
    if "clientId=" in message:
        match = KAFKA_PREFIX.search(message)
    elif " client_id=" in message:
        match = _PYTHON_PREFIX.search(message)
    elif "#producer-" in message or "#consumer-" in message:
        end = _HANDLE_END.search(message)
        name = _HANDLE_NAME.search(message[max(0, end.start() - 255) : end.start()]) if end else None
        return name.group() if name else None
    else:
        return None
    return match.group(1) if match else None


def _client_of(thread: str) -> str | None:
    """Return the client id in a thread's name. A log layout may have cut the name's beginning."""
    before, separator, name = thread.partition("| ")
    if not separator or not any(prefix.endswith(f"{before}| ") for prefix in THREAD_PREFIXES):
        return None
    return present(name[:400])
