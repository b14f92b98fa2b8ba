"""What a person sees while clients are watched: a live table on a terminal, and a line for each change."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from clienthealth.diagnose.report import colour_of
from clienthealth.diagnose.story import moment
from clienthealth.incidents import Transition
from clienthealth.model.health_record import HealthRecord
from clienthealth.model.verdicts import STATUS_ORDER, Verdict
from clienthealth.modes import modes
from clienthealth.watch.session import Session
from clienthealth.watch.watching import Watched

_COLOURS = {"ok": "32", "suspected": "33", "confirmed": "31"}
#: Facts that are told of a finding as it comes; the report at the end has all.
FACTS = 3


class Screen:
    """Writes to a stream: a table that is drawn anew where it is a terminal, lines for changes anywhere."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._colour = colour_of(stream)
        self._drawn = 0
        self._began = time.monotonic()

    def changed(self, changes: Sequence[Transition]) -> None:
        """What was found, or is over, with what it rests on."""
        self.clear()
        for change in changes:
            for line in _told(change):
                self._stream.write(f"{line}\n")
        self._stream.flush()

    def draw(self, session: Session, processes: Sequence[Watched]) -> None:
        """The clients as they are now."""
        lines = [f"{'client':<30} {'kind':<10} {'readings':>8}  now ({time.monotonic() - self._began:.0f} s watched)"]
        lines += [self._row(record) for record in session.newest.values()]
        lines += [f"{of.target.service}: silent: {of.silent}" for of in processes if of.silent]
        self.table(lines)

    def table(self, lines: Sequence[str]) -> None:
        """Lines in the place of those before; nothing where there is no terminal."""
        if not self._live:
            return
        self.clear()
        size = shutil.get_terminal_size()
        for line in lines[: size.lines - 1]:
            self._stream.write((line if "\x1b" in line else line[: size.columns - 1]) + "\n")
        self._drawn = len(lines[: size.lines - 1])
        self._stream.flush()

    def clear(self) -> None:
        """Take the table away."""
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def _row(self, record: HealthRecord) -> str:
        status, word = record.worst, _word(record.verdicts)
        if self._colour and status in _COLOURS:
            word = f"\x1b[{_COLOURS[status]}m{word}\x1b[0m"
        return f"{record.client.client_id:<30.30} {record.client.kind or '':<10.10} {record.samples:>8}  {word}"


def _word(verdicts: Sequence[Verdict]) -> str:
    ill = sorted((v for v in verdicts if v.unhealthy), key=lambda v: -STATUS_ORDER.index(v.status))
    if ill:
        return f"{ill[0].status} {ill[0].mode}"[:34]
    judged = sum(verdict.status == "ok" for verdict in verdicts)
    return "ok" if judged == len(verdicts) and judged else f"nothing found; {judged} of {len(verdicts)} judged"


def _told(change: Transition) -> Iterator[str]:
    verdict, name = change.verdict, change.client.client_id or change.client.instance
    if change.change in ("closed", "withdrawn"):
        yield f"{moment(change.ts_ms)[11:19]}  over: {name}: {verdict.mode}"
    elif change.change in ("opened", "escalated"):
        title = modes()[verdict.mode].told(verdict, None).title
        yield f"{moment(change.ts_ms)[11:19]}  {verdict.status}: {name}: {verdict.mode}: {title}"
        for fact in verdict.evidence[-FACTS:]:
            yield f"            {moment(fact.ts_ms)[11:19]} {fact.kind}: {fact.text}"
