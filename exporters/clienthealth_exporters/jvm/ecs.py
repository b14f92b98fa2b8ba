"""Log records for the topic client-logs, in the Elastic Common Schema with dotted keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from clienthealth.model.clients import ClientProcess

DUMP_DATASET = "kafka.thread-dump"
#: A dump may fill a record, but brokers take a megabyte by default.
MAX_DUMP_BYTES = 900_000


def log_record(
    process: ClientProcess,
    ts_ms: int,
    message: str,
    *,
    level: str = "INFO",
    logger: str = "",
    thread: str = "",
    stack: str = "",
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A line of a process's log; `stack` is the exception's text."""
    record = {
        "@timestamp": datetime.fromtimestamp(ts_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "log.level": level,
        "log.logger": logger,
        "process.thread.name": thread,
        "message": message,
        "error.stack_trace": stack,
        "service.name": process.service,
        "host.name": process.host,
        "service.node.name": process.instance,
        "labels": dict(labels or {}),
    }
    return {name: value for name, value in record.items() if value}


def dump_record(process: ClientProcess, ts_ms: int, dump: str, reason: str) -> dict[str, Any]:
    """A thread dump of a process as one log record; of a dump that is too large the threads of Kafka come first."""
    record = log_record(process, ts_ms, shortened(dump), logger=__name__, labels={"reason": reason})
    return {**record, "event.dataset": DUMP_DATASET}


def shortened(dump: str, limit: int = MAX_DUMP_BYTES) -> str:
    """The dump, or as many of its threads as fit: those that touch Kafka first, in their order."""
    if len(dump.encode()) <= limit:
        return dump
    head, *threads = dump.split('\n\n"')
    left = limit - len(head.encode())
    kept: set[int] = set()
    by_interest = sorted(range(len(threads)), key=lambda at: (not _touches_kafka(threads[at]), at))
    for at in by_interest:
        left -= len(threads[at].encode()) + 3
        if left < 0:
            break
        kept.add(at)
    return '\n\n"'.join([head, *(threads[at] for at in sorted(kept))])


def _touches_kafka(thread: str) -> bool:
    return "kafka" in thread or thread.startswith("DestroyJavaVM")
