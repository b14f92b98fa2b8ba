"""`kafka-health doctor`: check everything that a healthy installation needs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clienthealth.ops.doctor import Finding

_COLOURS = {"ok": "32", "warning": "33", "failed": "31", "skipped": "2"}


def run(args: argparse.Namespace) -> int:
    """Run all checks, and print each finding as soon as it is known.

    Return 1 if a check failed, 130 on Ctrl-C, else 0, even if there are warnings.
    """
    from clienthealth.configuration import load
    from clienthealth.ops.doctor import checks
    from clienthealth.platform.secrecy import redacted

    settings = load(args.config)
    url, dashboards = args.prometheus or settings.review.prometheus_url, args.grafana or settings.links.dashboards
    review = dataclasses.replace(settings.review, prometheus_url=url)
    links = dataclasses.replace(settings.links, dashboards=dashboards)
    settings = dataclasses.replace(settings, review=review, links=links)
    findings: list[Finding] = []
    # Py4J logs a traceback if Ctrl-C interrupts a call to Spark.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        for announcement, check in checks():
            if announcement:
                print(announcement, file=sys.stderr, flush=True)
            for finding in check(settings):
                findings.append(shown := dataclasses.replace(finding, text=redacted(finding.text)))
                if args.json:
                    print(json.dumps(dataclasses.asdict(shown), ensure_ascii=False), flush=True)
                    continue
                state, text = shown.state, f"{shown.about}: {shown.text}"
                mark = f"\x1b[{_COLOURS[state]}m{state:<8}\x1b[0m" if sys.stdout.isatty() else f"{state:<8}"
                lines = textwrap.wrap(text, 70, break_long_words=False, break_on_hyphens=False)
                print(f"{mark} " + "\n         ".join(lines), flush=True)
    except KeyboardInterrupt:
        print("\nInterrupted before all checks had run.", file=sys.stderr)
        return 130
    failed = sum(finding.state == "failed" for finding in findings)
    skipped = ", ".join(dict.fromkeys(finding.about for finding in findings if finding.state == "skipped"))
    if not args.json:
        well = f"Nothing failed; not checked: {skipped}." if skipped else "Nothing failed."
        print(f"\n{f'{failed} finding(s) need a remedy.' if failed else well}")
    return int(failed > 0)
