"""The dashboard of a failure mode, made from its mode.toml."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from clienthealth.configuration.installation import listed, runbooks
from clienthealth.model.errors import CatalogueError
from clienthealth.modes import Mode
from clienthealth.settings import LinkSettings
from dashboards.page import Page, Section
from dashboards.panel import Panel, with_no_data_text, words
from dashboards.panels import evidence, groups, verdicts
from dashboards.panels import measurements as measured
from dashboards.scope import CLIENT_VARIABLES, GROUP_VARIABLES, failing_or_chosen

_OF_PRODUCERS = (
    "buffer_used", "io_busy", "waiting_threads", "callback_time", "queue_time", "records_failed", "request_latency",
    "seconds_to_full",
)  # fmt: skip
_OF_CONSUMERS = ("topic_queues", "last_poll", "poll_idle")


def page(mode: Mode, links: LinkSettings) -> Page:
    """Return the dashboard of a failure mode. Raises CatalogueError if mode.toml names a panel that does not exist."""
    producers, consumers = "producer" in mode.kinds, bool(mode.kinds & {"consumer", "legacy-consumer"})
    sections = [
        Section("What decides", [_measured(mode, name) for name in mode.panels]),
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
        ),
    ]
    if producers:
        sections.append(Section("Evidence: buffer and I/O thread", _others(mode, _OF_PRODUCERS)))
    if consumers:
        sections.append(Section("Evidence: queues and polling", _others(mode, _OF_CONSUMERS)))
        sections.append(Section("Harm: lag of the groups (choose by group and topic)", _of_groups()))
    among = failing_or_chosen(mode.id)
    present = (measured.reporting(mode.kinds, among=among), measured.last_seen(mode.kinds, width=24, among=among))
    sections.append(Section("Does the client report", present))
    return Page(
        name=f"mode-{mode.id}",
        title=f"Kafka clients: {mode.title[0].lower()}{mode.title[1:]}",
        description=mode.summary,
        variables=(*CLIENT_VARIABLES, *(GROUP_VARIABLES if consumers else ())),
        sections=sections,
    )


def _measured(mode: Mode, name: str) -> Panel:
    made = next((vars(module)[name] for module in (evidence, measured) if name in vars(module)), None)
    if not inspect.isfunction(made) or made.__module__ not in (evidence.__name__, measured.__name__):
        raise CatalogueError(f"mode.toml of {mode.id}: neither evidence.py nor measurements.py has a function {name}")
    parameters = inspect.signature(made).parameters
    needed = [p.name for p in parameters.values() if p.default is p.empty]
    if needed or "among" not in parameters:
        lack = f"needs {listed(needed)}" if needed else "takes no `among`"
        raise CatalogueError(
            f"mode.toml of {mode.id}: the panel {name} {lack}; a panel's function must take `among`, and each of its "
            "parameters must have a default: see buffer_used for an example"
        )
    return with_no_data_text(made(among=failing_or_chosen(mode.id)), "none fail")


def _others(mode: Mode, names: Sequence[str]) -> list[Panel]:
    return [_measured(mode, name) for name in names if name not in mode.panels]


def _meaning(mode: Mode, links: LinkSettings) -> Panel:
    confused = "\n".join(f"- {confusion.looks_like}" for confusion in mode.confusions)
    text = (
        f"**{mode.summary}** {mode.impact}\n\n**What to do:** {mode.advice} "
        f"[Runbook]({runbooks(links, '${status_page}')}/{mode.id})\n\n**What only looks like it:**\n{confused}"
    )
    return words(1, mode.title, "What this failure is, what it costs and what to do.", text, height=10)


def _of_groups() -> Sequence[Panel]:
    return (groups.lag_records(), groups.lag_by_topic())
