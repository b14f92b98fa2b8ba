"""Build the alert rules and Alertmanager's configuration that `kafka-health alerts` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from clienthealth.configuration.installation import KEPT, dashboard_uid, filled, kept_labels, listed, runbooks
from clienthealth.configuration.owners import OWNER_LABELS, Owners, read_owners
from clienthealth.model.errors import SettingsError
from clienthealth.modes import modes
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.limits import BURNS, LIMITS

FILES = Path(__file__).with_name("files")
GRAFANA_PLACEHOLDER = "http://127.0.0.1:3000"
PAGING = "10s"
COUNTING = "1m"
#: Regular expression by which rules recognise the names of log topics if `[topics] logs` has its default.
LOG_TOPICS = "(.+[._-])?logs?([._-].+)?"
_EXAMPLE = {"pager": "payments-oncall", "team": "payments"}


def routes_of(owners: Owners, text: str) -> str:
    """Return `text` (alertmanager.yml) with the routes and receivers of `owners` in place of the examples.

    Raises SettingsError if two teams or two pagers get the same file name.
    """
    pagers = [owner.pager for owner in owners.teams() if owner.pager]
    names = {"pager": pagers, "team": [owner.team for owner in owners.teams()]}

    def each(match: re.Match[str]) -> str:
        kind, block = match[1], match[2]
        blocks, files = [], dict[str, str]()
        for name in dict.fromkeys(names[kind]):
            matched = json.dumps(name, ensure_ascii=False).replace("'", "''")
            # `file` is the name of the pager or team, with `-` in place of characters such as `/`. The file with the
            # receiver's secret has this name.
            file = re.sub(r"[^\w.-]+", "-", name)
            if (other := files.setdefault(file, name)) != name:
                raise SettingsError(f"[owners] files: {kind}s '{other}' and '{name}' get the same file name '{file}'")
            of_owner = block.replace(json.dumps(_EXAMPLE[kind]), matched)
            blocks.append(re.sub(rf"(: |/|#){_EXAMPLE[kind]}\b", rf"\g<1>{file}", of_owner))
        return "".join(blocks)

    return re.sub(r"^ *# for each (pager|team)\n(.*?)^ *# end\n", each, text, flags=re.DOTALL | re.MULTILINE)


def write(out: Path, settings: Settings, dry_run: bool) -> list[Path]:
    """Write rules, alertmanager.yml and notification templates into the folder `out`. Return the paths of the files.

    Raises SettingsError if a file of owners is unreadable, if two owners get the same file name, or if a label in the
    settings is invalid.
    """
    routes = routes_of(read_owners(settings.owners.files), (FILES / "alertmanager.yml").read_text(encoding="utf-8"))
    written = []
    for folder, name, text in [
        *(("rules", name, text) for name, text in rules(settings, dry_run).items()),
        ("", "alertmanager.yml", routes.replace(listed(KEPT), listed(kept_labels(settings)))),
        *(("templates", t.name, t.read_text(encoding="utf-8")) for t in sorted((FILES / "templates").glob("*.tmpl"))),
    ]:
        path = out / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def rules(settings: Settings, dry_run: bool = False) -> dict[str, str]:
    """Return the text of each rules file, by file name. In a dry run every severity is info.

    Raises SettingsError if a label in the settings has an invalid name.
    """
    head = "# Dry run: every severity is info.\n" if dry_run else ""
    return {
        name: f"{head}# Generated from alerts/rules/{name}.j2 by `kafka-health generate`: do not edit.\n{text}"
        for name, text in rendered(settings, (lambda severity: "info") if dry_run else str).items()
    }


def rendered(settings: Settings, severity: Callable[[str], str], limits: object = LIMITS) -> dict[str, str]:
    """Fill the template of each rules file. Return the texts, by file name.

    `severity`: maps a severity in a template to the severity in the rule.
    """

    def levels(level: str) -> list[tuple[str, str]]:
        """Return (severity, label matcher) for each rule of an alert with severity `level`.

        Series with the label `quiet` never page.
        """
        if level != "critical":
            return [(severity(level), "")]
        return [(severity(level), 'quiet=""'), (f'{severity("warning")}\n          quiet: ""', 'quiet="yes"')]

    values = {**_values(settings), "severity": severity, "levels": levels, "limits": limits}
    made, folder = {}, FILES / "rules"
    for path in sorted(folder.glob("*.yml.j2")):
        text = templates(folder).get_template(path.name).render(values)
        made[path.stem] = "".join(f"{line}\n" for line in text.splitlines() if line.strip())
    return made


@cache
def templates(folder: Path) -> Environment:
    """Return a Jinja environment for the templates in `folder`.

    The templates' delimiters are `<< >>` and `<% %>`, because Prometheus uses `{{ }}`.
    """
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


def _values(settings: Settings) -> dict[str, Any]:
    kept, links, quiet = kept_labels(settings), settings.links, settings.prometheus.ticket_only
    # Alerts have no label `shard`, so they link to shard 1.
    status_page = filled(
        links.status_page.rstrip("/"), lambda name: "1" if name == "shard" else f"{{{{ $labels.{name} | urlquery }}}}"
    )
    topics = settings.topics.logs if settings.topics.logs != Settings().topics.logs else ()
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
    return "|".join(re.escape(name).replace("\\", "\\\\") for name in names)
