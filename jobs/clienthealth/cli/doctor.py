"""`kafka-health doctor`: is everything there that a healthy installation needs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import textwrap

HELP = "check Java, jars, Kafka, topics, rights, clocks, Prometheus and Grafana, and say what to mend"

_COLOURS = {"ok": "32", "warning": "33", "failed": "31", "skipped": "2"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Addresses that are not in the settings, and the form of the answer."""
    parser.add_argument("--prometheus", metavar="URL", help="Prometheus (default: [review] prometheus_url)")
    parser.add_argument("--grafana", metavar="URL", help="Grafana (default: [links] dashboards)")
    parser.add_argument("--json", action="store_true", help="one JSON object per finding and line")


def run(args: argparse.Namespace) -> int:
    """0 if nothing failed (a warning is no failure), else 1."""
    from clienthealth.configuration import load
    from clienthealth.doctor import checks
    from clienthealth.platform.secrecy import redacted

    settings = load(args.config)
    if args.prometheus:
        settings = dataclasses.replace(
            settings, review=dataclasses.replace(settings.review, prometheus_url=args.prometheus)
        )
    if args.grafana:
        settings = dataclasses.replace(settings, links=dataclasses.replace(settings.links, dashboards=args.grafana))
    failed = 0
    for check in checks():
        for finding in check(settings):
            finding = dataclasses.replace(finding, text=redacted(finding.text))
            failed += finding.state == "failed"
            if args.json:
                print(json.dumps(dataclasses.asdict(finding), ensure_ascii=False), flush=True)
            else:
                _show(finding.about, finding.state, finding.text)
    if not args.json:
        print("\nNothing failed." if not failed else f"\n{failed} finding(s) must be mended.")
    return int(failed > 0)


def _show(about: str, state: str, text: str) -> None:
    mark = f"\x1b[{_COLOURS[state]}m{state:<8}\x1b[0m" if sys.stdout.isatty() else f"{state:<8}"
    lines = textwrap.wrap(f"{about}: {text}", 70, break_long_words=False, break_on_hyphens=False)
    print(f"{mark} " + "\n         ".join(lines), flush=True)
