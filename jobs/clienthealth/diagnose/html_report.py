"""The report as one self-contained page for a ticket: the look of the status page, no script, nothing from elsewhere.

Log text is hostile: the template escapes whatever comes from an input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from clienthealth.diagnose.attachments.input import Input
from clienthealth.diagnose.story import AlsoSeen, input_line, nothing_judged, stories
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread
from clienthealth.model.verdicts import Verdict
from clienthealth.platform.html_page import foreign, rendered, templates

_PACKAGE = "clienthealth.diagnose"


def html_report(
    clients: Sequence[tuple[Client, Sequence[Verdict]]],
    inputs: Sequence[Input],
    dumps: Mapping[Source, Sequence[DumpedThread]] | None = None,
    also_seen: AlsoSeen | None = None,
) -> str:
    """The page."""
    told = stories(clients, inputs, dumps, also_seen)
    templates(_PACKAGE).filters["text"] = _text
    return rendered(
        _PACKAGE,
        "report.html.j2",
        refresh=None,
        ill=sum(bool(story.findings) for story in told),
        stories=told,
        nothing=None if told else nothing_judged(inputs),
        inputs=[(one.name, input_line(one)) for one in inputs],
    )


def _text(text: str) -> Markup:
    """What is no character of a text is shown as such."""
    return foreign("".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text))
