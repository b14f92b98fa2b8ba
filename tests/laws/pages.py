"""Find the repository's pages, and the commands in the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from deploy.reference.rooms import ROOT

SKIPPED = ("recordings", "node_modules", "golden")


@cache
def pages() -> Mapping[str, str]:
    folders = ("jobs", "exporters", "dashboards", "alerts", "deploy", "tests")
    files = [*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    paths = sorted(str(page.relative_to(ROOT)) for page in files if not set(page.parts) & set(SKIPPED))
    return {path: (ROOT / path).read_text("utf-8") for path in paths}


def commands(page: str) -> Iterator[str]:
    for block in re.findall(r"^ *```sh\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.split(r"\s#\s", line.strip())[0].strip()
            if command and not command.startswith("#"):
                yield re.sub(r"\s+", " ", command)
