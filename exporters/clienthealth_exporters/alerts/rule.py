"""What an alert rule is, and how it becomes YAML for Prometheus 2.42 to 3.x."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from clienthealth.configuration.installation import KEPT, chosen, equals, kept_labels, listed, values
from clienthealth.configuration.owners import OWNER_LABELS
from clienthealth.settings import Settings
from clienthealth.settings.links import filled, runbooks
from clienthealth_exporters.alerts.yaml_text import Commented, Node, document

#: What the committed files carry where the settings name no Grafana: a place to search and replace.
GRAFANA_PLACEHOLDER = "http://127.0.0.1:3000"
CLIENT = ("service", "host", "instance", "client_id")


def by(*labels: str) -> str:
    """`by (…)` of these labels and of those that keep installations apart."""
    return f"by ({listed((*KEPT, *labels))})"


def on(*labels: str) -> str:
    """`on (…)` of these labels and of those that keep installations apart."""
    return f"on ({listed((*KEPT, *labels))})"


def queried(query: str, *labels: str) -> str:
    """The beginning of a template that asks for a query, in which LABELS stands for those of the alert."""
    names = (*KEPT, *labels)
    return f"{{{{ with printf `{query.replace('LABELS', equals(names))}` {values(names)} | query }}}}"


#: What an alert's severity becomes in a rules file.
Severe = Callable[[str], str]


def severities(settings: Settings, dry_run: bool = False) -> Severe:
    """What would page opens a ticket where the labels of the settings say so; in a dry run all is info."""
    if dry_run:
        return lambda severity: "info"
    kept, quiet = kept_labels(settings), settings.prometheus.ticket_only
    of_alerts = (*kept, *OWNER_LABELS)
    calm = [f"(match `^(?:{quiet[label]})$` $labels.{label})" for label in quiet if label in of_alerts]
    if not calm:
        return lambda severity: severity
    lowered = f"{{{{ if or {' '.join(calm)} }}}}warning{{{{ else }}}}critical{{{{ end }}}}"
    return lambda severity: lowered if severity == "critical" else severity


@dataclass(frozen=True)
class Links:
    """Where people find more. Without a trailing slash."""

    runbooks: str
    dashboards: str
    status_page: str

    @classmethod
    def from_settings(cls, settings: Settings) -> Links:
        """The configured places; runbooks are on the status page where nothing else is said."""
        links = settings.links
        status_page = filled(links.status_page.rstrip("/"), _label)
        return cls(
            runbooks=runbooks(links, status_page),
            dashboards=links.dashboards.rstrip("/") or GRAFANA_PLACEHOLDER,
            status_page=status_page,
        )

    def client(self) -> str:
        """Template of the address of the alert's client on the status page."""
        return f"{self.status_page}/client?{_parameters('', ('service', 'instance', 'client_id'))}"

    def dashboard(self, uid: str, labels: Sequence[str]) -> str:
        """Template of the address of a dashboard, its variables set from the alert's labels."""
        return f"{self.dashboards}/d/{uid}?{chosen(KEPT)}{_parameters('var-', labels)}"


@dataclass(frozen=True)
class Alert:
    """An alert rule.

    `hold`: how long the condition must last. `keep`: for how long it goes on firing afterwards. `runbook`: name of the
    page. `limits`: the fields of `Limits` that it uses. `dashboard_labels`: the variables of
    the dashboard are set from these. `why`: the reason of threshold and times, kept above the rule.
    """

    name: str
    severity: str
    expr: str
    summary: str
    description: str
    runbook: str
    dashboard: str
    why: str
    dashboard_labels: tuple[str, ...] = CLIENT
    hold: str = ""
    keep: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recording:
    """A recording rule."""

    name: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


def rules_file(
    source: str,
    groups: Mapping[str, Sequence[Alert | Recording]],
    links: Links,
    severe: Severe,
    interval: str = "",
) -> str:
    """A rules file. `severe`: what the severity of an alert becomes in it; `interval`: of evaluation, '' for any."""
    header = f"Generated from {source} by `kafka-health generate`: do not edit."
    nodes: list[Node] = [
        {
            "name": name,
            **({"interval": interval} if interval else {}),
            "rules": [_rule(rule, links, severe) for rule in rules],
        }
        for name, rules in groups.items()
    ]
    return document(header, {"groups": nodes})


def _rule(rule: Alert | Recording, links: Links, severe: Severe) -> Node:
    if isinstance(rule, Recording):
        recording: dict[str, Node] = {"record": rule.name, "expr": rule.expr}
        return recording | ({"labels": rule.labels} if rule.labels else {})
    node: dict[str, Node] = {"alert": rule.name, "expr": rule.expr}
    if rule.hold:
        node["for"] = rule.hold
    if rule.keep:
        node["keep_firing_for"] = rule.keep
    node["labels"] = {"severity": severe(rule.severity), **rule.labels}
    node["annotations"] = {
        "summary": rule.summary,
        "description": rule.description,
        "runbook_url": f"{links.runbooks}/{quote(rule.runbook)}",
        "dashboard_url": links.dashboard(rule.dashboard, rule.dashboard_labels),
    }
    return Commented(rule.why, node)


def _label(name: str) -> str:
    """Of shards any one leads on, or answers for all."""
    return "1" if name == "shard" else f"{{{{ $labels.{name} | urlquery }}}}"


def _parameters(prefix: str, labels: Sequence[str]) -> str:
    return "&".join(f"{prefix}{label}={{{{ $labels.{label} | urlquery }}}}" for label in labels)
