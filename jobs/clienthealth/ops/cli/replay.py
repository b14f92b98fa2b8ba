"""`kafka-health replay PATH…`: plays recordings onto the input topics, as if they happened now."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clienthealth.model.errors import InputError
from clienthealth.read.recordings.times import moved, time_of

if TYPE_CHECKING:
    from clienthealth.read.recordings import Recorded

HELP = "play recordings onto the input topics, their times moved to now"


def configure(parser: argparse.ArgumentParser) -> None:
    """What to play, how fast, and onto which topics where the files do not tell."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder of a recording, or file")
    parser.add_argument("--speed", type=float, default=1.0, metavar="N", help="times as fast as it happened (1)")
    parser.add_argument("--stream", choices=("metrics", "logs"), help="which topic, for files whose name does not tell")
    parser.add_argument("--keep-time", action="store_true", help="leave the recorded times as they are")


def run(args: argparse.Namespace) -> int:
    """Publish all records in the order of their times. Raises InputError."""
    from clienthealth.configuration import load
    from clienthealth.platform.kafka import producer
    from clienthealth.read.recordings import read

    if args.speed <= 0:
        raise InputError("--speed must be greater than 0")
    settings = load(args.config)
    records = read(args.paths)
    undecided = {r.file for r in records if r.stream == "any"}
    if undecided and not args.stream:
        raise InputError(f"say with --stream whether these hold metrics or logs: {', '.join(sorted(undecided))}")
    timed = in_order(records)
    start, end = timed[0][0], timed[-1][0]
    began = time.time()
    # The last record is played at its own, moved time: a faster replay begins in the past, never ends in the future.
    shift_ms = 0 if args.keep_time else int(began * 1000) - start - int((end - start) * (1 - 1 / args.speed))
    topics = {"metrics": settings.topics.metrics[0], "logs": settings.topics.logs[0]}
    sink = producer(settings)
    try:
        for count, (ts_ms, record) in enumerate(timed, 1):
            due = began + (ts_ms - start) / 1000 / args.speed
            time.sleep(max(0.0, due - time.time()))
            stream = args.stream if record.stream == "any" else record.stream
            headers = [(k, v.encode()) for k, v in _identity(record).items()]
            sink.send(topics[stream], value=moved(record.value, shift_ms), headers=headers)
            if count % 100 == 0 and sys.stderr.isatty():
                print(f"\r{count} of {len(timed)} records", end="", file=sys.stderr)
        sink.flush()
    finally:
        sink.close()
    print(f"played {len(timed)} records in {time.time() - began:.0f} s")
    return 0


def _identity(record: Recorded) -> dict[str, str]:
    return {"service": record.service, "host": record.instance, "instance": record.instance}


def in_order(records: list[Recorded]) -> list[tuple[int, Recorded]]:
    """Records with their times in epoch ms, in order; one that tells no time goes with the one before it."""
    timed = []
    last: int | None = None
    for record in records:
        own_time = time_of(record.value)
        last = own_time if own_time is not None else last
        timed.append((last, record))
    first = min((ts for ts, _ in timed if ts is not None), default=0)
    return sorted(((first if ts is None else ts, record) for ts, record in timed), key=lambda pair: pair[0])
