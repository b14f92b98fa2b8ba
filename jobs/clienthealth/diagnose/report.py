"""The report for people: inputs, then each client with its verdict, the worst first; for a terminal, and as a page."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TextIO, TypeVar

from markupsafe import Markup

from clienthealth.diagnose.attachments.opening import Input
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.diagnose.story import Finding, Story, input_line, nothing_judged, stories, together
from clienthealth.model.wording import by_reason
from clienthealth.platform.html_page import foreign, rendered, templates

WIDTH, LEAST, MOST = 80, 40, 120
INDENT = 2
#: Number of facts per verdict, and of frames per thread, shown on one screen. SEVERAL: number of inputs of one kind
#: that share a line, and of names that are shown in full.
FACTS, FRAMES, SEVERAL = 3, 4, 3
#: Maximum characters of a quoted line.
QUOTED = 160
T = TypeVar("T")
_LABEL = 12
_COLOURS = {"confirmed": "1;31", "suspected": "1;33", "unknown": "1;36", "ok": "1;32", "dim": "2", "bold": "1"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def colour_of(stream: TextIO) -> bool:
    """True if the stream shows colours, and they are wanted (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Style(NamedTuple):
    """How a report is written. `verbose`: True for all of it; else a screen per verdict, and equal parts once."""

    width: int = WIDTH
    colour: bool = False
    verbose: bool = True


PLAIN = Style()


def style_of(stream: TextIO, verbose: bool) -> Style:
    """Return the style that fits the stream: the width of a terminal (within limits), 80 elsewhere."""
    wide = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, LEAST), MOST) if stream.isatty() else WIDTH
    return Style(wide, colour_of(stream), verbose)


def printable(text: str) -> str:
    """Return the text without characters that could move a terminal's cursor."""
    return _CONTROL.sub("\ufffd", text.replace("\t", " "))


def report(diagnosis: Diagnosis, style: Style = PLAIN) -> str:
    """Return the report as text."""
    return _Report(style).text(stories(diagnosis), diagnosis.inputs)


def show(diagnosis: Diagnosis, verbose: bool = False) -> str:
    """Return the report in a form that standard output can show."""
    return report(diagnosis, style_of(sys.stdout, verbose))


class _Report:
    def __init__(self, style: Style) -> None:
        self.width, self.colour, self.verbose = style
        self.hidden = False

    def text(self, all_stories: Sequence[Story], inputs: Sequence[Input]) -> str:
        parts = ["\n".join(self._inputs(inputs))] if inputs else []
        parts += ["\n".join(self._client(story)) for story in self._once(all_stories)]
        if not all_stories:
            why, command = nothing_judged(inputs)
            lines = [self._paint("unknown", "CANNOT JUDGE"), *self._labelled("", why), *self._labelled("Next", command)]
            parts.append("\n".join(lines))
        if self.hidden:
            parts.append(self._paint("dim", "Shortened: --verbose shows all of it."))
        return "\n\n".join(parts)

    def _once(self, all_stories: Sequence[Story]) -> list[Story]:
        """Group clients whose stories are equal and contain no finding."""
        alike: dict[object, list[Story]] = {}
        for number, story in enumerate(all_stories):
            same = (story.headline, story.about, story.healthy, story.unknown, story.next)
            alone = story.findings or story.also or self.verbose
            alike.setdefault(number if alone else same, []).append(story)
        return [replace(group[0], name=self._some([story.name for story in group])) for group in alike.values()]

    def _inputs(self, inputs: Sequence[Input]) -> list[str]:
        """Return lines on the attachments; many of one kind that were read completely share one line."""
        alike: dict[object, list[Input]] = {}
        for number, attached in enumerate(inputs):
            whole = attached.used and attached.timed and not attached.left_out and not attached.unread
            alike.setdefault(attached.what if whole and not self.verbose else number, []).append(attached)
        lines: list[str] = []
        for group in alike.values():
            if len(group) < SEVERAL:
                for attached in group:
                    lines += self._wrap(f"{attached.name}: {input_line(attached)}", 0, 4)
            else:
                lines += self._wrap(f"{self._some([a.name for a in group])}: {together(group)}", 0, 4)
        return lines

    def _some(self, names: Sequence[str]) -> str:
        if len(names) <= SEVERAL:
            return ", ".join(names)
        self.hidden = True
        return f"{', '.join(names[: SEVERAL - 1])} and {len(names) - SEVERAL + 1} more"

    def _most(self, shown: Sequence[T], most: int) -> Sequence[T]:
        """Return all items, or only the first and the newest ones if there are more than `most`."""
        if self.verbose or len(shown) <= most:
            return shown
        self.hidden = True
        return [shown[0], *shown[-(most - 1) :]] if most > 1 else shown[:1]

    def _client(self, story: Story) -> list[str]:
        word = story.headline.upper()
        lines = self._wrap(f"{word}  {story.name}  ({story.about})", 0, 4)
        lines[0] = self._paint(story.status, word) + lines[0][len(word) :]
        for finding in story.findings:
            lines += self._finding(finding)
        label = "Also seen"
        listed = [also for also in story.also if self.verbose or not (also.known.hint and story.findings)]
        self.hidden |= len(listed) < len(story.also)
        for also in listed:
            where = f" ({also.where})" if also.where else ""
            text = also.text if self.verbose else textwrap.shorten(also.text, QUOTED, placeholder=" …")
            issue = f"{also.known.says}, {also.count}. {also.known.sentence}"
            lines += self._labelled(label, f"{issue} “{text}”{where}")
            lines += self._labelled("", also.action)
            label = ""
        shown = [text for text, is_found in story.version if is_found or self.verbose]
        for number, text in enumerate(shown):
            lines += self._labelled("" if number else "Version", text)
        self.hidden |= len(shown) < len(story.version)
        if story.healthy:
            lines += self._labelled("Healthy", ", ".join(story.healthy))
        for mode, reason in story.unknown:
            lines += self._labelled("Not judged", f"{mode}: {reason}")
        for mode, names in story.adjusted if self.verbose else ():
            lines += self._labelled("Adjusted", f"{mode}: {names}")
        return lines + (self._labelled("Next", story.next) if story.next else [])

    def _finding(self, finding: Finding) -> list[str]:
        verdict, explained = finding.verdict, finding.explained
        since = f"since {finding.since}" if finding.since[:1].isdigit() else finding.since
        lines = self._labelled(verdict.status.capitalize(), f"{verdict.mode}, {since}. {explained.summary}")
        label = "Because"
        for fact in self._most(finding.facts, FACTS):
            where = f" ({fact.where})" if fact.where else ""
            lines += self._labelled(label, f"{fact.time}, {fact.kind}: {fact.text}{where}")
            label = ""
            for name, frames in fact.frames:
                if len(fact.frames) > 1:
                    lines += self._wrap(f"{name}:", _LABEL + INDENT + 2, 2)
                for frame in frames if self.verbose else frames[:FRAMES]:
                    lines += self._wrap(f"at {frame}", _LABEL + INDENT + 2, 3)
        if explained.cause:
            lines += self._labelled("Cause", explained.cause)
        if finding.detail:
            lines += self._labelled("Known", "; ".join(f"{name} {value}" for name, value in finding.detail))
        for label, others in (("Ruled out", verdict.ruled_out), ("Left open", verdict.not_ruled_out)):
            if others:
                lines += self._labelled(label, by_reason(others))
        lines += self._labelled("What to do", finding.remedy)
        return lines + self._labelled("Runbook", f"kafka-health explain {verdict.mode}")

    def _labelled(self, label: str, text: str) -> list[str]:
        pad = " " * INDENT + label.ljust(_LABEL)
        lines = self._wrap(text, INDENT + _LABEL, 0)
        lines[0] = pad + lines[0][len(pad) :]
        if label and self.colour:
            lines[0] = " " * INDENT + self._paint("bold", label) + lines[0][INDENT + len(label) :]
        return lines

    def _wrap(self, text: str, indent: int, hang: int) -> list[str]:
        pad = " " * indent
        return textwrap.wrap(
            printable(text), self.width, initial_indent=pad, subsequent_indent=pad + " " * hang, break_on_hyphens=False
        ) or [pad]

    def _paint(self, what: str, text: str) -> str:
        return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if self.colour else text


_PACKAGE = "clienthealth.diagnose"


def html_report(diagnosis: Diagnosis) -> str:
    """Return the report as one page for a ticket: the status page's style, without scripts and foreign resources.

    Log text is hostile: the template escapes whatever comes from an input.
    """
    listed, inputs = stories(diagnosis), diagnosis.inputs
    templates(_PACKAGE).filters["text"] = _text
    return rendered(
        _PACKAGE,
        "report.html.j2",
        refresh=None,
        ill=sum(bool(story.findings) for story in listed),
        stories=listed,
        nothing=None if listed else nothing_judged(inputs),
        inputs=[(one.name, input_line(one)) for one in inputs],
    )


def _text(text: str) -> Markup:
    """Return a text in which invalid characters are visible."""
    return foreign("".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text))
