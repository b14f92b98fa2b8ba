"""Compare all verdicts with the reviewed verdicts in tests/golden/matrix.txt."""

from __future__ import annotations

from tests.support import matrix


def test_every_verdict_is_as_reviewed() -> None:
    reviewed = matrix.MATRIX.read_text(encoding="utf-8").splitlines()
    judged = matrix.text().splitlines()
    moved = [f"- {line}" for line in reviewed if line not in judged]
    moved += [f"+ {line}" for line in judged if line not in reviewed]
    assert judged == reviewed, (
        "verdicts moved; if each is right, run `python -m tests.support.matrix --write` and say why in the commit "
        "(`git diff --word-diff` shows a new mode's column apart):\n" + "\n".join(moved)
    )
