"""Everything that warns: rules from the failure modes, the head of each runbook, Alertmanager's configuration.

`kafka-health generate` writes the committed files (placeholders for addresses), `kafka-health alerts` all that
Prometheus and Alertmanager load, with the addresses of the settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from clienthealth.configuration.installation import keeping
from clienthealth.configuration.owners import Owners, read_owners
from clienthealth.modes import modes
from clienthealth.settings import Settings
from clienthealth_exporters.alerts.declared import declared
from clienthealth_exporters.alerts.failure_modes import failing, failure_mode_alerts
from clienthealth_exporters.alerts.fleet import fleet_alerts, silences, silent_alerts, storms
from clienthealth_exporters.alerts.measurements import client_alerts, lag_alerts, lag_recordings
from clienthealth_exporters.alerts.owners import owner_recordings
from clienthealth_exporters.alerts.rule import Alert, Links, Recording, rules_file, severities
from clienthealth_exporters.alerts.runbook_heads import with_head
from clienthealth_exporters.alerts.slo import burn_alerts, counts, recordings
from clienthealth_exporters.alerts.throughput import sent_alerts, sent_recordings
from clienthealth_exporters.alerts.yaml_text import scalar

#: What is written by hand: the folder `alerts` of the repository, of which the wheel has what is needed here.
FILES = Path(__file__).with_name("files")
_GROUP = "kafka-client-health"
#: The owner that alertmanager.yml shows.
_EXAMPLE = {"pager": "payments-oncall", "team": "payments"}
#: What pages is evaluated so often: alerts/README.md adds up how long it takes from the onset of a failure to its page.
PAGING = "10s"
#: What is summed up over hours and days, which reads millions of samples.
COUNTING = "1m"
_SOURCES = "exporters/clienthealth_exporters/alerts"


def generate(settings: Settings | None = None, dry_run: bool = False) -> dict[str, str]:
    """Path from the repository's root → content. Without settings the committed files, addresses as placeholders."""
    chosen = settings or Settings()
    files = rules(chosen, dry_run)
    alerts = catalogue(chosen)
    for path in sorted((FILES / "runbooks").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        files[f"alerts/runbooks/{path.name}"] = with_head(path.stem, text, alerts, watchdog(chosen, dry_run=False))
    return files


def catalogue(settings: Settings) -> list[Alert]:
    """All generated alerts; those of watchdog.yml are written by hand."""
    links = Links.from_settings(settings)
    return [
        *fleet_alerts(links),
        *failure_mode_alerts(modes().values(), links),
        *client_alerts(links),
        *lag_alerts(links),
        *burn_alerts(links),
        *silent_alerts(links),
        *sent_alerts(links),
    ]


def rules(settings: Settings, dry_run: bool) -> dict[str, str]:
    """The generated rules files."""
    links = Links.from_settings(settings)
    failures: dict[str, Sequence[Alert | Recording]] = {
        f"{_GROUP}-failure-modes": [
            *counts(),
            *storms(),
            *owner_recordings(),
            failing(),
            *fleet_alerts(links),
            *failure_mode_alerts(modes().values(), links),
        ]
    }
    measured: dict[str, Sequence[Alert | Recording]] = {
        f"{_GROUP}-clients": client_alerts(links),
        f"{_GROUP}-lag": [*lag_recordings(), *lag_alerts(links)],
    }
    budget: dict[str, Sequence[Alert | Recording]] = {
        f"{_GROUP}-slo": [*recordings(settings.review.slo_target), *burn_alerts(links)],
        f"{_GROUP}-silence": [*silences(), *silent_alerts(links)],
    }
    sent: dict[str, Sequence[Alert | Recording]] = {
        f"{_GROUP}-throughput": [*sent_recordings(), *sent_alerts(links)],
    }
    severe = severities(settings, dry_run)
    files = {
        "alerts/rules/throughput.yml": rules_file(f"{_SOURCES}/throughput.py", sent, links, severe, COUNTING),
        "alerts/rules/failure-modes.yml": rules_file("jobs/clienthealth/modes", failures, links, severe, PAGING),
        "alerts/rules/measurements.yml": rules_file(f"{_SOURCES}/measurements.py", measured, links, severe),
        "alerts/rules/slo.yml": rules_file(f"{_SOURCES}/slo.py and fleet.py", budget, links, severe, COUNTING),
    }
    if dry_run:
        files = {path: f"# Dry run: every severity is info.\n{text}" for path, text in files.items()}
    return {path: keeping(text, settings) for path, text in files.items()}


def watchdog(settings: Settings, dry_run: bool) -> str:
    """The hand-written rules with the addresses of the settings in place of the placeholders."""
    text = keeping((FILES / "watchdog.yml").read_text(encoding="utf-8"), settings)
    placeholder, links = Links.from_settings(Settings()), Links.from_settings(settings)
    text = text.replace(f" {placeholder.runbooks}/", f" {links.runbooks}/")
    text = text.replace(f" {placeholder.dashboards}/", f" {links.dashboards}/")
    text = declared(text, settings)
    written, severe = severities(Settings()), severities(settings, dry_run)
    for level in ("critical", "warning"):
        text = text.replace(f"severity: {scalar(written(level))}\n", f"severity: {scalar(severe(level))}\n")
    return text


def alertmanager_config(webhook_url: str, group_wait: str | None = None) -> str:
    """Alertmanager's configuration with the same routes and inhibitions, but every receiver a local webhook.

    For the demo and for tests: no secret, no template. The heartbeat and `nobody` stay silent. `group_wait`: how long
    a new group is held back, and further news of it, where the committed times are too long to wait for.
    """
    text = (FILES / "alertmanager.yml").read_text(encoding="utf-8")
    routing = text.partition("\nreceivers:\n")[0]
    if group_wait is not None:
        routing = re.sub(r"(group_wait|group_interval): \w+", rf"\1: {group_wait}", routing)
    receivers = ["receivers:", "  - name: nobody", "  - name: heartbeat"]
    for name in sorted(set(re.findall(r"^  - name: (\S+)$", text, re.MULTILINE)) - {"nobody", "heartbeat"}):
        receivers += [f"  - name: {name}", "    webhook_configs:", f"      - url: {json.dumps(webhook_url)}"]
        receivers += ["        send_resolved: true"]
    return "\n".join([routing, *receivers]) + "\n"


def routes_of(owners: Owners, text: str) -> str:
    """Alertmanager's configuration with routes and receivers of these owners in place of those of the example."""
    pagers = [owner.pager for owner in owners.teams() if owner.pager]
    names = {"pager": pagers, "team": [owner.team for owner in owners.teams()]}

    def each(match: re.Match[str]) -> str:
        kind, block = match[1], match[2]
        return "".join(_of_owner(block, _EXAMPLE[kind], name) for name in dict.fromkeys(names[kind]))

    return re.sub(r"^ *# for each (pager|team)\n(.*?)^ *# end\n", each, text, flags=re.DOTALL | re.MULTILINE)


def _of_owner(block: str, example: str, name: str) -> str:
    """A block of the example for an owner: the name itself where alerts are matched, else what may be a file's name."""
    matched = json.dumps(name, ensure_ascii=False).replace("'", "''")
    block = block.replace(json.dumps(example), matched)
    return re.sub(rf"(: |/|#){example}\b", lambda match: match[1] + re.sub(r"[^\w.-]+", "-", name), block)


def write(out: Path, settings: Settings, dry_run: bool) -> list[Path]:
    """Write everything that Prometheus and Alertmanager load into a folder. Raises SettingsError for owners' files."""
    files = {Path(path).name: text for path, text in rules(settings, dry_run).items()}
    files["watchdog.yml"] = watchdog(settings, dry_run)
    routes = routes_of(read_owners(settings.owners.files), (FILES / "alertmanager.yml").read_text(encoding="utf-8"))
    written = []
    for folder, name, text in [
        *(("rules", name, text) for name, text in files.items()),
        ("", "alertmanager.yml", keeping(routes, settings)),
        *(("templates", t.name, t.read_text(encoding="utf-8")) for t in sorted((FILES / "templates").glob("*.tmpl"))),
    ]:
        path = out / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
