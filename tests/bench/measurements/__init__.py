"""One module for each measurement: `TITLE`, and `measure(scope) -> Result`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scope:
    """How much is measured: `records` of a backlog, `clients` and `days` of a history, `of` which monitor.

    `before`: a commit whose monitor is measured in turns with ours.

    None for what the measurement uses by itself.
    """

    quick: bool = False
    records: int | None = None
    clients: int | None = None
    days: int | None = None
    of: Path | None = None
    before: str | None = None

    def backlog(self, usual: int) -> int:
        """Records of a backlog: as many as were asked for, a tenth in a quick run."""
        return self.records or (usual // 10 if self.quick else usual)

    def seconds(self, usual: float, quick: float) -> float:
        """How long something is watched."""
        return quick if self.quick else usual

    def batch(self, records: int) -> int | None:
        """A bound of the monitor's batches where its own would make too few of all the records."""
        return records // 6 if records < 2_000_000 else None
