"""`kafka-health generate`: the committed files that restate what the code declares."""

from __future__ import annotations

import argparse

from clienthealth.platform import checkout

HELP = "write the generated files of the repository (alerts, dashboards, docs), or check that they are current"

GENERATORS = (
    "clienthealth_exporters.alerts.build",
    "dashboards.build",
    "deploy.helm.build",
    "clienthealth.ops.reference",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether to write or to check."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not current")


def run(args: argparse.Namespace) -> int:
    """Write what differs, or name it."""
    stale = []
    for generator in GENERATORS:
        for path, content in sorted(checkout.load(generator).generate().items()):
            file = checkout.root() / path
            if file.is_file() and file.read_text(encoding="utf-8") == content:
                continue
            stale.append(path)
            if not args.check:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
    for path in stale:
        print(f"{'differs from its declaration' if args.check else 'written'}: {path}")
    if args.check and stale:
        print("run 'kafka-health generate' and commit the result")
    return int(args.check and bool(stale))
