"""What a person sees while clients are watched: a live table on a terminal, and a line for each change."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TextIO

from clienthealth.diagnose.report import colour_of
from clienthealth.incidents import Transition
from clienthealth.model.clients import Client
from clienthealth.model.verdicts import STATUS_ORDER, Verdict
from clienthealth.model.wording import clock
from clienthealth.modes import modes
from clienthealth.watch.session import Session
from clienthealth.watch.watching import Watched

_COLOURS = {"ok": "32", "suspected": "33", "confirmed": "31"}
#: Facts that are told of a finding as it comes; the report at the end has all.
FACTS = 3
#: 80 columns hold the longest verdict.
ROW = "{:<32.32} {:<8.8} {}"
HANGING = " " * 12


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
                # A terminal would break within words; whoever reads a pipe wants a line for each fact.
                wrapped = textwrap.wrap(line, _columns(), subsequent_indent=HANGING) if self._live else [line]
                self._stream.write("".join(f"{part}\n" for part in wrapped))
        self._stream.flush()

    def draw(self, session: Session, processes: Sequence[Watched]) -> None:
        """The clients as they are now."""
        lines = [ROW.format("client", "kind", f"now ({time.monotonic() - self._began:.0f} s watched)")]
        colours = [""]
        for record in session.newest.values():
            lines.append(ROW.format(_name(record.client), record.client.kind or "", _word(record.verdicts)))
            colours.append(_COLOURS.get(record.worst, ""))
        lines += [f"{process.service}: silent: {process.silent}" for process in processes if process.silent]
        self.table(lines, colours)

    def table(self, lines: Sequence[str], colours: Sequence[str] = ()) -> None:
        """Lines in the place of those before, cut to the terminal; nothing where there is none. `colours`: of lines."""
        if not self._live:
            return
        self.clear()
        height = shutil.get_terminal_size().lines - 1
        for line, colour in zip_longest(lines[:height], colours[:height], fillvalue=""):
            text = line[: _columns()]
            self._stream.write(f"\x1b[{colour}m{text}\x1b[0m\n" if colour and self._colour else f"{text}\n")
        self._drawn = len(lines[:height])
        self._stream.flush()

    def clear(self) -> None:
        """Take the table away."""
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0


def _columns() -> int:
    """How much of a line is used: in its last column a terminal may begin the next one."""
    return shutil.get_terminal_size().columns - 1


def _name(client: Client) -> str:
    return f"{client.service}/{client.client_id or client.instance}"


def _word(verdicts: Sequence[Verdict]) -> str:
    ill = sorted((v for v in verdicts if v.unhealthy), key=lambda v: -STATUS_ORDER.index(v.status))
    if ill:
        return f"{ill[0].status} {ill[0].mode}"
    judged = sum(verdict.status == "ok" for verdict in verdicts)
    return "ok" if judged == len(verdicts) and judged else f"nothing found; {judged} of {len(verdicts)} judged"


def _told(change: Transition) -> Iterator[str]:
    verdict, name = change.verdict, _name(change.client)
    if change.change in ("closed", "withdrawn"):
        yield f"{clock(change.ts_ms)}  over: {name}: {verdict.mode}"
    elif change.change in ("opened", "escalated"):
        title = modes()[verdict.mode].told(verdict, None).title
        yield f"{clock(change.ts_ms)}  {verdict.status}: {name}: {verdict.mode}: {title}"
        for fact in verdict.evidence[-FACTS:]:
            yield f"  {clock(fact.ts_ms)}  {fact.kind}: {fact.text}"
