"""The report as one self-contained page for a ticket: the look of the status page, no script, nothing from elsewhere.

Log text is hostile: whatever comes from an input is escaped where it enters the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clienthealth.attachments.input import Input
from clienthealth.diagnose.story import Fact, Finding, Story, input_line, nothing_judged, stories
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread
from clienthealth.model.verdicts import Verdict
from clienthealth.platform.html_page import foreign, page

_TITLES = {"confirmed": "Confirmed", "suspected": "Suspected", "unknown": "Cannot judge", "ok": "Healthy"}
_PRINT = (
    "<style>@media print{:root{--page:#fff;--card:#fff;--line:#999;--text:#000;--muted:#333;--bad-text:#a31023;"
    "--bad-tint:#fff;--warn-tint:#fff;--code:#fff}body{max-width:none;padding:0;font-size:11pt}.card,.verdict,li"
    "{break-inside:avoid}*{print-color-adjust:exact}}pre{white-space:pre-wrap;margin:4px 0 0}</style>"
)


def html_report(
    clients: Sequence[tuple[Client, Sequence[Verdict]]],
    inputs: Sequence[Input],
    dumps: Mapping[Source, Sequence[DumpedThread]] | None = None,
) -> str:
    """The page."""
    all_stories = stories(clients, inputs, dumps)
    ill = sum(bool(story.findings) for story in all_stories)
    body = [_PRINT, "<header><h1>Kafka client diagnosis</h1></header>"]
    body += [_client(story) for story in all_stories] or [_nothing(inputs)]
    body += ["<h2>What was read</h2>", _inputs(inputs)]
    body.append("<footer>Written by <code>kafka-health diagnose</code>. Times are UTC.</footer>")
    return page(f"({ill}) Kafka client diagnosis" if ill else "Kafka client diagnosis", "".join(body))


def _nothing(inputs: Sequence[Input]) -> str:
    why, command = nothing_judged(inputs)
    return (
        f'<article class="card"><div class="who"><h3>Cannot judge</h3></div><p>{_text(why)}.</p>'
        f'<p class="todo">Next: {_text(command)}</p></article>'
    )


def _client(story: Story) -> str:
    parts = [
        f'<article class="card {story.status}"><div class="who"><h3>{_text(story.name)}</h3>'
        f'<span class="small muted">{_text(story.about)}</span>'
        f'<span class="badge {story.status}">{_TITLES[story.status]}</span></div>'
    ]
    parts += [_finding(finding) for finding in story.findings]
    if story.healthy:
        parts.append(f'<p class="small">Healthy: {_text(", ".join(story.healthy))}</p>')
    for mode, reason in story.unknown:
        parts.append(f'<p class="small muted">Not judged: {_text(mode)}: {_text(reason)}</p>')
    if story.next:
        parts.append(f'<p class="todo">Next: {_text(story.next)}</p>')
    return "".join([*parts, "</article>"])


def _finding(finding: Finding) -> str:
    facts = "".join(_fact(fact) for fact in finding.facts)
    alike = "".join(f"<li>{_text(other)}</li>" for other in finding.alike)
    details = "; ".join(f"{name} {value}" for name, value in finding.detail)
    parts = [
        f'<section class="verdict {finding.status}"><strong>{_text(finding.title)}</strong> '
        f'<span class="tag">{finding.status}</span> <span class="small muted">{_text(finding.mode)}, since '
        f"{_text(finding.since)}</span><p>{_text(finding.summary)}</p>",
        f"<p>{_text(finding.cause)}</p>" if finding.cause else "",
        f"<ol>{facts}</ol>",
        f'<p class="small">{_text(details)}</p>' if details else "",
        f'<p class="todo">{_text(finding.remedy)}</p>',
        f'<p class="small muted">What would refute it:</p><ul class="small">{alike}</ul></section>',
    ]
    return "".join(parts)


def _fact(fact: Fact) -> str:
    where = f' <span class="muted small">{_text(fact.where)}</span>' if fact.where else ""
    stacks = "".join(
        f'<pre class="mono small">{_text(name)}\n{_text(chr(10).join(f"  at {frame}" for frame in frames))}</pre>'
        for name, frames in fact.frames
    )
    return (
        f'<li><span class="tag">{_text(fact.kind)}</span> <span class="muted small">{_text(fact.time)}</span> '
        f"{_text(fact.text)}{where}{stacks}</li>"
    )


def _inputs(inputs: Sequence[Input]) -> str:
    rows = "".join(f"<tr><td><code>{_text(i.name)}</code></td><td>{_text(input_line(i))}</td></tr>" for i in inputs)
    return f'<div class="list scroll"><table><tbody>{rows}</tbody></table></div>'


def _text(text: str) -> str:
    return foreign("".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text))
