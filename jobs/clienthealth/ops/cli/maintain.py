"""`kafka-health maintain`: retention and compaction of the history."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime

HELP = "delete history past its retention and join its small files; may run beside the monitor"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options; what is not given comes from the settings."""
    parser.add_argument("--alone", action="store_true", help="no monitor runs that writes it (needed on S3)")
    parser.add_argument("--history", metavar="DIR", help="folder or URL of the history (default: [monitor] history)")


def run(args: argparse.Namespace) -> int:
    """Maintain all tables and say what was done."""
    from clienthealth.configuration import load, placed
    from clienthealth.spark.maintenance import maintain
    from clienthealth.spark.session import session

    settings = load(args.config)
    if args.history:
        settings = placed(replace(settings, monitor=replace(settings.monitor, history=args.history)))
    spark = session("kafka-client-health-maintenance", settings, batch=True)
    try:
        today = datetime.now(UTC).date()
        for done in maintain(spark, settings.monitor.history, settings.review.retention_days, today, args.alone):
            print(
                f"{done.table}: {done.days} days deleted, {done.removed} small files joined to {done.added}; "
                f"{done.files} files, {done.bytes / 1e6:.1f} MB"
            )
    finally:
        spark.stop()
    return 0
