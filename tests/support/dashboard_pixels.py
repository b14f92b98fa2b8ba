"""Draw dashboards with Grafana's own components in Chromium, and return what is visible."""

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

#: The width (px) that Grafana leaves for panels on a screen of 1440 px.
WIDTH = 1400
SOURCES = ("draw.jsx", "draw.css", "bundle.mjs", "package-lock.json")
Seen = Mapping[str, Any]


@dataclass(frozen=True)
class Look:
    """How to draw a dashboard.

    `now`: end of the time that the dashboard covers (epoch s); 0 for the present. `seconds`: length of the time that
    the dashboard covers. `width` is in px. `scrape` is the scrape interval (s).
    """

    name: str
    board: Board
    prometheus: str = ""
    choice: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 60
    scrape: float = 1
    now: float = 0
    theme: str = "dark"
    width: int = WIDTH
    picture: Path | None = None
    short: bool = True

    def asked(self) -> dict[str, Any]:
        end = self.now or time.time()
        times = {"from": round((end - self.seconds) * 1000), "to": round(end * 1000), "scrape": self.scrape}
        seen = {"width": self.width, "theme": self.theme, "short": self.short}
        given = {"prometheus": self.prometheus, "choice": dict(self.choice), **times, **seen}
        picture = self.picture and str(self.picture)
        return {"name": self.name, "board": self.board, "asked": given, "picture": picture}


@cache
def bundle() -> Path:
    sources = b"".join((HERE / name).read_bytes() for name in SOURCES)
    folder = modules(drawing=True).parent / f"drawing-{hashlib.sha256(sources).hexdigest()[:12]}"
    with alone(modules(drawing=True).parent):
        if not (folder / "draw.css").is_file():
            command = [str(NODE), str(HERE / "bundle.mjs"), str(modules(drawing=True)), str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
    return folder


def seen(looks: Iterable[Look]) -> dict[str, list[Seen]]:
    puppeteer = browser.node_modules() / "node_modules"
    asked = json.dumps({"boards": [look.asked() for look in looks]})
    command = [str(NODE), str(HERE / "boards.mjs"), str(puppeteer), str(browser.CHROMIUM), str(bundle())]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    drawn = json.loads(done.stdout)
    assert {name: one["broken"] for name, one in drawn.items() if one["broken"]} == {}
    return {name: one["panels"] for name, one in drawn.items()}
