"""Compare our verdicts on the lab's cases with the verdicts that label.py expects."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.label import Label, Recorded, labels
from tests.lab.mechanisms import MODES

JUDGE_SECONDS = 600.0
#: `diagnose` exits with 2 if nothing could be read, and with 3 if no client could be judged.
SAYS_NOTHING = (2, 3)
BATCH_SECONDS = 5
LATER_BATCHES, DEPARTED_BATCHES = 7, 20
STREAMED = 3
GRADES = ("right", "suspected only", "unknown", "wrong suspected", "wrong confirmed", "false ok")
_RANK = {"ok": 0, "unknown": 1, "suspected": 2, "confirmed": 3}
Verdicts = Sequence[tuple[str, str, str]]
Matrix = dict[str, dict[str, Counter[str]]]


@dataclass(frozen=True)
class Graded:
    case: str
    how: str
    mode: str
    failing: bool
    label: Label
    status: str
    grade: str


def diagnosed(folder: Path) -> Verdicts:
    command = [sys.executable, "-m", "clienthealth.ops.cli", "diagnose", "--json", str(folder / "seen")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JUDGE_SECONDS, check=False)
    (folder / "verdicts.jsonl").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode not in (0, *SAYS_NOTHING) and not done.stdout:
        raise RuntimeError(f"{folder}: {done.stderr}")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for document in documents for row in _rows(document)]


def _rows(document: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    client_id = str(document.get("client", {}).get("client_id", ""))
    for verdict in document.get("verdicts", ()):
        yield client_id, verdict["mode"], verdict["status"]


def streamed(folder: Path) -> Verdicts:
    """Return the verdicts of the monitor, batch by batch.

    In each batch, an additional client (of the service `others`) sends a sample, because the watermark advances only
    with samples. The verdicts on this client are left out.
    """
    from clienthealth.model import canonical
    from clienthealth.model.clients import Client
    from tests.support.raw_records import Raw
    from tests.support.streamed import PUBLISHED, Streamed

    records = [json.loads(line) for line in (folder / "stream.jsonl").read_text(encoding="utf-8").splitlines()]
    if not records:
        return []
    monitor, begin = Streamed(), records[0]["ts"] // 1000
    batches: dict[int, list[Any]] = defaultdict(list)
    for record in records:
        batches[(record["ts"] // 1000 - begin) // BATCH_SECONDS].append(record)
    headers = {"service": "orders", "host": "app-1", "instance": "app-1:4711"}
    other = Client("others", "app-2", "app-2:4712", "other", "producer", library="java")
    worst: dict[tuple[str, str], str] = {}
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    later = LATER_BATCHES if len(case["written"]["metrics"]) != 1 else 0
    for number in range(max(batches) + 1 + (DEPARTED_BATCHES if case["ended_by_itself"] else later)):
        by_topic: dict[str, list[Raw]] = {"client-metrics": [], "client-logs": []}
        for record in batches.get(number, ()):
            headers_of_record = record.get("headers", headers)
            by_topic[record["topic"]].append(Raw("", base64.b64decode(record["value"]), headers=headers_of_record))
        second = begin + (number + 1) * BATCH_SECONDS
        counted = {"select-total": float(second), "record-send-total": float(second)}
        sample = json.dumps(canonical.snapshot(other, 1000 * (second - 1), counted)).encode()
        by_topic["client-metrics"].append(Raw("", sample))
        published = [row for row in monitor.batch(second, *by_topic.values()) if row[0] == PUBLISHED[0]]
        for value in (value for _, key, value, _ in published if value and not (key or b"").startswith(b"others|")):
            for client_id, mode, status in _rows(json.loads(value)):
                if _RANK[status] >= _RANK.get(worst.get((client_id, mode), "ok"), 0):
                    worst[client_id, mode] = status
    return [(client_id, mode, status) for (client_id, mode), status in worst.items()]


def graded(folder: Path, how: str, verdicts: Verdicts) -> list[Graded] | None:
    recorded = Recorded(folder)
    wanted = labels(recorded)
    if wanted is None or not any((folder / "seen").iterdir()):
        return None
    case = recorded.case
    result = []
    for mode in MODES:
        label, failing = wanted.get(mode, Label()), mode == case["mode"]
        fine = set(case["clients"]) - set(case["troubled"])
        accused = [status for client, judged, status in verdicts if judged == mode and client in fine]
        rest = [status for client, judged, status in verdicts if judged == mode and client not in fine]
        status = max(rest, key=_RANK.__getitem__, default="unknown")
        grade = _grade(label, status)
        beside = max(accused, key=_RANK.__getitem__, default="ok")
        spared = Label(at_most=label.at_most if not failing or "trouble" not in case["options"] else "ok")
        if failing or grade != "right":
            result.append(Graded(folder.name, how, mode, failing, label, status, grade))
        if _grade(spared, beside).startswith("wrong"):
            result.append(Graded(folder.name, how, mode, False, spared, beside, _grade(spared, beside)))
    return result


def _grade(label: Label, status: str) -> str:
    if status == "confirmed" and label.at_most != "confirmed":
        return "wrong confirmed"
    if status == "suspected" and label.at_most == "ok":
        return "wrong suspected"
    if status == "ok" and label.not_ok:
        return "false ok"
    if label.at_least == "nothing" or _RANK[status] >= _RANK[label.at_least]:
        return "right"
    return "suspected only" if status == "suspected" else "unknown"


def judge(folders: Sequence[Path], jobs: int, often: int = STREAMED) -> tuple[list[str], Matrix]:
    """Return a line per verdict, and the counts {`diagnose` or `stream`: {row: {grade: count}}}."""
    with ThreadPoolExecutor(jobs) as judging:
        verdicts = list(judging.map(diagnosed, folders))
    report: list[str] = []
    matrix: Matrix = {"diagnose": defaultdict(Counter), "stream": defaultdict(Counter)}
    for number, (folder, of_case) in enumerate(zip(folders, verdicts, strict=True)):
        ways = [("diagnose", of_case)]
        # Select one of every `often` cases, each time at another position. Every third case is a control, so a fixed
        # position would select only controls or no controls if `often` is a multiple of 3.
        if (number + number // often) % often == 0:
            ways.append(("stream", streamed(folder)))
        for how, found in ways:
            grades = graded(folder, how, found)
            report += _lines(folder, how, grades)
            _count(matrix[how], folder, grades)
    return report, matrix


def _lines(folder: Path, how: str, grades: Sequence[Graded] | None) -> list[str]:
    if grades is None:
        return [f"{how:<8} void: the trouble did not come, or nothing was seen: {folder}"]
    if not grades:
        return [f"{how:<8} right           control, nothing accused: {folder}"]
    return [
        f"{how:<8} {one.grade:<15} {one.mode}: {one.status}, label {one.label.at_least} to {one.label.at_most}"
        f"{', not ok' if one.label.not_ok else ''}: {folder}"
        for one in grades
    ]


def _count(matrix: dict[str, Counter[str]], folder: Path, grades: Sequence[Graded] | None) -> None:
    case = Recorded(folder).case
    row = case["mode"] or "controls"
    if grades is None:
        matrix[row]["void"] += 1
        return
    own = [one.grade for one in grades if one.failing]
    wrong = [one.grade for one in grades if not one.failing]
    if case["mode"] is not None:
        matrix[row][own[0]] += 1
        matrix["beside a failure"].update(wrong or ["right"])
    else:
        matrix[row].update({max(wrong, key=GRADES.index) if wrong else "right": 1})


def tables(matrix: Matrix) -> list[str]:
    columns = (*GRADES, "void")
    lines = []
    for how, rows in matrix.items():
        lines.append(f"| {how} | {' | '.join(columns)} |")
        lines.append(f"|---|{'---|' * len(columns)}")
        order = [mode for mode in (*MODES, "controls", "beside a failure") if mode in rows]
        lines += [f"| {row} | {' | '.join(str(rows[row][column]) for column in columns)} |" for row in order]
        lines.append("")
    return lines


def summaries(matrix: Matrix) -> list[str]:
    """Return the last seven cells of two rows of results.md: one row for `diagnose`, and one for the stream."""
    lines = []
    for how, rows in matrix.items():
        failures = sum((rows[mode] for mode in MODES), Counter[str]())
        sums = sum(rows.values(), Counter[str]())
        right = (f"{of['right']} of {of.total() - of['void']}" for of in (failures, rows["controls"]))
        rest = (sums[grade] for grade in (*GRADES[3:], "void"))
        lines.append(f"{how} | {' | '.join(right)} | {' | '.join(map(str, rest))} |")
    return lines
