"""Write the report of `diagnose` (the inputs, and each client's verdicts) as text and as an HTML page."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TextIO, TypeVar

from markupsafe import Markup

from clienthealth.diagnose.attachments.opening import Input
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.diagnose.story import Finding, ShownFact, Story, input_line, nothing_judged, stories, together
from clienthealth.model.values import grouped
from clienthealth.platform.html_page import foreign, rendered, templates

WIDTH, LEAST, MOST = 80, 40, 120
INDENT = 2
#: A short report merges inputs of one kind into one line if their number is at least `SEVERAL`.
FACTS, FRAMES, SEVERAL = 3, 4, 3
QUOTED = 160
_PACKAGE = "clienthealth.diagnose"
T = TypeVar("T")
_LABEL = 12
_COLOURS = {"confirmed": "1;31", "suspected": "1;33", "unknown": "1;36", "ok": "1;32", "dim": "2", "bold": "1"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def colour_of(stream: TextIO) -> bool:
    """True if the stream can show colours and the user did not turn them off (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Style(NamedTuple):
    """The form of a report. `width`: number of columns. `verbose`: True for the whole report, False for a short one."""

    width: int = WIDTH
    colour: bool = False
    verbose: bool = True


PLAIN = Style()


def style_of(stream: TextIO, verbose: bool) -> Style:
    """Return the style for a stream. The width is the terminal's width (40 to 120), or 80 without a terminal."""
    wide = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, LEAST), MOST) if stream.isatty() else WIDTH
    return Style(wide, colour_of(stream), verbose)


def printable(text: str) -> str:
    """Return the text without characters that could move a terminal's cursor."""
    return _CONTROL.sub("\ufffd", text.replace("\t", " "))


def report(diagnosis: Diagnosis, style: Style = PLAIN) -> str:
    """Return the report as text."""
    return _Report(style).text(stories(diagnosis), diagnosis.inputs)


def show(diagnosis: Diagnosis, verbose: bool = False) -> str:
    """Return the report as text, with the width and colours of standard output."""
    return report(diagnosis, style_of(sys.stdout, verbose))


class _Report:
    def __init__(self, style: Style) -> None:
        self.width, self.colour, self.verbose = style
        self.hidden = False
        self._template = templates(_PACKAGE).get_template("report.txt.j2")

    def text(self, all_stories: Sequence[Story], inputs: Sequence[Input]) -> str:
        parts = ["\n".join(self._inputs(inputs))] if inputs else []
        parts += map(self._client, self._once(all_stories))
        if not all_stories:
            why, command = nothing_judged(inputs)
            heading = self._paint("unknown", "CANNOT JUDGE")
            parts.append("\n".join([heading, self._labelled("", why), self._labelled("Next", command)]))
        if self.hidden:
            parts.append(self._paint("dim", "Shortened: --verbose shows the whole report."))
        return "\n\n".join(parts)

    def _once(self, all_stories: Sequence[Story]) -> list[Story]:
        """Return the stories to show.

        For a short report, stories that differ only in the clients' names are merged. Stories with findings or known
        issues are never merged.
        """

        def alike(story: Story) -> object:
            alone = story.findings or story.also or self.verbose
            same = (story.headline, story.about, story.healthy, story.unknown, story.next)
            return id(story) if alone else same

        groups = grouped(all_stories, alike).values()
        return [replace(group[0], name=self._some([story.name for story in group])) for group in groups]

    def _inputs(self, inputs: Sequence[Input]) -> Iterator[str]:
        def alike(attached: Input) -> object:
            whole = attached.used and attached.timed and not attached.left_out and not attached.unread
            return attached.what if whole and not self.verbose else id(attached)

        for group in grouped(inputs, alike).values():
            if len(group) < SEVERAL:
                yield from (self._wrap(f"{one.name}: {input_line(one)}", 0, 4) for one in group)
            else:
                yield self._wrap(f"{self._some([one.name for one in group])}: {together(group)}", 0, 4)

    def _some(self, names: Sequence[str]) -> str:
        if len(names) <= SEVERAL:
            return ", ".join(names)
        self.hidden = True
        return f"{', '.join(names[: SEVERAL - 1])} and {len(names) - SEVERAL + 1} more"

    def _chosen(self, every: Sequence[T], some: Sequence[T]) -> Sequence[T]:
        self.hidden |= not self.verbose and len(some) < len(every)
        return every if self.verbose else some

    def _facts(self, finding: Finding) -> Sequence[ShownFact]:
        facts = finding.facts
        return self._chosen(facts, facts if len(facts) <= FACTS else [facts[0], *facts[1 - FACTS :]])

    def _client(self, story: Story) -> str:
        word = story.headline.upper()
        title = self._wrap(f"{word}  {story.name}  ({story.about})", 0, 4)[len(word) :]
        issues = [also for also in story.also if not (also.known.hint and story.findings)]
        return self._template.render(
            story=story,
            verbose=self.verbose,
            FRAMES=FRAMES,
            headline=self._paint(story.status, word) + title,
            facts=self._facts,
            known_issues=self._chosen(story.also, issues),
            version=self._chosen(story.version, [bug for bug in story.version if bug[1]]),
            labelled=self._labelled,
            frame=lambda text, hang: self._wrap(text, _LABEL + INDENT + 2, hang),
            quoted=lambda text: text if self.verbose else textwrap.shorten(text, QUOTED, placeholder=" …"),
            in_brackets=lambda where: f" ({where})" if where else "",
        ).rstrip("\n")

    def _labelled(self, label: str, text: str) -> str:
        pad = " " * INDENT + label.ljust(_LABEL)
        lines = self._wrap(text, INDENT + _LABEL, 0)[len(pad) :]
        if label and self.colour:
            pad = " " * INDENT + self._paint("bold", label) + pad[INDENT + len(label) :]
        return pad + lines

    def _wrap(self, text: str, indent: int, hang: int) -> str:
        pad = " " * indent
        lines = textwrap.wrap(
            printable(text), self.width, initial_indent=pad, subsequent_indent=pad + " " * hang, break_on_hyphens=False
        )
        return "\n".join(lines) or pad

    def _paint(self, what: str, text: str) -> str:
        return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if self.colour else text


def html_report(diagnosis: Diagnosis) -> str:
    """Return the report as one HTML page without scripts and external resources. The text of inputs is escaped."""
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
    return foreign("".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text))
