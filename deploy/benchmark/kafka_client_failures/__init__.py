"""Recordings of real Kafka clients that fail, and a score for tools that judge them.

from kafka_client_failures import cases, score

answers = {case.id: my_tool(case.files) for case in cases()}   # my_tool returns ids of failure modes
print(score(answers).text())
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RECORDINGS = Path(__file__).with_name("recordings")
TRUTH = "truth.json"
#: A recording of any failure may also show this failure mode at its end, when the recorded process was stopped.
AT_THE_END = "producer-not-closed"


@dataclass(frozen=True)
class Case:
    """A recorded run of a Kafka client. The `name` reveals the failure, the `id` does not.

    `expected_mode`: id of the failure mode that the client had; None for a control (a healthy client).
    `also`: ids of further modes that the client had.
    `onset_ms`: time at which the failure began, epoch ms; None if unknown or for a control.
    `versions`: the client's library, and the library's version.
    """

    name: str
    expected_mode: str | None
    also: frozenset[str]
    onset_ms: int | None
    versions: str
    notes: str
    files: tuple[Path, ...]

    @property
    def id(self) -> str:
        """The case's id: 8 hexadecimal digits, a hash of the name."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Score:
    """The score of a tool. An accusation is a failure mode that the tool names for a recording.

    `by_mode`: for each failure mode, (number of failures that were found, number of all failures).
    `controls`: number of healthy clients.
    `accused_controls`: number of healthy clients with at least one false accusation.
    `wrong`: (case name, mode) of each false accusation.
    `unanswered`: number of cases without an answer.
    """

    by_mode: Mapping[str, tuple[int, int]]
    controls: int
    accused_controls: int
    wrong: Sequence[tuple[str, str]]
    unanswered: int

    @property
    def recall(self) -> float:
        """Return the share (0 to 1) of recorded failures that the tool found."""
        return sum(found for found, _ in self.by_mode.values()) / sum(total for _, total in self.by_mode.values())

    @property
    def precision(self) -> float:
        """Return the share (0 to 1) of accusations that are right, or 1 if there are none."""
        right = sum(found for found, _ in self.by_mode.values())
        return right / (right + len(self.wrong)) if right or self.wrong else 1.0

    def text(self) -> str:
        rows = [f"| {mode} | {found} of {total} |" for mode, (found, total) in sorted(self.by_mode.items())]
        return "\n".join(
            (
                "| failure | found |",
                "|---|---|",
                *rows,
                f"| controls accused | {self.accused_controls} of {self.controls} |",
                f"| false accusations | {len(self.wrong)} |",
                f"| recall, precision | {self.recall:.3f}, {self.precision:.3f} |",
                f"| cases without an answer | {self.unanswered} |",
            )
        )


def cases() -> list[Case]:
    found = []
    for path in sorted(RECORDINGS.rglob(TRUTH)):
        truth = json.loads(path.read_text(encoding="utf-8"))
        files = (file for file in path.parent.iterdir() if file.is_file() and file.name != TRUTH)
        found.append(
            Case(
                path.parent.relative_to(RECORDINGS).as_posix(),
                truth["expected_mode"],
                frozenset(truth.get("also", ())),
                truth.get("onset_ms"),
                truth.get("versions") or "",
                truth["notes"],
                tuple(sorted(files)),
            )
        )
    return found


def blind(folder: Path) -> int:
    """Copy the files of each case, except `truth.json`, to `folder/ID` (`Case.id`). Return the number of cases."""
    known = cases()
    for case in known:
        (folder / case.id).mkdir(parents=True)
        for file in case.files:
            shutil.copy(file, folder / case.id)
    return len(known)


def score(answers: Mapping[str, Collection[str]]) -> Score:
    """Return the score of a tool. `answers`: for each case id, the ids of the modes that the tool names.

    A failure without an answer counts as not found. Raises ValueError for an id that no case has.
    """
    known = {case.id: case for case in cases()}
    if unknown := answers.keys() - known.keys():
        raise ValueError(f"no case has these ids: {', '.join(sorted(unknown))}")
    by_mode: dict[str, tuple[int, int]] = {}
    wrong, controls = [], [case for case in known.values() if case.expected_mode is None]
    for case in known.values():
        accused = set(answers.get(case.id, ()))
        innocent = accused - case.also
        if case.expected_mode is not None:
            found, total = by_mode.get(case.expected_mode, (0, 0))
            by_mode[case.expected_mode] = found + (case.expected_mode in accused), total + 1
            innocent -= {case.expected_mode, AT_THE_END}
        wrong += [(case.name, mode) for mode in sorted(innocent)]
    accused_controls = {name for name, _ in wrong} & {case.name for case in controls}
    return Score(by_mode, len(controls), len(accused_controls), wrong, len(known.keys() - answers.keys()))
