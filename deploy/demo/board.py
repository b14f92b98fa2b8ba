"""Print the demo's events, a live table in a terminal, and a table at the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence

from clienthealth.model.wording import clock
from deploy.demo.progress import Course

_COLOURS = {"ok": "32", "suspected": "33", "confirmed": "31"}


class Board:
    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._drawn = 0
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        self._erase()
        print(f"{time.monotonic() - self._began:5.0f} s  {text}", flush=True)

    def show(self, courses: Sequence[Course]) -> None:
        if not self._terminal:
            return
        self._erase()
        width = shutil.get_terminal_size().columns
        lines = [f"{'client':<20} {'fails since':<12} {'worst verdict':<36} {'page':<7}"]
        lines += [self._row(course) for course in courses]
        for line in lines:
            print(line if self._coloured(line) else line[: width - 1])
        self._drawn = len(lines)
        sys.stdout.flush()

    def _row(self, course: Course) -> str:
        status, mode = course.worst
        onset = course.running.onset_ms
        since = f"{time.time() - onset / 1000:.0f} s" if onset else "" if course.client.mode else "(healthy)"
        verdict = "no word yet" if not course.now else status if status in ("ok", "unknown") else f"{status} {mode}"
        cell = f"{verdict:<36.36}"
        if self._terminal and status in _COLOURS and course.now:
            cell = f"\x1b[{_COLOURS[status]}m{cell}\x1b[0m"
        return f"{course.client.name:<20.20} {since:<12} {cell} {'FIRING' if course.firing else '':<7}".rstrip()

    def _coloured(self, line: str) -> bool:
        return "\x1b[" in line

    def _erase(self) -> None:
        if self._drawn:
            print(f"\x1b[{self._drawn}A\x1b[J", end="")
            self._drawn = 0


def account(courses: Sequence[Course]) -> list[str]:
    lines = [f"{'client':<20} {'began (UTC)':<12} {'suspected':>10} {'confirmed':>10} {'paged':>10}"]
    for course in courses:
        mode, onset = course.client.mode, course.running.onset_ms
        if mode is None:
            blame = ", ".join(sorted(course.accused))
            fate = f"wrongly accused of {blame}" if course.wronged else f"suspected of {blame} during an outage"
            lines.append(f"{course.client.name:<20} {fate if blame else 'stayed healthy'}")
            continue
        if onset is None:
            lines.append(f"{course.client.name:<20} {'not failed yet':<12}")
            continue
        moments = (
            course.first.get((mode, "suspected")),
            course.first.get((mode, "confirmed")),
            course.paged.get(mode),
        )
        began = clock(onset)
        cells = ("-" if at is None else f"{course.after_onset(at):+.0f} s" for at in moments)
        lines.append(f"{course.client.name:<20} {began:<12} " + " ".join(f"{cell:>10}" for cell in cells))
    return lines
