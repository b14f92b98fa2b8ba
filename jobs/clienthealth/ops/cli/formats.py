"""`kafka-health formats PATH… | --topic T`: identify the formats of your records before you install a monitor."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clienthealth.model.errors import InputError

if TYPE_CHECKING:
    from clienthealth.model.telemetry import RawRecord, Stream
    from clienthealth.ops.doctor.records import Survey
    from clienthealth.settings import Settings

EXIT_CODES = (
    "exit codes: 0 if all records can be read; 1 if some records are rejected; 2 for wrong usage or unreadable input; "
    "3 if there are no records"
)
NO_PARTITION = -1


def run(args: argparse.Namespace) -> int:
    """Survey each topic or file and print the result. Return the exit code (see EXIT_CODES).

    Raises InputError for wrong usage or unreadable files, and ServiceError if Kafka cannot be reached.
    """
    from clienthealth.configuration import load
    from clienthealth.ops.doctor.records import survey

    if not args.paths and not args.topic:
        raise InputError("give a file, a folder, or --topic TOPIC")
    if args.limit < 1:
        raise InputError("--limit must be at least 1")
    settings = load(args.config)
    records = rejected = unread = 0
    for name, stream, raw_records, trouble in (*_of_topics(args.topic, args, settings), *_of_files(args.paths, args)):
        result = survey(raw_records, stream, settings, int(time.time() * 1000))
        records += result.records
        rejected += result.rejected
        unread += bool(trouble)
        print(_row(name, result) if args.json else _text(name, result), flush=True)
        if trouble:
            print(f"kafka-health: a part of {name} could not be read: {trouble}", file=sys.stderr, flush=True)
    if rejected:
        return 1
    return 2 if unread else 0 if records else 3


def _of_topics(
    topics: Sequence[str], args: argparse.Namespace, settings: Settings
) -> Iterator[tuple[str, Stream | None, list[RawRecord], str]]:
    """Yield (topic, stream, newest records, text about partitions that could not be read) for each topic.

    The stream is 'metrics' or 'logs', or None if neither `args` nor the settings name the stream.
    """
    from clienthealth.ops.doctor.records import newest

    streams: dict[str, Stream] = {
        **dict.fromkeys(settings.topics.logs, "logs"),
        **dict.fromkeys(settings.topics.metrics, "metrics"),
    }
    for topic in topics:
        yield topic, args.stream or streams.get(topic), *newest(settings, topic, args.limit)


def _of_files(
    paths: Sequence[Path], args: argparse.Namespace
) -> Iterator[tuple[str, Stream | None, list[RawRecord], str]]:
    """Yield (file, stream, first records, '') for each file.

    The stream is 'metrics' or 'logs', or None if the file may contain both.
    """
    if not paths:
        return
    from clienthealth.model.readings import Source
    from clienthealth.model.telemetry import RawRecord
    from clienthealth.read.recordings import read

    now_ms = int(time.time() * 1000)
    files: dict[tuple[str, str], tuple[Stream | None, list[RawRecord]]] = {}
    for record in read(paths):
        stream = None if record.stream == "any" else record.stream
        _, raw_records = files.setdefault((record.service, record.file), (args.stream or stream, []))
        if len(raw_records) < args.limit:
            process = {"service": record.service.encode(), "instance": record.instance.encode()}
            source = Source(record.file, NO_PARTITION, record.offset)
            raw_records.append(RawRecord(record.value, source, record.ts_ms or now_ms, headers=process))
    for (_, name), (stream, raw_records) in files.items():
        yield name, stream, raw_records, ""


def _row(name: str, result: Survey) -> str:
    row = {
        "source": name,
        "records": result.records,
        "rejected": result.rejected,
        "formats": {fmt: {**vars(of_fmt), "clients": len(of_fmt.clients)} for fmt, of_fmt in result.formats.items()},
        "rejects": list(map(vars, result.rejects.values())),
    }
    return json.dumps(row, ensure_ascii=False)


def _text(name: str, result: Survey) -> str:
    from clienthealth.model.wording import count_of

    lines = [f"{name}: {count_of(result.records, 'record')}, {result.rejected:,} rejected"]
    for fmt, counts in sorted(result.formats.items(), key=lambda item: -item[1].records):
        parts = (
            (counts.readings, "reading", ""),
            (len(counts.clients), "client", ""),
            (counts.lines, "log line", ""),
            (counts.events, "event of Kafka clients", "events of Kafka clients"),
            (counts.dumps, "thread dump", ""),
        )
        shown = ", ".join(count_of(*part) for part in parts if part[0])
        lines.append(f"  {counts.records:>9,}  {fmt}: {shown}")
    for reject in sorted(result.rejects.values(), key=lambda reject: -reject.records):
        why = f"{reject.reason} ({reject.detail})" if reject.detail else reject.reason
        on_topic = f"partition {reject.partition}, offset {reject.offset}"
        where = f"line {reject.offset + 1} of {name}" if reject.partition is None else on_topic
        lines.append(f"  {reject.records:>9,}  REJECTED {why}; the first: {where}")
    return "\n".join(lines)
