"""Each module here has a `TITLE` and a function `measure(scope) -> Result`, which `make bench` calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scope:
    """The options of `make bench`: `every` is the interval (s) at which a client reports, `of` is the folder with a
    monitor's output, and `before` is the commit to compare with."""

    quick: bool = False
    records: int | None = None
    clients: int | None = None
    days: int | None = None
    of: Path | None = None
    before: str | None = None
    every: int | None = None

    def backlog(self, usual: int) -> int:
        return self.records or (usual // 10 if self.quick else usual)

    def seconds(self, usual: float, quick: float) -> float:
        return quick if self.quick else usual

    def batch(self, records: int) -> int | None:
        return records // 6 if records < 2_000_000 else None
