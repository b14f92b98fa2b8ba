"""The report for a person in front of a terminal: inputs, then each client with its verdict, the worst first."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TextIO

from clienthealth.attachments.input import Input
from clienthealth.diagnose.story import Finding, Story, input_line, nothing_judged, stories
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread
from clienthealth.model.verdicts import Verdict

WIDTH, LEAST, MOST = 80, 40, 120
INDENT = 2
_LABEL = 12
_COLOURS = {"confirmed": "1;31", "suspected": "1;33", "unknown": "1;36", "ok": "1;32", "dim": "2", "bold": "1"}
_TITLES = {"confirmed": "CONFIRMED", "suspected": "SUSPECTED", "unknown": "CANNOT JUDGE", "ok": "OK"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def width_of(stream: TextIO) -> int:
    """How wide to write: the terminal's width within reason, 80 elsewhere."""
    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, LEAST), MOST) if stream.isatty() else WIDTH


def colour_of(stream: TextIO) -> bool:
    """Does the stream show colours, and are they wanted (https://no-color.org)?"""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def report(
    clients: Sequence[tuple[Client, Sequence[Verdict]]],
    inputs: Sequence[Input] = (),
    dumps: Mapping[Source, Sequence[DumpedThread]] | None = None,
    width: int = WIDTH,
    colour: bool = False,
) -> str:
    """The whole report."""
    return _Report(width, colour).of(stories(clients, inputs, dumps), inputs)


def show(
    clients: Sequence[tuple[Client, Sequence[Verdict]]],
    inputs: Sequence[Input],
    dumps: Mapping[Source, Sequence[DumpedThread]],
) -> str:
    """The report as standard output can show it."""
    return report(clients, inputs, dumps, width_of(sys.stdout), colour_of(sys.stdout))


class _Report:
    def __init__(self, width: int, colour: bool) -> None:
        self.width, self.colour = width, colour

    def of(self, all_stories: Sequence[Story], inputs: Sequence[Input]) -> str:
        parts = ["\n".join(line for attached in inputs for line in self._input(attached))] if inputs else []
        parts += ["\n".join(self._client(story)) for story in all_stories]
        if not all_stories:
            why, command = nothing_judged(inputs)
            parts.append(
                "\n".join([self._paint("unknown", "CANNOT JUDGE"), *self._labelled("", why), *self._next(command)])
            )
        return "\n\n".join(parts)

    def _input(self, attached: Input) -> list[str]:
        return self._wrap(f"{attached.name}: {input_line(attached)}", 0, 4)

    def _client(self, story: Story) -> list[str]:
        lines = self._wrap(f"{_TITLES[story.status]}  {story.name}  ({story.about})", 0, 4)
        word = _TITLES[story.status]
        lines[0] = self._paint(story.status, word) + lines[0][len(word) :]
        for finding in story.findings:
            lines += self._finding(finding)
        if story.healthy:
            lines += self._labelled("Healthy", ", ".join(story.healthy))
        for mode, reason in story.unknown:
            lines += self._labelled("Not judged", f"{mode}: {reason}")
        return lines + (self._next(story.next) if story.next else [])

    def _finding(self, finding: Finding) -> list[str]:
        since = f"since {finding.since}" if finding.since[:1].isdigit() else finding.since
        lines = self._labelled(finding.status.capitalize(), f"{finding.mode}, {since}. {finding.summary}")
        label = "Because"
        for fact in finding.facts:
            where = f" ({fact.where})" if fact.where else ""
            lines += self._labelled(label, f"{fact.time}, {fact.kind}: {fact.text}{where}")
            label = ""
            for name, frames in fact.frames:
                if len(fact.frames) > 1:
                    lines += self._wrap(f"{name}:", _LABEL + INDENT + 2, 2)
                for frame in frames:
                    lines += self._wrap(f"at {frame}", _LABEL + INDENT + 2, 3)
        if finding.cause:
            lines += self._labelled("Cause", finding.cause)
        if finding.detail:
            lines += self._labelled("Known", "; ".join(f"{name} {value}" for name, value in finding.detail))
        label = "Refuted by"
        for other in finding.alike:
            lines += self._labelled(label, other)
            label = ""
        lines += self._labelled("What to do", finding.remedy)
        return lines + self._labelled("Runbook", f"kafka-health explain {finding.mode}")

    def _next(self, command: str) -> list[str]:
        return self._labelled("Next", command)

    def _labelled(self, label: str, text: str) -> list[str]:
        pad = " " * INDENT + label.ljust(_LABEL)
        lines = self._wrap(text, INDENT + _LABEL, 0)
        lines[0] = pad + lines[0][len(pad) :]
        if label and self.colour:
            lines[0] = " " * INDENT + self._paint("bold", label) + lines[0][INDENT + len(label) :]
        return lines

    def _wrap(self, text: str, indent: int, hang: int) -> list[str]:
        pad = " " * indent
        plain = _CONTROL.sub("\ufffd", text.replace("\t", " "))
        return textwrap.wrap(
            plain, self.width, initial_indent=pad, subsequent_indent=pad + " " * hang, break_on_hyphens=False
        ) or [pad]

    def _paint(self, what: str, text: str) -> str:
        return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if self.colour else text
