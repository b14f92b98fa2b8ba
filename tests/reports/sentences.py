"""Read labelled sentences."""

from __future__ import annotations

from pathlib import Path

#: The label of a sentence that reports nothing.
NONE = "-"


def read(name: str) -> list[tuple[str, str]]:
    """Return (label, text) of each row of a file in this folder. A label is a failure mode, a known issue or NONE."""
    text = (Path(__file__).parent / f"{name}.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return [(label, sentence.replace("\\n", "\n")) for label, sentence in rows]
