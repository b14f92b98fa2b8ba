"""`diagnose` reads lines with a prefix, and truncated files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clienthealth.diagnose.attachments.entries import Entry, Scanner, Splitter
from clienthealth.diagnose.attachments.text import Layout, plain
from tests.support.attachments import log, statuses, unpacked, worst
from tests.support.recorded import RECORDINGS

RUNS = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FEW = settings(RUNS, max_examples=4)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,12}(-[a-z0-9]{1,10}){0,3}", fullmatch=True)
COLOURS = st.sampled_from(["", "\x1b[32m", "\x1b[1;31m", "\x1b[38;5;208m", "\x1b[0;90m"])
FAILURES = {
    "deadlock-4.1": "producer-callback-deadlock",
    "send-blocked-topic-4.1": "send-blocked-on-metadata",
    "shutdown-loop-a": "consumer-shutdown-loop",
    "cross-topic-a": "cross-topic-blocking",
}


@st.composite
def prefixes(draw: st.DrawFn) -> str:
    name, other, colour = draw(NAMES), draw(NAMES), draw(COLOURS)
    kinds = [
        f"{name}-1{' ' * draw(st.integers(1, 12))}| ",
        f"[pod/{name}-7d9f8b6c5-x2x4z/{other}] ",
        f"Nov 20 21:02:10 {name} {other}[{draw(st.integers(1, 99999))}]: ",
        f"<14>1 2026-11-20T21:02:10.123456Z {name} {other} 1 - - ",
        "2026-11-20T21:02:10.123456789Z stdout F ",
        "",
    ]
    prefix = draw(st.sampled_from(kinds))
    return f"{colour}{prefix}\x1b[0m" if colour else prefix


@RUNS
@given(prefix=prefixes())
def test_any_prefix_or_colour_changes_no_entry(prefix: str) -> None:
    text = log("send-blocked-topic-4.1")
    wrapped = _entries("".join(f"{prefix}{line}\n" for line in text.splitlines()).encode())
    shift = {(own[1] or 0) - (seen[1] or 0) for own, seen in zip(_entries(text.encode()), wrapped, strict=True)}
    assert len(shift) == 1
    assert [(entry[0], entry[2]) for entry in wrapped] == [(entry[0], entry[2]) for entry in _entries(text.encode())]


@RUNS
@given(size=st.integers(100, 20_000))
def test_blocks_of_any_size_give_the_same_entries(size: int) -> None:
    data = log("send-blocked-topic-4.1").encode()
    assert _entries(data) == _entries(data, size)


def _entries(data: bytes, size: int = 1 << 18) -> list[tuple[int, int | None, bytes]]:
    lines = data.splitlines(keepends=True)
    sample = [plain(line).rstrip(b"\n") for line in lines[:2_000]]
    splitter = Splitter(Layout.learned(sample, None))
    listed: list[Entry] = []
    block = b""
    for line in lines:
        block += line
        if len(block) >= size:
            listed += splitter.take(block)
            block = b""
    listed += splitter.take(block) if block else []
    listed += splitter.close()
    return [(entry.line, entry.ts_ms, entry.value) for entry in listed]


@pytest.mark.long
@FEW
@given(data=st.data())
def test_a_truncated_failure_never_looks_healthy(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The file is cut inside a line, because a cut after a complete line cannot be noticed."""
    recording = data.draw(st.sampled_from(sorted(FAILURES)))
    folder = unpacked(recording, tmp_path_factory.mktemp("cut"))
    file = data.draw(st.sampled_from(sorted(f for f in folder.iterdir() if f.suffix in (".jsonl", ".log", ".txt"))))
    content = file.read_bytes()
    at = data.draw(st.integers(1, len(content) - 1))
    if content[at - 1 : at] == b"\n" or content[at : at + 1] == b"\n":
        at = max(1, at - 3)
    file.write_bytes(content[:at])
    assert worst(statuses(folder)[0], FAILURES[recording]) != "ok"


@FEW
@given(data=st.data())
def test_a_cut_of_packed_data_is_always_seen(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("packed") / "healthy"
    folder.mkdir()
    packed = (RECORDINGS / "healthy-4.1" / "metrics.jsonl.gz").read_bytes()
    at = data.draw(st.integers(1, len(packed) - 1))
    (folder / "metrics.jsonl.gz").write_bytes(packed[:at])
    verdicts, inputs = statuses(folder)
    assert all(status != "ok" for by_mode in verdicts.values() for status in by_mode.values())
    assert any(given.unread for given in inputs.values())


@RUNS
@given(
    data=st.binary(max_size=4_000),
    at=st.integers(0, 4_000),
    text=st.sampled_from([b"Local: Queue full", b"nknown topic"]),
)
def test_a_text_is_found_wherever_it_stands(data: bytes, at: int, text: bytes) -> None:
    block = data[:at] + text + data[at:]
    assert Scanner([b"Local: Queue full", b"nknown topic", b"short"]).find(block) == [
        n for n in range(len(block)) if block.startswith((b"Local: Queue full", b"nknown topic", b"short"), n)
    ]


@FEW
@given(junk=st.binary(max_size=3_000))
def test_no_bytes_are_too_odd(junk: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file: Path = tmp_path_factory.mktemp("junk") / "file"
    for content in (junk, gzip.compress(junk), b"PK\x03\x04" + junk, b'{"a": ' + junk, b"\xff\xfe" + junk):
        file.write_bytes(content)
        verdicts, _ = statuses(file)
        assert all(status != "ok" for by_mode in verdicts.values() for status in by_mode.values())
