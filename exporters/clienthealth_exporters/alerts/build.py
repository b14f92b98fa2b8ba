"""Everything that warns: rules, the head of each runbook, Alertmanager's configuration.

`kafka-health generate` writes the committed files (placeholders for addresses), `kafka-health alerts` all that
Prometheus and Alertmanager load, with the addresses of the settings.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from clienthealth.configuration.installation import keeping
from clienthealth.configuration.owners import Owners, read_owners
from clienthealth.settings import Settings
from clienthealth_exporters.alerts.rules import FILES, rules
from clienthealth_exporters.alerts.runbook_heads import catalogue, with_head

#: The owner that alertmanager.yml shows.
_EXAMPLE = {"pager": "payments-oncall", "team": "payments"}


def generate() -> dict[str, str]:
    """Path from the repository's root → content of the committed files, addresses as placeholders."""
    files = {f"alerts/rules/{name}": text for name, text in rules(Settings()).items()}
    alerts = catalogue()
    for path in sorted((FILES / "runbooks").glob("*.md")):
        files[f"alerts/runbooks/{path.name}"] = with_head(path.stem, path.read_text(encoding="utf-8"), alerts)
    return files


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
    routes = routes_of(read_owners(settings.owners.files), (FILES / "alertmanager.yml").read_text(encoding="utf-8"))
    written = []
    for folder, name, text in [
        *(("rules", name, text) for name, text in rules(settings, dry_run).items()),
        ("", "alertmanager.yml", keeping(routes, settings)),
        *(("templates", t.name, t.read_text(encoding="utf-8")) for t in sorted((FILES / "templates").glob("*.tmpl"))),
    ]:
        path = out / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
