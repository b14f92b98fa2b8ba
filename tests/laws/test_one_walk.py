"""Check that an attached text passes through at most `MOST_FILES` source files before the text is parsed."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from types import FrameType

import pytest

import clienthealth
from clienthealth.diagnose.attachments.opening import Opener
from clienthealth.diagnose.attachments.reading import Reader
from clienthealth.settings import Settings
from tests.support.recorded import RECORDINGS

ROOT = Path(clienthealth.__file__).parent
MOST_FILES = 9
PIECE = 40
EXPOSITION = """\
# TYPE kafka_producer_producer_metrics_record_send_total counter
kafka_producer_producer_metrics_record_send_total{client_id="p-1",} 12.0
kafka_producer_producer_metrics_buffer_available_bytes{client_id="p-1",} 1048576.0
kafka_producer_producer_metrics_buffer_total_bytes{client_id="p-1",} 33554432.0
"""


def _unpacked(name: str) -> str:
    return gzip.decompress((RECORDINGS / "send-blocked-topic-4.1" / f"{name}.gz").read_bytes()).decode()


def _text(kind: str) -> str:
    if kind == "exposition":
        return EXPOSITION
    if kind == "dump":
        return next((RECORDINGS / "deadlock-4.1").glob("jstack-*")).read_text(encoding="utf-8")
    return _unpacked(kind)


@pytest.mark.parametrize("kind", ["app.log", "dump", "exposition", "metrics.jsonl"])
def test_a_text_visits_few_files(kind: str, tmp_path: Path) -> None:
    file = tmp_path / kind
    file.write_text(_text(kind), encoding="utf-8")
    visited, records = walk(file)
    assert records
    assert len(visited) <= MOST_FILES, "\n".join(sorted(visited))


def walk(file: Path) -> tuple[set[str], int]:
    visited: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)) and "<" not in code.co_name:
            given = (frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount])
            if any(map(_is_text, given)):
                visited.add(str(Path(code.co_filename).relative_to(ROOT)))

    records = 0
    with Opener() as opener:
        for stream in opener.streams([file]):
            reader = Reader(stream, Settings(), stream.file_ms or 0)
            before = sys.getprofile()
            sys.setprofile(called)
            try:
                records += sum(1 for _ in reader.records())
            finally:
                sys.setprofile(before)
    return visited, records


def _is_text(given: object) -> bool:
    if isinstance(given, list | tuple):
        return bool(given) and _is_text(given[0])
    return hasattr(given, "__next__") or (isinstance(given, str | bytes) and len(given) >= PIECE)
