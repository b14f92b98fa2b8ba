"""`kafka-health generate`: write the committed files that are generated from code, or check them."""

from __future__ import annotations

import argparse
import importlib

from clienthealth.platform import locations

GENERATORS = (
    "deploy.reference.alerts",
    "dashboards.build",
    "deploy.helm.build",
    "deploy.reference.pages",
)


def run(args: argparse.Namespace) -> int:
    stale = []
    for generator in GENERATORS:
        for path, content in sorted(importlib.import_module(generator).generate().items()):
            file = locations.checkout() / path
            if file.is_file() and file.read_text(encoding="utf-8") == content:
                continue
            stale.append(path)
            if not args.check:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
    for path in stale:
        print(f"{'out of date' if args.check else 'written'}: {path}")
    if args.check and stale:
        print("run 'kafka-health generate' and commit the result")
    return int(args.check and bool(stale))
