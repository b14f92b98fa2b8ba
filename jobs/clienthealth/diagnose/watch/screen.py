"""The screen of `watch`: a live table on a terminal, and a line for each change."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TextIO

from clienthealth.diagnose.frames import decisive
from clienthealth.diagnose.report import colour_of, printable
from clienthealth.diagnose.watch.session import Session, Stand
from clienthealth.diagnose.watch.watching import Watched
from clienthealth.model.clients import Client
from clienthealth.model.verdicts import STATUS_ORDER, UNHEALTHY, Verdict
from clienthealth.model.wording import clock, count_of, elapsed, moment_of
from clienthealth.modes import modes
from clienthealth.monitor.incidents import Transition

_COLOURS = {"ok": "32", "suspected": "33", "confirmed": "31"}
FACTS = 3
#: A row of the table; with these widths, the longest verdict fits into 80 columns.
ROW = "{:<32.32} {:<8.8} {}"
HANGING = " " * 12
#: `THREADS`: maximum number of threads per process in the lines that `threads` yields. `FRAMES`: maximum number of
#: frames per thread. `IN_TABLE`: maximum number of threads per process in the live table.
THREADS, FRAMES, IN_TABLE = 4, 4, 2


class Screen:
    """Writes a line for each finding that begins, ends or is confirmed.

    On a terminal, the screen also redraws a table.
    """

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._colour = colour_of(stream)
        self._drawn = 0
        self._began = time.monotonic()

    def changed(self, changes: Sequence[Transition]) -> None:
        """Write a line for each finding that is over, new or newly confirmed."""
        self.clear()
        self.write(line for change in changes for line in _lines_on(change))

    def write(self, lines: Iterable[str]) -> None:
        """Write lines below all earlier lines. On a terminal, wrap the lines at the terminal's width."""
        for line in lines:
            # A program that reads the output from a pipe expects one line per fact.
            wrapped = (textwrap.wrap(line, _columns(), subsequent_indent=HANGING) or [""]) if self._live else [line]
            self._stream.write("".join(f"{part}\n" for part in wrapped))
        self._stream.flush()

    def draw(self, session: Session, processes: Sequence[Watched]) -> None:
        """Redraw the table: a line per client, then lines on ended or silent processes and on threads.

        A thread has a line if at least two dumps show the thread in the same frames.
        """
        records = session.newest.values()
        lines = [ROW.format("client", "kind", f"now ({time.monotonic() - self._began:.0f} s watched)")]
        lines += [ROW.format(_name(one.client), one.client.kind or "", _word(one.verdicts)) for one in records]
        colours = ["", *(_COLOURS.get(record.worst, "") for record in records)]
        for process in processes:
            if process.ended_ms:
                lines.append(f"{process.service}: ended at {clock(process.ended_ms)}")
            elif process.silent:
                lines.append(f"{process.service} does not answer: {process.silent}")
            stands = session.standing(process.instance)[:IN_TABLE]
            where = ((stand, decisive(stand.thread.frames)[0]) for stand in stands if stand.dumps > 1)
            lines += [f"{process.service}: {_stands(stand)}: {frame}" for stand, frame in where]
        self.table(lines, colours)

    def table(self, lines: Sequence[str], colours: Sequence[str] = ()) -> None:
        """Replace the table on the terminal by `lines`, cut to the terminal's size. Without a terminal, do nothing.

        `colours`: the ANSI colour code of each line, '' for none.
        """
        if not self._live:
            return
        self.clear()
        height = shutil.get_terminal_size().lines - 1
        for line, colour in zip_longest(lines[:height], colours[:height], fillvalue=""):
            text = line[: _columns()]
            self._stream.write(f"\x1b[{colour}m{text}\x1b[0m\n" if colour and self._colour else f"{text}\n")
        self._drawn = len(lines[:height])
        self._stream.flush()

    def ended(self, process: Watched) -> None:
        """Show that a process has ended."""
        self.clear()
        self._stream.write(f"{clock(process.ended_ms)}  ended: {process.service} ({process.instance})\n")
        self._stream.flush()

    def clear(self) -> None:
        """Remove the table from the terminal."""
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0


def _columns() -> int:
    """Return the terminal's width minus one, because some terminals wrap after the last column."""
    return shutil.get_terminal_size().columns - 1


def threads(session: Session, processes: Sequence[Watched], verbose: bool) -> Iterator[str]:
    """Yield lines on the application's threads in each process: their names, top frames, and the time in these frames.

    A process with only healthy clients is left out. `verbose`: True to show all processes, threads and frames.
    """
    judged = [record.client.instance for record in session.newest.values() if record.worst != "ok"]
    for process in processes:
        stands = session.standing(process.instance)
        if not stands or (process.instance not in judged and session.newest and not verbose):
            continue
        yield ""
        yield f"Threads of {process.service} ({process.instance}) at {moment_of(stands[0].at_ms)}, the newest dump:"
        for stand in stands if verbose else stands[:THREADS]:
            frames = decisive(stand.thread.frames)
            yield f"  {_stands(stand)}:"
            yield from (f"    at {printable(frame)}" for frame in (frames if verbose else frames[:FRAMES]))
        if len(stands) > THREADS and not verbose:
            yield f"  and {count_of(len(stands) - THREADS, 'thread')} more: --verbose shows all"


def _stands(stand: Stand) -> str:
    thread = f"'{printable(stand.thread.name)}' ({stand.thread.state or 'state unknown'})"
    called = ", a thread that calls poll()," if stand.polled else ""
    if stand.dumps == 1:
        return f"{thread}{called} is in these frames"
    used = "" if stand.cpu_ms is None else f", using {elapsed(stand.cpu_ms / 1000)} of CPU"
    return (
        f"{thread}{called} has been in these frames since {clock(stand.since_ms)}, for at least "
        f"{elapsed(stand.seconds)}, in {stand.dumps} dumps{used}"
    )


def endings(processes: Sequence[Watched], clients: Sequence[tuple[Client, Sequence[Verdict]]]) -> Iterator[str]:
    """Yield a line for each process that ended while it was watched. The line says whether records may be lost."""
    for process in processes:
        if not process.ended_ms:
            continue
        own = (verdicts for client, verdicts in clients if client.instance == process.instance)
        ends = {verdict.status for verdicts in own for verdict in verdicts if modes()[verdict.mode].absence}
        if not ends.isdisjoint(UNHEALTHY):
            lost = "records may be lost, see above"
        elif "unknown" in ends:
            lost = "it is unknown whether records were lost, see above"
        else:
            lost = "no record was waiting at the last sample" if ends else "no producer was seen in the process"
        yield ""
        yield f"ENDED  {process.service} ({process.instance}) at {moment_of(process.ended_ms)}: {lost}"


def _name(client: Client) -> str:
    return f"{client.service}/{client.client_id or client.instance}"


def _word(verdicts: Sequence[Verdict]) -> str:
    worst = max(verdicts, key=lambda verdict: STATUS_ORDER.index(verdict.status), default=None)
    if worst is not None and worst.unhealthy:
        return f"{worst.status} {worst.mode}"
    judged = sum(verdict.status == "ok" for verdict in verdicts)
    return "ok" if judged == len(verdicts) and judged else f"nothing found; {judged} of {len(verdicts)} modes judged"


def _lines_on(change: Transition) -> Iterator[str]:
    verdict, name = change.verdict, _name(change.client)
    if change.change in ("closed", "withdrawn"):
        yield f"{clock(change.ts_ms)}  over: {name}: {verdict.mode}"
    elif change.change in ("opened", "escalated"):
        title = modes()[verdict.mode].explanation(verdict, None).title
        yield f"{clock(change.ts_ms)}  {verdict.status}: {name}: {verdict.mode}: {title}"
        for fact in verdict.evidence[-FACTS:]:
            yield f"  {clock(fact.ts_ms)}  {fact.kind}: {fact.text}"
