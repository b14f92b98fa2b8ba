"""`kafka-health review`: the weekly reliability review."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from clienthealth.platform.locations import inside

HELP = "write the reliability review of a week (or of any stretch of time) from the history"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options; what is not given comes from the settings, section [review]."""
    parser.add_argument("--week", metavar="WEEK", help="an ISO week, as 2026-W46 (default: the last full one, UTC)")
    parser.add_argument("--from", dest="begin", metavar="WHEN", help="an ISO week, a date or a time (UTC)")
    parser.add_argument("--to", dest="end", metavar="WHEN", help="the same; the week or day that it names counts")
    parser.add_argument(
        "--out", metavar="DIR", help="folder or URL of the files (default: [review] out / name of the week)"
    )
    parser.add_argument("--history", metavar="DIR", help="folder or URL of the history (default: [monitor] history)")
    parser.add_argument(
        "--actions", metavar="FILE", help="actions carried over (default: actions.toml in DIR or the folder above it)"
    )
    parser.add_argument("--prometheus", metavar="URL", help="compare the alerts with this Prometheus")
    parser.add_argument("--mail", action="store_true", help="send the review to [review] mail_to as well")


def run(args: argparse.Namespace) -> int:
    """Make the review, write it, send it where asked."""
    from clienthealth.configuration import load
    from clienthealth.review.actions import FILE
    from clienthealth.review.mail import check, send
    from clienthealth.review.period import period
    from clienthealth.review.queries import build
    from clienthealth.review.render import write
    from clienthealth.streaming.files import fetched, put
    from clienthealth.streaming.session import session

    settings = load(args.config)
    if args.mail:
        check(settings.review)
    wanted = period(args.begin, args.end, args.week, datetime.now(UTC))
    out, history = args.out or inside(settings.review.out, wanted.label), args.history or settings.monitor.history
    settings = replace(
        settings,
        monitor=replace(settings.monitor, history=history),
        review=replace(settings.review, out=out),
    )
    with TemporaryDirectory(prefix="kafka-health-review-") as scratch:
        spark = session("kafka-client-health-review", settings, batch=True)
        try:
            folder = fetched(spark, out, Path(scratch), FILE)
            review = build(
                spark,
                settings,
                wanted,
                Path(args.actions) if args.actions else actions_beside(folder),
                history,
                settings.review.prometheus_url if args.prometheus is None else args.prometheus,
            )
            files = write(review, folder)
            put(spark, files, out)
        finally:
            spark.stop()
        for sentence in review.headline:
            print(sentence)
        for what, why in review.not_computed:
            print(f"not computed: {what}: {why}", file=sys.stderr)
        print(f"\n{inside(out, files[0].name)}")
        if args.mail:
            send(settings.review, review, files)
            print(f"sent to {', '.join(settings.review.mail_to)}")
    return 0


def actions_beside(folder: Path) -> Path:
    """`actions.toml` in the folder of a review, else the one in the folder above, which all reviews share."""
    from clienthealth.review.actions import FILE

    own = folder / FILE
    return own if own.is_file() else folder.resolve().parent / FILE
