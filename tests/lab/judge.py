"""What the monitor says of recordings: by `kafka-health diagnose`, and as the stream judges them batch by batch.

    python -m tests.lab.judge FOLDER… [--words]

A row for each client of each recording that any mode says something of: `confirmed` and `suspected`, and what is not
`ok` of the mode that is the truth. A line of the summary for each mode.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clienthealth.diagnose.diagnosis import pack
from clienthealth.diagnose.examine import examine
from clienthealth.measure.packed import Chunk, decode, encode
from clienthealth.measure.packer import Packer
from clienthealth.model import health_record
from clienthealth.model.verdicts import STATUS_ORDER, Verdict
from clienthealth.monitor.state import BucketState
from clienthealth.monitor.step import step
from clienthealth.ops.cli.replay import in_order
from clienthealth.read.recordings import read
from clienthealth.settings import Settings
from tests.support.recorded import DECODERS, sent

SETTINGS = Settings()
BATCH_MS = 5_000
#: After the last record, for what silence says.
LATER_BATCHES = 3
#: Client id and mode → the worst verdict.
Worst = Mapping[tuple[str, str], Verdict]


def diagnosed(folder: Path) -> Worst:
    """By the post-mortem."""
    judged = examine([folder], SETTINGS)
    return {
        (f"{client.client_id}", verdict.mode): verdict for client, verdicts in judged.clients for verdict in verdicts
    }


def streamed(folder: Path) -> Worst:
    """The worst that was published of each client while its recording went on."""
    state, now_ms = BucketState(), int(time.time() * 1000)
    worst: dict[tuple[str, str], Verdict] = {}
    for end_ms, chunks in _batches(folder, now_ms):
        for _, value in step(state, chunks, SETTINGS, end_ms).records:
            if value is None:
                continue
            record = health_record.decode(value)
            for verdict in record.verdicts:
                key = record.client.client_id, verdict.mode
                if key not in worst or _rank(verdict) >= _rank(worst[key]):
                    worst[key] = verdict
    return worst


def _batches(folder: Path, now_ms: int) -> Iterator[tuple[int, Sequence[Chunk]]]:
    timed = in_order(read([folder]))
    end_ms = timed[0][0] + BATCH_MS
    packer = Packer(1)
    for ts_ms, record in timed:
        while ts_ms >= end_ms:
            yield end_ms, _chunks(packer)
            packer, end_ms = Packer(1), end_ms + BATCH_MS
        raw = sent(record)
        pack(DECODERS[record.stream](raw, SETTINGS, now_ms), raw.source, packer)
    yield end_ms, _chunks(packer)
    for later in range(LATER_BATCHES):
        yield end_ms + (later + 1) * BATCH_MS, []


def _chunks(packer: Packer) -> list[Chunk]:
    chunks = packer.chunks()
    for chunk in chunks.values():
        chunk.clocks = [packer.clock] if packer.clock else []
    return [decode(encode(chunk)) for chunk in chunks.values()]


def _rank(verdict: Verdict) -> int:
    return 1 if verdict.status == "unknown" else 2 * STATUS_ORDER.index(verdict.status) - 2


def main() -> None:
    """Judge recordings, and print what stands out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--words", action="store_true", help="with the evidence")
    arguments = parser.parse_args()
    summary: dict[str, Counter[str]] = defaultdict(Counter)
    recordings = sorted(path.parent for folder in arguments.folders for path in folder.rglob("truth.json"))
    for folder in recordings:
        truth = json.loads((folder / "truth.json").read_text())["expected_mode"]
        for how, worst in (("diagnose", diagnosed(folder)), ("stream", streamed(folder))):
            for (client_id, mode), verdict in sorted(worst.items()):
                expected = "failure" if mode == truth else "control"
                summary[f"{mode} {expected} {how}"][verdict.status] += 1
                if verdict.unhealthy or mode == truth or (mode == "consumer-stalled" and verdict.status != "ok"):
                    cause = verdict.detail.get("cause") or verdict.reason or ""
                    print(f"{folder.name:<34} {how:<8} {client_id:<32} {mode:<27} {verdict.status:<9} {cause}")
                    for fact in verdict.evidence if arguments.words else ():
                        print(f"{'':<44}{fact.kind}: {fact.text}")
    for what, statuses in sorted(summary.items()):
        print(f"{what:<50} {dict(statuses)}")


if __name__ == "__main__":
    main()
