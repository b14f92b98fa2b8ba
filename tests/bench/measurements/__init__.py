"""The measurements of `make bench`: one per module, which has a `TITLE` and a function `measure(scope) -> Result`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scope:
    """The size of a measurement.

    `records`: size of a backlog. `clients` and `days`: size of a history. `clients` and `every`: size and report
    interval (s) of a live fleet. `of`: a folder with the history and checkpoints that a monitor has written. `before`:
    a commit whose monitor is also measured, for comparison. If an option is None, the measurement uses its own default.
    """

    quick: bool = False
    records: int | None = None
    clients: int | None = None
    days: int | None = None
    of: Path | None = None
    before: str | None = None
    every: int | None = None

    def backlog(self, usual: int) -> int:
        """Return the number of records in a backlog: the option `records`, or `usual` (in a quick run, a tenth)."""
        return self.records or (usual // 10 if self.quick else usual)

    def seconds(self, usual: float, quick: float) -> float:
        return quick if self.quick else usual

    def batch(self, records: int) -> int | None:
        """Return the maximum size of a batch if the default would divide `records` into too few batches, else None."""
        return records // 6 if records < 2_000_000 else None
