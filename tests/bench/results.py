"""Store the result of each measurement in its own JSON file in .cache/bench."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from clienthealth.platform.jars import java
from deploy.demo import jars

ROOT = Path(__file__).resolve().parents[2]
#: The number that replaces the time (s) of an event that did not happen.
NEVER = 9_999.0
FOLDER = ROOT / ".cache" / "bench"


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str
    target: float | None = None
    within: Literal["most", "least"] = "most"
    peer: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.within == "most" else self.value >= self.target


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Result:
    figures: Sequence[Figure]
    how: str
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Kept:
    name: str
    result: Result
    conditions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, data: dict[str, Any]) -> Kept:
        result = data["result"]
        figures = [Figure(**figure) for figure in result["figures"]]
        tables = [Table(**table) for table in result["tables"]]
        return cls(data["name"], Result(figures, result["how"], tables, result["notes"]), data["conditions"])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def folder(quick: bool) -> Path:
    path = FOLDER / "quick" if quick else FOLDER
    path.mkdir(parents=True, exist_ok=True)
    return path


def save(kept: Kept, quick: bool) -> None:
    path = folder(quick) / f"{kept.name}.json"
    path.write_text(json.dumps(kept.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def conditions(load: float, seconds: float) -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "load before": f"{load:.2f}",
        "took": f"{seconds:.0f} s",
        "CPU": _cpu(),
        "Python": platform.python_version(),
        "Spark": version("pyspark"),
        "Java": _java(),
        "broker": _broker(),
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def _cpu() -> str:
    try:
        models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        models = []
    return f"{len(models) or '?'} × {models[0] if models else platform.machine()}"


def _java() -> str:
    done = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return match.group(1) if match else "unknown"


def _broker() -> str:
    modules = (module for module in jars.SETS["broker"].modules if ":kafka_" in module)
    return f"Kafka {next(modules, 'unknown').rpartition(':')[2]}"
