"""List the worst status of each failure mode in each recording and each hand-made window."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.verdicts import UNHEALTHY
from clienthealth.modes import modes
from clienthealth.monitor.adjust import Context, adjust
from clienthealth.monitor.window_verdicts import judge_windows
from tests.scenarios import scenarios
from tests.support.recorded import RECORDINGS, clients, folders, verdicts

MATRIX = Path(__file__).resolve().parents[1] / "golden" / "matrix.txt"
HEAD = """\
The worst status of every failure mode on every recording and every hand-made window ('-': the mode does not apply).

Recordings: as recorded (a reading a second) and thinned to a reading every 10 s. The end of a recording counts as the
client's disappearance, as it would in production.
"""
THINNED_MS = 10_000


def statuses(windows: Sequence[ClientWindow], departure: ClientWindow | None = None) -> dict[str, str]:
    verdicts = adjust("moment", judge_windows(windows, {}), Context()) if windows else []
    if departure:
        verdicts += judge_windows([departure], {}, absence=True)
    return {verdict.mode: verdict.status for verdict in verdicts}


def recorded(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    for whole, thin in zip(clients(folder), clients(folder, THINNED_MS), strict=True):
        for how, every_ms, client in (("", 0, whole), (" every 10 s", THINNED_MS, thin)):
            judged = verdicts(folder, every_ms)[client.client]
            ends = judge_windows([client.departure], {}, absence=True)
            name = f"{folder.relative_to(RECORDINGS)} {client.client.client_id}{how}"
            found = {verdict.mode for verdict in judged if verdict.status in UNHEALTHY}
            judged = [v for v in judged if v.mode not in {s.mode for s in client.silence} - found]
            judged += [v for v in client.silence if v.mode not in found]
            yield name, {verdict.mode: verdict.status for verdict in adjust("moment", [*judged, *ends], Context())}


def made() -> Iterator[tuple[str, dict[str, str]]]:
    for mode, cases in scenarios().items():
        for scenario in cases:
            gone = scenario.window.departed_ms is not None
            by_mode = statuses([] if gone else [scenario.window], scenario.window if gone else None)
            yield f"{mode}: {scenario.name}", by_mode


def text() -> str:
    rows = [row for folder in folders() for row in recorded(folder)]
    return "\n".join([HEAD, *_table("Recordings", rows), "", *_table("Hand-made windows", list(made())), ""])


def _table(title: str, rows: list[tuple[str, dict[str, str]]]) -> Iterable[str]:
    width = max(len(name) for name, _ in rows)
    columns = list(modes())
    yield title
    yield "  ".join(["".ljust(width), *columns])
    for name, by_mode in rows:
        cells = (by_mode.get(mode, "-").ljust(len(mode)) for mode in columns)
        yield "  ".join([name.ljust(width), *cells]).rstrip()


if __name__ == "__main__":
    if "--write" in sys.argv:
        MATRIX.write_text(text(), encoding="utf-8")
    else:
        sys.stdout.write(text())
