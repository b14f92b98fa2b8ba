"""One dashboard per failure mode, made from its declaration: the verdict, then the measurements that bear it out.

Which measurements: those of the kinds of client that it can befall, and those that the mode names. What is in logs and
thread dumps alone has no series; the status page shows it, and every client links there.
"""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.configuration.installation import runbooks
from clienthealth.model.errors import CatalogueError
from clienthealth.modes import Mode
from clienthealth.settings import LinkSettings
from dashboards.page import Page, Section
from dashboards.panel import Panel, words
from dashboards.panels import groups, verdicts
from dashboards.panels import measurements as measured
from dashboards.scope import CLIENT_VARIABLES, GROUP_VARIABLES


def page(mode: Mode, links: LinkSettings) -> Page:
    """The dashboard of a mode."""
    producers, consumers = "producer" in mode.kinds, bool(mode.kinds & {"consumer", "legacy-consumer"})
    sections = [
        Section(
            "Verdict",
            (
                _meaning(mode, links),
                verdicts.confirmed(2, mode, width=8),
                verdicts.suspected(3, mode, width=8),
                verdicts.unknown(4, mode, width=8),
                verdicts.unhealthy(5, mode),
                verdicts.history(6, mode),
            ),
        )
    ]
    if producers:
        sections.append(Section("Evidence: buffer and I/O thread", _of_producers()))
    if consumers:
        sections.append(Section("Evidence: queues and polling", _of_consumers()))
        sections.append(Section("Harm: lag of the groups (choose by group and topic)", _of_groups()))
    for name in mode.panels:
        if not hasattr(measured, name):
            raise CatalogueError(f"mode.toml of {mode.id}: dashboards/panels/measurements.py has no panel {name}")
    if mode.panels:
        sections.append(Section("Evidence of its own", [getattr(measured, name)() for name in mode.panels]))
    sections.append(Section("Is it there", (measured.reporting(mode.kinds), measured.last_seen(mode.kinds, width=24))))
    return Page(
        name=f"mode-{mode.id}",
        title=f"Kafka clients: {mode.title[0].lower()}{mode.title[1:]}",
        description=mode.summary,
        variables=(*CLIENT_VARIABLES, *(GROUP_VARIABLES if consumers else ())),
        sections=sections,
    )


def _meaning(mode: Mode, links: LinkSettings) -> Panel:
    confused = "\n".join(f"- {confusion.looks_like}" for confusion in mode.confusions)
    text = (
        f"**{mode.summary}** {mode.impact}\n\n**What to do:** {mode.advice} "
        f"[Runbook]({runbooks(links, '${status_page}')}/{mode.id})\n\n**What only looks like it:**\n{confused}"
    )
    return words(1, mode.title, "What this failure is, what it costs and what to do.", text, height=9)


def _of_producers() -> Sequence[Panel]:
    return (
        measured.buffer_used(),
        measured.io_busy(),
        measured.waiting_threads(),
        measured.callback_time(),
        measured.queue_time(),
        measured.records_failed(),
        measured.request_latency(),
        measured.seconds_to_full(),
    )


def _of_consumers() -> Sequence[Panel]:
    return (measured.topic_queues(width=24), measured.last_poll(), measured.poll_idle())


def _of_groups() -> Sequence[Panel]:
    return (groups.lag_records(), groups.lag_by_topic())
