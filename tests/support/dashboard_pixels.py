"""Dashboards as Grafana's own components draw them in Chromium, with the data of a Prometheus, and what can be seen."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import browser
from tests.support.dashboard_reading import Board
from tests.support.grafana_code import HERE, NODE, alone, modules

#: What Grafana has for panels on a screen of 1440 px beside its menu.
WIDTH = 1400
SOURCES = ("draw.jsx", "draw.css", "bundle.mjs", "package-lock.json")
Seen = Mapping[str, Any]


@dataclass(frozen=True)
class Look:
    """A dashboard to be drawn. `prometheus`: its address, '' for one without any data; `choice`: of variables.

    `seconds`: how much time it shows, up to `now`; `scrape`: the interval of the scrapes.
    """

    name: str
    board: Board
    prometheus: str = ""
    choice: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 60
    scrape: float = 1
    now: float = 0
    picture: Path | None = None

    def asked(self) -> dict[str, Any]:
        """As the page takes it."""
        end = self.now or time.time()
        times = {"from": round((end - self.seconds) * 1000), "to": round(end * 1000), "scrape": self.scrape}
        given = {"width": WIDTH, "prometheus": self.prometheus, "choice": dict(self.choice), **times}
        picture = self.picture and str(self.picture)
        return {"name": self.name, "board": self.board, "asked": given, "picture": picture}


@cache
def bundle() -> Path:
    """The folder of the script and its style, made once into our own cache for these sources."""
    sources = b"".join((HERE / name).read_bytes() for name in SOURCES)
    folder = modules(drawing=True).parent / f"drawing-{hashlib.sha256(sources).hexdigest()[:12]}"
    with alone(modules(drawing=True).parent):
        if not (folder / "draw.css").is_file():
            command = [str(NODE), str(HERE / "bundle.mjs"), str(modules(drawing=True)), str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
    return folder


def seen(looks: Iterable[Look]) -> dict[str, list[Seen]]:
    """What can be seen of the panels of each: by the name of the look."""
    puppeteer = browser.node_modules() / "node_modules"
    asked = json.dumps({"boards": [look.asked() for look in looks]})
    command = [str(NODE), str(HERE / "boards.mjs"), str(puppeteer), str(browser.CHROMIUM), str(bundle())]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert {name: one["broken"] for name, one in told.items() if one["broken"]} == {}
    return {name: one["panels"] for name, one in told.items()}
