"""Check how many dumps, lines or samples of a recording suffice for a verdict."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.model.verdicts import STATUS_ORDER
from clienthealth.settings import Settings
from deploy.reference.rooms import ROOT
from tests.support.recorded import RECORDINGS

EVERY_MS = 10_000


class Cell(NamedTuple):
    """The smallest amount of evidence of one kind (dumps, lines or samples) that is sufficient for a verdict.

    `least` maps the smallest sufficient number of dumps, lines or samples to the verdict. `least` is empty if ten
    dumps, lines or samples raise no suspicion.
    """

    mode: str
    kind: str
    recording: str
    what: str
    least: Mapping[int, str]

    def attached(self, folder: Path, amount: int) -> Path:
        folder.mkdir()
        source = RECORDINGS / self.recording
        if self.kind == "dumps":
            during = sorted(source.glob("jstack-during*")) or sorted(source.glob("jstack-*"))
            for dump in during[:amount]:
                (folder / dump.name).write_bytes(dump.read_bytes())
        elif self.kind == "lines":
            lines = [line for file in sorted(source.glob("*.log.gz")) for line in _text(file) if self.what in line]
            (folder / "app.log").write_text("\n".join(lines[:amount]), encoding="utf-8")
        else:
            truth = json.loads((source / "truth.json").read_text(encoding="utf-8"))
            since = (truth["onset_ms"] or 0) + int(self.what)
            rows = _each(source / "metrics.jsonl.gz", since, amount)
            (folder / "metrics.jsonl").write_text("\n".join(rows), encoding="utf-8")
        return folder

    def found(self, folder: Path, amount: int) -> str:
        if not amount:
            return "unknown"
        judged = examine([self.attached(folder / f"app{amount}", amount)], Settings()).clients
        mode_statuses = [v.status for _, verdicts in judged for v in verdicts if v.mode == self.mode]
        return max(mode_statuses, key=STATUS_ORDER.index, default="unknown")


def _text(file: Path) -> list[str]:
    return gzip.decompress(file.read_bytes()).decode().splitlines()


def _each(file: Path, since_ms: int, amount: int) -> list[str]:
    chosen, last = list[str](), dict[str, tuple[int, int]]()
    for line in _text(file):
        row = json.loads(line)
        ts_ms, number = last.get(row["client_id"], (0, 0))
        if row["ts"] >= max(since_ms, ts_ms + EVERY_MS - EVERY_MS // 20) and number < amount:
            last[row["client_id"]] = row["ts"], number + 1
            chosen.append(line)
    return chosen


CELLS = (
    Cell("consumer-shutdown-loop", "dumps", "shutdown-loop-a", "", {2: "suspected", 3: "confirmed"}),
    Cell("consumer-shutdown-loop", "lines", "shutdown-loop-a", "Failed to fetch consumer metadata", {10: "suspected"}),
    Cell("consumer-shutdown-loop", "readings", "shutdown-loop-a", "-10000", {}),
    Cell("consumer-stalled", "dumps", "consumer-stalled-4.1", "", {}),
    Cell("consumer-stalled", "lines", "consumer-stalled-4.1", "poll timeout has expired", {1: "confirmed"}),
    Cell("consumer-stalled", "readings", "consumer-stalled-4.1", "-10000", {7: "confirmed"}),
    Cell("cross-topic-blocking", "dumps", "cross-topic-a", "", {1: "suspected", 2: "confirmed"}),
    Cell("cross-topic-blocking", "lines", "cross-topic-a", "", {}),
    Cell("cross-topic-blocking", "readings", "cross-topic-a", "5000", {2: "suspected", 3: "confirmed"}),
    Cell("delivery-stalled", "dumps", "delivery-stalled-3.9", "", {}),
    Cell("delivery-stalled", "lines", "delivery-stalled-3.9", "has passed since batch creation", {1: "suspected"}),
    Cell("delivery-stalled", "readings", "delivery-stalled-3.9", "30000", {4: "confirmed"}),
    Cell("producer-callback-deadlock", "dumps", "deadlock-3.9", "", {1: "confirmed"}),
    Cell("producer-callback-deadlock", "lines", "deadlock-3.9", "Failed to allocate", {}),
    Cell("producer-callback-deadlock", "readings", "deadlock-3.9", "5000", {3: "suspected", 4: "confirmed"}),
    Cell("producer-not-closed", "dumps", "not-closed-3.9", "", {}),
    Cell("producer-not-closed", "lines", "librdkafka-raises", "Producer terminating with", {1: "suspected"}),
    Cell("producer-not-closed", "readings", "not-closed-3.9", "0", {}),
    Cell("send-blocked-on-metadata", "dumps", "send-blocked-cluster-4.1", "", {1: "suspected"}),
    Cell("send-blocked-on-metadata", "lines", "send-blocked-topic-3.9", "in metadata after", {1: "suspected"}),
    Cell("send-blocked-on-metadata", "readings", "send-blocked-topic-3.9", "30000", {3: "suspected"}),
)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.mode}-{cell.kind}")
def test_so_much_is_enough_and_one_less_is_not(cell: Cell, tmp_path: Path) -> None:
    for amount, status in cell.least.items():
        assert cell.found(tmp_path, amount) == status
        (tmp_path / "less").mkdir(exist_ok=True)
        less = cell.found(tmp_path / "less", amount - 1)
        assert STATUS_ORDER.index(less) < STATUS_ORDER.index(status), (amount, less)
    if not cell.least:
        assert cell.found(tmp_path, 10) in ("ok", "unknown")


def test_the_table_agrees() -> None:
    readme = (ROOT / "jobs/clienthealth/modes/README.md").read_text(encoding="utf-8")
    table = {
        row[1]: [cell.strip() for cell in row[2].split("|")]
        for row in re.finditer(r"^\| `([\w-]+)` \| ((?:suspected|confirmed|no verdict)\b.*) \|$", readme, re.MULTILINE)
    }
    expected: dict[str, list[str]] = {}
    for cell in CELLS:
        cell_text = ", ".join(f"{status} from {amount}" for amount, status in cell.least.items())
        expected.setdefault(cell.mode, []).append(cell_text or "no verdict")
    assert table == expected
