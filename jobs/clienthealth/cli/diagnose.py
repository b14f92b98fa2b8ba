"""`kafka-health diagnose PATH…`: post-mortem of recordings."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from clienthealth.health import client_json, verdict_json
from clienthealth.modes import modes
from clienthealth.records import Client, Verdict

if TYPE_CHECKING:
    from clienthealth.diagnose import Diagnosis

HELP = "judge recordings: folders of metrics, logs and thread dumps, or files in any known format"


def configure(parser: argparse.ArgumentParser) -> None:
    """The paths to read, and whether a person or a machine reads the answer."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder (one process) or file")
    parser.add_argument("--json", action="store_true", help="one JSON object per client and line")
    parser.epilog = "Exit code: 0 no failure found, 1 at least one suspected or confirmed, 2 input unreadable."


def run(args: argparse.Namespace) -> int:
    """Read, judge, print. Raises InputError where nothing can be read."""
    from clienthealth.diagnose import diagnose
    from clienthealth.errors import InputError
    from clienthealth.settings import load
    from clienthealth.sources.recordings import read
    from clienthealth.spark import session

    settings = load(args.config)
    records = read(args.paths)
    if sys.stderr.isatty():
        print(f"reading {len(records)} records …", file=sys.stderr)
    result = diagnose(session("kafka-health-diagnose", settings, batch=True), records, settings)
    if args.json:
        for who, verdicts in result.clients:
            print(json.dumps({"client": client_json(who), "verdicts": [verdict_json(v) for v in verdicts]}))
    else:
        print(_report(result))
    if not result.recognised:
        raise InputError(f"no record could be read: {_counts(result.rejected)}")
    return int(any(v.unhealthy for _, verdicts in result.clients for v in verdicts))


def _counts(counter: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "nothing"


def _report(result: Diagnosis) -> str:
    parts = [f"Recognised: {_counts(result.recognised)}."]
    if result.rejected:
        parts.append(f"Not readable: {_counts(result.rejected)}.")
    for who, verdicts in result.clients:
        parts.append(_client(who, verdicts))
    return "\n\n".join(parts)


def _client(who: Client, verdicts: list[Verdict]) -> str:
    software = " ".join(filter(None, (who.library, who.version)))
    lines = [f"{who.service}  {who.client_id or '(process)'}  {who.kind or 'client'}  {software}".rstrip()]
    for verdict in sorted(verdicts, key=lambda v: not v.unhealthy):
        if not verdict.unhealthy:
            reason = f": {verdict.reason}" if verdict.reason else ""
            lines += textwrap.wrap(f"  {verdict.status:<9}  {verdict.mode}{reason}", 80, subsequent_indent=" " * 13)
            continue
        mode = modes()[verdict.mode]
        lines.append(f"  {verdict.status.upper():<9}  {verdict.mode} since {_time(verdict.since_ms)}")
        lines += _wrapped(mode.summary, 13)
        for name, value in verdict.detail.items():
            lines += _wrapped(f"{name}: {value if isinstance(value, str) else json.dumps(value)}", 13)
        for fact in verdict.evidence:
            lines += _wrapped(f"{_time(fact.ts_ms)} [{fact.kind}] {fact.text}", 13, hang=4)
        lines += _wrapped(f"What to do: {mode.action}", 13)
        lines += _wrapped(f"Runbook: alerts/runbooks/{mode.id}.md", 13)
    return "\n".join(lines)


def _wrapped(text: str, indent: int, hang: int = 2) -> list[str]:
    pad = " " * indent
    return textwrap.wrap(text, 80, initial_indent=pad, subsequent_indent=pad + " " * hang) or [pad]


def _time(ts_ms: int | None) -> str:
    return "an unknown time" if ts_ms is None else f"{datetime.fromtimestamp(ts_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
