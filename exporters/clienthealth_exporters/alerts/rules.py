"""From alerts/rules/*.yml.j2 to the rules that Prometheus loads, with the addresses and labels of the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from clienthealth.configuration.installation import dashboard_uid, filled, kept_labels, listed, runbooks
from clienthealth.configuration.owners import OWNER_LABELS
from clienthealth.model.errors import SettingsError
from clienthealth.modes import modes
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.limits import BURNS, LIMITS

#: What is written by hand: the folder `alerts` of the repository, of which the wheel has what is needed here.
FILES = Path(__file__).with_name("files")
#: What the committed files carry where the settings name no Grafana: a place to search and replace.
GRAFANA_PLACEHOLDER = "http://127.0.0.1:3000"
#: What pages is evaluated so often: alerts/README.md adds up how long it takes from the onset of a failure to its page.
PAGING = "10s"
#: What is summed up over hours and days, which reads millions of samples.
COUNTING = "1m"
#: Topics of logs by their names, where the settings name no others: they may be silent when all is well.
LOG_TOPICS = "(.+[._-])?logs?([._-].+)?"


def rules(settings: Settings, dry_run: bool = False) -> dict[str, str]:
    """Return the rules files by name. In a dry run every severity is info. Raises SettingsError."""
    head = "# Dry run: every severity is info.\n" if dry_run else ""
    return {
        name: f"{head}# Generated from alerts/rules/{name}.j2 by `kafka-health generate`: do not edit.\n{text}"
        for name, text in rendered(settings, (lambda severity: "info") if dry_run else str).items()
    }


def rendered(settings: Settings, severity: Callable[[str], str], limits: object = LIMITS) -> dict[str, str]:
    """Return what the templates make of these values, by the name of the rules file, without empty lines."""
    values = {**_values(settings), "severity": severity, "levels": partial(_levels, severity), "limits": limits}
    made, folder = {}, FILES / "rules"
    for path in sorted(folder.glob("*.yml.j2")):
        text = _templates(folder).get_template(path.name).render(values)
        made[path.stem] = "".join(f"{line}\n" for line in text.splitlines() if line.strip())
    return made


def _levels(severity: Callable[[str], str], level: str) -> list[tuple[str, str]]:
    """Return the alerts of one condition: the severity of each, and what it asks of the recorded series.

    A page is a ticket where the series are quiet. An empty label is none: the alert itself says no more than before.
    """
    if level != "critical":
        return [(severity(level), "")]
    return [(severity(level), 'quiet=""'), (f'{severity("warning")}\n          quiet: ""', 'quiet="yes"')]


def _values(settings: Settings) -> dict[str, Any]:
    kept, links, quiet = kept_labels(settings), settings.links, settings.prometheus.ticket_only
    if not kept:
        raise SettingsError("[prometheus] keep_labels must name a label at least")
    # Of shards any one leads on, or answers for all.
    status_page = filled(
        links.status_page.rstrip("/"),
        lambda name: "1" if name == "shard" else f"{{{{ $labels.{name} | urlquery }}}}",
    )
    topics = settings.topics.logs if settings.topics.logs != Settings().topics.logs else ()
    # What must be there: labels of monitors and of exporters.
    clusters, shards = settings.prometheus.expect_clusters, settings.prometheus.expect_shards
    monitors = [{"cluster": cluster} for cluster in clusters]
    parts = [{"shard": f"{number + 1}/{shards}"} for number in range(shards)]
    exporters = [{**cluster, **part} for cluster in monitors or [{}] for part in parts or [{}]]
    return {
        "kept": listed(kept),
        "quiet": {label: text for label, text in quiet.items() if label in (*kept, *OWNER_LABELS)},
        "owner_labels": listed(OWNER_LABELS),
        "modes": modes().values(),
        "burns": BURNS,
        "allowed": f"{1 - settings.review.slo_target:.6g}",
        "status_page": status_page,
        "runbooks": runbooks(links, status_page),
        "dashboards": links.dashboards.rstrip("/") or GRAFANA_PLACEHOLDER,
        "log_topics": _either(topics) or LOG_TOPICS,
        "paging_interval": PAGING,
        "counting_interval": COUNTING,
        "expected": _either(clusters),
        "monitors": monitors,
        "exporters": [*filter(None, exporters)],
    }


def _either(names: tuple[str, ...]) -> str:
    """Return an expression for these names, as a string of PromQL has it."""
    return "|".join(re.escape(name).replace("\\", "\\\\") for name in names)


@cache
def _templates(folder: Path) -> Environment:
    """Return the templates of a folder. Their marks are none of Prometheus's own templates, nor of PromQL."""
    templates = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        line_statement_prefix="%%",
        line_comment_prefix="##",
        finalize=lambda value: f"{value:g}" if isinstance(value, float) else value,
    )
    templates.filters["quoted"] = partial(json.dumps, ensure_ascii=False)
    templates.globals["dashboard_uid"] = dashboard_uid
    return templates
