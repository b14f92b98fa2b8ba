"""A recording is decoded again only if the code or a file of the recording changes."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

from clienthealth.model.telemetry import RawRecord
from clienthealth.read import decode
from clienthealth.read.decode import Decoded
from clienthealth.read.recordings import read
from tests.support import recorded
from tests.support.recorded import RECORDINGS, recorded_bucket


def test_a_change_of_the_code_or_of_a_file_has_it_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "idle-4.1"
    shutil.copytree(RECORDINGS / "idle-4.1", folder)
    monkeypatch.setattr(recorded, "DECODED", tmp_path / "decoded")
    begun: list[Path] = []

    def reading(folders: list[Path]) -> object:
        begun.extend(folders)
        return read(folders)

    monkeypatch.setattr(recorded, "read", reading)

    def rows(code: str) -> int:
        monkeypatch.setattr(recorded, "_code", lambda: code)
        recorded._packed.cache_clear()
        recorded._bucket.cache_clear()
        return len(recorded_bucket(folder).state.readings)

    first = rows("one")
    assert first > 10 and len(begun) == 1
    assert rows("one") == first and len(begun) == 1
    assert rows("another") == first and len(begun) == 2
    metrics = folder / "metrics.jsonl.gz"
    metrics.write_bytes(gzip.compress(b"".join(gzip.decompress(metrics.read_bytes()).splitlines(keepends=True)[:-3])))
    assert rows("one") < first and len(begun) == 3
    recorded._packed.cache_clear()
    recorded._bucket.cache_clear()


def test_the_code_is_all_that_decides_how_a_recording_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "DECODED", tmp_path)
    for name in ("jobs/a.py", "exporters/b.py", "uv.lock"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text("1")
    monkeypatch.setattr(recorded, "ROOT", tmp_path / "root")
    seen = {recorded._code.__wrapped__()}
    for name in ("jobs/a.py", "exporters/b.py", "uv.lock"):
        (tmp_path / "root" / name).write_text("2")
        seen.add(recorded._code.__wrapped__())
    assert len(seen) == 4


def test_a_recording_is_judged_once_however_it_is_asked_for() -> None:
    folder = RECORDINGS / "idle-4.1"
    for of in (recorded.clients, recorded.verdicts, recorded_bucket):
        assert of(folder) is of(folder, 0) is not of(folder, 10_000)


def test_of_equal_lines_of_a_log_one_is_decoded_and_counts_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "2026-11-20 21:21:44,953 INFO [w] kafka.client.ClientUtils$ - Failed to fetch consumer metadata from b:9092."
    (tmp_path / "app.log").write_text("\n".join([line] * 3 + [line.replace("44,953", "45,200")]), "utf-8")
    monkeypatch.setattr(recorded, "DECODED", tmp_path / "decoded")
    decoded: list[bytes] = []

    def decode_logs(raw: RawRecord, *others: Any) -> Decoded:
        decoded.append(bytes(raw.value or b""))
        return decode.decode_logs(raw, *others)

    monkeypatch.setitem(recorded.DECODERS, "logs", decode_logs)
    (chunk,) = recorded.chunks(tmp_path)
    assert [entry.repeats for entry in chunk.log_entries] == [3, 1]
    assert len(decoded) == 2
